#include "runtime/tokenizer/text.h"

#include <string.h>
#include <utf8proc.h>

void text_add(utf8_text *t, const void *bytes, size_t size) {
  if (!rec_list_grow(&t->bytes, &t->room, t->size, size, 1)) {
    t->failed = true;
    return;
  }
  if (size) memcpy(t->bytes + t->size, bytes, size);
  t->size += size;
}

void text_add_character(utf8_text *t, int32_t c) {
  char bytes[4];
  text_add(t, bytes, (size_t)utf8_write(c, bytes));
}

// ---- UTF-8 --------------------------------------------------------------------------------------

int32_t utf8_read(const char *bytes, size_t size, int *length) {
  const unsigned char *b = (const unsigned char *)bytes;
  int count = b[0] < 0x80 ? 1 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
  if ((size_t)count > size) count = 1;  // not in text that was repaired
  *length = count;
  switch (count) {
    case 1: return b[0];
    case 2: return (b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    case 3: return (b[0] & 0xf) << 12 | (b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    default: return (b[0] & 7) << 18 | (b[1] & 0x3f) << 12 | (b[2] & 0x3f) << 6 | (b[3] & 0x3f);
  }
}

size_t utf8_before(const char *bytes, size_t at) {
  do at--;
  while (at && ((unsigned char)bytes[at] & 0xc0) == 0x80);
  return at;
}

int utf8_write(int32_t c, char bytes[4]) {
  return (int)utf8proc_encode_char(c, (utf8proc_uint8_t *)bytes);
}

// ---- classes ------------------------------------------------------------------------------------

bool utf8_is_blank(int32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool is_between(int32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  utf8proc_category_t category = utf8proc_category(c);
  return category >= first && category <= last;
}

bool utf8_is_letter(int32_t c) { return is_between(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO); }
bool utf8_is_number(int32_t c) { return is_between(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }

// ASCII's symbols are among them.
bool utf8_is_punctuation(int32_t c) {
  if (c < 0x80) return c > ' ' && c < 0x7f && !utf8_is_letter(c) && !utf8_is_number(c);
  return is_between(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

// Letters, marks, digits, connectors, the circled letters and the joiners.
bool utf8_is_word(int32_t c) {
  if (is_between(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) ||
      utf8proc_category(c) == UTF8PROC_CATEGORY_PC)
    return true;
  return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) ||
         (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
         (c >= 0x1f170 && c <= 0x1f189);
}

size_t utf8_blanks_before(const char *bytes, size_t at, size_t least) {
  int length;
  for (size_t before; at > least; at = before) {
    before = utf8_before(bytes, at);
    if (!utf8_is_blank(utf8_read(bytes + before, at - before, &length))) break;
  }
  return at;
}

size_t utf8_blanks_behind(const char *bytes, size_t size, size_t at) {
  for (int length; at < size && utf8_is_blank(utf8_read(bytes + at, size - at, &length));)
    at += (size_t)length;
  return at;
}

// ---- repair -------------------------------------------------------------------------------------

// The length of the character that begins with this byte; 0: none does.
static int length_by_first(unsigned char b) {
  return b < 0x80                 ? 1
         : b >= 0xc2 && b <= 0xdf ? 2
         : b >= 0xe0 && b <= 0xef ? 3
         : b >= 0xf0 && b <= 0xf4 ? 4
                                  : 0;
}

// Whether the last byte of a part continues it (table 3-7 of the Unicode standard).
static bool continues(const unsigned char *part, int size) {
  unsigned char first = part[0], last = part[size - 1], least = 0x80, most = 0xbf;
  if (size == 2) {
    least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : least;
    most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : most;
  }
  return last >= least && last <= most;
}

static void add_replacement(utf8_repair *r, utf8_text *to) {
  for (int i = 0; i < (r->each_byte ? r->size : 1); i++) text_add_character(to, 0xfffd);
  r->broken++;
  r->size = 0;
}

static void add_byte(utf8_repair *r, utf8_text *to, unsigned char byte) {
  r->part[r->size++] = byte;
  if (r->size > 1 && !continues(r->part, r->size)) {
    r->size--;
    add_replacement(r, to);
    r->part[r->size++] = byte;
  }
  int length = length_by_first(r->part[0]);
  if (!length) {
    add_replacement(r, to);
  } else if (r->size == length) {
    text_add(to, r->part, (size_t)length);
    r->size = 0;
  }
}

void utf8_repair_add(utf8_repair *r, utf8_text *to, const char *bytes, size_t size) {
  for (size_t i = 0; i < size;) {
    size_t plain = i;
    while (!r->size && plain < size && (signed char)bytes[plain] >= 0) plain++;
    text_add(to, bytes + i, plain - i);
    i = plain;
    if (i < size) add_byte(r, to, (unsigned char)bytes[i++]);
  }
}

void utf8_repair_end(utf8_repair *r, utf8_text *to) {
  if (r->size) add_replacement(r, to);
}
