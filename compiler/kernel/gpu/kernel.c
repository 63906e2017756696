// GPU kernels: work items, entries and steps around the regions of a plan.
//
//   for item = block; item < items; item += blocks of the grid:
//     entry, time slice, instance <- item
//     load states; prologue; for chunk: body; store states; epilogue        as on the host (kernel/host/kernel.c)
//
// Where a step multiplies by matrices of parameters, an item may be several entries in one pass
// over time (plan/kernel/batched.c).
//
// In step form with a lane axis, every thread runs one entry of that axis alone. Otherwise the
// threads of a block run one instance and divide the points of each nest.
#include <string.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/emit/lines.h"
#include "compiler/emit/marks.h"
#include "compiler/kernel/gpu/frame.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/lower/gpu/nests.h"
#include "compiler/plan/tensor_cores.h"

const char gpu_class_attribute[] = "rec-room";

// ---- work items ----

// Packed sequences: the entry's first step and its number of steps. Otherwise 0 and the steps of
// the call.
static void read_sequence_bounds(kernel_frame *h) {
  emitter *e = h->e;
  ir first = stack_slot(e, e->i64, "first"), steps = stack_slot(e, e->i64, "steps");
  ir before = stack_slot(e, e->i64, "before");
  ir sequences = frame_field(h, h->frame, offsetof(rec_gpu_frame, cu_seqlens), e->data);
  emit_branch branch = branch_begin(e, is_given(e, sequences));
  ir at = element(e, e->i32, sequences, h->batch), after = element(e, e->i32, at, integer(e, 1));
  ir begin = LLVMBuildSExt(e->b, LLVMBuildLoad2(e->b, e->i32, at, ""), e->i64, "");
  ir end = LLVMBuildSExt(e->b, LLVMBuildLoad2(e->b, e->i32, after, ""), e->i64, "");
  LLVMBuildStore(e->b, begin, first);
  LLVMBuildStore(e->b, int_sub(e, end, begin), steps);
  ir chunks = int_div_n(e, begin, h->k->chunk);
  ir stride = gpu_frame_number(h, offsetof(rec_gpu_frame, saved_chunk_stride));
  LLVMBuildStore(e->b, int_mul(e, int_add(e, chunks, h->batch), stride), before);
  branch_else(e, &branch);
  LLVMBuildStore(e->b, integer(e, 0), first);
  LLVMBuildStore(e->b, gpu_frame_number(h, offsetof(rec_gpu_frame, time)), steps);
  ir entry_stride = gpu_frame_number(h, offsetof(rec_gpu_frame, saved_entry_stride));
  LLVMBuildStore(e->b, int_mul(e, h->batch, entry_stride), before);
  branch_end(e, &branch);
  h->gpu->entry_step = LLVMBuildLoad2(e->b, e->i64, first, "");
  h->time = LLVMBuildLoad2(e->b, e->i64, steps, "");
  h->gpu->saved_first = LLVMBuildLoad2(e->b, e->i64, before, "");
}

static ir instance_count(kernel_frame *h) {
  emitter *e = h->e;
  ir count = integer(e, 1);
  for (int i = 0; i < h->k->grid_count; i++)
    count = int_mul(e, count, h->axis_size[h->k->grid_axes[i]]);
  if (h->k->lane_axis < 0) return count;
  return int_mul(e, count, gpu_lane_blocks(h));
}

// Sets the indices of instance number `instance`; returns the number of the lane block. The
// outermost index is the last quotient, which saves a division.
static ir split_gpu_instance(kernel_frame *h, ir instance) {
  emitter *e = h->e;
  ir block = integer(e, 0);
  if (h->k->lane_axis >= 0) block = int_split(e, &instance, gpu_lane_blocks(h));
  for (int i = h->k->grid_count - 1; i > 0; i--) {
    int axis = h->k->grid_axes[i];
    h->at.index[axis] = int_split(e, &instance, h->axis_size[axis]);
  }
  if (h->k->grid_count) h->at.index[h->k->grid_axes[0]] = instance;
  return block;
}

// The first entry of this copy: of a batch of entries, or a single entry after all batches.
static ir first_entry(kernel_frame *h, ir copy, ir instances) {
  emitter *e = h->e;
  if (h->k->sequences) return int_mul_n(e, copy, h->k->sequences);
  if (!h->plan->batched) return copy;
  ir groups = int_div(e, gpu_frame_number(h, offsetof(rec_gpu_frame, batched_items)), instances);
  return int_add(e, copy, int_mul_n(e, groups, h->plan->batched->k->sequences - 1));
}

static void one_item(kernel_frame *h, ir item) {
  emitter *e = h->e;
  ir instances = instance_count(h), instance = int_split(e, &item, instances);
  h->at = (place_in_loops){.vector_axis = -1};
  h->gpu->lane_block = split_gpu_instance(h, instance);
  gpu_read_slice(h, &item);
  h->gpu->copy = item;
  h->batch = first_entry(h, item, instances);
  read_sequence_bounds(h);
  gpu_cut_slice(h);
  int lane = h->k->lane_axis;
  if (h->m.kind == MAP_THREADS) {
    ir index = int_add(e, gpu_first_of_lanes(h), h->gpu->team.thread);
    h->gpu->team.inside = int_compare(e, LLVMIntSLT, index, h->gpu->lane_end);
    h->at.index[lane] = int_min(e, index, int_sub_n(e, h->gpu->lane_end, 1));
  } else if (h->k->gpu.lanes == LANES_TILE) {
    h->tile_first = gpu_first_of_lanes(h);
  }
  gpu_instance(h);
}

// ---- functions ----

static void align_parameter(LLVMContextRef context, ir function, size_t bytes) {
  unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
  LLVMRemoveEnumAttributeAtIndex(function, 1, align);
  LLVMAddAttributeAtIndex(function, 1, LLVMCreateEnumAttribute(context, align, bytes));
}

static void parameter_attributes(LLVMContextRef context, ir function, int64_t bytes) {
  LLVMTypeRef type = LLVMArrayType2(LLVMInt8TypeInContext(context), (uint64_t)bytes);
  unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
  LLVMAddAttributeAtIndex(function, 1, LLVMCreateTypeAttribute(context, byval, type));
  align_parameter(context, function, 8);
  LLVMAddAttributeAtIndex(function, 1,
                          LLVMCreateStringAttribute(context, "nvvm.grid_constant", 18, "", 0));
}

// How many blocks a multiprocessor shall run at a time. ptxas divides the registers among so many;
// without a number it leaves room for two, and spills.
static void ask_for_resident(emitter *e, ir function, int blocks) {
  char text[16];
  snprintf(text, sizeof text, "%d", blocks);
  llvm_attribute(e->m, function, "nvvm.minctasm", text);
}

ir gpu_kernel_function(emitter *e, const char *symbol, int64_t bytes, int threads) {
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), &e->pointer, 1, 0);
  ir function = LLVMAddFunction(e->m->module, symbol, type);
  LLVMSetFunctionCallConv(function, GPU_KERNEL_CONVENTION);
  llvm_flag(function, "nounwind");
  char text[16];
  snprintf(text, sizeof text, "%d", threads);
  llvm_attribute(e->m, function, "nvvm.reqntid", text);
  ask_for_resident(e, function, 1);
  parameter_attributes(e->context, function, bytes);
  emit_open(e, function);
  mark_place(e, "start", e->where);
  return function;
}

ir gpu_thread_of_all(emitter *e, ir threads) {
  return int_add(e, int_mul(e, gpu_index(e, GPU_BLOCK_X), threads), gpu_index(e, GPU_THREAD_X));
}

// The first items are batches of sequences. The remaining sequences come one by one.
static void lower_batched(kernel_frame *one, kernel_frame *several, ir item) {
  emitter *e = one->e;
  ir groups = gpu_frame_number(one, offsetof(rec_gpu_frame, batched_items));
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntSLT, item, groups));
  one_item(several, item);
  branch_else(e, &branch);
  one_item(one, item);
  branch_end(e, &branch);
}

// Of a thread: those that hold states from chunk to chunk.
static int registers_of_states(const kernel_plan *w) {
  enum { OF_TILE = 4 };
  const plan *p = w->main.p;
  int registers = 0;
  for (int c = 0; c < p->carried_count; c++) {
    if (p->carried[c].accumulator < 0) continue;
    accumulator_share own =
        plan_accumulator_share(&w->m, p->program, &p->nests.items[p->carried[c].accumulator].dot);
    registers += OF_TILE * own.blocks * own.tiles;
  }
  return registers;
}

static kernel_frame open_frame(const kernel_plan *w, emitter *e, ir function, ir block,
                               int resident) {
  kernel_frame frame = frame_for(e->a, w, w->k->symbol, &gpu_hooks), *h = &frame;
  h->e = e;
  h->gpu = ARENA_NEW(e->a, gpu_frame);
  h->team = &h->gpu->team;
  h->gpu->team.shares = h->m.kind == MAP_BLOCK;
  h->gpu->team.axis = h->k->lane_axis;
  h->gpu->team.threads = w->threads;
  h->gpu->team.resident = resident;
  h->gpu->team.lacks_registers =
      resident > 1 && 4 * registers_of_states(w) * w->threads * resident >= GPU_COST_REGISTERS;
  h->frame = LLVMGetParam(function, 0);
  LLVMTypeRef bytes = LLVMInt8TypeInContext(e->context);
  int64_t first = sizeof(rec_gpu_frame), axes = h->k->recurrence->body.axes.count;
  h->sizes = element(e, bytes, h->frame, integer(e, first));
  h->slots = element(e, bytes, h->frame, integer(e, first + 8 * axes));
  frame_read_sizes(h);
  h->gpu->team.thread = gpu_call(e, GPU_THREAD_X, NULL, 0);
  if (h->gpu->team.shares)
    h->gpu->team.warp = gpu_warp_of_block(e, h->gpu->team.thread, h->gpu->team.threads);
  h->shared = gpu_call(e, GPU_SHARED, NULL, 0);
  h->gpu->team.sums = frame_scratch_at(h, h->shared, h->plan->sums);
  ir scratch = frame_field(h, h->frame, offsetof(rec_gpu_frame, scratch), e->data);
  ir stride = gpu_frame_number(h, offsetof(rec_gpu_frame, scratch_stride));
  h->scratch = element(e, bytes, scratch, int_mul(e, block, stride));
  return frame;
}

void gpu_lower_kernel(emitter *e, const codegen_gpu_kernel *k) {
  const kernel_plan *w = k->plan->whole;
  e->where = lines_of_recurrence(k->base.kernel->recurrence);
  ir function = gpu_kernel_function(e, k->symbol, k->parameter_bytes, k->threads);
  char devices[] = {(char)('0' + k->base.kernel->gpu.device_class), 0};
  if (k->base.kernel->gpu.device_class != CLASS_ANY)
    llvm_attribute(e->m, function, gpu_class_attribute, devices);
  ir first = gpu_call(e, GPU_BLOCK_X, NULL, 0), blocks = gpu_call(e, GPU_BLOCK_COUNT, NULL, 0);
  ir block = LLVMBuildZExt(e->b, first, e->i64, "");
  int resident = k->base.kernel->gpu.blocks_each > 1 ? k->base.kernel->gpu.blocks_each : 1;
  if (!choice_is_left_out(w->k->without, CHOICE_REGISTERS_SHARED))
    ask_for_resident(e, function, resident);
  kernel_frame h = open_frame(w, e, function, block, resident), several = {0};
  if (w->batched) several = open_frame(w->batched, e, function, block, resident);
  // The runtime refuses calls whose items are no 32-bit numbers: half as many registers hold the
  // number of an item.
  ir items =
      LLVMBuildTrunc(e->b, gpu_frame_number(&h, offsetof(rec_gpu_frame, blocks)), e->i32, "");
  emit_loop loop = loop_begin_by(e, first, items, blocks, "item");
  ir item = LLVMBuildZExt(e->b, loop.index, e->i64, "");
  if (w->batched) lower_batched(&h, &several, item);
  if (!w->batched) one_item(&h, item);
  loop_end(e, &loop);
  LLVMBuildRetVoid(e->b);
}
