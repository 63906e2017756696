// Text as tokens: its characters, numbered in the order of their code points.
//
//   "abba€"     0 1 1 0 2
//
// The file stays where it is. A window is decoded from the last character before it whose place is
// known.
#include <stdlib.h>
#include <string.h>

#include "runtime/train/data/data.h"

enum { POINTS = 0x110000, STRIDE = 64 };

// The bytes of the character that begins with this one; 0: none does.
static int length_from(unsigned char first) {
  return first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
}

int train_character(const unsigned char *text, size_t size, uint32_t *point) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  unsigned char first = text[0];
  int length = length_from(first);
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

// Counts the characters; number_of is 1 where one occurs.
static rec_status find_characters(const char *path, train_text *t) {
  const unsigned char *bytes = t->bytes.bytes;
  for (size_t at = 0; at < t->bytes.size; t->count++) {
    uint32_t point;
    int length = train_character(bytes + at, t->bytes.size - at, &point);
    if (!length || !point)
      return rec_fail(REC_ERROR_FORMAT,
                      "%s: expected characters in UTF-8, found byte %d at byte %zu", path,
                      bytes[at], at);
    t->number_of[point] = 1;
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
static rec_status number_characters(const char *path, int64_t vocabulary, train_text *t) {
  int count = 0;
  for (uint32_t p = 0; p < POINTS; p++) count += t->number_of[p] != 0;
  if (count > vocabulary)
    return rec_fail(
        REC_ERROR_ARGUMENT,
        "%s: expected at most %lld different characters, the symbols of the model, found %d", path,
        (long long)vocabulary, count);
  char *to = t->characters = malloc((size_t)count * 4 + 1);
  if (!to) return rec_no_memory();
  uint32_t next = 0;
  for (uint32_t p = 0; p < POINTS; p++)
    if (t->number_of[p]) t->number_of[p] = next++, to = put_character(to, p);
  *to = 0;
  return REC_OK;
}

// The character at a byte, and how many bytes it has. A file that is changed while it is read has
// other characters, or none; their number is 0.
static int character_at(const train_text *t, size_t at, token_id *number) {
  uint32_t point = 0;
  const unsigned char *bytes = t->bytes.bytes;
  int length = at < t->bytes.size ? train_character(bytes + at, t->bytes.size - at, &point) : 0;
  *number = length ? (token_id)t->number_of[point] : 0;
  return length ? length : 1;
}

static rec_status find_character_places(train_text *t) {
  if (t->count == (int64_t)t->bytes.size) return REC_OK;
  t->places = malloc((size_t)(t->count / STRIDE + 1) * sizeof *t->places);
  if (!t->places) return rec_no_memory();
  size_t at = 0;
  token_id unused;
  for (int64_t i = 0; i <= t->count; i++) {
    if (i % STRIDE == 0) t->places[i / STRIDE] = (int64_t)at;
    at += (size_t)character_at(t, at, &unused);
  }
  return REC_OK;
}

rec_status train_text_of(const char *path, rec_mapping bytes, int64_t vocabulary, train_text *t) {
  *t = (train_text){.bytes = bytes, .number_of = calloc(POINTS, sizeof *t->number_of)};
  rec_status status = t->number_of ? find_characters(path, t) : rec_no_memory();
  if (!status) status = number_characters(path, vocabulary, t);
  if (!status) status = find_character_places(t);
  if (!status) return REC_OK;
  t->bytes = (rec_mapping){0};
  train_text_close(t);
  return status;
}

void train_text_close(train_text *t) {
  rec_unmap(&t->bytes);
  free(t->characters);
  free(t->number_of);
  free(t->places);
  *t = (train_text){0};
}

int64_t train_text_memory(const train_text *t) {
  int64_t places = t->places ? t->count / STRIDE + 1 : 0;
  return (int64_t)t->bytes.size + places * (int64_t)sizeof *t->places;
}

void train_text_read(const train_text *t, int64_t place, int64_t count, token_id *to) {
  int64_t before = t->places ? place % STRIDE : 0;
  size_t at = (size_t)(t->places ? t->places[place / STRIDE] : place);
  token_id unused;
  for (; before > 0; before--) at += (size_t)character_at(t, at, &unused);
  for (int64_t i = 0; i < count; i++) at += (size_t)character_at(t, at, &to[i]);
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

// Whether more bytes may make a character of these.
static bool is_cut_character(const char *text, size_t size) {
  const unsigned char first = (unsigned char)*text;
  if (first < 0xC2 || (size_t)length_from(first) <= size) return false;
  for (size_t i = 1; i < size; i++)
    if ((text[i] & 0xC0) != 0x80) return false;
  return true;
}

int train_alphabet_read(const train_alphabet *a, const char *text, size_t size, token_id *token) {
  if (!a->characters) return *token = (unsigned char)*text, 1;
  uint32_t point;
  int length = train_character((const unsigned char *)text, size, &point);
  if (!length && is_cut_character(text, size)) return -1;
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
