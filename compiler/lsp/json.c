// The parts of which answers are made.
#include "compiler/lsp/server.h"

static cJSON *place_json(lsp_place place) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddNumberToObject(json, "line", place.line);
  cJSON_AddNumberToObject(json, "character", place.column);
  return json;
}

cJSON *lsp_range(const lsp_server *s, const source *text, span where) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddItemToObject(json, "start", place_json(lsp_place_of(text, s->utf8, where.begin)));
  cJSON_AddItemToObject(json, "end", place_json(lsp_place_of(text, s->utf8, where.end)));
  return json;
}

cJSON *lsp_location(const lsp_server *s, arena *scratch, const lsp_analysis *a, span where) {
  const source *text = sources_get(a->all, where.source);
  const char *path = text ? lsp_source_file(scratch, text->path) : NULL;
  if (!path) return NULL;
  cJSON *json = cJSON_CreateObject();
  cJSON_AddStringToObject(json, "uri", text == a->text ? a->uri : lsp_uri_of(scratch, path));
  cJSON_AddItemToObject(json, "range", lsp_range(s, text, where));
  return json;
}

cJSON *lsp_edit(const lsp_server *s, const source *text, span where, const char *instead) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddItemToObject(json, "range", lsp_range(s, text, where));
  cJSON_AddStringToObject(json, "newText", instead);
  return json;
}
