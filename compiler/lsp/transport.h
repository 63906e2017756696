// Messages over a pair of streams, as the language server protocol frames them:
//
//   Content-Length: 17\r\n
//   \r\n
//   {"jsonrpc":"2.0"}
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// A larger message is skipped.
enum { LSP_LARGEST_MESSAGE = 64 << 20 };

typedef struct lsp_input {
  int file;     // read from; -1: `bytes` holds all there is
  char *bytes;  // [begin, end) have not been taken
  size_t begin, end, room;
} lsp_input;

typedef enum lsp_arrival {
  LSP_MESSAGE,
  LSP_BROKEN,  // no message; what follows may be one
  LSP_END,
} lsp_arrival;

// Waits for a message. Its text lies in the input and lives until the next call. `problem` says
// what is wrong with a broken one.
lsp_arrival lsp_read(lsp_input *in, const char **text, size_t *size, const char **problem);

// Whether the next message has begun to arrive, or the input has ended.
bool lsp_waits(const lsp_input *in);

void lsp_write(FILE *out, const char *text);
