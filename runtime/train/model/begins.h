// What states start from where a call is not given them (`state m[D] ~ -1e38`, `~ m0`), for initial
// states that are made here: kernels know their starts, but a state that is handed to them replaces
// it.
#pragma once

#include "runtime/train/model/execute.h"

// Adds what a state starts from to its numbers of one sequence; `weights`: those of the model.
void begin_add(const trained_model *of, const model_state *state, const void *weights,
               void *numbers);
// Adds the gradient by those numbers to that of the parameter which they start from.
void begin_add_gradient(const trained_model *of, const model_state *state, const void *gradient,
                        void *of_parameter);
