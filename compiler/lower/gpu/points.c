// GPU: nests of elementwise values and reductions, divided among the threads of a block.
//
//   [t, N]             a thread takes a point, or four neighbours of N
//   sum over N, one    all threads share out N, and each gets the result of all
#include "compiler/lower/gpu/nests.h"

static bool stage(lower *l, const point_nest *n, int position, const place_in_loops *at) {
  int result = n->nest->results.items[position];
  if (!l->results[result].over_threads) return false;
  team_stage(l, n->nest, position, at, lower_value_at(l, at, l->p->program->results.items[result].value));
  return true;
}

// The unroll factor of a long sum.
static int turns_of_sum(const lower *l, const point_nest *n) {
  enum { TURNS_AT_ONCE = 4, LONG_SUM = 32 };
  int64_t size = l->team->shares && n->reduced.count == 1 ? known_size(l, n->reduced.axes[0]) : 0;
  return size >= LONG_SUM && size % TURNS_AT_ONCE == 0 ? TURNS_AT_ONCE : 0;
}

// A single point: the threads divide the reduced elements, and each gets the result.
static void reduce_together(lower *l, point_nest *n) {
  place_in_loops at = lower_start_place(l, false);
  lower_start_sums(l, n, n->sums, 0);
  place_in_loops inner = at;
  gpu_each_point(l, &n->reduced, &inner, lower_inner_point, n);
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_op op = value(l, n->nest->values.items[i])->op;
    if (tile_op_is(op, TILE_REDUCES)) store_real(l->e, team_all(l, op, load_real(l->e, n->sums[i], 0)), n->sums[i]);
  }
  l->only = int_compare(l->e, LLVMIntEQ, l->team->thread, integer(l->e, 0));
  lower_finish_sums(l, &at, n, &(nest_vectors){0});
  l->only = NULL;
}

// Lanes of a nest's loops. Rows of results end with the sequence, so time is not in lanes.
static int nest_lanes(const lower *l, const point_nest *n) {
  bool time = n->outer.count && n->outer.axes[n->outer.count - 1] == l->p->program->time_axis;
  return time && n->nest->results.count ? 1 : gpu_lanes(l, &n->outer);
}

void gpu_points(lower *l, const plan_nest *nest) {
  point_nest n = lower_open_points(l, nest, -1);
  n.stage = stage;
  n.turns = turns_of_sum(l, &n);
  if (l->team->shares && !n.outer.count && nest->over) {
    reduce_together(l, &n);
    return;
  }
  place_in_loops at = lower_start_place(l, nest->lane);
  int lanes = nest_lanes(l, &n);
  if (lanes > 1) n.vector = n.outer.axes[n.outer.count - 1];
  gpu_wide_loops(l, &n.outer, lanes, &at, lower_outer_point, &n);
  team_finish(l, nest);
}
