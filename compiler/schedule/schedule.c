/* Scheduling: which program computes a recurrence, which axes become instances, which axis lies in the lanes.
 *
 *   ssd (G, R, P = 64, N = 128)   ->   step form: instances G, R; lanes P
 *
 * An axis may be cut into instances if nothing in the forward program consumes it, and if no cotangent of a state gets
 * it where the state lacks it: the partial cotangents would have to be added up at every step.
 * The lane axis is one that every state has, so that the states stay in registers, contiguous in as many tensors of the
 * recurrence as possible.
 */
#include "kernel.h"

#include <string.h>

#include "../base/ice.h"

typedef struct scheduler {
  arena *a;
  const recurrence *r;
  schedule_options options;
  recurrence_kernels *out;
} scheduler;

static int64_t size_of(const scheduler *s, int axis) { return s->r->body.axes.items[axis].size; }

/* Axes that cotangents of states have and the states lack. */
static axis_set partial_axes(arena *a, const tile_program *backward) {
  const axis_set *partial = tile_partial(a, backward);
  axis_set axes = 0;
  for (int i = 0; i < backward->results.count; i++) {
    const tile_result *result = &backward->results.items[i];
    if (result->place.role != TILE_D_STATE) continue;
    axes |= partial[result->value];
    axes |= backward->values.items[result->value].axes & ~tile_place_axes(backward, &result->place);
  }
  return axes;
}

static axis_set state_axes(const scheduler *s) {
  axis_set common = ~(axis_set)0;
  for (int i = 0; i < s->r->body.tensors.count; i++) {
    const typed_tensor *t = &s->r->body.tensors.items[i];
    if (t->kind == TENSOR_STATE) common &= t->axis_set;
  }
  for (int i = 0; i < s->r->body.lags.count; i++) common &= s->r->body.lags.items[i].axes;
  return common;
}

/* Tensors in which the axis is contiguous count for it. */
static int contiguity(const scheduler *s, int axis) {
  int score = 0;
  for (int i = 0; i < s->r->body.tensors.count; i++) {
    const typed_tensor *t = &s->r->body.tensors.items[i];
    if (t->kind == TENSOR_STATE || !t->axis_count || t->complex) continue;
    if (t->axes[t->axis_count - 1] == axis) score += t->kind == TENSOR_PARAM ? 1 : 4;
  }
  return score;
}

enum { SMALLEST_LANES = 2 };

static int choose_lane(const scheduler *s, axis_set grid) {
  int best = -1, best_score = -1;
  axis_set candidates = grid & state_axes(s);
  for (int axis = 0; axis < s->r->body.axes.count; axis++) {
    int64_t size = size_of(s, axis);
    if (!axis_in(candidates, axis) || (size != TYPED_RUNTIME_SIZE && size < SMALLEST_LANES))
      continue;
    int score = 2 * contiguity(s, axis) + (size == TYPED_RUNTIME_SIZE || size >= 16);
    if (score >= best_score) best = axis, best_score = score;
  }
  return best;
}

/* A small axis is one block; otherwise whole vectors of every clone, several where there is enough to share out. */
static int lane_block(int64_t size) {
  if (size != TYPED_RUNTIME_SIZE && size <= 16) return (int)size;
  if (size == TYPED_RUNTIME_SIZE || size <= 64) return 16;
  return size < 512 ? 32 : 64;
}

static bool is_matrix_state(const scheduler *s, int lane) {
  for (int i = 0; i < s->r->body.tensors.count; i++) {
    const typed_tensor *t = &s->r->body.tensors.items[i];
    if (t->kind != TENSOR_STATE) continue;
    int64_t points = 1;
    for (int x = 0; x < t->axis_count; x++) {
      if (t->axes[x] != lane && size_of(s, t->axes[x]) > 0) points *= size_of(s, t->axes[x]);
    }
    if (points > 32) return true;
  }
  return false;
}

static void map_axes(const scheduler *s, kernel *k, axis_set grid, bool lanes) {
  k->lane_axis = lanes ? choose_lane(s, grid) : -1;
  k->lane_block = 1;
  if (k->lane_axis >= 0) {
    int64_t size = size_of(s, k->lane_axis);
    k->lane_block = lane_block(size);
    /* what the lanes share is computed once for a whole value axis */
    if (size > 0 && size <= 64 && is_matrix_state(s, k->lane_axis)) k->lane_block = (int)size;
  }
  for (int axis = 0; axis < s->r->body.axes.count; axis++) {
    if (axis_in(grid, axis) && axis != k->lane_axis) k->grid_axes[k->grid_count++] = axis;
  }
}

static void add_kernel(scheduler *s, kernel_kind kind, const char *suffix, kernel k) {
  k.kind = kind;
  k.recurrence = s->r;
  k.symbol = arena_printf(s->a, "rec_kernel_%s_%s", s->r->body.name, suffix);
  vec_push(s->a, &s->out->kernels, k);
}

static tile_program *checked(const scheduler *s, tile_program *program) {
  const char *wrong = program ? tile_verify(s->a, program) : NULL;
  if (wrong) ICE("schedule", "%s: %s", program->name, wrong);
  return program;
}

enum { STEP_CHUNK = 32 };

static void step_kernels(scheduler *s, tile_program *forward) {
  tile_gradient gradient = tile_differentiate(s->a, forward);
  checked(s, gradient.backward);
  checked(s, gradient.recompute);
  axis_set grid = forward->grid & ~partial_axes(s->a, gradient.backward);
  kernel k = {.chunk = s->out->chunk, .program = forward};
  map_axes(s, &k, grid, true);
  add_kernel(s, KERNEL_FORWARD, "forward", k);
  add_kernel(s, KERNEL_STEP, "step", k);
  add_kernel(s, KERNEL_STATES, "states", k);
  k.program = gradient.backward;
  k.recompute = gradient.recompute;
  add_kernel(s, KERNEL_BACKWARD, "backward", k);
}

recurrence_kernels *schedule_recurrence(arena *a, const recurrence *r, schedule_options options) {
  scheduler s = {.a = a, .r = r, .options = options};
  s.out = ARENA_NEW(a, recurrence_kernels);
  s.out->recurrence = r;
  s.out->chunk = options.chunk ? options.chunk : STEP_CHUNK;
  s.out->form = "step";
  s.out->why = "one step after another";
  step_kernels(&s, checked(&s, chunk_build_step(a, r)));
  return s.out;
}
