// What the readers of a tokenizer's parts share: checks of members, texts that are kept, the
// vocabulary.
#include "runtime/tokenizer/parts.h"

rec_status wrong_value(const tokenizer *t, const char *where, const char *member,
                       const cJSON *found, const char *wanted) {
  char *shown = found ? cJSON_PrintUnformatted(found) : NULL;
  rec_status status = rec_fail(REC_ERROR_FORMAT, "%s: %s.%s: expected %s, found %.80s", t->path,
                               where, member, wanted, shown ? shown : "none");
  cJSON_free(shown);
  return status;
}

static bool is_listed(const char *list, const char *word) {
  size_t size = strlen(word);
  for (const char *at = list; size && (at = strstr(at, word)); at += size)
    if ((at == list || at[-1] == ' ') && (at[size] == ' ' || !at[size])) return true;
  return false;
}

rec_status check_members(const tokenizer *t, const char *where, const cJSON *json,
                         const char *members) {
  for (const cJSON *m = json->child; m; m = m->next)
    if (!m->string || !is_listed(members, m->string))
      return rec_fail(REC_ERROR_UNSUPPORTED,
                      "%s: %s: expected %s, found the member %.80s, which rec does not know",
                      t->path, where, members, m->string ? m->string : "without a name");
  return REC_OK;
}

rec_status read_flag(const tokenizer *t, const char *where, const cJSON *json, const char *member,
                     bool otherwise, bool *value) {
  const cJSON *found = json_get(json, member);
  *value = found && !cJSON_IsNull(found) ? cJSON_IsTrue(found) : otherwise;
  return !found || cJSON_IsBool(found) || cJSON_IsNull(found)
             ? REC_OK
             : wrong_value(t, where, member, found, "true or false");
}

rec_status keep_text(tokenizer *t, const char *bytes, size_t size, const char **kept) {
  char *copy = rec_blocks_take(&t->memory, size + 1);
  if (!copy) return rec_no_memory();
  if (size) memcpy(copy, bytes, size);
  *kept = copy;
  return REC_OK;
}

// ---- the vocabulary ------------------------------------------------------------------------------

// A vocabulary has about as many numbers as tokens.
rec_status tokenizer_make_room(tokenizer *t, int64_t count) {
  t->token_count = (int)(count < 1 << 28 ? 2 * count + 4096 : 0);
  t->tokens = rec_blocks_list(&t->memory, t->token_count, sizeof *t->tokens);
  return t->tokens && t->token_count ? REC_OK : rec_no_memory();
}

rec_status tokenizer_set(tokenizer *t, const char *where, int64_t number, const char *bytes,
                         size_t size) {
  if (number < 0 || number >= t->token_count)
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: %s: expected numbers from 0 to %d, found another for the token %.80s",
                    t->path, where, t->token_count - 1, bytes);
  if (size > UINT32_MAX / 2) return rec_no_memory();
  t->tokens[number].bytes = bytes;
  t->tokens[number].size = (uint32_t)size;
  return REC_OK;
}

rec_status tokenizer_put(tokenizer *t, const char *where, int64_t number, const char *bytes,
                         size_t size) {
  const char *kept = bytes;
  rec_status status = keep_text(t, bytes, size, &kept);
  if (!status && !size)
    status =
        rec_fail(REC_ERROR_FORMAT, "%s: %s: expected texts, found an empty one", t->path, where);
  if (!status && number >= 0 && number < t->token_count && t->tokens[number].bytes)
    status = rec_fail(REC_ERROR_FORMAT,
                      "%s: %s: expected one token of number %lld, found %.80s and %.80s", t->path,
                      where, (long long)number, t->tokens[number].bytes, bytes);
  if (!status) status = tokenizer_set(t, where, number, kept, size);
  if (status) return status;
  int32_t before = trie_put(&t->vocabulary, bytes, size, (int32_t)number);
  if (size > t->longest) t->longest = size;
  if (before == -2) return rec_no_memory();
  // whose last one counts, as in the package
  if (before < 0 || t->model == MODEL_UNIGRAM) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT, "%s: %s: expected each token once, found %.80s twice", t->path,
                  where, bytes);
}

rec_status encoder_put(encoder *e, token_id token) {
  if (!rec_list_grow(&e->out.tokens, &e->out.room, e->out.count, 1, sizeof *e->out.tokens))
    return rec_no_memory();
  e->out.tokens[e->out.count++] = token;
  return REC_OK;
}
