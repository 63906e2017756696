// libFuzzer: any bytes are either refused with a message or a file whose tensors can all be read
// and written again.
//   fuzz/safetensors_fuzz -max_total_time=600 tests/fuzz/seeds/safetensors
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(const rec_tensor *tensor) {
  unsigned char sum = 0;
  const unsigned char *bytes = tensor->data;
  for (size_t i = 0; i < tensor->bytes; i++) sum = (unsigned char)(sum + bytes[i]);
  volatile unsigned char kept = sum;
  (void)kept;
  char text[64];
  rec_shape_text(text, sizeof text, tensor->dtype, tensor->rank, tensor->shape);
  if (!rec_dtype_is_real(tensor->dtype) || tensor->bytes > 4096) return;
  double values[4096];
  if (rec_convert(values, REC_F64, tensor->data, tensor->dtype, rec_tensor_elements(tensor)))
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A copy of its own, so that the sanitizer sees a read beyond the end.
  uint8_t *bytes = malloc(size + !size);
  if (!bytes) return 0;
  memcpy(bytes, data, size);
  rec_file *file;
  rec_status status = rec_file_from_memory("fuzz", bytes, size, &file);
  if (status && !*rec_message()) abort();
  if (!status) {
    for (int i = 0; i < rec_file_count(file); i++) touch(rec_file_tensor(file, i));
    if (rec_file_find(file, "x")) touch(rec_file_find(file, "x"));
    rec_file_metadata(file, "step");
    rec_file_close(file);
  }
  free(bytes);
  return 0;
}
