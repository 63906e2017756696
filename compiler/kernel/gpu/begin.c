// The kernel `rec_gpu_spread` lays out what states start from, and sums the gradients of parameters
// that they start from (runtime/support/begin.c), a thread for each number.
//
//   to[i] (+)= sum over j of from[place of i + place of j]
#include <stddef.h>

#include "compiler/abi/spread.h"
#include "compiler/kernel/gpu/gpu.h"

#define SPREAD(type, field) load_field(e, spread, offsetof(rec_spread, field), type)

static ir byte_address(emitter *e, ir from, ir at) {
  return element(e, LLVMInt8TypeInContext(e->context), from, at);
}

// The place of an index along rec_spread_axes. `axes`: their offset in the parameter, in bytes.
static ir place_in_parameter(emitter *e, ir spread, size_t axes, ir index) {
  ir place = stack_slot(e, e->i64, "place"), rest = stack_slot(e, e->i64, "rest");
  ir count = load_field(e, spread, axes + offsetof(rec_spread_axes, count), e->i64);
  LLVMBuildStore(e->b, integer(e, 0), place);
  LLVMBuildStore(e->b, index, rest);
  emit_loop loop = loop_begin(e, integer(e, 0), count, 1, "axis");
  ir from_end = int_sub(e, int_sub_n(e, count, 1), loop.index);
  ir at = int_add(e, integer(e, (int64_t)(axes + offsetof(rec_spread_axes, axes))),
                  int_mul_n(e, from_end, sizeof(rec_spread_axis)));
  ir axis = byte_address(e, spread, at);
  ir size = load_field(e, axis, offsetof(rec_spread_axis, size), e->i64);
  ir stride = load_field(e, axis, offsetof(rec_spread_axis, stride), e->i64);
  ir left = LLVMBuildLoad2(e->b, e->i64, rest, ""), next = int_div(e, left, size);
  ir digit = int_sub(e, left, int_mul(e, next, size));
  LLVMBuildStore(
      e->b, int_add(e, LLVMBuildLoad2(e->b, e->i64, place, ""), int_mul(e, digit, stride)), place);
  LLVMBuildStore(e->b, next, rest);
  loop_end(e, &loop);
  return LLVMBuildLoad2(e->b, e->i64, place, "");
}

// The part of the number that a state starts from, which the parameter holds as doubles.
static void add_constant(emitter *e, ir spread, ir i, ir sum) {
  ir parts = SPREAD(e->i64, parts), part = int_sub(e, i, int_mul(e, int_div(e, i, parts), parts));
  LLVMTypeRef wide = LLVMDoubleTypeInContext(e->context);
  ir at = int_add(e, integer(e, offsetof(rec_spread, number)), int_mul_n(e, part, sizeof(double)));
  ir number = LLVMBuildLoad2(e->b, wide, byte_address(e, spread, at), "");
  real_add_to(e, sum, LLVMBuildFPTrunc(e->b, number, e->real, ""));
}

static void add_sources(emitter *e, ir spread, ir from, ir i, ir sum) {
  ir first = place_in_parameter(e, spread, offsetof(rec_spread, outer), i);
  ir numbers = load_field(e, spread,
                          offsetof(rec_spread, inner) + offsetof(rec_spread_axes, numbers), e->i64);
  emit_loop loop = loop_begin(e, integer(e, 0), numbers, 1, "summed");
  ir at = int_add(e, first, place_in_parameter(e, spread, offsetof(rec_spread, inner), loop.index));
  real_add_to(e, sum, load_real(e, element(e, e->real, from, at), 0));
  loop_end(e, &loop);
}

static void make_number(emitter *e, ir spread, ir i) {
  ir from = SPREAD(e->data, from), to = element(e, e->real, SPREAD(e->data, to), i);
  ir given = is_given(e, from), sum = real_slot(e, real_number(e, 0, 0), "sum");
  emit_branch adds =
      branch_begin(e, int_compare(e, LLVMIntNE, SPREAD(e->i64, adds), integer(e, 0)));
  real_add_to(e, sum, load_real(e, to, 0));
  branch_end(e, &adds);
  emit_branch taken = branch_begin(e, given);
  add_sources(e, spread, from, i, sum);
  branch_end(e, &taken);
  emit_branch constant = branch_begin(e, bit_not(e, given));
  add_constant(e, spread, i, sum);
  branch_end(e, &constant);
  store_real(e, load_real(e, sum, 0), to);
}

void gpu_spread_kernel(arena *a, llvm_module *m) {
  emitter own = emitter_new(a, m, CLONE_GPU, NUMBER_F32), *e = &own;
  ir kernel_function =
      gpu_kernel_function(e, "rec_gpu_spread", sizeof(rec_spread), REC_GPU_SUM_THREADS);
  ir spread = LLVMGetParam(kernel_function, 0), threads = integer(e, REC_GPU_SUM_THREADS);
  ir first = gpu_thread_of_all(e, threads);
  ir all = int_mul(e, gpu_index(e, GPU_BLOCK_COUNT), threads);
  ir numbers = load_field(e, spread,
                          offsetof(rec_spread, outer) + offsetof(rec_spread_axes, numbers), e->i64);
  emit_loop loop = loop_begin_by(e, first, numbers, all, "number");
  make_number(e, spread, loop.index);
  loop_end(e, &loop);
  LLVMBuildRetVoid(e->b);
  emitter_free(e);
}
