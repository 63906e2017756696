// The texts that an editor has open, and what the front end says about each.
#pragma once

#include <cjson/cJSON.h>

#include "compiler/graph/graph.h"
#include "compiler/sema/names.h"
#include "compiler/syntax/syntax.h"
#include "compiler/syntax/token.h"

// ---- places ----------------------------------------------------------------------------------
// The protocol counts lines and columns from 0; a column counts UTF-16 units, or bytes where client
// and server agree on it. Lines end with \n, perhaps behind \r.

typedef struct lsp_place {
  int line, column;
} lsp_place;

// A column behind the end of its line is that end, a line behind the last one the end of the text.
size_t lsp_offset(const char *text, size_t size, bool utf8, lsp_place place);
lsp_place lsp_place_of(const source *text, bool utf8, uint32_t offset);

// ---- analyses --------------------------------------------------------------------------------

// All about one version of a text; everything lives in its arena.
typedef struct lsp_analysis {
  arena *memory;
  const char *uri;  // the document's
  sources *all;
  interner *names;
  const source *text;  // NULL: the text is no source, and `problem` says why not
  const char *problem;
  token_stream tokens;
  ast_file *file;
  diag *messages;          // what recc would print
  typed_program *program;  // partial after errors; NULL: not checked
  graph_program *graph;    // NULL: not built
  name_uses *uses;
  bool complete;       // without errors
  bool imports_files;  // so that it depends on other texts
} lsp_analysis;

// ---- documents -------------------------------------------------------------------------------

typedef struct lsp_document {
  char *uri, *path;
  char *text;
  size_t size;
  double version;
  bool changed;            // since the messages were published
  lsp_analysis *analysis;  // of this text; NULL: not made yet
  // the last one without errors, perhaps of an earlier text; NULL: there was none
  lsp_analysis *good;
} lsp_document;

typedef struct lsp_documents {
  lsp_document **items;
  int count, room;
} lsp_documents;

lsp_document *lsp_document_find(const lsp_documents *all, const char *uri);  // NULL: not open
// Opens it, or replaces its text.
lsp_document *lsp_document_open(lsp_documents *all, const char *uri, const char *text,
                                double version);
void lsp_document_close(lsp_documents *all, lsp_document *d);
void lsp_documents_free(lsp_documents *all);
// Puts `text` in place of the bytes [begin, end).
void lsp_document_replace(lsp_document *d, size_t begin, size_t end, const char *text);
// The texts of other documents, which this one may import, have changed.
void lsp_document_stale(lsp_document *d);

// Of the present text, made where there is none.
const lsp_analysis *lsp_analyse(const lsp_documents *all, lsp_document *d);
void lsp_analysis_free(lsp_analysis *a);

// The URI of a path.
char *lsp_uri_of(arena *memory, const char *path);
