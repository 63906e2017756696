// Random recurrences of heads that share things, at sizes that are told at run time or compiled in.
#ifndef REC_TESTS_HEADS_H
#define REC_TESTS_HEADS_H

#include <stdint.h>

#include "compiler/base/arena.h"

// The text of a recurrence called `name`; the same seed gives the same text on every machine. Up to three axes of heads, in any
// order among keys and values; inputs, parameters, lets, lags and states that have all of these axes or lack some; matrices
// with decays and erasures; delays, averages, maxima and nonlinear states beside them; every fourth has no state but lags.
char *recurrence_of_heads(arena *memory, uint64_t seed, const char *name);

#endif
