// The logarithm of a decay, formed without cancellation.
//
//   sigmoid(x)^(1/16) * exp(g)      ->  log_sigmoid(x) / 16 + g      gates tell their logarithms
//   where(reset, 0, sigmoid(x))     ->  where(reset, -inf, log_sigmoid(x))
//   where(r, 0, f[K] * g[V])        ->  where(r, -inf, 0) + where(r, 0, log f) + where(r, 0, log g)
//   1 - 2^(-5 - h)                  ->  log1p(-2^(-5 - h))           y = 1 - r at least 1/2: by r
//   lb + (1 - lb) * sigmoid(x)      ->  where(y < 1/2, log(y), log1p(-(1 - lb) * sigmoid(-x)))
//   clamp(x, 0.5, 2)                ->  log(clamp(x, 0.5, 2))        positive for all inputs
//
// A decay has a logarithm if it is positive for all real inputs (bounds.c). Where it rounds to 0
// its logarithm is that of the smallest decay, with gradient 0: as it vanishes, so does its
// derivative. 1 - x for an input x may be 0 with derivative -1; it stays a product.
#include "compiler/recurrence/decay.h"

#include <math.h>

// Below all that counts, above the smallest number of any element type that states have.
static const double smallest_decay = 1e-37;

// ---- positive values ----------------------------------------------------------------------------

static value_id log_of_small(builder *b, value_id y, interval range) {
  if (range.low < smallest_decay) y = make_binary(b, VALUE_MAX, y, make_number(b, smallest_decay));
  return make_unary(b, VALUE_LOG, y);
}

// log(y) by y itself or, near 1, by what is missing there.
static value_id log_of_positive(builder *b, bounds *ranges, value_id y) {
  interval range = bounds_of(ranges, y);
  value_id rest = make_complement(b, y);
  if (rest == NO_VALUE || range.high <= 0.5) return log_of_small(b, y, range);
  value_id by_rest = make_unary(b, VALUE_LOG1P, make_unary(b, VALUE_NEG, rest));
  // a difference from 1 knows no more digits than what is taken away
  bool difference = value_at(b, y)->op == VALUE_SUB;
  if (range.low >= 0.5 || (difference && range.low >= smallest_decay)) return by_rest;
  value_id small = make_binary(b, VALUE_LESS, y, make_number(b, 0.5));
  return make_where(b, small, log_of_small(b, y, range), by_rest);
}

// ---- choices ------------------------------------------------------------------------------------

// What `where` chooses is told apart by axes: sums of logarithms term by term, products factor by
// factor. Keys and values are then on sides of their own.
typedef VEC(value_id) value_list;

enum { PARTS_MAX = 32, PARTS_DEEP = 32 };  // sums and products of more parts stay whole

// Terms of a sum or factors of a product; a difference is a sum.
static void collect_parts(builder *b, value_list *parts, value_op joins, value_id x, int depth) {
  typed_value v = *value_at(b, x);
  bool difference = joins == VALUE_ADD && v.op == VALUE_SUB;
  if (parts->count >= PARTS_MAX || depth == PARTS_DEEP || (v.op != joins && !difference)) {
    vec_push(b->memory, parts, x);
    return;
  }
  collect_parts(b, parts, joins, v.args[0], depth + 1);
  if (difference) v.args[1] = make_unary(b, VALUE_NEG, v.args[1]);
  collect_parts(b, parts, joins, v.args[1], depth + 1);
}

static bool have_axes_of_one(const builder *b, const value_list *parts) {
  axis_set all = 0, largest = 0;
  for (int i = 0; i < parts->count; i++) {
    axis_set axes = value_at(b, parts->items[i])->axes;
    all |= axes;
    if ((axes | largest) == axes) largest = axes;
  }
  return all == largest;
}

// One part of the branch that is taken where `first` is (or is not) the condition. A part with
// other axes than the condition stays as it is beside a branch that is `zero`: it counts for
// nothing there.
static value_id chosen_part(builder *b, value_id condition, value_id part, value_id neutral,
                            bool first, bool beside_zero) {
  axis_set of_condition = value_at(b, condition)->axes, of_part = value_at(b, part)->axes;
  axis_set common = of_condition & of_part;
  if (beside_zero && common != of_condition && common != of_part) return part;
  return make_where(b, condition, first ? part : neutral, first ? neutral : part);
}

// where(condition, x, y) as a sum (or product) whose zero is -inf (0) and whose one is 0 (1).
static value_id make_choice(builder *b, value_op joins, value_id condition, value_id x,
                            value_id y) {
  bool sum = joins == VALUE_ADD;
  double nothing = sum ? -INFINITY : 0;
  value_id branches[2] = {x, y}, neutral = make_number(b, sum ? 0 : 1), all = NO_VALUE;
  value_list parts[2] = {{0}, {0}};
  for (int i = 0; i < 2; i++) collect_parts(b, &parts[i], joins, branches[i], 0);
  if (have_axes_of_one(b, &parts[0]) && have_axes_of_one(b, &parts[1]))
    return make_where(b, condition, x, y);
  for (int i = 0; i < 2; i++) {
    bool beside_zero = is_the_number(b, branches[1 - i], nothing);
    for (int k = 0; k < parts[i].count; k++) {
      value_id part = chosen_part(b, condition, parts[i].items[k], neutral, i == 0, beside_zero);
      all = all == NO_VALUE ? part : make_binary(b, joins, all, part);
    }
  }
  return all;
}

// ---- products -----------------------------------------------------------------------------------

// Operations through which the logarithm of a decay is made from those of its factors.
static bool opens_decay(value_op op) {
  return op == VALUE_MUL || op == VALUE_DIV || op == VALUE_WHERE;
}

static value_id log_of_factors(builder *b, const typed_value *v, const value_id *logs) {
  int first = v->op == VALUE_WHERE ? 1 : 0;
  value_id x = logs[v->args[first]], y = logs[v->args[first + 1]];
  if (x == NO_VALUE || y == NO_VALUE) return NO_VALUE;
  if (v->op == VALUE_WHERE) return make_choice(b, VALUE_ADD, v->args[0], x, y);
  return make_binary(b, v->op == VALUE_MUL ? VALUE_ADD : VALUE_SUB, x, y);
}

static value_id log_of_value(builder *b, bounds *ranges, value_id id, const value_id *logs) {
  typed_value v = *value_at(b, id);
  if (v.op == VALUE_NUMBER) return v.number >= 0 ? make_number(b, log(v.number)) : NO_VALUE;
  value_id found = opens_decay(v.op) ? log_of_factors(b, &v, logs) : make_gate_log(b, id, true);
  if (found != NO_VALUE || !bounds_of(ranges, id).positive) return found;
  return log_of_positive(b, ranges, id);
}

// What a decay is made of, through operations that are opened.
static bool *parts_of_decay(const builder *b, value_id decay) {
  bool *needed = ARENA_ARRAY(b->memory, bool, decay + 1);
  needed[decay] = true;
  for (int i = decay; i >= 0; i--) {
    const typed_value *v = value_at(b, i);
    if (!needed[i] || !opens_decay(v->op)) continue;
    for (int k = v->op == VALUE_WHERE ? 1 : 0; k < value_arity(v->op); k++)
      needed[v->args[k]] = true;
  }
  return needed;
}

// Factors come before products, each once, however often it is multiplied.
value_id make_decay_log(builder *b, value_id decay) {
  bounds ranges = {.memory = b->memory, .body = b->body};
  const bool *needed = parts_of_decay(b, decay);
  value_id *logs = ARENA_ARRAY(b->memory, value_id, decay + 1);
  for (int i = 0; i <= decay; i++) {
    if (!needed[i]) continue;
    b->span = value_at(b, i)->span;
    logs[i] = log_of_value(b, &ranges, i, logs);
  }
  return logs[decay];
}

value_id make_separate_choices(builder *b, value_id decay) {
  const bool *needed = parts_of_decay(b, decay);
  value_id *separate = ARENA_ARRAY(b->memory, value_id, decay + 1);
  for (int i = 0; i <= decay; i++) {
    typed_value v = *value_at(b, i);
    separate[i] = i;
    if (!needed[i] || !opens_decay(v.op)) continue;
    int first = v.op == VALUE_WHERE ? 1 : 0;
    value_id x = separate[v.args[first]], y = separate[v.args[first + 1]];
    if (v.op == VALUE_WHERE)
      separate[i] = make_choice(b, VALUE_MUL, v.args[0], x, y);
    else if (x != v.args[0] || y != v.args[1])
      separate[i] = make_binary(b, v.op, x, y);
  }
  return separate[decay];
}

value_id recurrence_decay_log(arena *a, typed_body *body, value_id decay) {
  builder b = builder_new(a, body);
  return make_decay_log(&b, decay);
}
