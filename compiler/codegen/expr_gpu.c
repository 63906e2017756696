/* Exponentials and quotients of a GPU by its approximations, which keep their last two bits to themselves.
 *
 *   exp %x, 16-bit storage   ->   ex2(x log2 e)                     relative error |x| 2^-24 and that of ex2
 *   exp %x, f32              ->   h = x log2 e, rounded; l = what that loses
 *                                 ex2(h) (1 + l ln 2)               8 instructions instead of 24
 */
#include <math.h>

#include "expr_gpu.h"
#include "gpu.h"

static const double log2_e = 1.44269504088896340736;

static ir each_lane(emitter *e, gpu_op op, ir x) {
  if (!ir_lanes(x)) return gpu_call(e, op, &x, 1);
  ir all = LLVMGetPoison(LLVMTypeOf(x));
  for (int lane = 0; lane < ir_lanes(x); lane++) {
    ir one = LLVMBuildExtractElement(e->b, x, integer(e, lane), "");
    one = gpu_call(e, op, &one, 1);
    all = LLVMBuildInsertElement(e->b, all, one, integer(e, lane), "");
  }
  return all;
}

/* NaN passes through. */
static ir between(emitter *e, ir x, double low, double high) {
  LLVMTypeRef type = LLVMTypeOf(x);
  int lanes = ir_lanes(x);
  x = call_intrinsic(e, "llvm.maximum", &type, 1, (ir[]){x, real_number(e, low, lanes)}, 2);
  return call_intrinsic(e, "llvm.minimum", &type, 1, (ir[]){x, real_number(e, high, lanes)}, 2);
}

/* x y - z with one rounding, on the executor too. */
static ir rest_of_product(emitter *e, ir x, ir y, ir z) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return call_intrinsic(e, "llvm.fma", &type, 1, (ir[]){x, y, real_neg(e, z)}, 3);
}

ir gpu_exp2(emitter *e, ir x) { return each_lane(e, GPU_EXP2_F32, x); }

/* Beyond the bounds the result is 0 or infinite; without them what is lost would be infinite. */
ir gpu_exp(emitter *e, ir x) {
  int lanes = ir_lanes(x);
  ir scale = real_number(e, log2_e, lanes);
  if (number_is_narrow(e->dtype)) return gpu_exp2(e, real_mul(e, x, scale));
  x = between(e, x, -105, 90);
  ir high = real_mul(e, x, scale), low = rest_of_product(e, x, scale, high);
  low = real_fma(e, x, real_number(e, log2_e - (double)(float)log2_e, lanes), low);
  ir factor = real_fma(e, low, real_number(e, M_LN2, lanes), real_number(e, 1, lanes));
  return real_mul(e, gpu_exp2(e, high), factor);
}

ir gpu_quotient(emitter *e, ir x, ir y) { return real_mul(e, x, each_lane(e, GPU_RCP_F32, y)); }
