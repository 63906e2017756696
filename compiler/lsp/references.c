// Where a name is declared, and where it stands.
#include "compiler/lsp/server.h"

// `import std.gla`, `import "file.rec"`: the beginning of that file.
static cJSON *imported_file(const lsp_question *q, arena *scratch) {
  const lsp_analysis *a = q->analysis;
  for (int i = 0; a->program && i < a->program->main->imports.count; i++) {
    const typed_import *import = &a->program->main->imports.items[i];
    if (q->offset < import->span.begin || q->offset > import->span.end) continue;
    return lsp_location(q->server, scratch, a, (span){import->file->file->source->id, 0, 0});
  }
  return NULL;
}

// A place of the present text, or of another one.
static cJSON *location(const lsp_question *q, arena *scratch, const lsp_analysis *a, span where) {
  where = lsp_present(q, a, where);
  if (!where.source) return NULL;
  if (a != q->analysis && where.source == a->text->id) {
    where.source = q->analysis->text->id;
    a = q->analysis;
  }
  return lsp_location(q->server, scratch, a, where);
}

cJSON *lsp_definition(const lsp_question *q) {
  lsp_named named = lsp_name_at(q);
  arena *scratch = arena_new();
  cJSON *found = named.use ? location(q, scratch, named.analysis, named.use->declared)
                           : imported_file(q, scratch);
  arena_free(scratch);
  return found;
}

static bool same_place(span a, span b) { return a.source == b.source && a.begin == b.begin; }

// Each place of the present text where the name means the same.
typedef void each_use(const lsp_question *q, cJSON *list, span where);

static cJSON *list_uses(const lsp_question *q, each_use *add) {
  lsp_named named = lsp_name_at(q);
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; named.use && i < named.analysis->uses->list.count; i++) {
    const name_use *use = &named.analysis->uses->list.items[i];
    if (!same_place(use->declared, named.use->declared) ||
        use->where.source != named.analysis->text->id)
      continue;
    span where = lsp_present(q, named.analysis, use->where);
    if (!where.source) continue;
    where.source = q->analysis->text->id;
    add(q, list, where);
  }
  return list;
}

static void add_location(const lsp_question *q, cJSON *list, span where) {
  arena *scratch = arena_new();
  cJSON_AddItemToArray(list, lsp_location(q->server, scratch, q->analysis, where));
  arena_free(scratch);
}

static void add_highlight(const lsp_question *q, cJSON *list, span where) {
  cJSON *one = cJSON_CreateObject();
  cJSON_AddItemToObject(one, "range", lsp_range(q->server, q->analysis->text, where));
  cJSON_AddItemToArray(list, one);
}

cJSON *lsp_references(const lsp_question *q) { return list_uses(q, add_location); }

cJSON *lsp_highlights(const lsp_question *q) { return list_uses(q, add_highlight); }
