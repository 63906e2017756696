// GPU: loops whose points the threads of a block divide.
//
//   [t, N]     for point = thread; point < t N; point += threads: ..
//
// A thread may take neighbours along the last axis as lanes of a vector, if all threads still have work.
#include "compiler/lower/gpu/nests.h"

int64_t gpu_point_count(const lower *l, const loop_axes *axes) {
  int64_t points = 1;
  for (int i = 0; i < axes->count; i++) {
    if (known_size(l, axes->axes[i]) == TILE_RUNTIME_SIZE) return -1;
    points *= known_size(l, axes->axes[i]);
  }
  return points;
}

void gpu_go_to_point(lower *l, const loop_axes *axes, ir index, place_in_loops *at) {
  for (int i = axes->count - 1; i >= 0; i--) {
    ir size = l->axis_size[axes->axes[i]];
    at->index[axes->axes[i]] = int_rem(l->e, index, size);
    index = int_div(l->e, index, size);
  }
}

int gpu_lanes(const lower *l, const loop_axes *axes) {
  int64_t points = gpu_point_count(l, axes);
  if (!l->team->shares || !axes->count || points < 0) return 1;
  return plan_numbers_at_once(known_size(l, axes->axes[axes->count - 1]), points, l->team->threads);
}

// The points of these axes, divided into vectors of `numbers` neighbours along the last axis.
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

void gpu_shared_pieces(lower *l, const loop_axes *axes, int numbers, place_in_loops *at, nest_function *inner, void *data) {
  emitter *e = l->e;
  shared_pieces s = pieces_of(l, axes, numbers);
  emit_loop loop = loop_begin(e, l->team->thread, s.count, l->team->threads, "point");
  go_to_piece(l, &s, loop.index, at);
  inner(l, at, data);
  for (int i = 0; i < axes->count; i++) at->index[axes->axes[i]] = NULL;
  loop_end(e, &loop);
}

void gpu_pieces_of(lower *l, const loop_axes *axes, int numbers, piece_share share, place_in_loops *at, nest_function *inner,
                   void *data) {
  emitter *e = l->e;
  shared_pieces s = pieces_of(l, axes, numbers);
  int64_t count;
  bool even = int_known(s.count, &count) && !share.whole && count % share.step == 0;
  ir begin = even ? integer(e, 0) : share.first;
  ir end = share.whole ? integer(e, blocks_up(count, share.whole) * share.whole) : s.count;
  emit_loop loop = loop_begin(e, begin, end, share.step, "piece");
  ir piece = even ? int_add(e, loop.index, share.first) : loop.index;
  go_to_piece(l, &s, piece, at);
  inner(l, at, data);
  for (int i = 0; i < axes->count; i++) at->index[axes->axes[i]] = NULL;
  loop_end(e, &loop);
}

void gpu_each_point(lower *l, const loop_axes *axes, place_in_loops *at, nest_function *inner, void *data) {
  if (!l->team->shares) {
    lower_loops_over(l, axes, 0, at, inner, data);
  } else if (axes->count) {
    gpu_shared_pieces(l, axes, 1, at, inner, data);
  } else {
    // a value that all threads need: all compute it, one stores it
    l->only = int_compare(l->e, LLVMIntEQ, l->team->thread, integer(l->e, 0));
    inner(l, at, data);
    l->only = NULL;
  }
}

void gpu_wide_loops(lower *l, const loop_axes *axes, int lanes, place_in_loops *at, nest_function *inner, void *data) {
  if (lanes > 1) {
    at->vector_axis = axes->axes[axes->count - 1];
    at->lanes = lanes;
    gpu_shared_pieces(l, axes, lanes, at, inner, data);
    at->vector_axis = -1;
    at->lanes = 0;
  } else {
    gpu_each_point(l, axes, at, inner, data);
  }
}

void gpu_vectors(lower *l, const loop_axes *axes, bool copies, point_function *body, void *data) {
  place_in_loops at = lower_start_place(l, false);
  gpu_wide_loops(l, axes, copies ? gpu_lanes(l, axes) : 1, &at, body, data);
}

// Vectors that each thread takes at once, if all threads have as many.
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

void gpu_copies_at_once(lower *l, axis_set axes, points_function *body, void *data) {
  emitter *e = l->e;
  if (!l->team->shares) {
    single_point single = {body, data};
    lower_copies(l, axes, false, one_at_once, &single);
    return;
  }
  place_in_loops at[MOST_POINTS_AT_ONCE];
  loop_axes all = lower_by_rank(l, axes);
  int lanes = gpu_lanes(l, &all), count = 1;
  gpu_wait(l);
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
