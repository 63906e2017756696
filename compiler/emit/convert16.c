// Numbers of 16 bits in memory: conversions on the way in and out of a kernel, which computes in
// f32.
//
//   load bf16 x 16     ->   16 x i16, extended, shifted left by 16, taken as f32
//   store f16 x 16     ->   vcvtps2ph, or on the baseline three roundings on the bits of which one is chosen
//
// Stores round to nearest, ties to even; NaN stays NaN. Vectors that are neither dense nor whole go
// through a loop in a function of its own. Two cases do not: clones with masked 16-bit loads and
// stores, and numbers two apart (complex ones).
#include <stdio.h>

#include "compiler/emit/gpu_ops.h"

static LLVMTypeRef laned_type(LLVMTypeRef type, int lanes) {
  return lanes ? LLVMVectorType(type, (unsigned)lanes) : type;
}

static LLVMTypeRef bits_type(emitter *e, int lanes) { return laned_type(e->i32, lanes); }
static LLVMTypeRef small_type(emitter *e, int lanes) { return laned_type(e->i16, lanes); }

static ir spread_bits(emitter *e, uint32_t bits, int lanes) {
  return spread(e, LLVMConstInt(e->i32, bits, 0), lanes);
}

static ir vector_bits(emitter *e, ir x) {
  return LLVMBuildBitCast(e->b, x, bits_type(e, ir_lanes(x)), "");
}

static ir bits_as_real(emitter *e, ir bits) {
  return LLVMBuildBitCast(e->b, bits, real_type(e, ir_lanes(bits)), "");
}

static ir and_bits(emitter *e, ir x, uint32_t bits) {
  return bit_and(e, x, spread_bits(e, bits, ir_lanes(x)));
}

static ir or_bits(emitter *e, ir x, uint32_t bits) {
  return bit_or(e, x, spread_bits(e, bits, ir_lanes(x)));
}

static ir plus_bits(emitter *e, ir x, uint32_t bits) {
  return LLVMBuildAdd(e->b, x, spread_bits(e, bits, ir_lanes(x)), "");
}

static ir left(emitter *e, ir x, unsigned bits) {
  return LLVMBuildShl(e->b, x, spread_bits(e, bits, ir_lanes(x)), "");
}

static ir right(emitter *e, ir x, unsigned bits) {
  return LLVMBuildLShr(e->b, x, spread_bits(e, bits, ir_lanes(x)), "");
}

static ir compare_bits(emitter *e, LLVMIntPredicate p, ir x, uint32_t bits) {
  return LLVMBuildICmp(e->b, p, x, spread_bits(e, bits, ir_lanes(x)), "");
}

static ir pick(emitter *e, ir condition, ir x, ir y) {
  return LLVMBuildSelect(e->b, condition, x, y, "");
}

// ---- conversions ----

static ir wide_from_bfloat(emitter *e, ir small) {
  ir bits = LLVMBuildZExt(e->b, small, bits_type(e, ir_lanes(small)), "");
  return bits_as_real(e, left(e, bits, 16));
}

static ir bfloat_from_wide(emitter *e, ir x) {
  ir bits = vector_bits(e, x);
  ir rounded =
      LLVMBuildAdd(e->b, plus_bits(e, bits, 0x7fff), and_bits(e, right(e, bits, 16), 1), "");
  ir is_nan = real_compare(e, LLVMRealUNO, x, x);
  ir top = right(e, pick(e, is_nan, or_bits(e, bits, 0x400000), rounded), 16);
  return LLVMBuildTrunc(e->b, top, small_type(e, ir_lanes(x)), "");
}

// Exponent and fraction move to their places in f32, and the exponent's offset is corrected. Below
// 2^-14 a float subtraction corrects it, exact and between normal numbers.
static ir wide_from_half_bits(emitter *e, ir small) {
  ir bits = LLVMBuildZExt(e->b, small, bits_type(e, ir_lanes(small)), "");
  ir size = left(e, and_bits(e, bits, 0x7fff), 13);
  ir normal = plus_bits(e, size, 112u << 23);
  ir special = plus_bits(e, size, 224u << 23);
  special =
      pick(e, compare_bits(e, LLVMIntUGT, size, 31u << 23), or_bits(e, special, 0x400000), special);
  ir below = bits_as_real(e, plus_bits(e, size, 113u << 23));
  below = vector_bits(e, real_sub(e, below, real_number(e, 0x1p-14, ir_lanes(small))));
  ir value = pick(e, compare_bits(e, LLVMIntUGE, size, 31u << 23), special, normal);
  value = pick(e, compare_bits(e, LLVMIntULT, size, 1u << 23), below, value);
  return bits_as_real(e, bit_or(e, value, left(e, and_bits(e, bits, 0x8000), 16)));
}

// Below 2^-14 the addition of 0.5 rounds: its last bit is the least half. What would be rounded
// beyond the largest half is cut to the first size that becomes infinity.
static ir half_bits_from_wide(emitter *e, ir x) {
  ir bits = vector_bits(e, x), size = and_bits(e, bits, 0x7fffffff);
  ir large = compare_bits(e, LLVMIntUGT, size, 0x47800000);
  ir limited = pick(e, large, spread_bits(e, 0x47800000, ir_lanes(x)), size);
  ir normal = plus_bits(e, limited, 0u - (112u << 23) + 0xfff);
  normal = right(e, LLVMBuildAdd(e->b, normal, and_bits(e, right(e, size, 13), 1), ""), 13);
  ir below = vector_bits(e, real_add(e, bits_as_real(e, size), real_number(e, 0.5, ir_lanes(x))));
  below = plus_bits(e, below, 0u - 0x3f000000);
  ir nan = or_bits(e, and_bits(e, right(e, size, 13), 0x3ff), 0x7e00);
  ir value = pick(e, compare_bits(e, LLVMIntULT, size, 113u << 23), below, normal);
  value = pick(e, compare_bits(e, LLVMIntUGT, size, 0x7f800000), nan, value);
  value = bit_or(e, value, and_bits(e, right(e, bits, 16), 0x8000));
  return LLVMBuildTrunc(e->b, value, small_type(e, ir_lanes(x)), "");
}

static LLVMTypeRef half_type(emitter *e, int lanes) {
  return laned_type(LLVMHalfTypeInContext(e->context), lanes);
}

ir narrow_widened(emitter *e, number_type type, ir small) {
  int lanes = ir_lanes(small);
  if (type == NUMBER_BF16) return wide_from_bfloat(e, small);
  if (!clone_targets[e->clone].converts_half) return wide_from_half_bits(e, small);
  ir half = LLVMBuildBitCast(e->b, small, half_type(e, lanes), "");
  return LLVMBuildFPExt(e->b, half, real_type(e, lanes), "");
}

static ir narrowed(emitter *e, number_type type, ir x) {
  int lanes = ir_lanes(x);
  if (e->gpu) {
    gpu_op op = type == NUMBER_BF16 ? GPU_CVT_BF16X2 : GPU_CVT_F16X2;
    return LLVMBuildTrunc(e->b, gpu_call(e, op, (ir[]){x, real_number(e, 0, 0)}, 2), e->i16, "");
  }
  if (type == NUMBER_BF16) return bfloat_from_wide(e, x);
  if (!clone_targets[e->clone].converts_half) return half_bits_from_wide(e, x);
  ir half = LLVMBuildFPTrunc(e->b, x, half_type(e, lanes), "");
  return LLVMBuildBitCast(e->b, half, small_type(e, lanes), "");
}

ir narrow_pairs(emitter *e, number_type type, ir x) {
  gpu_op op = type == NUMBER_BF16 ? GPU_CVT_BF16X2 : GPU_CVT_F16X2;
  int pairs = ir_lanes(x) / 2;
  ir all = LLVMGetPoison(laned_type(e->i32, pairs));
  for (int i = 0; i < pairs; i++) {
    ir both[] = {LLVMBuildExtractElement(e->b, x, integer(e, 2 * i), ""),
                 LLVMBuildExtractElement(e->b, x, integer(e, 2 * i + 1), "")};
    all = LLVMBuildInsertElement(e->b, all, gpu_call(e, op, both, 2), integer(e, i), "");
  }
  return all;
}

// ---- memory ----

static ir load_small(emitter *e, ir address, int lanes) {
  ir x = LLVMBuildLoad2(e->b, small_type(e, lanes), address, "");
  LLVMSetAlignment(x, 2);
  return x;
}

static void store_small(emitter *e, ir x, ir address) {
  LLVMSetAlignment(LLVMBuildStore(e->b, x, address), 2);
}

// Numbers two apart: the first half of the lanes comes from the first `lanes` numbers, the others
// from the last.
static ir load_every_second(emitter *e, ir address, int lanes) {
  ir first = load_small(e, address, lanes);
  ir last = load_small(e, element(e, e->i16, address, integer(e, lanes - 1)), lanes);
  ir *from = ARENA_ARRAY(e->a, ir, lanes);
  for (int i = 0; i < lanes; i++) {
    int place = 2 * i < lanes ? 2 * i : lanes + 2 * i - (lanes - 1);
    from[i] = LLVMConstInt(e->i32, (unsigned)place, 0);
  }
  return LLVMBuildShuffleVector(e->b, first, last, LLVMConstVector(from, (unsigned)lanes), "");
}

// Masks take the first lanes: how many.
static ir lanes_taken(emitter *e, ir mask, int lanes) {
  if (!mask) return integer(e, lanes);
  LLVMTypeRef bits = LLVMIntTypeInContext(e->context, (unsigned)lanes);
  ir taken = LLVMBuildBitCast(e->b, mask, bits, "");
  if (lanes < 64) taken = LLVMBuildZExt(e->b, taken, e->i64, "");
  return call_intrinsic(e, "llvm.ctpop", &e->i64, 1, &taken, 1);
}

// void NAME(memory, stride, lanes, count): moves `count` numbers, one by one.
static ir mover(emitter *e, bool store, LLVMTypeRef *type) {
  char name[32];
  snprintf(name, sizeof name, "rec_%s16%s", store ? "scatter" : "gather",
           clone_targets[e->clone].suffix);
  LLVMTypeRef types[] = {e->pointer, e->i64, e->pointer, e->i64};
  *type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, 4, 0);
  ir function, args[4];
  emitter inner;
  if (!emit_shared(e, name, *type, &function, &inner, args)) return function;
  emit_loop loop = loop_begin(&inner, integer(e, 0), args[3], 1, "lane");
  ir outside = element(&inner, e->i16, args[0], int_mul(&inner, loop.index, args[1]));
  ir inside = element(&inner, e->i16, args[2], loop.index);
  store_small(&inner, load_small(&inner, store ? inside : outside, 0), store ? outside : inside);
  loop_end(&inner, &loop);
  emit_shared_end(&inner);
  return function;
}

static void move_one_by_one(emitter *e, bool store, ir address, ir stride, ir lanes_at, ir count) {
  LLVMTypeRef type;
  ir function = mover(e, store, &type);
  LLVMBuildCall2(e->b, type, function, (ir[]){address, stride, lanes_at, count}, 4, "");
}

static bool has_masks(const emitter *e) { return clone_targets[e->clone].masks_halves; }

static ir gather_small(emitter *e, ir address, ir stride, ir mask, int lanes) {
  LLVMTypeRef type = small_type(e, lanes);
  bool dense = int_is(stride, 1);
  if (dense && !mask) return load_small(e, address, lanes);
  if (int_is(stride, 2) && !mask) return load_every_second(e, address, lanes);
  if (dense && has_masks(e)) return load_masked(e, type, address, mask, 2);
  ir memory = stack_slot(e, type, "lanes");
  LLVMBuildStore(e->b, LLVMConstNull(type), memory);
  move_one_by_one(e, false, address, stride, memory, lanes_taken(e, mask, lanes));
  return LLVMBuildLoad2(e->b, type, memory, "");
}

static void scatter_small(emitter *e, ir x, ir address, ir stride, ir mask) {
  bool dense = int_is(stride, 1);
  if (dense && !mask) {
    store_small(e, x, address);
    return;
  }
  if (dense && has_masks(e)) {
    store_masked(e, x, address, mask, 2);
    return;
  }
  ir memory = stack_slot(e, LLVMTypeOf(x), "lanes");
  LLVMBuildStore(e->b, x, memory);
  move_one_by_one(e, true, address, stride, memory, lanes_taken(e, mask, ir_lanes(x)));
}

ir load_narrow(emitter *e, number_type type, ir address, ir stride, ir mask, int lanes) {
  ir small = lanes ? gather_small(e, address, stride, mask, lanes) : load_small(e, address, 0);
  return narrow_widened(e, type, small);
}

void store_narrow(emitter *e, number_type type, ir x, ir address, ir stride, ir mask) {
  ir small = narrowed(e, type, x);
  if (ir_lanes(x))
    scatter_small(e, small, address, stride, mask);
  else
    store_small(e, small, address);
}
