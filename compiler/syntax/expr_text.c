// An expression as one line of source with the fewest parentheses, for messages and reports.

#include "compiler/syntax/syntax.h"

// Binding strength; a child weaker than its place needs parentheses.
typedef enum level {
  LEVEL_COMPARISON,
  LEVEL_SUM,
  LEVEL_PRODUCT,
  LEVEL_UNARY,
  LEVEL_POWER,
  LEVEL_PRIMARY,
  LEVEL_POSTFIX,  // what a slice or rename may follow
} level;

typedef struct text {
  arena *memory;
  VEC(char) bytes;
} text;

static void put(text *t, const char *s) {
  for (; *s; s++) vec_push(t->memory, &t->bytes, *s);
}

static void put_expr(text *t, const ast_expr *e, level place);

static void put_names(text *t, const ast_names *names, const char *separator) {
  for (int i = 0; i < names->count; i++) {
    if (i) put(t, separator);
    put(t, names->items[i].text);
  }
}

static void put_axes(text *t, const ast_names *axes) {
  put(t, "[");
  put_names(t, axes, ",");
  put(t, "]");
}

static void put_string(text *t, const char *s) {
  put(t, "\"");
  for (; *s; s++) {
    char one[2] = {*s, 0};
    if (*s == '\n' || *s == '\t') {
      put(t, *s == '\n' ? "\\n" : "\\t");
      continue;
    }
    if (*s == '"' || *s == '\\') put(t, "\\");
    put(t, one);
  }
  put(t, "\"");
}

static level level_of(const ast_expr *e) {
  switch (e->kind) {
    case AST_NEGATE: return LEVEL_UNARY;
    case AST_NAME: return LEVEL_POSTFIX;
    case AST_MIX: return LEVEL_COMPARISON;
    case AST_BINARY:
      switch (e->binary.op) {
        case AST_ADD:
        case AST_SUBTRACT: return LEVEL_SUM;
        case AST_MULTIPLY:
        case AST_DIVIDE: return LEVEL_PRODUCT;
        case AST_POWER: return LEVEL_POWER;
        default: return LEVEL_COMPARISON;
      }
    default: return LEVEL_POSTFIX;
  }
}

static void put_binary(text *t, const ast_expr *e) {
  static const struct {
    const char *sign;
    level left, right;
  } forms[] = {
      [AST_ADD] = {" + ", LEVEL_SUM, LEVEL_PRODUCT},        [AST_SUBTRACT] = {" - ", LEVEL_SUM, LEVEL_PRODUCT},
      [AST_MULTIPLY] = {" * ", LEVEL_PRODUCT, LEVEL_UNARY}, [AST_DIVIDE] = {" / ", LEVEL_PRODUCT, LEVEL_UNARY},
      [AST_POWER] = {"^", LEVEL_PRIMARY, LEVEL_UNARY},      [AST_LESS] = {" < ", LEVEL_SUM, LEVEL_SUM},
      [AST_LESS_EQUAL] = {" <= ", LEVEL_SUM, LEVEL_SUM},    [AST_GREATER] = {" > ", LEVEL_SUM, LEVEL_SUM},
      [AST_GREATER_EQUAL] = {" >= ", LEVEL_SUM, LEVEL_SUM}, [AST_EQUAL] = {" == ", LEVEL_SUM, LEVEL_SUM},
  };
  put_expr(t, e->binary.left, forms[e->binary.op].left);
  put(t, forms[e->binary.op].sign);
  put_expr(t, e->binary.right, forms[e->binary.op].right);
}

static void put_args(text *t, const ast_args *args) {
  put(t, "(");
  for (int i = 0; i < args->count; i++) {
    const ast_arg *arg = &args->items[i];
    if (i) put(t, ", ");
    if (arg->kind == AST_ARG_NAMED) {
      put(t, arg->name.text);
      put(t, " = ");
    }
    put_expr(t, arg->value, LEVEL_COMPARISON);
    if (arg->kind == AST_ARG_ARROW) put(t, " -> ");
    if (arg->kind == AST_ARG_RANGE) put(t, "..");
    if (arg->to) put_expr(t, arg->to, LEVEL_COMPARISON);
  }
  put(t, ")");
}

static void put_bindings(text *t, const ast_bindings *list) {
  for (int i = 0; i < list->count; i++) {
    if (i) put(t, ", ");
    put(t, list->items[i].name.text);
    put(t, " = ");
    put_expr(t, list->items[i].value, LEVEL_COMPARISON);
  }
}

static void put_stmt(text *t, const ast_stmt *stmt) {
  if (stmt->kind == AST_ASSIGN) {
    put(t, stmt->assign.name.text);
    put(t, " = ");
    put_expr(t, stmt->assign.value, LEVEL_COMPARISON);
    return;
  }
  put(t, stmt->let.is_tuple ? "let (" : "let ");
  for (int i = 0; i < stmt->let.binds.count; i++) {
    const ast_bind *bind = &stmt->let.binds.items[i];
    if (i) put(t, ", ");
    put(t, bind->name.text);
    if (bind->has_axes) put_axes(t, &bind->axes);
  }
  put(t, stmt->let.is_tuple ? ") = " : " = ");
  put_expr(t, stmt->let.value, LEVEL_COMPARISON);
}

static void put_repeat(text *t, const ast_expr *e) {
  const ast_expr *count = e->repeat.count;
  bool plain = count->kind == AST_NAME || (count->kind == AST_NUMBER && count->number.is_integer);
  put(t, plain ? "repeat " : "repeat (");
  put_expr(t, count, LEVEL_COMPARISON);
  put(t, plain ? " (" : ") (");
  put_bindings(t, &e->repeat.carried);
  put(t, ") { ");
  if (e->repeat.body) put_expr(t, e->repeat.body, LEVEL_COMPARISON);
  for (int i = 0; i < e->repeat.statements.count; i++) {
    if (i) put(t, "  ");
    put_stmt(t, e->repeat.statements.items[i]);
  }
  put(t, " }");
}

static void put_mix(text *t, const ast_expr *e) {
  put(t, "mix { ");
  for (int i = 0; i < e->mix.entries.count; i++) {
    if (i) put(t, ", ");
    put_expr(t, e->mix.entries.items[i].weight, LEVEL_COMPARISON);
    put(t, ": ");
    put_expr(t, e->mix.entries.items[i].kind, LEVEL_COMPARISON);
  }
  put(t, " }");
}

static void put_bare(text *t, const ast_expr *e) {
  switch (e->kind) {
    case AST_NUMBER: put(t, e->number.text); break;
    case AST_PERCENT: put(t, e->percent.text); break;
    case AST_STRING: put_string(t, e->string.text); break;
    case AST_NAME: put(t, e->name.text); break;
    case AST_PATH: put_names(t, &e->path.steps, "."); break;
    case AST_NEGATE:
      put(t, "-");
      put_expr(t, e->negate.operand, LEVEL_UNARY);
      break;
    case AST_BINARY: put_binary(t, e); break;
    case AST_CALL:
      put(t, e->call.callee.text);
      if (e->call.has_axes) put_axes(t, &e->call.axes);
      put_args(t, &e->call.args);
      break;
    case AST_INDEXED:
      put(t, e->indexed.name.text);
      put_axes(t, &e->indexed.axes);
      break;
    case AST_LAG:
      put(t, e->lag.name.text);
      put(t, "[t-");
      put(t, e->lag.steps->number.text);
      put(t, "]");
      break;
    case AST_SLICE:
      put_expr(t, e->slice.operand, LEVEL_POSTFIX);
      put(t, "[");
      put_bindings(t, &e->slice.slices);
      put(t, "]");
      break;
    case AST_RENAME:
      put_expr(t, e->rename.operand, LEVEL_POSTFIX);
      put(t, "{");
      for (int i = 0; i < e->rename.renamings.count; i++) {
        if (i) put(t, ", ");
        put(t, e->rename.renamings.items[i].from.text);
        put(t, " -> ");
        put(t, e->rename.renamings.items[i].to.text);
      }
      put(t, "}");
      break;
    case AST_TUPLE:
      put(t, "(");
      for (int i = 0; i < e->tuple.items.count; i++) {
        if (i) put(t, ", ");
        put_expr(t, e->tuple.items.items[i], LEVEL_COMPARISON);
      }
      put(t, ")");
      break;
    case AST_REPEAT: put_repeat(t, e); break;
    case AST_AXES:
      put(t, "[");
      for (int i = 0; i < e->axes.names.count; i++) {
        if (i) put(t, ",");
        put(t, e->axes.names.items[i].text);
      }
      put(t, "]");
      break;
    case AST_MIX: put_mix(t, e); break;
  }
}

static void put_expr(text *t, const ast_expr *e, level place) {
  bool parentheses = level_of(e) < place;
  if (parentheses) put(t, "(");
  put_bare(t, e);
  if (parentheses) put(t, ")");
}

char *expr_to_text(arena *a, const ast_expr *e) {
  text t = {.memory = a};
  put_expr(&t, e, LEVEL_COMPARISON);
  vec_push(a, &t.bytes, 0);
  return t.bytes.items;
}
