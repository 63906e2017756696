// The built-in functions, and their values on constants.
#include <string.h>

#include "compiler/sema/internal.h"

static const builtin builtins[] = {
#define NO_FUNCTION(id, text, arity)
#define REAL_FUNCTION(id, text, arity) {text, BUILTIN_ELEMENTWISE, arity, VALUE_##id, false},
#define COMPLEX_FUNCTION(id, text, arity) {text, BUILTIN_ELEMENTWISE, arity, VALUE_##id, true},
#define NOT_CALLED NO_FUNCTION
#define CALLED(...) REAL_FUNCTION
#define CALLED_COMPLEX(...) COMPLEX_FUNCTION
#define VALUE_OP(id, text, arity, class, linear, called, cost, complex_cost, value) \
  called(id, text, arity)
#include "compiler/sema/value_ops.def"
#undef VALUE_OP
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
  for (int i = 0; i < BUILTIN_COUNT; i++)
    if (builtins[i].kind == kind && strcmp(builtins[i].name, name) == 0) return &builtins[i];
  return NULL;
}

const builtin *builtin_any(const char *name) {
  for (int i = 0; i < BUILTIN_COUNT; i++)
    if (strcmp(builtins[i].name, name) == 0) return &builtins[i];
  return NULL;
}

const char *builtin_name(int i) {
  return i < BUILTIN_COUNT && builtins[i].kind <= BUILTIN_FOLD ? builtins[i].name : NULL;
}

const char *builtin_name_of(builtin_kind kind, int i) {
  for (int k = 0; k < BUILTIN_COUNT; k++)
    if (builtins[k].kind == kind && i-- == 0) return builtins[k].name;
  return NULL;
}

// ---- values on constants ---------------------------------------------------------------------

value_op operation_of(ast_binary_op op) {
  static const value_op operations[] = {
#define BINARY_OP(id, word, sign, level, left, right, operation) VALUE_##operation,
#include "compiler/syntax/binary_ops.def"
#undef BINARY_OP
  };
  return operations[op];
}

bool fold_constant(value_op op, const double *numbers, double *result) {
  value_class class = value_op_class(op);
  bool told = class == CLASS_REAL || class == CLASS_FIELD || class == CLASS_COMPARE;
  if (!told || op == VALUE_WHOLE_POWER || op == VALUE_WHERE || op == VALUE_CONJUGATE) return false;
  *result = value_function_of(op)(numbers);
  return true;
}
