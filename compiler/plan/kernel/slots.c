// Slots: the memory tensors of a kernel, and the values that it saves for each chunk.
//
//   arguments x, dt, h (before), results y, h (after)   ->   input x, input dt, state h, output y, next h
#include "compiler/plan/kernel_plan.h"

// ---- slots ----

bool kernel_in_memory(const kernel *k, const tile_place *place) {
  if (place->transfer) return k->segment && tile_role_is_result(place->role);
  switch (place->role) {
    case TILE_STASH:
    case TILE_KEEP: return false;
    case TILE_STATE:
    case TILE_NEXT_STATE:
      if (k->kind == KERNEL_SUMMARY && !k->segment) return place->lag >= 0;
      return k->kind != KERNEL_BACKWARD && k->kind != KERNEL_SUMMARY_BACK;
    case TILE_D_NEXT_STATE:
    case TILE_D_STATE: return k->kind != KERNEL_SUMMARY_BACK || k->segment;
    default: return true;
  }
}

int kernel_find_slot(const codegen_kernel *k, tile_role role, const tile_place *place) {
  for (int i = 0; i < k->slots.count; i++) {
    const codegen_slot *slot = &k->slots.items[i];
    if (slot->role != role || slot->tensor != place->tensor || slot->lag != place->lag) continue;
    if (slot->transfer == place->transfer && slot->source == place->source) return i;
  }
  return -1;
}

axis_set kernel_instances(const kernel *k) {
  axis_set axes = 0;
  for (int i = 0; i < k->grid_count; i++) axes |= axis_bit(k->grid_axes[i]);
  return axes;
}

axis_set kernel_grid_of(const kernel *k) {
  return kernel_instances(k) | (k->lane_axis >= 0 ? axis_bit(k->lane_axis) : 0);
}

// Is the tensor stored in 16 bits where tokens are?
static bool is_narrow(const recurrence *r, tile_role role, const tile_place *place) {
  if (place->tensor < 0) return true;
  const typed_tensor *t = &r->body.tensors.items[place->tensor];
  return !(role == TILE_D_INPUT || role == TILE_D_OUTPUT ? t->wide_gradient : t->wide);
}

bool kernel_stores_narrow(const mapping *m, const tile_place *place) {
  return number_is_narrow(m->dtype) && is_narrow(m->kernel->recurrence, place->role, place);
}

static void add_tensor_slot(arena *a, codegen_kernel *k, const tile_place *place, tile_role role) {
  if (kernel_find_slot(k, role, place) >= 0) return;
  codegen_slot slot = {.role = role, .tensor = place->tensor, .lag = place->lag};
  slot.transfer = place->transfer;
  slot.source = place->source;
  if (slot.transfer) slot.axes = tile_body_axes(place);
  bool state = role == TILE_STATE || role == TILE_NEXT_STATE || role == TILE_D_NEXT_STATE ||
               role == TILE_D_STATE;
  slot.per_batch = role != TILE_PARAM && role != TILE_D_PARAM;
  slot.time = slot.per_batch && !state;
  slot.written = tile_role_is_result(role);
  if (role == TILE_D_INPUT || role == TILE_D_PARAM) {
    slot.summed = kernel_grid_of(k->kernel) & ~tile_body_axes(place);
    slot.accumulated = slot.summed || !slot.per_batch;
  }
  slot.narrow = slot.time && !slot.accumulated && is_narrow(k->kernel->recurrence, role, place);
  slot.single = slot.time && slot.accumulated && kernel_takes_lanes_in_turn(k->kernel);
  if (role == TILE_D_STATE) {
    slot.summed = kernel_grid_of(k->kernel) & place->partial;
    slot.accumulated = slot.summed != 0;
  }
  vec_push(a, &k->slots, slot);
}

static void add_slots(arena *a, codegen_kernel *k, const tile_program *program) {
  vec_each(const tile_place, place, program->arguments)
    if (kernel_in_memory(k->kernel, place)) add_tensor_slot(a, k, place, place->role);
  for (int i = 0; i < program->results.count; i++) {
    const tile_place *place = &program->results.items[i].place;
    if (!kernel_in_memory(k->kernel, place)) continue;
    add_tensor_slot(a, k, place, place->role);
    if (place->transfer) continue;
    // a sequence of no steps copies its initial state
    if (place->role == TILE_NEXT_STATE) add_tensor_slot(a, k, place, TILE_STATE);
    if (place->role == TILE_D_STATE) add_tensor_slot(a, k, place, TILE_D_NEXT_STATE);
  }
}

bool kernel_is_saved(bool backward, const tile_place *place) {
  return (place->role == TILE_STATE && backward) || place->role == TILE_STASH;
}

static bool recurrence_has_states(const recurrence *r) {
  if (r->body.lags.count) return true;
  for (int i = 0; i < r->body.tensors.count; i++)
    if (r->body.tensors.items[i].kind == TENSOR_STATE) return true;
  return false;
}

// ---- what is saved of a chunk ----------------------------------------------------------------

// First the values that forward keeps, each [instance axes, step, tile axes]. Then each part of a
// state or lag buffer, with instance axes outside, tile axes, lanes inside.

axis_list kernel_saved_order(const mapping *m, axis_set axes) {
  const kernel *k = m->kernel;
  int lane = kernel_has_own_lanes(k) ? k->lane_axis : -1;
  axis_list order = {0}, tile = plan_by_rank(m, k->program, plan_tile_axes(m, axes));
  for (int axis = 0; axis < k->program->axes.count; axis++)
    if (axis_in(axes & m->instance, axis) && axis != lane) order.axes[order.count++] = axis;
  for (int i = 0; i < tile.count; i++) order.axes[order.count++] = tile.axes[i];
  if (lane >= 0 && axis_in(axes, lane)) order.axes[order.count++] = lane;
  return order;
}

int64_t kernel_parts_of_lag(const typed_lag *lag) { return lag->depth * (lag->complex ? 2 : 1); }

const tile_place *kernel_kept_value(const kernel *k, int number) {
  const tile_program *p = k->saved_with ? k->saved_with : k->program;
  if (p->form != TILE_CHUNK || k->recompute) return NULL;  // a recompute keeps values in scratch
  vec_each(const tile_place, place, p->arguments)
    if (place->role == TILE_STASH && place->stash == number) return place;
  for (int i = 0; i < p->results.count; i++) {
    const tile_place *place = &p->results.items[i].place;
    if (place->role == TILE_KEEP && place->stash == number) return place;
  }
  return NULL;
}

static codegen_bytes kept_numbers(arena *a, const kernel *k) {
  codegen_bytes count = {0};
  const tile_place *kept;
  for (int i = 0; (kept = kernel_kept_value(k, i)); i++)
    codegen_bytes_add(a, &count, (codegen_bytes_term){k->chunk, tile_body_axes(kept)});
  return count;
}

static int64_t slot_elements(axis_set axes, const int64_t *sizes) {
  int64_t n = 1;
  for (int axis = 0; axis < TYPED_MAX_AXES; axis++)
    if (axis_in(axes, axis)) n *= sizes[axis];
  return n;
}

int64_t codegen_saved_elements(const recurrence *r, const int64_t *axis_sizes) {
  int64_t total = 0;
  vec_each(const typed_tensor, t, r->body.tensors)
    if (t->kind == TENSOR_STATE)
      total += slot_elements(t->axis_set, axis_sizes) * (t->complex ? 2 : 1);
  vec_each(const typed_lag, lag, r->body.lags)
    total += slot_elements(lag->axes, axis_sizes) * kernel_parts_of_lag(lag);
  return total;
}

bool kernel_reads_saved(const kernel *k) {
  return kernel_goes_back(k->kind) && tile_takes(k->program, 1u << TILE_STATE | 1u << TILE_STASH);
}

codegen_kernel kernel_describe(arena *a, const kernel *k) {
  codegen_kernel d = {.kernel = k, .chunk = k->chunk, .kept = kept_numbers(a, k)};
  add_slots(a, &d, k->program);
  bool again = kernel_reads_saved(k);
  if (again && k->recompute) add_slots(a, &d, k->recompute);
  bool states = recurrence_has_states(k->recurrence);
  d.reads_saved = again && states;
  d.writes_saved =
      states && (k->kind == KERNEL_FORWARD || k->kind == KERNEL_STATES || k->kind == KERNEL_SLICE);
  d.time_splits = !states;
  d.combines = k->summary != NULL;
  return d;
}

bool kernel_is_complex(const kernel *k, const tile_place *place) {
  const typed_body *body = &k->recurrence->body;
  if (place->tensor >= 0) return body->tensors.items[place->tensor].complex;
  // values that forward keeps belong to no tensor and no lag
  return place->lag >= 0 && body->lags.items[place->lag].complex;
}
