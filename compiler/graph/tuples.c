// Several values at once: tuples, calls with several outputs, and a call of a tuple, which is the
// tuple of the calls.
#include "compiler/graph/build.h"
#include "compiler/syntax/syntax.h"

static bool is_tuple(instance *in, const ast_expr *e) {
  if (e->kind == AST_TUPLE) return true;
  if (e->kind == AST_REPEAT) return e->repeat.carried.count > 1;
  if (e->kind != AST_CALL) return false;
  const typed_name *item = sema_find(in->item->file, e->call.callee.text);
  if (item && item->item->kind != AST_FN) return declared_count(AST_OUTPUT, item->item) > 1;
  return call_positional(e, 0) && !call_positional(e, 1) && is_tuple(in, call_positional(e, 0));
}

// f((a, b)) is (f(a), f(b)): each component gets a name that no source can write.
static bool map_call(instance *in, const ast_expr *call, operands *out) {
  operands xs = {0};
  if (!layer_tuple(in, call_positional(call, 0), &xs)) return false;
  for (int i = 0; i < xs.count; i++) {
    const char *name =
        intern(in->b->names, arena_printf(in->b->arena, "(component %d)", in->hidden++));
    if (!sema_bind_let(in->scope, name, call->span, sema_value(in->scope, xs.items[i])))
      return false;
    ast_expr *component = ARENA_NEW(in->b->arena, ast_expr),
             *mapped = ARENA_NEW(in->b->arena, ast_expr);
    *component = (ast_expr){.kind = AST_NAME, .span = call->span, .name = {name, call->span}};
    *mapped = *call;
    mapped->call.args = (ast_args){0};
    for (int k = 0; k < call->call.args.count; k++) {
      ast_arg arg = call->call.args.items[k];
      if (arg.kind == AST_ARG_POSITIONAL) arg.value = component;
      vec_push(in->b->arena, &mapped->call.args, arg);
    }
    sema_operand y = sema_expression(in->scope, mapped);
    if (y.kind == OPERAND_ERROR) return false;
    vec_push(in->b->arena, out, y);
  }
  return true;
}

bool layer_tuple(instance *in, const ast_expr *e, operands *out) {
  bool good;
  if (call_is(e, "conv1d")) return call_conv1d(in, e, out);
  if (call_item(in, e, out, &good)) return good;
  if (e->kind == AST_CALL && is_tuple(in, e)) return map_call(in, e, out);
  for (int i = 0; i < (e->kind == AST_TUPLE ? e->tuple.items.count : 1); i++) {
    sema_operand x = sema_expression(in->scope, e->kind == AST_TUPLE ? e->tuple.items.items[i] : e);
    if (x.kind == OPERAND_ERROR) return false;
    vec_push(in->b->arena, out, x);
  }
  return true;
}
