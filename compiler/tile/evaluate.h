// The elementwise operations on numbers, in double precision.
#ifndef REC_TILE_EVALUATE_H
#define REC_TILE_EVALUATE_H

#include "compiler/tile/tile.h"

// One element of an elementwise operation; `args` has three entries, those beyond the arity unused.
double tile_evaluate(tile_op op, const double *args);

#endif
