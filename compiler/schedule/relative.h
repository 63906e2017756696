// The program that summarises time slices of states that are held relative to running maxima.
#pragma once

#include "compiler/chunk/chunk.h"

// The forward program in the form of `forward`, in which the places of such states are marked
// (tile_place.relative). The sums of logarithms (recurrence_with_sums) stand in the places of
// factors. Without such states, it is `forward` itself.
const tile_program *schedule_relative(arena *a, const recurrence *r, const tile_program *forward);
