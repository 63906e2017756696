// A text through the front end: the passes of `recc --emit=types`, in their order. Each message is
// one that recc prints.
//
// After a mistake of syntax the rest of the tree is checked nevertheless. What is then said is kept
// from the user, for half of it follows from what is missing; but the names of the rest are known
// to hovers and completions.
#include <stdlib.h>
#include <string.h>

#include "compiler/base/embedded.h"
#include "compiler/lsp/document.h"
#include "compiler/sema/sema.h"

static bool has_file_import(const ast_file *file) {
  for (int i = 0; i < file->items.count; i++) {
    const ast_item *item = file->items.items[i];
    if (item->kind == AST_IMPORT && item->import.file) return true;
  }
  return false;
}

// Imports are looked for among the sources first: what is open counts, not what lies on the disk.
static void add_open_texts(lsp_analysis *a, const lsp_documents *all, const lsp_document *own) {
  const char *error;
  for (int i = 0; i < all->count; i++) {
    const lsp_document *d = all->items[i];
    if (d != own) sources_add(a->all, d->path, d->text, d->size, &error);
  }
}

static void check_document(lsp_analysis *a, diag *messages) {
  sema_options options = {.stdlib = embedded_stdlib, .uses = a->uses};
  a->program = sema_check(a->memory, a->names, messages, a->all, a->file, &options);
  if (!diag_has_errors(messages)) a->graph = graph_build(a->memory, a->names, messages, a->program);
}

static void analyse_document(lsp_analysis *a, const lsp_documents *all, const lsp_document *d) {
  a->text = sources_add(a->all, d->path, d->text, d->size, &a->problem);
  if (!a->text) return;
  a->tokens = lex_source(a->memory, a->names, diag_new(a->memory, a->all), a->text);
  a->file = parse_source(a->memory, a->names, a->messages, a->text);
  a->imports_files = has_file_import(a->file);
  if (a->imports_files) add_open_texts(a, all, d);
  bool parsed = !diag_has_errors(a->messages);
  check_document(a, parsed ? a->messages : diag_new(a->memory, a->all));
  a->complete = !diag_has_errors(a->messages);
}

const lsp_analysis *lsp_analyse(const lsp_documents *all, lsp_document *d) {
  if (d->analysis) return d->analysis;
  lsp_analysis *a = calloc(1, sizeof *a);
  if (!a) out_of_memory();
  a->memory = arena_new();
  a->uri = d->uri;
  a->all = sources_new(a->memory);
  a->names = interner_new(a->memory);
  a->messages = diag_new(a->memory, a->all);
  a->uses = name_uses_new(a->memory);
  analyse_document(a, all, d);
  d->analysis = a;
  if (a->complete) {
    lsp_analysis_free(d->good);
    d->good = a;
  }
  return a;
}

void lsp_analysis_free(lsp_analysis *a) {
  if (!a) return;
  arena_free(a->memory);
  free(a);
}
