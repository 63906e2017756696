// What the instances of a GPU kernel are: tiles of the value axis, heads in turn.
//
// Columns of a state along the value axis are independent. Each instance may have a tile of them;
// the values that tiles share are computed in each.
#include "compiler/schedule/gpu/instances.h"

#include <string.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/schedule/programs.h"

// ---- tiles of the value axis ----

static const tile_program *with_tile_of(arena *a, const tile_program *program, int axis,
                                        int entries) {
  if (!program) return NULL;
  program_work w = {.from = program, .axis = axis, .entries = entries};
  program_run(a, PROGRAM_TILE, &w);
  return w.made;
}

int gpu_value_axis(const kernel *k) {
  int best = -1;
  axis_set cut = k->cut;
  for (int i = 0; i < k->grid_count; i++) cut &= ~axis_bit(k->grid_axes[i]);
  for (int axis = 0; axis < k->recurrence->body.axes.count; axis++) {
    int64_t size = k->program->axes.items[axis].size;
    if (!axis_in(cut, axis) || size == TILE_RUNTIME_SIZE) continue;
    if (best < 0 || size > k->program->axes.items[best].size) best = axis;
  }
  return best;
}

static kernel cut_along(arena *a, const kernel *whole, int axis, int entries) {
  kernel k = *whole;
  k.program = with_tile_of(a, whole->program, axis, entries);
  k.recompute = with_tile_of(a, whole->recompute, axis, entries);
  return k;
}

kernel gpu_cut_into_instances(arena *a, const kernel *whole, int axis, int entries) {
  kernel k = cut_along(a, whole, axis, entries);
  k.lane_axis = axis;
  k.lane_block = entries;
  k.gpu.lanes = LANES_TILE;
  k.gpu.value_entries = 0;
  return k;
}

// ---- value-axis tiles one after another ----

kernel gpu_cut_into_tiles(arena *a, const kernel *whole, int axis, int entries) {
  kernel k = cut_along(a, whole, axis, entries);
  k.gpu.value_axis = axis;
  k.gpu.value_entries = entries;
  return k;
}

// Do instances along this axis share tokens, whose gradients they would add up? No state may lack
// the axis.
static bool has_shared_gradients(const tile_program *p, int axis) {
  bool shared = false;
  for (int i = 0; i < p->results.count; i++) {
    const tile_place *place = &p->results.items[i].place;
    if (axis_in(tile_body_axes(place), axis)) continue;
    if (place->role == TILE_D_STATE) return false;
    shared = shared || (place->role == TILE_D_INPUT && place->axis_count);
  }
  return shared;
}

kernel gpu_share_gradients(const kernel *whole, int heads) {
  kernel k = *whole;
  if (choice_is_left_out(k.without, CHOICE_HEADS_IN_TURN)) return k;
  for (int i = k.grid_count - 1; i >= 0; i--) {
    int axis = k.grid_axes[i];
    int64_t size = k.program->axes.items[axis].size;
    if (size == 1 || !has_shared_gradients(k.program, axis)) continue;
    memmove(&k.grid_axes[i], &k.grid_axes[i + 1], (size_t)(k.grid_count - 1 - i) * sizeof(int));
    k.grid_count--;
    k.lane_axis = axis;
    k.lane_block = size != TILE_RUNTIME_SIZE && size < heads ? (int)size : heads;
    k.gpu.lanes = LANES_IN_TURN;
    break;
  }
  return k;
}

bool gpu_may_have_tiles(const kernel *k) {
  return k->program->form == TILE_CHUNK && k->recompute && tile_takes(k->program, 1u << TILE_STATE);
}

// ---- time slices ----

// Entries of an axis that a block computes at a time.
static double block_entries(const kernel *k, int axis) {
  if (axis == k->lane_axis && k->gpu.lanes == LANES_OWN) return k->lane_block;
  int64_t size = k->program->axes.items[axis].size;
  return size == TILE_RUNTIME_SIZE || axis_in(kernel_grid_of(k) & ~kernel_tiled_axes(k), axis)
             ? 1
             : (double)size;
}

static double state_numbers(const kernel *k) {
  double all = 0;
  for (int i = 0; i < k->summary->results.count; i++) {
    const tile_place *place = &k->summary->results.items[i].place;
    // the state and its exponential
    double numbers = place->transfer ? 0 : place->relative ? 2 : 1;
    for (int x = 0; x < place->axis_count; x++) numbers *= block_entries(k, place->axes[x]);
    all += numbers;
  }
  return all;
}

double gpu_cost_of_combining(const kernel *k) {
  double numbers = state_numbers(k), tiles = k->gpu.value_entries ? (double)gpu_tiles(k) : 1;
  double product = k->transition_size ? k->transition_size * (double)k->transition_size *
                                            block_entries(k, k->value_axis)
                                      : 0;
  return tiles * (GPU_COST_COMBINE + gpu_cost_combine_element * numbers +
                  gpu_cost_combine_product * product);
}
