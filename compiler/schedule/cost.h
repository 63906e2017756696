// The cost model: which form, which chunk.
#ifndef REC_SCHEDULE_COST_H
#define REC_SCHEDULE_COST_H

#include "compiler/tile/tile.h"

// Run-time sizes count as this many entries.
enum { COST_USUAL_SIZE = 8 };

// The body of a program, per step, in multiply-adds of a well filled product.
double cost_of_run(arena *a, const tile_program *program);
// A step of the host where an axis lies in lanes: one or two loops over the state, with all
// operations fused.
double cost_of_fused_step(arena *a, const tile_program *step);
// cost_of_run by value, for a whole run; 0 outside the body.
double *cost_of_values(arena *a, const tile_program *program);
// Entries of these axes.
double cost_elements(const tile_program *program, axis_set axes);

#endif
