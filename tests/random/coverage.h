// What random programs have had so far: each construct in each place, and each two constructs
// together.
#pragma once

#include "tests/random/program.h"

typedef struct coverage {
  int programs;
  int places[MOST_CONSTRUCTS][PLACES], pairs[MOST_CONSTRUCTS][MOST_CONSTRUCTS];
} coverage;

void coverage_add(coverage *all, const contents *has);
// Two lines for places and pairs: how many there are, and the rarest.
void coverage_print(const coverage *all);
// How often the rarest of both occurred.
int coverage_least(const coverage *all);
