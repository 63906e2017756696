// LLVM instructions by small words: functions, numbers with lanes, integers, addresses, masks.
#include "compiler/emit/emit.h"

#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/emit/lines.h"

emitter emitter_new(arena *a, llvm_module *m, codegen_clone clone, number_type dtype) {
  bool f64 = dtype == NUMBER_F64;
  emitter e = {.a = a, .m = m, .context = m->context, .clone = clone, .dtype = dtype, .f64 = f64};
  e.b = LLVMCreateBuilderInContext(m->context);
  e.i1 = LLVMInt1TypeInContext(m->context);
  e.i16 = LLVMInt16TypeInContext(m->context);
  e.i32 = LLVMInt32TypeInContext(m->context);
  e.i64 = LLVMInt64TypeInContext(m->context);
  e.pointer = LLVMPointerTypeInContext(m->context, 0);
  e.real = f64 ? LLVMDoubleTypeInContext(m->context) : LLVMFloatTypeInContext(m->context);
  e.memory = e.real;
  e.gpu = clone == CLONE_GPU;
  e.data = LLVMPointerTypeInContext(m->context, e.gpu ? 1 : 0);
  e.lanes = codegen_lanes(clone, f64);
  return e;
}

emitter emit_as(const emitter *e, LLVMTypeRef type) {
  emitter as = *e;
  as.real = type;
  as.f64 = type == LLVMDoubleTypeInContext(e->context);
  return as;
}

emitter emit_wide(const emitter *e) {
  emitter wide = emit_as(e, LLVMDoubleTypeInContext(e->context));
  wide.wide = true;
  return wide;
}

void emitter_free(emitter *e) { LLVMDisposeBuilder(e->b); }

void emit_open(emitter *e, LLVMValueRef function) {
  e->function = function;
  e->entry = LLVMAppendBasicBlockInContext(e->context, function, "entry");
  LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(e->context, function, "body");
  lines_open_function(e);
  LLVMPositionBuilderAtEnd(e->b, e->entry);
  LLVMBuildBr(e->b, body);
  LLVMPositionBuilderAtEnd(e->b, body);
}

bool emit_shared(emitter *e, const char *name, LLVMTypeRef type, LLVMValueRef *function,
                 emitter *inner, LLVMValueRef *args) {
  *function = LLVMGetNamedFunction(e->m->module, name);
  if (*function) return false;
  *function = llvm_internal(e->m, name, type, e->clone);
  *inner = *e;
  inner->where = (span){0};
  inner->b = LLVMCreateBuilderInContext(e->context);
  emit_open(inner, *function);
  LLVMGetParams(*function, args);
  return true;
}

bool emit_shared_call(emitter *e, const char *name, const LLVMValueRef *given, unsigned count,
                      emitter *inner, LLVMValueRef *args) {
  LLVMTypeRef *types = ARENA_ARRAY(e->a, LLVMTypeRef, count);
  for (unsigned i = 0; i < count; i++) {
    types[i] = LLVMTypeOf(given[i]);
    if (LLVMGetTypeKind(types[i]) != LLVMIntegerTypeKind) continue;
    name = LLVMIsAConstantInt(given[i])
               ? arena_printf(e->a, "%s_%lld", name, LLVMConstIntGetSExtValue(given[i]))
               : arena_printf(e->a, "%s_x", name);
  }
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, count, 0);
  LLVMValueRef function;
  bool is_new = emit_shared(e, name, type, &function, inner, args);
  for (unsigned i = 0; is_new && i < count; i++)
    if (LLVMIsAConstantInt(given[i])) args[i] = given[i];
  LLVMBuildCall2(e->b, type, function, (LLVMValueRef *)given, count, "");
  return is_new;
}

void emit_shared_end(emitter *inner) {
  LLVMBuildRetVoid(inner->b);
  LLVMDisposeBuilder(inner->b);
}

// ---- types and constants ----

int ir_lanes(ir x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(type) : 0;
}

LLVMTypeRef real_type(emitter *e, int lanes) {
  return lanes ? LLVMVectorType(e->real, (unsigned)lanes) : e->real;
}

static ir splat_constant(emitter *e, ir x, int lanes) {
  ir *all = ARENA_ARRAY(e->a, ir, lanes);
  for (int i = 0; i < lanes; i++) all[i] = x;
  return LLVMConstVector(all, (unsigned)lanes);
}

ir real_number(emitter *e, double number, int lanes) {
  ir x = LLVMConstReal(e->real, number);
  return lanes ? splat_constant(e, x, lanes) : x;
}

ir integer(emitter *e, int64_t number) {
  return LLVMConstInt(e->i64, (unsigned long long)number, 1);
}

ir lane_of(emitter *e, ir x, int lane) {
  return ir_lanes(x) ? LLVMBuildExtractElement(e->b, x, integer(e, lane), "") : x;
}

ir lanes_from(emitter *e, ir x, int first, int count) {
  ir *numbers = ARENA_ARRAY(e->a, ir, count);
  for (int i = 0; i < count; i++) numbers[i] = LLVMConstInt(e->i32, (unsigned)(first + i), 0);
  return LLVMBuildShuffleVector(e->b, x, LLVMGetPoison(LLVMTypeOf(x)),
                                LLVMConstVector(numbers, (unsigned)count), "");
}

ir spread(emitter *e, ir x, int lanes) {
  if (!lanes || ir_lanes(x)) return x;
  if (LLVMIsConstant(x)) return splat_constant(e, x, lanes);
  LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(x), (unsigned)lanes);
  ir poison = LLVMGetPoison(type);
  ir first = LLVMBuildInsertElement(e->b, poison, x, integer(e, 0), "");
  ir zeros = LLVMConstNull(LLVMVectorType(e->i32, (unsigned)lanes));
  return LLVMBuildShuffleVector(e->b, first, poison, zeros, "");
}

void spread_pair(emitter *e, ir *x, ir *y) {
  int lanes = ir_lanes(*x) ? ir_lanes(*x) : ir_lanes(*y);
  *x = spread(e, *x, lanes);
  *y = spread(e, *y, lanes);
}

ir as_real(emitter *e, ir x) {
  LLVMTypeRef type = real_type(e, ir_lanes(x));
  if (LLVMTypeOf(x) == type) return x;
  return e->f64 ? LLVMBuildFPExt(e->b, x, type, "") : LLVMBuildFPTrunc(e->b, x, type, "");
}

// ---- arithmetic ----

static ir contracted(const emitter *e, ir x) {
  if (e->contract && LLVMIsAInstruction(x)) LLVMSetFastMathFlags(x, LLVMFastMathAllowContract);
  return x;
}

ir real_add(emitter *e, ir x, ir y) {
  spread_pair(e, &x, &y);
  return contracted(e, LLVMBuildFAdd(e->b, x, y, ""));
}

ir real_sub(emitter *e, ir x, ir y) {
  spread_pair(e, &x, &y);
  return contracted(e, LLVMBuildFSub(e->b, x, y, ""));
}

ir real_mul(emitter *e, ir x, ir y) {
  spread_pair(e, &x, &y);
  return contracted(e, LLVMBuildFMul(e->b, x, y, ""));
}

ir real_div(emitter *e, ir x, ir y) {
  spread_pair(e, &x, &y);
  return LLVMBuildFDiv(e->b, x, y, "");
}

ir real_neg(emitter *e, ir x) { return LLVMBuildFNeg(e->b, x, ""); }

ir call_intrinsic(emitter *e, const char *name, LLVMTypeRef *overloads, int overload_count,
                  ir *args, int count) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (!id) ICE("emit", "LLVM has no intrinsic %s", name);
  ir function = LLVMGetIntrinsicDeclaration(e->m->module, id, overloads, (size_t)overload_count);
  LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, overloads, (size_t)overload_count);
  return LLVMBuildCall2(e->b, type, function, args, (unsigned)count, "");
}

ir real_fma(emitter *e, ir x, ir y, ir z) {
  spread_pair(e, &x, &y);
  spread_pair(e, &x, &z);
  spread_pair(e, &y, &z);
  LLVMTypeRef type = LLVMTypeOf(x);
  return call_intrinsic(e, "llvm.fmuladd", &type, 1, (ir[]){x, y, z}, 3);
}

ir real_compare(emitter *e, LLVMRealPredicate p, ir x, ir y) {
  spread_pair(e, &x, &y);
  return LLVMBuildFCmp(e->b, p, x, y, "");
}

ir choose(emitter *e, ir condition, ir x, ir y) {
  spread_pair(e, &x, &y);
  int lanes = ir_lanes(condition);
  if (lanes) {
    x = spread(e, x, lanes);
    y = spread(e, y, lanes);
  }
  return LLVMBuildSelect(e->b, condition, x, y, "");
}

// ---- integers: what is known stays a constant ----

bool int_known(ir x, int64_t *value) {
  if (!LLVMIsAConstantInt(x)) return false;
  *value = LLVMConstIntGetSExtValue(x);
  return true;
}

bool int_is(ir x, int64_t value) {
  int64_t n;
  return x && int_known(x, &n) && n == value;
}

ir int_as(emitter *e, ir x, LLVMTypeRef type) {
  int64_t n;
  if (int_known(x, &n)) return LLVMConstInt(type, (unsigned long long)n, 1);
  return LLVMBuildSExt(e->b, x, type, "");
}

// GPU: indices of tiles have 32 bits, steps and strides of tensors 64. Numbers take the width of
// what they meet.
static void same_width(emitter *e, ir *x, ir *y) {
  LLVMTypeRef tx = LLVMTypeOf(*x), ty = LLVMTypeOf(*y);
  int64_t n;
  if (tx == ty) return;
  bool wide_x = tx == e->i64;
  if (int_known(*x, &n))
    *x = int_as(e, *x, ty);
  else if (int_known(*y, &n))
    *y = int_as(e, *y, tx);
  else if (wide_x)
    *y = int_as(e, *y, tx);
  else
    *x = int_as(e, *x, ty);
}

ir int_add(emitter *e, ir x, ir y) {
  if (e->gpu && int_is(x, 0)) return y;
  if (e->gpu && int_is(y, 0)) return x;
  same_width(e, &x, &y);
  return LLVMBuildNSWAdd(e->b, x, y, "");
}

ir int_sub(emitter *e, ir x, ir y) {
  same_width(e, &x, &y);
  return LLVMBuildNSWSub(e->b, x, y, "");
}

static bool is_power_of_two(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

// LLVM moves the constant of a subtraction into the address of each access. The base is then
// negative, which shared memory need not accept. Where no bit is borrowed, the bits that differ are
// the difference.
ir int_from_end(emitter *e, int64_t last, int64_t stride, ir i) {
  bool borrows = !is_power_of_two(stride) || !is_power_of_two(last + stride);
  if (!e->gpu || borrows) return int_sub(e, integer(e, last), i);
  ir bits = integer(e, last);
  same_width(e, &bits, &i);
  return LLVMBuildXor(e->b, bits, i, "");
}

ir int_div(emitter *e, ir x, ir y) {
  if (e->gpu && int_is(y, 1)) return x;
  same_width(e, &x, &y);
  return LLVMBuildUDiv(e->b, x, y, "");
}

ir int_rem(emitter *e, ir x, ir y) {
  if (e->gpu && int_is(y, 1)) return LLVMConstNull(LLVMTypeOf(x));
  same_width(e, &x, &y);
  return LLVMBuildURem(e->b, x, y, "");
}

ir int_split(emitter *e, ir *x, ir y) {
  ir whole = *x;
  if (e->gpu) {
    whole = LLVMBuildTrunc(e->b, whole, e->i32, "");
    y = LLVMBuildTrunc(e->b, y, e->i32, "");
  }
  ir count = LLVMBuildUDiv(e->b, whole, y, "");
  ir rest = LLVMBuildSub(e->b, whole, LLVMBuildMul(e->b, count, y, ""), "");
  *x = e->gpu ? LLVMBuildZExt(e->b, count, e->i64, "") : count;
  return e->gpu ? LLVMBuildZExt(e->b, rest, e->i64, "") : rest;
}

ir int_low(emitter *e, ir x) {
  return LLVMBuildZExt(e->b, LLVMBuildTrunc(e->b, x, e->i32, ""), e->i64, "");
}

ir int_compare(emitter *e, LLVMIntPredicate p, ir x, ir y) {
  same_width(e, &x, &y);
  return LLVMBuildICmp(e->b, p, x, y, "");
}

ir int_choose(emitter *e, ir condition, ir x, ir y) {
  same_width(e, &x, &y);
  return LLVMBuildSelect(e->b, condition, x, y, "");
}

ir int_mul(emitter *e, ir x, ir y) {
  if (int_is(y, 1)) return x;
  if (int_is(x, 1)) return y;
  if (e->gpu && int_is(x, 0)) return x;
  same_width(e, &x, &y);
  return LLVMBuildNSWMul(e->b, x, y, "");
}

ir int_min(emitter *e, ir x, ir y) {
  same_width(e, &x, &y);
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, x, y, ""), x, y, "");
}

ir int_max(emitter *e, ir x, ir y) {
  same_width(e, &x, &y);
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, x, y, ""), x, y, "");
}

// ---- memory ----

ir element(emitter *e, LLVMTypeRef type, ir base, ir index) {
  if (int_is(index, 0)) return base;
  return LLVMBuildInBoundsGEP2(e->b, type, base, &index, 1, "");
}

ir load_field(emitter *e, ir base, int64_t offset, LLVMTypeRef type) {
  ir at = element(e, LLVMInt8TypeInContext(e->context), base, integer(e, offset));
  return LLVMBuildLoad2(e->b, type, at, "");
}

// f64 in an f32 program stands among numbers of 4 bytes.
static unsigned alignment(emitter *e) { return e->dtype == NUMBER_F64 ? 8 : 4; }

ir load_real(emitter *e, ir address, int lanes) {
  ir x = LLVMBuildLoad2(e->b, real_type(e, lanes), address, "");
  LLVMSetAlignment(x, alignment(e));
  return x;
}

static void make_streaming(emitter *e, ir store) {
  LLVMSetAlignment(store, alignment(e) * (unsigned)e->lanes);
  LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, 0));
  LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, &one, 1);
  unsigned kind = LLVMGetMDKindIDInContext(e->context, "nontemporal", 11);
  LLVMSetMetadata(store, kind, LLVMMetadataAsValue(e->context, node));
}

void store_real(emitter *e, ir x, ir address) {
  ir store = LLVMBuildStore(e->b, x, address);
  LLVMSetAlignment(store, alignment(e));
  if (e->streaming && ir_lanes(x) == e->lanes) make_streaming(e, store);
}

static ir lane_numbers(emitter *e, int lanes) {
  ir *numbers = ARENA_ARRAY(e->a, ir, lanes);
  for (int i = 0; i < lanes; i++) numbers[i] = LLVMConstInt(e->i64, (unsigned)i, 0);
  return LLVMConstVector(numbers, (unsigned)lanes);
}

ir lane_mask(emitter *e, ir count, int lanes) {
  ir *numbers = ARENA_ARRAY(e->a, ir, lanes);
  for (int i = 0; i < lanes; i++) numbers[i] = LLVMConstInt(e->i32, (unsigned)i, 0);
  ir narrow = LLVMBuildTrunc(e->b, int_min(e, int_max(e, count, integer(e, 0)), integer(e, lanes)),
                             e->i32, "");
  return LLVMBuildICmp(e->b, LLVMIntSLT, LLVMConstVector(numbers, (unsigned)lanes),
                       spread(e, narrow, lanes), "");
}

ir load_masked(emitter *e, LLVMTypeRef type, ir address, ir mask, unsigned alignment) {
  ir x = call_intrinsic(e, "llvm.masked.load", (LLVMTypeRef[]){type, e->pointer}, 2,
                        (ir[]){address, mask, LLVMConstNull(type)}, 3);
  LLVMSetInstrParamAlignment(x, 1, alignment);
  return x;
}

void store_masked(emitter *e, ir x, ir address, ir mask, unsigned alignment) {
  ir call = call_intrinsic(e, "llvm.masked.store", (LLVMTypeRef[]){LLVMTypeOf(x), e->pointer}, 2,
                           (ir[]){x, address, mask}, 3);
  LLVMSetInstrParamAlignment(call, 2, alignment);
}

static ir lane_addresses(emitter *e, ir base, ir stride, int lanes) {
  ir offsets = LLVMBuildNSWMul(e->b, lane_numbers(e, lanes), spread(e, stride, lanes), "");
  return LLVMBuildInBoundsGEP2(e->b, e->real, base, &offsets, 1, "");
}

static ir full_mask(emitter *e, int lanes) {
  return splat_constant(e, LLVMConstInt(e->i1, 1, 0), lanes);
}

// Before AVX-512, LLVM takes vectors of addresses apart. Addresses of single lanes are constants
// away from each other.
static bool has_vectors_of_addresses(const emitter *e) { return clone_targets[e->clone].scales; }

static ir lane_address(emitter *e, ir base, ir stride, int lane) {
  return element(e, e->real, base, int_mul_n(e, stride, lane));
}

static ir gather_lanes(emitter *e, ir base, ir stride, int lanes) {
  ir x = LLVMGetPoison(real_type(e, lanes));
  for (int i = 0; i < lanes; i++)
    x = LLVMBuildInsertElement(e->b, x, load_real(e, lane_address(e, base, stride, i), 0),
                               integer(e, i), "");
  return x;
}

static void scatter_lanes(emitter *e, ir x, ir base, ir stride) {
  for (int i = 0; i < ir_lanes(x); i++)
    store_real(e, LLVMBuildExtractElement(e->b, x, integer(e, i), ""),
               lane_address(e, base, stride, i));
}

static void scatter_vector(emitter *e, ir x, ir base, ir stride, ir mask) {
  int lanes = ir_lanes(x);
  ir addresses = lane_addresses(e, base, stride, lanes);
  ir call = call_intrinsic(e, "llvm.masked.scatter",
                           (LLVMTypeRef[]){LLVMTypeOf(x), LLVMTypeOf(addresses)}, 2,
                           (ir[]){x, addresses, mask ? mask : full_mask(e, lanes)}, 3);
  LLVMSetInstrParamAlignment(call, 2, alignment(e));
}

// Most vectors have all their lanes, and ask once.
static void scatter_most_lanes(emitter *e, ir x, ir base, ir stride, ir mask) {
  LLVMTypeRef bits = LLVMIntTypeInContext(e->context, (unsigned)ir_lanes(x));
  ir taken = LLVMBuildBitCast(e->b, mask, bits, "");
  emit_branch branch =
      branch_begin(e, LLVMBuildICmp(e->b, LLVMIntEQ, taken, LLVMConstAllOnes(bits), ""));
  scatter_lanes(e, x, base, stride);
  branch_else(e, &branch);
  scatter_vector(e, x, base, stride, mask);
  branch_end(e, &branch);
}

ir gather(emitter *e, ir base, ir stride, ir mask, int lanes) {
  bool dense = int_is(stride, 1);
  if (dense && !mask) return load_real(e, base, lanes);
  if (dense) return load_masked(e, real_type(e, lanes), base, mask, alignment(e));
  if (!mask && !has_vectors_of_addresses(e)) return gather_lanes(e, base, stride, lanes);
  LLVMTypeRef type = real_type(e, lanes);
  ir addresses = lane_addresses(e, base, stride, lanes);
  ir x =
      call_intrinsic(e, "llvm.masked.gather", (LLVMTypeRef[]){type, LLVMTypeOf(addresses)}, 2,
                     (ir[]){addresses, mask ? mask : full_mask(e, lanes), LLVMConstNull(type)}, 3);
  LLVMSetInstrParamAlignment(x, 1, alignment(e));
  return x;
}

void scatter(emitter *e, ir x, ir base, ir stride, ir mask) {
  bool dense = int_is(stride, 1);
  if (dense && !mask)
    store_real(e, x, base);
  else if (dense)
    store_masked(e, x, base, mask, alignment(e));
  else if (has_vectors_of_addresses(e))
    scatter_vector(e, x, base, stride, mask);
  else if (mask)
    scatter_most_lanes(e, x, base, stride, mask);
  else
    scatter_lanes(e, x, base, stride);
}

ir stack_slot(emitter *e, LLVMTypeRef type, const char *name) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  LLVMMetadataRef line = LLVMGetCurrentDebugLocation2(e->b);
  LLVMPositionBuilderBefore(e->b, LLVMGetFirstInstruction(e->entry));
  ir slot = LLVMBuildAlloca(e->b, type, name);
  LLVMSetAlignment(slot, 64);
  LLVMPositionBuilderAtEnd(e->b, here);
  LLVMSetCurrentDebugLocation2(e->b, line);
  return slot;
}

ir real_slot(emitter *e, ir start, const char *name) {
  ir slot = stack_slot(e, LLVMTypeOf(start), name);
  store_real(e, start, slot);
  return slot;
}

void real_add_to(emitter *e, ir slot, ir x) {
  store_real(e, real_add(e, load_real(e, slot, ir_lanes(x)), x), slot);
}

// A tree of halves: the order is fixed, so results are the same everywhere.
ir sum_of_lanes(emitter *e, ir x) {
  int lanes = ir_lanes(x);
  if (!lanes) return x;
  while (lanes > 1 && lanes % 2 == 0) {
    int half = lanes / 2;
    ir *low = ARENA_ARRAY(e->a, ir, half), *high = ARENA_ARRAY(e->a, ir, half);
    for (int i = 0; i < half; i++) {
      low[i] = LLVMConstInt(e->i32, (unsigned)i, 0);
      high[i] = LLVMConstInt(e->i32, (unsigned)(i + half), 0);
    }
    ir poison = LLVMGetPoison(LLVMTypeOf(x));
    ir a = LLVMBuildShuffleVector(e->b, x, poison, LLVMConstVector(low, (unsigned)half), "");
    ir b = LLVMBuildShuffleVector(e->b, x, poison, LLVMConstVector(high, (unsigned)half), "");
    x = LLVMBuildFAdd(e->b, a, b, "");
    lanes = half;
  }
  ir sum = LLVMBuildExtractElement(e->b, x, integer(e, 0), "");
  for (int i = 1; i < lanes; i++)
    sum = LLVMBuildFAdd(e->b, sum, LLVMBuildExtractElement(e->b, x, integer(e, i), ""), "");
  return sum;
}
