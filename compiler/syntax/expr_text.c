// An expression as one line of source with the fewest parentheses, for messages and reports.

#include "compiler/base/text.h"
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

static void put_expr(FILE *out, const ast_expr *e, level place);

static const struct {
  const char *sign;
  level level, left, right;
} operators[] = {
#define BINARY_OP(id, word, sign, level, left, right, operation) \
  {sign, LEVEL_##level, LEVEL_##left, LEVEL_##right},
#include "compiler/syntax/binary_ops.def"
#undef BINARY_OP
};

static level expr_level(const ast_expr *e) {
  switch (e->kind) {
    case AST_NEGATE: return LEVEL_UNARY;
    case AST_MIX: return LEVEL_COMPARISON;
    case AST_BINARY: return operators[e->binary.op].level;
    default: return LEVEL_POSTFIX;
  }
}

static void put_binary(FILE *out, const ast_expr *e) {
  put_expr(out, e->binary.left, operators[e->binary.op].left);
  fputs(operators[e->binary.op].sign, out);
  put_expr(out, e->binary.right, operators[e->binary.op].right);
}

static void put_args(FILE *out, const ast_args *args) {
  fputs("(", out);
  for (int i = 0; i < args->count; i++) {
    const ast_arg *arg = &args->items[i];
    if (i) fputs(", ", out);
    if (arg->kind == AST_ARG_NAMED) fprintf(out, "%s = ", arg->name.text);
    put_expr(out, arg->value, LEVEL_COMPARISON);
    if (arg->kind == AST_ARG_ARROW) fputs(" -> ", out);
    if (arg->kind == AST_ARG_RANGE) fputs("..", out);
    if (arg->to) put_expr(out, arg->to, LEVEL_COMPARISON);
  }
  fputs(")", out);
}

static void put_bindings(FILE *out, const ast_bindings *list) {
  for (int i = 0; i < list->count; i++) {
    fprintf(out, "%s%s = ", i ? ", " : "", list->items[i].name.text);
    put_expr(out, list->items[i].value, LEVEL_COMPARISON);
  }
}

static void put_stmt(FILE *out, const ast_stmt *stmt) {
  if (stmt->kind == AST_ASSIGN) {
    fprintf(out, "%s = ", stmt->assign.name.text);
    put_expr(out, stmt->assign.value, LEVEL_COMPARISON);
    return;
  }
  fputs(stmt->let.is_tuple ? "let (" : "let ", out);
  for (int i = 0; i < stmt->let.binds.count; i++) {
    const ast_bind *bind = &stmt->let.binds.items[i];
    fprintf(out, "%s%s", i ? ", " : "", bind->name.text);
    if (bind->axes.count) print_axis_names(out, &bind->axes);
  }
  fputs(stmt->let.is_tuple ? ") = " : " = ", out);
  put_expr(out, stmt->let.value, LEVEL_COMPARISON);
}

static void put_repeat(FILE *out, const ast_expr *e) {
  const ast_expr *count = e->repeat.count;
  bool plain = count->kind == AST_NAME || (count->kind == AST_NUMBER && count->number.is_integer);
  fputs(plain ? "repeat " : "repeat (", out);
  put_expr(out, count, LEVEL_COMPARISON);
  fputs(plain ? " (" : ") (", out);
  put_bindings(out, &e->repeat.carried);
  fputs(") { ", out);
  if (e->repeat.body) put_expr(out, e->repeat.body, LEVEL_COMPARISON);
  for (int i = 0; i < e->repeat.statements.count; i++) {
    if (i) fputs("  ", out);
    put_stmt(out, e->repeat.statements.items[i]);
  }
  fputs(" }", out);
}

static void put_mix(FILE *out, const ast_expr *e) {
  fputs("mix { ", out);
  for (int i = 0; i < e->mix.entries.count; i++) {
    if (i) fputs(", ", out);
    put_expr(out, e->mix.entries.items[i].weight, LEVEL_COMPARISON);
    fputs(": ", out);
    put_expr(out, e->mix.entries.items[i].kind, LEVEL_COMPARISON);
  }
  fputs(" }", out);
}

static void put_bare_expr(FILE *out, const ast_expr *e) {
  switch (e->kind) {
    case AST_NUMBER: fputs(e->number.text, out); break;
    case AST_PERCENT: fputs(e->percent.text, out); break;
    case AST_STRING: print_quoted(out, e->string.text); break;
    case AST_NAME: fputs(e->name.text, out); break;
    case AST_PATH: print_names(out, &e->path.steps, "."); break;
    case AST_NEGATE:
      fputs("-", out);
      put_expr(out, e->negate.operand, LEVEL_UNARY);
      break;
    case AST_BINARY: put_binary(out, e); break;
    case AST_CALL:
      fputs(e->call.callee.text, out);
      if (e->call.axes.count) print_axis_names(out, &e->call.axes);
      put_args(out, &e->call.args);
      break;
    case AST_INDEXED:
      fputs(e->indexed.name.text, out);
      print_axis_names(out, &e->indexed.axes);
      break;
    case AST_LAG: fprintf(out, "%s[t-%s]", e->lag.name.text, e->lag.steps->number.text); break;
    case AST_SLICE:
      put_expr(out, e->slice.operand, LEVEL_POSTFIX);
      fputs("[", out);
      put_bindings(out, &e->slice.slices);
      fputs("]", out);
      break;
    case AST_RENAME:
      put_expr(out, e->rename.operand, LEVEL_POSTFIX);
      fputs("{", out);
      for (int i = 0; i < e->rename.renamings.count; i++) {
        const ast_renaming *renaming = &e->rename.renamings.items[i];
        fprintf(out, "%s%s -> %s", i ? ", " : "", renaming->from.text, renaming->to.text);
      }
      fputs("}", out);
      break;
    case AST_TUPLE:
      fputs("(", out);
      for (int i = 0; i < e->tuple.items.count; i++) {
        if (i) fputs(", ", out);
        put_expr(out, e->tuple.items.items[i], LEVEL_COMPARISON);
      }
      fputs(")", out);
      break;
    case AST_REPEAT: put_repeat(out, e); break;
    case AST_AXES: print_axis_names(out, &e->axes.names); break;
    case AST_MIX: put_mix(out, e); break;
  }
}

static void put_expr(FILE *out, const ast_expr *e, level place) {
  bool parentheses = expr_level(e) < place;
  if (parentheses) fputs("(", out);
  put_bare_expr(out, e);
  if (parentheses) fputs(")", out);
}

char *expr_to_text(arena *a, const ast_expr *e) {
  text_stream text;
  put_expr(text_begin(&text), e, LEVEL_COMPARISON);
  return text_end(&text, a);
}

const char *names_text(arena *a, const ast_names *names, const char *separator) {
  text_stream text;
  print_names(text_begin(&text), names, separator);
  return text_end(&text, a);
}
