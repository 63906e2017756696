// Exponentials, roots and quotients by a GPU's approximate instructions, whose last two bits are
// not exact.
//
//   exp %x       ->   ex2(x log2 e)            relative error |x| 2^-24 and that of ex2, which is two units in the last place
//   sigmoid %x   ->   rcp(1 + ex2(-x log2 e))
//   tanh %x      ->   1 - 2 rcp(1 + ex2(2 x log2 e)), where x is small x + x^3 P(x^2)
//
// Exponentials below 2^-126 are 0: an exponential that keeps them takes four instructions. Such
// numbers have at most seven bits in 16-bit storage. Quotients and roots that are rounded as IEEE
// 754 says have branches and a call; approximate ones take denormals. In f32, exponentials stay
// polynomials: a decay that is the same at all steps would count its error once for each of them.
#include "compiler/emit/math_gpu.h"

#include "compiler/emit/gpu_ops.h"
#include "compiler/emit/math_words.h"

enum { MOST_OPERANDS = 2 };

static ir each_lane(emitter *e, gpu_op op, const ir *x, int count) {
  if (!ir_lanes(x[0])) return gpu_call(e, op, x, count);
  ir all = LLVMGetPoison(LLVMTypeOf(x[0]));
  for (int lane = 0; lane < ir_lanes(x[0]); lane++) {
    ir one[MOST_OPERANDS];
    for (int i = 0; i < count; i++)
      one[i] = LLVMBuildExtractElement(e->b, x[i], integer(e, lane), "");
    all = LLVMBuildInsertElement(e->b, all, gpu_call(e, op, one, count), integer(e, lane), "");
  }
  return all;
}

bool gpu_approximates(const emitter *e) { return e->gpu && !e->f64 && number_is_narrow(e->dtype); }

ir gpu_exp2(emitter *e, ir x) { return each_lane(e, GPU_EXP2_F32, &x, 1); }

ir gpu_exp(emitter *e, ir x) {
  return gpu_exp2(e, real_mul(e, x, real_number(e, log2_e, ir_lanes(x))));
}

ir gpu_quotient(emitter *e, ir x, ir y) { return real_mul(e, x, each_lane(e, GPU_RCP_F32, &y, 1)); }

ir gpu_division(emitter *e, ir x, ir y) {
  spread_pair(e, &x, &y);
  return each_lane(e, GPU_DIV_F32, (ir[]){x, y}, 2);
}

ir gpu_square_root(emitter *e, ir x) { return each_lane(e, GPU_SQRT_F32, &x, 1); }

ir gpu_rsqrt(emitter *e, ir x) { return each_lane(e, GPU_RSQRT_F32, &x, 1); }

// Where the exponential is infinite, its reciprocal is 0.
ir gpu_sigmoid(emitter *e, ir x) {
  ir one = real_number(e, 1, ir_lanes(x)), power = gpu_exp(e, real_neg(e, x));
  return gpu_quotient(e, one, real_add(e, one, power));
}

// x + x^3 P(x^2): for |x| up to 0.6 a minimax fit, whose relative error is 9e-8.
static ir tanh_near_0(emitter *e, ir x) {
  static const double c[] = {-0.3333259750883077, 0.13313116677390552, -0.05221180760144321,
                             0.01561263411913868};
  ir square = real_mul(e, x, x);
  return real_fma(e, polynomial(e, square, c, 4), real_mul(e, square, x), x);
}

// Where |x| is small, the difference has few correct digits. Above 9.011 it is exactly 1: a
// gradient, 1 - y^2, is 0 there.
ir gpu_tanh(emitter *e, ir x) {
  ir size = absolute(e, x), one = number(e, 1, x);
  ir power = gpu_exp2(e, real_mul(e, size, number(e, 2 * log2_e, x)));
  ir half = gpu_quotient(e, one, real_add(e, one, power));
  ir far = real_fma(e, half, number(e, -2, x), one);
  ir near = real_compare(e, LLVMRealOLT, size, number(e, 0.6, x));
  return with_sign(e, choose(e, near, tanh_near_0(e, x), far), x);
}
