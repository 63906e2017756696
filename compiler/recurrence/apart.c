// Functions and choices of outer products, as outer products again.
//
//   (k * v)^2, abs(k * v)       ->  k^2 * v^2, abs(k) * abs(v)
//   x / (n * w)                 ->  x * ((1 / n) * (1 / w))                        n[K], w[V]
//   k * v / n, W * x / n        ->  k * (v / n), W * (x / n)
//   where(c, k * v, 0)          ->  where(c, k, 0) * where(c, v, 0)                c[H]
//                               ->  where(c, k, 0) * where(max[K](c), v, 0)        c[K]
//   where(c, v, 0)              ->  where(c, 1, 0) * where(max[K](c), v, 0)
//   where(c, k * v, p * v)      ->  where(c, k, p) * v
//   where(c, k * v, p * w)      ->  where(c, k, p) * where(c, v, w)                c[H]
//                               ->  where(c, k * v, 0) + where(c, 0, p * w)        c[K]
//   where(c, p * v, x + k * v)  ->  where(c, 0, x) + where(c, p, k) * v
//
// Both factors of a product that is not chosen are 0, so that no NaN of them leaks. A factor that
// lacks axes of the condition is 0 where the condition is 0 along all of them. Chunks choose between
// states in the same way (chunk/linear.c).
#include "compiler/recurrence/factor.h"
#include "compiler/recurrence/simplify.h"

static axis_set axes_of(const builder *b, value_id id) { return value_at(b, id)->axes; }

static bool is_outer_within(const builder *b, value_id id, int depth) {
  typed_value v = *value_at(b, id);
  if (v.op != VALUE_MUL || depth == 0) return false;
  bool apart = axes_of(b, v.args[0]) != v.axes && axes_of(b, v.args[1]) != v.axes;
  return apart || is_outer_within(b, v.args[0], depth - 1) ||
         is_outer_within(b, v.args[1], depth - 1);
}

bool is_outer(const builder *b, value_id id) { return is_outer_within(b, id, SEARCH_DEPTH); }

// Is one factor smaller than the product?
static bool is_spread(const builder *b, value_id id) {
  typed_value v = *value_at(b, id);
  return v.op == VALUE_MUL && (axes_of(b, v.args[0]) != v.axes || axes_of(b, v.args[1]) != v.axes);
}

value_id function_of_outer(builder *b, const typed_value *v) {
  if (!is_outer(b, v->args[0]) && !is_spread(b, v->args[0])) return NO_VALUE;
  typed_value product = *value_at(b, v->args[0]), part = *v;
  value_id of[2];
  part.name = NULL;
  for (int k = 0; k < 2; k++) {
    part.args[0] = product.args[k];
    of[k] = make_value(b, part);
  }
  return make_binary(b, VALUE_MUL, of[0], of[1]);
}

static value_id reciprocal(builder *b, value_id x) {
  if (is_outer(b, x)) {
    typed_value product = *value_at(b, x);
    value_id first = reciprocal(b, product.args[0]);
    return make_binary(b, VALUE_MUL, first, reciprocal(b, product.args[1]));
  }
  return make_binary(b, VALUE_DIV, make_number(b, 1), x);
}

// The divisor goes to a factor that is smaller than the product.
static value_id quotient_of_factor(builder *b, value_id product, value_id divisor) {
  typed_value v = *value_at(b, product);
  if (v.op != VALUE_MUL || is_assigned(b, product)) return NO_VALUE;
  int least = -1;
  for (int k = 0; k < 2; k++) {
    axis_set axes = axes_of(b, v.args[k]);
    if (axes == v.axes || (axes_of(b, divisor) & ~axes)) continue;
    if (least < 0 || !(axes & ~axes_of(b, v.args[least]))) least = k;
  }
  if (least < 0) return NO_VALUE;
  value_id quotient = make_binary(b, VALUE_DIV, v.args[least], divisor);
  return least ? make_binary(b, VALUE_MUL, v.args[0], quotient)
               : make_binary(b, VALUE_MUL, quotient, v.args[1]);
}

value_id quotient_apart(builder *b, const typed_value *v) {
  if (!is_outer(b, v->args[1])) return quotient_of_factor(b, v->args[0], v->args[1]);
  return make_binary(b, VALUE_MUL, v->args[0], reciprocal(b, v->args[1]));
}

// ---- choices ------------------------------------------------------------------------------------

static value_id chosen_or_zero(builder *b, value_id condition, value_id x, bool first) {
  value_id zero = make_number(b, 0);
  return make_where(b, condition, first ? x : zero, first ? zero : x);
}

// x where the condition chooses it anywhere along the axes that x lacks. `first`: where it is not 0.
static value_id chosen_anywhere(builder *b, value_id condition, value_id x, bool first) {
  axis_set lacking = axes_of(b, condition) & ~axes_of(b, x);
  typed_value any = {
      .op = first ? VALUE_MAX_OVER : VALUE_MIN_OVER, .args = {condition}, .over = lacking};
  if (value_at(b, x)->op == VALUE_NUMBER) return x;
  return chosen_or_zero(b, lacking ? make_value(b, any) : condition, x, first);
}

static bool is_comparison(const builder *b, value_id id) {
  return value_op_class(value_at(b, id)->op) == CLASS_COMPARE;
}

// Shift registers choose by position (shift.c).
static bool is_positional(const builder *b, value_id id, int depth) {
  typed_value v = *value_at(b, id);
  if (v.op == VALUE_INDEX || v.op == VALUE_NUMBER || v.op == VALUE_AXIS_SIZE) return true;
  bool positional = depth > 0 && value_arity(v.op) > 0;
  for (int k = 0; k < value_arity(v.op) && positional; k++)
    positional = is_positional(b, v.args[k], depth - 1);
  return positional;
}

// Do the axes of the condition and of x mix, so that the choice is larger than both?
static bool is_mixed(const builder *b, value_id condition, value_id x) {
  axis_set of_condition = axes_of(b, condition), of_x = axes_of(b, x);
  return (of_condition & ~of_x) && (of_x & ~of_condition) && is_comparison(b, condition) &&
         !is_positional(b, condition, SEARCH_DEPTH);
}

static value_id chosen_product(builder *b, value_id condition, value_id product, bool first) {
  axis_set axes = axes_of(b, condition);
  typed_value of = *value_at(b, product);
  bool fits[2] = {!(axes & ~axes_of(b, of.args[0])), !(axes & ~axes_of(b, of.args[1]))};
  if (!fits[0] && !fits[1]) return NO_VALUE;
  if (!(fits[0] && fits[1]) && !is_comparison(b, condition)) return NO_VALUE;
  value_id factor[2];
  for (int k = 0; k < 2; k++)
    factor[k] = fits[k] ? chosen_or_zero(b, condition, of.args[k], first)
                        : chosen_anywhere(b, condition, of.args[k], first);
  return make_binary(b, VALUE_MUL, factor[0], factor[1]);
}

static bool is_sum_of_outer(const builder *b, value_id id, int depth) {
  typed_value v = *value_at(b, id);
  if (is_outer(b, id)) return true;
  bool adds = v.op == VALUE_ADD || v.op == VALUE_SUB || v.op == VALUE_NEG;
  if (!adds || depth == 0 || is_assigned(b, id)) return false;
  for (int k = 0; k < value_arity(v.op); k++)
    if (!is_sum_of_outer(b, v.args[k], depth - 1)) return false;
  return true;
}

// x where the condition is not 0 (`first`), or is; else 0.
static value_id choice_of_one(builder *b, value_id condition, value_id x, bool first) {
  typed_value both = *value_at(b, condition);
  if (first && is_outer(b, condition) && is_comparison(b, both.args[0]) &&
      is_comparison(b, both.args[1]))
    return chosen_or_zero(b, both.args[0], chosen_or_zero(b, both.args[1], x, true), true);
  if (is_outer(b, x)) return chosen_product(b, condition, x, first);
  if (is_sum_of_outer(b, x, SEARCH_DEPTH)) {
    typed_value sum = *value_at(b, x);
    sum.name = NULL;
    for (int k = 0; k < value_arity(sum.op); k++)
      sum.args[k] = chosen_or_zero(b, condition, sum.args[k], first);
    return make_value(b, sum);
  }
  if (!is_mixed(b, condition, x)) return NO_VALUE;
  value_id mask = chosen_or_zero(b, condition, make_number(b, 1), first);
  return make_binary(b, VALUE_MUL, mask, chosen_anywhere(b, condition, x, first));
}

// where(c, x, x + y), which x stands beside.
static value_id chosen_beside(builder *b, value_id condition, value_id x, value_id sum,
                              bool first) {
  typed_value v = *value_at(b, sum);
  for (int k = 0; k < 2 && v.op == VALUE_ADD; k++) {
    value_id y = v.args[1 - k];
    if (v.args[k] != x || axes_of(b, condition) & ~axes_of(b, y)) continue;
    return make_binary(b, VALUE_ADD, x, chosen_or_zero(b, condition, y, !first));
  }
  return NO_VALUE;
}

static value_id chosen_of_common(builder *b, value_id condition, value_id x, value_id y) {
  factors of_x = {0}, of_y = {0}, common = {0};
  if (!collect_factors(b->body, x, NULL, &of_x) || !collect_factors(b->body, y, NULL, &of_y))
    return NO_VALUE;
  take_common(&of_x, &of_y, &common);
  axis_set rest = product_axes(b, &of_x) | product_axes(b, &of_y) | axes_of(b, condition);
  if (!(product_axes(b, &common) & ~rest)) return NO_VALUE;
  value_id first = factor_product(b, &of_x), choice;
  choice = make_where(b, condition, first, factor_product(b, &of_y));
  return make_binary(b, VALUE_MUL, choice, factor_product(b, &common));
}

// `x` and a term of `sum` share a factor. `first`: x is chosen where the condition is not 0.
static value_id chosen_of_term(builder *b, value_id condition, value_id x, value_id sum,
                               bool first) {
  typed_value v = *value_at(b, sum);
  for (int k = 0; k < 2 && v.op == VALUE_ADD && !is_assigned(b, sum); k++) {
    value_id y = v.args[k];
    value_id choice = chosen_of_common(b, condition, first ? x : y, first ? y : x);
    if (choice == NO_VALUE) continue;
    value_id rest = chosen_or_zero(b, condition, v.args[1 - k], !first);
    return make_binary(b, VALUE_ADD, rest, choice);
  }
  return NO_VALUE;
}

// Two products whose factors have the same axes.
static value_id chosen_pairs(builder *b, value_id condition, value_id x, value_id y) {
  typed_value of_x = *value_at(b, x), of_y = *value_at(b, y);
  if (!is_outer(b, x) || !is_outer(b, y)) return NO_VALUE;
  int other = axes_of(b, of_x.args[0]) != axes_of(b, of_y.args[0]);
  value_id choice[2];
  for (int k = 0; k < 2; k++) {
    value_id from = of_x.args[k], to = of_y.args[k ^ other];
    if (axes_of(b, from) != axes_of(b, to) || axes_of(b, condition) & ~axes_of(b, from))
      return NO_VALUE;
    choice[k] = make_where(b, condition, from, to);
  }
  return make_binary(b, VALUE_MUL, choice[0], choice[1]);
}

static value_id choice_of_two(builder *b, value_id condition, value_id x, value_id y) {
  value_id sum = chosen_beside(b, condition, x, y, true);
  if (sum == NO_VALUE) sum = chosen_beside(b, condition, y, x, false);
  if (sum == NO_VALUE) sum = chosen_of_common(b, condition, x, y);
  if (sum == NO_VALUE) sum = chosen_pairs(b, condition, x, y);
  if (sum == NO_VALUE) sum = chosen_of_term(b, condition, x, y, true);
  if (sum == NO_VALUE) sum = chosen_of_term(b, condition, y, x, false);
  if (sum != NO_VALUE) return sum;
  bool mixed = is_mixed(b, condition, x) || is_outer(b, x);
  if (!mixed || !(is_mixed(b, condition, y) || is_outer(b, y))) return NO_VALUE;
  value_id first = choice_of_one(b, condition, x, true), second;
  second = first == NO_VALUE ? NO_VALUE : choice_of_one(b, condition, y, false);
  return second == NO_VALUE ? NO_VALUE : make_binary(b, VALUE_ADD, first, second);
}

value_id choice_apart(builder *b, const typed_value *v) {
  value_id condition = v->args[0], x = v->args[1], y = v->args[2];
  if (is_the_number(b, y, 0)) return choice_of_one(b, condition, x, true);
  if (is_the_number(b, x, 0)) return choice_of_one(b, condition, y, false);
  return choice_of_two(b, condition, x, y);
}
