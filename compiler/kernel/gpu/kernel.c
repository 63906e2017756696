// GPU kernels: work items, entries and steps around the regions of a plan.
//
//   for item = block; item < items; item += blocks of the grid:
//     entry, time slice, instance <- item
//     load states; prologue; for chunk: body; store states; epilogue        as on the host (kernel/host/kernel.c)
//
// In step form with a lane axis, every thread runs one entry of that axis by itself. Otherwise the threads of a block run one
// instance together and share out the points of each nest.
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/emit/lines.h"
#include "compiler/kernel/frame.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/lower/gpu/nests.h"

const char gpu_room_attribute[] = "rec-room";

// ---- work items ----

// Packed sequences: where the entry begins and its steps; else 0 and the steps of all.
static void read_entry(kernel_frame *h) {
  emitter *e = h->e;
  ir first = stack_slot(e, e->i64, "first"), steps = stack_slot(e, e->i64, "steps");
  ir before = stack_slot(e, e->i64, "before");
  ir sequences = frame_field(h, h->frame, offsetof(rec_gpu_frame, cu_seqlens), e->data);
  emit_branch branch = branch_begin(e, LLVMBuildIsNotNull(e->b, sequences, ""));
  ir at = element(e, e->i32, sequences, h->batch), after = element(e, e->i32, at, integer(e, 1));
  ir begin = LLVMBuildSExt(e->b, LLVMBuildLoad2(e->b, e->i32, at, ""), e->i64, "");
  ir end = LLVMBuildSExt(e->b, LLVMBuildLoad2(e->b, e->i32, after, ""), e->i64, "");
  LLVMBuildStore(e->b, begin, first);
  LLVMBuildStore(e->b, int_sub(e, end, begin), steps);
  ir chunks = int_div(e, begin, integer(e, h->k->chunk));
  ir stride = gpu_frame_number(h, offsetof(rec_gpu_frame, saved_chunk_stride));
  LLVMBuildStore(e->b, int_mul(e, int_add(e, chunks, h->batch), stride), before);
  branch_else(e, &branch);
  LLVMBuildStore(e->b, integer(e, 0), first);
  LLVMBuildStore(e->b, gpu_frame_number(h, offsetof(rec_gpu_frame, time)), steps);
  ir entry_stride = gpu_frame_number(h, offsetof(rec_gpu_frame, saved_entry_stride));
  LLVMBuildStore(e->b, int_mul(e, h->batch, entry_stride), before);
  branch_end(e, &branch);
  h->entry_step = LLVMBuildLoad2(e->b, e->i64, first, "");
  h->time = LLVMBuildLoad2(e->b, e->i64, steps, "");
  h->saved_first = LLVMBuildLoad2(e->b, e->i64, before, "");
}

static ir instance_count(kernel_frame *h) {
  emitter *e = h->e;
  ir count = integer(e, 1);
  for (int i = 0; i < h->k->grid_count; i++) count = int_mul(e, count, h->axis_size[h->k->grid_axes[i]]);
  if (h->k->lane_axis < 0) return count;
  return int_mul(e, count, frame_lane_blocks(h));
}

static void one_item(kernel_frame *h, ir item) {
  emitter *e = h->e;
  ir instance = int_split(e, &item, instance_count(h));
  h->at = (place_in_loops){.vector_axis = -1};
  h->lane_block = frame_split_instance(h, instance);
  gpu_read_part(h, &item);
  h->batch = item;
  read_entry(h);
  gpu_cut_part(h);
  int lane = h->k->lane_axis;
  if (h->m.kind == MAP_THREADS) {
    ir index = int_add(e, gpu_first_of_lanes(h), h->team.thread);
    h->team.inside = int_compare(e, LLVMIntSLT, index, h->lane_end);
    h->at.index[lane] = int_min(e, index, int_sub(e, h->lane_end, integer(e, 1)));
  } else if (h->k->lanes == LANES_TILE) {
    h->part_first = gpu_first_of_lanes(h);
  }
  frame_whole_instance(h);
}

// ---- functions ----

static int64_t parameter_bytes(const codegen_gpu_kernel *g) {
  if (g->maps.count) return g->maps_at + (int64_t)sizeof(rec_gpu_map) * g->maps.count;
  return (int64_t)sizeof(rec_gpu_frame) + 8 * g->base.kernel->recurrence->body.axes.count +
         (int64_t)sizeof(rec_gpu_slot) * g->base.slots.count;
}

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
  LLVMAddAttributeAtIndex(function, 1, LLVMCreateStringAttribute(context, "nvvm.grid_constant", 18, "", 0));
}

ir gpu_kernel_function(emitter *e, const char *symbol, int64_t bytes, int threads) {
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), &e->pointer, 1, 0);
  ir function = LLVMAddFunction(e->m->module, symbol, type);
  LLVMSetFunctionCallConv(function, GPU_KERNEL_CONVENTION);
  llvm_flag(e->m, function, "nounwind");
  char text[16];
  snprintf(text, sizeof text, "%d", threads);
  llvm_attribute(e->m, function, "nvvm.reqntid", text);
  // all registers that so many threads can have: without it ptxas leaves room for two blocks, and spills
  llvm_attribute(e->m, function, "nvvm.minctasm", "1");
  parameter_attributes(e->context, function, bytes);
  emit_open(e, function);
  return function;
}

// `first`: the frame of the other kernel of the function, if the function has two; else NULL.
static kernel_frame gpu_host(arena *a, const codegen_kernel *k, const kernel_frame *first, codegen_gpu_options options) {
  kernel_frame h = frame_for(a, k, k->kernel->symbol, CLONE_GPU, options.dtype);
  if (first) h.bulk.maps = first->bulk.maps;
  h.m.tf32 = options.tf32;
  h.m.threads = k->kernel->threads ? k->kernel->threads : GPU_BLOCK_THREADS;
  h.team.shares = h.m.kind == MAP_BLOCK;
  h.team.axis = k->kernel->lane_axis;
  h.team.threads = h.m.kind == MAP_BLOCK ? h.m.threads : k->kernel->lane_block;
  h.m.shared_kib = k->kernel->shared_kib ? k->kernel->shared_kib : GPU_SMALL_KIB;
  h.chip_limit = h.m.shared_kib * 1024 / 4;
  frame_plan(&h);
  if (h.m.kind == MAP_BLOCK) frame_verify_places(&h);
  return h;
}

// What a function runs: a kernel, or one that makes parts of states and one that makes parts of cotangents.
typedef struct bodies {
  int count;
  codegen_kernel described[2];  // with the slots of both
  kernel_frame hosts[2];
} bodies;

// The second one has all slots, those of the first in front.
static void unite_slots(arena *a, codegen_kernel *first, codegen_kernel *second) {
  for (int i = 0; i < second->slots.count; i++) {
    const codegen_slot *slot = &second->slots.items[i];
    if (frame_find_slot(first, slot->role, slot->tensor, slot->lag) < 0) vec_push(a, &first->slots, *slot);
  }
  second->slots = first->slots;
}

static bodies *bodies_of(arena *a, const kernel *k, codegen_gpu_options options) {
  bodies *x = ARENA_NEW(a, bodies);
  bool last = k->kind == KERNEL_PART_BACK && k->beside;
  x->count = k->beside ? 2 : 1;
  x->described[0] = host_describe(a, last ? k->beside : k);
  if (k->beside) {
    x->described[1] = host_describe(a, last ? k : k->beside);
    unite_slots(a, &x->described[0], &x->described[1]);
  }
  for (int i = 0; i < x->count; i++) x->hosts[i] = gpu_host(a, &x->described[i], i ? &x->hosts[0] : NULL, options);
  return x;
}

// Work items by the thread blocks of a kernel from number `block` on.
static void lower_items(kernel_frame *h, ir block, ir items, ir blocks) {
  gpu_open_bulk(h);
  emit_loop loop = loop_begin_by(h->e, block, items, blocks, "item");
  one_item(h, loop.index);
  loop_end(h->e, &loop);
}

// The last blocks of the grid are the second kernel's.
static void lower_both(kernel_frame *h, ir block, ir items, ir blocks) {
  emitter *e = h->e;
  ir back = gpu_frame_number(h, offsetof(rec_gpu_frame, back_blocks));
  ir back_items = gpu_frame_number(h, offsetof(rec_gpu_frame, back_items));
  ir own = int_sub(e, blocks, back);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntSLT, block, own));
  lower_items(&h[0], block, items, own);
  branch_else(e, &branch);
  lower_items(&h[1], int_sub(e, block, own), back_items, back);
  branch_end(e, &branch);
}

static void open_host(kernel_frame *h, emitter *e, ir function, ir block) {
  h->e = e;
  h->frame = LLVMGetParam(function, 0);
  frame_read_sizes(h);
  h->team.thread = gpu_call(e, GPU_THREAD_X, NULL, 0);
  if (h->team.shares) h->team.warp = gpu_warp_of_block(e, h->team.thread, h->team.threads);
  h->chip = gpu_call(e, GPU_SHARED, NULL, 0);
  h->team.sums = frame_scratch_at(h, h->chip, h->sums);
  ir scratch = frame_field(h, h->frame, offsetof(rec_gpu_frame, scratch), e->data);
  ir stride = gpu_frame_number(h, offsetof(rec_gpu_frame, scratch_stride));
  LLVMTypeRef bytes = LLVMInt8TypeInContext(e->context);
  h->scratch = element(e, bytes, scratch, int_mul(e, block, stride));
}

void gpu_lower_kernel(emitter *e, const codegen_gpu_kernel *k, codegen_gpu_options options) {
  bodies *x = bodies_of(e->a, k->base.kernel, options);
  e->where = lines_of_recurrence(k->base.kernel->recurrence);
  ir function = gpu_kernel_function(e, k->symbol, k->parameter_bytes, k->threads);
  if (k->maps.count) align_parameter(e->context, function, _Alignof(rec_gpu_map));
  char room[] = {(char)('0' + k->base.kernel->room), 0};
  if (k->base.kernel->room != ROOM_ANY) llvm_attribute(e->m, function, gpu_room_attribute, room);
  ir block = LLVMBuildZExt(e->b, gpu_call(e, GPU_BLOCK_X, NULL, 0), e->i64, "");
  ir blocks = LLVMBuildZExt(e->b, gpu_call(e, GPU_BLOCK_COUNT, NULL, 0), e->i64, "");
  for (int i = 0; i < x->count; i++) open_host(&x->hosts[i], e, function, block);
  ir items = gpu_frame_number(&x->hosts[0], offsetof(rec_gpu_frame, blocks));
  if (x->count == 2) {
    lower_both(x->hosts, block, items, blocks);
  } else {
    lower_items(&x->hosts[0], block, items, blocks);
  }
  LLVMBuildRetVoid(e->b);
}

// ---- the door ----

// Of what all parts of the kernel multiply.
static void count_products(const kernel_frame *h, codegen_gpu_kernel *g) {
  const plan *plans[] = {h->main.p, h->recomputes ? h->recompute.p : NULL};
  double group = 0, all = 0;
  for (int i = 0; i < 2; i++) {
    if (!plans[i]) continue;
    g->group_products += plans[i]->group_products;
    g->products += plans[i]->products;
    g->left += plans[i]->left;
    g->operand_bytes += plans[i]->operand_bytes;
    group += plans[i]->group_work;
    all += plans[i]->all_work;
  }
  g->group_share = all > 0 ? group / all : 0;
}

// What is copied for a chunk, and what of it may come in bulk.
static void count_rows(const kernel_frame *h, codegen_gpu_kernel *g) {
  const part *parts[] = {&h->main, h->recomputes ? &h->recompute : NULL};
  g->bulk_gain = h->bulk.gain;
  for (int i = 0; i < 2 && h->bulk.maps.count; i++) {
    for (int n = 0; parts[i] && n < parts[i]->program->arguments.count; n++) {
      g->rows += gpu_is_staged(parts[i], n);
      g->bulk_rows += gpu_is_bulk(parts[i], n);
    }
  }
}

static int nests_of(const part *p) {
  int count = 0;
  for (int n = 0; p->p && n < p->p->nests.count; n++) count += p->p->nests.items[n].region == REGION_BODY;
  return count;
}

// Enough for each of them.
static void add_resources(arena *a, const kernel_frame *h, codegen_gpu_kernel *g) {
  codegen_bytes scratch = h->shared_numbers || h->sized.count ? frame_bytes_of(h) : (codegen_bytes){0};
  if (4 * h->on_chip > g->shared_bytes) g->shared_bytes = (int)(4 * h->on_chip);
  if (scratch.constant > g->base.scratch.constant) g->base.scratch.constant = scratch.constant;
  for (int i = 0; i < scratch.terms.count; i++) codegen_bytes_add(a, &g->base.scratch, scratch.terms.items[i]);
  g->maps.items = h->bulk.maps.items;
  g->maps.count = h->bulk.maps.count;
  if (h->bulk.maps_at) g->maps_at = (int)h->bulk.maps_at;
}

// Of the two kernels of a function, which is this one.
static int number_of(const bodies *x, const kernel *k) { return x->hosts[0].k->kind == k->kind ? 0 : 1; }

char *gpu_plan_text(arena *a, const kernel *k, codegen_gpu_options options) {
  bodies *x = bodies_of(a, k, options);
  return frame_plan_text(a, &x->hosts[number_of(x, k)]);
}

// The schedule describes hundreds of kernels: what `g` says is kept, their plans are not.
static codegen_gpu_kernel described_in(arena *a, const kernel *k, codegen_gpu_options options) {
  bodies *x = bodies_of(a, k, options);
  int own = number_of(x, k);
  const kernel_frame *h = &x->hosts[own];
  codegen_gpu_kernel g = {.base = x->described[own]};
  g.base.scratch = (codegen_bytes){0};
  for (int i = 0; i < x->count; i++) add_resources(a, &x->hosts[i], &g);
  g.parameter_bytes = (int)parameter_bytes(&g);
  count_rows(h, &g);
  g.threads = h->team.threads;
  g.history_bytes = 4 * h->history;
  g.home_bytes = 4 * h->tiles.homes;
  g.sum_bytes = 4 * h->tiles.group_sums;
  g.ends = gpu_ends_numbers(a, k);
  g.column_blocks = gpu_column_blocks(k);
  g.is_second = own;
  g.nests = nests_of(&h->main) + nests_of(&h->recompute);
  count_products(h, &g);
  if (g.parameter_bytes > REC_GPU_PARAMETER_BYTES) {
    g.why_not = "its tensors and axes take more than 4000 bytes of parameters";
  } else {
    g.symbol = arena_printf(a, "%s_gpu", k->symbol);
  }
  return g;
}

codegen_gpu_kernel codegen_gpu_describe(arena *a, const kernel *k, codegen_gpu_options options) {
  arena *plans = arena_new();
  codegen_gpu_kernel g = described_in(plans, k, options);
  vec_keep(a, &g.base.slots);
  vec_keep(a, &g.base.scratch.terms);
  vec_keep(a, &g.base.kept.terms);
  vec_keep(a, &g.maps);
  vec_keep(a, &g.ends.terms);
  if (g.symbol) g.symbol = arena_strdup(a, g.symbol);
  arena_free(plans);
  return g;
}
