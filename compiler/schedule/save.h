// Values that forward saves for backward, beside the states (chunk form).
#ifndef REC_SCHEDULE_SAVE_H
#define REC_SCHEDULE_SAVE_H

#include "compiler/tile/tile.h"

// Chooses values of the backward that are read from what the forward saved, and changes all programs so. `instances`:
// the axes that are cut into instances. Returns the share of the backward's work that this spares; 0: nothing is saved.
double save_values(arena *a, const tile_program **forward, tile_gradient *gradient, axis_set instances);

#endif
