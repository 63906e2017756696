// Tensors of the caller as views, for the instance at hand.
//
//   slot x {data, strides}   ->   view: base of the batch entry, one stride for each axis
#include <stddef.h>
#include <string.h>

#include "compiler/kernel/frame.h"

// ---- reading the frame ----

ir frame_field(kernel_frame *h, ir base, int64_t offset, LLVMTypeRef type) {
  return load_field(h->e, base, offset, type);
}

ir frame_slot_field(kernel_frame *h, tile_role role, const tile_place *place, size_t offset,
                    LLVMTypeRef type) {
  int slot = kernel_find_slot(h->described, role, place);
  if (slot < 0) ICE("kernel", "%s has no slot for %s", h->symbol, place->name ? place->name : "?");
  return frame_field(h, h->slots, slot * h->hooks->slot_bytes + (int64_t)offset, type);
}

void frame_read_sizes(kernel_frame *h) {
  emitter *e = h->e;
  const tile_program *program = h->k->program;
  for (int axis = 0; axis < program->axes.count; axis++) {
    const tile_axis *t = &program->axes.items[axis];
    h->axis_size[axis] = t->size != TILE_RUNTIME_SIZE
                             ? integer(e, t->size)
                             : frame_field(h, h->sizes, 8 * t->body_axis, e->i64);
    if (axis_in(h->m.tiled, axis))
      h->axis_size[axis] = integer(e, h->k->recurrence->body.axes.items[axis].size);
  }
}

// GPU: from the whole axis to the part of it at hand.
void frame_move_to_tile(kernel_frame *h, view *v, axis_set axes) {
  emitter *e = h->e;
  for (int axis = 0; axis < h->k->program->axes.count; axis++)
    if (axis_in(h->m.tiled & axes, axis))
      v->base = element(e, view_type(e, v), v->base, int_mul(e, h->tile_first, v->stride[axis]));
}

// The tensor of a place for this batch entry; every axis has its stride.
view frame_view_stored_as(kernel_frame *h, tile_role role, const tile_place *place, ir *data,
                          number_type stored) {
  emitter *e = h->e;
  view v = {.stored = stored};
  ir base = frame_slot_field(h, role, place, offsetof(rec_slot, data), e->data);
  ir batch_stride = frame_slot_field(h, role, place, offsetof(rec_slot, batch_stride), e->i64);
  if (data) *data = base;
  ir stride = integer(e, kernel_is_complex(h->k, place) ? 2 : 1);
  for (int x = place->axis_count - 1; x >= 0; x--) {
    int axis = place->axes[x];
    bool sequences = kernel_is_of_sequences(h->k, axis);
    v.stride[axis] = sequences ? batch_stride : stride;
    if (!sequences) stride = int_mul(e, stride, h->axis_size[axis]);
  }
  ir offset = int_add_n(e, int_mul(e, h->batch, batch_stride), place->component);
  if (place->lag >= 0) offset = int_add(e, offset, int_mul(e, integer(e, place->slot), stride));
  if (h->hooks->tensor_offset) offset = int_add(e, offset, h->hooks->tensor_offset(h, role, place));
  v.base = element(e, view_type(e, &v), base, offset);
  frame_move_to_tile(h, &v, tile_body_axes(place));
  return v;
}

view frame_memory_view(kernel_frame *h, tile_role role, const tile_place *place, ir *data) {
  int slot = kernel_find_slot(h->described, role, place);
  bool narrow = h->described->slots.items[slot].narrow;
  return frame_view_stored_as(h, role, place, data, narrow ? h->m.dtype : NUMBER_F32);
}

static bool is_kept_place(const tile_place *place) {
  return place->role == TILE_STASH || place->role == TILE_KEEP;
}

static ir elements_ir(kernel_frame *h, axis_set axes) {
  ir n = integer(h->e, 1);
  for (int axis = 0; axis < h->k->program->axes.count; axis++)
    if (axis_in(axes, axis)) n = int_mul(h->e, n, h->axis_size[axis]);
  return n;
}

// Where a kept value or the part of a state begins in what is saved of a chunk.
static ir kept_value_offset(kernel_frame *h, const tile_place *place) {
  emitter *e = h->e;
  const typed_body *body = &h->k->recurrence->body;
  ir offset = integer(e, 0);
  const tile_place *kept;
  for (int i = 0; (kept = kernel_kept_value(h->k, i)); i++) {
    if (is_kept_place(place) && place->stash == i) return offset;
    ir n = elements_ir(h, tile_body_axes(kept));
    offset = int_add(e, offset, int_mul_n(e, n, h->k->chunk));
  }
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    if (t->kind != TENSOR_STATE) continue;
    ir n = elements_ir(h, t->axis_set);
    if (i == place->tensor) return int_add(e, offset, int_mul_n(e, n, place->component));
    offset = int_add(e, offset, int_mul_n(e, n, t->complex ? 2 : 1));
  }
  for (int i = 0; i < body->lags.count; i++) {
    const typed_lag *lag = &body->lags.items[i];
    ir n = elements_ir(h, lag->axes);
    int64_t parts = lag->complex ? 2 : 1;
    if (i == place->lag)
      return int_add(e, offset, int_mul_n(e, n, place->slot * parts + place->component));
    offset = int_add(e, offset, int_mul_n(e, n, kernel_parts_of_lag(lag)));
  }
  ICE("kernel", "%s is no state", place->name ? place->name : "?");
}

ir frame_saved_data(kernel_frame *h) {
  return frame_field(h, h->frame, h->hooks->saved_at, h->e->data);
}

ir frame_saved_batch_stride(kernel_frame *h) {
  return frame_field(h, h->frame, h->hooks->saved_stride_at, h->e->i64);
}

view frame_saved_view(kernel_frame *h, const tile_place *place, ir chunk) {
  emitter *e = h->e;
  ir offset = int_add(e, h->hooks->saved_offset(h, chunk), kept_value_offset(h, place));
  view v = {.base = element(e, e->real, frame_saved_data(h), offset)};
  axis_set axes = tile_body_axes(place);
  if (is_kept_place(place)) axes |= axis_bit(h->k->program->time_axis);
  axis_list order = kernel_saved_order(&h->m, axes);
  ir stride = integer(e, 1);
  for (int i = order.count - 1; i >= 0; i--) {
    int axis = order.axes[i];
    bool sequences = kernel_is_of_sequences(h->k, axis);
    v.stride[axis] = sequences ? frame_saved_batch_stride(h) : stride;
    if (!sequences) stride = int_mul(e, stride, h->axis_size[axis]);
  }
  frame_move_to_tile(h, &v, axes);
  return v;
}

// ---- a part inside a function ----

ir frame_scratch_at(kernel_frame *h, ir base, int64_t offset) {
  return element(h->e, h->e->real, base, integer(h->e, offset));
}

// In the call's scratch: constant sizes first, then blocks of run-time size.
ir frame_located(kernel_frame *h, location at) {
  if (at.in_shared) return frame_scratch_at(h, h->shared, at.offset);
  if (at.sized == LOCATION_OF_INSTANCE) return frame_scratch_at(h, h->local, at.offset);
  if (at.sized < 0) return frame_scratch_at(h, h->scratch, at.offset);
  ir offset = integer(h->e, h->plan->shared_numbers);
  for (int i = 0; i < at.sized; i++)
    offset = int_add(h->e, offset, lower_extent(h->e, h->axis_size, h->plan->sized.items[i]));
  return element(h->e, h->e->real, h->scratch, offset);
}

ir frame_memory_for(kernel_frame *h, const plan_buffer *b, location at, const char *name) {
  if (at.offset >= 0) return frame_located(h, at);
  return stack_slot(h->e, LLVMArrayType2(h->e->real, (uint64_t)b->numbers.factor), name);
}

// Buffers and variables: once in a function.
void frame_open_program(kernel_frame *h, frame_program *p) {
  emitter *e = h->e;
  lower *l = &p->l;
  *l = (lower){.e = e, .m = &h->m, .p = p->p, .target = h->hooks->nests, .team = h->team};
  int values = p->p->program->values.count, arguments = p->program->arguments.count;
  int results = p->program->results.count;
  l->arguments = ARENA_ARRAY(h->a, view, arguments);
  l->results = ARENA_ARRAY(h->a, result_target, results);
  l->carried = ARENA_ARRAY(h->a, view, p->carried.count);
  l->buffers = ARENA_ARRAY(h->a, ir, p->p->buffers.count);
  l->variables = ARENA_ARRAY(h->a, ir, values);
  l->memo = ARENA_ARRAY(h->a, ir, values);
  l->matrices = ARENA_ARRAY(h->a, ir *, p->p->nests.count);
  p->memory = ARENA_ARRAY(h->a, view, arguments);
  p->time_stride = ARENA_ARRAY(h->a, ir, arguments);
  p->result_memory = ARENA_ARRAY(h->a, view, results);
  p->result_time_stride = ARENA_ARRAY(h->a, ir, results);
  memcpy(l->axis_size, h->axis_size, sizeof l->axis_size);
  for (int axis = 0; axis < p->program->axes.count; axis++)
    if (axis_in(h->m.tiled, axis))
      l->axis_size[axis] = integer(e, p->program->axes.items[axis].size);
  if (p->p->steps >= 0) l->axis_size[p->p->steps] = integer(e, h->k->chunk);
  for (int id = 0; id < values; id++) {
    const plan_value *v = &p->p->values[id];
    if (v->held == HELD_SCALAR && v->needed) {
      emitter as = v->wide ? emit_wide(e) : *e;
      l->variables[id] = stack_slot(e, real_type(&as, v->lane ? h->m.lanes : 0), "value");
    }
  }
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (b->last < 0 || b->carried >= 0 || b->persistent) continue;
    if (b->kept) continue;  // where the step at hand has its row
    l->buffers[i] = h->hooks->buffer_memory(h, p, i);
  }
  for (int c = 0; c < p->carried.count && !h->m.chunks_outside; c++) {
    const plan_buffer *b = &p->carried.items[c].memory;
    l->carried[c] = buffer_view(l, b, frame_memory_for(h, b, p->at->carried_at[c], "state"));
  }
  l->kept = ARENA_ARRAY(h->a, register_accumulators, p->carried.count);
  for (int i = 0; i < p->p->buffers.count && !h->m.chunks_outside; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (b->persistent && !h->plan->in_tiles)
      l->buffers[i] = frame_memory_for(h, b, p->at->persistent_at[i], "sum");
  }
}

// Is this the first instance along all of these axes that are cut?
ir frame_is_first(kernel_frame *h, axis_set axes) {
  emitter *e = h->e;
  ir here = LLVMConstInt(e->i1, 1, 0);
  axis_set cut = (kernel_grid_of(h->k) | h->m.tiled) & axes;
  for (int axis = 0; axis < h->k->program->axes.count; axis++) {
    if (!axis_in(cut, axis)) continue;
    ir index = axis_in(h->m.tiled, axis) ? h->tile_first : h->at.index[axis];
    ir first = int_compare(e, LLVMIntEQ, index, integer(e, 0));
    here = bit_and(e, here, first);
  }
  return here;
}

// Only the first of the instances that hold the same state writes it; parts of one that is partial
// are added.
ir frame_writes_state(kernel_frame *h, const tile_place *place) {
  return frame_is_first(h, ~plan_own_axes(place));
}

view frame_at_time(kernel_frame *h, view v, ir t, ir stride) {
  v.base = element(h->e, view_type(h->e, &v), v.base, int_mul(h->e, t, stride));
  return v;
}
