// GPU: overflow fallback. Time slices with a large transition are not combined.
//
//   KERNEL_SUMMARY:   a factor or matrix with a number above 1024, or any number that is not finite   ->   1 behind the summary
//   FORWARD:       a 1 of any slice of this instance   ->   its first slice takes all steps, the others none
//
// The transition of 128 steps that subtract 3 k (k . S) overflows, and states that stay 0 would
// become NaN. A large transition times the states that it shrinks leaves rounding errors alone. A
// single slice needs no transition.
#include <float.h>

#include "compiler/abi/segment.h"
#include "compiler/kernel/gpu/frame.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/lower/gpu/nests.h"

// ---- marks: for each instance, one element for each block that makes its summary, or more ----

static ir numbers_of_instance(kernel_frame *h) {
  if (!kernel_has_own_lanes(h->k)) return integer(h->e, gpu_most_blocks(h->k));
  return int_add_n(h->e, h->axis_size[h->k->lane_axis], h->k->transition_size);
}

// The first mark of the instance in the summary of slice 0.
static ir flags_of_instance(kernel_frame *h) {
  emitter *e = h->e;
  ir instance = integer(e, 0);
  for (int axis = 0; axis < h->k->program->axes.count; axis++)
    if (axis_in(gpu_overflow_axes(h->k), axis))
      instance = int_add(e, int_mul(e, instance, h->axis_size[axis]), h->at.index[axis]);
  ir offset = int_add(e, gpu_columns_offset(h, NULL), int_mul(e, instance, numbers_of_instance(h)));
  return element(e, e->real, h->gpu->slice.summary, offset);
}

static ir flag_at(kernel_frame *h, ir flags, ir of, ir number) {
  return element(h->e, h->e->real, flags,
                 int_add(h->e, int_mul(h->e, of, h->gpu->slice.summary_stride), number));
}

// ---- all threads of a block ----

static ir own_thread(kernel_frame *h) {
  return LLVMBuildZExt(h->e->b, h->gpu->team.thread, h->e->i64, "");
}

// sums[0] = the sum of x over all threads.
static void add_up(kernel_frame *h, ir sums, ir x) {
  emitter *e = h->e;
  x = gpu_across_lanes(e, TILE_SUM, x, GPU_WARP_LANES / 2, 1);
  ir thread = own_thread(h), warp = int_div_n(e, thread, GPU_WARP_LANES);
  ir lane = int_rem_n(e, thread, GPU_WARP_LANES);
  gpu_call(e, GPU_BARRIER, NULL, 0);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntEQ, lane, integer(e, 0)));
  store_real(e, x, element(e, e->real, sums, warp));
  branch_end(e, &branch);
  gpu_call(e, GPU_BARRIER, NULL, 0);
  branch = branch_begin(e, int_compare(e, LLVMIntEQ, thread, integer(e, 0)));
  emit_loop loop =
      loop_begin(e, integer(e, 1), integer(e, h->gpu->team.threads / GPU_WARP_LANES), 1, "warp");
  ir more = load_real(e, element(e, e->real, sums, loop.index), 0);
  real_add_to(e, sums, more);
  loop_end_kept(e, &loop);
  branch_end(e, &branch);
  gpu_call(e, GPU_BARRIER, NULL, 0);
}

// i1: sums[0] is above 0. All threads have read it when the function returns.
static ir is_any(kernel_frame *h) {
  emitter *e = h->e;
  ir any = real_compare(e, LLVMRealOGT, load_real(e, h->gpu->team.sums, 0), real_number(e, 0, 0));
  gpu_call(e, GPU_BARRIER, NULL, 0);
  return any;
}

static void call_together(emitter *e, LLVMTypeRef type, ir function, ir *args, unsigned count) {
  unsigned convergent = LLVMGetEnumAttributeKindForName("convergent", 10);
  LLVMAddCallSiteAttribute(LLVMBuildCall2(e->b, type, function, args, count, ""),
                           (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                           LLVMCreateEnumAttribute(e->context, convergent, 0));
}

// ---- kernels that make summaries ----

typedef struct guard {
  const view *state;
  axis_set axes;
  bool sums;        // elements are sums of logarithms, of which -inf is an ordinary one
  ir limit, count;  // the elements beyond the limit that this thread has counted
} guard;

static void count_beyond(const guard *g, emitter *e, ir x) {
  int lanes = ir_lanes(x);
  ir size = g->sums ? x : expr_apply(e, TILE_ABS, &x);
  ir beyond = real_compare(e, LLVMRealUGT, size, spread(e, g->limit, lanes));
  ir ones = choose(e, beyond, real_number(e, 1, lanes), real_number(e, 0, lanes));
  ir more = lanes ? sum_of_lanes(e, ones) : ones;
  real_add_to(e, g->count, more);
}

static void guard_point(lower *l, const place_in_loops *at, void *data) {
  const guard *g = data;
  count_beyond(g, l->e, view_load(l, g->state, at, g->axes));
}

static void guard_pair(lower *l, const place_in_loops *at, const ir *slots, void *data) {
  (void)at;
  count_beyond(data, l->e, gpu_pair_of(l->e, slots));
}

static ir count_of_thread(kernel_frame *h, frame_program *p) {
  emitter *e = h->e;
  ir count = real_slot(e, real_number(e, 0, 0), "beyond");
  p->l.outside = h->at;
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    guard g = {.state = &p->l.carried[c], .axes = tile_body_axes(place), .count = count};
    const register_accumulators *kept = gpu_registers_of(p, g.state);
    ir most = real_number(e, SEGMENT_LARGEST, 0), finite = real_number(e, FLT_MAX, 0);
    if (place->lag >= 0) continue;
    g.sums = place->transfer && place->relative;
    g.limit = place->transfer           ? g.sums ? finite : most
              : h->gpu->slice.of_matrix ? choose(e, h->gpu->slice.of_matrix, most, finite)
                                        : finite;
    if (kept)
      gpu_accumulators_each(&p->l, kept, guard_pair, &g);
    else
      lower_copies(&p->l, plan_tile_axes(&h->m, g.axes), false, guard_point, &g);
  }
  return load_real(e, count, 0);
}

// MAP_THREADS: sets the mark of this block. Marks of transition blocks come after those of all
// entries.
static void set_flag_of_block(kernel_frame *h, ir flags, ir flag) {
  emitter *e = h->e;
  ir block = h->gpu->lane_block, size = h->axis_size[h->k->lane_axis];
  ir own = int_sub_n(e, gpu_lane_blocks(h), gpu_transition_blocks(h->k));
  ir behind = int_add(e, size, int_sub(e, block, own));
  ir number = int_choose(e, int_compare(e, LLVMIntSLT, block, own), block, behind);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntEQ, own_thread(h), integer(e, 0)));
  store_real(e, flag, flag_at(h, flags, h->gpu->slice.number, number));
  branch_end(e, &branch);
}

// MAP_BLOCK: the blocks of an instance divide all its marks.
static void set_flags(kernel_frame *h, ir flags, ir flag) {
  emitter *e = h->e;
  bool lanes = h->k->lane_axis >= 0;
  ir first = lanes ? h->gpu->lane_block : integer(e, 0),
     count = lanes ? gpu_lane_blocks(h) : integer(e, 1);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntEQ, own_thread(h), integer(e, 0)));
  emit_loop loop = loop_begin_by(e, first, integer(e, gpu_most_blocks(h->k)), count, "block");
  store_real(e, flag, flag_at(h, flags, h->gpu->slice.number, loop.index));
  loop_end(e, &loop);
  branch_end(e, &branch);
}

void gpu_overflow_of_slice(kernel_frame *h, frame_program *p) {
  emitter *e = h->e;
  add_up(h, h->gpu->team.sums, count_of_thread(h, p));
  ir grows = is_any(h);
  ir flag = choose(e, grows, real_number(e, 1, 0), real_number(e, 0, 0));
  if (kernel_has_own_lanes(h->k))
    set_flag_of_block(h, flags_of_instance(h), flag);
  else
    set_flags(h, flags_of_instance(h), flag);
}

// ---- kernels that combine summaries ----

// The marks of a slice that an item reads: of its own block and of all transition blocks, or of all
// blocks.
static int64_t marks_of_slice(const kernel *k) {
  return kernel_has_own_lanes(k) ? 1 + (k->transition_size + k->lane_block - 1) / k->lane_block
                                 : gpu_most_blocks(k);
}

// The arguments of the function below.
typedef enum looked_at { FLAGS, STRIDE, SLICES, OWN, BEHIND, SUMS, LOOKED_AT } looked_at;

// sums[0] = the sum of mark `own` and of the marks from `behind` on, over all slices.
static void add_flags(kernel_frame *h, const ir *args) {
  emitter *e = h->e;
  ir sum = stack_slot(e, e->real, "flags"), of_slice = integer(e, marks_of_slice(h->k));
  store_real(e, real_number(e, 0, 0), sum);
  ir all = int_mul(e, args[SLICES], of_slice), threads = integer(e, h->gpu->team.threads);
  emit_loop loop = loop_begin_by(e, own_thread(h), all, threads, "flag");
  ir of = loop.index, number = int_split(e, &of, of_slice);
  ir behind = int_add(e, args[BEHIND], int_sub_n(e, number, 1));
  number = int_choose(e, int_compare(e, LLVMIntEQ, number, integer(e, 0)), args[OWN], behind);
  ir at = int_add(e, int_mul(e, of, args[STRIDE]), number);
  ir flag = load_real(e, element(e, e->real, args[FLAGS], at), 0);
  real_add_to(e, sum, flag);
  loop_end_kept(e, &loop);  // nearly always a single iteration
  add_up(h, args[SUMS], load_real(e, sum, 0));
}

// i1: some slice is marked. The code is a function of its own, because kernels are long.
static ir any_flag(kernel_frame *h) {
  emitter *e = h->e, inside;
  bool alone = kernel_has_own_lanes(h->k);
  ir function, own[LOOKED_AT];
  ir args[] = {[FLAGS] = flags_of_instance(h),
               [STRIDE] = h->gpu->slice.summary_stride,
               [SLICES] = h->gpu->slice.kept,
               [OWN] = alone ? h->gpu->lane_block : integer(e, 0),
               [BEHIND] = alone ? h->axis_size[h->k->lane_axis] : integer(e, 1),
               [SUMS] = h->gpu->team.sums};
  LLVMTypeRef types[LOOKED_AT];
  for (int i = 0; i < LOOKED_AT; i++) types[i] = LLVMTypeOf(args[i]);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, LOOKED_AT, 0);
  const char *name = arena_printf(h->a, "rec_guard_%d_%lld", h->gpu->team.threads,
                                  (long long)marks_of_slice(h->k));
  if (emit_shared(e, name, type, &function, &inside, own)) {
    kernel_frame there = gpu_copy_of(h);
    there.e = &inside;
    there.gpu->team.thread = gpu_call(&inside, GPU_THREAD_X, NULL, 0);
    there.gpu->team.warp = NULL;
    llvm_flag(function, "convergent");
    add_flags(&there, own);
    emit_shared_end(&inside);
  }
  call_together(e, type, function, args, LOOKED_AT);
  return is_any(h);
}

// An item with several entries of the lane axis checks an instance of the summary kernel for each.
static ir any_of_entries(kernel_frame *h) {
  emitter *e = h->e;
  const kernel *k = h->k;
  ir any = stack_slot(e, e->i1, "any");
  LLVMBuildStore(e->b, LLVMConstInt(e->i1, 0, 0), any);
  ir begin = int_mul_n(e, h->gpu->lane_block, k->lane_block);
  ir end = int_min(e, int_add_n(e, begin, k->lane_block), h->axis_size[k->lane_axis]);
  emit_loop loop = loop_begin(e, begin, end, 1, "entry");
  h->at.index[k->lane_axis] = loop.index;
  ir before = LLVMBuildLoad2(e->b, e->i1, any, "");
  LLVMBuildStore(e->b, bit_or(e, before, any_flag(h)), any);
  loop_end(e, &loop);
  return LLVMBuildLoad2(e->b, e->i1, any, "");
}

ir gpu_summaries_overflow(kernel_frame *h, ir whole) {
  h->gpu->slice.kept = int_choose(h->e, whole, integer(h->e, 0), h->gpu->tiles.count);
  return h->k->gpu.lanes == LANES_IN_TURN ? any_of_entries(h) : any_flag(h);
}
