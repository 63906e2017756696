// GPU: nests of elementwise values and reductions, divided among the threads of a block as the plan
// says (plan/gpu/threads.c).
//
//   [t, N]                      a thread takes a point, or neighbours of N
//   [t, K] over K, 16 lanes     lane i takes K = 4 i .., 4 (i + 16) ..; shuffles add up the lanes, the first one stores
//   sum over N, one             all threads share out N, and each gets the result of all
#include "compiler/lower/gpu/nests.h"

static bool stage_in_team(lower *l, const point_nest *n, int position, const place_in_loops *at) {
  int result = n->nest->results.items[position];
  if (!l->results[result].over_threads) return false;
  team_stage(l, n->staged, position, at,
             lower_value_at(l, at, l->p->program->results.items[result].value));
  return true;
}

// The unroll factor of a long sum.
static int turns_of_sum(const lower *l, const point_nest *n) {
  enum { TURNS_AT_ONCE = 4, LONG_SUM = 32 };
  int64_t size = l->team->shares && n->reduced.count == 1 ? known_size(l, n->reduced.axes[0]) : 0;
  return size >= LONG_SUM && size % TURNS_AT_ONCE == 0 ? TURNS_AT_ONCE : 0;
}

static bool is_sum(const lower *l, const plan_nest *nest, int position) {
  return tile_op_is(value(l, nest->values.items[position])->op, TILE_REDUCES);
}

// ---- all threads ----

static void keep_sums(lower *l, const plan_nest *nest, const place_in_loops *at, const ir *sums) {
  for (int i = 0; i < nest->values.count; i++) {
    if (!is_sum(l, nest, i)) continue;
    lower_line(l, nest->values.items[i]);
    lower_keep_value(l, at, nest->values.items[i], sums[i]);
  }
}

// A single point: the threads divide the reduced elements, and each gets the result.
static void reduce_together(lower *l, point_nest *n) {
  const plan_nest *nest = n->nest;
  place_in_loops at = lower_start_place(l, false), inner = at;
  int numbers = nest->threads.width > 1 ? nest->threads.width : 0;
  n->sum_lanes = numbers;
  lower_start_sums(l, n, n->sums, numbers);
  gpu_wide_loops(l, &n->reduced, nest->threads.width, nest->instructions, &inner, lower_inner_point,
                 n);
  for (int i = 0; i < nest->values.count; i++) {
    tile_op op = value(l, nest->values.items[i])->op;
    if (!is_sum(l, nest, i)) continue;
    ir own = load_real(l->e, n->sums[i], numbers);
    n->sums[i] = team_all(l, op, numbers ? lower_lanes_together(l->e, op, own) : own);
  }
  l->only = int_compare(l->e, LLVMIntEQ, l->team->thread, integer(l->e, 0));
  keep_sums(l, nest, &at, n->sums);
  l->only = NULL;
}

// ---- lanes of a warp ----

// Lanes that share the sums of a point.
typedef struct sharing_lanes {
  point_nest *n;
  const plan_threads *threads;
  // the number of this lane among those of its point; of these lanes among those of all points
  ir lane, group;
  ir row, order;  // the first of the reduced elements of this lane, and the order of its turns
  int64_t groups, side;
  bool uneven;  // some lanes of a warp may have a point while others have none
} sharing_lanes;

// plan_far_row, of a number in the code.
static ir far_row(emitter *e, ir row) {
  ir two = integer(e, 2), half = int_div(e, row, two), quarter = int_div(e, half, two);
  ir first = int_mul_n(e, int_rem(e, row, two), 4), second = int_mul(e, int_rem(e, half, two), two);
  ir others = int_mul_n(e, int_div(e, quarter, two), PLAN_FAR_ROWS);
  return int_add(e, int_add(e, others, first), int_add(e, second, int_rem(e, quarter, two)));
}

static sharing_lanes point_lanes(lower *l, point_nest *n) {
  emitter *e = l->e;
  const plan_threads *t = &n->nest->threads;
  sharing_lanes s = {.n = n,
                     .threads = t,
                     .side = GPU_WARP_LANES / t->lanes,
                     .groups = l->team->threads / t->lanes};
  ir lane = gpu_lane(l), side = integer(e, s.side), lanes = integer(e, t->lanes);
  s.lane = t->apart ? int_div(e, lane, side) : int_rem(e, lane, lanes);
  s.row = t->far ? far_row(e, s.lane) : s.lane;
  ir beside = t->apart ? int_rem(e, lane, side) : int_div(e, lane, lanes);
  s.group = s.side == 1 ? gpu_warp(l) : int_add(e, int_mul(e, gpu_warp(l), side), beside);
  if (t->orders > 1) s.order = int_mul_n(e, int_rem_n(e, s.group, t->orders), t->lanes);
  int64_t points = gpu_point_count(l, &n->outer) / (n->vector_reduced ? 1 : t->width);
  s.uneven = points % s.side;
  return s;
}

// Does this thread have a point? The last of several axes counts fastest, so that the first one is
// beyond its end.
static ir has_point(lower *l, const sharing_lanes *s, const place_in_loops *at) {
  int first = s->n->outer.axes[0];
  return int_compare(l->e, LLVMIntSLT, at->index[first], l->axis_size[first]);
}

static ir lanes_together(lower *l, const sharing_lanes *s, tile_op op, ir x) {
  int first = s->threads->apart ? (int)s->side : 1;
  return gpu_across_lanes(l->e, op, x, first * s->threads->lanes / 2, first);
}

// The sum of all lanes; of each number of a vector of points.
static ir lane_total(lower *l, const sharing_lanes *s, tile_op op, ir x) {
  emitter *e = l->e;
  int numbers = ir_lanes(x);
  if (numbers && s->n->vector_reduced) x = lower_lanes_together(e, op, x);
  if (!ir_lanes(x)) return lanes_together(l, s, op, x);
  for (int i = 0; i < numbers; i++) {
    ir number = lanes_together(l, s, op, LLVMBuildExtractElement(e->b, x, integer(e, i), ""));
    x = LLVMBuildInsertElement(e->b, x, number, integer(e, i), "");
  }
  return x;
}

static void keep_lane_sums(lower *l, const sharing_lanes *s, const place_in_loops *at,
                           const ir *totals, ir inside) {
  emitter *e = l->e;
  ir first = int_compare(e, LLVMIntEQ, s->lane, integer(e, 0));
  emit_branch branch = branch_begin(e, inside ? bit_and(e, first, inside) : first);
  keep_sums(l, s->n->nest, at, totals);
  branch_end(e, &branch);
}

static void point_of_lanes(lower *l, const place_in_loops *at, void *data) {
  const sharing_lanes *s = data;
  point_nest *n = s->n;
  int numbers = s->threads->width > 1 ? s->threads->width : 0;
  ir *totals = ARENA_ARRAY(l->e->a, ir, n->nest->values.count + 1), inside = NULL;
  n->sum_lanes = numbers;
  lower_start_sums(l, n, n->sums, numbers);
  emit_branch branch = {0};
  if (s->uneven) branch = branch_begin(l->e, inside = has_point(l, s, at));
  place_in_loops inner = *at;
  if (numbers && n->vector_reduced) inner.vector_axis = n->vector, inner.lanes = numbers;
  piece_share share = {.first = s->row, .order = s->order, .step = s->threads->lanes};
  gpu_pieces_of(l, &n->reduced, n->vector_reduced ? s->threads->width : 1, share,
                n->nest->instructions, &inner, lower_inner_point, n);
  if (s->uneven) branch_end(l->e, &branch);
  for (int i = 0; i < n->nest->values.count; i++)
    if (is_sum(l, n->nest, i))
      totals[i] = lane_total(l, s, value(l, n->nest->values.items[i])->op,
                             load_real(l->e, n->sums[i], numbers));
  keep_lane_sums(l, s, at, totals, inside);
}

static void reduce_by_lanes(lower *l, point_nest *n) {
  sharing_lanes s = point_lanes(l, n);
  place_in_loops at = lower_start_place(l, false);
  bool of_points = s.threads->width > 1 && !n->vector_reduced;
  if (of_points) at.vector_axis = n->vector, at.lanes = s.threads->width;
  int64_t sums =
      blocks_up(gpu_point_count(l, &n->reduced), (int64_t)s.threads->lanes * s.threads->width);
  int64_t instructions = sums > 0 ? sums * n->nest->instructions : GPU_LONG_BODY;
  piece_share share = {.first = s.group, .step = s.groups, .whole = s.uneven ? s.side : 0};
  gpu_pieces_of(l, &n->outer, of_points ? s.threads->width : 1, share, instructions, &at,
                point_of_lanes, &s);
}

// ---- a thread for each point ----

void gpu_points(lower *l, const plan_nest *nest) {
  const plan_threads *t = &nest->threads;
  point_nest n = lower_open_points(l, nest, -1);
  team_sums sums = team_open(l, nest);
  n.stage = stage_in_team, n.staged = &sums;
  n.turns = turns_of_sum(l, &n);
  if (t->width > 1) n.vector = t->vector;
  n.vector_reduced = t->width > 1 && axis_in(nest->over, t->vector);
  if (t->lanes == PLAN_ALL_THREADS) {
    reduce_together(l, &n);
    return;
  }
  if (t->lanes > 1 || n.vector_reduced) {
    reduce_by_lanes(l, &n);
    return;
  }
  place_in_loops at = lower_start_place(l, nest->lane);
  gpu_wide_loops(l, &n.outer, t->width, nest->instructions, &at, lower_outer_point, &n);
  team_finish(l, &sums);
}
