// The outline of a text: its items, and what they declare.
#include "compiler/lsp/server.h"

// SymbolKind of the protocol.
enum {
  KIND_CLASS = 5,
  KIND_FIELD = 8,
  KIND_FUNCTION = 12,
  KIND_VARIABLE = 13,
  KIND_CONSTANT = 14,
  KIND_PROPERTY = 7,
  KIND_EVENT = 24,
  KIND_STRUCT = 23
};

static cJSON *document_symbol(const lsp_question *q, const ast_name *name, const char *detail,
                              int kind, span whole) {
  cJSON *json = cJSON_CreateObject();
  span full = span_join(whole, name->span);
  cJSON_AddStringToObject(json, "name", *name->text ? name->text : "?");
  cJSON_AddStringToObject(json, "detail", detail);
  cJSON_AddNumberToObject(json, "kind", kind);
  cJSON_AddItemToObject(json, "range", lsp_range(q->server, q->analysis->text, full));
  cJSON_AddItemToObject(json, "selectionRange",
                        lsp_range(q->server, q->analysis->text, name->span));
  return json;
}

static void add_statement(const lsp_question *q, cJSON *list, const ast_stmt *stmt) {
  static const char *const words[] = {
      [AST_INPUT] = "input", [AST_PARAM] = "param", [AST_STATE] = "state", [AST_OUTPUT] = "output"};
  if (stmt->kind == AST_ASSIGN) return;
  if (stmt->kind == AST_LET) {
    for (int i = 0; i < stmt->let.binds.count; i++)
      cJSON_AddItemToArray(list, document_symbol(q, &stmt->let.binds.items[i].name, "let",
                                                 KIND_VARIABLE, stmt->span));
    return;
  }
  vec_each(const ast_decl, d, stmt->decls)
    cJSON_AddItemToArray(list,
                         document_symbol(q, &d->name, words[stmt->kind], KIND_FIELD, d->span));
}

static const char *item_word(const ast_item *item, int *kind) {
  static const struct {
    const char *word;
    int kind;
  } items[] = {[AST_RECURRENCE] = {"recurrence", KIND_STRUCT},
               [AST_LAYER] = {"layer", KIND_CLASS},
               [AST_MODEL] = {"model", KIND_CLASS},
               [AST_FN] = {"fn", KIND_FUNCTION},
               [AST_INIT] = {"init", KIND_PROPERTY},
               [AST_TRAIN] = {"train", KIND_EVENT},
               [AST_EVALUATE] = {"evaluate", KIND_EVENT}};
  *kind = items[item->kind].kind;
  return items[item->kind].word;
}

static cJSON *item_symbol(const lsp_question *q, const ast_item *item) {
  int kind;
  const char *word = item_word(item, &kind);
  cJSON *json = document_symbol(q, &item->name, word, kind, item->span);
  bool has_body =
      item->kind == AST_RECURRENCE || item->kind == AST_LAYER || item->kind == AST_MODEL;
  if (!has_body) return json;
  cJSON *children = cJSON_AddArrayToObject(json, "children");
  vec_each(const ast_header_axis, axis, item->body.header)
    cJSON_AddItemToArray(children,
                         document_symbol(q, &axis->name, "axis", KIND_CONSTANT, axis->span));
  for (int i = 0; i < item->body.statements.count; i++)
    add_statement(q, children, item->body.statements.items[i]);
  return json;
}

cJSON *lsp_symbols(const lsp_question *q) {
  cJSON *list = cJSON_CreateArray();
  if (!q->analysis->text) return list;
  for (int i = 0; i < q->analysis->file->items.count; i++) {
    const ast_item *item = q->analysis->file->items.items[i];
    if (item->kind != AST_IMPORT) cJSON_AddItemToArray(list, item_symbol(q, item));
  }
  return list;
}
