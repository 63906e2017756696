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

const char *builtin_name(int i) {
  return i < BUILTIN_COUNT && builtins[i].kind <= BUILTIN_FOLD ? builtins[i].name : NULL;
}

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

static bool fold_unary(value_op op, double x, double *result) {
  switch (op) {
    case VALUE_NEG: *result = -x; return true;
    case VALUE_EXP: *result = exp(x); return true;
    case VALUE_EXPM1: *result = expm1(x); return true;
    case VALUE_LOG: *result = log(x); return true;
    case VALUE_LOG1P: *result = log1p(x); return true;
    case VALUE_SQRT: *result = sqrt(x); return true;
    case VALUE_RSQRT: *result = 1 / sqrt(x); return true;
    case VALUE_ABS: *result = fabs(x); return true;
    case VALUE_SIGMOID: *result = sigmoid(x); return true;
    case VALUE_LOG_SIGMOID: *result = -softplus(-x); return true;
    case VALUE_SOFTPLUS: *result = softplus(x); return true;
    case VALUE_SILU: *result = x * sigmoid(x); return true;
    case VALUE_GELU: *result = 0.5 * x * (1 + erf(x / sqrt(2))); return true;
    case VALUE_RELU: *result = x > 0 ? x : 0; return true;
    case VALUE_TANH: *result = tanh(x); return true;
    case VALUE_SIN: *result = sin(x); return true;
    case VALUE_COS: *result = cos(x); return true;
    case VALUE_STOP_GRADIENT: *result = x; return true;
    default: return false;
  }
}

bool fold_constant(value_op op, const double *n, double *result) {
  switch (op) {
    case VALUE_ADD: *result = n[0] + n[1]; return true;
    case VALUE_SUB: *result = n[0] - n[1]; return true;
    case VALUE_MUL: *result = n[0] * n[1]; return true;
    case VALUE_DIV: *result = n[0] / n[1]; return true;
    case VALUE_POWER: *result = pow(n[0], n[1]); return true;
    case VALUE_MIN: *result = n[0] < n[1] ? n[0] : n[1]; return true;
    case VALUE_MAX: *result = n[0] > n[1] ? n[0] : n[1]; return true;
    case VALUE_CLAMP: *result = n[0] < n[1] ? n[1] : n[0] > n[2] ? n[2] : n[0]; return true;
    case VALUE_LESS: *result = n[0] < n[1]; return true;
    case VALUE_LESS_EQUAL: *result = n[0] <= n[1]; return true;
    case VALUE_GREATER: *result = n[0] > n[1]; return true;
    case VALUE_GREATER_EQUAL: *result = n[0] >= n[1]; return true;
    case VALUE_EQUAL: *result = n[0] == n[1]; return true;
    default: return fold_unary(op, n[0], result);
  }
}
