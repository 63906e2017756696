// GPU: values that are made late.
#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/planner.h"

int plan_earliest_nest(const planner *q, tile_id id) {
  const plan_value *pv = &q->p->values[id];
  if (pv->region != REGION_BODY) return 0;
  return plan_entries(q->program, pv->tile) <= GPU_COST_LATE_NUMBERS
             ? 0
             : q->p->nests.count - GPU_COST_LATE_NESTS;
}
