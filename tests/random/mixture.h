// Random recurrences that mix the structures for which there are chunked forms, at sizes where these are chosen.
#ifndef REC_TESTS_MIXTURE_H
#define REC_TESTS_MIXTURE_H

#include <stdint.h>

#include "compiler/base/arena.h"

// The text of a recurrence called `name`; the same seed gives the same text on every machine. One or two memories with keys and
// values. The decay of each is none, scalar, by rows, columns, both or entries, as a logarithm, a product, a sign, a reset, or
// complex. The write is plain, from two steps, or of several micro-steps. There may be an erasure of low rank, a normaliser, a
// stabiliser or a coupled partner. Reads come before and after the step, with a bonus or quotients.
//
// Inputs called `promised..` must lie in [-3, 0].
char *mixed_recurrence(arena *memory, uint64_t seed, const char *name);

#endif
