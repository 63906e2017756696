// Results of a nest at a point: stored, added to the stores of earlier instances, or kept for a later pass over value-axis
// tiles.
//
//   d.B [n] of instance 3     the first instance stores, later ones add; on a GPU each block has a copy, and tiles add up first
#include "compiler/lower/gpu/nests.h"

// To the tensor, or to the copy of it.
static void store_single_or_copy(lower *l, const result_target *target, const place_in_loops *at, axis_set axes, ir x) {
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

static void store_in_passes(lower *l, const result_target *target, const place_in_loops *at, axis_set axes, ir x) {
  emitter *e = l->e;
  bool wide = at->lanes && axis_in(axes, at->vector_axis);
  if (wide) x = spread(e, x, at->lanes);
  int lanes = wide ? at->lanes : 0;
  ir sum = stack_slot(e, real_type(e, lanes), "sum");
  store_real(e, x, sum);
  ir later = LLVMBuildNot(e->b, target->first_pass, "");
  if (l->only) later = LLVMBuildAnd(e->b, later, l->only, "");  // nobody else may read what it stores
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

static void add_or_store(lower *l, const result_target *target, const place_in_loops *at, axis_set axes, ir x) {
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

void lower_store_result(lower *l, const place_in_loops *at, int index) {
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
    emit_branch branch = branch_begin(e, int_compare(e, LLVMIntSLT, at->index[t], target->limit));
    add_or_store(l, target, &where, axes, x);
    branch_end(e, &branch);
  }
}
