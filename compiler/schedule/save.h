// Values that forward saves for backward, beside the states (chunk form).
#pragma once

#include "compiler/plan/machine.h"
#include "compiler/tile/tile.h"

// Where values wait for backward: in `saved`, which lies in main memory; or in scratch, from the
// recompute of a group of chunks to its backward. Those of time slices wait for forward.
typedef enum save_place { SAVE_IN_MEMORY, SAVE_IN_SCRATCH, SAVE_OF_SLICE } save_place;

// Chooses values of the backward that are read from what the forward, or the recompute, has kept,
// and changes all programs so. `instances`: the axes that are cut into instances. `clone`: by whose
// figures it is chosen. Returns the share of the backward's work that this spares; 0: nothing is
// kept.
double save_values(arena *a, const tile_program **forward, tile_gradient *gradient,
                   axis_set instances, codegen_clone clone, save_place place);

// The same for the summary of a time slice and the forward behind it, which becomes one that reads
// what the summary has kept. The states before a summary are not those of the slice: what follows
// from them is no such value. What forward saves for backward is read whole, or nothing is. Returns
// the share of the forward's work that this spares.
double save_of_slice(arena *a, const tile_program **summary, const tile_program **forward,
                     axis_set instances, codegen_clone clone);
