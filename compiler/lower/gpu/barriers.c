// GPU: barriers of a block, where plan/gpu/barriers.c says that a nest waits.
#include "compiler/lower/gpu/nests.h"

void gpu_forget_accesses(lower *l, bool known) {
  if (l->since) plan_forget_accesses(l->since, known);
}

// Without a barrier of warps, the assembler would begin with the loads of two nests that read
// scratch.
void gpu_before_nest(lower *l, const plan_nest *nest) {
  if (l->since && plan_waits(l->e->a, l->since, nest))
    lower_barrier(l);
  else if (l->scratch == SCRATCH_READ)
    gpu_call(l->e, GPU_WARP_BARRIER, NULL, 0);
}

void lower_barrier(lower *l) {
  if (l->team->shares) gpu_call(l->e, GPU_BARRIER, NULL, 0);
}

void gpu_wait(lower *l) {
  lower_barrier(l);
  gpu_forget_accesses(l, false);
}
