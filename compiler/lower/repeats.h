// Nests that repeat become calls.
#ifndef REC_LOWER_REPEATS_H
#define REC_LOWER_REPEATS_H

#include "compiler/lower/surroundings.h"

// What has been made for turns of one region.
typedef struct turn_function {
  ir function;
  LLVMTypeRef type;
  const char *text;
} turn_function;

typedef VEC(turn_function) turn_functions;

// Lowers the nests that repeat from nest `at` of these on; returns their count, or 0 where none do.
int lower_repeat(lower *l, nest_range nests, int at, turn_functions *made);

#endif
