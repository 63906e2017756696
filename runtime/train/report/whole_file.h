// Text files that are replaced as a whole.
#pragma once

#include <stdio.h>

#include "compiler/abi/output.h"
#include "runtime/internal.h"

// A text in the making: what is printed to `out`.
typedef struct made_text {
  FILE *out;
  char *text;  // after text_close, of `size` bytes and a 0 behind them; the caller frees it
  size_t size;
} made_text;

bool text_open(made_text *s);  // false: no memory
// Nothing more is printed. False: the text is not whole, for want of memory. A stream that is not
// open may be closed.
bool text_close(made_text *s);
// The end of a text that becomes a file, unless `status` is a failure, which is then returned.
// OUTPUT_FOLLOW may be among the flags. If the text holds OUTPUT_MARK_TEXT, that becomes its mark.
rec_status text_save(made_text *s, rec_status status, const char *path, unsigned flags);

// Writes beside the file and renames: who reads it, and a disk that is full, finds the old text or
// the new one. A link is replaced, not what it names.
rec_status whole_file_write(const char *path, const void *bytes, size_t size);
// What output_allowed says.
rec_status whole_file_allowed(const char *path, const output_proof *proof, bool again);
// The bytes of a file, and a 0 behind them; the caller frees them.
rec_status whole_file_read(const char *path, char **text);
