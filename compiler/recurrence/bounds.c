// Interval analysis: what promises, gates and constants tell about the values made of them.
//
//   %1 [H] = input x  in [-2, 8]      [-2, 8]
//   %2 [H] = sigmoid %1               [0.119, 1.000]  positive
//   %3     = number -5                [-5, -5]        negative
//   %4 [H] = mul %3 %2                [-5, -0.596]    negative
//
// Ends are rounded outward. A promise is taken on trust. A tensor that the caller hands in without
// a promise may hold anything, the states and lag buffers before the first step among them.
#include "compiler/recurrence/bounds.h"

#include <math.h>

#include "compiler/recurrence/reference_ops.h"

static const interval anything = {.low = -INFINITY, .high = INFINITY};

// ---- ends ---------------------------------------------------------------------------------------

enum { LAST_PLACES = 2 };  // what the library's functions may be off, and one more

static double widened_below(double x) {
  for (int i = 0; i < LAST_PLACES; i++) x = nextafter(x, -INFINITY);
  return x;
}

static double above(double x) {
  for (int i = 0; i < LAST_PLACES; i++) x = nextafter(x, INFINITY);
  return x;
}

static interval exactly(double low, double high) {
  if (isnan(low) || isnan(high)) return anything;
  return (interval){low, high, low > 0, high < 0};
}

// Ends that were computed, with limits that no rounding passes.
static interval rounded_interval(double low, double high, double least, double most) {
  if (isnan(low) || isnan(high)) return anything;
  return exactly(fmax(widened_below(low), least), fmin(above(high), most));
}

static interval from_to(double low, double high) {
  return rounded_interval(low, high, -INFINITY, INFINITY);
}

static double real_value_at(const typed_value *v, double x) {
  return real_value(v, (double[3]){x, 0, 0});
}

static interval rising(const typed_value *v, interval x, double least, double most) {
  return rounded_interval(real_value_at(v, x.low), real_value_at(v, x.high), least, most);
}

// ---- arithmetic ---------------------------------------------------------------------------------

static interval negated_interval(interval x) {
  return (interval){-x.high, -x.low, x.negative, x.positive};
}

static interval interval_sum(interval x, interval y) {
  interval sum = from_to(x.low + y.low, x.high + y.high);
  sum.positive |= (x.positive && y.low >= 0) || (y.positive && x.low >= 0);
  sum.negative |= (x.negative && y.high <= 0) || (y.negative && x.high <= 0);
  return sum;
}

static double product_of_ends(double x, double y) { return x == 0 || y == 0 ? 0 : x * y; }

static interval interval_product(interval x, interval y) {
  double ends[4] = {product_of_ends(x.low, y.low), product_of_ends(x.low, y.high),
                    product_of_ends(x.high, y.low), product_of_ends(x.high, y.high)};
  double low = ends[0], high = ends[0];
  for (int i = 1; i < 4; i++) {
    low = fmin(low, ends[i]);
    high = fmax(high, ends[i]);
  }
  // a product of ends of one sign has that sign, however it rounds
  interval product =
      rounded_interval(low, high, low >= 0 ? 0 : -INFINITY, high <= 0 ? 0 : INFINITY);
  product.positive |= (x.positive && y.positive) || (x.negative && y.negative);
  product.negative |= (x.positive && y.negative) || (x.negative && y.positive);
  return product;
}

static interval square_of(interval x) {
  double most = fmax(fabs(x.low), fabs(x.high));
  double least = x.low > 0 ? x.low : x.high < 0 ? -x.high : 0;
  interval square = rounded_interval(least * least, most * most, 0, INFINITY);
  square.positive |= x.positive || x.negative;
  return square;
}

static interval inverse_of(interval x) {
  interval inverse = anything;
  if (x.low > 0 || x.high < 0) {
    inverse = rounded_interval(1 / x.high, 1 / x.low, x.low > 0 ? 0 : -INFINITY,
                               x.low > 0 ? INFINITY : 0);
  } else if (x.low >= 0) {
    inverse = exactly(fmax(widened_below(1 / x.high), 0), INFINITY);
  } else if (x.high <= 0) {
    inverse = exactly(-INFINITY, fmin(above(1 / x.low), 0));
  }
  inverse.positive = x.positive;
  inverse.negative = x.negative;
  return inverse;
}

static interval whole_power_of(interval x, int n) {
  if (n < 0) return inverse_of(whole_power_of(x, -n));
  if (n == 0) return exactly(1, 1);
  interval power = n & 1 ? x : exactly(1, 1), square = n > 1 ? square_of(x) : x;
  for (int left = n >> 1; left; left >>= 1) {
    if (left & 1) power = interval_product(power, square);
    if (left > 1) square = square_of(square);
  }
  return power;
}

// exp(p * log(x)) for x >= 0.
static interval interval_power(interval x, interval p) {
  double low = fmax(x.low, 0);
  double ends[4] = {pow(low, p.low), pow(low, p.high), pow(x.high, p.low), pow(x.high, p.high)};
  interval power = rounded_interval(ends[0], ends[0], 0, INFINITY);
  for (int i = 1; i < 4; i++) {
    interval end = rounded_interval(ends[i], ends[i], 0, INFINITY);
    power.low = fmin(power.low, end.low);
    power.high = fmax(power.high, end.high);
  }
  power.positive = x.positive;
  power.negative = false;
  return power;
}

// ---- functions ----------------------------------------------------------------------------------

static interval with_signs(interval x, bool positive, bool negative) {
  x.positive |= positive;
  x.negative |= negative;
  return x;
}

// silu and gelu fall to their least value and rise from there on.
static interval dipping(const typed_value *v, interval x, double where) {
  double left = x.low == -INFINITY ? 0 : real_value_at(v, x.low);
  double right = x.high == INFINITY ? INFINITY : x.high == -INFINITY ? 0 : real_value_at(v, x.high);
  double least = x.low <= where && where <= x.high ? real_value_at(v, where) : fmin(left, right);
  interval dip = from_to(least, fmax(left, right));
  return with_signs(dip, x.positive, x.negative);
}

static interval absolute(interval x) {
  double most = fmax(fabs(x.low), fabs(x.high));
  double least = x.low > 0 ? x.low : x.high < 0 ? -x.high : 0;
  return with_signs(exactly(least, most), x.positive || x.negative, false);
}

static interval interval_min(interval x, interval y) {
  return with_signs(exactly(fmin(x.low, y.low), fmin(x.high, y.high)), x.positive && y.positive,
                    x.negative || y.negative);
}

static interval interval_max(interval x, interval y) {
  return with_signs(exactly(fmax(x.low, y.low), fmax(x.high, y.high)), x.positive || y.positive,
                    x.negative && y.negative);
}

static interval either(interval x, interval y) {
  return with_signs(exactly(fmin(x.low, y.low), fmax(x.high, y.high)), x.positive && y.positive,
                    x.negative && y.negative);
}

static interval interval_unary(const typed_value *v, interval x) {
  switch (v->op) {
    case VALUE_NEG: return negated_interval(x);
    case VALUE_STOP_GRADIENT: return x;
    case VALUE_ABS: return absolute(x);
    case VALUE_WHOLE_POWER: return whole_power_of(x, v->index);
    case VALUE_EXP: return with_signs(rising(v, x, 0, INFINITY), true, false);
    case VALUE_EXPM1: return with_signs(rising(v, x, -1, INFINITY), x.positive, x.negative);
    case VALUE_LOG: x.low = fmax(x.low, 0); return rising(v, x, -INFINITY, INFINITY);
    case VALUE_LOG1P:
      x.low = fmax(x.low, -1);
      return with_signs(rising(v, x, -INFINITY, INFINITY), x.positive, x.negative);
    case VALUE_SQRT:
      x.low = fmax(x.low, 0);
      return with_signs(rising(v, x, 0, INFINITY), x.positive, false);
    case VALUE_RSQRT:
      return with_signs(
          rounded_interval(1 / sqrt(x.high), x.low > 0 ? 1 / sqrt(x.low) : INFINITY, 0, INFINITY),
          true, false);
    case VALUE_SIGMOID: return with_signs(rising(v, x, 0, 1), true, false);
    case VALUE_LOG_SIGMOID: return with_signs(rising(v, x, -INFINITY, 0), false, true);
    case VALUE_SOFTPLUS: return with_signs(rising(v, x, 0, INFINITY), true, false);
    case VALUE_SILU: return dipping(v, x, -1.2784645427610741);
    case VALUE_GELU: return dipping(v, x, -0.7517915246935646);
    case VALUE_RELU: return with_signs(rising(v, x, 0, INFINITY), x.positive, false);
    case VALUE_TANH: return with_signs(rising(v, x, -1, 1), x.positive, x.negative);
    case VALUE_SIN:
    case VALUE_COS: return exactly(-1, 1);
    default: return anything;
  }
}

static interval elementwise(const typed_value *v, const interval x[3]) {
  bool square = v->op == VALUE_MUL && v->args[0] == v->args[1];
  switch (v->op) {
    case VALUE_ADD: return interval_sum(x[0], x[1]);
    case VALUE_SUB: return interval_sum(x[0], negated_interval(x[1]));
    case VALUE_MUL: return square ? square_of(x[0]) : interval_product(x[0], x[1]);
    case VALUE_DIV: return interval_product(x[0], inverse_of(x[1]));
    case VALUE_POWER: return interval_power(x[0], x[1]);
    case VALUE_MIN: return interval_min(x[0], x[1]);
    case VALUE_MAX: return interval_max(x[0], x[1]);
    case VALUE_CLAMP: return interval_min(interval_max(x[0], x[1]), x[2]);
    case VALUE_WHERE: return either(x[1], x[2]);
    case VALUE_LESS:
    case VALUE_LESS_EQUAL:
    case VALUE_GREATER:
    case VALUE_GREATER_EQUAL:
    case VALUE_EQUAL: return exactly(0, 1);
    default: return interval_unary(v, x[0]);
  }
}

// ---- leaves, axes -------------------------------------------------------------------------------

static interval interval_of_size(const typed_body *body, int axis) {
  const typed_axis *a = &body->axes.items[axis];
  if (a->size != TYPED_RUNTIME_SIZE) return exactly((double)a->size, (double)a->size);
  return exactly(fmax((double)a->least, 1), INFINITY);
}

static interval promised(const typed_body *body, int tensor) {
  const typed_tensor *t = &body->tensors.items[tensor];
  return t->promised ? exactly(t->low, t->high) : anything;
}

static interval sum_over(const typed_body *body, axis_set over, interval x) {
  interval count = exactly(1, 1);
  for (int i = 0; i < body->axes.count; i++)
    if (axis_in(over, i)) count = interval_product(count, interval_of_size(body, i));
  return interval_product(count, x);
}

// The parts of complex values that are told apart.
static interval complex_part_bounds(bounds *b, const typed_value *v) {
  const typed_value *x = &b->body->values.items[v->args[0]];
  if (v->op == VALUE_COMPLEX_ABS) {
    if (x->op == VALUE_POLAR) return absolute(b->known.items[x->args[0]]);
    return exactly(0, INFINITY);
  }
  if (x->op != VALUE_COMPLEX) return anything;
  return b->known.items[x->args[v->op == VALUE_REAL_PART ? 0 : 1]];
}

static interval find_interval(bounds *b, const typed_value *v) {
  interval x[3] = {anything, anything, anything};
  if (v->complex) return anything;
  for (int k = 0; k < value_arity(v->op); k++) x[k] = b->known.items[v->args[k]];
  switch (v->op) {
    case VALUE_NUMBER: return exactly(v->number, v->number);
    case VALUE_AXIS_SIZE: return interval_of_size(b->body, v->index);
    case VALUE_INDEX: return exactly(0, interval_of_size(b->body, v->index).high - 1);
    case VALUE_INPUT:
    case VALUE_PARAM:
    case VALUE_PREVIOUS: return promised(b->body, v->index);
    case VALUE_LAG: return anything;
    case VALUE_SUM: return sum_over(b->body, v->over, x[0]);
    case VALUE_MAX_OVER:
    case VALUE_MIN_OVER:
    case VALUE_RENAME:
    case VALUE_SLICE: return x[0];
    case VALUE_REAL_PART:
    case VALUE_IMAGINARY_PART:
    case VALUE_COMPLEX_ABS: return complex_part_bounds(b, v);
    default: return elementwise(v, x);
  }
}

interval bounds_of(bounds *b, value_id id) {
  while (b->known.count <= id) {
    interval next = find_interval(b, &b->body->values.items[b->known.count]);
    vec_push(b->memory, &b->known, next);
  }
  return b->known.items[id];
}

void recurrence_bounds(arena *a, const recurrence *r, value_id value, double *low, double *high) {
  bounds b = {.memory = a, .body = &r->body};
  interval x = bounds_of(&b, value);
  *low = x.low;
  *high = x.high;
}
