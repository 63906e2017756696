// The cost model of the host: which form, which chunk. The GPU model is of its own (gpu/model.h).
//
// Programs are counted in terms; a clone has a figure for each (host_costs.def).
#pragma once

#include "compiler/plan/machine.h"
#include "compiler/tile/tile.h"

// Run-time sizes count as this many entries.
enum { COST_USUAL_SIZE = 8 };

typedef enum cost_term {
#define COST_TERM(term, name, about) COST_##term,
#include "compiler/schedule/host_costs.def"
  COST_TERMS
} cost_term;

const char *cost_term_name(cost_term term);

// A step, in terms; of programs the body.
typedef struct cost_counts {
  double of[COST_TERMS];
} cost_counts;

// The clone by whose figures a library for these clones is scheduled (none: all of the host).
codegen_clone cost_clone(unsigned clones);
// In multiply-adds of a well filled product.
double cost_of_counts(const cost_counts *counts, codegen_clone clone);
cost_counts cost_sum(cost_counts x, double factor, cost_counts y);  // x + factor * y

// A run of a program whose operations are loops of their own, with the axes that are cut into
// instances. `repeated`: those of them whose instances compute apart what does not vary along them.
cost_counts cost_count(arena *a, const tile_program *program, axis_set instances, axis_set repeated,
                       codegen_clone clone);
// A step, forward or back, where an axis lies in lanes: few loops over the state, with all
// operations fused. `opens`: sums that open a step are taken in the step before.
cost_counts cost_count_fused(arena *a, const tile_program *step, bool opens);

// Of such a run, as if all lay in a cache.
double cost_of_run(arena *a, const tile_program *program, codegen_clone clone);
// By value, for a whole run; 0 outside the body.
double *cost_of_values(arena *a, const tile_program *program, codegen_clone clone);
// By value, the share of runs that make it: 1 in the body, less in the rare branch of a condition, 0
// outside the body.
double *cost_shares(arena *a, const tile_program *program);
// Entries of these axes.
double cost_elements(const tile_program *program, axis_set axes);
