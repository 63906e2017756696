// Products as lists of factors, and programs made anew: shared by the passes of this folder.
#pragma once

#include "compiler/tile/tile.h"

typedef struct tile_factors {
  tile_id *items;
  int count;
  int capacity;
  bool negative;
} tile_factors;

// The factors of a product of products; a value that is none is its own factor, and so is a square
// in it.
void tile_collect_factors(const tile_program *p, tile_id id, arena *a, tile_factors *factors);

// A program made anew, value by value: `rule` gives what stands for a value in `to`, where its
// operands have images already.
typedef struct tile_rewrite {
  const tile_program *from;
  tile_program *to;
  const int *uses;  // by value of `from`: operands and results that it is
  tile_id *image;
  const void *context;  // what the rule knows besides
} tile_rewrite;
tile_program *tile_rewritten(arena *a, const tile_program *program,
                             tile_id (*rule)(tile_rewrite *r, tile_id id), const void *context);
// The value with the images of its operands.
tile_id tile_rewrite_copy(tile_rewrite *r, tile_id id);

// Sums of y * x with a product y, without computing y (adjoint.c).
tile_program *tile_swap_sums(arena *a, const tile_program *program);

// Sums of terms that are matrix products, in step form outer products, term by term (distribute.c).
tile_program *tile_distribute_sums(arena *a, const tile_program *program);

// Slices below elementwise values (sink.c).
tile_program *tile_sink_slices(arena *a, const tile_program *program);

// The last pass of tile_simplify: order of products, matrix products, signs.
tile_program *tile_arrange(arena *a, const tile_program *program);
