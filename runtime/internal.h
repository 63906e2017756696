// Shared by the files of librec, not by its users.
#pragma once

#include <limits.h>
#include <string.h>

#include "runtime/rec.h"
#include "runtime/support/error.h"

rec_status rec_no_memory(void);
rec_status rec_file_failed(const char *path);  // by errno
// Is there a file of this name? A file that cannot be read is there: opening it says why.
bool rec_file_is_there(const char *path);

// Memory for so many bytes, not cleared, at a multiple of REC_ALIGNMENT, for free(); NULL: there is
// none. What is large lies in large pages where the system has them.
void *rec_numbers_new(int64_t bytes);

static inline bool rec_ends_with(const char *text, const char *end) {
  size_t length = strlen(text), size = strlen(end);
  return length >= size && strcmp(text + length - size, end) == 0;
}

// Pieces of memory that are given back together.
typedef struct rec_blocks {
  struct rec_block *last;
  bool failed;  // there was no memory for one of them
} rec_blocks;

void *rec_blocks_take(rec_blocks *blocks, size_t size);  // zeroed; NULL: there is none
// The same for `count` entries of `size` bytes.
void *rec_blocks_list(rec_blocks *blocks, int64_t count, size_t size);
void rec_blocks_free(rec_blocks *blocks);

// Room for `count` more entries behind the first `used` of a list, which is a pointer that realloc()
// takes; false: there is no memory, and the list is as it was.
bool rec_list_grow(void *list, size_t *room, size_t used, size_t count, size_t entry);

// The path of a file. One that is longer than the system's longest is cut, but still too long to be
// opened.
typedef struct file_path {
  char text[PATH_MAX + 1];
} file_path;

file_path rec_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

// a * b into *product; false if it does not fit. Both operands are >= 0.
static inline bool rec_multiply(int64_t a, int64_t b, int64_t *product) {
  return !__builtin_mul_overflow(a, b, product);
}

// A regular file in memory, to be read; an empty one has no bytes.
typedef struct rec_mapping {
  const void *bytes;
  size_t size;
} rec_mapping;

rec_status rec_map(const char *path, rec_mapping *mapping);
void rec_unmap(rec_mapping *mapping);
// From here on, a mapped file that is cut, or whose disk fails, ends the process. A line names the
// file, in place of SIGBUS. For programs: librec never does so by itself.
void rec_map_report_faults(void);

// The type that `--dtype` calls "f32", "f64", "bf16" or "f16", and back; false: no such name.
bool rec_number_type(const char *text, rec_dtype *type);
const char *rec_number_text(rec_dtype type);
// The type of parameters, states and lag buffers beside tokens of that type.
static inline rec_dtype rec_carried_type(rec_dtype tokens) {
  return tokens == REC_F64 ? REC_F64 : REC_F32;
}

// A number of a real type.
double rec_number_at(const void *data, rec_dtype type, int64_t place);
