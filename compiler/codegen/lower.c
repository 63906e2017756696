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
#include "lower_parts.h"

#include <math.h>
#include <string.h>

#include "../base/ice.h"

/* ---- memory ---- */

ir lower_extent(emitter *e, const ir *axis_size, extent x) {
  ir n = integer(e, x.factor);
  for (int axis = 0; axis < PLAN_MAX_AXES && x.factor; axis++) {
    if (axis_in(x.sizes, axis)) n = int_mul(e, n, axis_size[axis]);
  }
  return n;
}

view buffer_view(lower *l, const plan_buffer *b, ir base) {
  view v = {.base = base, .internal = true};
  for (int i = 0; i < b->axis_count; i++)
    v.stride[b->axes[i]] = lower_extent(l->e, l->axis_size, b->stride[b->axes[i]]);
  if (b->lane) v.stride[l->m->lane_axis] = integer(l->e, 1);
  return v;
}

LLVMTypeRef view_type(emitter *e, const view *v) {
  return number_is_narrow(v->stored) ? e->i16 : e->real;
}

ir view_address(lower *l, const view *v, const place_in_loops *at, axis_set axes) {
  emitter *e = l->e;
  ir offset = integer(e, 0);
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) {
    if (!axis_in(axes, axis) || !v->stride[axis]) continue;
    if (v->internal && axis == l->m->lane_axis) continue;
    if (!at->index[axis])
      ICE("codegen", "axis %s is read outside its loop", l->p->program->axes.items[axis].name);
    offset = int_add(e, offset, int_mul(e, at->index[axis], v->stride[axis]));
  }
  return element(e, view_type(e, v), v->base, offset);
}

static bool is_vector(const view *v, const place_in_loops *at, axis_set axes) {
  return at->lanes && axis_in(axes, at->vector_axis) && v->stride[at->vector_axis];
}

static ir mask_for(lower *l, const view *v, const place_in_loops *at) {
  return v->internal && at->vector_axis == l->m->lane_axis ? NULL : at->mask;
}

ir view_load(lower *l, const view *v, const place_in_loops *at, axis_set axes) {
  emitter *e = l->e;
  ir address = view_address(l, v, at, axes);
  int lanes = is_vector(v, at, axes) ? at->lanes : 0;
  ir stride = lanes ? v->stride[at->vector_axis] : NULL;
  if (v->present) {
    LLVMTypeRef row = LLVMVectorType(view_type(e, v), (unsigned)(lanes ? lanes : 1));
    ir zeros = stack_slot(e, row, "zeros");
    LLVMBuildStore(e->b, LLVMConstNull(row), zeros);
    address = LLVMBuildSelect(e->b, v->present, address, zeros, "");
    int64_t known;
    bool dense = lanes && int_known(stride, &known) && known == 1;
    if (lanes && !dense) stride = LLVMBuildSelect(e->b, v->present, stride, integer(e, 0), "");
  }
  ir mask = lanes ? mask_for(l, v, at) : NULL;
  if (number_is_narrow(v->stored)) return load_narrow(e, v->stored, address, stride, mask, lanes);
  if (!lanes) return load_real(e, address, 0);
  return gather(e, address, stride, mask, lanes);
}

void view_store(lower *l, const view *v, const place_in_loops *at, axis_set axes, ir x) {
  ir address = view_address(l, v, at, axes);
  bool vector = is_vector(v, at, axes);
  ir stride = vector ? v->stride[at->vector_axis] : NULL, mask = vector ? mask_for(l, v, at) : NULL;
  if (vector) x = spread(l->e, x, at->lanes);
  if (number_is_narrow(v->stored)) {
    store_narrow(l->e, v->stored, x, address, stride, mask);
  } else if (vector) {
    scatter(l->e, x, address, stride, mask);
  } else {
    store_real(l->e, x, address);
  }
}

static view buffer_of(lower *l, int buffer) {
  const plan_buffer *b = &l->p->buffers.items[buffer];
  if (b->carried >= 0) return l->carried[b->carried];
  return buffer_view(l, b, l->buffers[buffer]);
}

static view renamed_view(view x, int from, int to) {
  ir stride = x.stride[from];
  x.stride[from] = NULL;
  x.stride[to] = stride;
  return x;
}

static view sliced_view(lower *l, view x, int axis, int entry) {
  ir offset = int_mul(l->e, integer(l->e, entry), x.stride[axis]);
  x.base = element(l->e, view_type(l->e, &x), x.base, offset);
  x.stride[axis] = NULL;
  return x;
}

static view split_view(lower *l, view x, const tile_value *v) {
  ir stride = x.stride[v->index];
  x.stride[v->index] = NULL;
  x.stride[v->index2] = int_mul(l->e, stride, integer(l->e, known_size(l, v->index3)));
  x.stride[v->index3] = stride;
  return x;
}

static view joined_view(view x, const tile_value *v) {
  ir stride = x.stride[v->index3];
  x.stride[v->index2] = x.stride[v->index3] = NULL;
  x.stride[v->index] = stride;
  return x;
}

/* Operands of products: memory under index maps. */
view value_view(lower *l, tile_id id) {
  const tile_value *v = value(l, id);
  switch (v->op) {
    case TILE_ARGUMENT: return l->arguments[v->index];
    case TILE_STOP: return value_view(l, v->args[0]);
    case TILE_RENAME: return renamed_view(value_view(l, v->args[0]), v->index, v->index2);
    case TILE_SLICE: return sliced_view(l, value_view(l, v->args[0]), v->index, v->index2);
    case TILE_SPLIT: return split_view(l, value_view(l, v->args[0]), v);
    case TILE_JOIN: return joined_view(value_view(l, v->args[0]), v);
    case TILE_EXPAND: {
      view x = value_view(l, v->args[0]);
      for (int axis = 0; axis < PLAN_MAX_AXES; axis++) {
        if (axis_in(v->over, axis)) x.stride[axis] = NULL;
      }
      return x;
    }
    default: return buffer_of(l, l->p->values[id].buffer);
  }
}

view part_of_sum(lower *l, tile_id operand, view sum) {
  const tile_value *v = value(l, operand);
  switch (v->op) {
    case TILE_DOT: return sum;
    case TILE_JOIN: return part_of_sum(l, v->args[0], split_view(l, sum, v));
    case TILE_PLACE:
      return part_of_sum(l, v->args[0], sliced_view(l, sum, v->index, v->index2));
    case TILE_RENAME:
      return part_of_sum(l, v->args[0], renamed_view(sum, v->index2, v->index));
    default: ICE("codegen", "%s is no place of a sum", tile_op_text(v->op));
  }
}

/* ---- values at a point ---- */

ir lower_real_of_index(lower *l, const place_in_loops *at, int axis) {
  emitter *e = l->e;
  ir index = at->index[axis];
  if (at->lanes && at->vector_axis == axis) {
    ir *lane = ARENA_ARRAY(e->a, ir, at->lanes);
    for (int i = 0; i < at->lanes; i++) lane[i] = integer(e, i);
    index = LLVMBuildNSWAdd(e->b, spread(e, index, at->lanes),
                            LLVMConstVector(lane, (unsigned)at->lanes), "");
    return LLVMBuildSIToFP(e->b, index, real_type(e, at->lanes), "");
  }
  return LLVMBuildSIToFP(e->b, index, e->real, "");
}

ir lower_one_if(lower *l, ir condition) {
  int lanes = ir_lanes(condition);
  return choose(l->e, condition, real_number(l->e, 1, lanes), real_number(l->e, 0, lanes));
}

ir lower_value_at(lower *l, const place_in_loops *at, tile_id id);

static ir renamed_at(lower *l, const place_in_loops *at, const tile_value *v) {
  place_in_loops from = *at;
  from.moved = true;
  from.index[v->index] = at->index[v->index2];
  if (at->vector_axis == v->index2) {
    from.vector_axis = v->index;
  } else if (at->vector_axis == v->index) {
    from.vector_axis = -1;
    from.lanes = 0;
    from.mask = NULL;
  }
  return lower_value_at(l, &from, v->args[0]);
}

static ir sliced_at(lower *l, const place_in_loops *at, const tile_value *v) {
  place_in_loops from = *at;
  from.moved = true;
  from.index[v->index] = integer(l->e, v->index2);
  if (at->vector_axis == v->index) {
    from.vector_axis = -1;
    from.lanes = 0;
    from.mask = NULL;
  }
  return lower_value_at(l, &from, v->args[0]);
}

/* x where the index of the new axis is the entry, else 0 */
static ir placed_at(lower *l, const place_in_loops *at, const tile_value *v) {
  emitter *e = l->e;
  place_in_loops from = *at;
  from.moved = true;
  ir here;
  if (at->lanes && at->vector_axis == v->index) {
    from.vector_axis = -1;
    from.lanes = 0;
    from.mask = NULL;
    ir entry = real_number(e, v->index2, at->lanes);
    here = real_compare(e, LLVMRealOEQ, lower_real_of_index(l, at, v->index), entry);
  } else {
    here = LLVMBuildICmp(e->b, LLVMIntEQ, at->index[v->index], integer(e, v->index2), "");
  }
  ir x = lower_value_at(l, &from, v->args[0]);
  if (ir_lanes(x)) here = spread(e, here, ir_lanes(x));
  return choose(e, here, x, real_number(e, 0, ir_lanes(x)));
}

/* A value whose lanes do not lie side by side under an index map: one after another. */
static ir by_lanes(lower *l, const place_in_loops *at, tile_id id) {
  emitter *e = l->e;
  place_in_loops one = *at;
  one.moved = true;
  one.vector_axis = -1;
  one.lanes = 0;
  one.mask = NULL;
  ir all = LLVMGetPoison(real_type(e, at->lanes));
  for (int i = 0; i < at->lanes; i++) {
    one.index[at->vector_axis] = int_add(e, at->index[at->vector_axis], integer(e, i));
    all = LLVMBuildInsertElement(e->b, all, lower_value_at(l, &one, id), integer(e, i), "");
  }
  return all;
}

static bool in_lanes(const place_in_loops *at, int axis) {
  return at->lanes && at->vector_axis == axis;
}

static ir split_at(lower *l, const place_in_loops *at, tile_id id) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  if (in_lanes(at, v->index2)) return by_lanes(l, at, id);
  place_in_loops from = *at;
  from.moved = true;
  ir first = int_mul(e, at->index[v->index2], integer(e, known_size(l, v->index3)));
  from.index[v->index] = int_add(e, first, at->index[v->index3]);
  if (in_lanes(at, v->index3)) from.vector_axis = v->index;
  return lower_value_at(l, &from, v->args[0]);
}

/* Lanes that begin at `index`, a multiple of their number or known, stay within one entry of the outer axis. */
static bool within_inner(ir index, int lanes, int64_t inner) {
  int64_t begin;
  if (int_known(index, &begin)) return begin % inner + lanes <= inner;
  return inner % lanes == 0;
}

static ir joined_at(lower *l, const place_in_loops *at, tile_id id) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  int64_t inner = known_size(l, v->index3);
  ir index = at->index[v->index];
  bool lanes = in_lanes(at, v->index);
  if (lanes && !within_inner(index, at->lanes, inner)) return by_lanes(l, at, id);
  place_in_loops from = *at;
  from.moved = true;
  from.index[v->index2] = LLVMBuildUDiv(e->b, index, integer(e, inner), "");
  from.index[v->index3] = LLVMBuildURem(e->b, index, integer(e, inner), "");
  if (lanes) from.vector_axis = v->index3;
  return lower_value_at(l, &from, v->args[0]);
}

/* Entry 0 is read instead of one outside, and not taken. */
static ir shifted_at(lower *l, const place_in_loops *at, tile_id id) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  if (in_lanes(at, v->index)) return by_lanes(l, at, id);
  place_in_loops from = *at;
  from.moved = true;
  ir index = int_sub(e, at->index[v->index], integer(e, v->index2));
  ir inside =
      LLVMBuildICmp(e->b, LLVMIntULT, index, integer(e, known_size(l, v->index)), "");
  from.index[v->index] = LLVMBuildSelect(e->b, inside, index, integer(e, 0), "");
  ir x = lower_value_at(l, &from, v->args[0]);
  if (ir_lanes(x)) inside = spread(e, inside, ir_lanes(x));
  return choose(e, inside, x, real_number(e, 0, ir_lanes(x)));
}

static ir real_of_rows(lower *l, int64_t less) {
  ir rows = int_sub(l->e, l->rows, integer(l->e, less));
  return LLVMBuildSIToFP(l->e->b, rows, l->e->real, "");
}

static ir inline_at(lower *l, const place_in_loops *at, tile_id id) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  const tile_program *program = l->p->program;
  switch (v->op) {
    case TILE_NUMBER: return real_number(e, v->number, 0);
    case TILE_AXIS_SIZE: return LLVMBuildSIToFP(e->b, l->axis_size[v->index], e->real, "");
    case TILE_INDEX: return lower_real_of_index(l, at, v->index);
    case TILE_VALID: {
      ir t = lower_real_of_index(l, at, program->time_axis);
      return lower_one_if(l, real_compare(e, LLVMRealOLT, t, real_of_rows(l, 0)));
    }
    case TILE_LENGTH: return real_of_rows(l, 0);
    case TILE_AT_END: {
      ir t = lower_real_of_index(l, at, program->time_axis);
      return lower_one_if(l, real_compare(e, LLVMRealOEQ, t, real_of_rows(l, 1 + v->index2)));
    }
    case TILE_CAUSAL: {
      ir t = lower_real_of_index(l, at, v->index2), s = lower_real_of_index(l, at, v->index3);
      return lower_one_if(l, real_compare(e, v->index ? LLVMRealOGT : LLVMRealOGE, t, s));
    }
    case TILE_ARGUMENT: return view_load(l, &l->arguments[v->index], at, v->axes);
    case TILE_STOP:
    case TILE_EXPAND: return lower_value_at(l, at, v->args[0]);
    case TILE_RENAME: return renamed_at(l, at, v);
    case TILE_SLICE: return sliced_at(l, at, v);
    case TILE_PLACE: return placed_at(l, at, v);
    case TILE_SPLIT: return split_at(l, at, id);
    case TILE_JOIN: return joined_at(l, at, id);
    case TILE_SHIFT: return shifted_at(l, at, id);
    default: ICE("codegen", "%%%d (%s) is not at hand", id, tile_op_text(v->op));
  }
}

ir lower_value_at(lower *l, const place_in_loops *at, tile_id id) {
  if (!at->moved && l->memo[id]) return l->memo[id];
  const plan_value *pv = &l->p->values[id];
  ir x;
  if (pv->held == HELD_BUFFER) {
    view v = buffer_of(l, pv->buffer);
    x = view_load(l, &v, at, value(l, id)->axes);
  } else if (pv->held == HELD_SCALAR) {
    x = load_real(l->e, l->variables[id], pv->lane ? l->m->lanes : 0);
  } else {
    x = inline_at(l, at, id);
  }
  if (!at->moved) l->memo[id] = x;
  return x;
}

void lower_forget(lower *l) {
  memset(l->memo, 0, (size_t)l->p->program->values.count * sizeof *l->memo);
}

void lower_keep_value(lower *l, const place_in_loops *at, tile_id id, ir x) {
  const plan_value *pv = &l->p->values[id];
  if (pv->held == HELD_BUFFER) {
    view v = buffer_of(l, pv->buffer);
    view_store(l, &v, at, value(l, id)->axes, x);
  } else if (pv->held == HELD_SCALAR) {
    store_real(l->e, pv->lane ? spread(l->e, x, l->m->lanes) : x, l->variables[id]);
  }
}

/* ---- results ---- */

static void add_or_store(lower *l, const result_target *target, const place_in_loops *at,
                         axis_set axes, ir x) {
  if (target->add) {
    ir old = view_load(l, &target->at, at, axes);
    x = real_add(l->e, old, x);
  }
  view_store(l, &target->at, at, axes, x);
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
        branch_begin(e, LLVMBuildICmp(e->b, LLVMIntSLT, at->index[t], target->limit, ""));
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
  loop_end(l->e, &loop);
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
    ir rest = LLVMBuildURem(e->b, l->axis_size[axis], integer(e, width), "");
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

static double identity_of(tile_op op) {
  return op == TILE_MAX_OVER ? -INFINITY : op == TILE_MIN_OVER ? INFINITY : 0;
}

static bool reduces(tile_op op) {
  return op == TILE_SUM || op == TILE_DOT || op == TILE_MAX_OVER || op == TILE_MIN_OVER;
}

static ir combine(emitter *e, tile_op op, ir x, ir y) {
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

static void reduce_point(lower *l, const place_in_loops *at, const points *n, int position,
                         tile_id id) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  bool whole = !n->vector_reduced || at->lanes == n->sum_lanes;
  ir slot = whole ? n->sums[position] : n->short_sums[position];
  int lanes = sum_lanes_of(l, n, id, at->lanes);
  ir sum = load_real(e, slot, lanes);
  if (v->op == TILE_DOT) {
    sum = real_fma(e, lower_value_at(l, at, v->args[0]), lower_value_at(l, at, v->args[1]), sum);
  } else {
    sum = combine(e, v->op, sum, lower_value_at(l, at, v->args[0]));
  }
  store_real(e, sum, slot);
}

static void compute_point(lower *l, const place_in_loops *at, tile_id id) {
  const tile_value *v = value(l, id);
  const plan_value *pv = &l->p->values[id];
  if (v->op == TILE_ACCUMULATE) {
    view sum = buffer_of(l, pv->buffer);
    ir x = lower_value_at(l, at, v->args[0]);
    view_store(l, &sum, at, v->axes, real_add(l->e, view_load(l, &sum, at, v->axes), x));
    return;
  }
  if (pv->dot != NO_TILE) {
    tile_id x = v->args[0] == pv->dot ? v->args[1] : v->args[0];
    if (l->p->values[x].buffer == pv->buffer) return;
    view sum = buffer_of(l, pv->buffer);
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
    if (reduces(value(l, id)->op)) {
      reduce_point(l, at, n, i, id);
    } else {
      compute_point(l, at, id);
    }
  }
  for (int i = 0; i < n->nest->results.count; i++) {
    int result = n->nest->results.items[i];
    if (n->staged[i].block) {
      stage_point(l, &n->staged[i], at,
                  lower_value_at(l, at, l->p->program->results.items[result].value));
    } else {
      store_result(l, at, result);
    }
  }
  lower_forget(l);
}

static void start_sums(lower *l, const points *n, ir *slots, int lanes) {
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_id id = n->nest->values.items[i];
    if (!reduces(value(l, id)->op)) continue;
    int own = sum_lanes_of(l, n, id, lanes);
    slots[i] = stack_slot(l->e, real_type(l->e, own), "sum");
    store_real(l->e, real_number(l->e, identity_of(value(l, id)->op), own), slots[i]);
  }
}

static ir lanes_together(emitter *e, tile_op op, ir x) {
  if (op == TILE_SUM || op == TILE_DOT) return sum_of_lanes(e, x);
  ir all = LLVMBuildExtractElement(e->b, x, integer(e, 0), "");
  for (int i = 1; i < ir_lanes(x); i++)
    all = combine(e, op, all, LLVMBuildExtractElement(e->b, x, integer(e, i), ""));
  return all;
}

/* What the lanes of the whole vectors and of the rest come to. */
static ir total_of(lower *l, const points *n, int i, const vectors *v) {
  tile_op op = value(l, n->nest->values.items[i])->op;
  ir x = NULL;
  if (v->lanes) x = lanes_together(l->e, op, load_real(l->e, n->sums[i], v->lanes));
  if (!v->rest) return x;
  ir rest = load_real(l->e, n->short_sums[i], v->rest_lanes);
  if (v->rest_lanes) rest = lanes_together(l->e, op, rest);
  return x ? combine(l->e, op, x, rest) : rest;
}

static void finish_sums(lower *l, const place_in_loops *at, const points *n, const vectors *v) {
  for (int i = 0; i < n->nest->values.count; i++) {
    tile_id id = n->nest->values.items[i];
    if (!reduces(value(l, id)->op)) continue;
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
  lower_loops_over(l, &n->reduced, 0, &inner, reduced_loops, data);
  finish_sums(l, at, n, &v);
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

static void lower_point_nest(lower *l, const plan_nest *nest) {
  if (!has_work(l, nest)) return;
  points n = {.nest = nest, .vector = -1};
  n.sums = ARENA_ARRAY(l->e->a, ir, nest->values.count + 1);
  n.short_sums = ARENA_ARRAY(l->e->a, ir, nest->values.count + 1);
  axis_set outer = nest->axes & ~nest->over, reduced = nest->over;
  if (!nest->lane && nest->axes) {
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
  place_in_loops at = lower_start_place(l, nest->lane);
  lower_loops_over(l, &n.outer, 0, &at, outer_vectors, &n);
  for (int i = 0; i < nest->results.count; i++) {
    if (n.staged[i].block) add_staged_lanes(l, &n.staged[i]);
  }
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

void lower_points(lower *l, axis_set axes, bool lane, point_function *body, void *data) {
  free_points f = {.vector = -1, .body = body, .data = data};
  loop_axes all = lower_by_rank(l, axes);
  if (!lane && all.count) f.vector = all.axes[--all.count];
  place_in_loops at = lower_start_place(l, lane);
  lower_loops_over(l, &all, 0, &at, free_point, &f);
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

static void lower_pack(lower *l, const plan_nest *nest) {
  pack_data p = {.from = nest->packed, .to = buffer_of(l, nest->pack)};
  const plan_buffer *b = &l->p->buffers.items[nest->pack];
  if (lower_transposed(l, nest, b, p.to)) return;
  loop_axes all = {.count = b->axis_count};
  memcpy(all.axes, b->axes, sizeof all.axes);
  free_points f = {.vector = -1, .body = pack_point, .data = &p};
  if (all.count) f.vector = all.axes[--all.count];
  place_in_loops at = lower_start_place(l, false);
  lower_loops_over(l, &all, 0, &at, free_point, &f);
}

/* ---- nests ---- */

void lower_nest(lower *l, const plan_nest *nest) {
  switch (nest->kind) {
    case NEST_POINTS: lower_point_nest(l, nest); break;
    case NEST_PACK: lower_pack(l, nest); break;
    case NEST_DOT: lower_dot(l, nest); break;
    case NEST_SOLVE: lower_solve(l, nest); break;
    case NEST_PREFIX: lower_along_time(l, nest, nest->axes, lower_prefix_point); break;
    case NEST_SEGMENT: lower_along_time(l, nest, nest->axes, lower_segment_point); break;
    case NEST_SEGMENT_ADJOINT:
      lower_along_time(l, nest, nest->axes & ~axis_bit(value(l, nest->values.items[0])->index3),
                       lower_segment_adjoint_point);
      break;
    case NEST_FIRST_EQUAL: lower_first_equal(l, nest); break;
  }
}

/* ---- states ---- */

typedef struct commit_data {
  view from, to;
  axis_set axes;
} commit_data;

static void commit_point(lower *l, const place_in_loops *at, void *data) {
  const commit_data *c = data;
  view_store(l, &c->to, at, c->axes, view_load(l, &c->from, at, c->axes));
}

typedef struct stage_data {
  tile_id id;
  view to;
  axis_set axes;
} stage_data;

static void next_state_point(lower *l, const place_in_loops *at, void *data) {
  const stage_data *s = data;
  lower_forget(l);
  view_store(l, &s->to, at, s->axes, lower_value_at(l, at, s->id));
  lower_forget(l);
}

/* All new states are read before one is written: they may be index maps of each other's old values. */
void lower_commit(lower *l) {
  int count = l->p->carried_count;
  view *staged = ARENA_ARRAY(l->e->a, view, count);
  for (int c = 0; c < count; c++) {
    const carried_pair *pair = &l->p->carried[c];
    if (pair->in_place || pair->result < 0) continue;
    const tile_result *r = &l->p->program->results.items[pair->result];
    const plan_value *pv = &l->p->values[r->value];
    axis_set axes = tile_place_axes(l->p->program, &r->place);
    axis_set tile = plan_tile_axes(l->m, axes);
    bool lane = l->m->lane_axis >= 0 && axis_in(axes, l->m->lane_axis);
    if (pv->held == HELD_BUFFER) {
      staged[c] = buffer_of(l, pv->buffer);
      continue;
    }
    stage_data s = {.id = r->value, .axes = axes, .to = buffer_of(l, pair->staging)};
    lower_points(l, tile, lane, next_state_point, &s);
    staged[c] = s.to;
  }
  for (int c = 0; c < count; c++) {
    const carried_pair *pair = &l->p->carried[c];
    if (pair->in_place || pair->result < 0) continue;
    const tile_result *r = &l->p->program->results.items[pair->result];
    commit_data d = {
        .from = staged[c], .to = l->carried[c], .axes = tile_place_axes(l->p->program, &r->place)};
    axis_set tile = plan_tile_axes(l->m, d.axes);
    bool lane = l->m->lane_axis >= 0 && axis_in(d.axes, l->m->lane_axis);
    lower_points(l, tile, lane, commit_point, &d);
  }
}
