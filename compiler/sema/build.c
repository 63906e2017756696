// New values of a body. Constants are computed at once, and equal leaves and slices are used again.
// Axes that a value has by broadcasting alone (`let a[G] = 0`) never become values of their own. A
// sum over such an axis multiplies by its size.
//
//   2 * K + 1         with K = 64: the constant 129
//   sum[G](a)         with let a[G] = x, x without axes: %3 = mul %1 %2, %2 being the number G
//   where(W > 1, a, b)  with W = 4: a
#include <math.h>

#include "compiler/base/ice.h"
#include "compiler/sema/internal.h"

// ---- values that are made once ---------------------------------------------------------------

static bool is_shared_leaf(const typed_value *v) {
  return value_arity(v->op) == 0 || v->op == VALUE_SLICE || v->op == VALUE_RENAME;
}

static int *bucket_of(sema_scope *scope, const typed_value *v) {
  return &scope->state->buckets[hash_typed_value(v) % SHARED_BUCKETS];
}

static value_id find_equal(sema_scope *scope, const typed_value *value) {
  const body_state *state = scope->state;
  for (int i = *bucket_of(scope, value); i >= 0; i = state->shared.items[i].next) {
    value_id id = state->shared.items[i].id;
    if (same_typed_value(&scope->body->values.items[id], value)) return id;
  }
  return NO_VALUE;
}

static void share_value(sema_scope *scope, value_id id) {
  int *bucket = bucket_of(scope, &scope->body->values.items[id]);
  shared_value entry = {.id = id, .next = *bucket};
  *bucket = scope->state->shared.count;
  vec_push(scope->sema->memory, &scope->state->shared, entry);
}

void drop_values(sema_scope *scope, int count) {
  body_state *state = scope->state;
  scope->body->values.count = count;
  while (state->shared.count > 0 && state->shared.items[state->shared.count - 1].id >= count)
    state->shared.count--;
  for (int i = 0; i < SHARED_BUCKETS; i++)
    while (state->buckets[i] >= state->shared.count)
      state->buckets[i] = state->shared.items[state->buckets[i]].next;
}

// ---- values ----------------------------------------------------------------------------------

sema_operand refuse_growth(sema_scope *scope, span where) {
  if (!scope->state->too_large)
    scope_error(scope, where,
                "expected a body of at most %d operations, found more; a fold is written out "
                "once for each entry of its axis, an fn for each call",
                TYPED_MAX_VALUES);
  scope->state->too_large = true;
  return operand_error;
}

sema_operand build_value(sema_scope *scope, typed_value value) {
  value_id id = is_shared_leaf(&value) ? find_equal(scope, &value) : NO_VALUE;
  if (id >= 0) return operand_of_value(scope, id);
  if (scope->body->values.count >= TYPED_MAX_VALUES) return refuse_growth(scope, value.span);
  id = body_append(scope->sema->memory, scope->body, value);
  if (is_shared_leaf(&value)) share_value(scope, id);
  return operand_of_value(scope, id);
}

static value_id operand_value(sema_scope *scope, sema_operand a, span where) {
  if (a.kind == OPERAND_VALUE) return a.id;
  if (a.kind == OPERAND_ERROR) ICE("sema", "value of an operand that is an error");
  return build_value(scope, (typed_value){.op = VALUE_NUMBER, .number = a.number, .span = where})
      .id;
}

value_id sema_value(sema_scope *scope, sema_operand operand) {
  return operand_value(scope, operand, (span){0});
}

// The operand with the axes and kind that the source sees.
static sema_operand seen_as(sema_operand a, axis_set axes) {
  if (a.kind != OPERAND_ERROR) a.axes = axes;
  return a;
}

// where(1, a, b) is a, with the axes and the kind that both branches give it.
static sema_operand build_where(sema_scope *scope, const sema_operand *args, axis_set axes) {
  sema_operand taken = args[0].number != 0 ? args[1] : args[2];
  if (args[1].complex || args[2].complex) taken = build_complex(scope, taken);
  return seen_as(taken, axes);
}

sema_operand build_operation(sema_scope *scope, value_op op, const sema_operand *args, span where) {
  int arity = value_arity(op);
  bool constant = true;
  axis_set axes = 0;
  double numbers[3] = {0}, result;
  for (int i = 0; i < arity; i++) {
    if (args[i].kind == OPERAND_ERROR) return operand_error;
    constant &= args[i].kind == OPERAND_CONSTANT;
    axes |= args[i].axes;
    numbers[i] = args[i].number;
  }
  if (op == VALUE_WHERE && args[0].kind == OPERAND_CONSTANT) return build_where(scope, args, axes);
  if (constant && fold_constant(op, numbers, &result))
    return seen_as(operand_constant(result), axes);
  typed_value value = {.op = op, .span = where};
  for (int i = 0; i < arity; i++) {
    value.args[i] = operand_value(scope, args[i], where);
    if (value.args[i] < 0) return operand_error;
  }
  return seen_as(build_value(scope, value), axes);
}

sema_operand build_unary(sema_scope *scope, value_op op, sema_operand a, span where) {
  return build_operation(scope, op, (sema_operand[3]){a}, where);
}

sema_operand build_binary(sema_scope *scope, value_op op, sema_operand a, sema_operand b,
                          span where) {
  return build_operation(scope, op, (sema_operand[3]){a, b}, where);
}

sema_operand build_complex(sema_scope *scope, sema_operand a) {
  if (a.kind == OPERAND_ERROR || a.complex) return a;
  return build_binary(scope, VALUE_COMPLEX, a, operand_constant(0), (span){0});
}

// ---- powers ----------------------------------------------------------------------------------

static sema_operand build_whole_power(sema_scope *scope, sema_operand base, int exponent,
                                      span where) {
  if (base.kind == OPERAND_CONSTANT)
    return seen_as(operand_constant(pow(base.number, exponent)), base.axes);
  if (exponent == 0) return seen_as(operand_constant(1), base.axes);
  if (exponent == 1) return base;
  typed_value value = {.op = VALUE_WHOLE_POWER, .index = exponent, .span = where};
  value.args[0] = base.id;
  return seen_as(build_value(scope, value), base.axes);
}

sema_operand build_power(sema_scope *scope, sema_operand base, sema_operand exponent,
                         span exponent_place, span where) {
  if (base.kind == OPERAND_ERROR || exponent.kind == OPERAND_ERROR) return operand_error;
  if (exponent.kind == OPERAND_CONSTANT && exponent.number == floor(exponent.number) &&
      fabs(exponent.number) <= INT32_MAX) {
    sema_operand power = build_whole_power(scope, base, (int)exponent.number, where);
    return power.kind == OPERAND_ERROR ? power : seen_as(power, base.axes | exponent.axes);
  }
  if (base.complex || exponent.complex)
    return wrong_operand(scope, exponent_place,
                         "expected a whole constant as the exponent of a complex power, found "
                         "%s",
                         exponent.complex ? "a complex one" : "another one");
  if (base.kind == OPERAND_CONSTANT && base.number < 0)
    return wrong_operand(scope, exponent_place,
                         "expected a base of at least 0 for an exponent that is not a whole "
                         "constant, found %s",
                         number_text(scope->sema, base.number));
  return build_binary(scope, VALUE_POWER, base, exponent, where);
}

// ---- reductions, slices, renames -------------------------------------------------------------

static void mark_consumed(sema_scope *scope, axis_set axes) {
  for (int i = 0; i < scope->body->axes.count; i++)
    if (axis_in(axes, i)) scope->body->axes.items[i].summed = true;
}

static axis_set axes_of_value(const sema_scope *scope, sema_operand a) {
  return a.kind == OPERAND_VALUE ? scope->body->values.items[a.id].axes : 0;
}

sema_operand build_reduction(sema_scope *scope, value_op op, sema_operand a, axis_set over,
                             span where) {
  if (a.kind == OPERAND_ERROR) return a;
  axis_set axes = a.axes & ~over;
  axis_set present = over & axes_of_value(scope, a);
  mark_consumed(scope, over);
  if (present) {
    typed_value value = {.op = op, .over = present, .span = where};
    value.args[0] = a.id;
    a = build_value(scope, value);
  }
  double copies = 1;
  for (int i = 0; i < scope->body->axes.count; i++)
    if (axis_in(over & ~present, i)) copies *= (double)scope->body->axes.items[i].size;
  if (op == VALUE_SUM && copies != 1)
    a = build_binary(scope, VALUE_MUL, operand_constant(copies), a, where);
  return seen_as(a, axes);
}

sema_operand build_slice(sema_scope *scope, sema_operand a, int axis, int64_t entry, span where) {
  if (a.kind == OPERAND_ERROR) return a;
  axis_set axes = a.axes & ~axis_bit(axis);
  mark_consumed(scope, axis_bit(axis));
  if (axis_in(axes_of_value(scope, a), axis)) {
    typed_value value = {.op = VALUE_SLICE, .index = axis, .steps = (int)entry, .span = where};
    value.args[0] = a.id;
    a = build_value(scope, value);
  }
  return seen_as(a, axes);
}

sema_operand build_rename(sema_scope *scope, sema_operand a, int from, int to, span where) {
  if (a.kind == OPERAND_ERROR) return a;
  axis_set axes = (a.axes & ~axis_bit(from)) | axis_bit(to);
  mark_consumed(scope, axis_bit(from));
  if (axis_in(axes_of_value(scope, a), from)) {
    typed_value value = {.op = VALUE_RENAME, .index = from, .index2 = to, .span = where};
    value.args[0] = a.id;
    a = build_value(scope, value);
  }
  return seen_as(a, axes);
}

sema_operand build_current_slice(sema_scope *scope, sema_operand a, span where) {
  for (int i = 0; i < scope->body->axes.count && a.kind != OPERAND_ERROR; i++)
    if (axis_in(a.axes, i) && scope->state->slice[i] >= 0)
      a = build_slice(scope, a, i, scope->state->slice[i], where);
  return a;
}
