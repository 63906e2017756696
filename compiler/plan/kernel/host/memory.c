// Host: the plans of a kernel for one clone, and where states, buffers and rows of tokens lie.
//
//   Mamba on x86-64-v4: lanes 32 of D; state [N] x 32 and sums of parameters, then recomputed rows of a chunk, then buffers
#include "compiler/plan/kernel_plan.h"

static const location on_stack = {-1, -1, false};

// Memory that lives from run to run. A buffer without the lane axis is small as well.
static location host_place_persistent(kernel_plan *w, const plan_buffer *b) {
  bool small = !b->numbers.sizes && b->numbers.factor <= (int64_t)PLAN_STACK_VECTORS * w->m.width;
  if (w->m.chunks_outside || w->panels) return kernel_take_of_instance(w, b->numbers.factor);
  return b->lane && small ? on_stack : kernel_take_extent(w, b->numbers, 1);
}

static void host_place_carried(kernel_plan *w, program_plan *p) {
  p->carried_at = ARENA_ARRAY(w->a, location, p->carried.count);
  for (int c = 0; c < p->carried.count; c++)
    p->carried_at[c] = host_place_persistent(w, &p->carried.items[c].memory);
  kernel_place_persistent(w, p, host_place_persistent);
}

static void host_place_around(kernel_plan *w, program_plan *p) {
  host_place_carried(w, p);
  kernel_place_staging(w, p);
}

// The program of opening sums reads the states of the main program, and places none.
static void host_place_opening(kernel_plan *w, program_plan *p) {
  p->carried_at = ARENA_ARRAY(w->a, location, p->carried.count);
  for (int c = 0; c < p->carried.count; c++) p->carried_at[c] = on_stack;
  kernel_place_persistent(w, p, host_place_persistent);
  kernel_place_staging(w, p);
}

static void place_scratch(kernel_plan *w, program_plan *p) {
  p->scratch = ARENA_ARRAY(w->a, location, p->p->scratch.count);
  for (int i = 0; i < p->p->scratch.count; i++)
    p->scratch[i] = kernel_take_extent(w, p->p->scratch.items[i], 1);
}

void host_plan_make(kernel_plan *w) {
  w->take = kernel_take_scratch;
  w->copies = 1;
  if (w->panels) kernel_plan_program(w, &w->common, w->common.program, false);
  if (w->opening.program) kernel_plan_program(w, &w->opening, w->opening.program, false);
  if (w->recomputes) kernel_plan_program(w, &w->recompute, w->k->recompute, false);
  kernel_plan_program(w, &w->main, w->k->program, kernel_goes_back(w->k->kind));
  if (w->recomputes) host_place_around(w, &w->recompute);
  host_place_around(w, &w->main);
  if (w->panels) host_place_around(w, &w->common);
  if (w->opening.program) host_place_opening(w, &w->opening);
  kernel_place_history(w, &w->main);
  kernel_place_stashes(w);
  place_scratch(w, &w->main);
  if (w->recomputes) place_scratch(w, &w->recompute);
  if (w->panels) place_scratch(w, &w->common);
  if (w->opening.program) place_scratch(w, &w->opening);
  kernel_place_kept(w, &w->main);
}
