// How the threads of a block divide a nest, checked for plan/verify.c.
//
//   points [t 16,K 128] with a sum over K, 64 lanes     refused: a warp has 32
//   prefix along t, 4 warps                             refused: a warp makes all of a column
#include "compiler/plan/planner.h"
#include "compiler/plan/tensor_cores.h"

// Lanes of a warp, all threads, or a thread alone.
static bool shares_sums(const plan *p, const plan_nest *nest) {
  int lanes = nest->threads.lanes;
  if (lanes == PLAN_ALL_THREADS) return nest->over && !(nest->axes & ~nest->over);
  bool divides = lanes >= 1 && GPU_WARP_LANES % lanes == 0;
  // else lanes of a warp may have no point
  bool counted = plan_sized(p->program, nest->axes) || lanes == GPU_WARP_LANES;
  return divides && (lanes == 1 || (nest->over && nest->axes & ~nest->over && counted));
}

// The axis is the contiguous one of the points, or of what is summed.
static bool takes_neighbours(const mapping *m, const plan *p, const plan_nest *nest) {
  int axis = nest->threads.vector, width = nest->threads.width;
  if (width == 1) return true;
  if (width < 1 || axis < 0 || !axis_in(nest->axes, axis)) return false;
  bool summed = axis_in(nest->over, axis);
  for (int other = 0; other < p->program->axes.count; other++)
    if (axis_in(nest->axes, other) && axis_in(nest->over, other) == summed &&
        m->rank[other] > m->rank[axis])
      return false;
  int64_t size = plan_axis_size(p->program, axis);
  return size != TILE_RUNTIME_SIZE && size % width == 0 &&
         (axis != p->program->time_axis || !nest->results.count);
}

// Levels are made by one warp of a column, or by as many as there are.
static bool shares_levels(const mapping *m, const plan *p, const plan_nest *nest) {
  int levels =
      nest->kind == NEST_SEGMENT ? plan_levels_of(m, p->program, nest->values.items[0]) : 0;
  int warps = nest->threads.warps;
  return levels ? warps == 1 || warps == levels : warps == 0;
}

// So many steps that the lanes of a warp have whole rows and columns of their sums.
static bool shares_steps(const plan *p, const plan_nest *nest) {
  int steps = nest->threads.steps;
  if (!steps) return true;
  if (nest->kind != NEST_SEGMENT_ADJOINT || (steps != 4 && steps != 8)) return false;
  return plan_axis_size(p->program, tile_step_axis(tile_at(p->program, nest->values.items[0]))) %
             steps ==
         0;
}

const char *plan_wrong_threads(arena *a, const mapping *m, const plan *p, const plan_nest *nest) {
  const plan_threads *t = &nest->threads;
  if (!shares_levels(m, p, nest))
    return arena_printf(a, "%d warps cannot share its levels", t->warps);
  if (t->begin < 0 || t->begin >= m->threads / GPU_WARP_LANES)
    return arena_printf(a, "there is no warp %d", t->begin);
  if (!shares_steps(p, nest))
    return arena_printf(a, "a warp cannot make %d of its steps", t->steps);
  if (nest->kind != NEST_POINTS) return NULL;
  if (!shares_sums(p, nest)) return arena_printf(a, "%d lanes cannot share its sums", t->lanes);
  if (!takes_neighbours(m, p, nest))
    return arena_printf(a, "a thread cannot take %d neighbours at once", t->width);
  return NULL;
}
