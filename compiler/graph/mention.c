// Does an expression name something? After an error the statements that do not name what is missing
// are still checked, so that one run reports all independent mistakes.
#include "compiler/graph/build.h"

static bool any_expr(const ast_exprs *list, const char *name) {
  for (int i = 0; i < list->count; i++)
    if (expr_mentions(list->items[i], name)) return true;
  return false;
}

static bool any_binding(const ast_bindings *list, const char *name) {
  for (int i = 0; i < list->count; i++)
    if (expr_mentions(list->items[i].value, name)) return true;
  return false;
}

static bool any_arg(const ast_args *list, const char *name) {
  for (int i = 0; i < list->count; i++)
    if (expr_mentions(list->items[i].value, name) || expr_mentions(list->items[i].to, name))
      return true;
  return false;
}

static bool in_repeat(const ast_expr *e, const char *name) {
  if (expr_mentions(e->repeat.count, name) || any_binding(&e->repeat.carried, name) ||
      expr_mentions(e->repeat.body, name))
    return true;
  for (int i = 0; i < e->repeat.statements.count; i++)
    if (stmt_mentions(e->repeat.statements.items[i], name)) return true;
  return false;
}

bool expr_mentions(const ast_expr *e, const char *name) {
  if (!e) return false;
  switch (e->kind) {
    case AST_NUMBER:
    case AST_PERCENT:
    case AST_STRING: return false;
    case AST_NAME: return e->name.text == name;
    case AST_PATH: return e->path.steps.items[0].text == name;
    case AST_NEGATE: return expr_mentions(e->negate.operand, name);
    case AST_BINARY:
      return expr_mentions(e->binary.left, name) || expr_mentions(e->binary.right, name);
    case AST_CALL: return any_arg(&e->call.args, name);
    case AST_INDEXED: return e->indexed.name.text == name;
    case AST_LAG: return e->lag.name.text == name;
    case AST_SLICE:
      return expr_mentions(e->slice.operand, name) || any_binding(&e->slice.slices, name);
    case AST_RENAME: return expr_mentions(e->rename.operand, name);
    case AST_TUPLE: return any_expr(&e->tuple.items, name);
    case AST_REPEAT: return in_repeat(e, name);
    case AST_AXES:
    case AST_MIX: return false;
  }
  return false;
}

bool stmt_mentions(const ast_stmt *s, const char *name) {
  if (s->kind == AST_LET) return expr_mentions(s->let.value, name);
  if (s->kind == AST_ASSIGN)
    return expr_mentions(s->assign.value, name) || s->assign.name.text == name;
  for (int i = 0; i < s->decls.count; i++)
    if (expr_mentions(s->decls.items[i].value, name)) return true;
  return false;
}
