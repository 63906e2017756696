// Host: nests of elementwise values and reductions, the last axis in vectors.
//
//   [t, N]      for t: for N by 16: ..
#include "compiler/lower/host/nests.h"

static const staged_lanes *staged_lanes_of(const point_nest *n, int position) {
  return &((const staged_lanes *)n->staged)[position];
}

static bool stage_in_lanes(lower *l, const point_nest *n, int position, const place_in_loops *at) {
  const staged_lanes *s = staged_lanes_of(n, position);
  if (s->block)
    stage_point(l, s, at, lower_value_at(l, at, l->p->program->results.items[s->result].value));
  return s->block;
}

static void open_staged(lower *l, point_nest *n) {
  const plan_nest *nest = n->nest;
  staged_lanes *staged = ARENA_ARRAY(l->e->a, staged_lanes, nest->results.count + 1);
  for (int i = 0; i < nest->results.count; i++) {
    int block = lane_block_of(l, nest, nest->results.items[i]);
    if (block) staged[i] = stage_lanes(l, nest, nest->results.items[i], block);
  }
  n->stage = stage_in_lanes;
  n->staged = staged;
}

static void add_staged(lower *l, const point_nest *n) {
  for (int i = 0; i < n->nest->results.count; i++)
    if (staged_lanes_of(n, i)->block) add_staged_lanes(l, staged_lanes_of(n, i));
}

static int vector_of(const lower *l, const plan_nest *nest) {
  if (nest->lane || !nest->axes) return -1;
  axis_set axes = nest->at_end ? nest->axes & ~nest->over : nest->axes;
  loop_axes all = lower_by_rank(l, axes);
  return axes ? all.axes[all.count - 1] : -1;
}

static void outer_vectors(lower *l, const place_in_loops *at, void *data) {
  const point_nest *n = data;
  place_in_loops inner = *at;
  if (n->vector >= 0 && !n->vector_reduced)
    lower_vectors_along(l, n->vector, &inner, lower_outer_point, data);
  else
    lower_outer_point(l, &inner, data);
}

enum { MOST_SIDE_BY_SIDE = 4, LONG_CHAIN = 10, LONGEST_ALONE = 20 };

// A function such as exp2 is a chain of instructions that wait for each other. The scheduler of a
// processor overlaps those of a few vectors, unless they are long, or registers are few and x * 2^n
// is many instructions. Several vectors are then computed in lockstep, where these divide the axis.
static int vectors_side_by_side(const lower *l, const plan_nest *nest, int axis) {
  if (axis < 0 || nest->wide) return 0;
  double chain = 0;
  for (int i = 0; i < nest->values.count; i++) {
    double cost = tile_op_cost(value(l, nest->values.items[i])->op);
    if (cost >= LONG_CHAIN) chain += cost;
  }
  bool few = !clone_targets[l->e->clone].scales;
  int count = chain >= (few ? LONG_CHAIN : LONGEST_ALONE) ? MOST_SIDE_BY_SIDE : 0;
  while (count && known_size(l, axis) % (count * l->m->width)) count /= 2;
  return count;
}

void host_points(lower *l, const plan_nest *nest) {
  point_nest n = lower_open_points(l, nest, vector_of(l, nest));
  if (host_results_across(l, &n)) return;
  l->side_by_side = vectors_side_by_side(l, nest, n.vector);
  open_staged(l, &n);
  if (l->ahead.nest == nest) n.fetch = fetch_ahead_at;
  place_in_loops at = lower_start_place(l, nest->lane);
  lower_loops_over(l, &n.outer, 0, &at, outer_vectors, &n);
  add_staged(l, &n);
  l->side_by_side = 0;
}
