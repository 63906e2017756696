// Promised ranges, verified in libraries of recc --check: inputs, parameters and initial states
// before a call; outputs, and states after every step, behind it. Other libraries promise nothing
// here, and these functions then do nothing.
#pragma once

#include "runtime/support/call.h"

// What the call reads.
rec_status promise_check_operands(const call *call, bool backward);

// Bytes of workspace for the states, none without promises.
int64_t promise_bytes(const call *call);

// The states after every step of every sequence, by single steps beside the call. A call runs it
// first: final states may take the place of initial ones.
rec_status promise_check_states(const call *call, void *workspace);

// What the call has written.
rec_status promise_check_outputs(const call *call);
