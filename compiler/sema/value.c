// Operations of recurrence bodies: their rows, and the axes and element kind of a value from those
// of its operands.
#include <math.h>
#include <string.h>

#include "compiler/base/hash.h"
#include "compiler/base/ice.h"
#include "compiler/sema/typed.h"

static double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + exp(-x));
  double e = exp(x);
  return e / (1 + e);
}

static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

// The share of a normal distribution below x.
static double normal_below(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

static double clamped(double x, double low, double high) {
  double raised = x < low ? low : x;
  return raised > high ? high : raised;
}

// The column `value`.
#define VALUE_OP(id, text, arity, class, linear, called, cost, complex_cost, value) \
  static double result_of_##id(const double *x) {                                   \
    (void)x;                                                                        \
    return value;                                                                   \
  }
#include "compiler/sema/value_ops.def"
#undef VALUE_OP

// The column `linear`.
typedef enum linearity {
  LINEAR_NONE,
  LINEAR_ALL,
  LINEAR_MOVED,
  LINEAR_EACH,
  LINEAR_FIRST,
  LINEAR_BRANCHES
} linearity;

static const struct {
  const char *text;
  int arity;
  value_class class;
  linearity linear;
  int cost[2];  // by whether the result is complex
  value_function *function;
} rows[VALUE_OP_COUNT] = {
#define VALUE_OP(id, text, arity, class, linear, called, cost, complex_cost, value) \
  [VALUE_##                                                                         \
      id] = {text, arity, CLASS_##class, LINEAR_##linear, {cost, complex_cost}, result_of_##id},
#include "compiler/sema/value_ops.def"
#undef VALUE_OP
};

int value_arity(value_op op) { return rows[op].arity; }
const char *value_op_text(value_op op) { return rows[op].text; }
value_class value_op_class(value_op op) { return rows[op].class; }
value_function *value_function_of(value_op op) { return rows[op].function; }

bool value_is_linear_in(value_op op, unsigned operands) {
  enum { FIRST = 1, BOTH = 3 };
  switch (rows[op].linear) {
    case LINEAR_ALL:
    case LINEAR_MOVED: return true;
    case LINEAR_EACH: return operands != BOTH;
    case LINEAR_FIRST: return operands == FIRST;
    case LINEAR_BRANCHES: return !(operands & FIRST);
    default: return false;
  }
}

bool value_moves_entries(value_op op) { return rows[op].linear == LINEAR_MOVED; }

int value_cost(const typed_value *v) { return rows[v->op].cost[v->complex]; }

value_op value_op_find(const char *text) {
  int op = 0;
  while (op < VALUE_OP_COUNT && strcmp(rows[op].text, text) != 0) op++;
  return (value_op)op;
}

static void set_leaf_shape(const typed_body *body, typed_value *v) {
  v->axes = 0;
  v->complex = false;
  switch (v->op) {
    case VALUE_INDEX: v->axes = axis_bit(v->index); break;
    case VALUE_INPUT:
    case VALUE_PARAM:
    case VALUE_PREVIOUS:
      v->axes = body->tensors.items[v->index].axis_set;
      v->complex = body->tensors.items[v->index].complex;
      break;
    case VALUE_LAG:
      v->axes = body->lags.items[v->index].axes;
      v->complex = body->lags.items[v->index].complex;
      break;
    default: break;
  }
}

static void set_axis_shape(const typed_body *body, typed_value *v) {
  const typed_value *operand = &body->values.items[v->args[0]];
  v->axes = operand->axes & ~axis_bit(v->index);
  if (v->op == VALUE_RENAME) v->axes |= axis_bit(v->index2);
  v->complex = operand->complex;
}

static void set_elementwise_shape(const typed_body *body, typed_value *v) {
  bool any_complex = false;
  v->axes = 0;
  for (int k = 0; k < rows[v->op].arity; k++) {
    const typed_value *operand = &body->values.items[v->args[k]];
    v->axes |= operand->axes;
    any_complex |= operand->complex;
  }
  value_class class = rows[v->op].class;
  v->complex =
      class == CLASS_TO_COMPLEX || ((class == CLASS_FIELD || class == CLASS_REDUCE) && any_complex);
  if (class == CLASS_REDUCE) v->axes &= ~v->over;
}

void value_set_shape(const typed_body *body, typed_value *value) {
  switch (rows[value->op].class) {
    case CLASS_LEAF: set_leaf_shape(body, value); break;
    case CLASS_AXIS: set_axis_shape(body, value); break;
    default: set_elementwise_shape(body, value); break;
  }
}

uint64_t hash_typed_value(const typed_value *v) {
  uint64_t hash = hash_mix(17, (uint64_t)v->op);
  for (int k = 0; k < value_arity(v->op); k++) hash = hash_mix(hash, (uint64_t)v->args[k]);
  hash = hash_mix(hash, v->over);
  hash = hash_mix(hash, number_bits(v->number));
  hash = hash_mix(hash, (uint64_t)(uint32_t)v->index << 32 | (uint32_t)v->index2);
  return hash_mix(hash, (uint64_t)(uint32_t)v->steps << 1 | (v->kink ? 1 : 0));
}

bool same_typed_value(const typed_value *a, const typed_value *b) {
  if (a->op != b->op || a->over != b->over || a->kink != b->kink || a->index != b->index ||
      a->index2 != b->index2 || a->steps != b->steps ||
      number_bits(a->number) != number_bits(b->number)) {
    return false;
  }
  for (int k = 0; k < value_arity(a->op); k++)
    if (a->args[k] != b->args[k]) return false;
  return true;
}

value_id body_append(arena *a, typed_body *body, typed_value value) {
  for (int k = 0; k < 3; k++) {
    bool used = k < rows[value.op].arity;
    if (used && (value.args[k] < 0 || value.args[k] >= body->values.count))
      ICE("body", "operand %d of %s is %%%d of %d values", k, rows[value.op].text,
          (int)value.args[k], body->values.count);
    if (!used) value.args[k] = NO_VALUE;
  }
  value_set_shape(body, &value);
  vec_push(a, &body->values, value);
  return body->values.count - 1;
}
