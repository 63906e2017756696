// The elementwise operations on numbers, in double precision. Those of recurrence bodies have the
// same text there.
#include <math.h>
#include <stddef.h>

#include "compiler/base/ice.h"
#include "compiler/tile/tile.h"

static double power_of_two(const double *x) { return exp2(x[0]); }
static double root(const double *x) { return sqrt(x[0]); }
static double sign(const double *x) { return (double)((x[0] > 0) - (x[0] < 0)); }
static double error_function(const double *x) { return erf(x[0]); }
static double hypotenuse(const double *x) { return hypot(x[0], x[1]); }
static double select_number(const double *x) { return x[0] != 0 ? x[1] : x[2]; }
static double same(const double *x) { return x[0]; }

// 2 pi in two parts, so that n times it keeps the digits that x has.
static double wrap(const double *x) {
  double n = rint(x[0] * 0.15915494309189535);
  return fma(-n, 0x1.1a62633145c07p-52, fma(-n, 0x1.921fb54442d18p+2, x[0]));
}

static value_function *const own[TILE_OP_COUNT] = {
    [TILE_EXP2] = power_of_two,
    [TILE_SQRT_KINK] = root,
    [TILE_SIGN] = sign,
    [TILE_ERF] = error_function,
    [TILE_HYPOT] = hypotenuse,
    [TILE_WRAP] = wrap,
    [TILE_SELECT] = select_number,
    [TILE_SELDOM] = select_number,
    [TILE_ROUND] = same,
    [TILE_STOP] = same,
    [TILE_ACCUMULATE] = same,
    [TILE_WITH_GRADIENT] = same,
};

value_function *tile_function_of(tile_op op) {
  if (own[op]) return own[op];
  value_op twin = value_op_find(tile_op_text(op));
  if (twin == VALUE_OP_COUNT) ICE("tile", "%s is not an elementwise operation", tile_op_text(op));
  return value_function_of(twin);
}
