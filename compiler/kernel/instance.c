// An instance: where its tensors begin, and where its results go.
//
//   instance 5 of G = 2, R = 4   ->   g = 1, r = 1: y of it is stored, d.B [G,N] is added to the store of r = 0
#include "compiler/kernel/frame.h"

// Instances that have nothing of their own in a value would store the same, where the tensor lacks the axis: the first does.
static ir stores_here(kernel_frame *h, const plan *p, const tile_result *r) {
  return frame_is_first(h, ~(p->values[r->value].own | kernel_axes_of_place(&r->place)));
}

// GPU: sums are copies, one for each instance that adds: every one is stored, 0 by those that have nothing to add. Where
// threads have entries of the lane axis, they are summed over the block.
static void gpu_result(kernel_frame *h, const part *p, const tile_result *r, result_target *target, ir wanted) {
  emitter *e = h->e;
  axis_set place = kernel_axes_of_place(&r->place);
  ir first = stores_here(h, p->p, r);
  bool lane = h->m.kind == MAP_THREADS && !axis_in(place, h->k->lane_axis);
  target->over_threads = target->add && lane;
  if (target->add) {
    target->add = false;
    target->own = first;
    target->active = wanted;
  } else {
    target->active = LLVMBuildAnd(e->b, wanted, first, "");
  }
  if (!target->over_threads) target->active = frame_by_this_thread(h, target->active);
  if (h->plan->in_tiles && p == &h->main) {
    gpu_pass_target(h, p, (int)(r - p->p->program->results.items), target);
    if (target->in_passes) target->own = first, target->active = wanted;
  }
}

// One copy is the tensor itself, in the numbers' own type. In f32 that is the type of copies, and where they lie.
static void single_target(kernel_frame *h, const tile_result *r, result_target *target) {
  emitter *e = h->e;
  if (!kernel_stores_narrow(&h->m, &r->place)) return;
  int slot = kernel_find_slot(h->described, r->place.role, r->place.tensor, r->place.lag);
  if (!h->described->slots.items[slot].single) return;
  ir stride = frame_slot_field(h, r->place.role, &r->place, offsetof(rec_gpu_slot, copy_stride), e->i64);
  target->single = int_compare(e, LLVMIntEQ, stride, integer(e, 0));
  view v = frame_view_stored_as(h, r->place.role, &r->place, NULL, h->m.dtype);
  target->tensor = v;
}

// Per-instance memory and the tensors of this instance: once the instance is known.
void frame_open_instance(kernel_frame *h, part *p) {
  emitter *e = h->e;
  lower *l = &p->l;
  l->outside = h->at;
  l->part_first = h->part_first;
  for (int i = 0; h->plan->in_tiles && i < p->p->buffers.count; i++) {
    if (p->p->buffers.items[i].persistent) l->buffers[i] = frame_scratch_at(h, h->local, p->at->persistent_at[i].offset);
  }
  if (h->m.chunks_outside) {
    for (int c = 0; c < p->carried.count; c++) {
      l->carried[c] = buffer_view(l, &p->carried.items[c].memory, frame_scratch_at(h, h->local, p->at->carried_at[c].offset));
    }
    for (int i = 0; i < p->p->buffers.count; i++) {
      if (p->p->buffers.items[i].persistent) l->buffers[i] = frame_scratch_at(h, h->local, p->at->persistent_at[i].offset);
    }
  }
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    tile_role role = place->role;
    if (role == TILE_STATE || role == TILE_STASH || role == TILE_D_NEXT_STATE) continue;
    ir data;
    view v = frame_memory_view(h, role, place, &data);
    if (role == TILE_D_OUTPUT) v.present = LLVMBuildIsNotNull(e->b, data, "");
    if (h->slice.of_matrix && axis_in(kernel_axes_of_place(place), h->k->column_axis)) {
      ir tokens = LLVMBuildNot(e->b, h->slice.of_matrix, "");
      v.present = v.present ? LLVMBuildAnd(e->b, v.present, tokens, "") : tokens;
    }
    p->time_stride[i] = frame_slot_field(h, role, place, offsetof(rec_slot, time_stride), e->i64);
    p->memory[i] = l->arguments[i] = v;
  }
  for (int c = 0; c < p->carried.count; c++) {
    int argument = p->p->carried[c].argument;
    if (argument >= 0) l->arguments[argument] = l->carried[c];
  }
  for (int i = 0; i < p->program->results.count; i++) {
    const tile_result *r = &p->p->program->results.items[i];
    if (!kernel_in_memory(h->k, &r->place) || r->place.role == TILE_NEXT_STATE || r->place.role == TILE_D_STATE) continue;
    ir data;
    p->result_memory[i] = frame_memory_view(h, r->place.role, &r->place, &data);
    p->result_time_stride[i] = frame_slot_field(h, r->place.role, &r->place, offsetof(rec_slot, time_stride), e->i64);
    result_target *target = &l->results[i];
    target->at = p->result_memory[i];
    target->active = LLVMBuildAnd(e->b, LLVMBuildIsNotNull(e->b, data, ""), stores_here(h, p->p, r), "");
    int slot = kernel_find_slot(h->described, r->place.role, r->place.tensor, r->place.lag);
    target->add = h->described->slots.items[slot].accumulated;
    if (!e->gpu) continue;
    gpu_result(h, p, r, target, LLVMBuildIsNotNull(e->b, data, ""));
    single_target(h, r, target);
  }
}

ir frame_lane_blocks(kernel_frame *h) {
  emitter *e = h->e;
  ir up = int_add(e, h->axis_size[h->k->lane_axis], integer(e, h->k->lane_block - 1));
  ir blocks = int_div(e, up, integer(e, h->k->lane_block));
  return int_add(e, blocks, integer(e, gpu_column_blocks(h->k)));
}

ir frame_split_instance(kernel_frame *h, ir instance) {
  emitter *e = h->e;
  ir block = integer(e, 0);
  if (h->k->lane_axis >= 0) {
    block = int_split(e, &instance, frame_lane_blocks(h));
  }
  for (int i = h->k->grid_count - 1; i >= 0; i--) {
    int axis = h->k->grid_axes[i];
    bool rest = i == 0 && e->gpu;  // a division is many instructions
    h->at.index[axis] = rest ? instance : int_split(e, &instance, h->axis_size[axis]);
  }
  return block;
}
