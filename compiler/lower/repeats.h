// Nests in order; those that repeat become calls.
#pragma once

#include "compiler/lower/surroundings.h"

// What has been made for turns of one region.
typedef struct turn_function {
  ir function;
  LLVMTypeRef type;
  const char *text;
} turn_function;

typedef VEC(turn_function) turn_functions;

// Lowers nest number `at` of these, or all turns of the repeat that begins there. Returns how many
// nests that were.
int lower_nests_from(lower *l, nest_range nests, int at, turn_functions *made);
