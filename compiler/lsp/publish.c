// The messages of recc as diagnostics of the protocol. A message about a file that is imported
// stands at the import.

#include "compiler/lsp/server.h"

// The import through which a text came in, or the first one; the beginning of the text if there is
// none.
static span import_of(const lsp_analysis *a, uint32_t imported) {
  span first = {a->text->id, 0, 0};
  for (int i = 0; a->program && i < a->program->main->imports.count; i++) {
    const typed_import *import = &a->program->main->imports.items[i];
    if (import->file->file->source->id == imported) return import->span;
  }
  for (int i = a->file->items.count - 1; i >= 0; i--)
    if (a->file->items.items[i]->kind == AST_IMPORT)
      first = a->file->items.items[i]->import.target_span;
  return first;
}

static span place_here(const lsp_analysis *a, span where) {
  return where.source == a->text->id ? where : import_of(a, where.source);
}

// Notes, and the place of a message that stands elsewhere.
static void add_related(cJSON *to, const lsp_server *s, arena *scratch, const lsp_analysis *a,
                        const diag_message *m) {
  cJSON *related = cJSON_CreateArray();
  bool elsewhere = m->where.source && m->where.source != a->text->id;
  for (const diag_message *n = elsewhere ? m : m->note; n; n = n->note) {
    cJSON *location = n->where.source ? lsp_location(s, scratch, a, n->where) : NULL;
    if (!location) continue;
    cJSON *one = cJSON_CreateObject();
    cJSON_AddItemToObject(one, "location", location);
    cJSON_AddStringToObject(one, "message", n->text);
    cJSON_AddItemToArray(related, one);
  }
  if (cJSON_GetArraySize(related))
    cJSON_AddItemToObject(to, "relatedInformation", related);
  else
    cJSON_Delete(related);
}

static cJSON *diagnostic(cJSON *range, diag_severity severity, const char *text) {
  static const int numbers[] = {[SEVERITY_ERROR] = 1, [SEVERITY_WARNING] = 2, [SEVERITY_NOTE] = 3};
  cJSON *json = cJSON_CreateObject();
  cJSON_AddItemToObject(json, "range", range);
  cJSON_AddNumberToObject(json, "severity", numbers[severity]);
  cJSON_AddStringToObject(json, "source", "rec");
  cJSON_AddStringToObject(json, "message", text);
  return json;
}

cJSON *lsp_diagnostic_of(const lsp_server *s, const lsp_document *d, const diag_message *m) {
  const lsp_analysis *a = d->analysis;
  arena *scratch = arena_new();
  span where = place_here(a, m->where);
  if (where.end == where.begin && where.end < a->text->size && a->text->text[where.end] != '\n')
    where.end++;
  const source *other =
      where.source != m->where.source ? sources_get(a->all, m->where.source) : NULL;
  const char *text = other ? arena_printf(scratch, "%s: %s", other->path, m->text) : m->text;
  cJSON *json = diagnostic(lsp_range(s, a->text, where), m->severity, text);
  if (m->unused) cJSON_AddItemToObject(json, "tags", cJSON_CreateIntArray((const int[]){1}, 1));
  add_related(json, s, scratch, a, m);
  arena_free(scratch);
  return json;
}

// What cannot be a source at all, as bytes that are no UTF-8.
static cJSON *whole_problem(const lsp_server *s, const char *problem) {
  static const uint32_t start = 0;
  const source empty = {.text = "", .line_starts = &start, .line_count = 1};
  return diagnostic(lsp_range(s, &empty, (span){0}), SEVERITY_ERROR, problem);
}

cJSON *lsp_diagnostics(const lsp_server *s, const lsp_document *d) {
  cJSON *params = cJSON_CreateObject();
  cJSON_AddStringToObject(params, "uri", d->uri);
  cJSON_AddNumberToObject(params, "version", d->version);
  cJSON *list = cJSON_AddArrayToObject(params, "diagnostics");
  if (!d->analysis->text) {
    cJSON_AddItemToArray(list, whole_problem(s, d->analysis->problem));
    return params;
  }
  int count;
  const diag_message *const *messages = diag_messages(d->analysis->messages, &count);
  for (int i = 0; i < count; i++) cJSON_AddItemToArray(list, lsp_diagnostic_of(s, d, messages[i]));
  return params;
}
