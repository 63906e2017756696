// Conversions and the approximate functions. Where the instruction is .ftz, a number that is too
// small for a normal one is 0, before and after. Results of approximations err by as much as their
// documentation allows. The error differs from argument to argument and is always the same for one
// argument, so that code built on them must tolerate it.
#include "runtime/support/simt/numeric.h"

#include <math.h>

#include "runtime/support/simt/ops.h"

static float flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

// Moves y by at most so many units in the last place, as x decides. Powers of two, 0, infinities
// and NaNs stay.
static float blurred(float y, float x, uint32_t units) {
  int exponent;
  if (!isnormal(y) || frexpf(y, &exponent) == copysignf(0.5f, y)) return y;
  uint32_t drawn = rec_float_bits(x) * UINT32_C(2654435761) >> 16;
  float other = rec_bits_float(rec_float_bits(y) + drawn % (2 * units + 1) - units);
  return isnormal(other) ? other : y;
}

float simt_exp2_f32(float x) { return flush(blurred(exp2f(flush(x)), x, 2)); }
float simt_log2_f32(float x) { return log2f(x); }
float simt_rcp_f32(float x) { return flush(blurred(1 / flush(x), x, 1)); }
float simt_sqrt_f32(float x) { return blurred(sqrtf(x), x, 1); }
float simt_rsqrt_f32(float x) { return blurred(1 / sqrtf(x), x, 1); }
float simt_div_f32(float x, float y) { return blurred(x / y, y, 2); }

static uint32_t pack_halves(float low, float high, int stored) {
  uint16_t halves[2];
  const float numbers[2] = {low, high};
  rec_narrow(halves, numbers, 2, stored);
  return halves[0] | (uint32_t)halves[1] << 16;
}

uint32_t simt_cvt_bf16x2(float low, float high) { return pack_halves(low, high, REC_STORED_BF16); }
uint32_t simt_cvt_f16x2(float low, float high) { return pack_halves(low, high, REC_STORED_F16); }

// cvt.rna: to the nearest, halves away from zero.
uint32_t simt_cvt_tf32(float x) {
  uint32_t bits = rec_float_bits(x);
  if (x - x != 0) return x != x ? 0x7fffffff : bits;
  return (bits + 0x1000) & ~UINT32_C(0x1fff);
}
