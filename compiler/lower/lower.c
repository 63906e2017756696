// Lowering of one nest: the plan says what, this file writes the loops.
//
//   nest over N: %4 = mul, %5 = exp, %6 = sum over N
//
//     acc = 0
//     for n: x4 = x2[n] * x3; x5 = exp(x4); acc += x5      the lane axis, or the contiguous axis, in vectors
//     x6 = acc
//
// An axis whose size is no multiple of the vector width ends with one shorter vector. If its size is known only at run time,
// it ends entry by entry.
#include <math.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/lower/gpu/nests.h"
#include "compiler/lower/nests.h"

// ---- elementwise values and reductions ----

typedef struct points {
  const plan_nest *nest;
  loop_axes outer, reduced;
  int vector;  // axis in vectors, or -1
  bool vector_reduced;
  ir *sums;        // accumulators by position in nest->values, for vectors of `sum_lanes`
  ir *short_sums;  // for the rest at the end: of a shorter vector or of single entries
  int sum_lanes;
  staged_lanes *staged;  // by position in nest->results; block 0: stored at each point
} points;

// Lanes of the accumulator of a value.
static int sum_lanes_of(const lower *l, const points *n, tile_id id, int lanes) {
  if (n->nest->lane) return l->p->values[id].lane ? l->m->lanes : 0;
  return n->vector >= 0 ? lanes : 0;
}

static void reduce_point(lower *l, const place_in_loops *at, const points *n, int position, tile_id id) {
  bool whole = !n->vector_reduced || at->lanes == n->sum_lanes;
  ir slot = whole ? n->sums[position] : n->short_sums[position];
  int lanes = sum_lanes_of(l, n, id, at->lanes);
  store_real(l->e, lower_reduced(l, at, id, load_real(l->e, slot, lanes)), slot);
}

static void point_body(lower *l, const place_in_loops *at, void *data) {
  const points *n = data;
  lower_forget(l);
  lower_read_states(l, at, n->nest);
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_id id = n->nest->values.items[i];
    lower_line(l, id);
    if (tile_op_is(value(l, id)->op, TILE_REDUCES)) {
      reduce_point(l, at, n, i, id);
    } else {
      lower_compute(l, at, id);
    }
  }
  for (int i = 0; i < n->nest->results.count; i++) {
    int result = n->nest->results.items[i];
    lower_line(l, l->p->program->results.items[result].value);
    if (l->results[result].over_threads) {
      team_stage(l, n->nest, i, at, lower_value_at(l, at, l->p->program->results.items[result].value));
    } else if (n->staged[i].block) {
      stage_point(l, &n->staged[i], at, lower_value_at(l, at, l->p->program->results.items[result].value));
    } else {
      lower_store_result(l, at, result);
    }
  }
  lower_forget(l);
}

static void start_sums(lower *l, const points *n, ir *slots, int lanes) {
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_id id = n->nest->values.items[i];
    if (!tile_op_is(value(l, id)->op, TILE_REDUCES)) continue;
    int own = sum_lanes_of(l, n, id, lanes);
    slots[i] = stack_slot(l->e, real_type(l->e, own), "sum");
    store_real(l->e, real_number(l->e, lower_identity(value(l, id)->op), own), slots[i]);
  }
}

// What the lanes of the whole vectors and of the rest come to.
static ir total_of(lower *l, const points *n, int i, const nest_vectors *v) {
  tile_op op = value(l, n->nest->values.items[i])->op;
  ir x = NULL;
  if (v->lanes) x = lower_lanes_together(l->e, op, load_real(l->e, n->sums[i], v->lanes));
  if (!v->rest) return x;
  ir rest = load_real(l->e, n->short_sums[i], v->rest_lanes);
  if (v->rest_lanes) rest = lower_lanes_together(l->e, op, rest);
  return x ? lower_combine(l->e, op, x, rest) : rest;
}

static void finish_sums(lower *l, const place_in_loops *at, const points *n, const nest_vectors *v) {
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_id id = n->nest->values.items[i];
    if (!tile_op_is(value(l, id)->op, TILE_REDUCES)) continue;
    lower_line(l, id);
    ir x = n->vector_reduced ? total_of(l, n, i, v) : load_real(l->e, n->sums[i], sum_lanes_of(l, n, id, v->lanes));
    lower_keep_value(l, at, id, x);
  }
}

static void reduced_loops(lower *l, const place_in_loops *at, void *data) {
  points *n = data;
  place_in_loops inner = *at;
  if (n->vector >= 0 && n->vector_reduced) {
    lower_vectors_along(l, n->vector, &inner, point_body, data);
  } else {
    point_body(l, &inner, data);
  }
}

enum { TURNS_AT_ONCE = 4, LONG_SUM = 32 };

// A thread of a GPU sums four numbers at a time.
static void turns_at_once(lower *l, place_in_loops *at, void *data) {
  emitter *e = l->e;
  const points *n = data;
  int axis = n->reduced.axes[0];
  group_names names = {"turns", "turn"};
  emit_groups g = groups_begin(e, integer(e, 0), l->axis_size[axis], 1, TURNS_AT_ONCE, names);
  at->index[axis] = g.index;
  reduced_loops(l, at, data);
  at->index[axis] = NULL;
  groups_end(e, &g);
}

static void loops_of_sum(lower *l, place_in_loops *at, points *n) {
  bool alone = l->team && l->team->shares && n->reduced.count == 1;
  int64_t size = alone ? known_size(l, n->reduced.axes[0]) : 0;
  if (size >= LONG_SUM && size % TURNS_AT_ONCE == 0) {
    turns_at_once(l, at, n);
  } else {
    lower_loops_over(l, &n->reduced, 0, at, reduced_loops, n);
  }
}

// At one point of the outer axes: start sums, loop over what is reduced, finish.
static void outer_point(lower *l, const place_in_loops *at, void *data) {
  points *n = data;
  if (!n->nest->over) {
    point_body(l, at, data);
    return;
  }
  place_in_loops inner = *at;
  nest_vectors v = {.lanes = at->lanes};
  if (n->vector_reduced) {
    v = lower_vectors_of(l, n->vector);
    n->sum_lanes = v.lanes ? v.lanes : -1;
    if (v.rest) start_sums(l, n, n->short_sums, v.rest_lanes);
  }
  if (v.lanes || !n->vector_reduced) start_sums(l, n, n->sums, v.lanes);
  loops_of_sum(l, &inner, n);
  finish_sums(l, at, n, &v);
}

// One point for all threads: they share out what is reduced, and each gets the result of all.
static void reduce_together(lower *l, points *n) {
  place_in_loops at = lower_start_place(l, false);
  start_sums(l, n, n->sums, 0);
  place_in_loops inner = at;
  lower_shared_loops(l, &n->reduced, &inner, point_body, n);
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_op op = value(l, n->nest->values.items[i])->op;
    if (tile_op_is(op, TILE_REDUCES)) store_real(l->e, team_all(l, op, load_real(l->e, n->sums[i], 0)), n->sums[i]);
  }
  l->only = int_compare(l->e, LLVMIntEQ, l->team->thread, integer(l->e, 0));
  finish_sums(l, &at, n, &(nest_vectors){0});
  l->only = NULL;
}

static void outer_vectors(lower *l, const place_in_loops *at, void *data) {
  points *n = data;
  place_in_loops inner = *at;
  if (n->vector >= 0 && !n->vector_reduced) {
    lower_vectors_along(l, n->vector, &inner, outer_point, data);
  } else {
    outer_point(l, &inner, data);
  }
}

static bool has_work(const lower *l, const plan_nest *nest) {
  if (nest->results.count) return true;
  for (int i = 0; i < nest->values.count; i++) {
    tile_id id = nest->values.items[i];
    const plan_value *pv = &l->p->values[id];
    const tile_value *v = value(l, id);
    if (pv->dot == NO_TILE) return true;
    tile_id x = v->args[0] == pv->dot ? v->args[1] : v->args[0];
    if (l->p->values[x].buffer != pv->buffer) return true;
  }
  return false;
}

// GPU: rows of results end where the sequence does, so time is not in lanes.
static int nest_lanes(const lower *l, const plan_nest *nest, const loop_axes *outer) {
  bool time = outer->count && outer->axes[outer->count - 1] == l->p->program->time_axis;
  return time && nest->results.count ? 1 : gpu_lanes(l, outer);
}

static void lower_point_nest(lower *l, const plan_nest *nest) {
  if (!has_work(l, nest)) return;
  points n = {.nest = nest, .vector = -1};
  n.sums = ARENA_ARRAY(l->e->a, ir, nest->values.count + 1);
  n.short_sums = ARENA_ARRAY(l->e->a, ir, nest->values.count + 1);
  axis_set outer = nest->axes & ~nest->over, reduced = nest->over;
  if (!nest->lane && nest->axes && !l->team) {
    loop_axes all = lower_by_rank(l, nest->axes);
    n.vector = all.axes[all.count - 1];
    n.vector_reduced = axis_in(reduced, n.vector);
    outer &= ~axis_bit(n.vector);
    reduced &= ~axis_bit(n.vector);
  }
  n.outer = lower_by_rank(l, outer);
  n.reduced = lower_by_rank(l, reduced);
  n.staged = ARENA_ARRAY(l->e->a, staged_lanes, nest->results.count + 1);
  for (int i = 0; i < nest->results.count; i++) {
    int block = lane_block_of(l, nest, nest->results.items[i]);
    if (block) n.staged[i] = stage_lanes(l, nest, nest->results.items[i], block);
  }
  if (l->team && l->team->shares && !n.outer.count && nest->over) {
    reduce_together(l, &n);
    return;
  }
  place_in_loops at = lower_start_place(l, nest->lane);
  int lanes = nest_lanes(l, nest, &n.outer);
  if (lanes > 1) {
    n.vector = n.outer.axes[n.outer.count - 1];
    lower_wide_loops(l, &n.outer, lanes, &at, outer_point, &n);
  } else {
    lower_shared_loops(l, &n.outer, &at, outer_vectors, &n);
  }
  for (int i = 0; i < nest->results.count; i++) {
    if (n.staged[i].block) add_staged_lanes(l, &n.staged[i]);
  }
  if (l->team) team_finish(l, nest);
}

// ---- nests ----

// The value that a nest is there for: the last.
static void line_of_nest(lower *l, const plan_nest *nest) {
  if (nest->kind == NEST_PACK) {
    lower_line(l, nest->packed);
  } else if (nest->values.count) {
    lower_line(l, nest->values.items[nest->values.count - 1]);
  } else if (nest->results.count) {
    lower_line(l, l->p->program->results.items[nest->results.items[0]].value);
  }
}

// Values in f64: as if the program were of that type, but for what is read from memory.
static void lower_wide_nest(lower *l, const plan_nest *nest) {
  emitter *e = l->e, wide = emit_wide(e);
  l->e = &wide;
  lower_point_nest(l, nest);
  l->e = e;
}

static void lower_scan(lower *l, const plan_nest *nest) {
  if (l->team && gpu_scan(l, nest)) return;
  bool prefix = nest->kind == NEST_PREFIX;
  lower_along_time(l, nest, nest->axes, prefix ? lower_prefix_point : lower_segment_point);
}

void lower_nest(lower *l, const plan_nest *nest) {
  const team *all = l->team;
  team own;
  line_of_nest(l, nest);
  if (all) {
    own = gpu_team_of_nest(l);
    l->team = &own;
  }
  if (l->since) gpu_before_nest(l, nest);
  switch (nest->kind) {
    case NEST_POINTS: nest->wide ? lower_wide_nest(l, nest) : lower_point_nest(l, nest); break;
    case NEST_PACK: lower_pack(l, nest); break;
    case NEST_DOT: l->team ? gpu_dot(l, nest) : lower_dot(l, nest); break;
    case NEST_SOLVE: l->team ? gpu_solve(l, nest) : lower_solve(l, nest); break;
    case NEST_PREFIX: lower_scan(l, nest); break;
    case NEST_SEGMENT:
      gpu_levels_of(l->m, l->p->program, nest->values.items[0]) ? gpu_make_levels(l, nest) : lower_scan(l, nest);
      break;
    case NEST_SEGMENT_ADJOINT:
      if (l->team) {
        gpu_segment_adjoint(l, nest);
        break;
      }
      lower_along_time(l, nest, nest->axes & ~axis_bit(tile_other_step_axis(value(l, nest->values.items[0]))),
                       lower_segment_adjoint_point);
      break;
    case NEST_FIRST_EQUAL: lower_first_equal(l, nest); break;
  }
  if (all && gpu_nest_feeds_groups(l, nest)) gpu_fence_groups(l);
  l->team = all;
}
