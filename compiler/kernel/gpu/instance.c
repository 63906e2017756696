// GPU: one instance: loads its states, runs its steps or chunks, stores its results.
#include "compiler/kernel/gpu/frame.h"
#include "compiler/lower/gpu/nests.h"

ir gpu_frame_number(kernel_frame *h, size_t offset) { return frame_field(h, h->frame, (int64_t)offset, h->e->i64); }

kernel_frame gpu_copy_of(const kernel_frame *h) {
  kernel_frame copy = *h;
  copy.gpu = ARENA_NEW(h->a, gpu_frame);
  *copy.gpu = *h->gpu;
  copy.team = &copy.gpu->team;
  return copy;
}

void gpu_open_program(kernel_frame *h, frame_program *p) {
  frame_open_program(h, p);
  if (h->gpu->team.shares) p->l.since = plan_memory_since(h->a, p->p);
  for (int c = 0; c < p->carried.count; c++)
    if (p->p->carried[c].accumulator >= 0) gpu_accumulators_open(&p->l, c);
}

static void open_instance(kernel_frame *h) {
  if (h->recomputes) gpu_open_program(h, &h->recompute);
  gpu_open_program(h, &h->main);
  if (h->recomputes) frame_open_instance(h, &h->recompute);
  frame_open_instance(h, &h->main);
}

void gpu_instance(kernel_frame *h) {
  if (h->plan->in_tiles) {
    gpu_instance_in_value_tiles(h);
    return;
  }
  open_instance(h);
  gpu_load_states(h, &h->main);
  frame_clear_sums(h, &h->main);
  if (h->recomputes) lower_region(&h->recompute.l, REGION_PROLOGUE);
  lower_region(&h->main.l, REGION_PROLOGUE);
  if (h->recomputes) gpu_hold_matrices(&h->recompute.l);
  gpu_hold_matrices(&h->main.l);
  gpu_loop_over_time(h);
  gpu_store_states(h, &h->main);
  lower_region(&h->main.l, REGION_EPILOGUE);
}
