// Long packed sequences that are one instance each. Where they are most of the work, nothing could
// be shared out. They run by themselves after the others, each cut in time as it would be alone
// (split.h).
#pragma once

#include "runtime/support/split.h"

// Sets call.alone; 0 where all sequences run together.
void alone_plan(call *call);

// Bytes of workspace, whatever the lengths: 0 if none of them can run alone.
int64_t alone_bytes(const call *call, bool backward);

// Gradients of parameters that a part of a call writes: their bytes in the workspace, with the
// table of what is replaced; the part writes those that are wanted there; they are added to the
// call's.
int64_t alone_gradients_bytes(const call *call);
void **alone_replace_gradients(call *one, void *workspace);
void alone_add_gradients(const call *whole, const call *one);

// Runs a call of one sequence.
typedef void alone_run(call *one, stage_saved saved, bool recompute, char *workspace);

// The sequences that the call itself has left out. Backward adds to gradients of parameters.
void alone_forward_calls(const call *call, stage_saved saved, char *workspace, alone_run *run);
void alone_backward_calls(const call *call, stage_saved saved, bool recompute, char *workspace,
                          alone_run *run);
