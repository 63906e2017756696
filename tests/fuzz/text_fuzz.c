// libFuzzer: any bytes are either refused with a message or characters that are written as they
// were.
//   fuzz/text_fuzz -max_total_time=600 tests/fuzz/seeds/text
#include <stdlib.h>
#include <string.h>

#include "runtime/train/data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A copy of its own, so that the sanitizer sees a read beyond the end.
  char *copy = malloc(size + !size);
  train_text read;
  if (!copy) return 0;
  if (size) memcpy(copy, data, size);
  rec_status status = train_text_of("fuzz", (rec_mapping){copy, size}, 60000, &read);
  if (status && !*rec_message()) abort();
  if (!status) {
    train_alphabet a = train_alphabet_of(read.characters);
    size_t at = 0;
    for (int64_t i = 0; i < read.count; i++) {
      int length;
      token_id token;
      train_text_read(&read, i, 1, &token);
      const char *text = train_alphabet_text(&a, token, &length);
      if (memcmp(copy + at, text, (size_t)length) != 0) abort();
      at += (size_t)length;
    }
    if (at != size) abort();
    read.bytes = (rec_mapping){0};
    train_text_close(&read);
  }
  free(copy);
  return 0;
}
