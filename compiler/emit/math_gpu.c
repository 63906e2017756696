// Exponentials and quotients by a GPU's approximate instructions, whose last two bits are not exact.
//
//   exp %x   ->   ex2(x log2 e)       relative error |x| 2^-24 and that of ex2, which is two units in the last place
//
// In f32, exponentials stay polynomials: a decay that is the same at all steps would count its error once for each of them.
#include "compiler/emit/math_gpu.h"

#include "compiler/emit/gpu_ops.h"

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

bool gpu_approximates(const emitter *e) { return e->gpu && number_is_narrow(e->dtype); }

ir gpu_exp2(emitter *e, ir x) { return each_lane(e, GPU_EXP2_F32, x); }

ir gpu_exp(emitter *e, ir x) { return gpu_exp2(e, real_mul(e, x, real_number(e, log2_e, ir_lanes(x)))); }

ir gpu_quotient(emitter *e, ir x, ir y) { return real_mul(e, x, each_lane(e, GPU_RCP_F32, y)); }
