// Where memory is free: what has been placed so far, each alive from one nest to another.
#pragma once

#include <stdint.h>

#include "compiler/base/vec.h"

typedef struct placed {
  int64_t offset, end;
  int first, last;  // nests between which it is alive
} placed;

typedef VEC(placed) placed_list;  // by offset

void first_fit_add(arena *a, placed_list *list, placed item);
// The end of a placed item in [offset, offset + size) that is alive at the same time; -1: there is
// none. The search goes on from *next, which begins at 0. A caller that moves behind that end asks
// again with the same *next.
int64_t first_fit_end(const placed_list *list, int *next, int64_t offset, int64_t size, int first,
                      int last);
