// What a nest reads from its surroundings, for functions that take nests out of them.
#pragma once

#include "compiler/lower/lower.h"

typedef VEC(ir *) ir_list;

// Nests from `first` to `last`, of one region.
typedef struct nest_range {
  region region;
  int first, last;
} nest_range;

// Every value of the surroundings of these nests that is no constant, in a fixed order.
ir_list surroundings_of(lower *l, nest_range nests);
// Those that the nests can read alone. Where buffers and rows lie is among them even if it is
// constant, and so are the entries and numbers that `varies` marks. The lowering needs `entries`.
ir_list surroundings_of_turn(arena *a, lower *l, nest_range nests, const bool *varies);
// The same state for another function, at whose start the builder of `e` stands.
lower surroundings_copy(const lower *l, emitter *e);
