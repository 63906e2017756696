// GPU: how the axes of a kernel become instances and tile axes, as the schedule has chosen
// (kernel.gpu).
//
//   value axis of 128, 64 entries by the schedule      a tile axis of 64 entries; the block goes through both tiles
#include "compiler/plan/kernel_plan.h"

bool kernel_has_own_lanes(const kernel *k) {
  return k->lane_axis >= 0 && k->gpu.lanes == LANES_OWN;
}

bool kernel_takes_lanes_in_turn(const kernel *k) { return k->gpu.lanes == LANES_IN_TURN; }

axis_set kernel_tiled_axes(const kernel *k) {
  axis_set tiled = k->gpu.lanes == LANES_TILE ? axis_bit(k->lane_axis) : 0;
  return k->gpu.value_entries ? tiled | axis_bit(k->gpu.value_axis) : tiled;
}

void kernel_map_to_threads(mapping *m) {
  const kernel *k = m->kernel;
  m->kind = kernel_has_own_lanes(k) ? MAP_THREADS : MAP_BLOCK;
  m->tiled = kernel_tiled_axes(k);
  m->instance = kernel_grid_of(k) & ~m->tiled;
  m->lane_axis = -1;
  m->warpgroups = k->gpu.warpgroups && m->kind == MAP_BLOCK && number_is_narrow(m->dtype);
}
