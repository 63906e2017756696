// The least work that a recurrence needs: what `rec bench` measures the compiled code against.
#pragma once

#include "compiler/recurrence/recurrence.h"

// Multiply-adds that the cheapest known algorithm spends on one step of one batch entry, going
// forward.
double rec_limit_forward(const recurrence *program, const int64_t *axis_sizes);

// Forward and backward together, as a multiple of forward. Each product has two gradients, most of
// which are products of the same size. The states are made a second time.
#define REC_LIMIT_BOTH 3.2
