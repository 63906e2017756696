// The logarithm of a decay, formed without cancellation.
//
//   sigmoid(x)^(1/16) * exp(g)      ->  log_sigmoid(x) / 16 + g      gates tell their logarithms
//   where(reset, 0, sigmoid(x))     ->  where(reset, -inf, log_sigmoid(x))
//   1 - 2^(-5 - h)                  ->  log1p(-2^(-5 - h))           y = 1 - r at least 1/2: by r
//   lb + (1 - lb) * sigmoid(x)      ->  where(y < 1/2, log(y), log1p(-(1 - lb) * sigmoid(-x)))
//   clamp(x, 0.5, 2)                ->  log(clamp(x, 0.5, 2))        positive for all inputs
//
// A decay has a logarithm if it is positive for all real inputs (bounds.c). Where it rounds to 0 its
// logarithm is that of the smallest decay, with gradient 0: as it vanishes, so does its derivative.
// 1 - x for an input x may be 0 with derivative -1; it stays a product.
#include "compiler/recurrence/decay.h"

#include <math.h>

// Below all that counts, above the smallest number of any element type that states have.
static const double smallest_decay = 1e-37;

static value_id number(builder *b, double x) { return make_number(b, x); }

// ---- positive values ----------------------------------------------------------------------------

static value_id log_of_small(builder *b, value_id y, interval range) {
  if (range.low < smallest_decay) y = make_binary(b, VALUE_MAX, y, number(b, smallest_decay));
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
  value_id small = make_binary(b, VALUE_LESS, y, number(b, 0.5));
  return make_where(b, small, log_of_small(b, y, range), by_rest);
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
  if (v->op == VALUE_WHERE) return make_where(b, v->args[0], x, y);
  return make_binary(b, v->op == VALUE_MUL ? VALUE_ADD : VALUE_SUB, x, y);
}

static value_id log_of_value(builder *b, bounds *ranges, value_id id, const value_id *logs) {
  typed_value v = *value_at(b, id);
  if (v.op == VALUE_NUMBER) return v.number >= 0 ? number(b, log(v.number)) : NO_VALUE;
  value_id found = opens_decay(v.op) ? log_of_factors(b, &v, logs) : make_gate_log(b, id, true);
  if (found != NO_VALUE || !bounds_of(ranges, id).positive) return found;
  return log_of_positive(b, ranges, id);
}

// Factors come before products, each once, however often it is multiplied.
value_id make_decay_log(builder *b, value_id decay) {
  bounds ranges = {.memory = b->memory, .body = b->body};
  bool *needed = ARENA_ARRAY(b->memory, bool, decay + 1);
  value_id *logs = ARENA_ARRAY(b->memory, value_id, decay + 1);
  needed[decay] = true;
  for (int i = decay; i >= 0; i--) {
    const typed_value *v = value_at(b, i);
    if (!needed[i] || !opens_decay(v->op)) continue;
    for (int k = v->op == VALUE_WHERE ? 1 : 0; k < value_arity(v->op); k++)
      needed[v->args[k]] = true;
  }
  for (int i = 0; i <= decay; i++) {
    if (needed[i]) logs[i] = log_of_value(b, &ranges, i, logs);
  }
  return logs[decay];
}

value_id recurrence_decay_log(arena *a, typed_body *body, value_id decay) {
  builder b = builder_new(a, body);
  return make_decay_log(&b, decay);
}
