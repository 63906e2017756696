// Decays that are known to be never small: pairs of steps within a segment have one reference, its
// middle.
//
//   g in [-0.61, 0], segments of 32       C[t] = sum of g from the middle of the segment to t, negative before it
//   exp(sum of g from s to t)       ->    exp(C[t]) exp(-C[s]), both at most exp(16 * 0.61)
//
// One product for all pairs of a segment replaces those of the levels below. Exponents are sums
// from the middle outward, never differences of longer sums. Exponentials stay far from overflow
// and close to 1, and round like those of a few steps. Products of pairs that no read has are
// finite, too, and get the factor 0.
#include <math.h>

#include "compiler/chunk/scan.h"

// Rounding of an exponent is relative to it: this one costs as much as some ten multiplications do.
static const double largest_exponent = 10;

// The largest size of the logarithm of a state's decay, as far as promises and gates tell.
static double largest_logarithm(const scan *s, const scan_state *state) {
  value_id log = state->structure->log_decay;
  if (log == NO_VALUE) return INFINITY;
  const typed_value *v = &s->from->body.values.items[log];
  if (v->complex && v->op != VALUE_COMPLEX) return INFINITY;
  double low, high;
  recurrence_bounds(s->arena, s->from, v->complex ? v->args[0] : log, &low, &high);
  return fmax(fabs(low), fabs(high));
}

void block_make(scan *s, int index) {
  scan_state *state = &s->states[index];
  if (state->decay.count != 1 || state->decay.items[0].log == NO_TILE) return;
  double largest = largest_logarithm(s, state);
  int levels = decay_levels(s);
  while (state->block < levels && ldexp(largest, state->block) <= largest_exponent) state->block++;
}

static tile_id minus(scan *s, tile_id x, tile_id y) {
  return tile_binary(s->program, TILE_SUB, x, y);
}

// Sums from the middle of the segment to each step and, if `inclusive`, with it; negative before
// the middle.
static tile_id from_middle(scan *s, decay_factor *factor, int level, bool inclusive) {
  tile_program *p = s->program;
  const scan_axes *axes = level_axes(s, level);
  tile_id log = level_split(s, pair_real(factor->log), level).re, zero = tile_number(p, 0);
  tile_id middle = tile_number(p, ldexp(1, -level - 1));
  tile_id first = tile_binary(p, TILE_LESS, tile_leaf(p, TILE_INDEX, axes->step), middle);
  tile_id after = tile_select(p, first, zero, log), before = tile_select(p, first, log, zero);
  after = tile_along(p, TILE_PREFIX, after, inclusive ? 0 : 1, axes->step, 0);
  return minus(s, after, tile_along(p, TILE_PREFIX, before, inclusive ? 3 : 2, axes->step, 0));
}

tile_pair block_row_decay(scan *s, decay_factor *factor, bool previous, int level) {
  return pair_exp(s->program, pair_real(from_middle(s, factor, level, !previous)));
}

tile_pair block_column_decay(scan *s, decay_factor *factor, int level) {
  tile_id sums = from_middle(s, factor, level, true);
  return pair_exp(s->program, pair_real(tile_unary(s->program, TILE_NEG, sums)));
}

tile_pair block_masked(scan *s, tile_pair scores, int level) {
  const scan_axes *axes = level_axes(s, level);
  tile_id later =
      tile_binary(s->program, TILE_LESS, tile_leaf(s->program, TILE_INDEX, axes->pair_step),
                  tile_leaf(s->program, TILE_INDEX, axes->step));
  return pair_mul(s->program, scores,
                  pair_real(later));  // finite: no choice, whose gradient is no product
}
