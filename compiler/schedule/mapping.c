// Which axes of a kernel become instances, and which one lies in the lanes.
//
// An axis may be cut into instances if nothing in the forward program consumes it. A cotangent may
// get an axis that its state lacks. Its partial sums would have to be added up at every step, so
// such an axis is not cut. An axis of run-time size must be cut: there the partial cotangents are
// kept (tile_place.partial). Every large state has the lane axis, so that states stay in registers.
// The axis is contiguous in as many tensors of the recurrence as possible.
#include <math.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/schedule/scheduler.h"

int64_t scheduler_size(const scheduler *s, int axis) { return s->r->body.axes.items[axis].size; }

axis_set scheduler_partial_axes(arena *a, const tile_program *backward) {
  const axis_set *partial = tile_partial(a, backward);
  axis_set axes = 0;
  vec_each(const tile_result, result, backward->results) {
    if (result->place.role != TILE_D_STATE) continue;
    axes |= partial[result->value] & ~result->place.partial;
    axes |= backward->values.items[result->value].axes & ~tile_place_axes(backward, &result->place);
  }
  return axes;
}

static double numbers_along(const scheduler *s, axis_set axes) {
  double numbers = 1;
  for (int axis = 0; axis < s->r->body.axes.count; axis++) {
    int64_t size = axis_in(axes, axis) ? scheduler_size(s, axis) : 1;
    numbers *= size == TYPED_RUNTIME_SIZE ? TILE_TYPICAL_SIZE : (double)size;
  }
  return numbers;
}

static double tensor_numbers(const scheduler *s, const typed_tensor *t) {
  return numbers_along(s, t->axis_set);
}

static bool is_state_tensor(const typed_tensor *t) { return t->kind == TENSOR_STATE; }

axis_set scheduler_runtime_axes(const scheduler *s) {
  axis_set axes = 0;
  for (int axis = 0; axis < s->r->body.axes.count; axis++)
    if (scheduler_size(s, axis) == TYPED_RUNTIME_SIZE) axes |= axis_bit(axis);
  return axes;
}

// The axes that all states and lags have. A state of less than an eighth of the largest may lack an
// axis of fixed size: all lanes then compute it alike. scheduler_partial_axes leaves out the axes
// over which its cotangent would be a sum.
static axis_set state_axes(const scheduler *s) {
  enum { SMALL = 8 };
  const typed_body *body = &s->r->body;
  axis_set common = ~(axis_set)0, fixed = ~scheduler_runtime_axes(s);
  double largest = 0;
  for (int i = 0; i < body->tensors.count; i++)
    if (is_state_tensor(&body->tensors.items[i]))
      largest = fmax(largest, tensor_numbers(s, &body->tensors.items[i]));
  for (int i = 0; i < body->lags.count; i++)
    largest = fmax(largest, numbers_along(s, body->lags.items[i].axes));
  vec_each(const typed_tensor, t, body->tensors)
    if (is_state_tensor(t))
      common &= t->axis_set | (SMALL * tensor_numbers(s, t) > largest ? 0 : fixed);
  for (int i = 0; i < body->lags.count; i++) {
    axis_set axes = body->lags.items[i].axes;
    common &= axes | (SMALL * numbers_along(s, axes) > largest ? 0 : fixed);
  }
  return common;
}

// The last axis of a tensor that is no stride to lanes along the axis before it. A host vector
// gathers numbers that are further apart than shuffles reach; threads find them in a few lines.
static int long_last_axis(const scheduler *s, const typed_tensor *t) {
  int64_t stride = s->options.gpu ? 8 : 4;
  for (int x = t->axis_count - 1; x >= 0; x--) {
    int64_t size = scheduler_size(s, t->axes[x]);
    if (size == TYPED_RUNTIME_SIZE || size >= stride) return t->axes[x];
  }
  return t->axes[t->axis_count - 1];
}

// The elements of tensors in which the axis is contiguous, or nearly so.
static double contiguity(const scheduler *s, int axis) {
  double score = 0;
  vec_each(const typed_tensor, t, s->r->body.tensors) {
    if (t->kind == TENSOR_STATE || !t->axis_count || t->complex) continue;
    if (long_last_axis(s, t) == axis)
      score += (t->kind == TENSOR_PARAM ? 1 : 4) * tensor_numbers(s, t);
  }
  return score;
}

static bool is_matrix_state(const scheduler *s, int lane) {
  vec_each(const typed_tensor, t, s->r->body.tensors) {
    if (t->kind != TENSOR_STATE) continue;
    int64_t points = 1;
    for (int x = 0; x < t->axis_count; x++)
      if (t->axes[x] != lane && scheduler_size(s, t->axes[x]) > 0)
        points *= scheduler_size(s, t->axes[x]);
    if (points > 32) return true;
  }
  return false;
}

// Lanes along heads would each hold a whole matrix, and gather most tokens. Without a lane axis,
// each operation vectorises an axis of its own.
static bool is_beside_matrix(const scheduler *s, int axis) {
  double all = 0;
  for (int other = 0; other < s->r->body.axes.count; other++) all += contiguity(s, other);
  return is_matrix_state(s, axis) && contiguity(s, axis) < all / 4;
}

enum { SMALLEST_LANES = 2 };

int scheduler_lane(const scheduler *s, axis_set grid) {
  int best = -1;
  double best_score = -1;
  axis_set candidates = grid & state_axes(s);
  for (int axis = 0; axis < s->r->body.axes.count; axis++) {
    int64_t size = scheduler_size(s, axis);
    if (!axis_in(candidates, axis) || (size != TYPED_RUNTIME_SIZE && size < SMALLEST_LANES))
      continue;
    if (is_beside_matrix(s, axis)) continue;
    double score = 2 * contiguity(s, axis) + (size == TYPED_RUNTIME_SIZE || size >= 16);
    if (score >= best_score) best = axis, best_score = score;
  }
  return best;
}

// A small axis is one block; otherwise whole vectors of every clone, several where there is enough
// to share out.
static int lane_block(int64_t size) {
  if (size != TYPED_RUNTIME_SIZE && size <= 16) return (int)size;
  return size == TYPED_RUNTIME_SIZE || size >= 128 ? 64 : 32;
}

// What the lanes share is computed once for a whole value axis.
int scheduler_host_lanes(const scheduler *s, int lane) {
  int64_t size = scheduler_size(s, lane);
  return size > 0 && size <= 64 && is_matrix_state(s, lane) ? (int)size : lane_block(size);
}

// GPU: every thread keeps the state of its entry in registers.
int scheduler_threads(const scheduler *s, axis_set grid) {
  int lane = scheduler_lane(s, grid);
  return lane >= 0 && is_matrix_state(s, lane) ? -1 : lane;
}

// Whole warps: threads without an entry compute with the others, and store nothing.
static int threads_for(int64_t size) {
  enum { WARP = 32 };
  if (size == TYPED_RUNTIME_SIZE || size >= GPU_COST_LANE_THREADS) return GPU_COST_LANE_THREADS;
  return (int)((size + WARP - 1) / WARP * WARP);
}

axis_set schedule_tensor_axes(const typed_body *body) {
  axis_set axes = 0;
  for (int i = 0; i < body->tensors.count; i++) axes |= body->tensors.items[i].axis_set;
  return axes;
}

void scheduler_map_axes(const scheduler *s, kernel *k, axis_set grid, bool lanes) {
  bool gpu = s->options.gpu;
  grid &= schedule_tensor_axes(&s->r->body);
  k->lane_axis = !lanes ? -1 : gpu ? scheduler_threads(s, grid) : scheduler_lane(s, grid);
  k->lane_block = 1;
  if (k->lane_axis >= 0 && gpu)
    k->lane_block = threads_for(scheduler_size(s, k->lane_axis));
  else if (k->lane_axis >= 0)
    k->lane_block = scheduler_host_lanes(s, k->lane_axis);
  for (int axis = 0; axis < s->r->body.axes.count; axis++)
    if (axis_in(grid, axis) && axis != k->lane_axis) k->grid_axes[k->grid_count++] = axis;
}

void scheduler_add(scheduler *s, kernel_kind kind, const char *suffix, kernel k) {
  k.kind = kind;
  k.recurrence = s->r;
  k.without = s->options.without;
  k.symbol = arena_printf(s->a, "rec_kernel_%s_%s", s->r->body.name, suffix);
  vec_push(s->a, &s->out->kernels, k);
}

// The forms that the schedule has looked at have theirs.
tile_gradient scheduler_differentiated(const scheduler *s, const tile_program *forward) {
  for (int i = 0; i < s->out->alternatives.count; i++)
    if (s->out->alternatives.items[i].program == forward)
      return s->out->alternatives.items[i].gradient;
  return program_gradient(s->a, forward);
}
