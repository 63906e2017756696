// Nests of elementwise values and reductions, at one of their points.
//
//   nest over N: %4 = mul, %5 = exp, %6 = sum over N
//
//     acc = 0
//     for n: x4 = x2[n] * x3; x5 = exp(x4); acc += x5      the lane axis, or the contiguous axis, in vectors
//     x6 = acc
//
// An axis whose size is no multiple of the vector width ends with one shorter vector. If its size
// is known only at run time, it ends entry by entry.
#include "compiler/lower/nests.h"

// ---- values ----

void lower_compute(lower *l, const place_in_loops *at, tile_id id) {
  const tile_value *v = value(l, id);
  const plan_value *pv = &l->p->values[id];
  if (v->op == TILE_ACCUMULATE) {
    view sum = lower_buffer(l, pv->buffer);
    ir x = lower_value_at(l, at, v->args[0]);
    view_store(l, &sum, at, v->axes, real_add(l->e, view_load(l, &sum, at, v->axes), x));
    return;
  }
  if (pv->dot != NO_TILE) {
    tile_id x = plan_begins_as(l->p, id);
    if (l->p->values[x].buffer == pv->buffer) return;
    view sum = lower_buffer(l, pv->buffer);
    view_store(l, &sum, at, v->axes, lower_value_at(l, at, x));
    return;
  }
  ir args[3], x;
  if (v->op == TILE_SELDOM && v->args[0] == l->condition) {
    x = lower_value_at(l, at, v->args[l->branch]);
  } else {
    for (int k = 0; k < tile_arity(v->op); k++) args[k] = lower_value_at(l, at, v->args[k]);
    x = v->op == TILE_MUL && args[0] == args[1] ? real_mul(l->e, args[0], args[0])
                                                : expr_apply(l->e, v->op, args);
  }
  l->memo[id] = x;
  lower_keep_value(l, at, id, x);
}

// The old state must be read before the new one takes its place.
void lower_read_states(lower *l, const place_in_loops *at, const plan_nest *nest) {
  for (int i = 0; i < nest->values.count; i++) {
    int buffer = l->p->values[nest->values.items[i]].buffer;
    if (buffer < 0 || l->p->buffers.items[buffer].carried < 0) continue;
    int argument = l->p->carried[l->p->buffers.items[buffer].carried].argument;
    tile_id state = plan_argument_value(l->p, argument);
    if (state != NO_TILE && l->p->values[state].needed) lower_value_at(l, at, state);
  }
}

static void point_result(lower *l, const place_in_loops *at, const point_nest *n, int position) {
  int result = n->nest->results.items[position];
  lower_line(l, l->p->program->results.items[result].value);
  if (!n->stage(l, n, position, at)) lower_store_result(l, at, result);
}

// ---- reductions ----

// Lanes of the accumulator of a value.
static int sum_lanes_of(const lower *l, const point_nest *n, tile_id id, int lanes) {
  if (n->nest->lane) return l->p->values[id].lane ? l->m->lanes : 0;
  return n->vector >= 0 ? lanes : 0;
}

static void reduce_point(lower *l, const place_in_loops *at, const point_nest *n, int position,
                         tile_id id) {
  bool whole = !n->vector_reduced || at->lanes == n->sum_lanes;
  ir slot = whole ? n->sums[position] : n->short_sums[position];
  int lanes = sum_lanes_of(l, n, id, at->lanes);
  store_real(l->e, lower_reduced(l, at, id, load_real(l->e, slot, lanes)), slot);
}

void lower_inner_point(lower *l, const place_in_loops *at, void *data) {
  const point_nest *n = data;
  lower_forget(l);
  if (n->fetch) n->fetch(l, at);
  lower_read_states(l, at, n->nest);
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_id id = n->nest->values.items[i];
    lower_line(l, id);
    if (tile_op_is(value(l, id)->op, TILE_REDUCES))
      reduce_point(l, at, n, i, id);
    else
      lower_compute(l, at, id);
  }
  for (int i = 0; i < n->nest->results.count; i++) point_result(l, at, n, i);
  lower_forget(l);
}

void lower_start_sums(lower *l, const point_nest *n, ir *slots, int lanes) {
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_id id = n->nest->values.items[i];
    if (!tile_op_is(value(l, id)->op, TILE_REDUCES)) continue;
    int own = sum_lanes_of(l, n, id, lanes);
    slots[i] = real_slot(l->e, real_number(l->e, lower_identity(value(l, id)->op), own), "sum");
  }
}

// What the lanes of the whole vectors and of the rest come to.
static ir points_total(lower *l, const point_nest *n, int i, const nest_vectors *v) {
  tile_op op = value(l, n->nest->values.items[i])->op;
  ir x = NULL;
  if (v->lanes) x = lower_lanes_together(l->e, op, load_real(l->e, n->sums[i], v->lanes));
  if (!v->rest) return x;
  ir rest = load_real(l->e, n->short_sums[i], v->rest_lanes);
  if (v->rest_lanes) rest = lower_lanes_together(l->e, op, rest);
  return x ? lower_combine(l->e, op, x, rest) : rest;
}

static void finish_point_sums(lower *l, const place_in_loops *at, const point_nest *n,
                              const nest_vectors *v) {
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_id id = n->nest->values.items[i];
    if (!tile_op_is(value(l, id)->op, TILE_REDUCES)) continue;
    lower_line(l, id);
    ir x = n->vector_reduced ? points_total(l, n, i, v)
                             : load_real(l->e, n->sums[i], sum_lanes_of(l, n, id, v->lanes));
    lower_keep_value(l, at, id, x);
  }
}

static void reduced_loops(lower *l, const place_in_loops *at, void *data) {
  point_nest *n = data;
  place_in_loops inner = *at;
  if (n->vector >= 0 && n->vector_reduced)
    lower_vectors_along(l, n->vector, &inner, lower_inner_point, data);
  else
    lower_inner_point(l, &inner, data);
}

static void unroll_points(lower *l, place_in_loops *at, point_nest *n) {
  emitter *e = l->e;
  int axis = n->reduced.axes[0];
  group_names names = {"turns", "turn"};
  emit_groups g = groups_begin(e, integer(e, 0), l->axis_size[axis], 1, n->turns, names);
  at->index[axis] = g.index;
  reduced_loops(l, at, n);
  at->index[axis] = NULL;
  groups_end(e, &g);
}

// The one step that a sum over the steps of a chunk looks at, if the chunk has it.
static void step_at_end(lower *l, place_in_loops *at, point_nest *n) {
  emitter *e = l->e;
  int axis = l->p->program->time_axis;
  ir step = int_sub_n(e, l->rows, n->nest->at_end);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntSGE, step, integer(e, 0)));
  at->index[axis] = step;
  reduced_loops(l, at, n);
  at->index[axis] = NULL;
  branch_end(e, &branch);
}

static void loops_of_sum(lower *l, place_in_loops *at, point_nest *n) {
  if (n->nest->at_end)
    step_at_end(l, at, n);
  else if (n->turns)
    unroll_points(l, at, n);
  else
    lower_loops_over(l, &n->reduced, 0, at, reduced_loops, n);
}

void lower_outer_point(lower *l, const place_in_loops *at, void *data) {
  point_nest *n = data;
  if (!n->nest->over) {
    lower_inner_point(l, at, data);
    return;
  }
  place_in_loops inner = *at;
  nest_vectors v = {.lanes = at->lanes};
  if (n->vector_reduced) {
    v = lower_vectors_of(l, n->vector);
    n->sum_lanes = v.lanes ? v.lanes : -1;
    if (v.rest) lower_start_sums(l, n, n->short_sums, v.rest_lanes);
  }
  if (v.lanes || !n->vector_reduced) lower_start_sums(l, n, n->sums, v.lanes);
  loops_of_sum(l, &inner, n);
  finish_point_sums(l, at, n, &v);
}

point_nest lower_open_points(lower *l, const plan_nest *nest, int vector) {
  point_nest n = {.nest = nest, .vector = vector};
  axis_set scalar = vector < 0 ? nest->axes : nest->axes & ~axis_bit(vector);
  n.sums = ARENA_ARRAY(l->e->a, ir, nest->values.count + 1);
  n.short_sums = ARENA_ARRAY(l->e->a, ir, nest->values.count + 1);
  n.vector_reduced = vector >= 0 && axis_in(nest->over, vector);
  n.outer = lower_by_rank(l, scalar & ~nest->over);
  n.reduced = lower_by_rank(l, nest->over & scalar);
  return n;
}
