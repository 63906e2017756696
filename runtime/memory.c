// Memory for numbers and lists on the host, paths.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/internal.h"

enum { LARGE_PAGE = 2 << 20 };

// Rows of a chunk lie pages apart: with pages of 4 KiB, most of what a kernel waits for is the way
// to them. A kernel that has no larger pages, or none to spare, refuses the hint, and nothing
// changes.
void *rec_numbers_new(int64_t bytes) {
  if (bytes < 0 || bytes > INT64_MAX - LARGE_PAGE) return NULL;
  size_t unit = bytes < 2 * LARGE_PAGE ? REC_ALIGNMENT : LARGE_PAGE;
  size_t size = ((size_t)bytes + unit - 1) / unit * unit;
  void *memory = aligned_alloc(unit, size ? size : unit);
#ifdef MADV_HUGEPAGE
  if (memory && unit == LARGE_PAGE) madvise(memory, size, MADV_HUGEPAGE);
#endif
  return memory;
}

typedef struct rec_block {
  struct rec_block *before;
  max_align_t bytes[];
} rec_block;

void *rec_blocks_take(rec_blocks *blocks, size_t size) {
  rec_block *block = calloc(1, sizeof *block + size);
  if (!block) {
    blocks->failed = true;
    return NULL;
  }
  block->before = blocks->last;
  blocks->last = block;
  return block->bytes;
}

void *rec_blocks_list(rec_blocks *blocks, int64_t count, size_t size) {
  int64_t bytes;
  bool fits = rec_multiply(count, (int64_t)size, &bytes) && bytes < PTRDIFF_MAX;
  if (!fits) blocks->failed = true;
  return fits ? rec_blocks_take(blocks, (size_t)bytes) : NULL;
}

void rec_blocks_free(rec_blocks *blocks) {
  for (rec_block *block = blocks->last, *before; block; block = before) {
    before = block->before;
    free(block);
  }
  *blocks = (rec_blocks){0};
}

bool rec_list_grow(void *list, size_t *room, size_t used, size_t count, size_t entry) {
  void **items = list;
  if (count <= *room - used) return true;
  size_t wanted = 2 * (used + count) + 16;
  if (count > SIZE_MAX / 4 - used || wanted > PTRDIFF_MAX / entry) return false;
  void *larger = realloc(*items, wanted * entry);
  if (!larger) return false;
  *items = larger;
  *room = wanted;
  return true;
}

file_path rec_path(const char *format, ...) {
  file_path path;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(path.text, sizeof path.text, format, arguments);
  va_end(arguments);
  return path;
}
