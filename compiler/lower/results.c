// Results of a nest at a point: where they are wanted, and which lanes of them.
#include "compiler/lower/nest_target.h"

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
    place_leave_lanes(&where);
  }
  if (target->own) x = choose(e, target->own, x, real_number(e, 0, 0));
  int t = program->time_axis;
  if (!target->limit) {
    emit_branch branch = branch_begin(e, target->active);
    l->target->result(l, target, &where, axes, x);
    branch_end(e, &branch);
  } else if (where.vector_axis == t && t >= 0) {
    where.mask = lane_mask(e, int_sub(e, target->limit, at->index[t]), at->lanes);
    l->target->result(l, target, &where, axes, x);
  } else {
    emit_branch branch = branch_begin(e, int_compare(e, LLVMIntSLT, at->index[t], target->limit));
    l->target->result(l, target, &where, axes, x);
    branch_end(e, &branch);
  }
}
