// Random recurrences without states: what they know of earlier steps is in lags of inputs and lets alone.
#ifndef REC_TESTS_STATELESS_H
#define REC_TESTS_STATELESS_H

#include <stdint.h>

#include "compiler/base/arena.h"

// The text of a recurrence called `name`. The same seed gives the same text on every machine. Sums of lags, each plain or
// weighted by a parameter, another lag or a gate. Lags of lets; sums, means and maxima over axes; an axis of run-time size.
char *stateless_recurrence(arena *memory, uint64_t seed, const char *name);

#endif
