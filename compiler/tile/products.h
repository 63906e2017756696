// Products as lists of factors: shared by simplify.c and arrange.c.
#ifndef REC_TILE_PRODUCTS_H
#define REC_TILE_PRODUCTS_H

#include "compiler/tile/tile.h"

typedef struct tile_factors {
  tile_id *items;
  int count;
  int capacity;
  bool negative;
} tile_factors;

// The factors of a product of products; a value that is none is its own factor, and so is a square in it.
void tile_collect_factors(const tile_program *p, tile_id id, arena *a, tile_factors *factors);

// Slices below elementwise values (sink.c).
tile_program *tile_sink_slices(arena *a, const tile_program *program);

// The last pass of tile_simplify: order of products, matrix products, signs.
tile_program *tile_arrange(arena *a, const tile_program *program);

#endif
