/* Loop nests from a plan.
 *
 *   nest over N: %4 = mul, %5 = exp, %6 = sum over N
 *
 *     acc = 0
 *     for n: x4 = x2[n] * x3; x5 = exp(x4); acc += x5      the lane axis, or the contiguous axis, in vectors
 *     x6 = acc
 *
 * Vectors along an axis whose size is no multiple of their width end with one shorter vector, or entry by entry where the
 * size is known at run time only.
 */
#include <math.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/lower/gpu/nests.h"
#include "compiler/lower/nests.h"

/* ---- results ---- */

/* To the tensor, or to the copy of it. */
static void store_single_or_copy(lower *l, const result_target *target, const place_in_loops *at,
                                 axis_set axes, ir x) {
  if (!target->single) {
    view_store(l, &target->at, at, axes, x);
    return;
  }
  emit_branch branch = branch_begin(l->e, target->single);
  view_store(l, &target->tensor, at, axes, x);
  branch_else(l->e, &branch);
  view_store(l, &target->at, at, axes, x);
  branch_end(l->e, &branch);
}

static void store_in_passes(lower *l, const result_target *target, const place_in_loops *at,
                            axis_set axes, ir x) {
  emitter *e = l->e;
  bool wide = at->lanes && axis_in(axes, at->vector_axis);
  if (wide) x = spread(e, x, at->lanes);
  int lanes = wide ? at->lanes : 0;
  ir sum = stack_slot(e, real_type(e, lanes), "sum");
  store_real(e, x, sum);
  ir later = LLVMBuildNot(e->b, target->first_pass, "");
  if (l->only) later = LLVMBuildAnd(e->b, later, l->only, ""); /* nobody else may read what it stores */
  emit_branch branch = branch_begin(e, later);
  store_real(e, real_add(e, view_load(l, &target->sums, at, axes), x), sum);
  branch_end(e, &branch);
  x = load_real(e, sum, lanes);
  branch = branch_begin(e, target->last_pass);
  store_single_or_copy(l, target, at, axes, x);
  branch_else(e, &branch);
  view_store(l, &target->sums, at, axes, x);
  branch_end(e, &branch);
}

static void add_or_store(lower *l, const result_target *target, const place_in_loops *at,
                         axis_set axes, ir x) {
  if (target->in_passes) {
    store_in_passes(l, target, at, axes, x);
    return;
  }
  if (target->add) {
    ir old = view_load(l, &target->at, at, axes);
    x = real_add(l->e, old, x);
  }
  store_single_or_copy(l, target, at, axes, x);
}

static void store_result(lower *l, const place_in_loops *at, int index) {
  emitter *e = l->e;
  const tile_result *r = &l->p->program->results.items[index];
  const result_target *target = &l->results[index];
  const tile_program *program = l->p->program;
  ir x = lower_value_at(l, at, r->value);
  axis_set axes = tile_place_axes(program, &r->place);
  if (r->place.role == TILE_KEEP) axes = value(l, r->value)->axes;
  place_in_loops where = *at;
  int lane = l->m->lane_axis;
  if (lane >= 0 && at->vector_axis == lane && !axis_in(axes, lane)) {
    if (ir_lanes(x)) {
      if (at->mask) x = choose(e, at->mask, x, real_number(e, 0, at->lanes));
      x = sum_of_lanes(e, x);
    }
    where.vector_axis = -1;
    where.lanes = 0;
    where.mask = NULL;
  }
  if (target->own) x = choose(e, target->own, x, real_number(e, 0, 0));
  int t = program->time_axis;
  if (!target->limit) {
    emit_branch branch = branch_begin(e, target->active);
    add_or_store(l, target, &where, axes, x);
    branch_end(e, &branch);
  } else if (where.vector_axis == t && t >= 0) {
    where.mask = lane_mask(e, int_sub(e, target->limit, at->index[t]), at->lanes);
    add_or_store(l, target, &where, axes, x);
  } else {
    emit_branch branch =
        branch_begin(e, int_compare(e, LLVMIntSLT, at->index[t], target->limit));
    add_or_store(l, target, &where, axes, x);
    branch_end(e, &branch);
  }
}

/* ---- loops ---- */

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

void lower_barrier(lower *l) {
  if (l->team && l->team->shares) gpu_call(l->e, GPU_BARRIER, NULL, 0);
}

enum { MOST_UNROLLED = 64 };

/* A thread keeps arrays over tile axes in registers: then no index may be a variable. */
static void end_tile_loop(lower *l, emit_loop *loop, int axis) {
  bool registers = l->m->kind == MAP_THREADS && !l->m->looped;
  int64_t size = known_size(l, axis);
  if (registers && size != TILE_RUNTIME_SIZE && size <= MOST_UNROLLED) {
    loop_end_unrolled(l->e, loop);
  } else {
    loop_end(l->e, loop);
  }
}

/* Scalar loops over `axes` from position `from` on, then `inner`. */
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

/* The points of some axes among the threads of a block: pieces of `numbers` neighbours along the last one. */
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

void lower_shared_pieces(lower *l, const loop_axes *axes, int numbers, place_in_loops *at,
                         nest_function *inner, void *data) {
  emitter *e = l->e;
  shared_pieces s = pieces_of(l, axes, numbers);
  emit_loop loop = loop_begin(e, l->team->thread, s.count, l->team->threads, "point");
  go_to_piece(l, &s, loop.index, at);
  inner(l, at, data);
  for (int i = 0; i < axes->count; i++) at->index[axes->axes[i]] = NULL;
  loop_end(e, &loop);
}

void lower_shared_loops(lower *l, const loop_axes *axes, place_in_loops *at, nest_function *inner,
                        void *data) {
  if (!l->team || !l->team->shares) {
    lower_loops_over(l, axes, 0, at, inner, data);
  } else if (axes->count) {
    lower_shared_pieces(l, axes, 1, at, inner, data);
  } else {
    /* what all threads need: all compute it, one stores it */
    l->only = int_compare(l->e, LLVMIntEQ, l->team->thread, integer(l->e, 0));
    inner(l, at, data);
    l->only = NULL;
  }
}

/* GPU: with so many neighbours along the last axis in lanes. */
static void lower_wide_loops(lower *l, const loop_axes *axes, int lanes, place_in_loops *at,
                             nest_function *inner, void *data) {
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

/* An axis in vectors: whole ones up to `whole`, then the rest. */
typedef struct vectors {
  ir whole;
  int lanes;      /* of a whole vector; 0: there is none */
  bool rest;      /* something is left */
  int rest_lanes; /* it is one shorter vector; 0: entry by entry */
} vectors;

static vectors vectors_of(lower *l, int axis) {
  emitter *e = l->e;
  int64_t size = known_size(l, axis), width = l->m->width, whole = size / width * width;
  if (size == TILE_RUNTIME_SIZE) {
    ir rest = int_rem(e, l->axis_size[axis], integer(e, width));
    return (vectors){int_sub(e, l->axis_size[axis], rest), (int)width, true, 0};
  }
  if (size <= 2 * width) whole = 0;
  return (vectors){integer(e, whole), whole ? (int)width : 0, size > whole, (int)(size - whole)};
}

static void along_axis(lower *l, int axis, ir begin, ir end, int step, place_in_loops *at,
                       nest_function *inner, void *data) {
  emit_loop loop = loop_begin(l->e, begin, end, step, l->p->program->axes.items[axis].name);
  at->index[axis] = loop.index;
  inner(l, at, data);
  loop_end(l->e, &loop);
}

static void vectors_along(lower *l, int axis, place_in_loops *at, nest_function *inner,
                          void *data) {
  vectors v = vectors_of(l, axis);
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

/* ---- elementwise values and reductions ---- */

typedef struct points {
  const plan_nest *nest;
  loop_axes outer, reduced;
  int vector; /* axis in vectors, or -1 */
  bool vector_reduced;
  ir *sums;       /* accumulators by position in nest->values, for vectors of `sum_lanes` */
  ir *short_sums; /* for the rest at the end: of a shorter vector or of single entries */
  int sum_lanes;
  staged_lanes *staged; /* by position in nest->results; block 0: stored at each point */
} points;

double lower_identity(tile_op op) {
  return op == TILE_MAX_OVER ? -INFINITY : op == TILE_MIN_OVER ? INFINITY : 0;
}

static bool reduces(tile_op op) {
  return op == TILE_SUM || op == TILE_DOT || op == TILE_MAX_OVER || op == TILE_MIN_OVER;
}

ir lower_combine(emitter *e, tile_op op, ir x, ir y) {
  if (op == TILE_MAX_OVER || op == TILE_MIN_OVER) {
    return expr_apply(e, op == TILE_MAX_OVER ? TILE_MAX : TILE_MIN, (ir[]){x, y});
  }
  return real_add(e, x, y);
}

/* Lanes of the accumulator of a value. */
static int sum_lanes_of(const lower *l, const points *n, tile_id id, int lanes) {
  if (n->nest->lane) return l->p->values[id].lane ? l->m->lanes : 0;
  return n->vector >= 0 ? lanes : 0;
}

/* What a sum comes to with the point at hand. */
static ir reduced(lower *l, const place_in_loops *at, tile_id id, ir sum) {
  const tile_value *v = value(l, id);
  int lanes = ir_lanes(sum);
  ir x = spread(l->e, lower_value_at(l, at, v->args[0]), lanes);
  if (v->op != TILE_DOT) return lower_combine(l->e, v->op, sum, x);
  return real_fma(l->e, x, spread(l->e, lower_value_at(l, at, v->args[1]), lanes), sum);
}

static void reduce_point(lower *l, const place_in_loops *at, const points *n, int position,
                         tile_id id) {
  bool whole = !n->vector_reduced || at->lanes == n->sum_lanes;
  ir slot = whole ? n->sums[position] : n->short_sums[position];
  int lanes = sum_lanes_of(l, n, id, at->lanes);
  store_real(l->e, reduced(l, at, id, load_real(l->e, slot, lanes)), slot);
}

static void compute_point(lower *l, const place_in_loops *at, tile_id id) {
  const tile_value *v = value(l, id);
  const plan_value *pv = &l->p->values[id];
  if (v->op == TILE_ACCUMULATE) {
    view sum = lower_buffer(l, pv->buffer);
    ir x = lower_value_at(l, at, v->args[0]);
    view_store(l, &sum, at, v->axes, real_add(l->e, view_load(l, &sum, at, v->axes), x));
    return;
  }
  if (pv->dot != NO_TILE) {
    tile_id x = v->args[0] == pv->dot ? v->args[1] : v->args[0];
    if (l->p->values[x].buffer == pv->buffer) return;
    view sum = lower_buffer(l, pv->buffer);
    view_store(l, &sum, at, v->axes, lower_value_at(l, at, x));
    return;
  }
  ir args[3];
  for (int k = 0; k < tile_arity(v->op); k++) args[k] = lower_value_at(l, at, v->args[k]);
  ir x = v->op == TILE_MUL && args[0] == args[1] ? real_mul(l->e, args[0], args[0])
                                                 : expr_apply(l->e, v->op, args);
  l->memo[id] = x;
  lower_keep_value(l, at, id, x);
}

/* The old state must be read before the new one takes its place. */
static void read_states_first(lower *l, const place_in_loops *at, const plan_nest *nest) {
  for (int i = 0; i < nest->values.count; i++) {
    int buffer = l->p->values[nest->values.items[i]].buffer;
    if (buffer < 0 || l->p->buffers.items[buffer].carried < 0) continue;
    int argument = l->p->carried[l->p->buffers.items[buffer].carried].argument;
    for (tile_id id = 0; argument >= 0 && id < l->p->program->values.count; id++) {
      const tile_value *v = value(l, id);
      if (v->op == TILE_ARGUMENT && v->index == argument && l->p->values[id].needed)
        lower_value_at(l, at, id);
    }
  }
}

static void point_body(lower *l, const place_in_loops *at, void *data) {
  const points *n = data;
  lower_forget(l);
  read_states_first(l, at, n->nest);
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_id id = n->nest->values.items[i];
    lower_line(l, id);
    if (reduces(value(l, id)->op)) {
      reduce_point(l, at, n, i, id);
    } else {
      compute_point(l, at, id);
    }
  }
  for (int i = 0; i < n->nest->results.count; i++) {
    int result = n->nest->results.items[i];
    lower_line(l, l->p->program->results.items[result].value);
    if (l->results[result].over_threads) {
      team_stage(l, n->nest, i, at,
                 lower_value_at(l, at, l->p->program->results.items[result].value));
    } else if (n->staged[i].block) {
      stage_point(l, &n->staged[i], at,
                  lower_value_at(l, at, l->p->program->results.items[result].value));
    } else {
      store_result(l, at, result);
    }
  }
  lower_forget(l);
}

ir lower_between_products(lower *l, const place_in_loops *at, const plan_nest *nest, ir x) {
  lower_forget(l);
  l->memo[nest->other] = x;
  ir scaled = lower_value_at(l, at, nest->scaled);
  lower_forget(l);
  return scaled;
}

place_in_loops lower_place_made(lower *l, const place_in_loops *at, const plan_nest *nest) {
  tile_id product = nest->values.items[0], sum = l->p->values[product].into;
  return sum == NO_TILE ? *at : lower_place_under(l, at, l->p->values[sum].dot, product);
}

void lower_after_product(lower *l, const place_in_loops *place, const plan_nest *nest, ir x) {
  place_in_loops there = lower_place_made(l, place, nest), *at = &there;
  tile_id into = l->p->values[nest->values.items[0]].into, made = into != NO_TILE ? into : nest->values.items[0];
  lower_forget(l);
  read_states_first(l, at, nest);
  l->memo[made] = x;
  lower_keep_value(l, at, made, x);
  for (int i = 1; i < nest->values.count; i++) {
    tile_id id = nest->values.items[i];
    if (id == made) continue; /* it starts with the rest of this sum */
    if (!reduces(value(l, id)->op)) {
      compute_point(l, at, id);
      continue;
    }
    ir sum = load_real(l->e, l->row_sums[i], at->lanes);
    store_real(l->e, reduced(l, at, id, sum), l->row_sums[i]);
  }
  for (int i = 0; i < nest->results.count; i++) store_result(l, at, nest->results.items[i]);
  lower_forget(l);
}

ir lower_before_product(lower *l, const place_in_loops *at, tile_id sum, known_argument known) {
  const tile_value *v = value(l, sum);
  tile_id x = v->args[0] == l->p->values[sum].dot ? v->args[1] : v->args[0];
  lower_forget(l);
  for (tile_id id = 0; known.argument >= 0 && id < l->p->program->values.count; id++) {
    const tile_value *other = value(l, id);
    if (other->op == TILE_ARGUMENT && other->index == known.argument) l->memo[id] = known.x;
  }
  ir start = lower_value_at(l, at, x);
  lower_forget(l);
  return start;
}

static void start_sums(lower *l, const points *n, ir *slots, int lanes) {
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_id id = n->nest->values.items[i];
    if (!reduces(value(l, id)->op)) continue;
    int own = sum_lanes_of(l, n, id, lanes);
    slots[i] = stack_slot(l->e, real_type(l->e, own), "sum");
    store_real(l->e, real_number(l->e, lower_identity(value(l, id)->op), own), slots[i]);
  }
}

ir lower_lanes_together(emitter *e, tile_op op, ir x) {
  if (op == TILE_SUM || op == TILE_DOT) return sum_of_lanes(e, x);
  ir all = LLVMBuildExtractElement(e->b, x, integer(e, 0), "");
  for (int i = 1; i < ir_lanes(x); i++)
    all = lower_combine(e, op, all, LLVMBuildExtractElement(e->b, x, integer(e, i), ""));
  return all;
}

/* What the lanes of the whole vectors and of the rest come to. */
static ir total_of(lower *l, const points *n, int i, const vectors *v) {
  tile_op op = value(l, n->nest->values.items[i])->op;
  ir x = NULL;
  if (v->lanes) x = lower_lanes_together(l->e, op, load_real(l->e, n->sums[i], v->lanes));
  if (!v->rest) return x;
  ir rest = load_real(l->e, n->short_sums[i], v->rest_lanes);
  if (v->rest_lanes) rest = lower_lanes_together(l->e, op, rest);
  return x ? lower_combine(l->e, op, x, rest) : rest;
}

static void finish_sums(lower *l, const place_in_loops *at, const points *n, const vectors *v) {
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_id id = n->nest->values.items[i];
    if (!reduces(value(l, id)->op)) continue;
    lower_line(l, id);
    ir x = n->vector_reduced ? total_of(l, n, i, v)
                             : load_real(l->e, n->sums[i], sum_lanes_of(l, n, id, v->lanes));
    lower_keep_value(l, at, id, x);
  }
}

static void reduced_loops(lower *l, const place_in_loops *at, void *data) {
  points *n = data;
  place_in_loops inner = *at;
  if (n->vector >= 0 && n->vector_reduced) {
    vectors_along(l, n->vector, &inner, point_body, data);
  } else {
    point_body(l, &inner, data);
  }
}

enum { TURNS_AT_ONCE = 4, LONG_SUM = 32 };

/* A thread of a GPU sums four numbers at a time. */
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

/* At one point of the outer axes: start sums, loop over what is reduced, finish. */
static void outer_point(lower *l, const place_in_loops *at, void *data) {
  points *n = data;
  if (!n->nest->over) {
    point_body(l, at, data);
    return;
  }
  place_in_loops inner = *at;
  vectors v = {.lanes = at->lanes};
  if (n->vector_reduced) {
    v = vectors_of(l, n->vector);
    n->sum_lanes = v.lanes ? v.lanes : -1;
    if (v.rest) start_sums(l, n, n->short_sums, v.rest_lanes);
  }
  if (v.lanes || !n->vector_reduced) start_sums(l, n, n->sums, v.lanes);
  loops_of_sum(l, &inner, n);
  finish_sums(l, at, n, &v);
}

/* One point for all threads: they share out what is reduced, and each gets the result of all. */
static void reduce_together(lower *l, points *n) {
  place_in_loops at = lower_start_place(l, false);
  start_sums(l, n, n->sums, 0);
  place_in_loops inner = at;
  lower_shared_loops(l, &n->reduced, &inner, point_body, n);
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_op op = value(l, n->nest->values.items[i])->op;
    if (reduces(op)) store_real(l->e, team_all(l, op, load_real(l->e, n->sums[i], 0)), n->sums[i]);
  }
  l->only = int_compare(l->e, LLVMIntEQ, l->team->thread, integer(l->e, 0));
  finish_sums(l, &at, n, &(vectors){0});
  l->only = NULL;
}

static void outer_vectors(lower *l, const place_in_loops *at, void *data) {
  points *n = data;
  place_in_loops inner = *at;
  if (n->vector >= 0 && !n->vector_reduced) {
    vectors_along(l, n->vector, &inner, outer_point, data);
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

place_in_loops lower_start_place(lower *l, bool lane) {
  place_in_loops at = l->outside;
  if (!lane) {
    at.vector_axis = -1;
    at.lanes = 0;
    at.mask = NULL;
  }
  return at;
}

/* GPU: rows of results end where the sequence does, so time is not in lanes. */
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

typedef struct free_points {
  int vector;
  point_function *body;
  void *data;
} free_points;

static void free_point(lower *l, const place_in_loops *at, void *data) {
  free_points *f = data;
  place_in_loops inner = *at;
  if (f->vector >= 0) {
    vectors_along(l, f->vector, &inner, f->body, f->data);
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

/* ---- copies ---- */

typedef struct pack_data {
  tile_id from;
  view to;
} pack_data;

static void pack_point(lower *l, const place_in_loops *at, void *data) {
  const pack_data *p = data;
  lower_forget(l);
  view_store(l, &p->to, at, value(l, p->from)->axes, lower_value_at(l, at, p->from));
  lower_forget(l);
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

/* How many pieces each thread has at once, if all threads have as many. */
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

static void copy_point(lower *l, const place_in_loops *at, void *data) {
  const view_copy *c = data;
  ir x = c->from ? view_load(l, c->from, at, c->axes) : real_number(l->e, 0, 0);
  view_store(l, &c->to, at, c->axes, x);
}

void lower_copy_view(lower *l, const view *from, const view *to, axis_set axes) {
  const team *all = l->team;
  team own;
  view_copy c = {.from = from, .to = *to, .axes = axes};
  axis_set tile = plan_tile_axes(l->m, axes);
  bool lane = l->m->lane_axis >= 0 && axis_in(axes, l->m->lane_axis);
  lower_barrier(l);
  gpu_forget_accesses(l, false);
  if (gpu_copies_by_call(l, &c, tile)) {
    gpu_copy(l, &c, tile, copy_point);
    return;
  }
  if (all) {
    own = gpu_team_of_nest(l);
    l->team = &own;
  }
  lower_copy_loops(l, tile, lane, copy_point, &c);
  l->team = all;
}

static void lower_pack(lower *l, const plan_nest *nest) {
  pack_data p = {.from = nest->packed, .to = lower_buffer(l, nest->pack)};
  const plan_buffer *b = &l->p->buffers.items[nest->pack];
  if (nest->lane) {
    lower_points(l, nest->axes, true, pack_point, &p);
    return;
  }
  if (!l->team && lower_transposed(l, nest, b, p.to)) return;
  loop_axes all = {.count = b->axis_count};
  memcpy(all.axes, b->axes, sizeof all.axes);
  free_points f = {.vector = -1, .body = pack_point, .data = &p};
  if (all.count && !l->team) f.vector = all.axes[--all.count];
  place_in_loops at = lower_start_place(l, false);
  int lanes = gpu_lanes(l, &all);
  lower_wide_loops(l, &all, lanes, &at, lanes > 1 ? pack_point : free_point, lanes > 1 ? (void *)&p : &f);
}

/* ---- nests ---- */

/* The value that a nest is there for: the last. */
static void line_of_nest(lower *l, const plan_nest *nest) {
  if (nest->kind == NEST_PACK) {
    lower_line(l, nest->packed);
  } else if (nest->values.count) {
    lower_line(l, nest->values.items[nest->values.count - 1]);
  } else if (nest->results.count) {
    lower_line(l, l->p->program->results.items[nest->results.items[0]].value);
  }
}

/* Values in f64: as if the program were of that type, but for what is read from memory. */
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
      gpu_levels_of(l->m, l->p->program, nest->values.items[0]) ? gpu_make_levels(l, nest)
                                                                : lower_scan(l, nest);
      break;
    case NEST_SEGMENT_ADJOINT:
      if (l->team) {
        gpu_segment_adjoint(l, nest);
        break;
      }
      lower_along_time(l, nest, nest->axes & ~axis_bit(value(l, nest->values.items[0])->index3),
                       lower_segment_adjoint_point);
      break;
    case NEST_FIRST_EQUAL: lower_first_equal(l, nest); break;
  }
  if (all && gpu_nest_feeds_groups(l, nest)) gpu_fence_groups(l);
  l->team = all;
}
