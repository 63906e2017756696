// Added tokens: texts that are tokens wherever they stand, and are not cut into others.
#include "runtime/tokenizer/parts.h"

static bool stands_alone(const char *bytes, size_t size, size_t start, size_t end) {
  int length;
  size_t before = start ? utf8_before(bytes, start) : 0;
  return !(start && utf8_is_word(utf8_read(bytes + before, size - before, &length))) &&
         !(end < size && utf8_is_word(utf8_read(bytes + end, size - end, &length)));
}

bool added_next(const tokenizer *t, const trie *in, const char *bytes, size_t size,
                found_token *f) {
  size_t length;
  for (size_t at = f->next; at < size; at++) {
    int found =
        in->first[(unsigned char)bytes[at]] ? trie_longest(in, bytes + at, size - at, &length) : -1;
    if (found < 0) continue;
    const added_token *a = &t->added[found];
    f->next = at + length;
    if (!a->single_word || stands_alone(bytes, size, at, f->next)) {
      f->token = a->token;
      f->start = a->left ? utf8_blanks_before(bytes, at, f->end) : at;
      f->end = a->right ? utf8_blanks_behind(bytes, size, f->next) : f->next;
      return true;
    }
    at += length - 1;
  }
  return false;
}
