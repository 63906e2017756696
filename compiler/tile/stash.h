// Step form: forward values that the backward is handed instead of computing them again.
#pragma once

#include "compiler/tile/tile.h"

// `derived` begins with the values of `forward`, with the same numbers.
tile_gradient stash_forward_values(arena *a, const tile_program *forward,
                                   const tile_program *derived);

// The place of a value that goes from one program to another as stash `number`.
tile_place tile_stash_place(const tile_program *program, tile_id id, tile_role role, int number);
