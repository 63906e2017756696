// libFuzzer: any bytes are either refused with a message, or a tokenizer that takes any text, whose
// tokens are those of the text in parts, and are decoded.
//   fuzz/tokenizer_fuzz -max_total_time=600 -dict=tests/fuzz/tokenizer.dict tests/fuzz/seeds/tokenizer
// The text stands behind the first 0 of the bytes, as no file of a tokenizer has one.
#include <stdlib.h>
#include <string.h>

#include "runtime/tokenizer/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Parts of `at_once` bytes, cut wherever that is allowed. NULL: the text is not taken.
static encoder *encode(const tokenizer *t, const char *bytes, size_t size, size_t at_once,
                       size_t block) {
  encoder *e;
  if (encoder_new(t, &e)) abort();
  e->block = e->wanted = block;
  rec_status status = REC_OK;
  for (size_t at = 0, part; !status && at < size; at += part) {
    part = at_once < size - at ? at_once : size - at;
    status = encoder_take(e, bytes + at, part);
  }
  if (!status) status = encoder_end(e);
  if (!status) return e;
  if (!*rec_message()) abort();
  encoder_free(e);
  return NULL;
}

static void decode(const tokenizer *t, const encoded *tokens) {
  decoder *d;
  const char *text;
  size_t size;
  if (decoder_new(t, &d)) abort();
  if (decoder_take(d, tokens->tokens, tokens->count, &text, &size) ||
      decoder_end(d, &text, &size)) {
    if (!*rec_message()) abort();
  }
  decoder_free(d);
}

static void compare(const tokenizer *t, const char *text, size_t size) {
  encoder *whole = encode(t, text, size, size, size + 1), *parts = encode(t, text, size, 3, 1);
  if (whole && parts) {
    const encoded *a = encoder_tokens(whole), *b = encoder_tokens(parts);
    if (a->count != b->count ||
        (a->count && memcmp(a->tokens, b->tokens, a->count * sizeof *a->tokens) != 0))
      abort();
    for (size_t i = 0; i < a->count; i++)
      if (a->tokens[i] < 0 || a->tokens[i] >= tokenizer_size(t)) abort();
    decode(t, a);
  }
  encoder_free(whole);
  encoder_free(parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A copy of its own, so that the sanitizer sees a read beyond the end.
  size_t length = strnlen((const char *)data, size), behind = length < size ? length + 1 : length;
  char *file = malloc(length + !length);
  tokenizer *t = NULL;
  if (!file) return 0;
  if (length) memcpy(file, data, length);
  rec_status status = tokenizer_read("fuzz", file, length, &t);
  free(file);
  if (status && !*rec_message()) abort();
  if (!status) compare(t, (const char *)data + behind, size - behind);
  tokenizer_close(t);
  return 0;
}
