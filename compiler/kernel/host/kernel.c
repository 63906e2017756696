// Host kernels: the loops over instances, lanes and time around the regions of a plan.
//
//   step form                            chunk form, nothing shared      chunk form, values shared by instances
//     for instance (and lane vector):      for instance:                   for instance: load states
//       load states; prologue                load states; prologue         for chunk:
//       for t: body                          for chunk: body                 for instance: shared values if new; body
//       store states; epilogue               store states; epilogue        for instance: store states; epilogue
//
// Step form, values that panels of lanes share:
//
//   for instances that differ in lanes alone:
//     for chunk: shared values of its steps; for panel: first chunk: load states; steps; last chunk: store states
//
// Backward runs over the chunks in reverse. In step form it first recomputes the steps of a chunk
// from the saved state at its start. It keeps the state before each step, and the values that the
// backward program asks for.
#include <stddef.h>

#include "compiler/emit/lines.h"
#include "compiler/kernel/host/loops.h"
#include "compiler/lower/nest_target.h"

// ---- what the frame asks of its target ----

static ir host_saved_offset(kernel_frame *h, ir chunk) {
  emitter *e = h->e;
  ir stride = frame_field(h, h->frame, offsetof(rec_frame, saved_chunk_stride), e->i64);
  return int_add(e, int_mul(e, h->batch, frame_saved_batch_stride(h)), int_mul(e, chunk, stride));
}

static ir host_buffer_memory(kernel_frame *h, const frame_program *p, int i) {
  const plan_buffer *b = &p->p->buffers.items[i];
  if (b->stack) return frame_memory_for(h, b, (location){-1, -1, false}, "buffer");
  int block = 0;
  while (p->p->scratch.items[block].sizes != b->numbers.sizes) block++;
  extent offset = {b->offset, b->numbers.sizes};
  return element(h->e, h->e->real, frame_located(h, p->at->scratch[block]),
                 lower_extent(h->e, h->axis_size, offset));
}

static view host_buffer_view(kernel_frame *h, lower *l, const plan_buffer *b, location at,
                             ir before) {
  return buffer_view(l, b, element(h->e, h->e->real, frame_located(h, at), before));
}

static void copy_state(kernel_frame *h, frame_program *p, const tile_place *place, const view *from,
                       const view *to, bool beside) {
  p->l.outside = h->at;
  (beside ? lower_copy_beside : lower_copy_view)(&p->l, from, to, tile_body_axes(place));
}

static void open_host_result(kernel_frame *h, frame_program *p, int i, ir data) {
  const tile_result *r = &p->p->program->results.items[i];
  p->l.results[i].active = bit_and(h->e, is_given(h->e, data), frame_stores_result(h, p, r));
}

static const kernel_hooks host_hooks = {
    .nests = &host_nest_target,
    .slot_bytes = sizeof(rec_slot),
    .saved_at = offsetof(rec_frame, saved),
    .saved_stride_at = offsetof(rec_frame, saved_batch_stride),
    .saved_offset = host_saved_offset,
    .buffer_memory = host_buffer_memory,
    .view_of = host_buffer_view,
    .copy_state = copy_state,
    .open_result = open_host_result,
    .arguments_of_step = host_arguments_of_step,
    .save_states = host_save_states,
    .load_saved = host_load_saved,
};

// ---- instances ----

// Indices of instance number `instance`; returns the number of the lane block.
static ir split_host_instance(kernel_frame *h, ir instance) {
  emitter *e = h->e;
  ir block = integer(e, 0);
  if (h->k->lane_axis >= 0) block = int_split(e, &instance, frame_lane_blocks(h));
  for (int i = h->k->grid_count - 1; i >= 0; i--) {
    int axis = h->k->grid_axes[i];
    h->at.index[axis] = int_split(e, &instance, h->axis_size[axis]);
  }
  return block;
}

static void begin_instance(kernel_frame *h) {
  if (h->recomputes) frame_open_instance(h, &h->recompute);
  frame_open_instance(h, &h->main);
  host_load_states(h, &h->main);
  frame_clear_sums(h, &h->main);
}

static void end_instance(kernel_frame *h) {
  host_store_states(h, &h->main);
  lower_region(&h->main.l, REGION_EPILOGUE);
}

// The program of the sums that open the first step reads the states of the main program, which is
// opened before.
static void begin_opening(kernel_frame *h) {
  frame_program *p = &h->opening;
  if (!h->plan->opening.program) return;
  frame_open_program(h, p);
  for (int c = 0; c < p->carried.count; c++)
    for (int m = 0; m < h->main.carried.count; m++)
      if (plan_same_state(&p->carried.items[c].place, &h->main.carried.items[m].place))
        p->l.carried[c] = h->main.l.carried[m];
  frame_open_instance(h, p);
  lower_region(&p->l, REGION_PROLOGUE);
}

static void whole_instance(kernel_frame *h) {
  if (h->recomputes) frame_open_program(h, &h->recompute);
  frame_open_program(h, &h->main);
  begin_instance(h);
  if (h->recomputes) lower_region(&h->recompute.l, REGION_PROLOGUE);
  lower_region(&h->main.l, REGION_PROLOGUE);
  begin_opening(h);
  host_loop_over_time(h);
  end_instance(h);
}

// A chunk of a panel. The first one begins the sequence, the last one ends it.
static void chunk_of_panel(kernel_frame *h) {
  emitter *e = h->e;
  frame_open_program(h, &h->main);
  frame_open_instance(h, &h->main);
  emit_branch first = branch_begin(e, int_compare(e, LLVMIntEQ, h->chunk, integer(e, 0)));
  host_load_states(h, &h->main);
  frame_clear_sums(h, &h->main);
  branch_end(e, &first);
  lower_region(&h->main.l, REGION_PROLOGUE);
  begin_opening(h);
  frame_steps_of_chunk(h, h->chunk);
  ir next = int_add_n(e, h->chunk, 1);
  emit_branch last = branch_begin(e, int_compare(e, LLVMIntSGE, next, frame_chunk_count(h)));
  end_instance(h);
  branch_end(e, &last);
}

static void shared_of_chunk(kernel_frame *h) {
  frame_open_program(h, &h->common);
  frame_open_instance(h, &h->common);
  lower_region(&h->common.l, REGION_PROLOGUE);
  frame_share_steps(h, h->chunk);
}

typedef void instance_body(kernel_frame *h);

static instance_body *body_of_instance(const kernel_frame *h) {
  return h->plan->panels ? chunk_of_panel : whole_instance;
}

static void start_place(kernel_frame *h) {
  h->at = (place_in_loops){.vector_axis = -1};
  if (h->m.lane_axis >= 0) {
    h->at.vector_axis = h->m.lane_axis;
    h->at.lanes = h->m.lanes;
  }
}

static void read_frame(kernel_frame *h) {
  emitter *e = h->e;
  h->time = frame_field(h, h->frame, offsetof(rec_frame, time), e->i64);
  h->sizes = frame_field(h, h->frame, offsetof(rec_frame, axis_size), e->pointer);
  h->slots = frame_field(h, h->frame, offsetof(rec_frame, slots), e->pointer);
  frame_read_sizes(h);
}

enum { INSTANCE_PARAMETERS = 5 + TYPED_MAX_AXES + 1 };

// void NAME(frame, batch, scratch, scratch of the panel, chunk, index of each grid axis.., first
// lane): what `body` does of one instance, all its lanes or some. Without panels there are no
// scratch of one and no chunk.
static ir instance_function(kernel_frame *h, const char *name, bool masked, instance_body *body,
                            LLVMTypeRef *type) {
  emitter *e = h->e;
  LLVMTypeRef types[INSTANCE_PARAMETERS] = {e->pointer, e->i64, e->pointer, e->pointer, e->i64};
  int before = h->plan->panels ? 5 : 3, count = before;
  for (int i = 0; i < h->k->grid_count; i++) types[count++] = e->i64;
  types[count++] = e->i64;
  *type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, (unsigned)count, 0);
  ir f = llvm_internal(e->m, name, *type, e->clone);
  kernel_frame inner = *h;
  emitter own = *e;
  inner.e = &own;
  own.b = LLVMCreateBuilderInContext(e->context);
  emit_open(&own, f);
  inner.frame = LLVMGetParam(f, 0);
  inner.batch = LLVMGetParam(f, 1);
  inner.scratch = LLVMGetParam(f, 2);
  if (h->plan->panels) {
    inner.local = LLVMGetParam(f, 3);
    inner.chunk = LLVMGetParam(f, 4);
  }
  read_frame(&inner);
  start_place(&inner);
  for (int i = 0; i < h->k->grid_count; i++)
    inner.at.index[h->k->grid_axes[i]] = LLVMGetParam(f, (unsigned)(before + i));
  if (h->m.lane_axis >= 0) {
    ir lane = LLVMGetParam(f, (unsigned)(count - 1));
    inner.at.index[h->m.lane_axis] = lane;
    if (masked)
      inner.at.mask =
          lane_mask(&own, int_sub(&own, inner.axis_size[h->m.lane_axis], lane), h->m.lanes);
  }
  body(&inner);
  LLVMBuildRetVoid(own.b);
  LLVMDisposeBuilder(own.b);
  return f;
}

static void call_instance(kernel_frame *h, ir f, LLVMTypeRef type, ir lane) {
  ir args[INSTANCE_PARAMETERS] = {h->frame, h->batch, h->scratch, h->local, h->chunk};
  int count = h->plan->panels ? 5 : 3;
  for (int i = 0; i < h->k->grid_count; i++) args[count++] = h->at.index[h->k->grid_axes[i]];
  args[count++] = lane;
  LLVMBuildCall2(h->e->b, type, f, args, (unsigned)count, "");
}

// Another function of the same kernel.
static kernel_frame frame_beside(const kernel_frame *h, const kernel_plan *w) {
  kernel_frame other = frame_for(h->a, w, h->symbol, &host_hooks);
  other.e = h->e;
  return other;
}

typedef struct instance_functions {
  ir whole, rest;  // rest NULL: there are no other lanes
  LLVMTypeRef type;
  bool one_by_one;  // rest takes one lane
  ir batched;       // NULL: there is none
} instance_functions;

static void call_rest(kernel_frame *h, const instance_functions *f, ir begin, ir end) {
  if (!f->one_by_one) {
    call_instance(h, f->rest, f->type, begin);
    return;
  }
  emit_loop loop = loop_begin(h->e, begin, end, 1, "lane");
  call_instance(h, f->rest, f->type, loop.index);
  loop_end(h->e, &loop);
}

static ir scratch_of_instances(kernel_frame *h) {
  return frame_scratch_at(h, h->scratch, h->plan->shared_numbers);
}

// The lanes of lane blocks `first` to `last` - 1.
static void lanes_of_blocks(kernel_frame *h, ir first, ir last, const instance_functions *f) {
  emitter *e = h->e;
  ir begin = int_mul_n(e, first, h->k->lane_block);
  ir end = int_mul_n(e, last, h->k->lane_block);
  end = int_min(e, end, h->axis_size[h->m.lane_axis]);
  emit_loop loop = loop_begin(e, begin, end, h->m.lanes, "lanes");
  if (h->plan->panels) {
    ir panel = int_div_n(e, int_sub(e, loop.index, begin), h->m.lanes);
    h->local = element(e, e->real, scratch_of_instances(h),
                       int_mul_n(e, panel, h->plan->instance_numbers));
  }
  if (f->rest) {
    ir full = int_compare(e, LLVMIntSLE, int_add_n(e, loop.index, h->m.lanes), end);
    emit_branch branch = branch_begin(e, full);
    call_instance(h, f->whole, f->type, loop.index);
    branch_else(e, &branch);
    call_rest(h, f, loop.index, end);
    branch_end(e, &branch);
  } else {
    call_instance(h, f->whole, f->type, loop.index);
  }
  loop_end(e, &loop);
}

// The last lanes of an axis under a mask. Without masked memory instructions they go one by one.
static void rest_function(kernel_frame *h, instance_functions *f) {
  const char *name = arena_printf(h->a, "%s_rest", h->symbol);
  f->one_by_one = !clone_targets[h->e->clone].masks;
  if (!f->one_by_one) {
    f->rest = instance_function(h, name, true, body_of_instance(h), &f->type);
    return;
  }
  kernel_frame narrow = frame_beside(h, h->plan->one_lane);
  f->rest = instance_function(&narrow, name, false, whole_instance, &f->type);
}

// Several sequences in one pass over time.
static ir batched_function(kernel_frame *h, LLVMTypeRef *type) {
  kernel_frame several = frame_beside(h, h->plan->batched);
  return instance_function(&several, arena_printf(h->a, "%s_together", h->symbol), false,
                           whole_instance, type);
}

static ir may_batch(kernel_frame *h) {
  ir sequences = frame_field(h, h->frame, offsetof(rec_frame, sequences), h->e->i64);
  return int_compare(h->e, LLVMIntEQ, sequences, integer(h->e, h->plan->batched->k->sequences));
}

static void call_whole(kernel_frame *h, const instance_functions *f) {
  emitter *e = h->e;
  if (!f->batched) {
    call_instance(h, f->whole, f->type, integer(e, 0));
    return;
  }
  emit_branch branch = branch_begin(e, may_batch(h));
  call_instance(h, f->batched, f->type, integer(e, 0));
  branch_else(e, &branch);
  call_instance(h, f->whole, f->type, integer(e, 0));
  branch_end(e, &branch);
}

static instance_functions functions_of(kernel_frame *h) {
  instance_functions f = {0};
  bool rest = host_has_rest(h->plan), short_axis = h->m.lanes > h->k->lane_block,
       long_code = kernel_is_long(h->k) && clone_targets[h->e->clone].masks,
       always_masked = rest && (long_code || short_axis);
  f.whole = instance_function(h, arena_printf(h->a, "%s_instance", h->symbol), always_masked,
                              body_of_instance(h), &f.type);
  if (rest && !always_masked) rest_function(h, &f);
  if (h->plan->batched) f.batched = batched_function(h, &f.type);
  return f;
}

// Instances that differ in lanes alone go through time together. A sequence of no steps has a chunk
// without any.
static void instances_in_panels(kernel_frame *h, ir first, ir last) {
  emitter *e = h->e;
  instance_functions f = functions_of(h);
  LLVMTypeRef type;
  ir shared = instance_function(h, arena_printf(h->a, "%s_shared", h->symbol), false,
                                shared_of_chunk, &type);
  ir blocks = frame_lane_blocks(h);
  ir up = int_add(e, last, int_sub_n(e, blocks, 1));
  emit_loop loop = loop_begin(e, int_div(e, first, blocks), int_div(e, up, blocks), 1, "instances");
  ir begin = int_mul(e, loop.index, blocks);
  split_host_instance(h, begin);
  ir first_block = int_sub(e, int_max(e, first, begin), begin);
  ir last_block = int_min(e, int_sub(e, last, begin), blocks);
  ir count = int_max(e, frame_chunk_count(h), integer(e, 1));
  emit_loop chunks = loop_begin(e, integer(e, 0), count, 1, "chunk");
  h->chunk = chunks.index;
  h->local = scratch_of_instances(h);
  call_instance(h, shared, type, integer(e, 0));
  lanes_of_blocks(h, first_block, last_block, &f);
  loop_end(e, &chunks);
  loop_end(e, &loop);
}

static void instances_outside(kernel_frame *h, ir first, ir last) {
  emitter *e = h->e;
  instance_functions f = functions_of(h);
  emit_loop loop = loop_begin(e, first, last, 1, "instance");
  ir block = split_host_instance(h, loop.index);
  if (h->m.lane_axis >= 0)
    lanes_of_blocks(h, block, int_add_n(e, block, 1), &f);
  else
    call_whole(h, &f);
  loop_end(e, &loop);
}

static void place_instance(kernel_frame *h, ir instance, ir first) {
  emitter *e = h->e;
  split_host_instance(h, instance);
  ir offset = int_mul_n(e, int_sub(e, instance, first), h->plan->instance_numbers);
  h->local = element(e, e->real, scratch_of_instances(h), offset);
}

// The next instance with this chunk; behind the last one, the first with the next chunk.
static void fetch_beside(kernel_frame *h, ir instance, ir turn, ir first, ir last) {
  emitter *e = h->e;
  ir next = int_add_n(e, instance, 1), end = int_sub_n(e, frame_chunk_count(h), 1);
  ir more = int_compare(e, LLVMIntSLT, next, last);
  ir later = int_min(e, int_add_n(e, turn, 1), end);
  place_in_loops here = h->at;
  split_host_instance(h, int_choose(e, more, next, first));
  host_fetch_next(h, &h->main, frame_chunk_in_order(h, int_choose(e, more, turn, later)));
  h->at = here;
}

static void instances_inside(kernel_frame *h, ir first, ir last) {
  emitter *e = h->e;
  frame_program *p = &h->main;
  frame_open_program(h, p);
  emit_loop loop = loop_begin(e, first, last, 1, "instance");
  place_instance(h, loop.index, first);
  begin_instance(h);
  loop_end(e, &loop);
  emit_loop chunks = loop_begin(e, integer(e, 0), frame_chunk_count(h), 1, "chunk");
  ir chunk = frame_chunk_in_order(h, chunks.index);
  loop = loop_begin(e, first, last, 1, "instance");
  place_instance(h, loop.index, first);
  frame_open_instance(h, p);
  ir new_group = int_compare(e, LLVMIntEQ, h->at.index[h->m.shared_axis], integer(e, 0));
  new_group = bit_or(e, new_group, int_compare(e, LLVMIntEQ, loop.index, first));
  host_set_chunk(h, p, chunk, new_group);
  fetch_beside(h, loop.index, chunks.index, first, last);
  lower_region(&p->l, REGION_PROLOGUE);
  emit_branch branch = branch_begin(e, new_group);
  lower_region(&p->l, REGION_SHARED);
  branch_end(e, &branch);
  host_chunk_body(h, chunk);
  loop_end(e, &loop);
  loop_end(e, &chunks);
  loop = loop_begin(e, first, last, 1, "instance");
  place_instance(h, loop.index, first);
  frame_open_instance(h, p);
  lower_region(&p->l, REGION_PROLOGUE);
  end_instance(h);
  loop_end(e, &loop);
}

void host_lower(emitter *e, const host_plan *made) {
  const kernel *k = made->described.kernel;
  const char *symbol = made->described.symbols[e->clone];
  kernel_frame h = frame_for(e->a, made->clones[e->clone], symbol, &host_hooks);
  h.e = e;
  e->contract = true;
  e->where = lines_of_recurrence(k->recurrence);
  LLVMTypeRef types[] = {e->pointer, e->i64, e->i64, e->i64, e->pointer};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, 5, 0);
  ir f = llvm_function(e->m, symbol, type, e->clone);
  emit_open(e, f);
  h.frame = LLVMGetParam(f, 0);
  h.batch = LLVMGetParam(f, 1);
  h.scratch = LLVMGetParam(f, 4);
  read_frame(&h);
  start_place(&h);
  if (h.m.chunks_outside) {
    instances_inside(&h, LLVMGetParam(f, 2), LLVMGetParam(f, 3));
  } else {
    (h.plan->panels ? instances_in_panels : instances_outside)(&h, LLVMGetParam(f, 2),
                                                               LLVMGetParam(f, 3));
  }
  LLVMBuildRetVoid(e->b);
}
