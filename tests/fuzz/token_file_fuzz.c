// libFuzzer: any bytes are either refused with a message or tokens that can all be read.
//   fuzz/token_file_fuzz -max_total_time=600 tests/fuzz/seeds/token_file
// The first byte says where the index of Megatron's format ends; 0: there is none.
#include <stdlib.h>
#include <string.h>

#include "runtime/train/data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Copies of their own, so that the sanitizer sees a read beyond the end.
static rec_mapping copy(const uint8_t *data, size_t size) {
  void *bytes = malloc(size + !size);
  if (!bytes) abort();
  if (size) memcpy(bytes, data, size);
  return (rec_mapping){bytes, size};
}

static void read_tokens(const token_file *file) {
  volatile uint64_t sum = 0;
  for (int64_t i = 0; i < file->count; i++) sum += (uint64_t)token_file_number(file, i);
  if (token_file_first_wrong(file, 1) > file->count) abort();
  for (int64_t i = 0; i < file->document_count; i++)
    if (file->starts[i] > file->starts[i + 1] || file->starts[i + 1] > file->count) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  size_t index_size = data[0] < size - 1 ? data[0] : size - 1;
  rec_mapping index = copy(data + 1, index_size),
              bytes = copy(data + 1 + index_size, size - 1 - index_size);
  token_file file;
  rec_status status =
      token_file_read("fuzz.bin", FORMAT_BY_CONTENT, 0, bytes, index_size ? &index : NULL, &file);
  if (status && !*rec_message()) abort();
  if (!status) {
    read_tokens(&file);
    free(file.starts);
  }
  free((void *)index.bytes);
  free((void *)bytes.bytes);
  return 0;
}
