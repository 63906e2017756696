// From operations of recurrence bodies to tile operations. A complex value becomes two tiles.
//
//   %3 = mul %1 %2   (complex)   ->   re = %1.re*%2.re - %1.im*%2.im,  im = %1.re*%2.im + %1.im*%2.re
//   %4 = ipow %3 5               ->   four products
//   %5 = gelu %4                 ->   0.5 x (1 + erf(x / sqrt 2))
#include "compiler/chunk/lower.h"

#include <math.h>

#include "compiler/base/ice.h"

typedef tile_program program;

// ---- real functions without a row of their own -----------------------------------------------

static tile_id gelu(program *p, tile_id x) {
  tile_id inner = tile_unary(p, TILE_ERF, tile_binary(p, TILE_MUL, tile_number(p, sqrt(0.5)), x));
  return tile_binary(p, TILE_MUL, tile_binary(p, TILE_MUL, tile_number(p, 0.5), x),
                     tile_binary(p, TILE_ADD, tile_number(p, 1), inner));
}

// min(max(x, low), high): high, where low is above it. At a kink the value passes and the gradient
// does not: there it is stopped.
static tile_id clamp(program *p, tile_id x, tile_id low, tile_id high) {
  tile_id stopped = tile_unary(p, TILE_STOP, x);
  tile_id inside = tile_select(p, tile_binary(p, TILE_LESS, x, high), x, stopped);
  inside = tile_select(p, tile_binary(p, TILE_LESS, low, x), inside, stopped);
  tile_id raised = tile_select(p, tile_binary(p, TILE_LESS, x, low), low, inside);
  return tile_select(p, tile_binary(p, TILE_LESS, high, raised), high, raised);
}

// What is no case of its own below is the tile operation of the same text.
static tile_op simple_op(value_op op) {
  tile_op same = tile_op_find(value_op_text(op));
  if (same == TILE_OP_COUNT) ICE("chunk", "no tile operation for '%s'", value_op_text(op));
  return same;
}

// ---- values ----------------------------------------------------------------------------------

lowering lowering_new(tile_program *p, const typed_body *body) {
  return (lowering){.program = p,
                    .body = body,
                    .values = ARENA_ARRAY(p->arena, tile_pair, body->values.count),
                    .done = ARENA_ARRAY(p->arena, bool, body->values.count)};
}

void lowering_set(lowering *l, value_id id, tile_pair pair) {
  l->values[id] = pair;
  l->done[id] = true;
}

static tile_pair lower_leaf(lowering *l, const typed_value *v) {
  program *p = l->program;
  switch (v->op) {
    case VALUE_NUMBER: return pair_real(tile_number(p, v->number));
    case VALUE_AXIS_SIZE: return pair_real(tile_leaf(p, TILE_AXIS_SIZE, v->index));
    case VALUE_INDEX: return pair_real(tile_leaf(p, TILE_INDEX, v->index));
    case VALUE_INPUT: return lower_tensor(p, l->body, TILE_INPUT, v->index);
    case VALUE_PARAM: return lower_tensor(p, l->body, TILE_PARAM, v->index);
    default: ICE("chunk", "'%s' was not given a meaning by the builder", value_op_text(v->op));
  }
}

static tile_pair lower_operation(program *p, const typed_value *v, const tile_pair *x) {
  switch (v->op) {
    case VALUE_NEG: return pair_each(p, x[0], (tile_value){.op = TILE_NEG});
    case VALUE_ADD: return pair_linear(p, TILE_ADD, x[0], x[1]);
    case VALUE_SUB: return pair_linear(p, TILE_SUB, x[0], x[1]);
    case VALUE_MUL: return pair_mul(p, x[0], x[1]);
    case VALUE_DIV: return pair_div(p, x[0], x[1]);
    case VALUE_WHOLE_POWER: return pair_whole_power(p, x[0], v->index);
    case VALUE_EXP: return pair_exp(p, x[0]);
    case VALUE_EXPM1: return pair_expm1(p, x[0]);
    case VALUE_SQRT: return pair_real(tile_unary(p, v->kink ? TILE_SQRT_KINK : TILE_SQRT, x[0].re));
    case VALUE_GELU: return pair_real(gelu(p, x[0].re));
    case VALUE_CLAMP: return pair_real(clamp(p, x[0].re, x[1].re, x[2].re));
    case VALUE_GREATER: return pair_real(tile_binary(p, TILE_LESS, x[1].re, x[0].re));
    case VALUE_GREATER_EQUAL: return pair_real(tile_binary(p, TILE_LESS_EQUAL, x[1].re, x[0].re));
    case VALUE_WHERE: return pair_where(p, x[0].re, x[1], x[2]);
    case VALUE_STOP_GRADIENT: return pair_each(p, x[0], (tile_value){.op = TILE_STOP});
    case VALUE_COMPLEX: return (tile_pair){x[0].re, x[1].re};
    case VALUE_POLAR: return pair_polar(p, x[0].re, x[1].re);
    case VALUE_REAL_PART: return pair_real(x[0].re);
    case VALUE_IMAGINARY_PART: return pair_real(pair_imaginary(p, x[0]));
    case VALUE_CONJUGATE:
      return (tile_pair){x[0].re,
                         pair_is_complex(x[0]) ? tile_unary(p, TILE_NEG, x[0].im) : NO_TILE};
    case VALUE_COMPLEX_ABS: return pair_real(pair_abs(p, x[0]));
    case VALUE_SUM: return pair_each(p, x[0], (tile_value){.op = TILE_SUM, .over = v->over});
    case VALUE_MAX_OVER:
      return pair_each(p, x[0], (tile_value){.op = TILE_MAX_OVER, .over = v->over});
    case VALUE_MIN_OVER:
      return pair_each(p, x[0], (tile_value){.op = TILE_MIN_OVER, .over = v->over});
    case VALUE_RENAME: return pair_on_axes(p, TILE_RENAME, x[0], v->index, v->index2, 0);
    case VALUE_SLICE: return pair_on_axes(p, TILE_SLICE, x[0], v->index, v->steps, 0);
    default: {
      tile_value value = {.op = simple_op(v->op)};
      for (int i = 0; i < value_arity(v->op); i++) value.args[i] = x[i].re;
      return pair_real(tile_append(p, value));
    }
  }
}

// ---- operands on padded rows -----------------------------------------------------------------

// Which operand must not be 0; -1 if any number will do. There the value or its derivative has no
// finite value.
static int operand_not_zero(const typed_value *v) {
  switch (v->op) {
    case VALUE_DIV: return 1;
    case VALUE_WHOLE_POWER: return v->index < 0 ? 0 : -1;
    case VALUE_LOG:
    case VALUE_SQRT:
    case VALUE_RSQRT:
    case VALUE_POWER: return 0;
    default: return -1;
  }
}

// What a padded row divides by is 1: its inputs are 0, and one quotient 0 / 0 there would make
// every gradient NaN.
static void guard_operands(program *p, const typed_value *v, tile_pair *x) {
  int k = operand_not_zero(v);
  if (p->form != TILE_CHUNK || k < 0 || !axis_in(pair_axes(p, x[k]), p->time_axis)) return;
  if (!pair_is_complex(x[k]) && tile_is_positive(p, x[k].re)) return;
  x[k] = pair_where(p, tile_leaf(p, TILE_VALID, 0), x[k], pair_real(tile_number(p, 1)));
}

// ---- one value -------------------------------------------------------------------------------

static void lower_one(lowering *l, value_id id) {
  const typed_value *v = &l->body->values.items[id];
  tile_pair x[3] = {{NO_TILE, NO_TILE}, {NO_TILE, NO_TILE}, {NO_TILE, NO_TILE}};
  for (int i = 0; i < value_arity(v->op); i++) x[i] = l->values[v->args[i]];
  span outer = l->program->where;
  l->program->where = v->span;
  guard_operands(l->program, v, x);
  tile_pair pair = value_arity(v->op) == 0 ? lower_leaf(l, v) : lower_operation(l->program, v, x);
  l->program->where = outer;
  if (v->name && !l->program->values.items[pair.re].name)
    l->program->values.items[pair.re].name = v->name;
  lowering_set(l, id, pair);
}

// Operands stand before their users: marked from above, made from below, so that no depth of
// nesting is too deep.
tile_pair lower_value(lowering *l, value_id id) {
  if (l->done[id]) return l->values[id];
  bool *needed = ARENA_ARRAY(l->program->arena, bool, id + 1);
  needed[id] = true;
  for (value_id i = id; i >= 0; i--) {
    if (!needed[i] || l->done[i]) continue;
    const typed_value *v = &l->body->values.items[i];
    for (int k = 0; k < value_arity(v->op); k++) needed[v->args[k]] = true;
  }
  for (value_id i = 0; i <= id; i++)
    if (needed[i] && !l->done[i]) lower_one(l, i);
  return l->values[id];
}

// ---- arguments and results -------------------------------------------------------------------

// The value of the argument with this place, a new one if there is none.
static tile_id shared_argument(program *p, tile_place place) {
  int argument = tile_find_argument(p, &place);
  return argument >= 0 ? tile_leaf(p, TILE_ARGUMENT, argument) : tile_argument(p, place);
}

// Axes of one entry that a tensor has here alone, not in memory (recurrence_with_unit_keys).
static axis_set unit_axes(const typed_tensor *tensor) {
  axis_set in_memory = 0;
  for (int i = 0; i < tensor->axis_count; i++) in_memory |= axis_bit(tensor->axes[i]);
  return tensor->axis_set & ~in_memory;
}

tile_pair lower_tensor(tile_program *p, const typed_body *body, tile_role role, int tensor) {
  const typed_tensor *t = &body->tensors.items[tensor];
  axis_set unit = unit_axes(t);
  tile_pair pair = pair_real(shared_argument(p, tile_tensor_place(role, body, tensor, 0)));
  if (t->complex) pair.im = shared_argument(p, tile_tensor_place(role, body, tensor, 1));
  return unit ? pair_each(p, pair, (tile_value){.op = TILE_EXPAND, .over = unit}) : pair;
}

void lower_result(tile_program *p, const typed_body *body, tile_role role, int tensor,
                  tile_pair value) {
  const typed_tensor *t = &body->tensors.items[tensor];
  if (unit_axes(t)) value = pair_sum(p, value, unit_axes(t));
  tile_add_result(p, tile_tensor_place(role, body, tensor, 0), value.re);
  if (t->complex)
    tile_add_result(p, tile_tensor_place(role, body, tensor, 1), pair_imaginary(p, value));
}

static tile_place lag_place(tile_program *p, const typed_body *body, tile_role role, int lag,
                            int slot, int component) {
  const typed_lag *buffer = &body->lags.items[lag];
  tile_place place = {.role = role,
                      .tensor = -1,
                      .lag = lag,
                      .slot = slot,
                      .component = component,
                      .stash = -1,
                      .name = arena_printf(p->arena, "%s.lag", buffer->name)};
  // An input's buffer lies as the input does; a let's in header order.
  if (buffer->input >= 0) {
    const typed_tensor *input = &body->tensors.items[buffer->input];
    place.axis_count = input->axis_count;
    for (int i = 0; i < input->axis_count; i++) place.axes[i] = input->axes[i];
  } else {
    for (int i = 0; i < body->axes.count; i++)
      if (axis_in(buffer->axes, i)) place.axes[place.axis_count++] = i;
  }
  return place;
}

tile_pair lower_lag(tile_program *p, const typed_body *body, int lag, int slot) {
  tile_pair pair = pair_real(shared_argument(p, lag_place(p, body, TILE_STATE, lag, slot, 0)));
  if (body->lags.items[lag].complex)
    pair.im = shared_argument(p, lag_place(p, body, TILE_STATE, lag, slot, 1));
  return pair;
}

void lower_lag_result(tile_program *p, const typed_body *body, int lag, int slot, tile_pair value) {
  tile_add_result(p, lag_place(p, body, TILE_NEXT_STATE, lag, slot, 0), value.re);
  if (body->lags.items[lag].complex)
    tile_add_result(p, lag_place(p, body, TILE_NEXT_STATE, lag, slot, 1), pair_imaginary(p, value));
}

// Every tensor gets its argument, read or not, so that the backward has a gradient for each.
void lower_declare(tile_program *p, const typed_body *body) {
  for (int i = 0; i < body->tensors.count; i++) {
    switch (body->tensors.items[i].kind) {
      case TENSOR_INPUT: lower_tensor(p, body, TILE_INPUT, i); break;
      case TENSOR_PARAM: lower_tensor(p, body, TILE_PARAM, i); break;
      case TENSOR_STATE: lower_tensor(p, body, TILE_STATE, i); break;
      case TENSOR_OUTPUT: break;
    }
  }
  for (int lag = 0; lag < body->lags.count; lag++)
    for (int slot = 0; slot < body->lags.items[lag].depth; slot++) lower_lag(p, body, lag, slot);
}

// ---- padded rows -----------------------------------------------------------------------------

static bool finite_for_zeros(const program *p, const tile_value *v) {
  if (!tile_op_is(v->op, TILE_SINGULAR)) return true;
  if (v->op == TILE_LOG1P || v->op == TILE_SQRT_KINK) return false;
  tile_id x = v->args[v->op == TILE_DIV];
  return tile_padding_is_1(p, x) || tile_is_positive(p, x);
}

static bool finite_on_padding(const program *p, tile_id id) {
  bool *needed = ARENA_ARRAY(p->arena, bool, id + 1);
  needed[id] = true;
  for (tile_id i = id; i >= 0; i--) {
    const tile_value *v = &p->values.items[i];
    if (!needed[i] || !axis_in(v->axes, p->time_axis)) continue;
    if (!finite_for_zeros(p, v)) return false;
    if (v->op == TILE_SELECT && p->values.items[v->args[0]].op == TILE_VALID) continue;
    for (int k = 0; k < tile_arity(v->op); k++) needed[v->args[k]] = true;
  }
  return true;
}

tile_id lower_valid(tile_program *p, tile_id x) {
  return tile_select(p, tile_leaf(p, TILE_VALID, 0), x, tile_number(p, 0));
}

tile_id lower_valid_if_unsafe(tile_program *p, tile_id x) {
  return finite_on_padding(p, x) ? x : lower_valid(p, x);
}

void lower_output(tile_program *p, const typed_body *body, int tensor, tile_pair value) {
  value.re = lower_valid_if_unsafe(p, value.re);
  if (pair_is_complex(value)) value.im = lower_valid_if_unsafe(p, value.im);
  lower_result(p, body, TILE_OUTPUT, tensor, value);
}
