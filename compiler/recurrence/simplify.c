// Rewrites that keep what a formula means and remove how it could overflow or lose digits.
//
//   sigmoid(x)^p, sqrt(sigmoid(x))  ->  exp(p * log_sigmoid(x))    powers of gates
//   exp(a) * k * exp(b)             ->  k * exp(a + b)             products of exponentials
//   1 - sigmoid(x), 1 - exp(g)      ->  sigmoid(-x), -expm1(g)     what remains of a gate
//   1 - (c + (1 - c) * gate)        ->  (1 - c) * (1 - gate)
//   log(sigmoid(x)), log(1 + x)     ->  log_sigmoid(x), log1p(x)
//   exp(z) - 1, log1p(exp(x))       ->  expm1(z), softplus(x)      z real or complex
//   1 - max(0.5, sigmoid(x))        ->  min(0.5, sigmoid(-x))      so do min, clamp and where
//   1 - 2 * sigmoid(x)              ->  tanh(-x / 2)
//   1 / (1 + exp(-x)), f / (f + i)  ->  sigmoid(x), sigmoid(log f - log i)    f and i gates
//   x - max(x, z), x - min(x, z)    ->  min(0, x - z), max(0, x - z)
//   x - stop(max(x, z))             ->  where(x >= z, x - stop(x), x - stop(z))
//   where(c, x, x + y)              ->  x + where(c, 0, y)
//   x + x                           ->  2 * x
//
// Outer products have rules of their own (apart.c), as complex numbers have (complex.c), and sums
// (contract.c, outer.c, factor.c).
//
// Operands are looked at by what they are, not by how they were written: a let in between changes
// nothing. Constants are folded. Nothing is rewritten to a value with other axes.
#include "compiler/recurrence/simplify.h"

#include <math.h>

#include "compiler/recurrence/reference_ops.h"

static value_id negate(builder *b, value_id x) { return make_unary(b, VALUE_NEG, x); }

static value_id multiply_values(builder *b, value_id x, value_id y) {
  return make_binary(b, VALUE_MUL, x, y);
}

// x if `v` would have the very axes and element kind of x.
static value_id unless_shape_differs(builder *b, const typed_value *v, value_id x) {
  typed_value shaped = *v;
  value_set_shape(b->body, &shaped);
  const typed_value *same = value_at(b, x);
  return shaped.axes == same->axes && shaped.complex == same->complex ? x : NO_VALUE;
}

// ---- constants ----------------------------------------------------------------------------------

static value_id fold_constants(builder *b, const typed_value *v) {
  value_class class = value_op_class(v->op);
  if (v->op == VALUE_AXIS_SIZE) {
    int64_t size = b->body->axes.items[v->index].size;
    return size == TYPED_RUNTIME_SIZE ? NO_VALUE : make_number(b, (double)size);
  }
  if (class != CLASS_REAL && class != CLASS_FIELD && class != CLASS_COMPARE) return NO_VALUE;
  double x[3];
  for (int k = 0; k < value_arity(v->op); k++) {
    if (!has_op(b, v->args[k], VALUE_NUMBER)) return NO_VALUE;
    x[k] = value_at(b, v->args[k])->number;
  }
  return make_number(b, real_value(v, x));
}

// ---- gates --------------------------------------------------------------------------------------

static value_id gate_log(builder *b, value_id id, bool constants, int depth) {
  typed_value v = *value_at(b, id);
  if (depth == SEARCH_DEPTH) return NO_VALUE;
  if (v.op == VALUE_EXP) return v.args[0];
  if (v.op == VALUE_SIGMOID) return make_unary(b, VALUE_LOG_SIGMOID, v.args[0]);
  if (v.op == VALUE_NUMBER)
    return constants && v.number > 0 ? make_number(b, log(v.number)) : NO_VALUE;
  if (v.op == VALUE_POLAR) {
    value_id radius = gate_log(b, v.args[0], true, depth + 1);
    return radius == NO_VALUE ? NO_VALUE : make_binary(b, VALUE_COMPLEX, radius, v.args[1]);
  }
  if (v.op != VALUE_MUL) return NO_VALUE;
  value_id left = gate_log(b, v.args[0], constants, depth + 1);
  if (left == NO_VALUE) return NO_VALUE;
  value_id right = gate_log(b, v.args[1], constants, depth + 1);
  return right == NO_VALUE ? NO_VALUE : make_binary(b, VALUE_ADD, left, right);
}

value_id make_gate_log(builder *b, value_id x, bool constants) {
  return gate_log(b, x, constants, 0);
}

// gate^p for a power that is a value. Gates over different axes stay apart.
static value_id gate_power(builder *b, value_id gate, value_id power) {
  if (has_op(b, gate, VALUE_NUMBER)) return NO_VALUE;
  if (is_outer(b, gate) && has_op(b, power, VALUE_NUMBER)) {
    value_id first = gate_power(b, value_operand(b, gate, 0), power), second;
    second = first == NO_VALUE ? first : gate_power(b, value_operand(b, gate, 1), power);
    return second == NO_VALUE ? second : multiply_values(b, first, second);
  }
  value_id logarithm = gate_log(b, gate, true, 0);
  if (logarithm == NO_VALUE) return NO_VALUE;
  return make_unary(b, VALUE_EXP, multiply_values(b, power, logarithm));
}

// Is m the value 1 - c?
static bool completes_to_one(builder *b, value_id c, value_id m) {
  if (has_op(b, c, VALUE_NUMBER) && has_op(b, m, VALUE_NUMBER))
    return fabs(value_at(b, c)->number + value_at(b, m)->number - 1) < 1e-15;
  typed_value v = *value_at(b, m);
  if (v.op == VALUE_SUB && is_the_number(b, v.args[0], 1)) return v.args[1] == c;
  return make_complement(b, c) == m;
}

// 1 - (c + (1 - c) * gate) for the four orders in which that can be written.
static value_id one_minus_bounded(builder *b, value_id sum) {
  for (int k = 0; k < 4; k++) {
    value_id c = value_operand(b, sum, k & 1), product = value_operand(b, sum, 1 - (k & 1));
    if (!has_op(b, product, VALUE_MUL)) continue;
    value_id m = value_operand(b, product, k >> 1), gate = value_operand(b, product, 1 - (k >> 1));
    if (!completes_to_one(b, c, m)) continue;
    value_id rest = make_complement(b, gate);
    if (rest != NO_VALUE) return multiply_values(b, m, rest);
  }
  return NO_VALUE;
}

// 1 - x for the branches of a choice, which may be numbers.
static value_id one_minus_branch(builder *b, value_id x) {
  if (has_op(b, x, VALUE_NUMBER)) return make_number(b, 1 - value_at(b, x)->number);
  return make_complement(b, x);
}

// `rest` holds 1 - x, 1 - low, 1 - high. Bounds change places; where low is above high, the value
// is high.
static value_id one_minus_clamp(builder *b, const typed_value *clamp, typed_value rest) {
  typed_value low = *value_at(b, clamp->args[1]), high = *value_at(b, clamp->args[2]);
  value_id less_high = rest.args[2];
  rest.args[2] = rest.args[1];
  rest.args[1] = less_high;
  value_id inside = make_value(b, rest);
  if (low.op == VALUE_NUMBER && high.op == VALUE_NUMBER && low.number <= high.number) return inside;
  value_id crossed = make_binary(b, VALUE_GREATER, clamp->args[1], clamp->args[2]);
  return make_value(b, (typed_value){.op = VALUE_WHERE, .args = {crossed, less_high, inside}});
}

// 1 - max(x, y), 1 - where(c, x, y), ..: the choice between what remains of its branches.
static value_id one_minus_choice(builder *b, const typed_value *choice) {
  typed_value rest = *choice;
  rest.name = NULL;
  int first = choice->op == VALUE_WHERE ? 1 : 0;
  for (int k = first; k < value_arity(choice->op); k++) {
    rest.args[k] = one_minus_branch(b, choice->args[k]);
    if (rest.args[k] == NO_VALUE) return NO_VALUE;
  }
  if (choice->op == VALUE_MAX) rest.op = VALUE_MIN;
  if (choice->op == VALUE_MIN) rest.op = VALUE_MAX;
  if (choice->op == VALUE_CLAMP) return one_minus_clamp(b, choice, rest);
  return make_value(b, rest);
}

// 1 - 2 sigmoid(x).
static value_id one_minus_twice(builder *b, value_id product) {
  for (int k = 0; k < 2; k++) {
    value_id gate = value_operand(b, product, 1 - k);
    if (!is_the_number(b, value_operand(b, product, k), 2) || !has_op(b, gate, VALUE_SIGMOID))
      continue;
    value_id half = multiply_values(b, make_number(b, 0.5), value_operand(b, gate, 0));
    return make_unary(b, VALUE_TANH, negate(b, half));
  }
  return NO_VALUE;
}

value_id make_complement(builder *b, value_id x) {
  typed_value v = *value_at(b, x);
  switch (v.op) {
    case VALUE_SIGMOID: return make_unary(b, VALUE_SIGMOID, negate(b, v.args[0]));
    case VALUE_ADD: return one_minus_bounded(b, x);
    case VALUE_SUB: return is_the_number(b, v.args[0], 1) ? v.args[1] : NO_VALUE;
    case VALUE_MIN:
    case VALUE_MAX:
    case VALUE_CLAMP:
    case VALUE_WHERE: return one_minus_choice(b, &v);
    case VALUE_NEG:
      if (!has_op(b, v.args[0], VALUE_EXPM1)) return NO_VALUE;
      return make_unary(b, VALUE_EXP, value_operand(b, v.args[0], 0));
    case VALUE_NUMBER:
    case VALUE_POLAR: return NO_VALUE;
    default: break;
  }
  value_id twice = v.op == VALUE_MUL ? one_minus_twice(b, x) : NO_VALUE;
  if (twice != NO_VALUE) return twice;
  value_id logarithm = gate_log(b, x, false, 0);
  return logarithm == NO_VALUE ? NO_VALUE : negate(b, make_unary(b, VALUE_EXPM1, logarithm));
}

// ---- products of exponentials -------------------------------------------------------------------

// A product with its first exponential (or sigmoid) taken out.
typedef struct taken {
  value_id gate;  // NO_VALUE if the product has none
  value_id rest;  // NO_VALUE if nothing remains
} taken;

static taken take_gate(builder *b, value_id id, bool exponential, axis_set beside, int depth) {
  typed_value v = *value_at(b, id);
  bool nested = (v.axes & ~beside) == 0 || (beside & ~v.axes) == 0;
  if (v.op == VALUE_EXP || (v.op == VALUE_SIGMOID && !exponential))
    return nested ? (taken){id, NO_VALUE} : (taken){NO_VALUE, id};
  if (v.op != VALUE_MUL || depth == SEARCH_DEPTH) return (taken){NO_VALUE, id};
  for (int k = 0; k < 2; k++) {
    taken t = take_gate(b, v.args[k], exponential, beside, depth + 1);
    if (t.gate == NO_VALUE) continue;
    value_id other = v.args[1 - k];
    if (t.rest != NO_VALUE)
      other = k == 0 ? multiply_values(b, t.rest, other) : multiply_values(b, other, t.rest);
    return (taken){t.gate, other};
  }
  return (taken){NO_VALUE, id};
}

static value_id joined_gates(builder *b, taken x, taken y) {
  value_id sum =
      make_binary(b, VALUE_ADD, make_gate_log(b, x.gate, false), make_gate_log(b, y.gate, false));
  value_id gate = make_unary(b, VALUE_EXP, sum);
  if (x.rest == NO_VALUE && y.rest == NO_VALUE) return gate;
  if (x.rest == NO_VALUE) return multiply_values(b, gate, y.rest);
  if (y.rest == NO_VALUE) return multiply_values(b, x.rest, gate);
  return multiply_values(b, multiply_values(b, x.rest, y.rest), gate);
}

// Exponentials over different axes stay apart: exp(a)[K] * exp(b)[V] is an outer product, and
// cheaper so.
static value_id join_gates(builder *b, const typed_value *v) {
  const axis_set any = ~(axis_set)0;
  // one of the two must be an exponential, the other may be a sigmoid
  for (int k = 0; k < 2; k++) {
    taken x = take_gate(b, v->args[k], true, any, 0);
    if (x.gate == NO_VALUE) continue;
    taken y = take_gate(b, v->args[1 - k], false, value_at(b, x.gate)->axes, 0);
    if (y.gate == NO_VALUE) continue;
    return k == 0 ? joined_gates(b, x, y) : joined_gates(b, y, x);
  }
  return NO_VALUE;
}

// ---- one rule set per operation -----------------------------------------------------------------

static value_id simplify_neg(builder *b, const typed_value *v) {
  typed_value x = *value_at(b, v->args[0]);
  if (x.op == VALUE_NEG) return x.args[0];
  if (x.op == VALUE_SUB) return make_binary(b, VALUE_SUB, x.args[1], x.args[0]);
  if (x.op == VALUE_SOFTPLUS) return make_unary(b, VALUE_LOG_SIGMOID, negate(b, x.args[0]));
  return NO_VALUE;
}

static value_id simplify_add(builder *b, const typed_value *v) {
  for (int k = 0; k < 2; k++) {
    value_id x = v->args[k], y = v->args[1 - k];
    if (is_the_number(b, x, 0)) return unless_shape_differs(b, v, y);
    if (is_the_number(b, x, -1) && has_op(b, y, VALUE_EXP))
      return make_unary(b, VALUE_EXPM1, value_operand(b, y, 0));
    if (is_the_number(b, x, 1) && has_op(b, y, VALUE_EXPM1))
      return make_unary(b, VALUE_EXP, value_operand(b, y, 0));
    if (has_op(b, x, VALUE_NEG)) return make_binary(b, VALUE_SUB, y, value_operand(b, x, 0));
  }
  if (v->args[0] == v->args[1]) return multiply_values(b, make_number(b, 2), v->args[0]);
  return factor_sum(b, v);
}

static value_id stopped(builder *b, value_id x) {
  return has_op(b, x, VALUE_NUMBER) ? x : make_unary(b, VALUE_STOP_GRADIENT, x);
}

// The same where no gradient flows through the extreme: all of it through x.
static value_id below_stopped(builder *b, value_id x, value_id other, value_op extreme) {
  value_op chosen = extreme == VALUE_MAX ? VALUE_GREATER_EQUAL : VALUE_LESS_EQUAL;
  value_id none = make_binary(b, VALUE_SUB, x, stopped(b, x));
  value_id rest = make_binary(b, VALUE_SUB, x, stopped(b, other));
  return make_where(b, make_binary(b, chosen, x, other), none, rest);
}

// x - max(x, z) is exactly 0 where x is the larger. A scan may make the maximum otherwise than the
// program makes x. The rounding of their difference would make a state that decays by its
// exponential drift in every step. At the kink the gradient goes where it went.
static value_id below_extreme(builder *b, value_id x, value_id extreme) {
  typed_value of = *value_at(b, extreme);
  bool stops = of.op == VALUE_STOP_GRADIENT;
  if (stops) of = *value_at(b, of.args[0]);
  if ((of.op != VALUE_MAX && of.op != VALUE_MIN) || of.args[0] == of.args[1]) return NO_VALUE;
  value_id zero = make_number(b, 0);
  value_op other = of.op == VALUE_MAX ? VALUE_MIN : VALUE_MAX;
  for (int k = 0; k < 2; k++) {
    if (of.args[k] != x) continue;
    if (stops) return below_stopped(b, x, of.args[1 - k], of.op);
    value_id over = make_binary(b, VALUE_SUB, x, of.args[1 - k]);
    return make_binary(b, other, k ? over : zero, k ? zero : over);
  }
  return NO_VALUE;
}

static value_id simplify_sub(builder *b, const typed_value *v) {
  value_id x = v->args[0], y = v->args[1];
  if (is_the_number(b, y, 0)) return unless_shape_differs(b, v, x);
  if (is_the_number(b, x, 0)) return negate(b, y);
  if (has_op(b, y, VALUE_NEG)) return make_binary(b, VALUE_ADD, x, value_operand(b, y, 0));
  if (is_the_number(b, x, 1)) return make_complement(b, y);
  if (is_the_number(b, y, 1)) {
    value_id rest = make_complement(b, x);
    if (rest != NO_VALUE) return negate(b, rest);
  }
  value_id below = below_extreme(b, x, y);
  if (below != NO_VALUE) return below;
  value_id above = below_extreme(b, y, x);
  return above != NO_VALUE ? negate(b, above) : factor_sum(b, v);
}

static value_id simplify_mul(builder *b, const typed_value *v) {
  for (int k = 0; k < 2; k++) {
    if (is_the_number(b, v->args[k], 1)) return unless_shape_differs(b, v, v->args[1 - k]);
    if (is_the_number(b, v->args[k], -1)) return negate(b, v->args[1 - k]);
  }
  return join_gates(b, v);
}

// f / (f + i) = sigmoid(log f - log i) for gates, among them 1 / (1 + exp(-x)) and softmax over
// two.
static value_id share_of_two(builder *b, value_id f, value_id sum) {
  if (!has_op(b, sum, VALUE_ADD)) return NO_VALUE;
  for (int k = 0; k < 2; k++) {
    value_id other = value_operand(b, sum, 1 - k);
    if (value_operand(b, sum, k) != f ||
        (has_op(b, f, VALUE_NUMBER) && has_op(b, other, VALUE_NUMBER)))
      continue;
    if (value_at(b, f)->complex || value_at(b, other)->complex) continue;
    value_id own = gate_log(b, f, true, 0), others = gate_log(b, other, true, 0);
    if (own == NO_VALUE || others == NO_VALUE) continue;
    return make_unary(b, VALUE_SIGMOID, make_binary(b, VALUE_SUB, own, others));
  }
  return NO_VALUE;
}

static value_id simplify_div(builder *b, const typed_value *v) {
  if (is_the_number(b, v->args[1], 1)) return unless_shape_differs(b, v, v->args[0]);
  value_id share = share_of_two(b, v->args[0], v->args[1]);
  return share != NO_VALUE ? share : quotient_apart(b, v);
}

static value_id simplify_whole_power(builder *b, const typed_value *v) {
  if (v->index == 1) return v->args[0];
  if (v->index == 0) return NO_VALUE;
  value_id power = gate_power(b, v->args[0], make_number(b, v->index));
  return power != NO_VALUE ? power : function_of_outer(b, v);
}

static value_id simplify_power(builder *b, const typed_value *v) {
  if (has_op(b, v->args[0], VALUE_NUMBER) && value_at(b, v->args[0])->number > 0)
    return make_unary(
        b, VALUE_EXP,
        multiply_values(b, v->args[1], make_number(b, log(value_at(b, v->args[0])->number))));
  return gate_power(b, v->args[0], v->args[1]);
}

static value_id simplify_log(builder *b, const typed_value *v) {
  value_id x = v->args[0];
  if (!has_op(b, x, VALUE_NUMBER)) {
    value_id logarithm = gate_log(b, x, true, 0);
    if (logarithm != NO_VALUE) return logarithm;
  }
  if (has_op(b, x, VALUE_SUB) && is_the_number(b, value_operand(b, x, 0), 1))
    return make_unary(b, VALUE_LOG1P, negate(b, value_operand(b, x, 1)));
  for (int k = 0; k < 2 && has_op(b, x, VALUE_ADD); k++)
    if (is_the_number(b, value_operand(b, x, k), 1))
      return make_unary(b, VALUE_LOG1P, value_operand(b, x, 1 - k));
  return NO_VALUE;
}

static value_id simplify_where(builder *b, const typed_value *v) {
  if (v->args[1] == v->args[2]) return unless_shape_differs(b, v, v->args[1]);
  return choice_apart(b, v);
}

static value_id simplify_sum(builder *b, const typed_value *v) {
  value_id contracted = contract_sum(b, v);
  return contracted != NO_VALUE ? contracted : write_out_outer_sum(b, v);
}

static value_id simplify(builder *b, typed_value *v) {
  value_id folded = fold_constants(b, v);
  if (folded != NO_VALUE) return folded;
  value_id x = v->args[0];
  switch (v->op) {
    case VALUE_NEG: return simplify_neg(b, v);
    case VALUE_ADD: return simplify_add(b, v);
    case VALUE_SUB: return simplify_sub(b, v);
    case VALUE_MUL: return simplify_mul(b, v);
    case VALUE_DIV: return simplify_div(b, v);
    case VALUE_WHOLE_POWER: return simplify_whole_power(b, v);
    case VALUE_POWER: return simplify_power(b, v);
    case VALUE_SQRT: return gate_power(b, x, make_number(b, 0.5));
    case VALUE_RSQRT: return gate_power(b, x, make_number(b, -0.5));
    case VALUE_EXP:
      return has_op(b, x, VALUE_LOG_SIGMOID) ? make_unary(b, VALUE_SIGMOID, value_operand(b, x, 0))
                                             : NO_VALUE;
    case VALUE_LOG: return simplify_log(b, v);
    case VALUE_WHERE: return simplify_where(b, v);
    case VALUE_SUM: return simplify_sum(b, v);
    case VALUE_ABS:
    case VALUE_STOP_GRADIENT: return function_of_outer(b, v);
    case VALUE_COMPLEX: return simplify_complex(b, v);
    case VALUE_CONJUGATE: return simplify_conjugate(b, v);
    case VALUE_REAL_PART:
    case VALUE_IMAGINARY_PART: return simplify_part(b, v);
    case VALUE_LOG1P:
      return has_op(b, x, VALUE_EXP) ? make_unary(b, VALUE_SOFTPLUS, value_operand(b, x, 0))
                                     : NO_VALUE;
    default: return NO_VALUE;
  }
}

builder builder_new(arena *memory, typed_body *body) {
  return builder_with_rules(memory, body, simplify);
}
