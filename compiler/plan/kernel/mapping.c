// How the axes of a kernel become instances, lanes and tile axes, and their order in memory.
#include "compiler/plan/kernel_plan.h"

// Programs of more values are compiled for one vector of lanes, and for masked lanes only, to keep
// the code short.
enum { MANY_VALUES = 200 };

enum { RANKS_PER_AXIS = PLAN_MAX_AXES, TIME_RANK = PLAN_MAX_AXES };

bool kernel_is_of_sequences(const kernel *k, int axis) {
  return k->sequences && axis == k->sequences_axis;
}

// Entries along axes that are not cut. A run-time size counts as a large one.
static int64_t entries_of(const kernel *k, axis_set axes) {
  int64_t entries = 1;
  axes &= ~kernel_grid_of(k);
  for (int axis = 0; axis < k->program->axes.count; axis++) {
    int64_t size = k->program->axes.items[axis].size;
    if (axis_in(axes, axis)) entries *= size == TILE_RUNTIME_SIZE ? TILE_TYPICAL_SIZE : size;
  }
  return entries;
}

// Elements of all states per lane, which decide how many vectors of lanes are computed together.
static int64_t lane_state_points(const kernel *k) {
  int64_t points = 0;
  vec_each(const tile_place, place, k->program->arguments)
    if (place->role == TILE_STATE || place->role == TILE_D_NEXT_STATE)
      points += entries_of(k, tile_place_axes(k->program, place));
  return points;
}

// Numbers of a lane that every step reads: states, and what is made before the first step.
static int64_t numbers_of_step(const kernel *k) {
  const tile_program *p = k->program;
  const tile_section *sections = tile_sections(p->arena, p);
  bool *read = ARENA_ARRAY(p->arena, bool, p->values.count);
  int64_t numbers = 0;
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    for (int x = 0; sections[i] == TILE_BODY && x < tile_arity(v->op); x++) read[v->args[x]] = true;
  }
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    bool state = v->op == TILE_ARGUMENT && !tile_place_of(p, v)->time;
    if (read[i] && (state || sections[i] == TILE_PROLOGUE) && axis_in(v->axes, k->lane_axis))
      numbers += entries_of(k, v->axes);
  }
  return numbers;
}

// Lanes share what has none, and the work around a loop over the state. States without such a loop
// are in registers; what a loop reads stays in the nearest cache.
static int vectors_of_lanes(const mapping *m) {
  enum { FEW = 2, LOOP = 8, CACHE_BYTES = 32 << 10 };
  const kernel *k = m->kernel;
  if (kernel_is_long(k) || k->program->form == TILE_CHUNK) return 1;
  int64_t points = lane_state_points(k), bytes = numbers_of_step(k) * m->width * (m->f64 ? 8 : 4);
  int vectors = points <= FEW || points >= LOOP ? 4 : 2;
  while (vectors > 1 && bytes * vectors > CACHE_BYTES) vectors /= 2;
  return vectors;
}

bool kernel_shares_work(const kernel *k) {
  if (k->program->form != TILE_CHUNK || k->lane_axis >= 0 || !k->grid_count) return false;
  int inner = k->grid_axes[k->grid_count - 1];
  vec_each(const tile_value, v, k->program->values)
    if (v->op == TILE_DOT && !axis_in(v->axes, inner)) return true;
  return false;
}

bool kernel_is_long(const kernel *k) {
  return k->program->values.count + (k->recompute ? k->recompute->values.count : 0) > MANY_VALUES;
}

static bool fills_no_vector(const mapping *m, int axis) {
  int64_t size = m->kernel->program->axes.items[axis].size;
  return size > 0 && size < 8;
}

// Host: such an axis is not the contiguous axis of a tile, whatever the layout of the caller's
// tensors. Steps in lanes, whose vectors are along another axis, save what chunks read.
static bool is_narrow(const mapping *m, int axis) {
  bool vectors_elsewhere = m->kernel->program->form == TILE_CHUNK || m->lane_axis >= 0;
  return m->kind == MAP_LANES && vectors_elsewhere && fills_no_vector(m, axis);
}

// GPU: nor is it where it is outside the contiguous axis of all tiles of the caller. Lanes would
// read numbers that lie apart.
static bool is_narrow_outside(const mapping *m, int axis) {
  const typed_body *body = &m->kernel->recurrence->body;
  bool found = false;
  if (m->kind != MAP_BLOCK || m->kernel->program->form != TILE_CHUNK || !fills_no_vector(m, axis))
    return false;
  vec_each(const typed_tensor, t, body->tensors) {
    int last = -1;
    for (int x = 0; x < t->axis_count; x++)
      if (!axis_in(m->instance, t->axes[x])) last = t->axes[x];
    bool beside = t->axis_set & ~m->instance & ~axis_bit(axis);
    if (!axis_in(t->axis_set, axis) || !beside) continue;
    if (last == axis) return false;
    found = true;
  }
  return found;
}

// Is the axis never contiguous in a tensor, but outside a contiguous axis in some? For steps, and
// for the host's chunks without products.
static bool is_outer_axis(const mapping *m, int axis) {
  const typed_body *body = &m->kernel->recurrence->body;
  const kernel *k = m->kernel;
  bool steps = k->program->form == TILE_STEP || (m->kind == MAP_LANES && !k->beside_products);
  if (m->kind == MAP_THREADS || m->lane_axis >= 0 || !steps) return false;
  bool found = false;
  vec_each(const typed_tensor, t, body->tensors) {
    if (!axis_in(t->axis_set, axis) || t->axis_count < 2) continue;
    if (t->axes[t->axis_count - 1] == axis) return false;
    found |= !is_narrow(m, t->axes[t->axis_count - 1]);
  }
  return found;
}

static bool axis_comes_first(const mapping *m, int axis) {
  return is_narrow(m, axis) || is_narrow_outside(m, axis) ||
         (m->kernel->program->form == TILE_STEP && is_outer_axis(m, axis));
}

static int rank_of_body_axis(const mapping *m, int axis) {
  const kernel *k = m->kernel;
  axis_set low = (kernel_grid_of(k) & ~kernel_tiled_axes(k)) | ~k->program->grid;
  return RANKS_PER_AXIS * (axis == k->program->time_axis   ? TIME_RANK
                           : axis == k->program->pair_axis ? TIME_RANK + 1
                           : axis_comes_first(m, axis)     ? axis
                           : is_outer_axis(m, axis)        ? TIME_RANK + 2 + axis
                           : axis_in(low, axis)            ? 2 * TIME_RANK + 2 + axis
                                                           : 3 * TIME_RANK + 2 + axis);
}

static bool is_local_axis(const tile_program *p, int axis) {
  return p->axes.items[axis].body_axis < 0 && axis != p->time_axis && axis != p->pair_axis;
}

// Orders the axes: narrow axes and time come first, axes that instances are cut from last. The
// outer and inner part of a split axis stand at its place. A value with both parts then has the
// layout of a value with the whole axis. No two ranks are equal: who asks for the last axis and who
// lays out memory find the same one.
static void rank_axes(mapping *m) {
  const tile_program *p = m->kernel->program;
  for (int axis = 0; axis < p->axes.count; axis++) {
    m->rank[axis] =
        is_local_axis(p, axis) ? RANKS_PER_AXIS * TIME_RANK + 1 : rank_of_body_axis(m, axis);
    if (kernel_is_of_sequences(m->kernel, axis)) m->rank[axis] = -1;
  }
  bool changed = true;
  for (int round = 0; changed && round < RANKS_PER_AXIS / 2; round++) {
    changed = false;
    vec_each(const tile_value, v, p->values) {
      if (v->op != TILE_SPLIT && v->op != TILE_JOIN) continue;
      int *outer = &m->rank[tile_outer_axis(v)], *inner = &m->rank[tile_inner_axis(v)];
      int whole = m->rank[tile_whole_axis(v)] / RANKS_PER_AXIS * RANKS_PER_AXIS;
      if (is_local_axis(p, tile_outer_axis(v)) && *outer <= whole)
        *outer = whole + 1, changed = true;
      if (is_local_axis(p, tile_inner_axis(v)) && *inner <= *outer)
        *inner = *outer + 1, changed = true;
    }
  }
  for (int axis = 0; axis < p->axes.count; axis++)
    m->rank[axis] = PLAN_MAX_AXES * m->rank[axis] + axis;
}

// LLVM loads and stores a vector of 3, 5, 6 or 7 numbers in pieces. A short lane axis that ends in
// such a vector gets more lanes, which a mask hides.
static int lanes_of_short_axis(const mapping *m, codegen_clone clone) {
  int lanes = m->kernel->lane_block;
  if (!clone_targets[clone].masks) return lanes;
  for (int rest = lanes % m->width; rest & (rest - 1); rest = lanes % m->width) lanes++;
  return lanes;
}

static void map_to_lanes(mapping *m, codegen_clone clone) {
  const kernel *k = m->kernel;
  if (k->lane_axis >= 0) {
    int lanes = m->width * vectors_of_lanes(m);
    m->lanes = lanes < k->lane_block ? lanes : lanes_of_short_axis(m, clone);
  }
  if (kernel_shares_work(k) && !k->recompute) {
    m->chunks_outside = true;
    m->shared_axis = k->grid_axes[k->grid_count - 1];
  }
}

mapping kernel_mapping_of(const kernel *k, codegen_clone clone, number_type dtype) {
  bool f64 = dtype == NUMBER_F64;
  mapping m = {
      .kernel = k, .dtype = dtype, .f64 = f64, .lane_axis = k->lane_axis, .shared_axis = -1};
  m.width = codegen_lanes(clone, f64);
  m.pairs = clone_targets[clone].pairs && dtype == NUMBER_BF16;
  m.instance = kernel_instances(k);
  if (clone == CLONE_GPU)
    kernel_map_to_threads(&m);
  else
    map_to_lanes(&m, clone);
  rank_axes(&m);
  return m;
}
