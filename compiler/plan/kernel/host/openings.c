// Host, step form: sums that open a step are taken in the loop over the state that ends the step
// before (tile/openings.c).
//
//   for t: %8 = sum[K](k * S); S = ..   ->   stash 1 = %8 of the first step
//                                            for t: S = ..; stash 1 of the next step = sum[K](k ahead * S)
#include "compiler/plan/kernel_plan.h"

static int stashes_of(const tile_program *keeps) { return keeps ? keeps->results.count : 0; }

void host_open_ahead(kernel_plan *w) {
  const kernel *k = w->k;
  if (!k->opens || w->m.kind != MAP_LANES || w->m.lane_axis < 0) return;
  if (pass_is_left_out(k->without, kernel_stage.name_of(KERNEL_PASS_OPENINGS))) return;
  double start = pass_clock();
  tile_program *before;
  int first = stashes_of(w->common.program);
  tile_program *program = tile_open_ahead(w->a, k->program, w->m.lane_axis, first, &before);
  if (program) {
    kernel *opened = ARENA_NEW(w->a, kernel);
    *opened = *k;
    opened->program = program;
    w->k = w->m.kernel = opened;
    w->opening.program = before;
    w->first_opening = first;
  }
  pass_ran(&kernel_stage, KERNEL_PASS_OPENINGS, pass_clock() - start, program ? 1 : 0);
}
