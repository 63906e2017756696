// Building LLVM instructions: the few words that the lowering and the expressions share.
//
// A value is a scalar of the program's element type, or a vector of any length of it. Binary
// helpers spread a scalar over the lanes of the other operand.
#pragma once

#include "compiler/emit/llvm.h"

typedef LLVMValueRef ir;

typedef struct emitter {
  arena *a;
  llvm_module *m;
  LLVMContextRef context;
  LLVMBuilderRef b;
  LLVMValueRef function;
  LLVMBasicBlockRef entry;  // of `function`: allocas go here
  // what functions opened next are made from; no place: without line information
  span where;
  LLVMMetadataRef scope;  // of `function`; NULL: its instructions have no lines
  LLVMTypeRef i1, i16, i32, i64, pointer, real;
  // of numbers where nothing else is said: `real`, but for values in f64 of an f32 program
  LLVMTypeRef memory;
  LLVMTypeRef data;  // pointers to tensors: on a GPU to global memory
  codegen_clone clone;
  number_type dtype;
  bool f64;
  bool wide;  // f64 for a while, in an f32 program: emit_wide
  bool gpu;
  bool contract;   // a product and a sum may become one instruction that rounds once
  bool streaming;  // stores of whole machine vectors are aligned and pass the caches by
  int lanes;       // elements in one machine vector
} emitter;

emitter emitter_new(arena *a, llvm_module *m, codegen_clone clone, number_type dtype);
void emitter_free(emitter *e);
// The same emitter for values in f64, and one whose numbers are of the type in memory.
emitter emit_wide(const emitter *e);
emitter emit_as(const emitter *e, LLVMTypeRef type);
// A number of any type as one of `real`.
ir as_real(emitter *e, ir x);
// Starts the body of `function`; the emitter may move from function to function.
void emit_open(emitter *e, LLVMValueRef function);
// A function that the kernels of a module share, called and not inlined. True where it is new: then
// `inner` stands in it, `args` are its parameters, and emit_shared_end closes it.
bool emit_shared(emitter *e, const char *name, LLVMTypeRef type, LLVMValueRef *function,
                 emitter *inner, LLVMValueRef *args);
void emit_shared_end(emitter *inner);
// Calls such a function with `given`. Integers among them that are known, such as strides, are
// constants in the function and part of its name.
bool emit_shared_call(emitter *e, const char *name, const LLVMValueRef *given, unsigned count,
                      emitter *inner, LLVMValueRef *args);

// types
int ir_lanes(ir x);  // 0: a scalar
LLVMTypeRef real_type(emitter *e, int lanes);
ir real_number(emitter *e, double number, int lanes);
ir integer(emitter *e, int64_t number);
ir lane_of(emitter *e, ir x, int lane);  // a scalar is that of all lanes
ir lanes_from(emitter *e, ir x, int first, int count);
ir spread(emitter *e, ir x, int lanes);  // scalar to vector; a vector of that length stays
void spread_pair(emitter *e, ir *x, ir *y);

// arithmetic on numbers
ir real_add(emitter *e, ir x, ir y);
ir real_sub(emitter *e, ir x, ir y);
ir real_mul(emitter *e, ir x, ir y);
ir real_div(emitter *e, ir x, ir y);
ir real_fma(emitter *e, ir x, ir y, ir z);  // x * y + z, fused where the clone has it
ir real_neg(emitter *e, ir x);
ir real_compare(emitter *e, LLVMRealPredicate p, ir x, ir y);
ir choose(emitter *e, ir condition, ir x, ir y);  // scalars and conditions are spread
ir call_intrinsic(emitter *e, const char *name, LLVMTypeRef *overloads, int overload_count,
                  ir *args, int count);

// integers, addresses, memory
ir int_add(emitter *e, ir x, ir y);
ir int_sub(emitter *e, ir x, ir y);
// last - i, of a multiple i of `stride` from 0 to `last`.
ir int_from_end(emitter *e, int64_t last, int64_t stride, ir i);
ir int_mul(emitter *e, ir x, ir y);
ir int_min(emitter *e, ir x, ir y);
ir int_max(emitter *e, ir x, ir y);
ir int_div(emitter *e, ir x, ir y);  // of numbers that are not negative, as int_rem
ir int_rem(emitter *e, ir x, ir y);
// x becomes x / y; what is left over. GPU: both are below 2^32, since a division of 64 bits takes a
// hundred instructions.
ir int_split(emitter *e, ir *x, ir y);
// The same with a number that is known.
static inline ir int_add_n(emitter *e, ir x, int64_t n) { return int_add(e, x, integer(e, n)); }
static inline ir int_sub_n(emitter *e, ir x, int64_t n) { return int_sub(e, x, integer(e, n)); }
static inline ir int_mul_n(emitter *e, ir x, int64_t n) { return int_mul(e, x, integer(e, n)); }
static inline ir int_div_n(emitter *e, ir x, int64_t n) { return int_div(e, x, integer(e, n)); }
static inline ir int_rem_n(emitter *e, ir x, int64_t n) { return int_rem(e, x, integer(e, n)); }
// A number that is known to fit in 32 bits: its upper half needs no register.
ir int_low(emitter *e, ir x);
ir int_compare(emitter *e, LLVMIntPredicate p, ir x, ir y);
ir int_choose(emitter *e, ir condition, ir x, ir y);
bool int_known(ir x, int64_t *value);
bool int_is(ir x, int64_t value);  // false of NULL
// With its sign.
ir int_as(emitter *e, ir x, LLVMTypeRef type);
ir element(emitter *e, LLVMTypeRef type, ir base, ir index);
// What lies so many bytes from the base on.
ir load_field(emitter *e, ir base, int64_t offset, LLVMTypeRef type);
ir load_real(emitter *e, ir address, int lanes);
void store_real(emitter *e, ir x, ir address);
// Lanes below `count` (i64); other lanes read 0 and are not written.
ir lane_mask(emitter *e, ir count, int lanes);
ir load_masked(emitter *e, LLVMTypeRef type, ir address, ir mask, unsigned alignment);
void store_masked(emitter *e, ir x, ir address, ir mask, unsigned alignment);
ir gather(emitter *e, ir base, ir stride, ir mask, int lanes);
void scatter(emitter *e, ir x, ir base, ir stride, ir mask);
ir stack_slot(emitter *e, LLVMTypeRef type, const char *name);
// A slot that begins with these numbers; numbers added to those of a slot.
ir real_slot(emitter *e, ir start, const char *name);
void real_add_to(emitter *e, ir slot, ir x);
ir sum_of_lanes(emitter *e, ir x);

// conditions and bits; is a pointer given?
static inline ir bit_and(emitter *e, ir x, ir y) { return LLVMBuildAnd(e->b, x, y, ""); }
static inline ir bit_or(emitter *e, ir x, ir y) { return LLVMBuildOr(e->b, x, y, ""); }
static inline ir bit_not(emitter *e, ir x) { return LLVMBuildNot(e->b, x, ""); }
static inline ir is_given(emitter *e, ir pointer) { return LLVMBuildIsNotNull(e->b, pointer, ""); }

// control.c: loops count from `begin` while below `end`
typedef struct emit_loop {
  ir index;
  LLVMBasicBlockRef body, exit;
  ir step, end;
  bool once;  // one turn at most
} emit_loop;
emit_loop loop_begin(emitter *e, ir begin, ir end, int64_t step, const char *name);
void loop_end(emitter *e, emit_loop *loop);
// The same, and LLVM is asked to unroll the whole loop.
void loop_end_unrolled(emitter *e, emit_loop *loop);
// The same, and GPU: the assembler does not unroll it.
void loop_end_kept(emitter *e, emit_loop *loop);
extern const char gpu_accumulators_loop[];
// GPU: a loop that is unrolled by a fixed factor, and stays one loop. The assembler would unroll a
// plain loop 64 times, and all values that it loads lie in registers. Turns and step divide the
// way.
typedef struct emit_groups {
  emit_loop groups, turns;
  ir index;
} emit_groups;
typedef struct group_names {
  const char *group, *turn;
} group_names;
emit_groups groups_begin(emitter *e, ir begin, ir end, int64_t step, int64_t turns,
                         group_names names);
void groups_end(emitter *e, emit_groups *g);
// A loop that goes on by a step known at run time.
emit_loop loop_begin_by(emitter *e, ir begin, ir end, ir step, const char *name);

typedef struct emit_branch {
  LLVMBasicBlockRef other, join;
  bool has_else;
} emit_branch;
emit_branch branch_begin(emitter *e, ir condition);
void branch_else(emitter *e, emit_branch *branch);
void branch_end(emitter *e, emit_branch *branch);

// convert16.c: numbers of 16 bits in memory, converted on the way. `stride` counts them and matters
// with lanes only; a mask takes the first lanes.
ir narrow_widened(emitter *e, number_type type, ir small);
// GPU: a vector of numbers as pairs of 16 bits, the first in the low half: half as many i32.
ir narrow_pairs(emitter *e, number_type type, ir x);
ir load_narrow(emitter *e, number_type type, ir address, ir stride, ir mask, int lanes);
void store_narrow(emitter *e, number_type type, ir x, ir address, ir stride, ir mask);

// math.c: an elementwise tile operation on its operands.
ir expr_apply(emitter *e, tile_op op, const ir *args);
