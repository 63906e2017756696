// GPU: elements of results, to which several blocks may add.
//
//   d.B [n]     each block adds to a copy of its own; value-axis tiles add up in `sums`, and the last one stores
#include "compiler/lower/gpu/nests.h"

// Stores to the tensor, or to this block's copy of it.
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
  ir sum = real_slot(e, x, "sum");
  ir later = bit_not(e, target->first_pass);
  // no other thread may read the sum before it is stored
  if (l->only) later = bit_and(e, later, l->only);
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

void gpu_result(lower *l, const result_target *target, const place_in_loops *at, axis_set axes,
                ir x) {
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
