// Texts to tokens and back, as a public model has them: by a tokenizer.json of Hugging Face's
// `tokenizers`, or by a vocabulary of RWKV (rwkv_vocab_v20230424.txt). The tokens are those of the
// package, one for one; what a file asks for and this code does not have is refused by name.
//
// A text goes through five stages, each a file here:
//   added.c      added tokens are found in the text, first as it is, then in its normal form
//   normalize.c  a normal form of what lies between them
//   split.c      pieces of that, which no token crosses
//   bpe.c, unigram.c, longest.c   the model: tokens of a piece
//   encode.c     all of that for a text that comes in blocks
// decode.c goes back; read.c and steps.c read the file.
#pragma once

#include "compiler/abi/token.h"
#include "runtime/internal.h"

typedef struct tokenizer tokenizer;

// A file, or a folder that has one.
rec_status tokenizer_open(const char *path, tokenizer **opened);
// The same for bytes in memory, which need not stay; `path` stands in messages.
rec_status tokenizer_read(const char *path, const char *bytes, size_t size, tokenizer **opened);
void tokenizer_close(tokenizer *t);  // NULL is allowed

int tokenizer_size(const tokenizer *t);                         // tokens are below
token_id tokenizer_find(const tokenizer *t, const char *text);  // the token of this text, or -1
// RWKV's: token 0 has no text, and ends a text
bool tokenizer_ends_by_zero(const tokenizer *t);
// what the file puts before each text: how many
int tokenizer_first(const tokenizer *t, const token_id **tokens);
// The name of the file of a tokenizer in a folder; false: there is none.
bool tokenizer_in_folder(const char *folder, file_path *path);

// ---- encoding --------------------------------------------------------------------------------

// A text on its way. `tokens` and `count` are those since the caller last set `count` to 0.
typedef struct encoder encoder;
typedef struct encoded {
  token_id *tokens;
  size_t count, room;
  // sequences of bytes that are no UTF-8: each was read as U+FFFD, as Python reads with
  // errors="replace"
  int64_t broken;
} encoded;

rec_status encoder_new(const tokenizer *t, encoder **made);
void encoder_free(encoder *e);  // NULL is allowed
encoded *encoder_tokens(encoder *e);
rec_status encoder_take(encoder *e, const char *bytes, size_t count);
rec_status encoder_end(encoder *e);  // of the text; another one may follow

// ---- decoding --------------------------------------------------------------------------------

// Tokens on their way to a text. A character whose bytes several tokens have is held back until it
// is whole.
typedef struct decoder decoder;
rec_status decoder_new(const tokenizer *t, decoder **made);
void decoder_free(decoder *d);  // NULL is allowed
// What the tokens since the last call add to the text; numbers that are no tokens add nothing.
rec_status decoder_take(decoder *d, const token_id *tokens, size_t count, const char **text,
                        size_t *size);
// what was held back; another text may follow
rec_status decoder_end(decoder *d, const char **text, size_t *size);
