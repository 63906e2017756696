// GPU: scratch of kernels that compute value-axis tiles one after another
// (kernel/gpu/value_tiles.c).
#include "compiler/plan/kernel_plan.h"

axis_set gpu_value_tile_axes(const kernel *k) {
  axis_set axes = k->gpu.lanes == LANES_IN_TURN ? axis_bit(k->lane_axis) : 0;
  return k->gpu.value_entries ? axes | axis_bit(k->gpu.value_axis) : axes;
}

int64_t gpu_tiles_of(const kernel *k) {
  if (!k->gpu.value_entries) return 1;
  return k->recurrence->body.axes.items[k->gpu.value_axis].size / k->gpu.value_entries;
}

bool gpu_has_value_tiles(const kernel *k) { return gpu_value_tile_axes(k) != 0; }

int gpu_heads_in_turn(const kernel *k) { return k->gpu.lanes == LANES_IN_TURN ? k->lane_block : 1; }

int64_t gpu_most_value_tiles(const kernel *k) { return gpu_heads_in_turn(k) * gpu_tiles_of(k); }

int64_t gpu_whole_size(const kernel_plan *w, int axis) {
  return axis_in(w->m.tiled, axis) ? w->k->recurrence->body.axes.items[axis].size
                                   : plan_axis_size(w->main.program, axis);
}

static int64_t numbers_of_result(const kernel_plan *w, const tile_place *place) {
  int64_t numbers = place->time ? w->k->chunk : 1;
  for (int x = 0; x < place->axis_count; x++)
    if (!axis_in(w->m.instance, place->axes[x])) numbers *= gpu_whole_size(w, place->axes[x]);
  return numbers;
}

static int64_t take_padded(int64_t *total, int64_t numbers) {
  int64_t offset = *total;
  *total += (numbers + 31) / 32 * 32;
  return offset;
}

// Is the result a sum over tiles? It lacks a tiled axis that its value has or is partial over.
static bool is_sum_of_passes(const kernel_plan *w, const tile_result *r) {
  axis_set lacking = gpu_value_tile_axes(w->k) & ~tile_body_axes(&r->place);
  if (r->place.role != TILE_D_INPUT && r->place.role != TILE_D_PARAM) return false;
  return lacking & w->main.p->values[r->value].own;
}

void gpu_place_value_tiles(kernel_plan *w) {
  const tile_program *program = w->main.p->program;
  w->spill_at = ARENA_ARRAY(w->a, location, w->main.carried.count);
  for (int c = 0; c < w->main.carried.count; c++) {
    int64_t numbers = w->main.carried.items[c].memory.numbers.factor;
    w->spill_at[c] = (location){take_padded(&w->instance_numbers, numbers), -1, false};
  }
  w->spill_elements = w->instance_numbers * gpu_most_value_tiles(w->k);
  w->sums_at = ARENA_ARRAY(w->a, location, program->results.count);
  for (int i = 0; i < program->results.count; i++) {
    const tile_result *r = &program->results.items[i];
    w->sums_at[i] = (location){-1, -1, false};
    if (!is_sum_of_passes(w, r)) continue;
    int64_t numbers = numbers_of_result(w, &r->place);
    w->sums_at[i].offset = take_padded(&w->shared_numbers, numbers);
    w->tile_sums += (numbers + 31) / 32 * 32;
  }
}
