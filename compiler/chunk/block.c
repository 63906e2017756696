// Decays of which the sums over a segment are known to be small: pairs of steps within a segment
// have one reference, an anchor in its middle.
//
//   g in [-0.61, 0], segments of 16       C[t] = sum of g from the middle to t, negative before it
//   exp(sum of g from s to t)       ->    exp(C[t]) exp(-C[s]), both at most exp(8 * 0.61)
//   exp(sum of g up to t)           ->    exp(C[t]) exp(the sum to the middle)
//   exp(sum of g after t)           ->    exp(-C[t]) exp(the sum from the middle)
//                                         the last two where the segment is the chunk
//
// One product for all pairs of a segment replaces those of the levels below, and two exponentials a
// step those of all levels and of both ends. Products of pairs that no read has are finite, and get
// the factor 0.
//
// Rounding of an exponent is relative to the sum over the segment. The host's products have all of
// f32, and a sum of 83 (a decay of 2^-120) costs 7e-6. Products of 16-bit numbers do not reach so
// far: on GPUs sums stay below 10.
//
// The host has another reference where g is never above 0 and the sums over a chunk stay below 10:
//
//   G[t] = sum of g up to t             exp(sum of g from s to t)    ->    exp(G[t]) exp(-G[s])
//
// exp(G) is made by products, and exp(-G) is its reciprocal (tile/finish.c). Where nothing bounds the
// sums, each chunk is asked, and those with small decays are left to levels:
//
//   scores    ->    seldom (min over K of exp(G[end]) < exp(-10)) (by levels) (by the chunk's start)
//
// The gradient of g is a sum of terms of which pairs on one side of it cancel. Where g is far below
// 0 its own terms are small: with sums of 20 their digits are lost. Decays of both ends have no such
// terms, and are products of their own. A forward from which no gradient is derived has sums of up to
// 60: that leaves the pairs that no read has a range of 2^41.
#include <math.h>

#include "compiler/chunk/scan.h"

static double largest_sum(const scan *s) { return s->host ? 83 : 10; }
static double largest_sum_by_start(const scan *s) { return s->forward_alone ? 60 : 10; }

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

static tile_id subtract_tiles(scan *s, tile_id x, tile_id y) {
  return tile_binary(s->program, TILE_SUB, x, y);
}

// Sums from the start of the segment to each step, and with it.
static tile_id from_start(scan *s, tile_id log, int level) {
  return tile_along(s->program, TILE_PREFIX, log, 0, level_axes(s, level)->step, 0);
}

// The sum of all steps before the middle; of all steps.
static tile_id up_to(scan *s, decay_factor *factor, int level, bool whole) {
  int steps = 1 << (level < 0 ? -level : level), last = (whole ? steps : steps / 2) - 1;
  tile_id sums = from_start(s, level_split(s, pair_real(factor->log), level).re, level);
  return tile_indexed(s->program, TILE_SLICE, sums, level_axes(s, level)->step, last);
}

// Sums from the anchor to each step and, if `inclusive`, with it; negative before the anchor.
static tile_id from_anchor(scan *s, decay_factor *factor, int level, bool inclusive) {
  tile_id log = level_split(s, pair_real(factor->log), level).re;
  tile_id sums = from_start(s, log, level);
  if (!inclusive) sums = subtract_tiles(s, sums, log);
  return subtract_tiles(s, sums, up_to(s, factor, level, false));
}

// ---- the start of the chunk as reference ----

static tile_id from_chunk_start(scan *s, const scan_state *state, bool inclusive) {
  return tile_along(s->program, TILE_PREFIX, state->decay.items[0].log, inclusive ? 0 : 1,
                    s->program->time_axis, 0);
}

tile_pair block_start_row(scan *s, int state, bool previous) {
  return pair_exp(s->program, pair_real(from_chunk_start(s, &s->states[state], !previous)));
}

tile_pair block_start_column(scan *s, int state) {
  tile_id sums = from_chunk_start(s, &s->states[state], true);
  return pair_exp(s->program, pair_real(tile_unary(s->program, TILE_NEG, sums)));
}

tile_pair block_total(scan *s, const scan_state *state) {
  tile_pair all = pair_exp(s->program, pair_real(from_chunk_start(s, state, true)));
  int t = s->program->time_axis;
  return pair_on_axes(s->program, TILE_SLICE, all, t, s->program->chunk - 1, 0);
}

static void ask_each_chunk(scan *s, scan_state *state) {
  axis_set keys = state->decay.items[0].axes;
  tile_id least = tile_reduce(s->program, TILE_MIN_OVER, block_total(s, state).re, keys);
  tile_id limit = tile_number(s->program, exp(-largest_sum_by_start(s)));
  state->unsafe = tile_binary(s->program, TILE_LESS, least, limit);
  state->seldom_levels = true;
}

// Decays of keys that are never above 1.
static bool may_go_by_start(const scan *s, const scan_state *state) {
  const decay_factor *only = &state->decay.items[0];
  return s->host && (only->axes & state->keys) && tile_is_not_positive(s->program, only->log);
}

void block_make(scan *s, int index) {
  scan_state *state = &s->states[index];
  if (state->decay.count != 1 || state->decay.items[0].log == NO_TILE) return;
  double largest = largest_logarithm(s, state);
  int levels = decay_levels(s);
  while (state->block < levels && ldexp(largest, state->block) <= largest_sum(s)) state->block++;
  bool never_small = ldexp(largest, levels) <= largest_sum_by_start(s);
  state->by_start = may_go_by_start(s, state) && (never_small || state->block < levels);
  if (state->by_start && !never_small) ask_each_chunk(s, state);
}

tile_pair block_row_decay(scan *s, decay_factor *factor, bool previous, int level) {
  return pair_exp(s->program, pair_real(from_anchor(s, factor, level, !previous)));
}

tile_pair block_column_decay(scan *s, decay_factor *factor, int level) {
  tile_id sums = from_anchor(s, factor, level, true);
  return pair_exp(s->program, pair_real(tile_unary(s->program, TILE_NEG, sums)));
}

tile_pair block_from_start(scan *s, decay_factor *factor, bool previous, int level) {
  tile_pair to_anchor = pair_exp(s->program, pair_real(up_to(s, factor, level, false)));
  return pair_mul(s->program, block_row_decay(s, factor, previous, level), to_anchor);
}

tile_pair block_to_end(scan *s, decay_factor *factor, int level) {
  tile_id rest = subtract_tiles(s, up_to(s, factor, level, true), up_to(s, factor, level, false));
  tile_pair to_end = pair_exp(s->program, pair_real(rest));
  return pair_mul(s->program, block_column_decay(s, factor, level), to_end);
}

tile_pair block_masked(scan *s, tile_pair scores, int level) {
  const scan_axes *axes = level_axes(s, level);
  tile_id later =
      tile_binary(s->program, TILE_LESS, tile_leaf(s->program, TILE_INDEX, axes->pair_step),
                  tile_leaf(s->program, TILE_INDEX, axes->step));
  return pair_mul(s->program, scores,
                  pair_real(later));  // finite: no choice, whose gradient is no product
}
