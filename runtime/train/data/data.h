// Text or a file of tokens, the first part for training, the rest held out; or a generated task.
#pragma once

#include "runtime/train/data/tasks.h"
#include "runtime/train/data/token_file.h"

// What a train block says about its file.
typedef struct train_source {
  source_kind kind;
  token_format format;  // FORMAT_RAW: the bytes are not asked what they are
  int bits;             // SOURCE_TOKENS: of a number; 0: what the file says, else 16
  double split;
  bool streaming;     // row b of every batch reads on where it stopped
  bool apart;         // a window is of one document
  int64_t separator;  // the token between documents; -1: none
} train_source;

// The windows that are asked for.
typedef struct train_windows {
  int64_t context, rows;  // rows: of a batch
  int64_t vocabulary;     // every token must be below
} train_windows;

// A file as characters, decoded where it is read.
typedef struct train_text {
  rec_mapping bytes;
  int64_t count;        // of characters
  char *characters;     // the different ones, in UTF-8, in the order of their numbers
  uint32_t *number_of;  // by code point
  // the first bytes of characters 0, 64, 128, ..; NULL: each character is one byte
  int64_t *places;
} train_text;

typedef struct train_data {
  train_source source;
  train_windows windows;
  token_file file;    // SOURCE_TOKENS
  rec_mapping bytes;  // SOURCE_BYTES
  train_text text;    // SOURCE_CHARACTERS
  int64_t count;
  int64_t train_count;  // the first ones
  // Streaming or apart: windows are pieces of documents, none of which crosses a boundary.
  int64_t document_count;
  const int64_t *starts;   // of the documents of the training part; the last is where it ends
  int64_t *pieces_before;  // by document, the last is their number
  bool ends_count;         // the token behind a document is its last target
  void *owned_starts;
  const train_task *task;  // NULL: text
} train_data;

// One window and its next token must fit into either part.
rec_status train_data_open(const char *path, const train_source *source,
                           const train_windows *windows, train_data *data);
// `task` must outlive the data.
rec_status train_data_generate(const train_task *task, int64_t context, int64_t vocabulary,
                               train_data *data);
void train_data_close(train_data *data);

// Window number `position`, that is row position % rows of step position / rows: `length` tokens
// and their successors. At random places, or, if streaming, the next piece of what the row reads;
// or a sequence of the task and its answers. Returns the number of targets.
int64_t train_data_window(const train_data *data, uint64_t seed, uint64_t stream, uint64_t position,
                          int64_t length, token_id *tokens, token_id *targets);
// Does a state that its row has left not belong before this window? In a stream the window begins a
// document; else the window before was longer than its document.
bool train_data_begins(const train_data *data, uint64_t seed, uint64_t stream, uint64_t position);
// `length` tokens of the held-out text from `place` on, which is a ring, and their successors.
void train_data_held_out(const train_data *data, int64_t place, int64_t length, token_id *tokens,
                         token_id *targets);

// The memory that the data lie in, that of files included.
int64_t train_data_memory(const train_data *data);
// Of all tokens and what they stand for.
uint64_t train_data_hash(const train_data *data);

// text.c: the file of the bytes, which the text owns from now on; at most `vocabulary` different
// characters.
rec_status train_text_of(const char *path, rec_mapping bytes, int64_t vocabulary, train_text *text);
void train_text_close(train_text *text);
int64_t train_text_memory(const train_text *text);
// The numbers of `count` characters from a place on.
void train_text_read(const train_text *text, int64_t place, int64_t count, token_id *to);
// The first character of UTF-8 text of `size` > 0 bytes and its length; 0: it is none.
int train_character(const unsigned char *text, size_t size, uint32_t *point);

// What the tokens of a model stand for, to read and write text with it.
typedef struct train_alphabet {
  const char *characters;  // NULL: tokens are bytes
  int count;
} train_alphabet;

train_alphabet train_alphabet_of(const char *characters);
// The token of the text's first character, and how many bytes it has; 0: it is not known, -1: it
// goes on behind `size`.
int train_alphabet_read(const train_alphabet *a, const char *text, size_t size, token_id *token);
// The bytes of a token of a model of characters.
const char *train_alphabet_text(const train_alphabet *a, int token, int *size);
