// libFuzzer: any bytes are either refused with a message, or a file of torch whose tensors can all
// be read. Each input is tried as a whole archive and as its pickle alone.
//   fuzz/torch_file_fuzz -max_total_time=600 tests/fuzz/seeds/torch_file
#include <stdlib.h>
#include <string.h>

#include "runtime/torch_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_archive(const uint8_t *bytes, size_t size) {
  torch_file *file;
  rec_status status = torch_file_from_memory("fuzz", bytes, size, &file);
  if (status && !*rec_message()) abort();
  if (status) return;
  volatile unsigned char sum = 0;
  for (int i = 0; i < torch_file_count(file); i++) {
    const rec_tensor *t = torch_file_tensor(file, i);
    if (t->bytes != (size_t)rec_tensor_elements(t) * rec_dtype_size(t->dtype)) abort();
    for (size_t k = 0; k < t->bytes; k++)
      sum = (unsigned char)(sum + ((const unsigned char *)t->data)[k]);
  }
  torch_file_close(file);
}

static void read_pickle(const uint8_t *bytes, size_t size) {
  torch_pickle pickle;
  rec_status status = torch_pickle_read("fuzz", (rec_mapping){bytes, size}, &pickle);
  if (status && !*rec_message()) abort();
  for (int i = 0; i < pickle.count; i++)
    if (strlen(pickle.tensors[i].name) > size || pickle.tensors[i].rank > 16) abort();
  torch_pickle_free(&pickle);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A copy of its own, so that the sanitizer sees a read beyond the end.
  uint8_t *bytes = malloc(size + !size);
  if (!bytes) return 0;
  if (size) memcpy(bytes, data, size);
  read_archive(bytes, size);
  read_pickle(bytes, size);
  free(bytes);
  return 0;
}
