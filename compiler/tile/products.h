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

// By value: operands and results that it is.
int *tile_count_uses(arena *a, const tile_program *program);

// Sums of y * x with a product y, without computing y (adjoint.c).
tile_program *tile_swap_sums(arena *a, const tile_program *program);

// Slices below elementwise values (sink.c).
tile_program *tile_sink_slices(arena *a, const tile_program *program);

// The last pass of tile_simplify: order of products, matrix products, signs.
tile_program *tile_arrange(arena *a, const tile_program *program);

#endif
