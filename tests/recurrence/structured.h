// Random programs for tests: legal recurrences of every kind, from a seed.
#ifndef REC_TESTS_RANDOM_GENERATE_H
#define REC_TESTS_RANDOM_GENERATE_H

#include <stdint.h>

#include "compiler/base/arena.h"

// The text of a .rec file with one recurrence, called `random`: one to three states (decays that are gates, constants
// such as 0, 1, -0.8 and 1.02, inputs, complex; resets, low rank, dense, delays, maxima, coupled, nonlinear), gates,
// reads, lags, folds, functions. The same seed gives the same text.
//
// With inputs, parameters and initial states in [-1, 1] and up to some fifty steps, values stay below some hundred and
// denominators away from 0, so that results in single precision are meaningful. Operations with a kink or a jump are
// applied to inputs and parameters alone (except in max-plus states), so that rounding seldom decides a branch.
char *generate_recurrence(arena *memory, uint64_t seed);

#endif
