// The program that summarises time slices of states that are held relative to running maxima.
#ifndef REC_SCHEDULE_RELATIVE_H
#define REC_SCHEDULE_RELATIVE_H

#include "compiler/chunk/chunk.h"

// The forward program in the form of `forward`, whose places of such states are marked (tile_place.relative), with the sums
// that joins want (recurrence_with_sums) in the places of their factors. `forward` itself where there are none.
const tile_program *schedule_relative(arena *a, const recurrence *r, const tile_program *forward);

#endif
