// A text that a model reads and continues. It consists of bytes, of characters of the model's
// alphabet, or, for models of token files and tasks, of token numbers between blanks, or of words
// where there is a tokenizer.
#pragma once

#include <signal.h>

#include "runtime/tokenizer/text.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/train/model/generate.h"
#include "runtime/train/model/sample.h"

typedef enum text_kind { TEXT_BYTES, TEXT_CHARACTERS, TEXT_NUMBERS, TEXT_WORDS } text_kind;

enum { MOST_END_TOKENS = 16 };

typedef struct writer {
  generator *g;
  sampler sampler;
  text_kind kind;
  train_alphabet alphabet;  // TEXT_CHARACTERS
  const tokenizer *words;   // TEXT_WORDS
  encoder *encoder;
  decoder *decoder;                // of the prompt and what is written behind it
  token_id ends[MOST_END_TOKENS];  // tokens that end the text, and are not written
  int end_count;
  const char *stop;                      // a text that ends it; NULL: none
  utf8_text held;                        // its beginning, perhaps
  bool ended, cut;                       // cut: by `stop`
  const volatile sig_atomic_t *stopped;  // not 0: no more is read or written
  char part[4];                          // of a character that the bytes read so far do not end
  size_t part_size;
  int64_t number;  // that the digits read so far begin, or -1
  double *logits;  // NULL, or room for those that each token was drawn from
  // Tokens read from the prompt, drawn from logits, and written: those drawn but the ending ones.
  int64_t read, drawn, written;
  double read_seconds, written_seconds;
} writer;

// Room of its own.
void writer_close(writer *w);

// "bytes", "characters" or "tokens".
const char *writer_unit(const writer *w);
// One of the two, or none: then the text begins as if after the end of a line, or after token 0.
// "-": standard input.
rec_status writer_read(writer *w, const char *text, const char *path);
// Draws `count` tokens to standard output.
rec_status writer_write(writer *w, int64_t count);
