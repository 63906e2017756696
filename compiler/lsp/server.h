// The language server: what it answers to an editor. `rec lsp` runs it over standard input and
// output.
//
//   initialize, initialized, shutdown, exit               what client and server can, columns in UTF-8 where both want that
//   textDocument/didOpen, didChange, didClose             the texts; recc's messages are published behind each change
//   hover, definition, references, documentHighlight      by what sema noted about names
//   completion, documentSymbol, formatting, codeAction
#pragma once

#include "compiler/lsp/document.h"
#include "compiler/lsp/transport.h"

typedef struct lsp_server {
  FILE *out;
  lsp_documents documents;
  bool utf8;      // columns count bytes
  bool markdown;  // the client shows it
  bool initialized, shut_down, ended;
} lsp_server;

// Until the client ends it, or its input does. Returns the exit status: 0 behind `shutdown` and
// `exit`.
int lsp_serve(lsp_input *in, FILE *out);

// ---- answers: the `result` of a request; NULL is null ----------------------------------------

// A request about a place of a document.
typedef struct lsp_question {
  lsp_server *server;
  lsp_document *document;
  const lsp_analysis *analysis;  // of the document
  uint32_t offset;               // of `position`; 0 without one
  const cJSON *params;
} lsp_question;

cJSON *lsp_hover(const lsp_question *q);
cJSON *lsp_definition(const lsp_question *q);
cJSON *lsp_references(const lsp_question *q);
cJSON *lsp_highlights(const lsp_question *q);
cJSON *lsp_completion(const lsp_question *q);
cJSON *lsp_symbols(const lsp_question *q);
cJSON *lsp_formatting(const lsp_question *q);
cJSON *lsp_code_actions(const lsp_question *q);

// publish.c: the params of textDocument/publishDiagnostics.
cJSON *lsp_diagnostics(const lsp_server *s, const lsp_document *d);
cJSON *lsp_diagnostic_of(const lsp_server *s, const lsp_document *d, const diag_message *m);

// ---- what they share -------------------------------------------------------------------------

cJSON *lsp_range(const lsp_server *s, const source *text, span where);
// {uri, range}; the file of a text of the standard library is one of the installation, or a copy in
// the user's cache.
cJSON *lsp_location(const lsp_server *s, arena *scratch, const lsp_analysis *a, span where);
// {range, newText}
cJSON *lsp_edit(const lsp_server *s, const source *text, span where, const char *instead);

// stdlib_file.c: the file of a source: its path, or for a text of the standard library
// ("stdlib/gla.rec") a file that has it. NULL: there is none and none can be made.
const char *lsp_source_file(arena *scratch, const char *path);

// A name of the text and the analysis that knows it: the present one, or the last one without
// errors, for what has not changed since.
typedef struct lsp_named {
  const lsp_analysis *analysis;
  const name_use *use;  // NULL: no known name
} lsp_named;
lsp_named lsp_name_at(const lsp_question *q);
// A span of the analysis in the present text; no place if it has changed. Spans of other texts
// stay.
span lsp_present(const lsp_question *q, const lsp_analysis *a, span where);

// ---- words.c ---------------------------------------------------------------------------------

typedef enum lsp_word_kind {
  WORD_ITEM,
  WORD_STATEMENT,
  WORD_KEYWORD,
  WORD_FUNCTION,
  WORD_START,
  WORD_LAYER,
  WORD_SETTING,
  WORD_OPTIMIZER,
  WORD_SCHEDULE,
  WORD_LOSS,
  WORD_DATA,
  WORD_START_STATE,
  WORD_TASK,
  WORD_VALUE,
  WORD_KINDS,
} lsp_word_kind;

typedef struct lsp_word {
  lsp_word_kind kind;
  const char *name, *signature, *text;
} lsp_word;

extern const lsp_word lsp_words[];  // up to one without a name

// The kinds that may stand at a place, as bits.
unsigned lsp_kind_bit(lsp_word_kind kind);

// ---- place.c: what stands around a place -----------------------------------------------------

typedef struct lsp_surroundings {
  bool in_text;  // inside a comment or a string: nothing is offered there
  int next;      // the first token that does not end before the word at the place
  int item;      // the token of the item's word ("recurrence"), -1 outside of items
  // the token of the innermost open bracket of the item, -1: none, and of its own braces
  int opening;
  bool in_braces;        // inside the braces of the item
  const ast_item *tree;  // the item, in the tree of `analysis`; NULL: none was read
} lsp_surroundings;

lsp_surroundings lsp_surroundings_of(const lsp_analysis *a, uint32_t offset);
const token *lsp_token(const lsp_analysis *a, int index);  // NULL outside of the text
bool lsp_token_is(const lsp_analysis *a, int index, const char *spelling);
// The first byte of the word that ends at the offset.
uint32_t lsp_word_begin(const source *text, uint32_t offset);
// The word around the offset, in the arena; "" if there is none.
const char *lsp_word_around(arena *memory, const source *text, uint32_t offset);
