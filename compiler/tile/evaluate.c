// The elementwise operations on numbers, in double precision.
#include "compiler/tile/evaluate.h"

#include <math.h>

#include "compiler/base/ice.h"

static double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + exp(-x));
  double e = exp(x);
  return e / (1 + e);
}

static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

// 2 pi in two parts, so that n times it keeps the digits that x has.
static double wrap(double x) {
  double n = rint(x * 0.15915494309189535);
  return fma(-n, 0x1.1a62633145c07p-52, fma(-n, 0x1.921fb54442d18p+2, x));
}

double tile_evaluate(tile_op op, const double *args) {
  double x = args[0], y = args[1];
  switch (op) {
    case TILE_NEG: return -x;
    case TILE_EXP: return exp(x);
    case TILE_EXP2: return exp2(x);
    case TILE_EXPM1: return expm1(x);
    case TILE_LOG: return log(x);
    case TILE_LOG1P: return log1p(x);
    case TILE_SQRT:
    case TILE_SQRT_KINK: return sqrt(x);
    case TILE_RSQRT: return 1 / sqrt(x);
    case TILE_ABS: return fabs(x);
    case TILE_SIGN: return (double)((x > 0) - (x < 0));
    case TILE_SIGMOID: return sigmoid(x);
    case TILE_LOG_SIGMOID: return -softplus(-x);
    case TILE_SOFTPLUS: return softplus(x);
    case TILE_SILU: return x * sigmoid(x);
    case TILE_ERF: return erf(x);
    case TILE_RELU: return x < 0 ? 0 : x;
    case TILE_TANH: return tanh(x);
    case TILE_SIN: return sin(x);
    case TILE_COS: return cos(x);
    case TILE_WRAP: return wrap(x);
    case TILE_ADD: return x + y;
    case TILE_SUB: return x - y;
    case TILE_MUL: return x * y;
    case TILE_DIV: return x / y;
    case TILE_POWER: return pow(x, y);
    case TILE_HYPOT: return hypot(x, y);
    case TILE_MIN: return x < y ? x : y;
    case TILE_MAX: return x > y ? x : y;
    case TILE_LESS: return x < y;
    case TILE_LESS_EQUAL: return x <= y;
    case TILE_EQUAL: return x == y;
    case TILE_SELECT: return x != 0 ? y : args[2];
    case TILE_ROUND:
    case TILE_STOP:
    case TILE_ACCUMULATE: return x;
    default: ICE("tile", "%s is not an elementwise operation", tile_op_text(op));
  }
}
