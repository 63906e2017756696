// Text in UTF-8.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/internal.h"

typedef struct utf8_text {
  char *bytes;
  size_t size, room;
  bool failed;  // there was no memory for some of it
} utf8_text;

void text_add(utf8_text *t, const void *bytes, size_t size);
void text_add_character(utf8_text *t, int32_t c);

// The character at the beginning of `size` > 0 bytes of UTF-8, and its length.
int32_t utf8_read(const char *bytes, size_t size, int *length);
// Where the character before `at` > 0 begins.
size_t utf8_before(const char *bytes, size_t at);
int utf8_write(int32_t c, char bytes[4]);

bool utf8_is_blank(int32_t c);   // Unicode's White_Space
bool utf8_is_letter(int32_t c);  // \p{L}
bool utf8_is_number(int32_t c);  // \p{N}
bool utf8_is_punctuation(int32_t c);
bool utf8_is_word(int32_t c);  // \w of Rust's regular expressions

// Where the blanks that end at `at` begin, but not before `least`; and where those that begin there
// end.
size_t utf8_blanks_before(const char *bytes, size_t at, size_t least);
size_t utf8_blanks_behind(const char *bytes, size_t size, size_t at);

// Bytes to UTF-8: each longest beginning of a character that does not go on becomes U+FFFD, as in
// Python and Rust.
typedef struct utf8_repair {
  unsigned char part[4];
  int size;
  bool each_byte;  // becomes one of its own
  int64_t broken;
} utf8_repair;

void utf8_repair_add(utf8_repair *r, utf8_text *to, const char *bytes, size_t size);
void utf8_repair_end(utf8_repair *r, utf8_text *to);
