// Byte pair encoding: the tokens of a piece are its characters; of the pairs that are next to each
// other the one of lowest rank becomes one token, until no pair is left that has a rank. A heap of
// pairs makes that O(n log n).
#include <stdlib.h>

#include "runtime/tokenizer/parts.h"

// ---- merges ----------------------------------------------------------------------------------

static uint64_t pair_of(token_id left, token_id right) {
  return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

// The place of a pair, or the free one for it.
static merge *merge_at(const tokenizer *t, uint64_t pair) {
  size_t i = (pair * 0x9e3779b97f4a7c15u >> 24) & (t->merge_room - 1);
  while (t->merges[i].rank >= 0 && t->merges[i].pair != pair) i = (i + 1) & (t->merge_room - 1);
  return &t->merges[i];
}

static const merge *find_merge(const tokenizer *t, token_id left, token_id right) {
  const merge *found = merge_at(t, pair_of(left, right));
  return found->rank < 0 ? NULL : found;
}

static rec_status make_merges(tokenizer *t, int64_t count) {
  t->merge_room = 16;
  while (t->merge_room < 2 * (size_t)count) t->merge_room *= 2;
  t->merges = rec_blocks_list(&t->memory, (int64_t)t->merge_room, sizeof *t->merges);
  for (size_t i = 0; t->merges && i < t->merge_room; i++) t->merges[i].rank = -1;
  return t->merges ? REC_OK : rec_no_memory();
}

// A merge is "left right" or ["left", "right"]; its rank is its place. The last one of equal pairs
// counts, as in the package.
static rec_status read_merge(tokenizer *t, const cJSON *json, int rank) {
  const cJSON *left = cJSON_GetArrayItem(json, 0), *right = cJSON_GetArrayItem(json, 1);
  const char *a = cJSON_IsString(left) ? left->valuestring : "",
             *b = cJSON_IsString(right) ? right->valuestring : "";
  size_t size = strlen(a), other = strlen(b);
  if (cJSON_IsString(json)) {
    a = json->valuestring;
    size = strcspn(a, " ");
    b = a + size + (a[size] == ' ');
    other = strcspn(b, " ") == strlen(b) ? strlen(b) : 0;
  }
  if (!size || !other || (cJSON_IsArray(json) && cJSON_GetArraySize(json) != 2))
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: model.merges[%d]: expected two tokens, found something else", t->path,
                    rank);
  utf8_text joined = {0};
  text_add(&joined, a, size);
  text_add(&joined, b, other);
  token_id first = trie_find(&t->vocabulary, a, size), second = trie_find(&t->vocabulary, b, other);
  token_id made = joined.failed ? -1 : trie_find(&t->vocabulary, joined.bytes, joined.size);
  free(joined.bytes);
  if (first < 0 || second < 0 || made < 0)
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: model.merges[%d]: expected tokens of model.vocab, found %.*s and %.*s",
                    t->path, rank, (int)size, a, (int)other, b);
  uint64_t pair = pair_of(first, second);
  *merge_at(t, pair) = (merge){pair, rank, made};
  return REC_OK;
}

static rec_status read_merges(tokenizer *t, const cJSON *merges) {
  if (!cJSON_IsArray(merges)) return wrong_value(t, "model", "merges", merges, "a list");
  rec_status status = make_merges(t, cJSON_GetArraySize(merges));
  int rank = 0;
  for (const cJSON *m = merges->child; !status && m; m = m->next)
    if (!cJSON_IsString(m) || strncmp(m->valuestring, "#version", 8) != 0)
      status = read_merge(t, m, rank++);
  return status;
}

static rec_status read_vocabulary(tokenizer *t, const cJSON *vocabulary) {
  if (!cJSON_IsObject(vocabulary)) return wrong_value(t, "model", "vocab", vocabulary, "an object");
  rec_status status = tokenizer_make_room(t, cJSON_GetArraySize(vocabulary));
  for (const cJSON *v = vocabulary->child; !status && v; v = v->next) {
    bool whole = cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble == (double)v->valueint;
    status =
        tokenizer_put(t, "model.vocab", whole ? v->valueint : -1, v->string, strlen(v->string));
  }
  return status;
}

static rec_status read_unknown(tokenizer *t, const cJSON *json) {
  const cJSON *unknown = json_get(json, "unk_token");
  t->unknown = -1;
  if (!unknown || cJSON_IsNull(unknown)) return REC_OK;
  if (cJSON_IsString(unknown))
    t->unknown = trie_find(&t->vocabulary, unknown->valuestring, strlen(unknown->valuestring));
  return t->unknown < 0 ? wrong_value(t, "model", "unk_token", unknown, "a token of model.vocab")
                        : REC_OK;
}

rec_status read_bpe(tokenizer *t, const cJSON *json) {
  static const char *const absent[] = {"continuing_subword_prefix", "end_of_word_suffix"};
  const cJSON *dropout = json_get(json, "dropout");
  rec_status status =
      check_members(t, "model", json,
                    "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk "
                    "byte_fallback ignore_merges vocab merges");
  for (int i = 0; !status && i < 2; i++)
    if (*json_text(json, absent[i]))
      status = wrong_value(t, "model", absent[i], json_get(json, absent[i]), "none");
  if (!status && dropout && !cJSON_IsNull(dropout) &&
      (!cJSON_IsNumber(dropout) || dropout->valuedouble != 0))
    status = wrong_value(t, "model", "dropout", dropout, "none");
  if (!status) status = read_flag(t, "model", json, "fuse_unk", false, &t->fuses_unknown);
  if (!status) status = read_flag(t, "model", json, "byte_fallback", false, &t->has_bytes);
  if (!status) status = read_flag(t, "model", json, "ignore_merges", false, &t->ignores_merges);
  if (!status) status = read_vocabulary(t, json_get(json, "vocab"));
  if (!status) status = read_unknown(t, json);
  return status ? status : read_merges(t, json_get(json, "merges"));
}

// ---- encoding --------------------------------------------------------------------------------

static bool add_symbol(encoder *e, size_t *count, token_id token) {
  if (!rec_list_grow(&e->symbols, &e->symbol_room, *count, 1, sizeof *e->symbols)) return false;
  int32_t place = (int32_t)(*count)++;
  e->symbols[place] = (symbol){token, place - 1, -1, false};
  if (place) e->symbols[place - 1].next = place;
  return true;
}

// The tokens of the bytes of a character that the vocabulary lacks.
static bool add_bytes(encoder *e, size_t *count, const char *bytes, int length, bool *fits) {
  bool all = e->t->has_bytes;
  for (int i = 0; i < length; i++) all = all && e->t->bytes[(unsigned char)bytes[i]] >= 0;
  for (int i = 0; all && i < length; i++)
    *fits = *fits && add_symbol(e, count, e->t->bytes[(unsigned char)bytes[i]]);
  return all;
}

// The characters of a piece. One that is unknown waits for the next one, which may be unknown, too.
static bool add_characters(encoder *e, const char *bytes, size_t size, size_t *count) {
  const tokenizer *t = e->t;
  bool fits = true, waits = false;
  int length;
  for (size_t at = 0; fits && at < size; at += (size_t)length) {
    utf8_read(bytes + at, size - at, &length);
    token_id token = trie_find(&t->vocabulary, bytes + at, (size_t)length);
    if (token < 0 && (add_bytes(e, count, bytes + at, length, &fits) || t->unknown < 0)) continue;
    if (waits && (token >= 0 || !t->fuses_unknown)) fits = add_symbol(e, count, t->unknown);
    waits = token < 0;
    if (!waits) fits = fits && add_symbol(e, count, token);
  }
  return fits && (!waits || add_symbol(e, count, t->unknown));
}

static bool pair_comes_first(const queued *a, const queued *b) {
  return a->rank < b->rank || (a->rank == b->rank && a->place < b->place);
}

// Queues a symbol and the next one, if they have a rank.
static bool queue_pair(encoder *e, int32_t place) {
  const symbol *s = e->symbols;
  if (place < 0 || s[place].next < 0) return true;
  const merge *m = find_merge(e->t, s[place].token, s[s[place].next].token);
  if (!m) return true;
  if (!rec_list_grow(&e->queue, &e->queue_room, e->queue_count, 1, sizeof *e->queue)) return false;
  const queued q = {m->rank, place, m->token};
  size_t at = e->queue_count++;
  for (size_t up; at && pair_comes_first(&q, &e->queue[up = (at - 1) / 2]); at = up)
    e->queue[at] = e->queue[up];
  e->queue[at] = q;
  return true;
}

static queued take_first(encoder *e) {
  queued first = e->queue[0], last = e->queue[--e->queue_count];
  size_t at = 0;
  for (size_t down; (down = 2 * at + 1) < e->queue_count; at = down) {
    if (down + 1 < e->queue_count && pair_comes_first(&e->queue[down + 1], &e->queue[down])) down++;
    if (!pair_comes_first(&e->queue[down], &last)) break;
    e->queue[at] = e->queue[down];
  }
  if (e->queue_count) e->queue[at] = last;
  return first;
}

// A queued pair may be gone, or others by now.
static bool is_still_there(const encoder *e, const queued *q) {
  const symbol *left = &e->symbols[q->place];
  if (left->gone || left->next < 0) return false;
  const merge *m = find_merge(e->t, left->token, e->symbols[left->next].token);
  return m && m->token == q->token;
}

static bool merge_all(encoder *e, size_t count) {
  bool fits = true;
  e->queue_count = 0;
  for (size_t i = 0; fits && i < count; i++) fits = queue_pair(e, (int32_t)i);
  while (fits && e->queue_count) {
    queued q = take_first(e);
    if (!is_still_there(e, &q)) continue;
    symbol *left = &e->symbols[q.place], *right = &e->symbols[left->next];
    *left = (symbol){q.token, left->before, right->next, false};
    right->gone = true;
    if (left->next >= 0) e->symbols[left->next].before = q.place;
    fits = queue_pair(e, left->before) && queue_pair(e, q.place);
  }
  return fits;
}

static rec_status encode_new(encoder *e, const char *bytes, size_t size) {
  size_t count = 0;
  if (size > INT32_MAX / 2)
    return rec_fail(REC_ERROR_UNSUPPORTED, "expected pieces of text below 1 GiB, found one of %zu",
                    size);
  if (!add_characters(e, bytes, size, &count) || !merge_all(e, count)) return rec_no_memory();
  rec_status status = REC_OK;
  for (size_t i = 0; !status && i < count; i++)
    if (!e->symbols[i].gone) status = encoder_put(e, e->symbols[i].token);
  return status;
}

static cached *cached_at(const encoder *e, const char *bytes, size_t size) {
  uint64_t hash = size;
  for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
  return &e->cache[(hash ^ hash >> 32) % CACHED_PIECES];
}

static rec_status encode_piece(encoder *e, const char *bytes, size_t size) {
  token_id whole = e->t->ignores_merges ? trie_find(&e->t->vocabulary, bytes, size) : -1;
  if (whole >= 0) return encoder_put(e, whole);
  if (size > CACHED_TEXT) return encode_new(e, bytes, size);
  cached *c = cached_at(e, bytes, size);
  rec_status status = REC_OK;
  if (c->size == size && !memcmp(c->text, bytes, size)) {
    for (int i = 0; !status && i < c->count; i++) status = encoder_put(e, c->tokens[i]);
    return status;
  }
  size_t before = e->out.count;
  status = encode_new(e, bytes, size);
  size_t count = e->out.count - before;
  if (status || count > CACHED_TOKENS) return status;
  *c = (cached){.size = (uint8_t)size, .count = (uint8_t)count};
  memcpy(c->text, bytes, size);
  if (count) memcpy(c->tokens, e->out.tokens + before, count * sizeof *c->tokens);
  return REC_OK;
}

// No merge makes a token that goes on with Metaspace's character (merges_keep_space in read.c):
// parts between them are short, and found in the cache.
rec_status encode_bpe(encoder *e, const char *bytes, size_t size) {
  size_t length = e->t->space ? strlen(e->t->space) : 0, begin = 0;
  rec_status status = REC_OK;
  for (size_t at = length; length && !status && at + length <= size; at++) {
    if (memcmp(bytes + at, e->t->space, length) != 0 ||
        !memcmp(bytes + at - length, e->t->space, length))
      continue;
    status = encode_piece(e, bytes + begin, at - begin);
    begin = at;
  }
  return status ? status : encode_piece(e, bytes + begin, size - begin);
}
