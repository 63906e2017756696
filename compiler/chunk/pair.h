// Values of a body in tiles: a complex one is a pair, (re, im).
#pragma once

#include "compiler/tile/tile.h"

// Real values have im = NO_TILE.
typedef struct tile_pair {
  tile_id re, im;
} tile_pair;

static inline tile_pair pair_real(tile_id re) { return (tile_pair){re, NO_TILE}; }
static inline tile_pair pair_number(tile_program *p, double x) {
  return pair_real(tile_number(p, x));
}
static inline bool pair_is_complex(tile_pair x) { return x.im != NO_TILE; }
static inline bool pair_is_zero(const tile_program *p, tile_pair x) {
  return !pair_is_complex(x) && tile_is_number(p, x.re, 0);
}
// The imaginary part, 0 for a real value.
tile_id pair_imaginary(tile_program *program, tile_pair x);
// x where two steps are the same, 0 elsewhere. Chunk form.
tile_pair pair_on_diagonal(tile_program *program, tile_pair x);
axis_set pair_axes(const tile_program *program, tile_pair x);

// TILE_ADD or TILE_SUB.
tile_pair pair_linear(tile_program *program, tile_op op, tile_pair x, tile_pair y);
tile_pair pair_mul(tile_program *program, tile_pair x, tile_pair y);
tile_pair pair_div(tile_program *program, tile_pair x, tile_pair y);
tile_pair pair_whole_power(tile_program *program, tile_pair x, int exponent);
tile_pair pair_polar(tile_program *program, tile_id radius, tile_id angle);
tile_pair pair_exp(tile_program *program, tile_pair x);
tile_pair pair_expm1(tile_program *program, tile_pair x);
tile_id pair_abs(tile_program *program, tile_pair x);
tile_pair pair_where(tile_program *program, tile_id condition, tile_pair x, tile_pair y);
// The same by SELDOM: the condition is one number, and seldom not 0.
tile_pair pair_seldom(tile_program *program, tile_id condition, tile_pair x, tile_pair y);

// The operation of `pattern` (one operand, linear with real coefficients) on each part.
tile_pair pair_each(tile_program *program, tile_pair x, tile_value pattern);
// The same for operations on axes.
tile_pair pair_on_axes(tile_program *program, tile_op op, tile_pair x, int index, int index2,
                       int index3);
tile_pair pair_sum(tile_program *program, tile_pair x, axis_set over);
tile_pair pair_dot(tile_program *program, tile_pair x, tile_pair y, axis_set over);
