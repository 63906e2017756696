#include "compiler/base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ALIGNMENT = 16, FIRST_BLOCK = 16 * 1024, LARGEST_BLOCK = 1024 * 1024 };

// Blocks form a list, the one in use first. The data follows the header.
typedef struct block {
  struct block *previous;
  size_t size, used;
  _Alignas(ALIGNMENT) unsigned char data[];
} block;

struct arena {
  block *current;
};

void out_of_memory(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    fprintf(stderr, "error: out of memory: the limit (ulimit -v) is %llu MiB\n",
            (unsigned long long)limit.rlim_cur >> 20);
  else
    fputs("error: out of memory\n", stderr);
  _exit(1);
}

arena *arena_new(void) {
  arena *a = calloc(1, sizeof *a);
  if (!a) out_of_memory();
  return a;
}

void arena_free(arena *a) {
  if (!a) return;
  for (block *b = a->current; b;) {
    block *previous = b->previous;
    free(b);
    b = previous;
  }
  free(a);
}

// The block in use stays in use.
void arena_adopt(arena *a, arena *from) {
  block **end = &a->current;
  while (*end) end = &(*end)->previous;
  *end = from->current;
  free(from);
}

// Blocks double up to a limit, so that small arenas stay small and large ones need few system
// calls.
static block *add_arena_block(arena *a, size_t at_least) {
  size_t size = a->current ? a->current->size * 2 : FIRST_BLOCK;
  if (size > LARGEST_BLOCK) size = LARGEST_BLOCK;
  if (size < at_least) size = at_least;
  if (size > SIZE_MAX - sizeof(block)) out_of_memory();
  block *b = calloc(1, sizeof(block) + size);
  if (!b) out_of_memory();
  b->size = size;
  b->previous = a->current;
  a->current = b;
  return b;
}

void *arena_alloc(arena *a, size_t size) {
  if (size > SIZE_MAX / 2) out_of_memory();
  size_t rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (rounded == 0) rounded = ALIGNMENT;
  block *b = a->current;
  if (!b || b->size - b->used < rounded) b = add_arena_block(a, rounded);
  void *result = b->data + b->used;
  b->used += rounded;
  return result;
}

void *arena_alloc_array(arena *a, size_t count, size_t size) {
  if (size && count > SIZE_MAX / size) out_of_memory();
  return arena_alloc(a, count * size);
}

char *arena_strndup(arena *a, const char *text, size_t length) {
  char *copy = arena_alloc(a, length + 1);
  memcpy(copy, text, length);
  return copy;
}

char *arena_strdup(arena *a, const char *text) { return arena_strndup(a, text, strlen(text)); }

char *arena_vprintf(arena *a, const char *format, va_list arguments) {
  va_list measure;
  va_copy(measure, arguments);
  int length = vsnprintf(NULL, 0, format, measure);
  va_end(measure);
  if (length < 0) out_of_memory();
  char *text = arena_alloc(a, (size_t)length + 1);
  vsnprintf(text, (size_t)length + 1, format, arguments);
  return text;
}

char *arena_printf(arena *a, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *text = arena_vprintf(a, format, arguments);
  va_end(arguments);
  return text;
}
