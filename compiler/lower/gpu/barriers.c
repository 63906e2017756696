// GPU: barriers of a block, where plan/gpu/barriers.c says that a nest waits.
#include "compiler/lower/gpu/nests.h"

void gpu_forget_accesses(lower *l, bool known) {
  if (l->since) plan_forget_accesses(l->since, known);
}

void gpu_before_nest(lower *l, const plan_nest *nest) {
  if (plan_waits(l->e->a, l->since, nest)) lower_barrier(l);
}

void lower_barrier(lower *l) {
  if (l->team->shares) gpu_call(l->e, GPU_BARRIER, NULL, 0);
}

void gpu_wait(lower *l) {
  lower_barrier(l);
  gpu_forget_accesses(l, false);
}
