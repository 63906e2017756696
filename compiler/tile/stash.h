// Step form: forward values that the backward is handed instead of computing them again.
#pragma once

#include "compiler/tile/tile.h"

// `derived` begins with the values of `forward`, with the same numbers.
tile_gradient stash_forward_values(arena *a, const tile_program *forward,
                                   const tile_program *derived);
