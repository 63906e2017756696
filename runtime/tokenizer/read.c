// A tokenizer's file: its members one after another, then what follows from all of them.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/json_file.h"
#include "runtime/tokenizer/parts.h"

// ---- the vocabulary --------------------------------------------------------------------------

static void cut_token_room(tokenizer *t) {
  while (t->token_count && !t->tokens[t->token_count - 1].bytes) t->token_count--;
}

// <0x00> to <0xFF>.
static void find_bytes(tokenizer *t) {
  char name[8];
  for (int i = 0; i < 256; i++) {
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
    t->bytes[i] = trie_find(&t->vocabulary, name, 6);
  }
}

static rec_status read_tokenizer_model(tokenizer *t, const cJSON *json) {
  const char *type = json_text(json, "type");
  // files of before there was a type
  if (!*type && cJSON_IsArray(json_get(json, "merges"))) type = "BPE";
  if (!*type && cJSON_IsArray(json_get(json, "vocab"))) type = "Unigram";
  t->model = !strcmp(type, "Unigram") ? MODEL_UNIGRAM : MODEL_BPE;
  if (!cJSON_IsObject(json) || (t->model == MODEL_BPE && strcmp(type, "BPE") != 0))
    return wrong_value(t, "model", "type", json_get(json, "type"), "BPE or Unigram");
  rec_status status = t->model == MODEL_BPE ? read_bpe(t, json) : read_unigram(t, json);
  if (!status) find_bytes(t);
  return status;
}

// ---- added tokens ----------------------------------------------------------------------------

// A token of the model has its number; others are counted on behind the model's tokens and the
// earlier ones.
static rec_status check_number(const tokenizer *t, const char *content, token_id number,
                               token_id *next) {
  token_id expected = trie_find(&t->vocabulary, content, strlen(content));
  for (int i = 0; i < t->added_count && expected < 0; i++)
    if (!strcmp(t->added[i].content, content)) expected = t->added[i].token;
  if (expected < 0) expected = (*next)++;
  if (number == expected) return REC_OK;
  return rec_fail(
      REC_ERROR_FORMAT,
      "%s: added_tokens: expected the id %d for %.80s, as the package counts them, found %d",
      t->path, (int)expected, content, (int)number);
}

static rec_status read_added_token(tokenizer *t, const cJSON *json, token_id *next) {
  const cJSON *id = json_get(json, "id");
  const char *content = json_text(json, "content");
  added_token a = {.token = cJSON_IsNumber(id) ? id->valueint : -1};
  rec_status status = check_members(t, "added_tokens", json,
                                    "id content single_word lstrip rstrip normalized special");
  if (!status && !*content)
    status = wrong_value(t, "added_tokens", "content", json_get(json, "content"), "a text");
  if (!status) status = keep_text(t, content, strlen(content), &a.content);
  if (!status) status = read_flag(t, "added_tokens", json, "single_word", false, &a.single_word);
  if (!status) status = read_flag(t, "added_tokens", json, "lstrip", false, &a.left);
  if (!status) status = read_flag(t, "added_tokens", json, "rstrip", false, &a.right);
  if (!status) status = read_flag(t, "added_tokens", json, "normalized", true, &a.normalized);
  if (!status) status = check_number(t, content, a.token, next);
  if (!status) status = tokenizer_set(t, "added_tokens", a.token, a.content, strlen(content));
  if (!status) t->added[t->added_count++] = a;
  return status;
}

// The normal form of a token that is looked for in the normal form of a text.
static rec_status place_added(encoder *e, tokenizer *t, int i) {
  const added_token *a = &t->added[i];
  const char *shown = a->content;
  size_t size = strlen(shown);
  rec_status status = REC_OK;
  if (a->normalized) {
    status = text_normalize(e, &t->normalizer, a->content, size, true, &e->normal);
    if (!status) status = keep_text(t, e->normal.bytes, e->normal.size, &shown);
    size = e->normal.size;
    if (!status) status = tokenizer_set(t, "added_tokens", a->token, shown, size);
  }
  if (status || !size) return status;
  int32_t before = trie_put(a->normalized ? &t->added_normal : &t->added_raw, shown, size, i);
  if (before == -2) return rec_no_memory();
  return before < 0 ? REC_OK
                    : rec_fail(REC_ERROR_FORMAT,
                               "%s: added_tokens: expected each text once, found %s twice", t->path,
                               shown);
}

static rec_status read_added(tokenizer *t, const cJSON *json) {
  if (!json || cJSON_IsNull(json)) return REC_OK;
  if (!cJSON_IsArray(json)) return wrong_value(t, "tokenizer", "added_tokens", json, "a list");
  token_id next = 0;
  for (int i = 0; i < t->token_count; i++) next += t->tokens[i].bytes != NULL;
  t->added = rec_blocks_list(&t->memory, cJSON_GetArraySize(json), sizeof *t->added);
  rec_status status = t->added ? REC_OK : rec_no_memory();
  for (const cJSON *a = json->child; !status && a; a = a->next)
    status = read_added_token(t, a, &next);
  encoder *e = NULL;
  if (!status) status = encoder_new(t, &e);
  for (int i = 0; !status && i < t->added_count; i++) status = place_added(e, t, i);
  encoder_free(e);
  return status;
}

// ---- what is put before each text ------------------------------------------------------------

static rec_status read_first_tokens(tokenizer *t, const cJSON *json) {
  const char *type = json_text(json, "type");
  const cJSON *special = json_get(json, "special_tokens");
  if (!json || cJSON_IsNull(json) || !strcmp(type, "ByteLevel")) return REC_OK;
  if (strcmp(type, "TemplateProcessing") != 0)
    return wrong_value(t, "post_processor", "type", json_get(json, "type"),
                       "ByteLevel, TemplateProcessing or a Sequence of them");
  for (const cJSON *p = cJSON_GetArrayItem(json_get(json, "single"), 0);
       p && !json_get(p, "Sequence"); p = p->next) {
    const char *name = json_text(json_get(p, "SpecialToken"), "id");
    const cJSON *ids = json_get(json_get(special, name), "ids");
    t->first =
        rec_blocks_list(&t->memory, t->first_count + cJSON_GetArraySize(ids), sizeof *t->first);
    if (!t->first) return rec_no_memory();
    if (!cJSON_IsArray(ids) || t->first_count)
      return wrong_value(t, "post_processor", "single", p,
                         "at most one special token before the text");
    for (const cJSON *id = ids->child; id; id = id->next) {
      t->first[t->first_count] = cJSON_IsNumber(id) ? id->valueint : -1;
      if (t->first[t->first_count] < 0 || t->first[t->first_count] >= t->token_count)
        return wrong_value(t, "post_processor", "special_tokens", ids, "tokens");
      t->first_count++;
    }
  }
  return REC_OK;
}

static rec_status read_processor(tokenizer *t, const cJSON *json) {
  if (strcmp(json_text(json, "type"), "Sequence") != 0) return read_first_tokens(t, json);
  rec_status status = REC_OK;
  for (const cJSON *p = cJSON_GetArrayItem(json_get(json, "processors"), 0); !status && p;
       p = p->next)
    status = read_first_tokens(t, p);
  return status;
}

// ---- where a text may be cut -----------------------------------------------------------------

// Whether a text has this one behind anything else.
static bool goes_on_with(const token_text *text, const char *mark) {
  size_t length = strlen(mark);
  for (size_t at = 1; at + length <= text->size; at++)
    if (!memcmp(text->bytes + at, mark, length) &&
        (at < length || memcmp(text->bytes + at - length, mark, length) != 0))
      return true;
  return false;
}

// Metaspace's character, if BPE makes no token that has it behind another character.
static void find_space(tokenizer *t) {
  const char *space = NULL;
  for (int i = 0; i < t->normalizer.count; i++)
    if (t->normalizer.list[i].kind == STEP_REPLACE) space = t->normalizer.list[i].content;
  for (int i = 0; i < t->splitter.count; i++)
    if (t->splitter.list[i].kind == STEP_METASPACE) space = t->splitter.list[i].content;
  int length = 0;
  if (t->model != MODEL_BPE || t->ignores_merges || !space ||
      trie_find(&t->vocabulary, space, strlen(space)) < 0)
    return;
  utf8_read(space, strlen(space), &length);
  if (space[length]) return;
  for (size_t i = 0; i < t->merge_room; i++)
    if (t->merges[i].rank >= 0 && goes_on_with(&t->tokens[t->merges[i].token], space)) return;
  t->space = space;
}

// An added token must not reach over a cut, nor take the blanks beside it.
static int cuts_beside(const added_token *a) {
  size_t size = strlen(a->content);
  const token_text content = {.bytes = a->content, .size = (uint32_t)size};
  unsigned char first = (unsigned char)a->content[0], last = (unsigned char)a->content[size - 1];
  bool begins = first >= 0x80 || utf8_is_letter(first), ends = last >= 0x80 || utf8_is_letter(last);
  int cuts = CUT_SPACE | CUT_LINE;
  if (goes_on_with(&content, " ") || (a->right && ends)) cuts &= ~CUT_SPACE;
  if (strchr(a->content, '\n') || (a->left && begins)) cuts &= ~CUT_LINE;
  return cuts;
}

static int find_cuts(const tokenizer *t) {
  const steps *n = &t->normalizer, *s = &t->splitter;
  int cuts = CUT_SPACE | CUT_LINE, made = t->space ? CUT_SPACE : 0;
  bool replaces = false;
  for (int i = 0; i < n->count; i++)
    cuts &= n->list[i].cuts, replaces = replaces || n->list[i].kind == STEP_REPLACE;
  for (int i = 0; i < s->count; i++) {
    bool metaspace = s->list[i].kind == STEP_METASPACE;
    cuts &= metaspace && i + 1 < s->count ? 0 : s->list[i].cuts;
    if (replaces && !(metaspace && !strcmp(s->list[i].content, METASPACE)))
      cuts = 0;  // it finds other blanks than the text has
    made |= s->list[i].splits_at;
  }
  for (int i = 0; i < t->added_count; i++) cuts &= cuts_beside(&t->added[i]);
  return cuts & made;
}

// ---- the file --------------------------------------------------------------------------------

// cJSON's texts end at a character 0, and it takes any bytes.
static rec_status check_bytes(const tokenizer *t, const char *bytes, size_t size) {
  utf8_repair r = {0};
  utf8_text whole = {0};
  utf8_repair_add(&r, &whole, bytes, size);
  utf8_repair_end(&r, &whole);
  bool zero = false;
  for (size_t i = 0; i + 6 <= size && !zero; i++) {
    if (bytes[i] != '\\') continue;
    zero = !memcmp(bytes + i, "\\u0000", 6);
    i++;  // what is behind a backslash begins nothing
  }
  bool failed = whole.failed;
  free(whole.bytes);
  if (failed) return rec_no_memory();
  if (r.broken)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected JSON in UTF-8, found other bytes", t->path);
  return zero ? rec_fail(REC_ERROR_UNSUPPORTED,
                         "%s: expected tokens without the character \\u0000, found one with it",
                         t->path)
              : REC_OK;
}

static rec_status read_members(tokenizer *t, const cJSON *json) {
  static const char *const absent[] = {"truncation", "padding"};
  rec_status status = check_members(t, "tokenizer", json,
                                    "version truncation padding added_tokens normalizer "
                                    "pre_tokenizer post_processor decoder model");
  for (int i = 0; !status && i < 2; i++)
    if (json_get(json, absent[i]) && !cJSON_IsNull(json_get(json, absent[i])))
      status = wrong_value(t, "tokenizer", absent[i], json_get(json, absent[i]), "null");
  if (!status) status = read_normalizer(t, json_get(json, "normalizer"));
  if (!status) status = read_splitter(t, json_get(json, "pre_tokenizer"));
  if (!status) status = read_decoder(t, json_get(json, "decoder"));
  if (!status) status = read_tokenizer_model(t, json_get(json, "model"));
  if (!status) find_space(t);
  if (!status) status = read_added(t, json_get(json, "added_tokens"));
  cut_token_room(t);
  return status ? status : read_processor(t, json_get(json, "post_processor"));
}

static rec_status read_json(tokenizer *t, const char *bytes, size_t size) {
  rec_status status = check_bytes(t, bytes, size);
  if (status) return status;
  cJSON *json;
  status = json_read_text(t->path, bytes, size, &json);
  if (!status) status = read_members(t, json);
  cJSON_Delete(json);
  if (!status) t->cuts = find_cuts(t);
  return status;
}

// RWKV's vocabulary has no token 0: it is the end of a text.
static rec_status read_lines(tokenizer *t, const char *bytes, size_t size) {
  rec_status status = read_rwkv(t, bytes, size);
  if (!status && !t->tokens[0].bytes) status = tokenizer_set(t, "line 1", 0, "", 0);
  cut_token_room(t);
  return status;
}

rec_status tokenizer_read(const char *path, const char *bytes, size_t size, tokenizer **opened) {
  tokenizer *t = calloc(1, sizeof *t);
  *opened = t;
  if (!t) return rec_no_memory();
  bool room = trie_open(&t->vocabulary) && trie_open(&t->added_raw) && trie_open(&t->added_normal);
  t->unknown = -1;
  rec_status status = room ? keep_text(t, path, strlen(path), &t->path) : rec_no_memory();
  if (!status)
    status = size && bytes[0] >= '0' && bytes[0] <= '9' ? read_lines(t, bytes, size)
                                                        : read_json(t, bytes, size);
  if (!status) return REC_OK;
  tokenizer_close(t);
  *opened = NULL;
  return status;
}

bool tokenizer_in_folder(const char *folder, file_path *path) {
  static const char *const names[] = {"tokenizer.json", "rwkv_vocab_v20230424.txt"};
  for (int i = 0; i < 2; i++) {
    *path = rec_path("%s/%s", folder, names[i]);
    if (!access(path->text, F_OK)) return true;
  }
  return false;
}

rec_status tokenizer_open(const char *path, tokenizer **opened) {
  file_path inside;
  rec_mapping file;
  *opened = NULL;
  if (tokenizer_in_folder(path, &inside)) path = inside.text;
  rec_status status = rec_map(path, &file);
  if (status) return status;
  status = tokenizer_read(path, file.bytes, file.size, opened);
  rec_unmap(&file);
  return status;
}

static void close_steps(const steps *s) {
  for (int i = 0; i < s->count; i++)
    if (s->list[i].regex) onig_free(s->list[i].regex);
}

void tokenizer_close(tokenizer *t) {
  if (!t) return;
  close_steps(&t->normalizer);
  close_steps(&t->splitter);
  close_steps(&t->decoder);
  trie_close(&t->vocabulary);
  trie_close(&t->added_raw);
  trie_close(&t->added_normal);
  rec_blocks_free(&t->memory);
  free(t);
}

int tokenizer_size(const tokenizer *t) { return t->token_count; }

token_id tokenizer_find(const tokenizer *t, const char *content) {
  for (int i = 0; i < t->added_count; i++)
    if (!strcmp(t->added[i].content, content)) return t->added[i].token;
  return *content ? trie_find(&t->vocabulary, content, strlen(content)) : -1;
}

bool tokenizer_ends_by_zero(const tokenizer *t) { return t->model == MODEL_LONGEST; }

int tokenizer_first(const tokenizer *t, const token_id **tokens) {
  *tokens = t->first;
  return t->first_count;
}
