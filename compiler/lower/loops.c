// Loops over the axes of a nest. The host runs vectors along the last axis; a GPU divides the points among the threads of a
// block.
//
//   [t, N]     for t: for N by 16: ..                 threads: for point = thread; point < t N; point += threads: ..
#include "compiler/lower/gpu/nests.h"

loop_axes lower_by_rank(const lower *l, axis_set axes) {
  loop_axes list = {0};
  for (int axis = 0; axis < l->p->program->axes.count; axis++) {
    if (!axis_in(axes, axis)) continue;
    int at = list.count++;
    while (at > 0 && l->m->rank[list.axes[at - 1]] > l->m->rank[axis]) {
      list.axes[at] = list.axes[at - 1];
      at--;
    }
    list.axes[at] = axis;
  }
  return list;
}

enum { MOST_UNROLLED = 64 };

// A thread keeps arrays over tile axes in registers: then no index may be a variable.
static void end_tile_loop(lower *l, emit_loop *loop, int axis) {
  bool registers = l->m->kind == MAP_THREADS && !l->m->looped;
  int64_t size = known_size(l, axis);
  if (registers && size != TILE_RUNTIME_SIZE && size <= MOST_UNROLLED) {
    loop_end_unrolled(l->e, loop);
  } else {
    loop_end(l->e, loop);
  }
}

// Scalar loops over `axes` from position `from` on, then `inner`.
void lower_loops_over(lower *l, const loop_axes *axes, int from, place_in_loops *at, nest_function *inner, void *data) {
  if (from == axes->count) {
    inner(l, at, data);
    return;
  }
  int axis = axes->axes[from];
  emit_loop loop = loop_begin(l->e, integer(l->e, 0), l->axis_size[axis], 1, l->p->program->axes.items[axis].name);
  at->index[axis] = loop.index;
  lower_loops_over(l, axes, from + 1, at, inner, data);
  at->index[axis] = NULL;
  end_tile_loop(l, &loop, axis);
}

// The points of some axes among the threads of a block: pieces of `numbers` neighbours along the last one.
typedef struct shared_pieces {
  const loop_axes *axes;
  int numbers;
  ir sizes[PLAN_MAX_AXES], count;
} shared_pieces;

static shared_pieces pieces_of(lower *l, const loop_axes *axes, int numbers) {
  emitter *e = l->e;
  shared_pieces s = {.axes = axes, .numbers = numbers, .count = integer(e, 1)};
  for (int i = 0; i < axes->count; i++) {
    s.sizes[i] = l->axis_size[axes->axes[i]];
    if (i == axes->count - 1 && numbers > 1) s.sizes[i] = integer(e, known_size(l, axes->axes[i]) / numbers);
    s.count = int_mul(e, s.count, s.sizes[i]);
  }
  return s;
}

static void go_to_piece(lower *l, const shared_pieces *s, ir piece, place_in_loops *at) {
  emitter *e = l->e;
  int last = s->axes->count - 1;
  for (int i = last; i > 0; i--) {
    at->index[s->axes->axes[i]] = int_rem(e, piece, s->sizes[i]);
    piece = int_div(e, piece, s->sizes[i]);
  }
  at->index[s->axes->axes[0]] = piece;
  at->index[s->axes->axes[last]] = int_mul(e, at->index[s->axes->axes[last]], integer(e, s->numbers));
}

void lower_shared_pieces(lower *l, const loop_axes *axes, int numbers, place_in_loops *at, nest_function *inner, void *data) {
  emitter *e = l->e;
  shared_pieces s = pieces_of(l, axes, numbers);
  emit_loop loop = loop_begin(e, l->team->thread, s.count, l->team->threads, "point");
  go_to_piece(l, &s, loop.index, at);
  inner(l, at, data);
  for (int i = 0; i < axes->count; i++) at->index[axes->axes[i]] = NULL;
  loop_end(e, &loop);
}

void lower_shared_loops(lower *l, const loop_axes *axes, place_in_loops *at, nest_function *inner, void *data) {
  if (!l->team || !l->team->shares) {
    lower_loops_over(l, axes, 0, at, inner, data);
  } else if (axes->count) {
    lower_shared_pieces(l, axes, 1, at, inner, data);
  } else {
    // what all threads need: all compute it, one stores it
    l->only = int_compare(l->e, LLVMIntEQ, l->team->thread, integer(l->e, 0));
    inner(l, at, data);
    l->only = NULL;
  }
}

// GPU: with so many neighbours along the last axis in lanes.
void lower_wide_loops(lower *l, const loop_axes *axes, int lanes, place_in_loops *at, nest_function *inner, void *data) {
  if (lanes > 1) {
    at->vector_axis = axes->axes[axes->count - 1];
    at->lanes = lanes;
    lower_shared_pieces(l, axes, lanes, at, inner, data);
    at->vector_axis = -1;
    at->lanes = 0;
  } else {
    lower_shared_loops(l, axes, at, inner, data);
  }
}

nest_vectors lower_vectors_of(lower *l, int axis) {
  emitter *e = l->e;
  int64_t size = known_size(l, axis), width = l->m->width, whole = size / width * width;
  if (size == TILE_RUNTIME_SIZE) {
    ir rest = int_rem(e, l->axis_size[axis], integer(e, width));
    return (nest_vectors){int_sub(e, l->axis_size[axis], rest), (int)width, true, 0};
  }
  if (size <= 2 * width) whole = 0;
  return (nest_vectors){integer(e, whole), whole ? (int)width : 0, size > whole, (int)(size - whole)};
}

static void along_axis(lower *l, int axis, ir begin, ir end, int step, place_in_loops *at, nest_function *inner, void *data) {
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
  if (!lane) {
    at.vector_axis = -1;
    at.lanes = 0;
    at.mask = NULL;
  }
  return at;
}

typedef struct free_points {
  int vector;
  point_function *body;
  void *data;
} free_points;

static void free_point(lower *l, const place_in_loops *at, void *data) {
  free_points *f = data;
  place_in_loops inner = *at;
  if (f->vector >= 0) {
    lower_vectors_along(l, f->vector, &inner, f->body, f->data);
  } else {
    f->body(l, &inner, f->data);
  }
}

static void points_together(lower *l, axis_set axes, bool lane, point_function *body, void *data) {
  free_points f = {.vector = -1, .body = body, .data = data};
  loop_axes all = lower_by_rank(l, axes);
  if (!lane && all.count && !l->team) f.vector = all.axes[--all.count];
  place_in_loops at = lower_start_place(l, lane);
  lower_shared_loops(l, &all, &at, free_point, &f);
}

void lower_points(lower *l, axis_set axes, bool lane, point_function *body, void *data) {
  lower_barrier(l);
  gpu_forget_accesses(l, false);
  points_together(l, axes, lane, body, data);
}

void lower_copies_in_order(lower *l, const loop_axes *axes, point_function *body, void *data) {
  loop_axes outer = *axes;
  free_points f = {.vector = -1, .body = body, .data = data};
  if (outer.count && !l->team) f.vector = outer.axes[--outer.count];
  place_in_loops at = lower_start_place(l, false);
  int lanes = gpu_lanes(l, &outer);
  lower_wide_loops(l, &outer, lanes, &at, lanes > 1 ? body : free_point, lanes > 1 ? data : &f);
}

void lower_copy_loops(lower *l, axis_set axes, bool lane, point_function *body, void *data) {
  loop_axes all = lower_by_rank(l, axes);
  int lanes = lane ? 1 : gpu_lanes(l, &all);
  if (lanes == 1) {
    points_together(l, axes, lane, body, data);
    return;
  }
  place_in_loops at = lower_start_place(l, false);
  lower_wide_loops(l, &all, lanes, &at, body, data);
}

void lower_copies(lower *l, axis_set axes, bool lane, point_function *body, void *data) {
  lower_barrier(l);
  gpu_forget_accesses(l, false);
  lower_copy_loops(l, axes, lane, body, data);
}

// How many pieces each thread has at once, if all threads have as many.
static int pieces_at_once(const lower *l, const shared_pieces *s) {
  int64_t pieces;
  int most = MOST_POINTS_AT_ONCE;
  if (!int_known(s->count, &pieces)) return 1;
  while (most > 1 && pieces % ((int64_t)l->team->threads * most)) most /= 2;
  return most;
}

typedef struct single_point {
  points_function *body;
  void *data;
} single_point;

static void one_at_once(lower *l, const place_in_loops *at, void *data) {
  const single_point *s = data;
  s->body(l, at, 1, s->data);
}

void lower_copies_at_once(lower *l, axis_set axes, points_function *body, void *data) {
  emitter *e = l->e;
  if (!l->team->shares) {
    single_point single = {body, data};
    lower_copies(l, axes, false, one_at_once, &single);
    return;
  }
  place_in_loops at[MOST_POINTS_AT_ONCE];
  loop_axes all = lower_by_rank(l, axes);
  int lanes = gpu_lanes(l, &all), count = 1;
  lower_barrier(l);
  gpu_forget_accesses(l, false);
  shared_pieces s = pieces_of(l, &all, lanes);
  if (all.count) count = pieces_at_once(l, &s);
  emit_loop loop = loop_begin(e, l->team->thread, s.count, l->team->threads * count, "points");
  for (int i = 0; i < count; i++) {
    at[i] = lower_start_place(l, false);
    if (lanes > 1) at[i].vector_axis = all.axes[all.count - 1], at[i].lanes = lanes;
    if (all.count) go_to_piece(l, &s, int_add(e, loop.index, integer(e, (int64_t)i * l->team->threads)), &at[i]);
  }
  body(l, at, count, data);
  loop_end(e, &loop);
}
