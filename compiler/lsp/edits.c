// What changes a text: the standard layout, and what mends a mistake.
#include <string.h>

#include "compiler/abi/json.h"
#include "compiler/lsp/server.h"

// One edit, from the first line that differs to the last: marks and cursors elsewhere stay where
// they are.
static cJSON *edit_between(const lsp_question *q, const char *formatted) {
  const source *text = q->analysis->text;
  uint32_t size = (uint32_t)strlen(formatted), shorter = size < text->size ? size : text->size,
           first = 0, last = 0;
  while (first < shorter && formatted[first] == text->text[first]) first++;
  while (first > 0 && formatted[first - 1] != '\n') first--;
  while (last < shorter - first && formatted[size - 1 - last] == text->text[text->size - 1 - last])
    last++;
  while (last > 0 && formatted[size - 1 - last] != '\n') last--;
  span where = {text->id, first, text->size - last};
  arena *scratch = arena_new();
  cJSON *edits = cJSON_CreateArray();
  if (size != text->size || first < size)
    cJSON_AddItemToArray(edits,
                         lsp_edit(q->server, text, where,
                                  arena_strndup(scratch, formatted + first, size - last - first)));
  arena_free(scratch);
  return edits;
}

// null for a program that cannot be read: its messages are published.
cJSON *lsp_formatting(const lsp_question *q) {
  arena *scratch = arena_new();
  sources *all = sources_new(scratch);
  const char *error;
  const source *text = q->analysis->text ? sources_add(all, q->document->path, q->document->text,
                                                       q->document->size, &error)
                                         : NULL;
  char *formatted =
      text ? format_source(scratch, interner_new(scratch), diag_new(scratch, all), text) : NULL;
  cJSON *edits = formatted ? edit_between(q, formatted) : NULL;
  arena_free(scratch);
  return edits;
}

// ---- fixes -----------------------------------------------------------------------------------

static const char *fix_title(arena *scratch, const source *text, const diag_message *m) {
  int length = (int)(m->fix_where.end - m->fix_where.begin);
  const char *old = text->text + m->fix_where.begin;
  if (!length) return arena_printf(scratch, "insert '%s'", m->fix);
  if (!*m->fix) return arena_printf(scratch, "remove '%.*s'", length, old);
  return arena_printf(scratch, "replace '%.*s' by '%s'", length, old, m->fix);
}

static cJSON *fix_action(const lsp_question *q, const diag_message *m) {
  arena *scratch = arena_new();
  cJSON *action = cJSON_CreateObject();
  cJSON_AddStringToObject(action, "title", fix_title(scratch, q->analysis->text, m));
  cJSON_AddStringToObject(action, "kind", "quickfix");
  cJSON *diagnostics = cJSON_AddArrayToObject(action, "diagnostics");
  cJSON_AddItemToArray(diagnostics, lsp_diagnostic_of(q->server, q->document, m));
  cJSON *edits = cJSON_AddArrayToObject(
      cJSON_AddObjectToObject(cJSON_AddObjectToObject(action, "edit"), "changes"),
      q->document->uri);
  cJSON_AddItemToArray(edits, lsp_edit(q->server, q->analysis->text, m->fix_where, m->fix));
  arena_free(scratch);
  return action;
}

static uint32_t text_offset(const lsp_question *q, const cJSON *place) {
  const cJSON *line = json_get(place, "line"), *column = json_get(place, "character");
  lsp_place p = {cJSON_IsNumber(line) ? line->valueint : 0,
                 cJSON_IsNumber(column) ? column->valueint : 0};
  return (uint32_t)lsp_offset(q->document->text, q->document->size, q->server->utf8, p);
}

cJSON *lsp_code_actions(const lsp_question *q) {
  cJSON *actions = cJSON_CreateArray();
  const lsp_analysis *a = q->analysis;
  if (!a->text) return actions;
  const cJSON *range = json_get(q->params, "range");
  uint32_t begin = text_offset(q, json_get(range, "start")),
           end = text_offset(q, json_get(range, "end"));
  int count;
  const diag_message *const *messages = diag_messages(a->messages, &count);
  for (int i = 0; i < count; i++) {
    const diag_message *m = messages[i];
    bool here = m->fix && m->fix_where.source == a->text->id && m->where.begin <= end &&
                m->where.end >= begin;
    if (here) cJSON_AddItemToArray(actions, fix_action(q, m));
  }
  return actions;
}
