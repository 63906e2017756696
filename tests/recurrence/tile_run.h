// Runs of tile programs in float64: the oracle of what is made of them.
#pragma once

#include "compiler/tile/tile.h"

// Runs the program over a whole sequence as a kernel would (chunks in order or in reverse,
// sections, padding). Same tensors as reference_execute; batch entries one after another.
// `gradient` NULL: forward alone. False if memory is short.
bool tile_execute(const recurrence *from, const tile_program *forward,
                  const tile_gradient *gradient, const reference_run *run);
