// Random cells that are not linear: states that matrices of parameters turn, through gates, at every step.
#ifndef REC_TESTS_CELLS_H
#define REC_TESTS_CELLS_H

#include <stdint.h>

#include "compiler/base/arena.h"

// The text of a recurrence called `name`; the same seed gives the same text on every machine. One to three states, with or
// without heads. They have square matrices, shared by the heads or not, and pairs of narrow ones, of states, gates and inputs.
// There are lags, and sums and extremes over the axis that is turned.
char *random_cell(arena *memory, uint64_t seed, const char *name);

#endif
