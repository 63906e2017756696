// Tensors of the caller as views, for the instance at hand.
//
//   slot x {data, strides}   ->   view: base of the batch entry, one stride for each axis
#include <stddef.h>
#include <string.h>

#include "compiler/kernel/frame.h"
#include "compiler/lower/gpu/nests.h"

// ---- reading the frame ----

ir frame_field(kernel_frame *h, ir base, int64_t offset, LLVMTypeRef type) { return load_field(h->e, base, offset, type); }

ir frame_slot_field(kernel_frame *h, tile_role role, const tile_place *place, size_t offset, LLVMTypeRef type) {
  int slot = kernel_find_slot(h->described, role, place->tensor, place->lag);
  if (slot < 0) ICE("kernel", "%s has no slot for %s", h->symbol, place->name ? place->name : "?");
  size_t bytes = h->e->gpu ? sizeof(rec_gpu_slot) : sizeof(rec_slot);
  return frame_field(h, h->slots, slot * (int64_t)bytes + (int64_t)offset, type);
}

void frame_read_sizes(kernel_frame *h) {
  emitter *e = h->e;
  const tile_program *program = h->k->program;
  if (e->gpu) {
    LLVMTypeRef bytes = LLVMInt8TypeInContext(e->context);
    int64_t axes = h->k->recurrence->body.axes.count, first = sizeof(rec_gpu_frame);
    h->sizes = element(e, bytes, h->frame, integer(e, first));
    h->slots = element(e, bytes, h->frame, integer(e, first + 8 * axes));
  } else {
    h->time = frame_field(h, h->frame, offsetof(rec_frame, time), e->i64);
    h->sizes = frame_field(h, h->frame, offsetof(rec_frame, axis_size), e->pointer);
    h->slots = frame_field(h, h->frame, offsetof(rec_frame, slots), e->pointer);
  }
  for (int axis = 0; axis < program->axes.count; axis++) {
    const tile_axis *t = &program->axes.items[axis];
    h->axis_size[axis] =
        t->size != TILE_RUNTIME_SIZE ? integer(e, t->size) : frame_field(h, h->sizes, 8 * t->body_axis, e->i64);
    if (axis_in(h->m.parts, axis)) h->axis_size[axis] = integer(e, h->k->recurrence->body.axes.items[axis].size);
  }
}

// GPU: where this instance's tokens and its copy of a sum begin.
static ir gpu_offset(kernel_frame *h, tile_role role, const tile_place *place) {
  emitter *e = h->e;
  const codegen_slot *slot = &h->described->slots.items[kernel_find_slot(h->described, role, place->tensor, place->lag)];
  ir offset = integer(e, 0);
  if (slot->time) {
    ir stride = frame_slot_field(h, role, place, offsetof(rec_gpu_slot, time_stride), e->i64);
    offset = int_mul(e, h->entry_step, stride);
  }
  if (!slot->accumulated) return offset;
  ir copy = slot->per_batch ? integer(e, 0) : h->copy;
  if (!slot->time) copy = int_add(e, int_mul(e, copy, h->tiles.count), h->slice.number);
  for (int i = 0; i < h->k->grid_count; i++) {
    int axis = h->k->grid_axes[i];
    if (!axis_in(slot->summed, axis)) continue;
    copy = int_add(e, int_mul(e, copy, h->axis_size[axis]), h->at.index[axis]);
  }
  if (h->k->lane_axis >= 0 && axis_in(slot->summed, h->k->lane_axis)) {
    ir up = int_add(e, h->axis_size[h->k->lane_axis], integer(e, h->k->lane_block - 1));
    ir blocks = int_div(e, up, integer(e, h->k->lane_block));
    copy = int_add(e, int_mul(e, copy, blocks), h->lane_block);
  }
  ir stride = frame_slot_field(h, role, place, offsetof(rec_gpu_slot, copy_stride), e->i64);
  return int_add(e, offset, int_mul(e, copy, stride));
}

// GPU: from the whole axis to the part of it at hand.
void frame_move_to_part(kernel_frame *h, view *v, axis_set axes) {
  emitter *e = h->e;
  for (int axis = 0; axis < h->k->program->axes.count; axis++) {
    if (axis_in(h->m.parts & axes, axis))
      v->base = element(e, view_type(e, v), v->base, int_mul(e, h->part_first, v->stride[axis]));
  }
}

// The tensor of a place for this batch entry; every axis has its stride.
view frame_view_stored_as(kernel_frame *h, tile_role role, const tile_place *place, ir *data, number_type stored) {
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
  ir offset = int_add(e, int_mul(e, h->batch, batch_stride), integer(e, place->component));
  if (place->lag >= 0) offset = int_add(e, offset, int_mul(e, integer(e, place->slot), stride));
  if (e->gpu) offset = int_add(e, offset, gpu_offset(h, role, place));
  v.base = element(e, view_type(e, &v), base, offset);
  frame_move_to_part(h, &v, kernel_axes_of_place(place));
  return v;
}

view frame_memory_view(kernel_frame *h, tile_role role, const tile_place *place, ir *data) {
  int slot = kernel_find_slot(h->described, role, place->tensor, place->lag);
  bool narrow = h->described->slots.items[slot].narrow;
  return frame_view_stored_as(h, role, place, data, narrow ? h->m.dtype : NUMBER_F32);
}

static bool is_kept(const tile_place *place) { return place->role == TILE_STASH || place->role == TILE_KEEP; }

static ir elements_ir(kernel_frame *h, axis_set axes) {
  ir n = integer(h->e, 1);
  for (int axis = 0; axis < h->k->program->axes.count; axis++) {
    if (axis_in(axes, axis)) n = int_mul(h->e, n, h->axis_size[axis]);
  }
  return n;
}

// Where a kept value or the part of a state begins in what is saved of a chunk.
static ir saved_offset(kernel_frame *h, const tile_place *place) {
  emitter *e = h->e;
  const typed_body *body = &h->k->recurrence->body;
  ir offset = integer(e, 0);
  const tile_place *kept;
  for (int i = 0; (kept = kernel_kept_value(h->k, i)); i++) {
    if (is_kept(place) && place->stash == i) return offset;
    ir n = elements_ir(h, kernel_axes_of_place(kept));
    offset = int_add(e, offset, int_mul(e, n, integer(e, h->k->chunk)));
  }
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    if (t->kind != TENSOR_STATE) continue;
    ir n = elements_ir(h, t->axis_set);
    if (i == place->tensor) return int_add(e, offset, int_mul(e, n, integer(e, place->component)));
    offset = int_add(e, offset, int_mul(e, n, integer(e, t->complex ? 2 : 1)));
  }
  for (int i = 0; i < body->lags.count; i++) {
    const typed_lag *lag = &body->lags.items[i];
    ir n = elements_ir(h, lag->axes);
    int64_t parts = lag->complex ? 2 : 1;
    if (i == place->lag) return int_add(e, offset, int_mul(e, n, integer(e, place->slot * parts + place->component)));
    offset = int_add(e, offset, int_mul(e, n, integer(e, kernel_parts_of_lag(lag))));
  }
  ICE("kernel", "%s is no state", place->name ? place->name : "?");
}

ir frame_saved_data(kernel_frame *h) {
  size_t offset = h->e->gpu ? offsetof(rec_gpu_frame, saved) : offsetof(rec_frame, saved);
  return frame_field(h, h->frame, (int64_t)offset, h->e->data);
}

static ir saved_batch_stride(kernel_frame *h) {
  size_t offset = h->e->gpu ? offsetof(rec_gpu_frame, saved_entry_stride) : offsetof(rec_frame, saved_batch_stride);
  return frame_field(h, h->frame, (int64_t)offset, h->e->i64);
}

// Where the states of a chunk begin.
static ir saved_chunk(kernel_frame *h, ir chunk) {
  emitter *e = h->e;
  if (e->gpu) {
    ir stride = frame_field(h, h->frame, offsetof(rec_gpu_frame, saved_chunk_stride), e->i64);
    return int_add(e, h->saved_first, int_mul(e, chunk, stride));
  }
  ir chunk_stride = frame_field(h, h->frame, offsetof(rec_frame, saved_chunk_stride), e->i64);
  return int_add(e, int_mul(e, h->batch, saved_batch_stride(h)), int_mul(e, chunk, chunk_stride));
}

view frame_saved_view(kernel_frame *h, const tile_place *place, ir chunk) {
  emitter *e = h->e;
  ir offset = int_add(e, saved_chunk(h, chunk), saved_offset(h, place));
  view v = {.base = element(e, e->real, frame_saved_data(h), offset)};
  axis_set axes = kernel_axes_of_place(place);
  if (is_kept(place)) axes |= axis_bit(h->k->program->time_axis);
  axis_set tile = plan_tile_axes(&h->m, axes);
  ir stride = integer(e, 1);
  int lane = h->k->gpu.lanes == LANES_OWN ? h->k->lane_axis : -1;
  if (lane >= 0 && axis_in(axes, lane)) {
    v.stride[lane] = stride;
    stride = h->axis_size[lane];
  }
  plan_buffer order = plan_buffer_for(&h->m, h->k->program, tile, false, -1);
  for (int i = order.axis_count - 1; i >= 0; i--) {
    int axis = order.axes[i];
    bool sequences = kernel_is_of_sequences(h->k, axis);
    v.stride[axis] = sequences ? saved_batch_stride(h) : stride;
    if (!sequences) stride = int_mul(e, stride, h->axis_size[axis]);
  }
  for (int axis = h->k->program->axes.count - 1; axis >= 0; axis--) {
    if (!axis_in(axes & h->m.instance, axis) || v.stride[axis]) continue;
    v.stride[axis] = stride;
    stride = int_mul(e, stride, h->axis_size[axis]);
  }
  frame_move_to_part(h, &v, axes);
  return v;
}

// ---- a part inside a function ----

ir frame_scratch_at(kernel_frame *h, ir base, int64_t offset) { return element(h->e, h->e->real, base, integer(h->e, offset)); }

// In the call's scratch: constant sizes first, then blocks of run-time size.
ir frame_located(kernel_frame *h, location at) {
  if (at.on_chip) return frame_scratch_at(h, h->chip, at.offset);
  if (at.sized < 0) return frame_scratch_at(h, h->scratch, at.offset);
  ir offset = integer(h->e, h->plan->shared_numbers);
  for (int i = 0; i < at.sized; i++) offset = int_add(h->e, offset, lower_extent(h->e, h->axis_size, h->plan->sized.items[i]));
  return element(h->e, h->e->real, h->scratch, offset);
}

static ir memory_for(kernel_frame *h, const plan_buffer *b, location at, const char *name) {
  if (at.offset >= 0) return frame_located(h, at);
  return stack_slot(h->e, LLVMArrayType2(h->e->real, (uint64_t)b->numbers.factor), name);
}

static ir buffer_memory(kernel_frame *h, const part *p, const plan_buffer *b) {
  if (b->stack) return memory_for(h, b, (location){-1, -1, false}, "buffer");
  int block = 0;
  while (p->p->scratch.items[block].sizes != b->numbers.sizes) block++;
  extent offset = {b->offset, b->numbers.sizes};
  return element(h->e, h->e->real, frame_located(h, p->at->scratch[block]), lower_extent(h->e, h->axis_size, offset));
}

// Buffers and variables: once in a function.
void frame_open_part(kernel_frame *h, part *p) {
  emitter *e = h->e;
  lower *l = &p->l;
  *l = (lower){.e = e, .m = &h->m, .p = p->p};
  l->target = e->gpu ? &gpu_nest_target : &host_nest_target;
  if (e->gpu) l->team = &h->team;
  int values = p->p->program->values.count, arguments = p->program->arguments.count;
  int results = p->program->results.count;
  if (h->team.shares) l->since = gpu_memory_since(h->a, p->p);
  l->arguments = ARENA_ARRAY(h->a, view, arguments);
  l->results = ARENA_ARRAY(h->a, result_target, results);
  l->carried = ARENA_ARRAY(h->a, view, p->carried.count);
  l->buffers = ARENA_ARRAY(h->a, ir, p->p->buffers.count);
  l->variables = ARENA_ARRAY(h->a, ir, values);
  l->memo = ARENA_ARRAY(h->a, ir, values);
  l->left = ARENA_ARRAY(h->a, left_factor *, values);
  p->memory = ARENA_ARRAY(h->a, view, arguments);
  p->time_stride = ARENA_ARRAY(h->a, ir, arguments);
  p->result_memory = ARENA_ARRAY(h->a, view, results);
  p->result_time_stride = ARENA_ARRAY(h->a, ir, results);
  memcpy(l->axis_size, h->axis_size, sizeof l->axis_size);
  for (int axis = 0; axis < p->program->axes.count; axis++) {
    if (axis_in(h->m.parts, axis)) l->axis_size[axis] = integer(e, p->program->axes.items[axis].size);
  }
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
    l->buffers[i] = e->gpu ? memory_for(h, b, p->at->buffer_at[i], "buffer") : buffer_memory(h, p, b);
  }
  for (int c = 0; c < p->carried.count && !h->m.chunks_outside; c++) {
    const plan_buffer *b = &p->carried.items[c].memory;
    l->carried[c] = buffer_view(l, b, memory_for(h, b, p->at->carried_at[c], "state"));
  }
  l->kept = ARENA_ARRAY(h->a, kept_sums, p->carried.count);
  for (int c = 0; c < p->carried.count; c++)
    if (p->p->carried[c].sums >= 0) gpu_kept_open(l, c);
  for (int i = 0; i < p->p->buffers.count && !h->m.chunks_outside; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (b->persistent && !h->plan->in_tiles) l->buffers[i] = memory_for(h, b, p->at->persistent_at[i], "sum");
  }
}

// Is this the first instance along all of these axes that are cut?
ir frame_is_first(kernel_frame *h, axis_set axes) {
  emitter *e = h->e;
  ir here = LLVMConstInt(e->i1, 1, 0);
  axis_set cut = (kernel_grid_of(h->k) | h->m.parts) & axes;
  for (int axis = 0; axis < h->k->program->axes.count; axis++) {
    if (!axis_in(cut, axis)) continue;
    ir index = axis_in(h->m.parts, axis) ? h->part_first : h->at.index[axis];
    ir first = int_compare(e, LLVMIntEQ, index, integer(e, 0));
    here = LLVMBuildAnd(e->b, here, first, "");
  }
  return here;
}

// Only the first of the instances that hold the same state writes it; parts of one that is partial are added.
ir frame_writes_state(kernel_frame *h, const tile_place *place) { return frame_is_first(h, ~plan_own_axes(place)); }

// A thread without an entry of the lane axis stores nothing.
ir frame_by_this_thread(kernel_frame *h, ir condition) {
  return h->m.kind == MAP_THREADS ? LLVMBuildAnd(h->e->b, condition, h->team.inside, "") : condition;
}

view frame_at_time(kernel_frame *h, view v, ir t, ir stride) {
  v.base = element(h->e, view_type(h->e, &v), v.base, int_mul(h->e, t, stride));
  return v;
}

// ---- copies of states ----

const kept_sums *frame_kept_of(const part *p, const view *v) {
  for (int c = 0; c < p->carried.count; c++)
    if (v == &p->l.carried[c] && p->p->carried[c].sums >= 0) return &p->l.kept[c];
  return NULL;
}

void frame_copy_state(kernel_frame *h, part *p, const tile_place *place, const view *from, const view *to) {
  p->l.outside = h->at;
  if (frame_kept_of(p, to)) {
    gpu_kept_load(&p->l, frame_kept_of(p, to), from, kernel_axes_of_place(place));
  } else if (frame_kept_of(p, from)) {
    gpu_kept_store(&p->l, frame_kept_of(p, from), to, kernel_axes_of_place(place));
  } else {
    lower_copy_view(&p->l, from, to, kernel_axes_of_place(place));
  }
}

typedef struct fill_data {
  const view *to;
  axis_set axes;
  double number;
} fill_data;

static void fill_point(lower *l, const place_in_loops *at, void *data) {
  const fill_data *f = data;
  view_store(l, f->to, at, f->axes, real_number(l->e, f->number, 0));
}

void frame_fill_state(kernel_frame *h, part *p, const tile_place *place, double number, const view *to) {
  fill_data f = {.to = to, .axes = kernel_axes_of_place(place), .number = number};
  p->l.outside = h->at;
  lower_copies(&p->l, plan_tile_axes(&h->m, f.axes), false, fill_point, &f);
}

void frame_show_states(kernel_frame *h, part *p) {
  p->l.outside = h->at;
  for (int c = 0; c < p->carried.count; c++) {
    const view *state = &p->l.carried[c];
    const kept_sums *kept = frame_kept_of(p, state);
    if (kept && p->p->carried[c].shown) gpu_kept_show(&p->l, kept, state, kernel_axes_of_place(&p->carried.items[c].place));
  }
}

view gpu_view(kernel_frame *h, lower *l, const plan_buffer *b, location at, ir rows_before) {
  emitter *e = h->e;
  ir base = frame_located(h, at);
  int64_t threads = h->m.kind == MAP_THREADS ? h->team.threads : 1;
  base = element(e, e->real, base, int_mul(e, rows_before, integer(e, threads)));
  if (threads > 1) base = element(e, e->real, base, h->team.thread);
  plan_buffer plain = *b;
  plain.stack = true;
  view v = buffer_view(l, &plain, base);
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) {
    if (v.stride[axis]) v.stride[axis] = int_mul(e, v.stride[axis], integer(e, threads));
  }
  return v;
}
