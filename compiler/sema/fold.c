// fold[M](s = e0, body): the body is written out once for each entry of M, s being the value so
// far.
//
//   fold[M](s = S[t-1], s + k)      with k[M,K], M = 2:
//                                   %2 [K] = slice %0 M = 0      %3 [K] = add %1 %2
//                                   %4 [K] = slice %0 M = 1      %5 [K] = add %3 %4
//
// Inside, whatever has the axis M stands for its current slice; scopes do this where a name is
// read.
#include "compiler/sema/internal.h"

// The form fold[M](s = e0, body); false after a message.
static bool check_fold_form(sema_scope *scope, const ast_expr *e) {
  const ast_args *args = &e->call.args;
  if (!e->call.axes.count) {
    report_missing_axes(scope, e, "M");
    return false;
  }
  if (e->call.axes.count != 1)
    return scope_error(scope, e->call.axes.items[1].span, "expected one axis of fold, found %d",
                       e->call.axes.count);
  bool fits = args->count == 2 && args->items[0].kind == AST_ARG_NAMED &&
              args->items[1].kind == AST_ARG_POSITIONAL;
  if (!fits)
    scope_error(scope, e->span,
                "expected a first value and a body, found %s; write %s[%s](s = e0, body)",
                args->count == 2 ? "another form" : "another number of arguments",
                e->call.callee.text, e->call.axes.items[0].text);
  return fits;
}

static int check_fold_axis(sema_scope *scope, const ast_expr *e) {
  const ast_name *name = &e->call.axes.items[0];
  int axis = scope_axis(scope, name);
  if (axis < 0) return -1;
  if (scope->body->axes.items[axis].size == TYPED_RUNTIME_SIZE) {
    report_runtime_axis(scope, axis, name->span, "fold goes over");
    return -1;
  }
  if (scope->state->slice[axis] >= 0) {
    scope_error(scope, name->span,
                "expected another axis, found '%s', over which the fold around this "
                "one goes",
                name->text);
    return -1;
  }
  return axis;
}

// One step: the body with the running value `s`. The result is seen with all axes that `s` has.
static sema_operand fold_step(sema_scope *scope, const ast_expr *body, symbol *binder, int axis,
                              int entry, sema_operand running) {
  scope->state->slice[axis] = entry;
  binder->value = running;
  sema_operand next = check_expression(scope, body);
  scope->state->slice[axis] = -1;
  return next;
}

// The running value has the axes of e0 and of the body together, and is complex if either is. They
// are found by trying the first step until it adds nothing; what a trial appended is dropped.
static sema_operand first_fold_step(sema_scope *scope, const ast_expr *body, symbol *binder,
                                    int axis, sema_operand start, axis_set *axes, bool *complex) {
  for (;;) {
    int mark = scope->body->values.count;
    sema_operand running = *complex ? build_complex(scope, start) : start;
    running.axes = *axes;
    sema_operand next = fold_step(scope, body, binder, axis, 0, running);
    if (next.kind == OPERAND_ERROR) return next;
    axis_set grown = *axes | (next.axes & ~axis_bit(axis));
    bool same = grown == *axes && (next.complex <= *complex);
    if (same) return next;
    *axes = grown;
    *complex |= next.complex;
    if (scope->body->lags.count == 0) drop_values(scope, mark);
  }
}

static sema_operand check_steps(sema_scope *scope, const ast_expr *e, int axis, symbol *binder) {
  const ast_expr *body = e->call.args.items[1].value;
  sema_operand start = build_current_slice(scope, binder->value, e->span);
  if (start.kind == OPERAND_ERROR) return operand_error;
  if (axis_in(start.axes, axis)) start = build_slice(scope, start, axis, 0, e->span);
  axis_set axes = start.axes;
  bool complex = start.complex;
  sema_operand running = first_fold_step(scope, body, binder, axis, start, &axes, &complex);
  for (int i = 1; i < scope->body->axes.items[axis].size && running.kind != OPERAND_ERROR; i++) {
    if (complex) running = build_complex(scope, running);
    running.axes = axes;
    running = fold_step(scope, body, binder, axis, i, running);
  }
  if (running.kind == OPERAND_ERROR) return operand_error;
  if (complex) running = build_complex(scope, running);
  running.axes = axes;
  return running;
}

sema_operand check_fold(sema_scope *scope, const ast_expr *e) {
  if (!check_fold_form(scope, e)) {
    for (int i = 0; i < e->call.args.count; i++) scope_use_all(scope, e->call.args.items[i].value);
    return operand_error;
  }
  const ast_arg *first = &e->call.args.items[0];
  sema_operand start = check_expression(scope, first->value);
  int axis = check_fold_axis(scope, e);
  symbol *binder = scope_declare(scope, SYMBOL_BINDER, first->name.text, first->name.span);
  if (!binder) return operand_error;
  binder->declared = true;
  binder->value = start;
  sema_operand result = axis < 0 ? operand_error : check_steps(scope, e, axis, binder);
  binder->hidden = true;
  return result;
}
