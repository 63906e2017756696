// libFuzzer: any input of the language server has answers, and any text and edit of a text has
// messages.
//   fuzz/lsp_fuzz -max_total_time=600 -dict=tests/fuzz/parser.dict CORPUS tests/fuzz/seeds/lsp tests/syntax
//
// An input that begins with "Content-" is what a client sends. Any other one is a text: it is
// opened, asked about at places that follow from its bytes, changed there and asked about again.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/lsp/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char uri[] = "file:///fuzz.rec";

static void say(FILE *out, const char *method, int id, cJSON *params) {
  cJSON *message = cJSON_CreateObject();
  if (id) cJSON_AddNumberToObject(message, "id", id);
  cJSON_AddStringToObject(message, "method", method);
  cJSON_AddItemToObject(message, "params", params);
  char *text = cJSON_PrintUnformatted(message);
  lsp_write(out, text);
  cJSON_free(text);
  cJSON_Delete(message);
}

static cJSON *about(cJSON **document) {
  cJSON *params = cJSON_CreateObject();
  *document = cJSON_AddObjectToObject(params, "textDocument");
  cJSON_AddStringToObject(*document, "uri", uri);
  return params;
}

static cJSON *place(uint32_t bits) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddNumberToObject(json, "line", bits % 16);
  cJSON_AddNumberToObject(json, "character", bits / 16 % 64);
  return json;
}

static uint32_t next(uint32_t *bits) { return *bits = *bits * 1664525u + 1013904223u, *bits >> 8; }

static void ask(FILE *out, uint32_t *bits) {
  static const char *const methods[] = {"textDocument/hover",          "textDocument/definition",
                                        "textDocument/references",     "textDocument/completion",
                                        "textDocument/documentSymbol", "textDocument/formatting",
                                        "textDocument/codeAction"};
  for (int i = 0; i < 21; i++) {
    cJSON *document, *params = about(&document), *range = cJSON_AddObjectToObject(params, "range");
    cJSON_AddItemToObject(params, "position", place(next(bits)));
    cJSON_AddItemToObject(range, "start", place(0));
    cJSON_AddItemToObject(range, "end", place(next(bits)));
    say(out, methods[i % 7], i + 1, params);
  }
}

static void change(FILE *out, uint32_t *bits) {
  static const char *const texts[] = {"", "\n", "x", "}", "in_proj.", "sum[", " = "};
  cJSON *document, *params = about(&document), *edit = cJSON_CreateObject(),
                   *range = cJSON_AddObjectToObject(edit, "range");
  cJSON_AddItemToObject(range, "start", place(next(bits)));
  cJSON_AddItemToObject(range, "end", place(next(bits)));
  cJSON_AddStringToObject(edit, "text", texts[next(bits) % 7]);
  cJSON_AddItemToArray(cJSON_AddArrayToObject(params, "contentChanges"), edit);
  say(out, "textDocument/didChange", 0, params);
}

// What a client with this text says.
static void converse(FILE *out, const char *text) {
  uint32_t bits = 0;
  for (const char *c = text; *c; c++) bits = bits * 31 + (unsigned char)*c;
  say(out, "initialize", 99, cJSON_CreateObject());
  cJSON *document, *params = about(&document);
  cJSON_AddStringToObject(document, "text", text);
  say(out, "textDocument/didOpen", 0, params);
  for (int i = 0; i < 3; i++) {
    ask(out, &bits);
    change(out, &bits);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *bytes = NULL, *answers = NULL;
  size_t length = 0, answered = 0;
  FILE *said = open_memstream(&bytes, &length), *heard = open_memstream(&answers, &answered);
  bool messages = size > 8 && memcmp(data, "Content-", 8) == 0;
  if (messages) {
    fwrite(data, 1, size, said);
  } else {
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    converse(said, text);
    free(text);
  }
  fclose(said);
  lsp_input in = {.file = -1, .bytes = bytes, .end = length, .room = length};
  lsp_serve(&in, heard);
  fclose(heard);
  if (!messages && !strstr(answers, "publishDiagnostics")) abort();
  free(in.bytes);
  free(answers);
  return 0;
}
