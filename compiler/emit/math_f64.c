// Elementary functions of f64. A program of f64 calls libm, lane by lane. An f32 program that has
// values in f64 (plan/widen_angles.c) has polynomials of its own for the common ones.
#include "compiler/emit/math_f64.h"

#include <math.h>
#include <string.h>

#include "compiler/emit/math_words.h"

static ir libm_call(emitter *e, const char *name, ir x) {
  return call_own(e, name, &x, 1, libm_lanes);
}

static ir by_libm(emitter *e, tile_op op, const ir *args) {
  ir x = args[0];
  ir one = number(e, 1, x), zero = number(e, 0, x);
  switch (op) {
    case TILE_SIGMOID: {
      ir z = libm_call(e, "exp", real_neg(e, absolute(e, x)));
      return real_div(e, choose(e, real_compare(e, LLVMRealOLT, x, zero), z, one),
                      real_add(e, one, z));
    }
    case TILE_SOFTPLUS:
      return real_add(e, at_least(e, x, 0),
                      libm_call(e, "log1p", libm_call(e, "exp", real_neg(e, absolute(e, x)))));
    default: {  // libm's functions have the names of the operations
      ir all[] = {x, tile_arity(op) > 1 ? args[1] : NULL};
      return call_own(e, tile_op_text(op), all, tile_arity(op), libm_lanes);
    }
  }
}

// ---- f64 in an f32 program: relative errors of 1e-11, for results that are rounded to f32 ----

static const double round_f64 = 6755399441055744.0;  // 1.5 * 2^52

// x = n * (first + second + third) + r, |r| <= half a part: n has few enough bits for exact
// products with the first two.
static ir reduced_f64(emitter *e, ir x, double per_part, const double *parts, int count, ir *n) {
  ir magic = number(e, round_f64, x);
  ir shifted = real_add(e, real_mul(e, x, number(e, per_part, x)), magic);
  ir whole = real_sub(e, shifted, magic);
  for (int i = 0; i < count; i++) x = real_sub(e, x, real_mul(e, whole, number(e, parts[i], x)));
  *n = LLVMBuildSub(e->b, to_bits(e, shifted), to_bits(e, magic), "");
  return x;
}

// 1 / first!, 1 / (first + step)!, .. with signs by turns where `turns`
static ir taylor(emitter *e, ir x, int first, int step, int count, bool turns) {
  double c[16];
  for (int i = 0; i < count; i++) c[i] = (turns && i % 2 ? -1 : 1) / tgamma(first + i * step + 1);
  return polynomial(e, x, c, count);
}

static ir wide_exp_body(emitter *e, const char *name, ir *args, int count) {
  (void)name, (void)count;
  static const double ln2_parts[] = {0x1.62e42fee00000p-1, 0x1.a39ef35793c76p-33};
  ir n, x = at_most(e, at_least(e, args[0], -700), 709);
  ir r = reduced_f64(e, x, log2_e, ln2_parts, 2, &n);
  LLVMTypeRef bits = LLVMTypeOf(n);
  ir power = LLVMBuildAdd(e->b, n, integer_constant(bits, 1023), "");
  power = from_bits(e, LLVMBuildShl(e->b, power, integer_constant(bits, 52), ""));
  return real_mul(e, taylor(e, r, 0, 1, 11, false), power);
}

static ir wide_exp(emitter *e, ir x) { return call_own(e, "wide_exp", &x, 1, wide_exp_body); }

static ir wide_expm1_body(emitter *e, const char *name, ir *args, int count) {
  (void)name, (void)count;
  ir x = args[0], near = real_mul(e, x, taylor(e, x, 1, 1, 11, false));
  ir small = real_compare(e, LLVMRealOLT, absolute(e, x), number(e, 0.5, x));
  return choose(e, small, near, real_sub(e, wide_exp(e, x), number(e, 1, x)));
}

static ir wide_sin_cos_body(emitter *e, const char *name, ir *args, int count) {
  static const double parts[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};
  bool cosine = strcmp(name, "wide_cos") == 0;
  ir x = args[0], quadrant;
  ir result = stack_slot(e, LLVMTypeOf(x), "");
  ir large = real_compare(e, LLVMRealUGT, absolute(e, x), number(e, 1048576.0, x));
  emit_branch branch = branch_begin(e, any_lane(e, large));
  store_real(e, libm_lanes(e, cosine ? "cos" : "sin", args, count), result);
  branch_else(e, &branch);
  ir r = reduced_f64(e, x, 0.63661977236758134308, parts, 3, &quadrant), z = real_mul(e, r, r);
  ir s = real_mul(e, r, taylor(e, z, 1, 2, 7, true)), c = taylor(e, z, 0, 2, 7, true);
  store_real(e, of_quadrant(e, s, c, quadrant, cosine), result);
  branch_end(e, &branch);
  return load_real(e, result, ir_lanes(x));
}

static ir by_polynomials(emitter *e, tile_op op, const ir *args) {
  ir x = args[0];
  switch (op) {
    case TILE_EXP: return wide_exp(e, x);
    case TILE_EXPM1: return call_own(e, "wide_expm1", &x, 1, wide_expm1_body);
    case TILE_SIN: return call_own(e, "wide_sin", &x, 1, wide_sin_cos_body);
    case TILE_COS: return call_own(e, "wide_cos", &x, 1, wide_sin_cos_body);
    default: return by_libm(e, op, args);
  }
}

ir transcendental_f64(emitter *e, tile_op op, const ir *args) {
  return e->wide ? by_polynomials(e, op, args) : by_libm(e, op, args);
}
