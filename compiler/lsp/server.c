// The language server: takes messages of the protocol, keeps the texts, and answers from their
// analysis.
#include "compiler/lsp/server.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/abi/json.h"

// Codes of JSON-RPC and of the protocol.
enum {
  PARSE_ERROR = -32700,
  INVALID_REQUEST = -32600,
  METHOD_NOT_FOUND = -32601,
  INVALID_PARAMS = -32602,
  NOT_INITIALIZED = -32002
};

// ---- what is sent ----------------------------------------------------------------------------

// Ends the message.
static void send_message(lsp_server *s, cJSON *message) {
  char *text = cJSON_PrintUnformatted(message);
  if (!text) out_of_memory();
  lsp_write(s->out, text);
  cJSON_free(text);
  cJSON_Delete(message);
}

static cJSON *new_rpc_message(void) {
  cJSON *message = cJSON_CreateObject();
  cJSON_AddStringToObject(message, "jsonrpc", "2.0");
  return message;
}

static void notify(lsp_server *s, const char *method, cJSON *params) {
  cJSON *message = new_rpc_message();
  cJSON_AddStringToObject(message, "method", method);
  cJSON_AddItemToObject(message, "params", params);
  send_message(s, message);
}

static cJSON *answer_to(const cJSON *id) {
  cJSON *message = new_rpc_message();
  cJSON_AddItemToObject(message, "id", id ? cJSON_Duplicate(id, true) : cJSON_CreateNull());
  return message;
}

static void send_answer(lsp_server *s, const cJSON *id, cJSON *result) {
  cJSON *message = answer_to(id);
  cJSON_AddItemToObject(message, "result", result ? result : cJSON_CreateNull());
  send_message(s, message);
}

static void answer_error(lsp_server *s, const cJSON *id, int code, const char *text) {
  cJSON *message = answer_to(id), *error = cJSON_AddObjectToObject(message, "error");
  cJSON_AddNumberToObject(error, "code", code);
  cJSON_AddStringToObject(error, "message", text);
  send_message(s, message);
}

// ---- messages about programs -----------------------------------------------------------------

static void publish(lsp_server *s, lsp_document *d) {
  lsp_analyse(&s->documents, d);
  if (!d->changed) return;
  d->changed = false;
  notify(s, "textDocument/publishDiagnostics", lsp_diagnostics(s, d));
}

static void publish_all(lsp_server *s) {
  for (int i = 0; i < s->documents.count; i++)
    if (s->documents.items[i]->changed) publish(s, s->documents.items[i]);
}

// Texts that import files are checked again when another one changes.
static void importers_are_stale(lsp_server *s, const lsp_document *changed) {
  for (int i = 0; i < s->documents.count; i++) {
    lsp_document *d = s->documents.items[i];
    if (d != changed && d->analysis && d->analysis->imports_files) lsp_document_stale(d);
  }
}

// ---- the texts -------------------------------------------------------------------------------

static lsp_document *asked_document(const lsp_server *s, const cJSON *params) {
  return lsp_document_find(&s->documents, json_text(json_get(params, "textDocument"), "uri"));
}

static double version_of(const cJSON *params) {
  const cJSON *version = json_get(json_get(params, "textDocument"), "version");
  return cJSON_IsNumber(version) ? version->valuedouble : 0;
}

static void did_open(lsp_server *s, const cJSON *params) {
  const cJSON *given = json_get(params, "textDocument");
  if (!cJSON_IsString(json_get(given, "uri")) || !cJSON_IsString(json_get(given, "text"))) return;
  importers_are_stale(s, lsp_document_open(&s->documents, json_text(given, "uri"),
                                           json_text(given, "text"), version_of(params)));
}

static bool read_text_place(const cJSON *json, lsp_place *place) {
  const cJSON *line = json_get(json, "line"), *column = json_get(json, "character");
  if (!cJSON_IsNumber(line) || !cJSON_IsNumber(column)) return false;
  *place = (lsp_place){line->valueint < 0 ? 0 : line->valueint,
                       column->valueint < 0 ? 0 : column->valueint};
  return true;
}

static void change_document(const lsp_server *s, lsp_document *d, const cJSON *edit) {
  const cJSON *range = json_get(edit, "range");
  lsp_place from, to;
  size_t begin = 0, end = d->size;
  if (!cJSON_IsString(json_get(edit, "text"))) return;
  if (range) {
    if (!read_text_place(json_get(range, "start"), &from) ||
        !read_text_place(json_get(range, "end"), &to))
      return;
    begin = lsp_offset(d->text, d->size, s->utf8, from);
    end = lsp_offset(d->text, d->size, s->utf8, to);
    if (end < begin) return;
  }
  lsp_document_replace(d, begin, end, json_text(edit, "text"));
}

static void did_change(lsp_server *s, const cJSON *params) {
  lsp_document *d = asked_document(s, params);
  const cJSON *edit;
  if (!d) return;
  cJSON_ArrayForEach(edit, json_get(params, "contentChanges")) change_document(s, d, edit);
  d->version = version_of(params);
  importers_are_stale(s, d);
}

// What is closed has no messages any more.
static void did_close(lsp_server *s, const cJSON *params) {
  lsp_document *d = asked_document(s, params);
  if (!d) return;
  cJSON *empty = cJSON_CreateObject();
  cJSON_AddStringToObject(empty, "uri", d->uri);
  cJSON_AddArrayToObject(empty, "diagnostics");
  lsp_document_close(&s->documents, d);
  importers_are_stale(s, NULL);
  notify(s, "textDocument/publishDiagnostics", empty);
}

static void files_changed(lsp_server *s, const cJSON *params) {
  (void)params;
  importers_are_stale(s, NULL);
}

static void end(lsp_server *s, const cJSON *params) {
  (void)params;
  s->ended = true;
}

// ---- the beginning ---------------------------------------------------------------------------

static bool lists(const cJSON *array, const char *word) {
  const cJSON *item;
  cJSON_ArrayForEach(
      item, array) if (cJSON_IsString(item) && strcmp(item->valuestring, word) == 0) return true;
  return false;
}

static cJSON *capabilities(const lsp_server *s) {
  static const char *const able[] = {"hoverProvider",          "definitionProvider",
                                     "referencesProvider",     "documentHighlightProvider",
                                     "documentSymbolProvider", "documentFormattingProvider"};
  static const char *const triggers[] = {".", "[", "~"}, *const actions[] = {"quickfix"};
  cJSON *json = cJSON_CreateObject();
  cJSON_AddStringToObject(json, "positionEncoding", s->utf8 ? "utf-8" : "utf-16");
  cJSON *sync = cJSON_AddObjectToObject(json, "textDocumentSync");
  cJSON_AddBoolToObject(sync, "openClose", true);
  cJSON_AddNumberToObject(sync, "change", 2);  // by ranges
  for (size_t i = 0; i < sizeof able / sizeof *able; i++)
    cJSON_AddBoolToObject(json, able[i], true);
  cJSON_AddItemToObject(cJSON_AddObjectToObject(json, "completionProvider"), "triggerCharacters",
                        cJSON_CreateStringArray(triggers, 3));
  cJSON_AddItemToObject(cJSON_AddObjectToObject(json, "codeActionProvider"), "codeActionKinds",
                        cJSON_CreateStringArray(actions, 1));
  return json;
}

static cJSON *initialize(lsp_server *s, const cJSON *params) {
  const cJSON *able = json_get(params, "capabilities");
  s->utf8 = lists(json_get(json_get(able, "general"), "positionEncodings"), "utf-8");
  s->markdown = lists(json_get(json_get(json_get(able, "textDocument"), "hover"), "contentFormat"),
                      "markdown");
  s->initialized = true;
  cJSON *result = cJSON_CreateObject(), *info;
  cJSON_AddItemToObject(result, "capabilities", capabilities(s));
  info = cJSON_AddObjectToObject(result, "serverInfo");
  cJSON_AddStringToObject(info, "name", "rec lsp");
  cJSON_AddStringToObject(info, "version", REC_VERSION);
  return result;
}

static cJSON *shut_down(lsp_server *s, const cJSON *params) {
  (void)params;
  s->shut_down = true;
  return NULL;
}

// ---- methods ---------------------------------------------------------------------------------

typedef struct method {
  const char *name;
  void (*notified)(lsp_server *s, const cJSON *params);     // of a notification
  cJSON *(*requested)(lsp_server *s, const cJSON *params);  // of a request about no text
  cJSON *(*asked)(const lsp_question *q);                   // of a request about a text
  bool at_place;                                            // which is about a place of it
} method;

static const method methods[] = {
    {"initialize", NULL, initialize, NULL, false},
    {"shutdown", NULL, shut_down, NULL, false},
    {"exit", end, NULL, NULL, false},
    {"textDocument/didOpen", did_open, NULL, NULL, false},
    {"textDocument/didChange", did_change, NULL, NULL, false},
    {"textDocument/didClose", did_close, NULL, NULL, false},
    {"workspace/didChangeWatchedFiles", files_changed, NULL, NULL, false},
    {"textDocument/hover", NULL, NULL, lsp_hover, true},
    {"textDocument/definition", NULL, NULL, lsp_definition, true},
    {"textDocument/references", NULL, NULL, lsp_references, true},
    {"textDocument/documentHighlight", NULL, NULL, lsp_highlights, true},
    {"textDocument/completion", NULL, NULL, lsp_completion, true},
    {"textDocument/documentSymbol", NULL, NULL, lsp_symbols, false},
    {"textDocument/formatting", NULL, NULL, lsp_formatting, false},
    {"textDocument/codeAction", NULL, NULL, lsp_code_actions, false},
};

static const method *find_method(const char *name) {
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (strcmp(methods[i].name, name) == 0) return &methods[i];
  return NULL;
}

static void run_method(lsp_server *s, const method *m, const cJSON *id, const cJSON *params) {
  lsp_document *d = asked_document(s, params);
  lsp_place place = {0};
  if (!d) {
    answer_error(s, id, INVALID_PARAMS,
                 "expected the URI of an open document as textDocument.uri, found none");
  } else if (m->at_place && !read_text_place(json_get(params, "position"), &place)) {
    answer_error(s, id, INVALID_PARAMS,
                 "expected position.line and position.character, found none");
  } else {
    publish(s, d);
    lsp_question q = {.server = s, .document = d, .analysis = d->analysis, .params = params};
    q.offset = (uint32_t)lsp_offset(d->text, d->size, s->utf8, place);
    send_answer(s, id, m->asked(&q));
  }
}

static void request(lsp_server *s, const char *name, const cJSON *id, const cJSON *params) {
  const method *m = find_method(name);
  bool first = strcmp(name, "initialize") == 0;
  if (s->shut_down)
    answer_error(s, id, INVALID_REQUEST, "expected exit after shutdown, found another request");
  else if (first == s->initialized)
    answer_error(s, id, first ? INVALID_REQUEST : NOT_INITIALIZED,
                 first ? "expected initialize once, found it a second time"
                       : "expected initialize as the first request, found another one");
  else if (m && m->requested)
    send_answer(s, id, m->requested(s, params));
  else if (m && m->asked)
    run_method(s, m, id, params);
  else
    answer_error(s, id, METHOD_NOT_FOUND, "expected a method of this server, found another one");
}

// An answer to a request of this server, which makes none, has no method.
static void take_message(lsp_server *s, const cJSON *message) {
  const cJSON *id = json_get(message, "id"), *name = json_get(message, "method"),
              *params = json_get(message, "params");
  bool answers = json_get(message, "result") || json_get(message, "error");
  if (cJSON_IsObject(message) && !name && answers) return;
  if (!cJSON_IsObject(message) || !cJSON_IsString(name) ||
      (id && !cJSON_IsString(id) && !cJSON_IsNumber(id))) {
    answer_error(s, NULL, INVALID_REQUEST,
                 "expected an object with a method and perhaps an id, found something else");
  } else if (id) {
    request(s, name->valuestring, id, params);
  } else {
    const method *m = find_method(name->valuestring);
    bool exits = m && m->notified == end;
    if (m && m->notified && (exits || (s->initialized && !s->shut_down))) m->notified(s, params);
  }
}

// ---- the loop --------------------------------------------------------------------------------

static void take_message_text(lsp_server *s, const char *text, size_t size) {
  cJSON *message = cJSON_ParseWithLength(text, size);
  if (message)
    take_message(s, message);
  else
    answer_error(s, NULL, PARSE_ERROR, "expected a message in JSON, found something else");
  cJSON_Delete(message);
}

// Programs are checked when nothing more has arrived: of edits that come faster, the last one
// counts.
int lsp_serve(lsp_input *in, FILE *out) {
  lsp_server s = {.out = out};
  const char *text, *problem;
  size_t size;
  while (!s.ended) {
    if (!lsp_waits(in)) publish_all(&s);
    lsp_arrival arrival = lsp_read(in, &text, &size, &problem);
    if (arrival == LSP_END) break;
    if (arrival == LSP_BROKEN)
      answer_error(&s, NULL, PARSE_ERROR, problem);
    else
      take_message_text(&s, text, size);
  }
  if (!s.shut_down) publish_all(&s);
  lsp_documents_free(&s.documents);
  return s.ended && s.shut_down ? 0 : 1;
}
