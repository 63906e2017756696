// libFuzzer: any bytes are either refused with a message or a library whose manifest lies in them.
//   fuzz/library_fuzz -max_total_time=600 CORPUS tests/fuzz/seeds/library
#include <stdlib.h>
#include <string.h>

#include "runtime/library_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A copy of its own, so that the sanitizer sees a read beyond the end.
  uint8_t *bytes = malloc(size + !size);
  const char *manifest;
  if (!bytes) return 0;
  memcpy(bytes, data, size);
  rec_status status = library_find_manifest("fuzz", bytes, size, &manifest);
  if (status && !*rec_message()) abort();
  if (!status && strlen(manifest) >= size) abort();
  free(bytes);
  return 0;
}
