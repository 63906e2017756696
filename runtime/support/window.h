// A backward window after window of time, from the last to the first. Where tasks add to the
// gradients of tokens, each adds to a copy of its own; only the copies of a window are there at one
// time, and stay in the cache. The gradients of states are handed on from window to window.
//
//   24 heads that share keys of 128 numbers, 8 copies, 2048 steps  ->  copies of 128 steps, 16 times one after the other
//
// The windows depend on sizes alone. Gradients of parameters are added up over the windows.
#pragma once

#include "runtime/support/stage.h"

// Steps of a window; 0: the call is run whole.
int64_t window_steps(const call *call);

// Bytes of workspace.
int64_t window_bytes(const call *call, int64_t steps);

// BACKWARD, from `saved`.
void window_run(const call *call, int64_t steps, stage_saved saved, void *workspace);
