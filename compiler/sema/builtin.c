// The built-in functions, and their values on constants.
#include <math.h>
#include <string.h>

#include "compiler/sema/internal.h"

static const builtin builtins[] = {
    {"exp", BUILTIN_ELEMENTWISE, 1, VALUE_EXP, true},
    {"log", BUILTIN_ELEMENTWISE, 1, VALUE_LOG, false},
    {"sqrt", BUILTIN_ELEMENTWISE, 1, VALUE_SQRT, false},
    {"rsqrt", BUILTIN_ELEMENTWISE, 1, VALUE_RSQRT, false},
    {"abs", BUILTIN_ELEMENTWISE, 1, VALUE_ABS, true},
    {"sigmoid", BUILTIN_ELEMENTWISE, 1, VALUE_SIGMOID, false},
    {"log_sigmoid", BUILTIN_ELEMENTWISE, 1, VALUE_LOG_SIGMOID, false},
    {"softplus", BUILTIN_ELEMENTWISE, 1, VALUE_SOFTPLUS, false},
    {"silu", BUILTIN_ELEMENTWISE, 1, VALUE_SILU, false},
    {"gelu", BUILTIN_ELEMENTWISE, 1, VALUE_GELU, false},
    {"relu", BUILTIN_ELEMENTWISE, 1, VALUE_RELU, false},
    {"tanh", BUILTIN_ELEMENTWISE, 1, VALUE_TANH, false},
    {"sin", BUILTIN_ELEMENTWISE, 1, VALUE_SIN, false},
    {"cos", BUILTIN_ELEMENTWISE, 1, VALUE_COS, false},
    {"min", BUILTIN_ELEMENTWISE, 2, VALUE_MIN, false},
    {"max", BUILTIN_ELEMENTWISE, 2, VALUE_MAX, false},
    {"clamp", BUILTIN_ELEMENTWISE, 3, VALUE_CLAMP, false},
    {"where", BUILTIN_ELEMENTWISE, 3, VALUE_WHERE, true},
    {"expm1", BUILTIN_ELEMENTWISE, 1, VALUE_EXPM1, true},
    {"log1p", BUILTIN_ELEMENTWISE, 1, VALUE_LOG1P, false},
    {"stop_gradient", BUILTIN_ELEMENTWISE, 1, VALUE_STOP_GRADIENT, true},
    {"complex", BUILTIN_ELEMENTWISE, 2, VALUE_COMPLEX, false},
    {"polar", BUILTIN_ELEMENTWISE, 2, VALUE_POLAR, false},
    {"re", BUILTIN_ELEMENTWISE, 1, VALUE_REAL_PART, true},
    {"im", BUILTIN_ELEMENTWISE, 1, VALUE_IMAGINARY_PART, true},
    {"conj", BUILTIN_ELEMENTWISE, 1, VALUE_CONJUGATE, true},
    {"sum", BUILTIN_REDUCTION, 1, VALUE_SUM, true},
    {"mean", BUILTIN_REDUCTION, 1, VALUE_SUM, true},
    {"max", BUILTIN_REDUCTION, 1, VALUE_MAX_OVER, false},
    {"min", BUILTIN_REDUCTION, 1, VALUE_MIN_OVER, false},
    {"norm", BUILTIN_REDUCTION, 1, VALUE_SUM, true},
    {"normalize", BUILTIN_REDUCTION, 1, VALUE_SUM, true},
    {"softmax", BUILTIN_REDUCTION, 1, VALUE_SUM, false},
    {"index", BUILTIN_INDEX, 0, VALUE_INDEX, false},
    {"fold", BUILTIN_FOLD, 2, VALUE_OP_COUNT, true},
    {"uniform", BUILTIN_START, 2, VALUE_OP_COUNT, false},
    {"loguniform", BUILTIN_START, 2, VALUE_OP_COUNT, false},
    {"normal", BUILTIN_START, 2, VALUE_OP_COUNT, false},
    {"inv_softplus", BUILTIN_START, 1, VALUE_OP_COUNT, false},
    {"identity", BUILTIN_START, 0, VALUE_OP_COUNT, false},
    {"linear", BUILTIN_LAYER, 1, VALUE_OP_COUNT, false},
    {"conv1d", BUILTIN_LAYER, 1, VALUE_OP_COUNT, false},
    {"rms_norm", BUILTIN_LAYER, 1, VALUE_OP_COUNT, false},
    {"embed", BUILTIN_LAYER, 2, VALUE_OP_COUNT, false},
    {"unembed", BUILTIN_LAYER, 1, VALUE_OP_COUNT, false},
};
enum { BUILTIN_COUNT = sizeof builtins / sizeof *builtins };

const builtin *builtin_find(const char *name, builtin_kind kind) {
  for (int i = 0; i < BUILTIN_COUNT; i++) {
    if (builtins[i].kind == kind && strcmp(builtins[i].name, name) == 0) return &builtins[i];
  }
  return NULL;
}

const builtin *builtin_any(const char *name) {
  for (int i = 0; i < BUILTIN_COUNT; i++) {
    if (strcmp(builtins[i].name, name) == 0) return &builtins[i];
  }
  return NULL;
}

const char *builtin_name(int i) { return i < BUILTIN_COUNT && builtins[i].kind <= BUILTIN_FOLD ? builtins[i].name : NULL; }

const char *builtin_layer_name(int i) {
  for (int k = 0; k < BUILTIN_COUNT; k++) {
    if (builtins[k].kind == BUILTIN_LAYER && i-- == 0) return builtins[k].name;
  }
  return NULL;
}

// ---- values on constants ------------------------------------------------------------------------------------------------

static double negate(double x) { return -x; }
static double same(double x) { return x; }
static double reciprocal_root(double x) { return 1 / sqrt(x); }
static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double log_sigmoid(double x) { return -softplus(-x); }
static double silu(double x) { return x * sigmoid(x); }
static double gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2))); }
static double relu(double x) { return x > 0 ? x : 0; }

static double add(double a, double b) { return a + b; }
static double subtract(double a, double b) { return a - b; }
static double multiply(double a, double b) { return a * b; }
static double divide(double a, double b) { return a / b; }
static double smaller(double a, double b) { return a < b ? a : b; }
static double larger(double a, double b) { return a > b ? a : b; }
static double is_less(double a, double b) { return a < b; }
static double is_less_equal(double a, double b) { return a <= b; }
static double is_greater(double a, double b) { return a > b; }
static double is_greater_equal(double a, double b) { return a >= b; }
static double is_equal(double a, double b) { return a == b; }

static double (*const unary[VALUE_OP_COUNT])(double) = {
    [VALUE_NEG] = negate,
    [VALUE_EXP] = exp,
    [VALUE_EXPM1] = expm1,
    [VALUE_LOG] = log,
    [VALUE_LOG1P] = log1p,
    [VALUE_SQRT] = sqrt,
    [VALUE_RSQRT] = reciprocal_root,
    [VALUE_ABS] = fabs,
    [VALUE_SIGMOID] = sigmoid,
    [VALUE_LOG_SIGMOID] = log_sigmoid,
    [VALUE_SOFTPLUS] = softplus,
    [VALUE_SILU] = silu,
    [VALUE_GELU] = gelu,
    [VALUE_RELU] = relu,
    [VALUE_TANH] = tanh,
    [VALUE_SIN] = sin,
    [VALUE_COS] = cos,
    [VALUE_STOP_GRADIENT] = same,
};

static double (*const binary[VALUE_OP_COUNT])(double, double) = {
    [VALUE_ADD] = add,
    [VALUE_SUB] = subtract,
    [VALUE_MUL] = multiply,
    [VALUE_DIV] = divide,
    [VALUE_POWER] = pow,
    [VALUE_MIN] = smaller,
    [VALUE_MAX] = larger,
    [VALUE_LESS] = is_less,
    [VALUE_LESS_EQUAL] = is_less_equal,
    [VALUE_GREATER] = is_greater,
    [VALUE_GREATER_EQUAL] = is_greater_equal,
    [VALUE_EQUAL] = is_equal,
};

bool fold_constant(value_op op, const double *numbers, double *result) {
  if (unary[op]) {
    *result = unary[op](numbers[0]);
  } else if (binary[op]) {
    *result = binary[op](numbers[0], numbers[1]);
  } else if (op == VALUE_CLAMP) {
    *result = smaller(larger(numbers[0], numbers[1]), numbers[2]);
  } else {
    return false;
  }
  return true;
}
