// The recurrences that the grid compares, and what their inputs must be told to reach every regime
// of decay.
#pragma once

#include "tests/runtime/problem.h"

typedef enum regime { WEAK, NORMAL, STRONG, MIXED, RESETS, REGIMES } regime;

// An input or parameter that decides how fast a state decays: its draws are `spread` times normal
// ones around the centre of the regime. `reset` makes the decay exactly 0 in f32; 0: there is no
// such number.
typedef struct grid_gate {
  const char *name;
  double weak, strong, reset, spread;
} grid_gate;

// How the numbers of an input or parameter must lie for the formula to make sense.
typedef enum domain { ANY, POSITIVE, NEGATIVE, UNIT, SMALL } domain;

typedef struct grid_domain {
  const char *name;
  domain domain;
} grid_domain;

typedef struct grid_case {
  const char *path, *recurrence;  // under the source folder
  const char *sizes[6];           // for -D; keys are at least 8, below which nothing is chunked
  const char *more_sizes[6];      // with --full
  int run_time_size;
  grid_gate gates[3];
  grid_domain domains[4];
} grid_case;

extern const grid_case grid_cases[];
extern const int grid_case_count;

// Whether a gate of the case can be brought there.
bool grid_has_regime(const grid_case *c, regime r);

// A number of a variable as the case wants it; NULL wants nothing.
double grid_in_domain(const grid_case *c, const char *variable, double x);

// Draws what is read as the case wants it.
void grid_draw(const grid_case *c, problem *p, uint64_t seed);

// Draws what the case reads, in a regime.
void grid_place(const grid_case *c, problem *p, regime r, uint64_t seed);
