// Calls: built-in functions, reductions with all the forms that are derived from them, and fns,
// which are inlined.
//
//   norm[K](q)                %2 [G,K] = mul %1 %1
//                             %3 [G] = sum[K] %2
//                             %4 [G] = sqrt %3         with gradient 0 at 0
//   fn twice(x) = 2 * x
//   twice(q)                  %2 [G,K] = mul %0 %1
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/sema/internal.h"

// ---- what every call is checked for ----------------------------------------------------------

// The place of '(' of a call without axes: behind its name, white space and comments aside.
static span parenthesis_of(const sema_scope *scope, const ast_expr *call) {
  span place = call->call.callee.span;
  const source *text = sources_get(scope->sema->all, place.source);
  if (!text) return place;
  uint32_t at = place.end;
  while (at < call->span.end && text->text[at] != '(')
    if (text->text[at] == '/')
      at += (uint32_t)strcspn(text->text + at, "\n");
    else
      at++;
  place.begin = at;
  place.end = at + 1;
  return place;
}

void report_missing_axes(const sema_scope *scope, const ast_expr *call, const char *axes) {
  const char *name = call->call.callee.text;
  scope_error(scope, parenthesis_of(scope, call),
              "expected the axes of %s, found '('; write %s[%s](...)", name, name, axes);
}

static bool refuse_axes(const sema_scope *scope, const ast_expr *call, const char *why) {
  if (!call->call.axes.count) return false;
  const ast_names *axes = &call->call.axes;
  scope_error(scope, span_join(axes->items[0].span, axes->items[axes->count - 1].span),
              "expected '(' after %s, found axes in brackets; %s", call->call.callee.text, why);
  return true;
}

static const char *plural(int count) { return count == 1 ? "" : "s"; }

bool check_arity(const sema_scope *scope, const ast_expr *call, const char *signature, int count) {
  const ast_args *args = &call->call.args;
  vec_each(const ast_arg, arg, *args) {
    if (arg->kind == AST_ARG_NAMED)
      return scope_error(scope, arg->name.span,
                         "expected a value, found '%s ='; the arguments of %s have no "
                         "names",
                         arg->name.text, call->call.callee.text);
    if (arg->kind != AST_ARG_POSITIONAL)
      return scope_error(scope, arg->span, "expected a value, found '%s' between two values",
                         arg->kind == AST_ARG_ARROW ? "->" : "..");
  }
  if (args->count == count) return true;
  return scope_error(scope, call->span, "expected %d argument%s of %s, found %d; write %s", count,
                     plural(count), call->call.callee.text, args->count, signature);
}

// After a mistake in a call its arguments are still looked at: they may hold further ones.
static sema_operand check_arguments_only(sema_scope *scope, const ast_expr *call) {
  for (int i = 0; i < call->call.args.count; i++)
    check_expression(scope, call->call.args.items[i].value);
  return operand_error;
}

// ---- elementwise -----------------------------------------------------------------------------

static const char *signature_of(const sema *s, const builtin *b) {
  static const char *const arguments[] = {"", "x", "a, b", "x, low, high"};
  const char *list = b->op == VALUE_WHERE     ? "condition, a, b"
                     : b->op == VALUE_COMPLEX ? "re, im"
                     : b->op == VALUE_POLAR   ? "r, angle"
                                              : arguments[b->arity];
  return arena_printf(s->memory, "%s(%s)", b->name, list);
}

// Of a real operand: its absolute value; re is itself, im is 0, conj is itself.
static sema_operand build_real_part(sema_scope *scope, value_op op, sema_operand a, span where) {
  if (a.kind == OPERAND_ERROR) return a;
  if (a.complex) return build_unary(scope, op == VALUE_ABS ? VALUE_COMPLEX_ABS : op, a, where);
  if (op == VALUE_ABS) return build_unary(scope, op, a, where);
  if (op != VALUE_IMAGINARY_PART) return a;
  sema_operand zero = operand_constant(0);
  zero.axes = a.axes;
  return zero;
}

static sema_operand check_elementwise_call(sema_scope *scope, const ast_expr *e, const builtin *b) {
  if (!check_arity(scope, e, signature_of(scope->sema, b), b->arity))
    return check_arguments_only(scope, e);
  sema_operand args[3];
  for (int i = 0; i < b->arity; i++) {
    const ast_expr *arg = e->call.args.items[i].value;
    bool condition = b->op == VALUE_WHERE && i == 0;
    args[i] = b->complex_ok && !condition
                  ? check_expression(scope, arg)
                  : check_real(scope, arg, condition ? "a condition" : b->name);
  }
  switch (b->op) {
    case VALUE_ABS:
    case VALUE_REAL_PART:
    case VALUE_IMAGINARY_PART:
    case VALUE_CONJUGATE: return build_real_part(scope, b->op, args[0], e->span);
    default: return build_operation(scope, b->op, args, e->span);
  }
}

// ---- reductions ------------------------------------------------------------------------------

// sum of |e|^2
static sema_operand build_square_sum(sema_scope *scope, sema_operand a, axis_set over, span where) {
  sema_operand square;
  if (a.kind != OPERAND_ERROR && a.complex) {
    sema_operand re = build_unary(scope, VALUE_REAL_PART, a, where);
    sema_operand im = build_unary(scope, VALUE_IMAGINARY_PART, a, where);
    square = build_binary(scope, VALUE_ADD, build_binary(scope, VALUE_MUL, re, re, where),
                          build_binary(scope, VALUE_MUL, im, im, where), where);
  } else {
    square = build_binary(scope, VALUE_MUL, a, a, where);
  }
  return build_reduction(scope, VALUE_SUM, square, over, where);
}

static sema_operand build_norm(sema_scope *scope, sema_operand a, axis_set over, span where) {
  sema_operand sum = build_square_sum(scope, a, over, where);
  if (sum.kind != OPERAND_VALUE) return build_unary(scope, VALUE_SQRT, sum, where);
  typed_value root = {.op = VALUE_SQRT, .kink = true, .span = where};
  root.args[0] = sum.id;
  sema_operand result = build_value(scope, root);
  if (result.kind != OPERAND_ERROR) result.axes = sum.axes;
  return result;
}

static sema_operand build_normalize(sema_scope *scope, sema_operand a, axis_set over, span where) {
  sema_operand sum = build_square_sum(scope, a, over, where);
  sum = build_binary(scope, VALUE_ADD, sum, operand_constant(1e-6), where);
  return build_binary(scope, VALUE_MUL, a, build_unary(scope, VALUE_RSQRT, sum, where), where);
}

static sema_operand build_mean(sema_scope *scope, sema_operand a, axis_set over, span where) {
  double count = 1;
  for (int i = 0; i < scope->body->axes.count; i++)
    if (axis_in(over, i)) count *= (double)scope->body->axes.items[i].size;
  a = build_reduction(scope, VALUE_SUM, a, over, where);
  return build_binary(scope, VALUE_DIV, a, operand_constant(count), where);
}

// The maximum is subtracted so that nothing overflows; it cancels, so no gradient needs to go
// through it.
static sema_operand build_softmax(sema_scope *scope, sema_operand a, axis_set over, span where) {
  sema_operand top = build_reduction(scope, VALUE_MAX_OVER, a, over, where);
  top = build_unary(scope, VALUE_STOP_GRADIENT, top, where);
  sema_operand e =
      build_unary(scope, VALUE_EXP, build_binary(scope, VALUE_SUB, a, top, where), where);
  return build_binary(scope, VALUE_DIV, e, build_reduction(scope, VALUE_SUM, e, over, where),
                      where);
}

static const char *axes_to_suggest(const sema_scope *scope, sema_operand a) {
  const char *last = "K";
  for (int i = 0; i < scope->body->axes.count; i++)
    if (axis_in(a.axes, i)) last = scope->body->axes.items[i].name;
  return last;
}

static sema_operand check_reduction_call(sema_scope *scope, const ast_expr *e, const builtin *b) {
  const char *name = b->name;
  if (!e->call.axes.count) {
    sema_operand a = operand_error;
    for (int i = 0; i < e->call.args.count; i++)
      a = check_expression(scope, e->call.args.items[i].value);
    report_missing_axes(scope, e, axes_to_suggest(scope, a));
    return operand_error;
  }
  const char *signature =
      arena_printf(scope->sema->memory, "%s[%s](e)", name, e->call.axes.items[0].text);
  if (!check_arity(scope, e, signature, 1)) return check_arguments_only(scope, e);
  const ast_expr *operand = e->call.args.items[0].value;
  sema_operand a =
      b->complex_ok ? check_expression(scope, operand) : check_real(scope, operand, name);
  axis_set over = check_operand_axes(scope, &e->call.axes, operand, a);
  if (over == 0 || a.kind == OPERAND_ERROR) return operand_error;
  for (int i = 0; i < scope->body->axes.count; i++) {
    if (!axis_in(over, i) || scope->body->axes.items[i].size != TYPED_RUNTIME_SIZE) continue;
    report_runtime_axis(scope, i, e->span, arena_printf(scope->sema->memory, "%s goes over", name));
    return operand_error;
  }
  if (strcmp(name, "mean") == 0) return build_mean(scope, a, over, e->span);
  if (strcmp(name, "norm") == 0) return build_norm(scope, a, over, e->span);
  if (strcmp(name, "normalize") == 0) return build_normalize(scope, a, over, e->span);
  if (strcmp(name, "softmax") == 0) return build_softmax(scope, a, over, e->span);
  return build_reduction(scope, b->op, a, over, e->span);
}

// ---- fns -------------------------------------------------------------------------------------

static int call_depth(const sema_scope *scope) {
  int depth = 0;
  for (; scope->caller; scope = scope->caller) depth++;
  return depth;
}

static bool bind_formal_axes(sema_scope *inner, sema_scope *scope, const ast_expr *e,
                             const ast_item *fn) {
  const ast_names *formal = &fn->fn.axes;
  if (!e->call.axes.count && formal->count > 0) {
    report_missing_axes(scope, e, formal->items[0].text);
    return false;
  }
  if (e->call.axes.count && formal->count == 0) {
    refuse_axes(scope, e, "the function has no axes");
    return false;
  }
  if (formal->count != e->call.axes.count)
    return scope_error(scope, e->span, "expected %d ax%s of %s, found %d", formal->count,
                       formal->count == 1 ? "is" : "es", e->call.callee.text, e->call.axes.count);
  axis_set set;
  int order[TYPED_MAX_AXES];
  if (formal->count > TYPED_MAX_AXES || !sema_axes(scope, &e->call.axes, &set, order)) return false;
  for (int i = 0; i < formal->count; i++) {
    symbol *axis = scope_declare(inner, SYMBOL_AXIS, formal->items[i].text, formal->items[i].span);
    if (!axis) return false;
    axis->index = order[i];
    axis->declared = true;
  }
  return true;
}

static bool bind_parameters(sema_scope *inner, sema_scope *scope, const ast_expr *e,
                            const ast_item *fn) {
  bool fine = true;
  for (int i = 0; i < fn->fn.params.count; i++) {
    const ast_name *formal = &fn->fn.params.items[i];
    sema_operand value = check_expression(scope, e->call.args.items[i].value);
    fine &= value.kind != OPERAND_ERROR;
    symbol *parameter = scope_declare(inner, SYMBOL_PARAMETER, formal->text, formal->span);
    if (!parameter) return false;
    parameter->value = value;
    parameter->declared = true;
  }
  return fine;
}

static const char *function_signature(const sema *s, const ast_item *fn) {
  const char *params = names_text(s->memory, &fn->fn.params, ", ");
  if (!fn->fn.axes.count) return arena_printf(s->memory, "%s(%s)", fn->name.text, params);
  return arena_printf(s->memory, "%s[%s](%s)", fn->name.text,
                      names_text(s->memory, &fn->fn.axes, ","), params);
}

static sema_operand check_function_call(sema_scope *scope, const ast_expr *e,
                                        const typed_name *callee) {
  sema *s = scope->sema;
  const ast_item *fn = callee->item;
  if (!check_function(s, callee)) return check_arguments_only(scope, e);
  if (!check_arity(scope, e, function_signature(s, fn), fn->fn.params.count))
    return check_arguments_only(scope, e);
  if (call_depth(scope) >= DEEPEST_CALLS)
    return wrong_operand(scope, e->span,
                         "expected at most %d functions calling each other, found more",
                         DEEPEST_CALLS);
  sema_scope inner = {.sema = s,
                      .file = callee->file,
                      .body = scope->body,
                      .state = scope->state,
                      .caller = scope,
                      .function = fn->name.text,
                      .call = e->span};
  bool fine = bind_formal_axes(&inner, scope, e, fn);
  fine &= bind_parameters(&inner, scope, e, fn);
  if (!fine) return operand_error;
  return check_expression(&inner, fn->fn.value);
}

// ---- which function is meant -----------------------------------------------------------------

static sema_operand unknown_function(sema_scope *scope, const ast_expr *e) {
  const ast_name *name = &e->call.callee;
  symbol *value = scope_find(scope, name->text);
  if (value) {
    value->used = true;
    return wrong_operand(scope, name->span,
                         "expected a function, found the %s '%s'; is an operator missing "
                         "before '%s'?",
                         symbol_kind_text(value->kind), name->text, e->call.axes.count ? "[" : "(");
  }
  if (builtin_find(name->text, BUILTIN_INDEX))
    return wrong_operand(scope, e->span, "expected index[...], found index(...); write index[K]");
  const builtin *b = builtin_any(name->text);
  if (b)
    return wrong_operand(scope, name->span, "expected a function of expressions, found '%s'; %s",
                         name->text,
                         b->kind == BUILTIN_START ? "it draws starts, after the '~' of a param"
                                                  : "it makes a part of a layer");
  scope_error(scope, name->span, "expected a known function, found '%s'; %s", name->text,
              unknown_function_hint(scope, name->text));
  const char *meant = function_meant(scope, name->text);
  if (meant) diag_fix(scope->sema->messages, name->span, meant);
  return operand_error;
}

static sema_operand refuse_item(const sema_scope *scope, const ast_expr *e,
                                const typed_name *item) {
  static const char *const words[] = {
      [AST_RECURRENCE] = "recurrence", [AST_LAYER] = "layer", [AST_MODEL] = "model"};
  scope_error(scope, e->call.callee.span,
              "expected a function, found the %s '%s'; only layers and "
              "models call it",
              words[item->item->kind], item->name);
  diag_note(scope->sema->messages, item->item->name.span, "the %s '%s' is declared here",
            words[item->item->kind], item->name);
  return operand_error;
}

sema_operand check_call(sema_scope *scope, const ast_expr *e) {
  const char *name = e->call.callee.text;
  const builtin *elementwise = builtin_find(name, BUILTIN_ELEMENTWISE);
  const builtin *reduction = builtin_find(name, BUILTIN_REDUCTION);
  if (builtin_find(name, BUILTIN_FOLD)) return check_fold(scope, e);
  if (reduction && (e->call.axes.count || !elementwise || e->call.args.count == 1))
    return check_reduction_call(scope, e, reduction);
  if (elementwise) {
    if (refuse_axes(scope, e, "it works entry by entry")) return check_arguments_only(scope, e);
    return check_elementwise_call(scope, e, elementwise);
  }
  const typed_name *item = sema_find(scope->file, name);
  if (item) sema_note_item(scope->sema, e->call.callee.span, item->item);
  if (item && item->item->kind == AST_FN) return check_function_call(scope, e, item);
  sema_operand result;
  if (scope->hook && scope->hook(scope->hook_context, scope, e, &result)) return result;
  result = item ? refuse_item(scope, e, item) : unknown_function(scope, e);
  check_arguments_only(scope, e);
  return result;
}
