// libFuzzer: any bytes are either refused with a message or characters that are written as they were.
//   fuzz/text_fuzz -max_total_time=600 tests/fuzz/seeds/text
#include <stdlib.h>
#include <string.h>

#include "runtime/train/data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A copy of its own, so that the sanitizer sees a read beyond the end.
  char *copy = malloc(size + !size), *characters;
  uint16_t *tokens;
  int64_t count;
  if (!copy) return 0;
  if (size) memcpy(copy, data, size);
  rec_status status =
      train_text_characters("fuzz", (rec_mapping){copy, size}, 60000, &tokens, &count, &characters);
  if (status && !*rec_message()) abort();
  if (!status) {
    train_alphabet a = train_alphabet_of(characters);
    size_t at = 0;
    for (int64_t i = 0; i < count; i++) {
      int length;
      const char *text = train_alphabet_text(&a, tokens[i], &length);
      if (memcmp(copy + at, text, (size_t)length) != 0) abort();
      at += (size_t)length;
    }
    if (at != size) abort();
    free(tokens);
    free(characters);
  }
  free(copy);
  return 0;
}
