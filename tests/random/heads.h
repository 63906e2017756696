// Random recurrences of heads that share things, at sizes that are told at run time or compiled in.
#ifndef REC_TESTS_HEADS_H
#define REC_TESTS_HEADS_H

#include <stdint.h>

#include "compiler/base/arena.h"

// The text of a recurrence called `name`; the same seed gives the same text on every machine. Up to three axes of heads, in any
// order among keys and values. Inputs, parameters, lets, lags and states have all of these axes or lack some. There are
// matrices with decays and erasures, and beside them delays, averages, maxima and nonlinear states. Every fourth program has no
// state but lags.
char *recurrence_of_heads(arena *memory, uint64_t seed, const char *name);

#endif
