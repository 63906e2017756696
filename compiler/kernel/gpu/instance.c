// GPU: one instance: loads its states, runs its steps or chunks, stores its results.
#include "compiler/kernel/gpu/frame.h"
#include "compiler/lower/gpu/nests.h"

static void open_kernel_instance(kernel_frame *h) {
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
  open_kernel_instance(h);
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
