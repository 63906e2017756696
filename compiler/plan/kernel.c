// Questions about the kernel that makes the summaries of time slices.
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
