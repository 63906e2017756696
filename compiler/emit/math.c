// Elementwise operations as vector instructions, with polynomials of our own.
//
//   softplus %x   ->   max(x, 0) + log1p(exp(-|x|)),   each a few multiply-adds, no call
//
// f32: the relative error is at most 3e-7 over the full range, denormals, infinities and NaN
// included (tests/unit/codegen_expr_test.c sweeps it); the host's exponentials are 0 below
// 2^-125.5. The coefficients are minimax fits of the relative error on the reduced range. Every
// step is exact enough without fused multiply-add, so that all clones meet the bound. Rounding to
// an integer is the addition of 1.5 * 2^23: the baseline has no instruction for it and must not
// call libm. f64: math_f64.c. GPU with 16-bit storage: exponentials, roots and quotients by
// the GPU's approximations (math_gpu.c).
#include <math.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/emit/math_f64.h"
#include "compiler/emit/math_gpu.h"
#include "compiler/emit/math_words.h"

static ir sum_of_squares(emitter *e, ir x, ir y) {
  return real_add(e, real_mul(e, x, x), real_mul(e, y, y));
}

// ---- f32: powers of two ----

typedef struct rounded {
  ir real, integer;  // the same whole number
} rounded;

static rounded round_to_integer(emitter *e, ir x, double scale) {
  ir magic = number(e, 12582912.0, x);  // 1.5 * 2^23
  ir shifted = real_fma(e, x, number(e, scale, x), magic);
  rounded r = {.real = real_sub(e, shifted, magic)};
  r.integer = LLVMBuildSub(e->b, to_bits(e, shifted), to_bits(e, magic), "");
  return r;
}

// 2^n for n in -126..127
static ir emit_power_of_two(emitter *e, ir n) {
  LLVMTypeRef type = LLVMTypeOf(n);
  ir biased = LLVMBuildAdd(e->b, n, integer_constant(type, 127), "");
  return from_bits(e, LLVMBuildShl(e->b, biased, integer_constant(type, 23), ""));
}

static ir joined_vectors(emitter *e, ir x, ir y) {
  int count = 2 * ir_lanes(x);
  ir indices[1024];
  for (int i = 0; i < count; i++) indices[i] = LLVMConstInt(e->i32, (unsigned)i, 0);
  return LLVMBuildShuffleVector(e->b, x, y, LLVMConstVector(indices, (unsigned)count), "");
}

// x * 2^n with one rounding, denormal and infinite results included
static ir scale_v4(emitter *e, ir x, ir n) {
  int lanes = ir_lanes(x);
  if (lanes > 16) {
    ir low = scale_v4(e, lanes_from(e, x, 0, lanes / 2), lanes_from(e, n, 0, lanes / 2));
    ir high =
        scale_v4(e, lanes_from(e, x, lanes / 2, lanes / 2), lanes_from(e, n, lanes / 2, lanes / 2));
    return joined_vectors(e, low, high);
  }
  LLVMTypeRef i16 = LLVMInt16TypeInContext(e->context);
  ir args[] = {x, n, x, LLVMConstInt(i16, 0xffff, 0), LLVMConstInt(e->i32, 4, 0)};
  return call_intrinsic(e, "llvm.x86.avx512.mask.scalef.ps.512", NULL, 0, args, 5);
}

static bool is_whole_vectors(int lanes) {
  while (lanes > 16 && lanes % 2 == 0) lanes /= 2;
  return lanes == 16;
}

static bool scales_in_one(const emitter *e, ir x) {
  return clone_targets[e->clone].scales && is_whole_vectors(ir_lanes(x));
}

static ir scale(emitter *e, ir x, rounded n) {
  if (scales_in_one(e, x)) return scale_v4(e, x, n.real);
  ir half = LLVMBuildAShr(e->b, n.integer, integer_constant(LLVMTypeOf(n.integer), 1), "");
  ir rest = LLVMBuildSub(e->b, n.integer, half, "");
  return real_mul(e, real_mul(e, x, emit_power_of_two(e, half)), emit_power_of_two(e, rest));
}

// The host flushes denormal numbers to 0 (runtime/support/cpu.c), so its exponentials need not make
// them. The result is the product of 2 e^r and 2^(n-1). The bits of 2^(n-1) are those of the sum
// that rounded to n, shifted. Results below 2^-125.5 are 0.
static bool flushes_denormals(const emitter *e, ir x) { return !e->gpu && !scales_in_one(e, x); }

static const double least_power = -126, shift_of_power = 12582912.0 + 126;  // 1.5 * 2^23 + 126

static ir power_from_shifted(emitter *e, ir shifted) {
  ir bits = to_bits(e, shifted);
  return from_bits(e, LLVMBuildShl(e->b, bits, integer_constant(LLVMTypeOf(bits), 23), ""));
}

// ---- f32: exponentials and logarithms ----

static const double ln2_high = 0.693359375,
                    ln2_low = -2.12194440054690583e-4;  // n * ln2_high is exact

static ir reduce_by_ln2(emitter *e, ir x, ir n) {
  ir r = real_fma(e, n, number(e, -ln2_high, x), x);
  return real_fma(e, n, number(e, -ln2_low, x), r);
}

static ir exp_f32(emitter *e, ir x) {
  static const double c[] = {0.49999993333694172, 0.1666651893569038, 0.041668407909015477,
                             0.0083689220618907249, 0.001381417832882795};
  if (gpu_approximates(e)) return gpu_exp(e, x);
  if (flushes_denormals(e, x)) {
    x = at_most(e, at_least(e, x, least_power / log2_e), 89.0);
    ir magic = number(e, shift_of_power, x), two = number(e, 2, x);
    ir shifted = real_fma(e, x, number(e, log2_e, x), magic);
    ir r = reduce_by_ln2(e, x, real_sub(e, shifted, magic));
    ir p = real_fma(e, polynomial(e, r, c, 5), real_mul(e, r, r), r);
    return real_mul(e, real_fma(e, p, two, two), power_from_shifted(e, shifted));
  }
  x = at_most(e, at_least(e, x, -104.0), 89.0);
  rounded n = round_to_integer(e, x, log2_e);
  ir r = reduce_by_ln2(e, x, n.real);
  ir p = real_fma(e, polynomial(e, r, c, 5), real_mul(e, r, r), r);
  return scale(e, real_add(e, p, number(e, 1, x)), n);
}

// The remainder is exact: what is left of the error is that of the polynomial.
static ir exp2_f32(emitter *e, ir x) {
  static const double c[] = {0.6931469775872007, 0.24022242077581532, 0.05550733760399842,
                             0.009671512997145814, 0.0013264722044661426};
  if (gpu_approximates(e)) return gpu_exp2(e, x);
  if (flushes_denormals(e, x)) {
    double twice[5];
    for (int i = 0; i < 5; i++) twice[i] = 2 * c[i];
    x = at_most(e, at_least(e, x, least_power), 129.0);
    ir magic = number(e, shift_of_power, x), shifted = real_add(e, x, magic);
    ir r = real_sub(e, x, real_sub(e, shifted, magic));
    return real_mul(e, real_fma(e, polynomial(e, r, twice, 5), r, number(e, 2, x)),
                    power_from_shifted(e, shifted));
  }
  x = at_most(e, at_least(e, x, -151.0), 129.0);
  rounded n = round_to_integer(e, x, 1);
  ir r = real_sub(e, x, n.real);
  return scale(e, real_fma(e, polynomial(e, r, c, 5), r, number(e, 1, x)), n);
}

// e^x - 1 = 2 (2^(n-1) (e^r - 1) + 2^(n-1) - 1/2): exact where n is 0
static ir expm1_f32(emitter *e, ir x) {
  static const double c[] = {0.50000000540038643,   0.16666666906308445,  0.041666322952781717,
                             0.0083332187695448453, 0.001394353079552767, 0.00019962813722449974};
  ir tiny = x;
  x = at_most(e, at_least(e, x, -20.0), 89.0);
  rounded n = round_to_integer(e, x, log2_e);
  ir r = reduce_by_ln2(e, x, n.real);
  ir q = real_fma(e, polynomial(e, r, c, 6), real_mul(e, r, r), r);
  ir before = LLVMBuildSub(e->b, n.integer, integer_constant(LLVMTypeOf(n.integer), 1), "");
  ir s = emit_power_of_two(e, before);
  ir half = real_fma(e, s, q, real_sub(e, s, number(e, 0.5, x)));
  ir y = real_add(e, half, half);
  // halves of denormals are not exact
  return choose(e, real_compare(e, LLVMRealOLT, absolute(e, tiny), number(e, 1e-30, x)), tiny, y);
}

typedef struct log_parts {
  ir exponent;  // whole number, real
  ir fraction;  // m - 1 for m in [sqrt 1/2, sqrt 2)
} log_parts;

// x = m 2^k for positive normal x
static log_parts split_exponent(emitter *e, ir x) {
  ir bits = to_bits(e, x);
  LLVMTypeRef type = LLVMTypeOf(bits);
  const uint64_t root_half = 0x3f3504f3;
  ir above = LLVMBuildSub(e->b, bits, integer_constant(type, root_half), "");
  ir k = LLVMBuildAShr(e->b, above, integer_constant(type, 23), "");
  ir m = LLVMBuildSub(e->b, bits, LLVMBuildShl(e->b, k, integer_constant(type, 23), ""), "");
  log_parts parts;
  parts.exponent = LLVMBuildSIToFP(e->b, k, LLVMTypeOf(x), "");
  parts.fraction = real_sub(e, from_bits(e, m), number(e, 1, x));
  return parts;
}

// log(1 + f) + k ln 2
static ir log_of_parts(emitter *e, ir f, ir k) {
  static const double c[] = {0.33333331708499058,  -0.25000821014964966, 0.20001226768649052,
                             -0.16623357792673265, 0.14201760238496488,  -0.13160180879055675,
                             0.12761564329245819,  -0.076344862459869087};
  ir z = real_mul(e, f, f);
  ir y = real_mul(e, real_mul(e, polynomial(e, f, c, 8), f), z);
  y = real_fma(e, k, number(e, ln2_low, f), y);
  y = real_fma(e, z, number(e, -0.5, f), y);
  return real_fma(e, k, number(e, ln2_high, f), real_add(e, f, y));
}

// log at 0, at infinity, below 0 and of NaN
static ir log_edges(emitter *e, ir x, ir y) {
  y = choose(e, real_compare(e, LLVMRealOEQ, x, number(e, 0, x)), number(e, -INFINITY, x), y);
  y = choose(e, real_compare(e, LLVMRealOEQ, x, number(e, INFINITY, x)), x, y);
  return choose(e, real_compare(e, LLVMRealULT, x, number(e, 0, x)), number(e, NAN, x), y);
}

// Of a denormal number, too.
static log_parts split_any_exponent(emitter *e, ir x) {
  ir small = real_compare(e, LLVMRealOLT, x, number(e, 1.17549435e-38, x));
  ir normal = choose(e, small, real_mul(e, x, number(e, 8388608.0, x)), x);
  log_parts parts = split_exponent(e, normal);
  parts.exponent = choose(e, small, real_sub(e, parts.exponent, number(e, 23, x)), parts.exponent);
  return parts;
}

static ir log_f32(emitter *e, ir x) {
  log_parts parts = split_any_exponent(e, x);
  return log_edges(e, x, log_of_parts(e, parts.fraction, parts.exponent));
}

// The rounding error of 1 + x goes back into the fraction.
static ir log1p_f32(emitter *e, ir x) {
  ir one = number(e, 1, x);
  ir u = real_add(e, one, x);
  log_parts parts = split_exponent(e, u);
  ir large = real_compare(e, LLVMRealOGT, x, one);
  ir lost =
      choose(e, large, real_sub(e, one, real_sub(e, u, x)), real_sub(e, x, real_sub(e, u, one)));
  // 2^-k: the mantissa of u over u, exactly
  LLVMTypeRef type = integer_like(e, x);
  ir k = LLVMBuildFPToSI(e->b, at_most(e, parts.exponent, 126), type, "");
  ir down = from_bits(e, LLVMBuildShl(e->b, LLVMBuildSub(e->b, integer_constant(type, 127), k, ""),
                                      integer_constant(type, 23), ""));
  ir f = real_fma(e, lost, down, parts.fraction);
  ir y = log_of_parts(e, f, parts.exponent);
  y = choose(e, real_compare(e, LLVMRealOLT, absolute(e, x), number(e, 1e-20, x)), x, y);
  return log_edges(e, u, y);
}

// log1p for 0 <= x <= 1, with a relative error of 3e-8; where exponentials are approximate, of
// 1.3e-6.
static ir log1p_unit(emitter *e, ir x) {
  static const double c[] = {0.9999999698795607,   -0.49999493140481593,  0.33319096806827083,
                             -0.24842982215623033, 0.19106006769413275,   -0.1366324581452004,
                             0.07822595211918558,  -0.029505238928513155, 0.005232694302454772};
  static const double short_c[] = {0.999998731535366,    -0.49986965640652714, 0.33109448994995183,
                                   -0.23503860448258782, 0.14922387604885837,  -0.06640180091091541,
                                   0.014141024058484022};
  return real_mul(e, x,
                  gpu_approximates(e) ? polynomial(e, x, short_c, 7) : polynomial(e, x, c, 9));
}

static ir softplus_f32(emitter *e, ir x) {
  ir tail = log1p_unit(e, exp_f32(e, real_neg(e, absolute(e, x))));
  return real_add(e, at_least(e, x, 0), tail);
}

// The divisor is at least 1 and not large.
static ir bounded_quotient(emitter *e, ir x, ir y) {
  return e->gpu ? gpu_quotient(e, x, y) : real_div(e, x, y);
}

static ir emit_root(emitter *e, ir x) {
  return gpu_approximates(e) ? gpu_square_root(e, x) : square_root(e, x);
}

static ir inverse_root(emitter *e, ir x) {
  return gpu_approximates(e) ? gpu_rsqrt(e, x) : real_div(e, number(e, 1, x), square_root(e, x));
}

static ir sigmoid_f32(emitter *e, ir x) {
  if (gpu_approximates(e)) return gpu_sigmoid(e, x);
  ir one = number(e, 1, x);
  ir z = exp_f32(e, real_neg(e, absolute(e, x)));
  ir top = choose(e, real_compare(e, LLVMRealOLT, x, number(e, 0, x)), z, one);
  return bounded_quotient(e, top, real_add(e, one, z));
}

// Above 9 the nearest number is 1. A GPU's quotient is one unit less there, and 1 - y^2 of a
// gradient then 2^-23 in place of 0.
static ir tanh_f32(emitter *e, ir x) {
  if (gpu_approximates(e)) return gpu_tanh(e, x);
  ir size = at_most(e, absolute(e, x), 10.0);
  ir t = expm1_f32(e, real_add(e, size, size));
  ir y = bounded_quotient(e, t, real_add(e, t, number(e, 2, x)));
  if (e->gpu)
    y = choose(e, real_compare(e, LLVMRealOGT, size, number(e, 9, x)), number(e, 1, x), y);
  return with_sign(e, y, x);
}

static ir erf_f32(emitter *e, ir x) {
  static const double near[] = {
      1.1283791657267974,   -0.37612625824675099,    0.11283585151233505,  -0.026853811990321786,
      0.005188327729379839, -0.00080101936585096736, 7.8538606315780047e-5};
  // -log(1 - erf)
  static const double far[] = {-0.00018803376561454916, 1.1295783953156472,
                               0.63321994766427601,     0.10841852123137833,
                               -0.025208222796157963,   0.0042045497936517725,
                               -0.0004413340358704122,  2.1686659397431822e-5};
  ir size = at_most(e, absolute(e, x), 4.0);
  ir low = real_mul(e, x, polynomial(e, real_mul(e, size, size), near, 7));
  ir high = real_sub(e, number(e, 1, x), exp_f32(e, real_neg(e, polynomial(e, size, far, 8))));
  return choose(e, real_compare(e, LLVMRealOGT, size, number(e, 1, x)), with_sign(e, high, x), low);
}

// ---- functions of their own ----

// sin r or cos r for |r| <= pi / 4, by the quadrant q
static ir sin_cos_of_quadrant(emitter *e, ir r, ir q, bool cosine) {
  static const double sin_c[] = {-0.1666665487343931, 0.0083321735406993817,
                                 -0.00019516655488527461};
  static const double cos_c[] = {0.041666645554306379, -0.0013887309859596515,
                                 2.4432412258976491e-5};
  ir z = real_mul(e, r, r);
  ir s = real_fma(e, real_mul(e, polynomial(e, z, sin_c, 3), z), r, r);
  ir c = real_fma(e, real_mul(e, polynomial(e, z, cos_c, 3), z), z,
                  real_fma(e, z, number(e, -0.5, r), number(e, 1, r)));
  return of_quadrant(e, s, c, q, cosine);
}

// GPU, where there is no libm: 24 bits of x times 96 bits of 2 / pi, those behind which quarters of
// a turn are whole.
static ir reduced_exactly(emitter *e, ir x, ir *quadrant) {
  static const uint32_t two_over_pi[] = {0,          0x28be60db, 0x9391054a, 0x7f09d5f4,
                                         0x7d4d3770, 0x36d8a566, 0x4f10e410, 0};
  LLVMTypeRef bits32 = e->i32, bits64 = e->i64;
  ir bits = to_bits(e, absolute(e, x));
  ir exponent = LLVMBuildSub(e->b, LLVMBuildLShr(e->b, bits, integer_constant(bits32, 23), ""),
                             integer_constant(bits32, 126), "");
  ir m = LLVMBuildShl(e->b, bits, integer_constant(bits32, 8), "");
  m = bit_or(e, m, integer_constant(bits32, 0x80000000u));
  m = LLVMBuildZExt(e->b, m, bits64, "");
  ir word = LLVMBuildAShr(e->b, exponent, integer_constant(bits32, 5), "");
  ir shift = LLVMBuildZExt(e->b, bit_and(e, exponent, integer_constant(bits32, 31)), bits64, "");
  ir parts[4];
  for (int i = 0; i < 4; i++) {
    parts[i] = LLVMConstInt(bits64, two_over_pi[i], 0);
    for (int w = 1; w <= 4; w++) {
      ir here = LLVMBuildICmp(e->b, LLVMIntEQ, word, integer_constant(bits32, (uint64_t)w), "");
      ir taken = LLVMConstInt(bits64, i + w < 8 ? two_over_pi[i + w] : 0, 0);
      parts[i] = LLVMBuildSelect(e->b, here, taken, parts[i], "");
    }
  }
  ir high32 = LLVMConstInt(bits64, 32, 0), product = LLVMConstNull(bits64);
  for (int i = 2; i >= 0; i--) {  // the low half of each word of the product carries into the next
    ir both = bit_or(e, LLVMBuildShl(e->b, parts[i], high32, ""), parts[i + 1]);
    ir taken = LLVMBuildLShr(e->b, LLVMBuildShl(e->b, both, shift, ""), high32, "");
    ir here = LLVMBuildMul(e->b, m, taken, "");
    product = i == 0 ? LLVMBuildAdd(e->b, LLVMBuildShl(e->b, here, high32, ""), product, "")
                     : LLVMBuildAdd(e->b, here, LLVMBuildLShr(e->b, product, high32, ""), "");
  }
  // two bits of quadrants, then a fraction, to the nearest quadrant
  ir half = LLVMConstInt(bits64, UINT64_C(1) << 61, 0);
  ir q =
      LLVMBuildLShr(e->b, LLVMBuildAdd(e->b, product, half, ""), LLVMConstInt(bits64, 62, 0), "");
  ir fraction =
      LLVMBuildSub(e->b, product, LLVMBuildShl(e->b, q, LLVMConstInt(bits64, 62, 0), ""), "");
  LLVMTypeRef wide = LLVMDoubleTypeInContext(e->context);
  ir r = LLVMBuildFMul(e->b, LLVMBuildSIToFP(e->b, fraction, wide, ""),
                       LLVMConstReal(wide, 0x1.921fb54442d18p-62), "");
  ir negative = real_compare(e, LLVMRealOLT, x, number(e, 0, x));
  q = LLVMBuildTrunc(e->b, q, bits32, "");
  *quadrant = LLVMBuildSelect(e->b, negative, LLVMBuildNeg(e->b, q, ""), q, "");
  r = LLVMBuildFPTrunc(e->b, r, e->real, "");
  ir finite = real_compare(e, LLVMRealOLT, absolute(e, x), number(e, INFINITY, x));
  return choose(e, finite, choose(e, negative, real_neg(e, r), r), number(e, NAN, x));
}

static ir large_sin_cos(emitter *e, const char *name, ir *args, int count) {
  if (!e->gpu) return libm_lanes(e, name, args, count);
  ir quadrant, r = reduced_exactly(e, args[0], &quadrant);
  return sin_cos_of_quadrant(e, r, quadrant, name[0] == 'c');
}

// Reduction modulo pi / 2 in double. The first part of pi / 2 has 33 leading bits, so that n times
// it is exact up to |x| of 2^20. libm reduces larger numbers.
static ir sin_cos_body(emitter *e, const char *name, ir *args, int count) {
  ir x = args[0];
  ir size = absolute(e, x);
  ir large = real_compare(e, LLVMRealUGT, size, number(e, 1048576.0, x));
  ir result = stack_slot(e, LLVMTypeOf(x), "");
  emit_branch branch = branch_begin(e, any_lane(e, large));
  store_real(e, large_sin_cos(e, name, args, count), result);
  branch_else(e, &branch);
  LLVMTypeRef wide = double_like(e, x);
  ir xd = LLVMBuildFPExt(e->b, x, wide, "");
  ir magic = double_number(wide, 6755399441055744.0);  // 1.5 * 2^52
  ir scaled = LLVMBuildFMul(e->b, xd, double_number(wide, 0.63661977236758134308), "");
  ir shifted = LLVMBuildFAdd(e->b, scaled, magic, "");
  ir n = LLVMBuildFSub(e->b, shifted, magic, "");
  ir r =
      LLVMBuildFSub(e->b, xd, LLVMBuildFMul(e->b, n, double_number(wide, 0x1.921fb544p+0), ""), "");
  r = LLVMBuildFSub(e->b, r, LLVMBuildFMul(e->b, n, double_number(wide, 0x1.0b4611a626331p-34), ""),
                    "");
  LLVMTypeRef bits64 = ir_lanes(x) ? LLVMVectorType(e->i64, (unsigned)ir_lanes(x)) : e->i64;
  ir q = LLVMBuildTrunc(e->b, LLVMBuildBitCast(e->b, shifted, bits64, ""), integer_like(e, x), "");
  ir r4 = LLVMBuildFPTrunc(e->b, r, LLVMTypeOf(x), "");
  store_real(e, sin_cos_of_quadrant(e, r4, q, name[0] == 'c'), result);
  branch_end(e, &branch);
  return load_real(e, result, ir_lanes(x));
}

// x - 2 pi n with n the nearest whole number to x / 2 pi, in double. The first two parts of 2 pi
// have 33 bits each, so that n times them is exact up to |x| of 2^22.
static ir wrap_body(emitter *e, const char *name, ir *args, int count) {
  (void)name, (void)count;
  static const double parts[] = {0x1.921fb544p+2, 0x1.0b4611a6p-32, 0x1.3198a2e037073p-67};
  LLVMTypeRef wide = double_like(e, args[0]);
  ir magic = double_number(wide, 6755399441055744.0);  // 1.5 * 2^52
  ir x = e->f64 ? args[0] : LLVMBuildFPExt(e->b, args[0], wide, "");
  ir turns = LLVMBuildFMul(e->b, x, double_number(wide, 0.15915494309189535), "");
  ir n = LLVMBuildFSub(e->b, LLVMBuildFAdd(e->b, turns, magic, ""), magic, "");
  for (int i = 0; i < 3; i++) {
    ir part = LLVMBuildFMul(e->b, n, double_number(wide, parts[i]), "");
    x = LLVMBuildFSub(e->b, x, part, "");
  }
  return e->f64 ? x : LLVMBuildFPTrunc(e->b, x, LLVMTypeOf(args[0]), "");
}

// Scaled by a power of two: exactly, and without a quotient.
static ir scaled_hypot_body(emitter *e, const char *name, ir *args, int count) {
  (void)name, (void)count;
  bool wide = e->f64 || e->wide;
  double large = wide ? 0x1p500 : 0x1p60, down = wide ? 0x1p-600 : 0x1p-70,
         up = wide ? 0x1p600 : 0x1p100;
  ir x = absolute(e, args[0]), y = absolute(e, args[1]);
  ir size = choose(e, real_compare(e, LLVMRealOGT, x, y), x, y), one = number(e, 1, x);
  ir above = real_compare(e, LLVMRealOGT, size, number(e, large, x));
  ir below = real_compare(e, LLVMRealOLT, size, number(e, 1 / large, x));
  ir scale = choose(e, above, number(e, down, x), choose(e, below, number(e, up, x), one));
  ir back = choose(e, above, number(e, 1 / down, x), choose(e, below, number(e, 1 / up, x), one));
  return real_mul(e, emit_root(e, sum_of_squares(e, real_mul(e, x, scale), real_mul(e, y, scale))),
                  back);
}

// Where a sum of squares may have left the range, of any lane, numbers are scaled before.
static ir emit_hypotenuse(emitter *e, ir *args) {
  bool wide = e->f64 || e->wide;
  ir square = sum_of_squares(e, args[0], args[1]), result = stack_slot(e, LLVMTypeOf(square), "");
  ir low = real_compare(e, LLVMRealULT, square, number(e, wide ? 0x1p-900 : 0x1p-100, square));
  ir high = real_compare(e, LLVMRealUGT, square, number(e, wide ? 0x1p1020 : 0x1p125, square));
  store_real(e, emit_root(e, square), result);
  emit_branch branch = branch_begin(e, any_lane(e, bit_or(e, low, high)));
  store_real(e, call_own(e, wide ? "wide_hypot" : "hypot", args, 2, scaled_hypot_body), result);
  branch_end(e, &branch);
  return load_real(e, result, ir_lanes(square));
}

// x^p for x >= 0: log2 x in double, so that p log2 x keeps the digits that the exponential needs.
static ir pow_body(emitter *e, const char *name, ir *args, int count) {
  (void)name, (void)count;
  static const double log_c[] = {2.8853900817778487,  0.96179669411587625, 0.57707794159263633,
                                 0.41220933377952792, 0.31990222829615087, 0.28295147547789049};
  static const double exp_c[] = {0.69314721584465652,   0.2402265283565871,
                                 0.055503088551550704,  0.0096176856293989916,
                                 0.0013407258189980008, 0.00015596283830696534};
  ir x = args[0], p = args[1];
  LLVMTypeRef wide = double_like(e, x);
  log_parts parts = split_any_exponent(e, x);
  ir f = LLVMBuildFPExt(e->b, parts.fraction, wide, "");
  ir s = LLVMBuildFDiv(e->b, f, LLVMBuildFAdd(e->b, f, double_number(wide, 2), ""), "");
  ir z = LLVMBuildFMul(e->b, s, s, "");
  ir q = double_number(wide, log_c[5]);
  for (int i = 4; i >= 0; i--)
    q = LLVMBuildFAdd(e->b, LLVMBuildFMul(e->b, q, z, ""), double_number(wide, log_c[i]), "");
  ir log2 = LLVMBuildFAdd(e->b, LLVMBuildFMul(e->b, q, s, ""),
                          LLVMBuildFPExt(e->b, parts.exponent, wide, ""), "");
  ir product = LLVMBuildFMul(e->b, LLVMBuildFPExt(e->b, p, wide, ""), log2, "");
  ir limit = double_number(wide, 200), under = double_number(wide, -200);
  product = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealOGT, product, limit, ""), limit,
                            product, "");
  product = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealOLT, product, under, ""), under,
                            product, "");
  ir magic = double_number(wide, 6755399441055744.0);
  ir n = LLVMBuildFSub(e->b, LLVMBuildFAdd(e->b, product, magic, ""), magic, "");
  ir r = LLVMBuildFPTrunc(e->b, LLVMBuildFSub(e->b, product, n, ""), LLVMTypeOf(x), "");
  ir y = real_fma(e, polynomial(e, r, exp_c, 6), r, number(e, 1, x));
  rounded whole = round_to_integer(e, LLVMBuildFPTrunc(e->b, n, LLVMTypeOf(x), ""), 1.0);
  y = scale(e, y, whole);
  // 0, infinity, negative and NaN bases as exp(p log x) has them; x^0 is 1
  ir zero = number(e, 0, x), infinity = number(e, INFINITY, x);
  ir vanishing = real_compare(e, LLVMRealOEQ, x, zero);
  ir grows = real_compare(e, LLVMRealOGT, p, zero);
  y = choose(e, vanishing, choose(e, grows, zero, infinity), y);
  y = choose(e, real_compare(e, LLVMRealOEQ, x, infinity), choose(e, grows, infinity, zero), y);
  y = choose(e, real_compare(e, LLVMRealULT, x, zero), number(e, NAN, x), y);
  y = choose(e, real_compare(e, LLVMRealUNO, p, p), p, y);
  return choose(e, real_compare(e, LLVMRealOEQ, p, zero), number(e, 1, x), y);
}

static ir transcendental_f32(emitter *e, tile_op op, const ir *args) {
  ir x = args[0];
  switch (op) {
    case TILE_EXP: return exp_f32(e, x);
    case TILE_EXP2: return exp2_f32(e, x);
    case TILE_EXPM1: return expm1_f32(e, x);
    case TILE_LOG: return log_f32(e, x);
    case TILE_LOG1P: return log1p_f32(e, x);
    case TILE_ERF: return erf_f32(e, x);
    case TILE_TANH: return tanh_f32(e, x);
    case TILE_SIN: return call_own(e, "sin", &x, 1, sin_cos_body);
    case TILE_COS: return call_own(e, "cos", &x, 1, sin_cos_body);
    case TILE_POWER: {
      ir both[] = {x, args[1]};
      return call_own(e, "pow", both, 2, pow_body);
    }
    case TILE_SIGMOID: return sigmoid_f32(e, x);
    case TILE_SOFTPLUS: return softplus_f32(e, x);
    default: ICE("emit", "operation %d is not elementary", (int)op);
  }
}

static ir transcendental(emitter *e, tile_op op, const ir *args) {
  return e->wide || e->f64 ? transcendental_f64(e, op, args) : transcendental_f32(e, op, args);
}

static ir comparison(emitter *e, LLVMRealPredicate p, ir x, ir y) {
  ir condition = real_compare(e, p, x, y);
  int lanes = ir_lanes(condition);
  return choose(e, condition, real_number(e, 1, lanes), real_number(e, 0, lanes));
}

ir expr_apply(emitter *e, tile_op op, const ir *args) {
  ir x = args[0], pair[2] = {args[0], NULL};
  switch (op) {
    case TILE_NEG: return real_neg(e, x);
    case TILE_ABS: return absolute(e, x);
    case TILE_SQRT:
    case TILE_SQRT_KINK: return emit_root(e, x);
    case TILE_RSQRT: return inverse_root(e, x);
    case TILE_RELU: return at_least(e, x, 0);
    case TILE_SIGN: {
      ir up = comparison(e, LLVMRealOGT, x, number(e, 0, x));
      return real_sub(e, up, comparison(e, LLVMRealOLT, x, number(e, 0, x)));
    }
    case TILE_SILU: return real_mul(e, x, transcendental(e, TILE_SIGMOID, args));
    case TILE_LOG_SIGMOID: {
      ir minus = real_neg(e, x);
      return real_neg(e, transcendental(e, TILE_SOFTPLUS, &minus));
    }
    case TILE_WRAP: return call_own(e, "wrap", &x, 1, wrap_body);
    case TILE_ROUND:
    case TILE_STOP: return x;
    case TILE_ADD: return real_add(e, x, args[1]);
    case TILE_SUB: return real_sub(e, x, args[1]);
    case TILE_MUL: return real_mul(e, x, args[1]);
    case TILE_DIV:
      return gpu_approximates(e) ? gpu_division(e, x, args[1]) : real_div(e, x, args[1]);
    case TILE_MIN: return choose(e, real_compare(e, LLVMRealOLT, x, args[1]), x, args[1]);
    case TILE_MAX: return choose(e, real_compare(e, LLVMRealOGT, x, args[1]), x, args[1]);
    case TILE_LESS: return comparison(e, LLVMRealOLT, x, args[1]);
    case TILE_LESS_EQUAL: return comparison(e, LLVMRealOLE, x, args[1]);
    case TILE_EQUAL: return comparison(e, LLVMRealOEQ, x, args[1]);
    case TILE_SELECT:
    case TILE_SELDOM: {
      ir taken = real_compare(e, LLVMRealUNE, x, number(e, 0, x));
      ir y = args[1], z = args[2];
      spread_pair(e, &y, &z);
      if (ir_lanes(y)) taken = spread(e, taken, ir_lanes(y));
      return choose(e, taken, y, z);
    }
    case TILE_HYPOT:
    case TILE_POWER:
      pair[1] = args[1];
      spread_pair(e, &pair[0], &pair[1]);
      return op == TILE_HYPOT ? emit_hypotenuse(e, pair) : transcendental(e, op, pair);
    default: return transcendental(e, op, args);
  }
}
