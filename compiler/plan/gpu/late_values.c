// GPU: values that are made late.
#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/planner.h"

int plan_earliest_nest(const planner *q, tile_id id) {
  const plan_value *pv = &q->p->values[id];
  int64_t numbers = 1;
  if (pv->region != REGION_BODY) return 0;
  for (int axis = 0; axis < q->program->axes.count; axis++)
    if (axis_in(pv->tile, axis)) numbers *= plan_axis_size(q->m, q->program, axis);
  return numbers <= GPU_COST_LATE_NUMBERS ? 0 : q->p->nests.count - GPU_COST_LATE_NESTS;
}
