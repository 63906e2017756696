// Files of tokens, mapped and checked before use:
//
//   raw        numbers alone, of 16 bits (nanoGPT), 32 or 64
//   llmc       256 numbers of 32 bits (20240520, 1, how many tokens, ..), then the tokens; of 32 bits behind 20240801, 7 (llm.c)
//   megatron   NAME.bin, numbers alone, beside NAME.idx, which says their type and where documents begin (Megatron, RWKV)
//   npy        a header that says type and number, then whole numbers of any type (NumPy)
#pragma once

#include "compiler/abi/closed_sets.h"
#include "compiler/abi/token.h"
#include "runtime/internal.h"

// Whole numbers as a file has them.
typedef struct token_type {
  int bytes;       // 1, 2, 4, 8
  bool is_signed;  // the others are from 0 on
  bool swapped;    // the highest byte comes first
} token_type;

typedef struct token_file {
  token_type type;
  const char *numbers;
  int64_t count;
  int64_t document_count;  // 0: not known
  int64_t *starts;         // of the documents; document_count + 1, the last is `count`
  rec_mapping bytes;
} token_file;

// `bits` of a number as the program says, which a header may not contradict; 0: those of the
// header, else 16.
rec_status token_file_open(const char *path, token_format format, int bits, token_file *file);
void token_file_close(token_file *file);
// NAME.idx, beside NAME.bin or NAME.
file_path token_index_path(const char *path);

// The same for bytes in memory, which must outlive the file. `index`: of Megatron's, else NULL.
rec_status token_file_read(const char *path, token_format format, int bits, rec_mapping bytes,
                           const rec_mapping *index, token_file *file);

// The first number that is no token below `symbols`; `count`: there is none.
int64_t token_file_first_wrong(const token_file *file, int64_t symbols);
int64_t token_file_number(const token_file *file, int64_t place);
// `count` tokens from a place on. What is no token below `symbols` is 0: the file has changed since
// it was checked.
void token_file_copy(const token_file *file, int64_t place, int64_t count, int64_t symbols,
                     token_id *to);
