// GPU: the hooks of a kernel's frame (kernel_hooks).
#include <stddef.h>

#include "compiler/kernel/gpu/frame.h"
#include "compiler/lower/nest_target.h"

// ---- tensors and buffers ----

// The offset of this instance in a tensor: its first token, or its copy of a sum.
static ir tensor_offset(kernel_frame *h, tile_role role, const tile_place *place) {
  emitter *e = h->e;
  const codegen_slot *slot =
      &h->described->slots.items[kernel_find_slot(h->described, role, place)];
  ir offset = integer(e, 0);
  if (slot->time) {
    ir stride = frame_slot_field(h, role, place, offsetof(rec_gpu_slot, time_stride), e->i64);
    offset = int_mul(e, h->gpu->entry_step, stride);
  }
  if (!slot->accumulated) return offset;
  ir copy = slot->per_batch ? integer(e, 0) : h->gpu->copy;
  if (!slot->time) copy = int_add(e, int_mul(e, copy, h->gpu->tiles.count), h->gpu->slice.number);
  for (int i = 0; i < h->k->grid_count; i++) {
    int axis = h->k->grid_axes[i];
    if (!axis_in(slot->summed, axis)) continue;
    copy = int_add(e, int_mul(e, copy, h->axis_size[axis]), h->at.index[axis]);
  }
  if (h->k->lane_axis >= 0 && axis_in(slot->summed, h->k->lane_axis))
    copy = int_add(e, int_mul(e, copy, frame_lane_blocks(h)), h->gpu->lane_block);
  ir stride = frame_slot_field(h, role, place, offsetof(rec_gpu_slot, copy_stride), e->i64);
  return int_add(e, offset, int_mul(e, int_low(e, copy), stride));
}

static ir gpu_saved_offset(kernel_frame *h, ir chunk) {
  ir stride = frame_field(h, h->frame, offsetof(rec_gpu_frame, saved_chunk_stride), h->e->i64);
  return int_add(h->e, h->gpu->saved_first, int_mul(h->e, chunk, stride));
}

static ir gpu_buffer_memory(kernel_frame *h, const frame_program *p, int i) {
  return frame_memory_for(h, &p->p->buffers.items[i], p->at->buffer_at[i], "buffer");
}

// Where threads share nothing, each thread has its own elements, neighbouring threads side by side.
static view gpu_buffer_view(kernel_frame *h, lower *l, const plan_buffer *b, location at,
                            ir before) {
  emitter *e = h->e;
  ir base = frame_located(h, at);
  int64_t threads = h->m.kind == MAP_THREADS ? h->gpu->team.threads : 1;
  base = element(e, e->real, base, int_mul_n(e, before, threads));
  if (threads > 1) base = element(e, e->real, base, h->gpu->team.thread);
  plan_buffer plain = *b;
  plain.stack = true;
  view v = buffer_view(l, &plain, base);
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++)
    if (v.stride[axis]) v.stride[axis] = int_mul_n(e, v.stride[axis], threads);
  if (!at.in_shared) v.layout = (plan_layout){0};  // scratch has no banks
  return v;
}

// A block that computes columns of a transition matrix reads 0 for tokens with the axis of the
// columns.
static void open_argument(kernel_frame *h, const tile_place *place, view *v) {
  emitter *e = h->e;
  if (!h->gpu->slice.of_matrix || !axis_in(tile_body_axes(place), h->k->value_axis)) return;
  ir tokens = bit_not(e, h->gpu->slice.of_matrix);
  v->present = v->present ? bit_and(e, v->present, tokens) : tokens;
}

// ---- results ----

// Each instance that adds to a sum has a copy of it. It always stores its copy, and stores 0 if it
// adds nothing. Threads with entries of the lane axis first sum over the block.
static void open_target(kernel_frame *h, const frame_program *p, const tile_result *r,
                        result_target *target, ir wanted) {
  emitter *e = h->e;
  axis_set place = tile_body_axes(&r->place);
  ir first = frame_stores_result(h, p, r);
  bool lane = h->m.kind == MAP_THREADS && !axis_in(place, h->k->lane_axis);
  target->over_threads = target->add && lane;
  if (target->add) {
    target->add = false;
    target->own = first;
    target->active = wanted;
  } else {
    target->active = bit_and(e, wanted, first);
  }
  if (!target->over_threads) target->active = gpu_by_this_thread(h, target->active);
  if (h->plan->in_tiles && p == &h->main) {
    gpu_value_tile_target(h, p, (int)(r - p->p->program->results.items), target);
    if (target->in_passes) target->own = first, target->active = wanted;
  }
}

// A single copy is the tensor itself, in the tensor's type. For f32 that is also the type of
// copies.
static void single_target(kernel_frame *h, const tile_result *r, result_target *target) {
  emitter *e = h->e;
  if (!kernel_stores_narrow(&h->m, &r->place)) return;
  int slot = kernel_find_slot(h->described, r->place.role, &r->place);
  if (!h->described->slots.items[slot].single) return;
  ir stride =
      frame_slot_field(h, r->place.role, &r->place, offsetof(rec_gpu_slot, copy_stride), e->i64);
  target->single = int_compare(e, LLVMIntEQ, stride, integer(e, 0));
  view v = frame_view_stored_as(h, r->place.role, &r->place, NULL, h->m.dtype);
  target->tensor = v;
}

static void open_gpu_result(kernel_frame *h, frame_program *p, int i, ir data) {
  const tile_result *r = &p->p->program->results.items[i];
  open_target(h, p, r, &p->l.results[i], is_given(h->e, data));
  single_target(h, r, &p->l.results[i]);
}

const kernel_hooks gpu_hooks = {
    .nests = &gpu_nest_target,
    .slot_bytes = sizeof(rec_gpu_slot),
    .saved_at = offsetof(rec_gpu_frame, saved),
    .saved_stride_at = offsetof(rec_gpu_frame, saved_entry_stride),
    .tensor_offset = tensor_offset,
    .saved_offset = gpu_saved_offset,
    .buffer_memory = gpu_buffer_memory,
    .view_of = gpu_buffer_view,
    .copy_state = gpu_copy_state,
    .open_argument = open_argument,
    .open_result = open_gpu_result,
    .arguments_of_step = gpu_arguments_of_step,
    .save_states = gpu_save_states,
    .load_saved = gpu_load_saved,
    .steps_ahead = gpu_steps_ahead,
    .open_steps = gpu_open_steps,
    .next_steps = gpu_next_steps,
    .clear_missing_steps = gpu_clear_missing_steps,
};
