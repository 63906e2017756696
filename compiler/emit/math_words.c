// What the functions of math.c are made of: constants and bits of vectors, and calls of functions
// of their own.
//
//   call_own "sin" %x   ->   call @rec_sin_f32_8_v3(%x), which is made at its first use
#include "compiler/emit/math_words.h"

#include <stdio.h>

// ---- constants and bits ----

static LLVMTypeRef element_of(LLVMTypeRef type) {
  return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

static ir in_all_lanes(LLVMTypeRef type, ir one) {
  if (LLVMGetTypeKind(type) != LLVMVectorTypeKind) return one;
  unsigned lanes = LLVMGetVectorSize(type);
  LLVMValueRef all[1024];
  for (unsigned i = 0; i < lanes; i++) all[i] = one;
  return LLVMConstVector(all, lanes);
}

ir integer_constant(LLVMTypeRef type, uint64_t bits) {
  return in_all_lanes(type, LLVMConstInt(element_of(type), bits, 0));
}

ir double_number(LLVMTypeRef type, double x) {
  return in_all_lanes(type, LLVMConstReal(element_of(type), x));
}

ir polynomial(emitter *e, ir x, const double *c, int count) {
  ir sum = number(e, c[count - 1], x);
  for (int i = count - 2; i >= 0; i--) sum = real_fma(e, sum, x, number(e, c[i], x));
  return sum;
}

LLVMTypeRef integer_like(emitter *e, ir x) {
  LLVMTypeRef type = e->f64 ? e->i64 : e->i32;
  return ir_lanes(x) ? LLVMVectorType(type, (unsigned)ir_lanes(x)) : type;
}

ir to_bits(emitter *e, ir x) { return LLVMBuildBitCast(e->b, x, integer_like(e, x), ""); }
ir from_bits(emitter *e, ir x) {
  int lanes = ir_lanes(x);
  return LLVMBuildBitCast(e->b, x, real_type(e, lanes), "");
}

ir absolute(emitter *e, ir x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return call_intrinsic(e, "llvm.fabs", &type, 1, &x, 1);
}

ir with_sign(emitter *e, ir size, ir sign) {
  LLVMTypeRef type = LLVMTypeOf(size);
  return call_intrinsic(e, "llvm.copysign", &type, 1, (ir[]){size, sign}, 2);
}

ir at_least(emitter *e, ir x, double low) {
  ir c = number(e, low, x);
  return choose(e, real_compare(e, LLVMRealOLT, x, c), c, x);
}

ir at_most(emitter *e, ir x, double high) {
  ir c = number(e, high, x);
  return choose(e, real_compare(e, LLVMRealOGT, x, c), c, x);
}

ir square_root(emitter *e, ir x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return call_intrinsic(e, "llvm.sqrt", &type, 1, &x, 1);
}

// ---- calls ----

static ir libm_lane(emitter *e, const char *name, LLVMTypeRef type, ir *args, int count) {
  LLVMTypeRef types[2] = {type, type};
  LLVMTypeRef function_type = LLVMFunctionType(type, types, (unsigned)count, 0);
  ir function = LLVMGetNamedFunction(e->m->module, name);
  if (!function) function = LLVMAddFunction(e->m->module, name, function_type);
  return LLVMBuildCall2(e->b, function_type, function, args, (unsigned)count, "");
}

ir of_quadrant(emitter *e, ir s, ir c, ir q, bool cosine) {
  LLVMTypeRef type = LLVMTypeOf(q);
  const uint64_t to_sign = e->f64 ? 62 : 30;
  if (cosine) q = LLVMBuildAdd(e->b, q, integer_constant(type, 1), "");
  ir odd = LLVMBuildICmp(e->b, LLVMIntNE, bit_and(e, q, integer_constant(type, 1)),
                         LLVMConstNull(type), "");
  ir flip = LLVMBuildShl(e->b, bit_and(e, q, integer_constant(type, 2)),
                         integer_constant(type, to_sign), "");
  ir y = choose(e, odd, c, s);
  return from_bits(e, LLVMBuildXor(e->b, to_bits(e, y), flip, ""));
}

ir libm_lanes(emitter *e, const char *name, ir *args, int count) {
  LLVMTypeRef real8 = LLVMDoubleTypeInContext(e->context);
  int lanes = ir_lanes(args[0]);
  if (!lanes) {
    ir wide[2];
    for (int i = 0; i < count; i++)
      wide[i] = e->f64 ? args[i] : LLVMBuildFPExt(e->b, args[i], real8, "");
    ir y = libm_lane(e, name, real8, wide, count);
    return e->f64 ? y : LLVMBuildFPTrunc(e->b, y, e->real, "");
  }
  ir memory[2];
  for (int i = 0; i < count; i++) memory[i] = real_slot(e, args[i], "");
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, lanes), 1, "lane");
  ir lane[2];
  for (int i = 0; i < count; i++)
    lane[i] = load_real(e, element(e, e->real, memory[i], loop.index), 0);
  store_real(e, libm_lanes(e, name, lane, count), element(e, e->real, memory[0], loop.index));
  loop_end(e, &loop);
  return load_real(e, memory[0], lanes);
}

// GPU: what is long is one function for a number.
static ir call_each_lane(emitter *e, const char *name, ir *args, int count, body_function *body) {
  ir all = LLVMGetPoison(LLVMTypeOf(args[0]));
  for (int lane = 0; lane < ir_lanes(args[0]); lane++) {
    ir one[2];
    for (int k = 0; k < count; k++)
      one[k] = LLVMBuildExtractElement(e->b, args[k], integer(e, lane), "");
    ir y = call_own(e, name, one, count, body);
    all = LLVMBuildInsertElement(e->b, all, y, integer(e, lane), "");
  }
  return all;
}

ir call_own(emitter *e, const char *name, ir *args, int count, body_function *body) {
  char symbol[96];
  int lanes = ir_lanes(args[0]);
  if (e->gpu && lanes) return call_each_lane(e, name, args, count, body);
  snprintf(symbol, sizeof symbol, "rec_%s_%s%d%s", name, e->f64 ? "f64_" : "f32_", lanes,
           clone_targets[e->clone].suffix);
  LLVMTypeRef type = LLVMTypeOf(args[0]), types[2] = {type, type};
  LLVMTypeRef function_type = LLVMFunctionType(type, types, (unsigned)count, 0);
  ir function, parameters[2];
  emitter inner;
  if (emit_shared(e, symbol, function_type, &function, &inner, parameters)) {
    LLVMBuildRet(inner.b, body(&inner, name, parameters, count));
    LLVMDisposeBuilder(inner.b);
  }
  return LLVMBuildCall2(e->b, function_type, function, args, (unsigned)count, "");
}

LLVMTypeRef double_like(emitter *e, ir x) {
  LLVMTypeRef type = LLVMDoubleTypeInContext(e->context);
  return ir_lanes(x) ? LLVMVectorType(type, (unsigned)ir_lanes(x)) : type;
}

ir any_lane(emitter *e, ir mask) {
  int lanes = ir_lanes(mask);
  if (!lanes) return mask;
  LLVMTypeRef bits = LLVMIntTypeInContext(e->context, (unsigned)lanes);
  return LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildBitCast(e->b, mask, bits, ""), LLVMConstNull(bits),
                       "");
}
