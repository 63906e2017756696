// Unigram: each token has a score; the tokens of a piece are those of the largest sum (Viterbi).
#include <math.h>
#include <stdlib.h>

#include "runtime/tokenizer/parts.h"

// ["text", score]
static rec_status read_scored(tokenizer *t, const cJSON *json, int number) {
  const cJSON *name = cJSON_GetArrayItem(json, 0), *score = cJSON_GetArrayItem(json, 1);
  if (!cJSON_IsArray(json) || !cJSON_IsString(name) || !cJSON_IsNumber(score))
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: model.vocab[%d]: expected [\"token\", score], found something else",
                    t->path, number);
  rec_status status =
      tokenizer_put(t, "model.vocab", number, name->valuestring, strlen(name->valuestring));
  if (!status) t->tokens[number].score = score->valuedouble;
  return status;
}

rec_status read_unigram(tokenizer *t, const cJSON *json) {
  const cJSON *vocabulary = json_get(json, "vocab"), *unknown = json_get(json, "unk_id");
  rec_status status = check_members(t, "model", json, "type unk_id vocab byte_fallback");
  if (!status) status = read_flag(t, "model", json, "byte_fallback", false, &t->has_bytes);
  if (!status && !cJSON_IsArray(vocabulary))
    status = wrong_value(t, "model", "vocab", vocabulary, "a list");
  if (!status) status = tokenizer_make_room(t, cJSON_GetArraySize(vocabulary));
  double least = INFINITY;
  int number = 0;
  for (const cJSON *v = status ? NULL : vocabulary->child; !status && v; v = v->next, number++) {
    status = read_scored(t, v, number);
    if (!status && t->tokens[number].score < least) least = t->tokens[number].score;
  }
  if (status) return status;
  t->unknown_score = least - 10;
  t->unknown = cJSON_IsNumber(unknown) ? unknown->valueint : -1;
  if (unknown && !cJSON_IsNull(unknown) && (t->unknown < 0 || t->unknown >= number))
    return wrong_value(t, "model", "unk_id", unknown, "the number of a token");
  return REC_OK;
}

// A path to `end` by a token, if none was better.
static void offer_token_path(path_node *nodes, size_t start, size_t end, double score,
                             token_id token) {
  path_node *n = &nodes[end];
  if (n->start == SIZE_MAX || score + nodes[start].score > n->score)
    *n = (path_node){score + nodes[start].score, start, 0, token};
}

static rec_status find_paths(encoder *e, const char *bytes, size_t size) {
  const tokenizer *t = e->t;
  int length;
  for (size_t at = 0; at < size; at += (size_t)length) {
    bool single = false;
    utf8_read(bytes + at, size - at, &length);
    int32_t node = 0;
    for (size_t end = at;
         end < size && (node = trie_next(&t->vocabulary, node, (unsigned char)bytes[end]));) {
      token_id token = t->vocabulary.values[node];
      end++;
      if (token < 0) continue;
      offer_token_path(e->nodes, at, end, t->tokens[token].score, token);
      single = single || end - at == (size_t)length;
    }
    if (single) continue;
    if (t->unknown < 0)
      return rec_fail(REC_ERROR_ARGUMENT,
                      "expected text of characters of the vocabulary, which has no token for "
                      "unknown ones, found %.*s",
                      length, bytes + at);
    offer_token_path(e->nodes, at, at + (size_t)length, t->unknown_score, t->unknown);
  }
  return REC_OK;
}

// Characters that are unknown and stand together are one unknown token, or the tokens of their
// bytes.
static rec_status put_unknown(encoder *e, const char *bytes, size_t size) {
  const tokenizer *t = e->t;
  token_id found = trie_find(&t->vocabulary, bytes, size);
  bool all = t->has_bytes && found < 0;
  for (size_t i = 0; i < size && all; i++) all = t->bytes[(unsigned char)bytes[i]] >= 0;
  if (!all) return encoder_put(e, found < 0 ? t->unknown : found);
  rec_status status = REC_OK;
  for (size_t i = 0; i < size && !status; i++)
    status = encoder_put(e, t->bytes[(unsigned char)bytes[i]]);
  return status;
}

rec_status encode_unigram(encoder *e, const char *bytes, size_t size) {
  const tokenizer *t = e->t;
  if (!rec_list_grow(&e->nodes, &e->node_room, 0, size + 1, sizeof *e->nodes))
    return rec_no_memory();
  for (size_t i = 0; i <= size; i++) e->nodes[i] = (path_node){0, SIZE_MAX, 0, -1};
  rec_status status = find_paths(e, bytes, size);
  if (status) return status;
  for (size_t at = size; at > 0; at = e->nodes[at].start) e->nodes[e->nodes[at].start].end = at;
  for (size_t at = 0, end; !status && at < size; at = end) {
    end = e->nodes[at].end;
    token_id token = e->nodes[end].token;
    while (token == t->unknown && end < size && e->nodes[e->nodes[end].end].token == token)
      end = e->nodes[end].end;
    status = token == t->unknown ? put_unknown(e, bytes + at, end - at) : encoder_put(e, token);
  }
  return status;
}
