/* Kernels: the loops over instances, lanes and time around the regions of a plan.
 *
 *   step form                            chunk form, nothing shared      chunk form, values shared by instances
 *     for instance (and lane vector):      for instance:                   for instance: load states
 *       load states; prologue                load states; prologue         for chunk:
 *       for t: body                          for chunk: body                 for instance: shared values if new; body
 *       store states; epilogue               store states; epilogue        for instance: store states; epilogue
 *
 * Backward runs over the chunks in reverse. In step form it first makes the steps of a chunk again from the saved state
 * at its start, keeping the states before each step and what the backward program asked to keep.
 */
#include "host.h"

#include <stdio.h>
#include <string.h>

#include "../../runtime/support/frame.h"
#include "../base/ice.h"
#include "lower.h"

/* ---- slots ---- */

static bool in_memory(const kernel *k, const tile_place *place) {
  switch (place->role) {
    case TILE_STASH:
    case TILE_KEEP: return false;
    case TILE_STATE: return k->kind != KERNEL_BACKWARD;
    case TILE_NEXT_STATE: return k->kind != KERNEL_BACKWARD;
    default: return true;
  }
}

static int find_slot(const codegen_kernel *k, tile_role role, int tensor, int lag) {
  for (int i = 0; i < k->slots.count; i++) {
    const codegen_slot *slot = &k->slots.items[i];
    if (slot->role == role && slot->tensor == tensor && slot->lag == lag) return i;
  }
  return -1;
}

static axis_set grid_of(const kernel *k) {
  axis_set axes = k->lane_axis >= 0 ? axis_bit(k->lane_axis) : 0;
  for (int i = 0; i < k->grid_count; i++) axes |= axis_bit(k->grid_axes[i]);
  return axes;
}

static axis_set axes_of_place(const tile_place *place) {
  axis_set axes = 0;
  for (int i = 0; i < place->axis_count; i++) axes |= axis_bit(place->axes[i]);
  return axes;
}

static void add_slot(arena *a, codegen_kernel *k, const tile_place *place, tile_role role) {
  if (find_slot(k, role, place->tensor, place->lag) >= 0) return;
  codegen_slot slot = {.role = role, .tensor = place->tensor, .lag = place->lag};
  bool state = role == TILE_STATE || role == TILE_NEXT_STATE || role == TILE_D_NEXT_STATE ||
               role == TILE_D_STATE;
  slot.per_batch = role != TILE_PARAM && role != TILE_D_PARAM;
  slot.time = slot.per_batch && !state;
  slot.written = tile_role_is_result(role);
  if (role == TILE_D_INPUT || role == TILE_D_PARAM) {
    slot.summed = grid_of(k->kernel) & ~axes_of_place(place);
    slot.accumulated = slot.summed || !slot.per_batch;
  }
  if (role == TILE_D_STATE) {
    slot.summed = grid_of(k->kernel) & place->partial;
    slot.accumulated = slot.summed != 0;
  }
  vec_push(a, &k->slots, slot);
}

static void add_slots(arena *a, codegen_kernel *k, const tile_program *program) {
  for (int i = 0; i < program->arguments.count; i++) {
    const tile_place *place = &program->arguments.items[i];
    if (in_memory(k->kernel, place)) add_slot(a, k, place, place->role);
  }
  for (int i = 0; i < program->results.count; i++) {
    const tile_place *place = &program->results.items[i].place;
    if (!in_memory(k->kernel, place)) continue;
    add_slot(a, k, place, place->role);
    /* a sequence of no steps hands its state through */
    if (place->role == TILE_NEXT_STATE) add_slot(a, k, place, TILE_STATE);
    if (place->role == TILE_D_STATE) add_slot(a, k, place, TILE_D_NEXT_STATE);
  }
}

static bool reads_states(const tile_program *program) {
  for (int i = 0; i < program->arguments.count; i++) {
    tile_role role = program->arguments.items[i].role;
    if (role == TILE_STATE || role == TILE_STASH) return true;
  }
  return false;
}

static bool has_states(const recurrence *r) {
  if (r->body.lags.count) return true;
  for (int i = 0; i < r->body.tensors.count; i++) {
    if (r->body.tensors.items[i].kind == TENSOR_STATE) return true;
  }
  return false;
}

codegen_kernel host_describe(arena *a, const kernel *k) {
  codegen_kernel d = {.kernel = k, .chunk = k->chunk};
  add_slots(a, &d, k->program);
  bool again = k->kind == KERNEL_BACKWARD && reads_states(k->program);
  if (again && k->recompute) add_slots(a, &d, k->recompute);
  bool states = has_states(k->recurrence);
  d.reads_saved = again && states;
  d.writes_saved = states && (k->kind == KERNEL_FORWARD || k->kind == KERNEL_STATES);
  d.time_splits = !states;
  return d;
}

/* ---- saved states: [part of state or lag buffer], each with instance axes outside, tile axes, lanes inside ---- */

static int64_t parts_of_lag(const typed_lag *lag) { return lag->depth * (lag->complex ? 2 : 1); }

static int64_t elements_of(axis_set axes, const int64_t *sizes) {
  int64_t n = 1;
  for (int axis = 0; axis < TYPED_MAX_AXES; axis++) {
    if (axis_in(axes, axis)) n *= sizes[axis];
  }
  return n;
}

int64_t codegen_saved_elements(const recurrence *r, const int64_t *axis_sizes) {
  int64_t total = 0;
  for (int i = 0; i < r->body.tensors.count; i++) {
    const typed_tensor *t = &r->body.tensors.items[i];
    if (t->kind == TENSOR_STATE)
      total += elements_of(t->axis_set, axis_sizes) * (t->complex ? 2 : 1);
  }
  for (int i = 0; i < r->body.lags.count; i++) {
    const typed_lag *lag = &r->body.lags.items[i];
    total += elements_of(lag->axes, axis_sizes) * parts_of_lag(lag);
  }
  return total;
}

/* ---- the mapping of a clone ---- */

static axis_set consumed_or_instance(const kernel *k) { return grid_of(k) | ~k->program->grid; }

/* Elements of all states per lane: decides how many lanes are computed together. */
static int64_t state_points(const kernel *k) {
  int64_t points = 0;
  for (int i = 0; i < k->program->arguments.count; i++) {
    const tile_place *place = &k->program->arguments.items[i];
    if (place->role != TILE_STATE && place->role != TILE_D_NEXT_STATE) continue;
    int64_t n = 1;
    for (int x = 0; x < place->axis_count; x++) {
      int axis = place->axes[x];
      if (!axis_in(grid_of(k), axis)) n *= k->program->axes.items[axis].size;
    }
    points += n;
  }
  return points;
}

static bool has_shared_work(const kernel *k, int inner) {
  for (int i = 0; i < k->program->values.count; i++) {
    const tile_value *v = &k->program->values.items[i];
    if (v->op == TILE_DOT && !axis_in(v->axes, inner)) return true;
  }
  return false;
}

/* Programs of many values are compiled for one vector of lanes, and for masked lanes only: code is what costs then. */
enum { MANY_VALUES = 200 };

static bool is_long(const kernel *k) {
  return k->program->values.count + (k->recompute ? k->recompute->values.count : 0) > MANY_VALUES;
}

static mapping mapping_of(const kernel *k, codegen_clone clone, bool f64) {
  mapping m = {.kernel = k, .f64 = f64, .lane_axis = k->lane_axis, .shared_axis = -1};
  m.width = codegen_lanes(clone, f64);
  m.registers = clone_targets[clone].vector_registers;
  for (int i = 0; i < k->grid_count; i++) m.instance |= axis_bit(k->grid_axes[i]);
  if (k->lane_axis >= 0) {
    int64_t points = state_points(k);
    int together = is_long(k) ? 1 : points > 32 || points <= 2 ? 4 : 2;
    m.lanes = m.width * together < k->lane_block ? m.width * together : k->lane_block;
  }
  int inner = k->grid_count ? k->grid_axes[k->grid_count - 1] : -1;
  if (k->program->form == TILE_CHUNK && inner >= 0 && has_shared_work(k, inner)) {
    m.chunks_outside = true;
    m.shared_axis = inner;
  }
  axis_set low = consumed_or_instance(k);
  for (int axis = 0; axis < k->program->axes.count; axis++) {
    m.rank[axis] = axis == k->program->time_axis   ? 0
                   : axis == k->program->pair_axis ? 1
                   : axis_in(low, axis)            ? 2 + axis
                                                   : 100 + axis;
  }
  return m;
}

/* ---- a kernel being lowered ---- */

typedef struct pad {
  int64_t offset, row; /* in scratch; numbers of a row */
  int64_t stride[PLAN_MAX_AXES];
} pad;

/* A program of the kernel (the program, or the recomputation of the steps of a chunk). */
typedef struct part {
  const tile_program *program;
  plan *p;
  carried_list carried;
  bool backward;
  int64_t scratch;                             /* where its buffers begin, numbers */
  int64_t *carried_offset, *persistent_offset; /* by carried value, by buffer; -1: on the stack */
  int64_t *history_offset; /* by argument: states before each step of the chunk */
  pad *pads;               /* by argument */
  lower l;
  view *memory;    /* by argument: tensor in memory, without time */
  ir *time_stride; /* by argument */
  view *result_memory;
  ir *result_time_stride;
} part;

typedef struct host {
  emitter *e;
  arena *a;
  const kernel *k;
  const codegen_kernel *described;
  const char *symbol;
  mapping m;
  part main, again;
  bool has_again;
  int64_t shared_numbers, instance_numbers; /* scratch: for the call, for each instance */
  int64_t *stash_offset, *stash_row;        /* by stash */
  plan_buffer *stashes;
  int stash_count;
  /* inside a function */
  ir frame, batch, scratch, time, local; /* local: scratch of the instance */
  ir axis_size[PLAN_MAX_AXES];
  place_in_loops at;
} host;

static int64_t rounded_up(int64_t n) { return (n + 15) / 16 * 16; }

static int64_t take(int64_t *total, int64_t numbers) {
  int64_t offset = *total;
  *total += rounded_up(numbers);
  return offset;
}

enum { STACK_VECTORS = 32 };

static bool fits_stack(const host *h, const plan_buffer *b) {
  return !h->m.chunks_outside && b->lane && b->numbers <= (int64_t)STACK_VECTORS * h->m.width;
}

/* Lanes of a state need not be in it: a buffer without the lane axis is small, too. */
static void place_carried(host *h, part *p) {
  int64_t *total = h->m.chunks_outside ? &h->instance_numbers : &h->shared_numbers;
  p->carried_offset = ARENA_ARRAY(h->a, int64_t, p->carried.count);
  for (int c = 0; c < p->carried.count; c++) {
    const plan_buffer *b = &p->carried.items[c].memory;
    p->carried_offset[c] = fits_stack(h, b) ? -1 : take(total, b->numbers);
  }
  p->persistent_offset = ARENA_ARRAY(h->a, int64_t, p->p->buffers.count);
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    p->persistent_offset[i] = -1;
    if (b->persistent && !fits_stack(h, b)) p->persistent_offset[i] = take(total, b->numbers);
  }
}

static bool is_complex(const host *h, const tile_place *place) {
  const typed_body *body = &h->k->recurrence->body;
  return place->tensor >= 0 ? body->tensors.items[place->tensor].complex
                            : body->lags.items[place->lag].complex;
}

/* Chunk form: rows beyond the end of the sequence are read from a copy that ends in zeros. Strides inside a row stay as
 * they are in memory where they are known. */
static void place_pads(host *h, part *p) {
  p->pads = ARENA_ARRAY(h->a, pad, p->program->arguments.count);
  if (p->program->form != TILE_CHUNK) return;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (!place->time) continue;
    int64_t stride = is_complex(h, place) ? 2 : 1, dense = 1, last = 0;
    for (int x = place->axis_count - 1; x >= 0; x--) {
      int axis = place->axes[x];
      int64_t size = p->program->axes.items[axis].size;
      if (!axis_in(h->m.instance, axis)) {
        p->pads[i].stride[axis] = stride > 0 ? stride : dense;
        last += (size - 1) * p->pads[i].stride[axis];
        dense *= size;
      }
      stride = stride > 0 && size != TILE_RUNTIME_SIZE ? stride * size : -1;
      if (stride < 0 && dense <= last) dense = last + 1;
    }
    p->pads[i].row = last + 1;
    p->pads[i].offset = take(&h->shared_numbers, (last + 1) * p->program->chunk);
  }
}

static void place_history(host *h, part *p) {
  p->history_offset = ARENA_ARRAY(h->a, int64_t, p->program->arguments.count);
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    p->history_offset[i] = -1;
    if (!h->has_again || p != &h->main || place->role != TILE_STATE) continue;
    for (int c = 0; c < h->again.carried.count; c++) {
      if (!plan_same_state(&h->again.carried.items[c].place, place)) continue;
      p->history_offset[i] =
          take(&h->shared_numbers, h->again.carried.items[c].memory.numbers * h->k->chunk);
    }
    if (p->history_offset[i] < 0)
      ICE("codegen", "no recomputation of state %s", place->name ? place->name : "?");
  }
}

static void place_stashes(host *h) {
  if (!h->has_again) return;
  const tile_program *program = h->k->recompute;
  for (int i = 0; i < program->results.count; i++) {
    const tile_place *place = &program->results.items[i].place;
    if (place->role == TILE_KEEP && place->stash >= h->stash_count)
      h->stash_count = place->stash + 1;
  }
  h->stash_offset = ARENA_ARRAY(h->a, int64_t, h->stash_count);
  h->stashes = ARENA_ARRAY(h->a, plan_buffer, h->stash_count);
  for (int i = 0; i < program->results.count; i++) {
    const tile_result *r = &program->results.items[i];
    if (r->place.role != TILE_KEEP) continue;
    axis_set axes = program->values.items[r->value].axes;
    bool lane = h->m.lane_axis >= 0 && axis_in(axes, h->m.lane_axis);
    plan_buffer b = plan_buffer_for(&h->m, program, plan_tile_axes(&h->m, axes), lane, -1);
    h->stashes[r->place.stash] = b;
    h->stash_offset[r->place.stash] = take(&h->shared_numbers, b.numbers * h->k->chunk);
  }
}

static void plan_part(host *h, part *p, const tile_program *program, bool backward) {
  p->program = program;
  p->backward = backward;
  p->carried = plan_carried(h->a, &h->m, program, backward);
  p->p = plan_program(h->a, &h->m, program, &p->carried);
  place_carried(h, p);
  place_pads(h, p);
}

static void plan_host(host *h) {
  h->has_again = h->k->kind == KERNEL_BACKWARD && h->k->program->form == TILE_STEP &&
                 reads_states(h->k->program);
  if (h->has_again) plan_part(h, &h->again, h->k->recompute, false);
  plan_part(h, &h->main, h->k->program, h->k->kind == KERNEL_BACKWARD);
  place_history(h, &h->main);
  place_stashes(h);
  h->main.scratch = take(&h->shared_numbers, h->main.p->scratch);
  if (h->has_again) h->again.scratch = take(&h->shared_numbers, h->again.p->scratch);
}

static codegen_bytes bytes_of(const host *h) {
  int64_t size = h->m.f64 ? 8 : 4;
  codegen_bytes bytes = {.constant = h->shared_numbers * size + 64,
                         .per_instance = h->instance_numbers * size};
  return bytes;
}

/* ---- reading the frame ---- */

static ir field(host *h, ir base, int64_t offset, LLVMTypeRef type) {
  emitter *e = h->e;
  ir at = element(e, LLVMInt8TypeInContext(e->context), base, integer(e, offset));
  return LLVMBuildLoad2(e->b, type, at, "");
}

static ir slot_field(host *h, tile_role role, const tile_place *place, size_t offset,
                     LLVMTypeRef type) {
  int slot = find_slot(h->described, role, place->tensor, place->lag);
  if (slot < 0) ICE("codegen", "%s has no slot for %s", h->symbol, place->name ? place->name : "?");
  ir slots = field(h, h->frame, offsetof(rec_frame, slots), h->e->pointer);
  return field(h, slots, (int64_t)(slot * (int)sizeof(rec_slot)) + (int64_t)offset, type);
}

static void read_sizes(host *h) {
  emitter *e = h->e;
  const tile_program *program = h->k->program;
  h->time = field(h, h->frame, offsetof(rec_frame, time), e->i64);
  ir sizes = field(h, h->frame, offsetof(rec_frame, axis_size), e->pointer);
  for (int axis = 0; axis < program->axes.count; axis++) {
    const tile_axis *t = &program->axes.items[axis];
    h->axis_size[axis] = t->size != TILE_RUNTIME_SIZE ? integer(e, t->size)
                                                      : field(h, sizes, 8 * t->body_axis, e->i64);
  }
}

/* The tensor of a place for this batch entry; every axis has its stride. */
static view memory_view(host *h, tile_role role, const tile_place *place, ir *data) {
  emitter *e = h->e;
  view v = {0};
  ir base = slot_field(h, role, place, offsetof(rec_slot, data), e->pointer);
  ir batch_stride = slot_field(h, role, place, offsetof(rec_slot, batch_stride), e->i64);
  if (data) *data = base;
  ir stride = integer(e, is_complex(h, place) ? 2 : 1);
  for (int x = place->axis_count - 1; x >= 0; x--) {
    v.stride[place->axes[x]] = stride;
    stride = int_mul(e, stride, h->axis_size[place->axes[x]]);
  }
  ir offset = int_add(e, int_mul(e, h->batch, batch_stride), integer(e, place->component));
  if (place->lag >= 0) offset = int_add(e, offset, int_mul(e, integer(e, place->slot), stride));
  v.base = element(e, e->real, base, offset);
  return v;
}

static axis_set state_axes(const tile_place *place) { return axes_of_place(place); }

static ir elements_ir(host *h, axis_set axes) {
  ir n = integer(h->e, 1);
  for (int axis = 0; axis < h->k->program->axes.count; axis++) {
    if (axis_in(axes, axis)) n = int_mul(h->e, n, h->axis_size[axis]);
  }
  return n;
}

/* Where the part of a state begins among the saved ones. */
static ir saved_offset(host *h, const tile_place *place) {
  emitter *e = h->e;
  const typed_body *body = &h->k->recurrence->body;
  ir offset = integer(e, 0);
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
    if (i == place->lag)
      return int_add(e, offset, int_mul(e, n, integer(e, place->slot * parts + place->component)));
    offset = int_add(e, offset, int_mul(e, n, integer(e, parts_of_lag(lag))));
  }
  ICE("codegen", "%s is no state", place->name ? place->name : "?");
}

static view saved_view(host *h, const tile_place *place, ir chunk) {
  emitter *e = h->e;
  ir base = field(h, h->frame, offsetof(rec_frame, saved), e->pointer);
  ir batch_stride = field(h, h->frame, offsetof(rec_frame, saved_batch_stride), e->i64);
  ir chunk_stride = field(h, h->frame, offsetof(rec_frame, saved_chunk_stride), e->i64);
  ir offset = int_add(e, int_mul(e, h->batch, batch_stride), int_mul(e, chunk, chunk_stride));
  view v = {.base = element(e, e->real, base, int_add(e, offset, saved_offset(h, place)))};
  axis_set axes = state_axes(place), tile = plan_tile_axes(&h->m, axes);
  ir stride = integer(e, 1);
  if (h->m.lane_axis >= 0 && axis_in(axes, h->m.lane_axis)) {
    v.stride[h->m.lane_axis] = stride;
    stride = h->axis_size[h->m.lane_axis];
  }
  plan_buffer order = plan_buffer_for(&h->m, h->k->program, tile, false, -1);
  for (int i = order.axis_count - 1; i >= 0; i--) {
    v.stride[order.axes[i]] = stride;
    stride = int_mul(e, stride, h->axis_size[order.axes[i]]);
  }
  for (int i = h->k->grid_count - 1; i >= 0; i--) {
    int axis = h->k->grid_axes[i];
    if (!axis_in(axes, axis)) continue;
    v.stride[axis] = stride;
    stride = int_mul(e, stride, h->axis_size[axis]);
  }
  return v;
}

/* ---- a part inside a function ---- */

static ir scratch_at(host *h, ir base, int64_t offset) {
  return element(h->e, h->e->real, base, integer(h->e, offset));
}

static ir memory_for(host *h, const plan_buffer *b, ir base, int64_t offset, const char *name) {
  if (offset >= 0) return scratch_at(h, base, offset);
  return stack_slot(h->e, LLVMArrayType2(h->e->real, (uint64_t)b->numbers), name);
}

/* Buffers and variables: once in a function. */
static void open_part(host *h, part *p) {
  emitter *e = h->e;
  lower *l = &p->l;
  *l = (lower){.e = e, .m = &h->m, .p = p->p};
  int values = p->p->program->values.count, arguments = p->program->arguments.count;
  int results = p->program->results.count;
  l->arguments = ARENA_ARRAY(h->a, view, arguments);
  l->results = ARENA_ARRAY(h->a, result_target, results);
  l->carried = ARENA_ARRAY(h->a, view, p->carried.count);
  l->buffers = ARENA_ARRAY(h->a, ir, p->p->buffers.count);
  l->variables = ARENA_ARRAY(h->a, ir, values);
  l->memo = ARENA_ARRAY(h->a, ir, values);
  p->memory = ARENA_ARRAY(h->a, view, arguments);
  p->time_stride = ARENA_ARRAY(h->a, ir, arguments);
  p->result_memory = ARENA_ARRAY(h->a, view, results);
  p->result_time_stride = ARENA_ARRAY(h->a, ir, results);
  memcpy(l->axis_size, h->axis_size, sizeof l->axis_size);
  for (int id = 0; id < values; id++) {
    const plan_value *v = &p->p->values[id];
    if (v->held == HELD_SCALAR && v->needed) {
      l->variables[id] = stack_slot(e, real_type(e, v->lane ? h->m.lanes : 0), "value");
    }
  }
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (b->last < 0 || b->carried >= 0 || b->persistent) continue;
    l->buffers[i] = memory_for(h, b, h->scratch, b->stack ? -1 : p->scratch + b->offset, "buffer");
  }
  for (int c = 0; c < p->carried.count && !h->m.chunks_outside; c++) {
    const plan_buffer *b = &p->carried.items[c].memory;
    l->carried[c] = buffer_view(l, b, memory_for(h, b, h->scratch, p->carried_offset[c], "state"));
  }
  for (int i = 0; i < p->p->buffers.count && !h->m.chunks_outside; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (b->persistent) l->buffers[i] = memory_for(h, b, h->scratch, p->persistent_offset[i], "sum");
  }
}

/* Is this the first instance along all of these axes that are cut? */
static ir is_first(host *h, axis_set axes) {
  emitter *e = h->e;
  ir here = LLVMConstInt(e->i1, 1, 0);
  axis_set cut = grid_of(h->k) & axes;
  for (int axis = 0; axis < h->k->program->axes.count; axis++) {
    if (!axis_in(cut, axis)) continue;
    ir first = LLVMBuildICmp(e->b, LLVMIntEQ, h->at.index[axis], integer(e, 0), "");
    here = LLVMBuildAnd(e->b, here, first, "");
  }
  return here;
}

/* Instances that differ in an axis that neither the value nor its tensor has would store the same: the first does.
 * `partial` is that of the planned program: what is left of it comes from cotangents of states that are partial. */
static ir stores_here(host *h, const tile_program *program, const tile_result *r,
                      const axis_set *partial) {
  return is_first(
      h, ~(program->values.items[r->value].axes | axes_of_place(&r->place) | partial[r->value]));
}

/* Only the first of the instances that hold the same state writes it; parts of one that is partial are added. */
static ir writes_state(host *h, const tile_place *place) {
  return is_first(h, ~(state_axes(place) | place->partial));
}

/* Per-instance memory and the tensors of this instance: once the instance is known. */
static void open_instance(host *h, part *p) {
  emitter *e = h->e;
  lower *l = &p->l;
  l->outside = h->at;
  if (h->m.chunks_outside) {
    for (int c = 0; c < p->carried.count; c++) {
      l->carried[c] = buffer_view(l, &p->carried.items[c].memory,
                                  scratch_at(h, h->local, p->carried_offset[c]));
    }
    for (int i = 0; i < p->p->buffers.count; i++) {
      if (p->p->buffers.items[i].persistent)
        l->buffers[i] = scratch_at(h, h->local, p->persistent_offset[i]);
    }
  }
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    tile_role role = place->role;
    if (role == TILE_STATE || role == TILE_STASH || role == TILE_D_NEXT_STATE) continue;
    ir data;
    view v = memory_view(h, role, place, &data);
    if (role == TILE_D_OUTPUT) v.present = LLVMBuildIsNotNull(e->b, data, "");
    p->time_stride[i] = slot_field(h, role, place, offsetof(rec_slot, time_stride), e->i64);
    p->memory[i] = l->arguments[i] = v;
  }
  for (int c = 0; c < p->carried.count; c++) {
    int argument = p->p->carried[c].argument;
    if (argument >= 0) l->arguments[argument] = l->carried[c];
  }
  const axis_set *partial = tile_partial(h->a, p->p->program);
  for (int i = 0; i < p->program->results.count; i++) {
    const tile_result *r = &p->p->program->results.items[i];
    if (!in_memory(h->k, &r->place) || r->place.role == TILE_NEXT_STATE ||
        r->place.role == TILE_D_STATE)
      continue;
    ir data;
    p->result_memory[i] = memory_view(h, r->place.role, &r->place, &data);
    p->result_time_stride[i] =
        slot_field(h, r->place.role, &r->place, offsetof(rec_slot, time_stride), e->i64);
    result_target *target = &l->results[i];
    target->at = p->result_memory[i];
    target->active = LLVMBuildAnd(e->b, LLVMBuildIsNotNull(e->b, data, ""),
                                  stores_here(h, p->p->program, r, partial), "");
    int slot = find_slot(h->described, r->place.role, r->place.tensor, r->place.lag);
    target->add = h->described->slots.items[slot].accumulated;
  }
}

static view at_time(host *h, view v, ir t, ir stride) {
  v.base = element(h->e, h->e->real, v.base, int_mul(h->e, t, stride));
  return v;
}

/* ---- copies of states ---- */

typedef struct copy_data {
  const view *from, *to; /* from NULL: zeros */
  axis_set axes;
  bool add;
} copy_data;

static void copy_point(lower *l, const place_in_loops *at, void *data) {
  const copy_data *c = data;
  ir x = c->from ? view_load(l, c->from, at, c->axes) : real_number(l->e, 0, 0);
  if (c->add) x = LLVMBuildFAdd(l->e->b, view_load(l, c->to, at, c->axes), x, "");
  view_store(l, c->to, at, c->axes, x);
}

static void copy_or_add_state(host *h, part *p, const tile_place *place, const view *from,
                              const view *to, bool add) {
  copy_data c = {.from = from, .to = to, .axes = state_axes(place), .add = add};
  bool lane = h->m.lane_axis >= 0 && axis_in(c.axes, h->m.lane_axis);
  p->l.outside = h->at;
  lower_points(&p->l, plan_tile_axes(&h->m, c.axes), lane, copy_point, &c);
}

static void copy_state(host *h, part *p, const tile_place *place, const view *from,
                       const view *to) {
  copy_or_add_state(h, p, place, from, to, false);
}

static void load_states(host *h, part *p) {
  emitter *e = h->e;
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    ir data;
    view memory = memory_view(h, p->backward ? TILE_D_NEXT_STATE : TILE_STATE, place, &data);
    ir there =
        LLVMBuildAnd(e->b, LLVMBuildIsNotNull(e->b, data, ""), is_first(h, place->partial), "");
    emit_branch branch = branch_begin(e, there);
    copy_state(h, p, place, &memory, &p->l.carried[c]);
    branch_else(e, &branch);
    copy_state(h, p, place, NULL, &p->l.carried[c]);
    branch_end(e, &branch);
  }
}

static void store_states(host *h, part *p) {
  emitter *e = h->e;
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    tile_role role = p->backward ? TILE_D_STATE : TILE_NEXT_STATE;
    if (find_slot(h->described, role, place->tensor, place->lag) < 0) continue;
    ir data;
    view memory = memory_view(h, role, place, &data);
    ir wanted = LLVMBuildAnd(e->b, LLVMBuildIsNotNull(e->b, data, ""), writes_state(h, place), "");
    emit_branch branch = branch_begin(e, wanted);
    bool add = grid_of(h->k) & place->partial;
    copy_or_add_state(h, p, place, &p->l.carried[c], &memory, add);
    branch_end(e, &branch);
  }
}

static void save_states(host *h, part *p, ir chunk) {
  emitter *e = h->e;
  ir saved = field(h, h->frame, offsetof(rec_frame, saved), e->pointer);
  emit_branch branch = branch_begin(e, LLVMBuildIsNotNull(e->b, saved, ""));
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    view memory = saved_view(h, place, chunk);
    emit_branch first = branch_begin(e, writes_state(h, place));
    copy_state(h, p, place, &p->l.carried[c], &memory);
    branch_end(e, &first);
  }
  branch_end(e, &branch);
}

static void clear_sums(host *h, part *p) {
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (!b->persistent) continue;
    axis_set axes = 0;
    for (int x = 0; x < b->axis_count; x++) axes |= axis_bit(b->axes[x]);
    view to = buffer_view(&p->l, b, p->l.buffers[i]);
    copy_data c = {.to = &to, .axes = axes | (b->lane ? axis_bit(h->m.lane_axis) : 0)};
    lower_points(&p->l, axes, b->lane, copy_point, &c);
  }
}

/* ---- step form ---- */

static void set_step(host *h, part *p, ir t) {
  lower *l = &p->l;
  for (int i = 0; i < p->program->arguments.count; i++) {
    if (p->program->arguments.items[i].time && p->memory[i].base) {
      l->arguments[i] = at_time(h, p->memory[i], t, p->time_stride[i]);
    }
  }
  for (int i = 0; i < p->program->results.count; i++) {
    const tile_place *place = &p->program->results.items[i].place;
    if (place->time && p->result_memory[i].base) {
      l->results[i].at = at_time(h, p->result_memory[i], t, p->result_time_stride[i]);
    }
  }
}

enum { STEPS_AHEAD = 8, CACHE_LINE = 64 };

static void fetch_row(host *h, part *p, const tile_place *place, view tensor, ir t, ir stride,
                      bool write) {
  emitter *e = h->e;
  axis_set axes = axes_of_place(place);
  if (!place->time || !tensor.base || !axis_in(axes, h->m.lane_axis) || plan_tile_axes(&h->m, axes))
    return;
  view v = at_time(h, tensor, t, stride);
  ir address = view_address(&p->l, &v, &h->at, axes);
  for (int n = 0; n < h->m.lanes; n += CACHE_LINE / (h->m.f64 ? 8 : 4)) {
    ir line = element(e, e->real, address, integer(e, n));
    ir hints[] = {line, LLVMConstInt(e->i32, write, 0), LLVMConstInt(e->i32, 3, 0),
                  LLVMConstInt(e->i32, 1, 0)};
    call_intrinsic(e, "llvm.prefetch", &e->pointer, 1, hints, 4);
  }
}

/* Steps lie further apart than a page when there are many channels: nobody but us knows what is read next. */
static void fetch_ahead(host *h, part *p, ir t) {
  if (h->m.lane_axis < 0) return;
  ir ahead = int_add(h->e, t, integer(h->e, p->backward ? -STEPS_AHEAD : STEPS_AHEAD));
  for (int i = 0; i < p->program->arguments.count; i++) {
    fetch_row(h, p, &p->program->arguments.items[i], p->memory[i], ahead, p->time_stride[i], false);
  }
  for (int i = 0; i < p->program->results.count; i++) {
    fetch_row(h, p, &p->program->results.items[i].place, p->result_memory[i], ahead,
              p->result_time_stride[i], true);
  }
}

static void one_step(host *h, part *p, ir t) {
  fetch_ahead(h, p, t);
  set_step(h, p, t);
  lower_region(&p->l, REGION_BODY);
  lower_commit(&p->l);
}

static ir chunk_count(host *h) {
  emitter *e = h->e;
  ir up = int_add(e, h->time, integer(e, h->k->chunk - 1));
  return LLVMBuildSDiv(e->b, up, integer(e, h->k->chunk), "");
}

static void steps_forward(host *h) {
  emitter *e = h->e;
  part *p = &h->main;
  if (!h->described->writes_saved) {
    emit_loop loop = loop_begin(e, integer(e, 0), h->time, 1, "time");
    one_step(h, p, loop.index);
    loop_end(e, &loop);
    return;
  }
  emit_loop chunks = loop_begin(e, integer(e, 0), chunk_count(h), 1, "chunk");
  save_states(h, p, chunks.index);
  ir begin = int_mul(e, chunks.index, integer(e, h->k->chunk));
  ir end = int_min(e, int_add(e, begin, integer(e, h->k->chunk)), h->time);
  emit_loop loop = loop_begin(e, begin, end, 1, "time");
  one_step(h, p, loop.index);
  loop_end(e, &loop);
  loop_end(e, &chunks);
}

/* The view of row `step` of something kept for every step of a chunk. */
static view kept_row(host *h, const plan_buffer *b, int64_t offset, ir step, lower *l) {
  ir row = int_mul(h->e, step, integer(h->e, b->numbers));
  return buffer_view(l, b, element(h->e, h->e->real, scratch_at(h, h->scratch, offset), row));
}

static const plan_buffer *state_memory(const part *p, const tile_place *place) {
  for (int c = 0; c < p->carried.count; c++) {
    if (plan_same_state(&p->carried.items[c].place, place)) return &p->carried.items[c].memory;
  }
  ICE("codegen", "no state %s", place->name ? place->name : "?");
}

/* Steps of the chunk again: states before each of them and stashes go to scratch. */
static void recompute_step(host *h, ir t, ir step) {
  part *again = &h->again, *p = &h->main;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (place->role != TILE_STATE) continue;
    view row = kept_row(h, state_memory(again, place), p->history_offset[i], step, &again->l);
    for (int c = 0; c < again->carried.count; c++) {
      if (plan_same_state(&again->carried.items[c].place, place))
        copy_state(h, again, place, &again->l.carried[c], &row);
    }
  }
  for (int i = 0; i < again->program->results.count; i++) {
    const tile_place *place = &again->program->results.items[i].place;
    if (place->role != TILE_KEEP) continue;
    result_target *target = &again->l.results[i];
    *target = (result_target){.active = LLVMConstInt(h->e->i1, 1, 0)};
    target->at =
        kept_row(h, &h->stashes[place->stash], h->stash_offset[place->stash], step, &again->l);
  }
  one_step(h, again, t);
}

static void backward_step(host *h, ir t, ir step) {
  part *p = &h->main;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (place->role == TILE_STATE) {
      p->l.arguments[i] =
          kept_row(h, state_memory(&h->again, place), p->history_offset[i], step, &p->l);
    }
    if (place->role == TILE_STASH) {
      p->l.arguments[i] =
          kept_row(h, &h->stashes[place->stash], h->stash_offset[place->stash], step, &p->l);
    }
  }
  one_step(h, p, t);
}

static void load_saved(host *h, part *p, ir chunk) {
  for (int c = 0; c < p->carried.count; c++) {
    view memory = saved_view(h, &p->carried.items[c].place, chunk);
    copy_state(h, p, &p->carried.items[c].place, &memory, &p->l.carried[c]);
  }
}

static void steps_backward(host *h) {
  emitter *e = h->e;
  ir count = chunk_count(h);
  emit_loop chunks = loop_begin(e, integer(e, 0), count, 1, "chunk");
  ir chunk = int_sub(e, int_sub(e, count, integer(e, 1)), chunks.index);
  ir begin = int_mul(e, chunk, integer(e, h->k->chunk));
  ir steps = int_min(e, int_sub(e, h->time, begin), integer(e, h->k->chunk));
  if (h->has_again) {
    load_saved(h, &h->again, chunk);
    emit_loop again = loop_begin(e, integer(e, 0), steps, 1, "again");
    recompute_step(h, int_add(e, begin, again.index), again.index);
    loop_end(e, &again);
  }
  emit_loop back = loop_begin(e, integer(e, 0), steps, 1, "back");
  ir step = int_sub(e, int_sub(e, steps, integer(e, 1)), back.index);
  backward_step(h, int_add(e, begin, step), step);
  loop_end(e, &back);
  loop_end(e, &chunks);
}

/* ---- chunk form ---- */

typedef struct pad_data {
  const view *from, *to;
  axis_set axes;
  int t;
  ir rows;
} pad_data;

static void pad_point(lower *l, const place_in_loops *at, void *data) {
  const pad_data *d = data;
  emitter *e = l->e;
  if (at->vector_axis == d->t) {
    place_in_loops where = *at;
    where.mask = lane_mask(e, int_sub(e, d->rows, at->index[d->t]), at->lanes);
    view_store(l, d->to, at, d->axes, view_load(l, d->from, &where, d->axes));
    return;
  }
  emit_branch branch =
      branch_begin(e, LLVMBuildICmp(e->b, LLVMIntSLT, at->index[d->t], d->rows, ""));
  view_store(l, d->to, at, d->axes, view_load(l, d->from, at, d->axes));
  branch_else(e, &branch);
  view_store(l, d->to, at, d->axes, real_number(e, 0, 0));
  branch_end(e, &branch);
}

/* The argument at the rows of this chunk: in memory, or a copy that ends in zeros if rows are missing. */
static void set_rows(host *h, part *p, int i, ir begin, ir rows) {
  emitter *e = h->e;
  int t = p->program->time_axis;
  const tile_place *place = &p->program->arguments.items[i];
  const pad *d = &p->pads[i];
  view memory = at_time(h, p->memory[i], begin, p->time_stride[i]);
  ir present = memory.present;
  memory.present = NULL;
  memory.stride[t] = p->time_stride[i];
  ir inside = integer(e, 0);
  view copy = {.base = scratch_at(h, h->scratch, d->offset)};
  copy.stride[t] = integer(e, d->row);
  for (int x = 0; x < place->axis_count; x++) {
    int axis = place->axes[x];
    if (axis_in(h->m.instance, axis)) {
      inside = int_add(e, inside, int_mul(e, h->at.index[axis], memory.stride[axis]));
      memory.stride[axis] = NULL;
    } else {
      copy.stride[axis] = integer(e, d->stride[axis]);
    }
  }
  memory.base = element(e, e->real, memory.base, inside);
  ir available = present ? LLVMBuildSelect(e->b, present, rows, integer(e, 0), "") : rows;
  ir padded = LLVMBuildICmp(e->b, LLVMIntSLT, available, integer(e, p->program->chunk), "");
  emit_branch branch = branch_begin(e, padded);
  axis_set axes = tile_place_axes(p->program, place);
  pad_data data = {
      .from = &memory, .to = &copy, .axes = axes & ~h->m.instance, .t = t, .rows = available};
  p->l.outside = h->at;
  lower_points(&p->l, plan_tile_axes(&h->m, axes), false, pad_point, &data);
  branch_end(e, &branch);
  view *v = &p->l.arguments[i];
  *v = (view){.base = LLVMBuildSelect(e->b, padded, copy.base, memory.base, "")};
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) {
    if (!memory.stride[axis]) continue;
    int64_t x, y;
    bool same = int_known(memory.stride[axis], &x) && int_known(copy.stride[axis], &y) && x == y;
    v->stride[axis] =
        same ? memory.stride[axis]
             : LLVMBuildSelect(e->b, padded, copy.stride[axis], memory.stride[axis], "");
  }
}

static void set_chunk(host *h, part *p, ir chunk) {
  emitter *e = h->e;
  lower *l = &p->l;
  ir begin = int_mul(e, chunk, integer(e, p->program->chunk));
  ir rows = int_min(e, int_sub(e, h->time, begin), integer(e, p->program->chunk));
  l->rows = rows;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (place->time) set_rows(h, p, i, begin, rows);
    if (place->role == TILE_STATE && p->backward) l->arguments[i] = saved_view(h, place, chunk);
  }
  for (int i = 0; i < p->program->results.count; i++) {
    const tile_place *place = &p->program->results.items[i].place;
    if (!place->time || !p->result_memory[i].base) continue;
    result_target *target = &l->results[i];
    target->at = at_time(h, p->result_memory[i], begin, p->result_time_stride[i]);
    target->at.stride[p->program->time_axis] = p->result_time_stride[i];
    target->limit = LLVMBuildSelect(e->b, target->active, rows, integer(e, 0), "");
  }
}

static ir chunk_in_order(host *h, ir index) {
  if (!h->main.backward) return index;
  return int_sub(h->e, int_sub(h->e, chunk_count(h), integer(h->e, 1)), index);
}

static void chunk_body(host *h, ir chunk) {
  if (h->described->writes_saved) save_states(h, &h->main, chunk);
  lower_region(&h->main.l, REGION_BODY);
  lower_commit(&h->main.l);
}

static void chunks_inside(host *h) {
  emitter *e = h->e;
  emit_loop chunks = loop_begin(e, integer(e, 0), chunk_count(h), 1, "chunk");
  ir chunk = chunk_in_order(h, chunks.index);
  set_chunk(h, &h->main, chunk);
  chunk_body(h, chunk);
  loop_end(e, &chunks);
}

/* ---- instances ---- */

static void begin_instance(host *h) {
  if (h->has_again) open_instance(h, &h->again);
  open_instance(h, &h->main);
  load_states(h, &h->main);
  clear_sums(h, &h->main);
}

static void end_instance(host *h) {
  store_states(h, &h->main);
  lower_region(&h->main.l, REGION_EPILOGUE);
}

static void whole_instance(host *h) {
  if (h->has_again) open_part(h, &h->again);
  open_part(h, &h->main);
  begin_instance(h);
  if (h->has_again) lower_region(&h->again.l, REGION_PROLOGUE);
  lower_region(&h->main.l, REGION_PROLOGUE);
  if (h->k->program->form == TILE_CHUNK) {
    chunks_inside(h);
  } else if (h->main.backward) {
    steps_backward(h);
  } else {
    steps_forward(h);
  }
  end_instance(h);
}

/* Indices of instance number `instance`; returns the number of the lane block. */
static ir split_instance(host *h, ir instance) {
  emitter *e = h->e;
  ir block = integer(e, 0);
  if (h->m.lane_axis >= 0) {
    ir size = h->axis_size[h->m.lane_axis];
    ir up = int_add(e, size, integer(e, h->k->lane_block - 1));
    ir blocks = LLVMBuildSDiv(e->b, up, integer(e, h->k->lane_block), "");
    block = LLVMBuildSRem(e->b, instance, blocks, "");
    instance = LLVMBuildSDiv(e->b, instance, blocks, "");
  }
  for (int i = h->k->grid_count - 1; i >= 0; i--) {
    int axis = h->k->grid_axes[i];
    h->at.index[axis] = LLVMBuildSRem(e->b, instance, h->axis_size[axis], "");
    instance = LLVMBuildSDiv(e->b, instance, h->axis_size[axis], "");
  }
  return block;
}

static void start_place(host *h) {
  h->at = (place_in_loops){.vector_axis = -1};
  if (h->m.lane_axis >= 0) {
    h->at.vector_axis = h->m.lane_axis;
    h->at.lanes = h->m.lanes;
  }
}

/* void NAME(frame, batch, scratch, index of each grid axis.., first lane): one instance, all its lanes or some. */
static ir instance_function(host *h, const char *name, bool masked, LLVMTypeRef *type) {
  emitter *e = h->e;
  LLVMTypeRef types[3 + TYPED_MAX_AXES + 1] = {e->pointer, e->i64, e->pointer};
  int count = 3;
  for (int i = 0; i < h->k->grid_count; i++) types[count++] = e->i64;
  types[count++] = e->i64;
  *type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, (unsigned)count, 0);
  ir f = llvm_function(e->m, name, *type, e->clone);
  LLVMSetVisibility(f, LLVMDefaultVisibility);
  LLVMSetLinkage(f, LLVMInternalLinkage);
  llvm_flag(e->m, f, "noinline");
  host inner = *h;
  emitter own = *e;
  inner.e = &own;
  own.b = LLVMCreateBuilderInContext(e->context);
  emit_open(&own, f);
  inner.frame = LLVMGetParam(f, 0);
  inner.batch = LLVMGetParam(f, 1);
  inner.scratch = LLVMGetParam(f, 2);
  read_sizes(&inner);
  start_place(&inner);
  for (int i = 0; i < h->k->grid_count; i++) {
    inner.at.index[h->k->grid_axes[i]] = LLVMGetParam(f, (unsigned)(3 + i));
  }
  if (h->m.lane_axis >= 0) {
    ir lane = LLVMGetParam(f, (unsigned)(count - 1));
    inner.at.index[h->m.lane_axis] = lane;
    if (masked) {
      inner.at.mask =
          lane_mask(&own, int_sub(&own, inner.axis_size[h->m.lane_axis], lane), h->m.lanes);
    }
  }
  whole_instance(&inner);
  LLVMBuildRetVoid(own.b);
  LLVMDisposeBuilder(own.b);
  return f;
}

static void call_instance(host *h, ir f, LLVMTypeRef type, ir lane) {
  ir args[3 + TYPED_MAX_AXES + 1] = {h->frame, h->batch, h->scratch};
  int count = 3;
  for (int i = 0; i < h->k->grid_count; i++) args[count++] = h->at.index[h->k->grid_axes[i]];
  args[count++] = lane;
  LLVMBuildCall2(h->e->b, type, f, args, (unsigned)count, "");
}

static host host_for(arena *a, const codegen_kernel *k, const char *symbol, codegen_clone clone,
                     bool f64) {
  host h = {.a = a, .k = k->kernel, .described = k, .symbol = symbol};
  h.m = mapping_of(k->kernel, clone, f64);
  return h;
}

typedef struct instance_functions {
  ir whole, rest; /* rest NULL: there are no other lanes */
  LLVMTypeRef type;
  bool one_by_one; /* rest takes one lane */
} instance_functions;

static void call_rest(host *h, const instance_functions *f, ir begin, ir end) {
  if (!f->one_by_one) {
    call_instance(h, f->rest, f->type, begin);
    return;
  }
  emit_loop loop = loop_begin(h->e, begin, end, 1, "lane");
  call_instance(h, f->rest, f->type, loop.index);
  loop_end(h->e, &loop);
}

static void lanes_of_instance(host *h, ir block, const instance_functions *f) {
  emitter *e = h->e;
  ir size = h->axis_size[h->m.lane_axis];
  ir begin = int_mul(e, block, integer(e, h->k->lane_block));
  ir end = int_min(e, int_add(e, begin, integer(e, h->k->lane_block)), size);
  emit_loop loop = loop_begin(e, begin, end, h->m.lanes, "lanes");
  if (f->rest) {
    ir full =
        LLVMBuildICmp(e->b, LLVMIntSLE, int_add(e, loop.index, integer(e, h->m.lanes)), end, "");
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

/* The last lanes of an axis under a mask. The baseline has no masked memory instructions: there they go one by one. */
static void rest_function(host *h, instance_functions *f) {
  const char *name = arena_printf(h->a, "%s_rest", h->symbol);
  f->one_by_one = h->e->clone == CLONE_V2;
  if (!f->one_by_one) {
    f->rest = instance_function(h, name, true, &f->type);
    return;
  }
  host narrow = host_for(h->a, h->described, h->symbol, h->e->clone, h->e->f64);
  narrow.m.lanes = 1;
  narrow.e = h->e;
  plan_host(&narrow);
  f->rest = instance_function(&narrow, name, false, &f->type);
  if (narrow.shared_numbers > h->shared_numbers) h->shared_numbers = narrow.shared_numbers;
}

static bool has_rest(const host *h) {
  int64_t size;
  bool known = int_known(h->axis_size[h->m.lane_axis], &size);
  return !known || size % h->m.lanes || h->k->lane_block % h->m.lanes;
}

static void instances_outside(host *h, ir first, ir last) {
  emitter *e = h->e;
  instance_functions f = {0};
  bool rest = h->m.lane_axis >= 0 && has_rest(h),
       always_masked = rest && is_long(h->k) && e->clone != CLONE_V2;
  f.whole =
      instance_function(h, arena_printf(h->a, "%s_instance", h->symbol), always_masked, &f.type);
  if (rest && !always_masked) rest_function(h, &f);
  emit_loop loop = loop_begin(e, first, last, 1, "instance");
  ir block = split_instance(h, loop.index);
  if (h->m.lane_axis >= 0) {
    lanes_of_instance(h, block, &f);
  } else {
    call_instance(h, f.whole, f.type, integer(e, 0));
  }
  loop_end(e, &loop);
}

static void place_instance(host *h, ir instance, ir first) {
  emitter *e = h->e;
  split_instance(h, instance);
  ir offset = int_mul(e, int_sub(e, instance, first), integer(e, h->instance_numbers));
  h->local = element(e, e->real, scratch_at(h, h->scratch, h->shared_numbers), offset);
}

static void instances_inside(host *h, ir first, ir last) {
  emitter *e = h->e;
  part *p = &h->main;
  open_part(h, p);
  emit_loop loop = loop_begin(e, first, last, 1, "instance");
  place_instance(h, loop.index, first);
  begin_instance(h);
  loop_end(e, &loop);
  emit_loop chunks = loop_begin(e, integer(e, 0), chunk_count(h), 1, "chunk");
  ir chunk = chunk_in_order(h, chunks.index);
  loop = loop_begin(e, first, last, 1, "instance");
  place_instance(h, loop.index, first);
  open_instance(h, p);
  set_chunk(h, p, chunk);
  lower_region(&p->l, REGION_PROLOGUE);
  ir new_group = LLVMBuildICmp(e->b, LLVMIntEQ, h->at.index[h->m.shared_axis], integer(e, 0), "");
  new_group =
      LLVMBuildOr(e->b, new_group, LLVMBuildICmp(e->b, LLVMIntEQ, loop.index, first, ""), "");
  emit_branch branch = branch_begin(e, new_group);
  lower_region(&p->l, REGION_SHARED);
  branch_end(e, &branch);
  chunk_body(h, chunk);
  loop_end(e, &loop);
  loop_end(e, &chunks);
  loop = loop_begin(e, first, last, 1, "instance");
  place_instance(h, loop.index, first);
  open_instance(h, p);
  lower_region(&p->l, REGION_PROLOGUE);
  end_instance(h);
  loop_end(e, &loop);
}

codegen_bytes host_lower(emitter *e, const codegen_kernel *k, const char *symbol) {
  host h = host_for(e->a, k, symbol, e->clone, e->f64);
  h.e = e;
  plan_host(&h);
  LLVMTypeRef types[] = {e->pointer, e->i64, e->i64, e->i64, e->pointer};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, 5, 0);
  ir f = llvm_function(e->m, symbol, type, e->clone);
  emit_open(e, f);
  h.frame = LLVMGetParam(f, 0);
  h.batch = LLVMGetParam(f, 1);
  h.scratch = LLVMGetParam(f, 4);
  read_sizes(&h);
  start_place(&h);
  if (h.m.chunks_outside) {
    instances_inside(&h, LLVMGetParam(f, 2), LLVMGetParam(f, 3));
  } else {
    instances_outside(&h, LLVMGetParam(f, 2), LLVMGetParam(f, 3));
  }
  LLVMBuildRetVoid(e->b);
  return bytes_of(&h);
}

codegen_bytes host_scratch(arena *a, const kernel *k, codegen_clone clone, bool f64) {
  codegen_kernel described = host_describe(a, k);
  host h = host_for(a, &described, k->symbol, clone, f64);
  plan_host(&h);
  return bytes_of(&h); /* lanes one by one need no more than a vector of them */
}
