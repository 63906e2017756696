// The value of an operation at a point of a loop nest.
//
//   at t = 5, K in lanes:   %7 = rename %3 t -> s     %3 at s = 5
//                           %8 = place %4 half = 1    half == 1 ? %4 : 0
//
// A value in a buffer or a variable is loaded. Index maps move the point. If a map takes the lanes
// of an axis apart, the lanes are computed one after another.
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/lower/nest_target.h"

// The index of an axis, or those of the lanes along it. The host has them in 32 bits: without AVX-512
// no instruction makes reals of 64.
static ir index_of(lower *l, const place_in_loops *at, int axis) {
  emitter *e = l->e;
  ir index = at->index[axis];
  if (!at->lanes || at->vector_axis != axis) return index;
  if (l->m->kind == MAP_LANES) index = LLVMBuildTrunc(e->b, index, e->i32, "");
  ir *lane = ARENA_ARRAY(e->a, ir, at->lanes);
  for (int i = 0; i < at->lanes; i++) lane[i] = LLVMConstInt(LLVMTypeOf(index), (unsigned)i, 0);
  return LLVMBuildNSWAdd(e->b, spread(e, index, at->lanes),
                         LLVMConstVector(lane, (unsigned)at->lanes), "");
}

static ir index_as_real(emitter *e, ir index) {
  return LLVMBuildSIToFP(e->b, index, real_type(e, ir_lanes(index)), "");
}

ir lower_real_of_index(lower *l, const place_in_loops *at, int axis) {
  return index_as_real(l->e, index_of(l, at, axis));
}

static LLVMRealPredicate of_reals(LLVMIntPredicate p) {
  switch (p) {
    case LLVMIntSLT: return LLVMRealOLT;
    case LLVMIntSGT: return LLVMRealOGT;
    case LLVMIntSGE: return LLVMRealOGE;
    default: return LLVMRealOEQ;
  }
}

// Compares steps: integers, which need no conversion; lanes as reals, whose masks are as wide as
// what they choose from.
static ir compare_steps(lower *l, LLVMIntPredicate p, ir t, ir s) {
  emitter *e = l->e;
  bool lanes = ir_lanes(t) || ir_lanes(s);
  return lanes ? real_compare(e, of_reals(p), index_as_real(e, t), index_as_real(e, s))
               : int_compare(e, p, t, s);
}

ir lower_one_if(lower *l, ir condition) {
  int lanes = ir_lanes(condition);
  return choose(l->e, condition, real_number(l->e, 1, lanes), real_number(l->e, 0, lanes));
}

static ir renamed_at(lower *l, const place_in_loops *at, const tile_value *v) {
  place_in_loops from = *at;
  from.moved = true;
  from.index[tile_renamed_from(v)] = at->index[tile_renamed_to(v)];
  if (at->vector_axis == tile_renamed_to(v))
    from.vector_axis = tile_renamed_from(v);
  else if (at->vector_axis == tile_renamed_from(v))
    place_leave_lanes(&from);
  return lower_value_at(l, &from, v->args[0]);
}

static ir varying_entry(const lower *l, tile_id id) { return l->entries ? l->entries[id] : NULL; }

ir lower_entry(lower *l, tile_id id) {
  ir varying = varying_entry(l, id);
  return varying ? varying : integer(l->e, tile_entry(value(l, id)));
}

static ir sliced_at(lower *l, const place_in_loops *at, tile_id id) {
  const tile_value *v = value(l, id);
  place_in_loops from = *at;
  from.moved = true;
  from.index[tile_entry_axis(v)] = lower_entry(l, id);
  if (at->vector_axis == tile_entry_axis(v)) place_leave_lanes(&from);
  return lower_value_at(l, &from, v->args[0]);
}

// x where the index of the new axis is the entry, else 0
static ir placed_at(lower *l, const place_in_loops *at, tile_id id) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  place_in_loops from = *at;
  from.moved = true;
  ir here;
  if (at->lanes && at->vector_axis == tile_entry_axis(v)) {
    place_leave_lanes(&from);
    ir varying = varying_entry(l, id);
    ir entry =
        varying ? LLVMBuildSIToFP(e->b, varying, e->real, "") : real_number(e, tile_entry(v), 0);
    here = real_compare(e, LLVMRealOEQ, lower_real_of_index(l, at, tile_entry_axis(v)),
                        spread(e, entry, at->lanes));
  } else {
    here = int_compare(e, LLVMIntEQ, at->index[tile_entry_axis(v)], lower_entry(l, id));
  }
  ir x = lower_value_at(l, &from, v->args[0]);
  if (ir_lanes(x)) here = spread(e, here, ir_lanes(x));
  return choose(e, here, x, real_number(e, 0, ir_lanes(x)));
}

// A value whose lanes do not lie side by side under an index map: one after another.
static ir value_by_lanes(lower *l, const place_in_loops *at, tile_id id) {
  emitter *e = l->e;
  place_in_loops one = *at;
  one.moved = true;
  place_leave_lanes(&one);
  ir all = LLVMGetPoison(real_type(e, at->lanes));
  for (int i = 0; i < at->lanes; i++) {
    one.index[at->vector_axis] = int_add_n(e, at->index[at->vector_axis], i);
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
  if (in_lanes(at, tile_outer_axis(v))) return value_by_lanes(l, at, id);
  place_in_loops from = *at;
  from.moved = true;
  ir first = int_mul_n(e, at->index[tile_outer_axis(v)], known_size(l, tile_inner_axis(v)));
  from.index[tile_whole_axis(v)] = int_add(e, first, at->index[tile_inner_axis(v)]);
  if (in_lanes(at, tile_inner_axis(v))) from.vector_axis = tile_whole_axis(v);
  return lower_value_at(l, &from, v->args[0]);
}

// Lanes that begin at `index`, a multiple of their number or known, stay within one entry of the
// outer axis.
static bool within_inner(ir index, int lanes, int64_t inner) {
  int64_t begin;
  if (int_known(index, &begin)) return begin % inner + lanes <= inner;
  return inner % lanes == 0;
}

static ir combined_element(lower *l, const place_in_loops *at, tile_id id) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  int64_t inner = known_size(l, tile_inner_axis(v));
  ir index = at->index[tile_whole_axis(v)];
  bool lanes = in_lanes(at, tile_whole_axis(v));
  if (lanes && !within_inner(index, at->lanes, inner)) return value_by_lanes(l, at, id);
  place_in_loops from = *at;
  from.moved = true;
  from.index[tile_outer_axis(v)] = int_div_n(e, index, inner);
  from.index[tile_inner_axis(v)] = int_rem_n(e, index, inner);
  if (lanes) from.vector_axis = tile_inner_axis(v);
  return lower_value_at(l, &from, v->args[0]);
}

// Entry 0 is read instead of one outside, and not taken.
static ir shifted_at(lower *l, const place_in_loops *at, tile_id id) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  if (in_lanes(at, tile_shift_axis(v))) return value_by_lanes(l, at, id);
  place_in_loops from = *at;
  from.moved = true;
  ir index = int_sub_n(e, at->index[tile_shift_axis(v)], tile_shift_distance(v));
  ir inside = int_compare(e, LLVMIntULT, index, integer(e, known_size(l, tile_shift_axis(v))));
  from.index[tile_shift_axis(v)] = int_choose(e, inside, index, integer(e, 0));
  ir x = lower_value_at(l, &from, v->args[0]);
  if (ir_lanes(x)) inside = spread(e, inside, ir_lanes(x));
  return choose(e, inside, x, real_number(e, 0, ir_lanes(x)));
}

static ir index_at(lower *l, const place_in_loops *at, int axis) {
  if (!axis_in(l->m->tiled, axis)) return lower_real_of_index(l, at, axis);
  place_in_loops whole = *at;
  whole.index[axis] = int_add(l->e, l->tile_first, at->index[axis]);
  return lower_real_of_index(l, &whole, axis);
}

static ir inline_at(lower *l, const place_in_loops *at, tile_id id) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  const tile_program *program = l->p->program;
  switch (v->op) {
    case TILE_NUMBER: {
      ir varying = varying_entry(l, id);
      return varying ? varying : real_number(e, v->number, 0);
    }
    case TILE_AXIS_SIZE:
      return LLVMBuildSIToFP(e->b, l->axis_size[tile_index_axis(v)], e->real, "");
    case TILE_INDEX: return index_at(l, at, tile_index_axis(v));
    case TILE_VALID:
      return lower_one_if(
          l, compare_steps(l, LLVMIntSLT, index_of(l, at, program->time_axis), l->rows));
    case TILE_LENGTH: return index_as_real(e, l->rows);
    case TILE_AT_END: {
      ir step = int_sub_n(e, l->rows, 1 + tile_steps_before_end(v));
      return lower_one_if(l,
                          compare_steps(l, LLVMIntEQ, index_of(l, at, program->time_axis), step));
    }
    case TILE_CAUSAL: {
      ir t = index_of(l, at, tile_step_axis(v)), s = index_of(l, at, tile_other_step_axis(v));
      return lower_one_if(l,
                          compare_steps(l, tile_is_exclusive(v) ? LLVMIntSGT : LLVMIntSGE, t, s));
    }
    case TILE_ARGUMENT: return view_load(l, &l->arguments[tile_argument_number(v)], at, v->axes);
    case TILE_STOP:
    case TILE_EXPAND: return lower_value_at(l, at, v->args[0]);
    case TILE_RENAME: return renamed_at(l, at, v);
    case TILE_SLICE: return sliced_at(l, at, id);
    case TILE_PLACE: return placed_at(l, at, id);
    case TILE_SPLIT: return split_at(l, at, id);
    case TILE_JOIN: return combined_element(l, at, id);
    case TILE_SHIFT: return shifted_at(l, at, id);
    default: break;
  }
  if (!l->p->values[id].inlined) ICE("lower", "%%%d (%s) is not at hand", id, tile_op_text(v->op));
  ir args[3];
  for (int k = 0; k < tile_arity(v->op); k++) args[k] = lower_value_at(l, at, v->args[k]);
  return expr_apply(e, v->op, args);
}

static emitter variable_type(lower *l, const plan_value *pv) {
  return pv->wide ? emit_wide(l->e) : emit_as(l->e, l->e->memory);
}

ir lower_value_at(lower *l, const place_in_loops *at, tile_id id) {
  if (!at->moved && l->memo[id]) return l->memo[id];
  const plan_value *pv = &l->p->values[id];
  ir x;
  if (pv->held == HELD_BUFFER && l->target->buffered) {
    x = l->target->buffered(l, at, id);
  } else if (pv->held == HELD_BUFFER) {
    view v = lower_buffer(l, pv->buffer);
    x = view_load(l, &v, at, value(l, id)->axes);
  } else if (pv->held == HELD_SCALAR) {
    emitter as = variable_type(l, pv);
    x = as_real(l->e, load_real(&as, l->variables[id], pv->lane ? l->m->lanes : 0));
  } else {
    LLVMMetadataRef line = lower_line(l, id);
    x = inline_at(l, at, id);
    lower_line_back(l, line);
  }
  if (!at->moved) l->memo[id] = x;
  return x;
}

void lower_forget(lower *l) {
  memset(l->memo, 0, (size_t)l->p->program->values.count * sizeof *l->memo);
}

// Where a value under renames of this one is at the same point.
place_in_loops lower_place_under(lower *l, const place_in_loops *at, tile_id id, tile_id of) {
  if (id == of) return *at;
  const tile_value *v = value(l, id);
  place_in_loops place = lower_place_under(l, at, v->args[0], of);
  place.index[tile_renamed_to(v)] = place.index[tile_renamed_from(v)];
  if (place.vector_axis == tile_renamed_from(v)) place.vector_axis = tile_renamed_to(v);
  return place;
}

void lower_keep_value(lower *l, const place_in_loops *at, tile_id id, ir x) {
  const plan_value *pv = &l->p->values[id];
  if (pv->held == HELD_BUFFER) {
    view v = lower_buffer(l, pv->buffer);
    view_store(l, &v, at, value(l, id)->axes, x);
  } else if (pv->held == HELD_SCALAR) {
    emitter as = variable_type(l, pv);
    x = as_real(&as, x);
    store_real(&as, pv->lane ? spread(&as, x, l->m->lanes) : x, l->variables[id]);
  }
}
