// Loops over the axes of a nest: in order, and in vectors along one axis.
//
//   [t, N]     for t: for N by 16: ..
#include "compiler/lower/nest_target.h"

loop_axes lower_by_rank(const lower *l, axis_set axes) {
  return plan_by_rank(l->m, l->p->program, axes);
}

enum { MOST_UNROLLED = 64 };

// A thread keeps arrays over tile axes in registers: then no index may be a variable.
static void end_tile_loop(lower *l, emit_loop *loop, int axis) {
  bool registers = l->m->kind == MAP_THREADS && !l->m->looped;
  int64_t size = known_size(l, axis);
  if (registers && size != TILE_RUNTIME_SIZE && size <= MOST_UNROLLED)
    loop_end_unrolled(l->e, loop);
  else
    loop_end(l->e, loop);
}

void lower_loops_over(lower *l, const loop_axes *axes, int from, place_in_loops *at,
                      nest_function *inner, void *data) {
  if (from == axes->count) {
    inner(l, at, data);
    return;
  }
  int axis = axes->axes[from];
  emit_loop loop = loop_begin(l->e, integer(l->e, 0), l->axis_size[axis], 1,
                              l->p->program->axes.items[axis].name);
  at->index[axis] = loop.index;
  lower_loops_over(l, axes, from + 1, at, inner, data);
  at->index[axis] = NULL;
  end_tile_loop(l, &loop, axis);
}

nest_vectors lower_vectors_of(lower *l, int axis) {
  emitter *e = l->e;
  int64_t size = known_size(l, axis), width = l->m->width;
  if (l->side_by_side) width *= l->side_by_side;
  int64_t whole = size / width * width;
  if (size == TILE_RUNTIME_SIZE) {
    ir rest = int_rem_n(e, l->axis_size[axis], width);
    return (nest_vectors){int_sub(e, l->axis_size[axis], rest), (int)width, true, 0};
  }
  if (size <= 2 * l->m->width) whole = 0;
  return (nest_vectors){integer(e, whole), whole ? (int)width : 0, size > whole,
                        (int)(size - whole)};
}

static void along_axis(lower *l, int axis, ir begin, ir end, int step, place_in_loops *at,
                       nest_function *inner, void *data) {
  emit_loop loop = loop_begin(l->e, begin, end, step, l->p->program->axes.items[axis].name);
  at->index[axis] = loop.index;
  inner(l, at, data);
  loop_end(l->e, &loop);
}

void lower_vectors_along(lower *l, int axis, place_in_loops *at, nest_function *inner, void *data) {
  nest_vectors v = lower_vectors_of(l, axis);
  at->vector_axis = axis;
  if (v.lanes) {
    at->lanes = v.lanes;
    along_axis(l, axis, integer(l->e, 0), v.whole, v.lanes, at, inner, data);
  }
  at->lanes = v.rest_lanes;
  if (v.rest && v.rest_lanes) {
    at->index[axis] = v.whole;
    inner(l, at, data);
  } else if (v.rest) {
    at->vector_axis = -1;
    along_axis(l, axis, v.whole, l->axis_size[axis], 1, at, inner, data);
  }
  at->vector_axis = -1;
  at->lanes = 0;
  at->index[axis] = NULL;
}

place_in_loops lower_start_place(lower *l, bool lane) {
  place_in_loops at = l->outside;
  if (!lane) place_leave_lanes(&at);
  return at;
}

static void all_loops(lower *l, axis_set axes, bool lane, bool copies, point_function *body,
                      void *data) {
  loop_axes all = lower_by_rank(l, axes);
  if (lane) {
    place_in_loops at = lower_start_place(l, true);
    l->target->points(l, &all, &at, body, data);
  } else {
    l->target->vectors(l, &all, copies, body, data);
  }
}

void lower_point_loops(lower *l, axis_set axes, bool lane, point_function *body, void *data) {
  all_loops(l, axes, lane, false, body, data);
}

void lower_copy_loops(lower *l, axis_set axes, bool lane, point_function *body, void *data) {
  all_loops(l, axes, lane, true, body, data);
}

void lower_wait(lower *l) {
  if (l->target->wait) l->target->wait(l);
}

void lower_points(lower *l, axis_set axes, bool lane, point_function *body, void *data) {
  lower_wait(l);
  lower_point_loops(l, axes, lane, body, data);
}

void lower_copies(lower *l, axis_set axes, bool lane, point_function *body, void *data) {
  lower_wait(l);
  lower_copy_loops(l, axes, lane, body, data);
}
