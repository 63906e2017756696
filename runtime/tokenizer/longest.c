// RWKV's vocabularies: a line for each token, and always the longest token that the bytes go on
// with.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/tokenizer/parts.h"

// ---- reading: NUMBER LITERAL LENGTH, where the literal is that of Python's repr of a str or of
// bytes ----

typedef struct literal {
  const char *at, *end;
  bool of_bytes;  // \xHH is a byte, not a character
  bool wrong;
} literal;

static int32_t read_hex(literal *l, int digits) {
  uint32_t value = 0;
  for (; digits > 0 && l->at < l->end && isxdigit((unsigned char)*l->at); digits--, l->at++) {
    int digit = isdigit((unsigned char)*l->at) ? *l->at - '0' : (*l->at | 0x20) - 'a' + 10;
    value = 16 * value + (uint32_t)digit;
  }
  l->wrong = l->wrong || digits || value > 0x10ffff;
  return l->wrong ? 0 : (int32_t)value;
}

static void read_escape(literal *l, utf8_text *to) {
  static const char plain[] = "\\'\"nrt", meant[] = "\\'\"\n\r\t";
  char letter = l->at < l->end ? *l->at++ : 0;
  const char *found = letter ? strchr(plain, letter) : NULL;
  int digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
  l->wrong = l->wrong || (!found && !digits);
  if (found) text_add(to, &meant[found - plain], 1);
  if (!digits) return;
  int32_t c = read_hex(l, digits);
  if (l->of_bytes)
    text_add(to, &(char){(char)c}, 1);
  else
    text_add_character(to, c);
}

static bool read_literal(literal *l, utf8_text *to) {
  l->of_bytes = l->at < l->end && *l->at == 'b';
  l->at += l->of_bytes;
  char quote = l->at < l->end ? *l->at++ : 0;
  if (quote != '\'' && quote != '"') return false;
  while (!l->wrong && l->at < l->end && *l->at != quote)
    if (*l->at == '\\')
      l->at++, read_escape(l, to);
    else
      text_add(to, l->at++, 1);
  return !l->wrong && l->at++ < l->end;
}

// Digits up to a place, no more than nine; -1: something else.
static int64_t read_digits(const char **at, const char *end) {
  int64_t number = 0;
  const char *begin = *at;
  for (; *at < end && *at - begin < 10 && isdigit((unsigned char)**at); ++*at)
    number = 10 * number + (**at - '0');
  return *at == begin || *at - begin > 9 ? -1 : number;
}

static rec_status read_vocabulary_line(tokenizer *t, int line, const char *at, const char *end) {
  utf8_text token = {0};
  const char *kept = NULL;
  char where[32];
  snprintf(where, sizeof where, "line %d", line);
  int64_t number = read_digits(&at, end), length = -1;
  literal l = {.at = at + 1, .end = end};
  if (number >= 0 && at < end && *at == ' ' && read_literal(&l, &token) && l.at < end &&
      *l.at++ == ' ')
    length = read_digits(&l.at, end);
  rec_status status = REC_OK;
  if (token.failed)
    status = rec_no_memory();
  else if (length < 0 || (size_t)length != token.size || l.at < end)
    status = rec_fail(
        REC_ERROR_FORMAT,
        "%s:%d: expected a number, a text in quotes and its length in bytes, found another line",
        t->path, line);
  if (!status) status = keep_text(t, token.bytes, token.size, &kept);
  if (!status) status = tokenizer_put(t, where, number, kept, token.size);
  free(token.bytes);
  return status;
}

rec_status read_rwkv(tokenizer *t, const char *bytes, size_t size) {
  int64_t lines = 0;
  for (size_t i = 0; i < size; i++) lines += bytes[i] == '\n';
  t->model = MODEL_LONGEST;
  rec_status status = tokenizer_make_room(t, lines + 1);
  const char *end = bytes + size;
  int line = 1;
  for (const char *at = bytes, *stop; !status && at < end; at = stop + 1, line++) {
    stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    const char *last = stop > at && stop[-1] == '\r' ? stop - 1 : stop;
    if (last > at) status = read_vocabulary_line(t, line, at, last);
  }
  return status;
}

// ---- encoding --------------------------------------------------------------------------------

rec_status encode_longest(encoder *e, bool ends) {
  const utf8_text *in = &e->in;
  rec_status status = REC_OK;
  size_t at = 0, length;
  while (!status && at < in->size && (ends || in->size - at >= e->t->longest)) {
    token_id token = trie_longest(&e->t->vocabulary, in->bytes + at, in->size - at, &length);
    if (token < 0)
      return rec_fail(REC_ERROR_ARGUMENT,
                      "expected text of bytes of the vocabulary, found byte %d, which it lacks",
                      (unsigned char)in->bytes[at]);
    status = encoder_put(e, token);
    at += length;
  }
  if (at) memmove(e->in.bytes, in->bytes + at, in->size - at);
  e->in.size -= at;
  return status;
}
