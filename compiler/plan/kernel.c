// Questions about the kernels that make summaries of stretches of time.
#include "compiler/plan/kernel.h"

bool kernel_has_factor(const tile_program *ends, int tensor) {
  for (int i = 0; i < ends->results.count; i++) {
    const tile_place *place = &ends->results.items[i].place;
    if (place->transfer && !place->relative && place->tensor == tensor) return true;
  }
  return false;
}

bool kernel_couples(const tile_program *ends, int tensor, int other) {
  for (int i = 0; i < ends->results.count; i++) {
    const tile_place *place = &ends->results.items[i].place;
    if (!place->source) continue;
    int from = place->source - 1;
    if (place->tensor == tensor && from == other) return true;
    if (place->tensor == other && from == tensor) return true;
  }
  return false;
}

double kernel_first_transfer(const tile_place *place) {
  return place->component || place->relative || place->source ? 0 : 1;
}

bool kernel_is_maximum(const tile_place *place) {
  return place->relative && !place->transfer && place->relative - 1 == place->tensor;
}
