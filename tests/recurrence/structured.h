// Random programs for tests, from a seed: recurrences built around the structures that linearity
// knows. (The generator of tests/random builds freely from expressions; the two find different
// mistakes.)
#ifndef REC_TESTS_RECURRENCE_STRUCTURED_H
#define REC_TESTS_RECURRENCE_STRUCTURED_H

#include <stdint.h>

#include "compiler/base/arena.h"

// The text of a recurrence called `name`, with the functions it uses. It has one to three states. Their decays are gates,
// inputs, complex, or constants such as 0, 1, -0.8 and 1.02; others are resets, low rank, dense, delays, maxima, coupled,
// nonlinear. It has gates, reads, lags, folds and functions. The same seed gives the same text.
//
// Inputs, parameters and initial states are in [-1, 1]. Up to some fifty steps, values stay below some hundred and denominators
// away from 0, so that single precision is meaningful. Operations with a kink or a jump are applied to inputs and parameters
// alone (except in max-plus states), so that rounding seldom decides a branch.
char *structured_recurrence(arena *memory, uint64_t seed, const char *name);

#endif
