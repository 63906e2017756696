#include "compiler/base/intern.h"

#include <stdint.h>
#include <string.h>

typedef struct entry {
  const char *text;  // NULL: free
  size_t length;
  uint64_t hash;
} entry;

// Open addressing; the capacity is a power of two and at most half of it is used.
struct interner {
  arena *memory;
  entry *entries;
  size_t capacity, count;
};

enum { FIRST_CAPACITY = 256 };

// FNV-1a: names are short and few.
static uint64_t hash_text(const char *text, size_t length) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
  return hash;
}

interner *interner_new(arena *a) {
  interner *names = ARENA_NEW(a, interner);
  names->memory = a;
  names->capacity = FIRST_CAPACITY;
  names->entries = ARENA_ARRAY(a, entry, names->capacity);
  return names;
}

// The entry that holds this text, or the free one where it belongs.
static entry *find_interned(const interner *names, const char *text, size_t length, uint64_t hash) {
  size_t mask = names->capacity - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    entry *e = &names->entries[i];
    if (!e->text) return e;
    if (e->hash == hash && e->length == length && memcmp(e->text, text, length) == 0) return e;
  }
}

static void grow_interner(interner *names) {
  entry *old = names->entries;
  size_t old_capacity = names->capacity;
  names->capacity *= 2;
  names->entries = ARENA_ARRAY(names->memory, entry, names->capacity);
  for (size_t i = 0; i < old_capacity; i++)
    if (old[i].text) *find_interned(names, old[i].text, old[i].length, old[i].hash) = old[i];
}

const char *intern_n(interner *names, const char *text, size_t length) {
  uint64_t hash = hash_text(text, length);
  entry *e = find_interned(names, text, length, hash);
  if (e->text) return e->text;
  const char *copy = arena_strndup(names->memory, text, length);
  *e = (entry){.text = copy, .length = length, .hash = hash};
  if (++names->count * 2 > names->capacity) grow_interner(names);
  return copy;
}

const char *intern(interner *names, const char *text) {
  return intern_n(names, text, strlen(text));
}
