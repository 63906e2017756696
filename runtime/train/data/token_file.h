// Files of 16-bit tokens, mapped and checked before use:
//
//   raw        tokens alone (nanoGPT)
//   llmc       256 numbers of 32 bits (20240520, 1, how many tokens, ..), then the tokens (llm.c)
//   megatron   NAME.bin, tokens alone, beside NAME.idx, which says where documents begin (Megatron, RWKV)
#ifndef REC_TRAIN_TOKEN_FILE_H
#define REC_TRAIN_TOKEN_FILE_H

#include "runtime/internal.h"
#include "runtime/shared/closed_sets.h"

typedef struct token_file {
  const uint16_t *tokens;
  int64_t count;
  int64_t document_count;  // 0: not known
  int64_t *starts;         // of the documents; document_count + 1, the last is `count`
  rec_mapping bytes;
} token_file;

rec_status token_file_open(const char *path, token_format format, token_file *file);
void token_file_close(token_file *file);

// The same for bytes in memory, which must outlive the file and be aligned to 2. `index`: of
// Megatron's, else NULL.
rec_status token_file_read(const char *path, token_format format, rec_mapping bytes, const rec_mapping *index,
                           token_file *file);

#endif
