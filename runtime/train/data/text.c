// Text as tokens: its characters, numbered in the order of their code points.
//
//   "abba€"     0 1 1 0 2
#include <stdlib.h>
#include <string.h>

#include "runtime/train/data/data.h"

enum { POINTS = 0x110000 };

int train_character(const unsigned char *text, size_t size, uint32_t *point) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  unsigned char first = text[0];
  int length = first < 0x80       ? 1
               : first >> 5 == 6  ? 2
               : first >> 4 == 14 ? 3
               : first >> 3 == 30 ? 4
                                  : 0;
  if (!length || (size_t)length > size) return 0;
  uint32_t p = length == 1 ? first : first & (0x7Fu >> length);
  for (int i = 1; i < length; i++) {
    if (text[i] >> 6 != 2) return 0;
    p = p << 6 | (text[i] & 0x3Fu);
  }
  *point = p;
  bool surrogate = p >= 0xD800 && p < 0xE000;
  return p >= least[length] && p < POINTS && !surrogate ? length : 0;
}

// ---- characters ---------------------------------------------------------------------------------

typedef struct alphabet {
  uint32_t *number_of;  // by code point: first 1 where it occurs, then its number
  uint32_t end;         // behind the last that occurs
  char *characters;
} alphabet;

static rec_status find_characters(const char *path, rec_mapping text, alphabet *a, int64_t *count) {
  const unsigned char *bytes = text.bytes;
  *count = 0;
  for (size_t at = 0; at < text.size; ++*count) {
    uint32_t point;
    int length = train_character(bytes + at, text.size - at, &point);
    if (!length || !point)
      return rec_fail(REC_ERROR_FORMAT,
                      "%s: expected characters in UTF-8, found byte %d at byte %zu", path,
                      bytes[at], at);
    a->number_of[point] = 1;
    if (point >= a->end) a->end = point + 1;
    at += (size_t)length;
  }
  return REC_OK;
}

static char *put_character(char *to, uint32_t point) {
  if (point < 0x80) return *to++ = (char)point, to;
  int length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  for (int i = length - 1; i > 0; i--, point >>= 6) to[i] = (char)(0x80 | (point & 0x3F));
  to[0] = (char)((0xF0u << (4 - length)) | point);
  return to + length;
}

// Numbers the characters that occur, and lists them.
static rec_status number_characters(const char *path, int vocabulary, alphabet *a) {
  int count = 0;
  for (uint32_t p = 0; p < a->end; p++) count += a->number_of[p] != 0;
  if (count > vocabulary)
    return rec_fail(REC_ERROR_ARGUMENT,
                    "%s: expected at most %d different characters, the symbols of the model, found "
                    "%d",
                    path, vocabulary, count);
  char *to = a->characters = malloc((size_t)count * 4 + 1);
  if (!to) return rec_no_memory();
  uint32_t next = 0;
  for (uint32_t p = 0; p < a->end; p++)
    if (a->number_of[p]) a->number_of[p] = next++, to = put_character(to, p);
  *to = 0;
  return REC_OK;
}

rec_status train_text_characters(const char *path, rec_mapping text, int vocabulary,
                                 uint16_t **tokens, int64_t *count, char **characters) {
  alphabet a = {.number_of = calloc(POINTS, sizeof *a.number_of)};
  rec_status status = a.number_of ? find_characters(path, text, &a, count) : rec_no_memory();
  if (!status) status = number_characters(path, vocabulary, &a);
  if (!status) {
    *tokens = malloc(((size_t)*count + 1) * sizeof **tokens);
    if (!*tokens) status = rec_no_memory();
  }
  const unsigned char *bytes = text.bytes;
  for (int64_t i = 0; !status && i < *count; i++) {
    uint32_t point = 0;
    bytes += train_character(bytes, 4, &point);
    (*tokens)[i] = (uint16_t)a.number_of[point];
  }
  free(a.number_of);
  if (status)
    free(a.characters);
  else
    *characters = a.characters;
  return status;
}

// ---- alphabets ----------------------------------------------------------------------------------

static int width(const char *text) {
  int length = 1;
  while (*text && (text[length] & 0xC0) == 0x80) length++;
  return length;
}

train_alphabet train_alphabet_of(const char *characters) {
  train_alphabet a = {characters, characters ? 0 : 256};
  for (const char *at = characters; at && *at; at += width(at)) a.count++;
  return a;
}

int train_alphabet_read(const train_alphabet *a, const char *text, size_t size, uint16_t *token) {
  if (!a->characters) return *token = (unsigned char)*text, 1;
  uint32_t point;
  int length = train_character((const unsigned char *)text, size, &point);
  if (!length && size < 4 && (unsigned char)*text >= 0xC2) return -1;
  *token = 0;
  for (const char *at = a->characters; length && *at; at += width(at), ++*token)
    if (!strncmp(at, text, (size_t)length)) return length;
  return 0;
}

const char *train_alphabet_text(const train_alphabet *a, int token, int *size) {
  static const char space[] = " ";
  *size = 1;
  const char *at = a->characters;
  for (; token > 0 && *at; token--) at += width(at);
  return *at ? (*size = width(at), at) : space;
}

rec_status train_text_read(const char *path, int vocabulary, uint16_t **tokens, int64_t *count,
                           char **characters) {
  rec_mapping text;
  *tokens = NULL, *characters = NULL;
  rec_status status = rec_map(path, &text);
  if (status) return status;
  status = train_text_characters(path, text, vocabulary, tokens, count, characters);
  rec_unmap(&text);
  return status;
}
