// Time slices that run side by side, for one sequence that is one instance, where nothing else
// could be shared out. Slices are combined by their states, exactly: states that decay element by
// element obey  state after = product of decays * state before + state after from zero. The cut
// depends on sizes alone, like every other. It costs the arithmetic of the states twice; the products
// that increments are made of may be kept from the first pass for the second.
#pragma once

#include "runtime/support/stage.h"

enum {
  FEWEST_SLICES = 4,     // fewer do not repay the second pass
  SPLIT_TIME_MIN = 1024  // steps that can be cut
};

// Sets call.slices and call.slice_steps; 0 where the call is not cut.
void split_plan(call *call);

// The same with as many slices as there may be, for any number of steps up to the call's: what
// needs the most workspace.
void split_most(call *call);

// Bytes of workspace of a call that is cut, without its saved states.
int64_t split_bytes(const call *call, bool backward);

// Outputs, final states and, if wanted, chunk-start states.
void split_forward_call(const call *call, stage_saved saved, void *workspace);

// All gradients. `recompute`: `saved` has memory but no states yet.
void split_backward_call(const call *call, stage_saved saved, bool recompute, void *workspace);
