// Rotations among what a state keeps: they commute with everything else in a decay and move to the reads and writes.
//
//   S = r * e^(i angle) * S[t-1] + k * v         R[t] = product of e^(i angle) over the chunk up to t
//   y = sum[K](q * S)                     ->     S = R T,  T = r * T[t-1] + (conj(R) * k) * v,  y = sum[K]((q * R) * T)
//
// so that r alone is left to masks and pyramids, and one number r for a matrix is a mask whatever the angles are. R is a
// product, by doubling, of rotations by single angles: angles are never added up, and rounding grows with the logarithm
// of the chunk's length. (Sums of angles in 32 bits, wrapped, were 3 to 5 times the error of a plain loop where angles are
// of the size of pi.)
#include "compiler/chunk/scan.h"

static decay_factor *phase_with(scan *s, scan_state *state, axis_set axes) {
  for (int i = 0; i < state->phases.count; i++) {
    if (state->phases.items[i].axes == axes) return &state->phases.items[i];
  }
  vec_push(s->arena, &state->phases, ((decay_factor){.log = NO_TILE, .axes = axes}));
  return &state->phases.items[state->phases.count - 1];
}

// Until phase_make, `log` is the angle.
void phase_add(scan *s, scan_state *state, axis_set axes, tile_id angle) {
  if (tile_is_number(s->program, angle, 0)) return;
  tile_id *sum = &phase_with(s, state, axes)->log;
  *sum = *sum == NO_TILE ? angle : tile_binary(s->program, TILE_ADD, *sum, angle);
}

// An angle of the whole matrix joins one that has keys or values.
static void join_scalar(scan *s, scan_state *state) {
  for (int i = 0; i < state->phases.count && state->phases.count > 1; i++) {
    if (state->phases.items[i].axes) continue;
    decay_factor *other = &state->phases.items[i ? 0 : 1];
    other->log = tile_binary(s->program, TILE_ADD, other->log, state->phases.items[i].log);
    state->phases.items[i] = state->phases.items[--state->phases.count];
  }
}

void phase_make(scan *s, scan_state *state) {
  join_scalar(s, state);
  for (int i = 0; i < state->phases.count; i++) {
    decay_factor *phase = &state->phases.items[i];
    tile_id angle = lower_valid(s->program, phase->log);
    phase->factor = pair_polar(s->program, tile_number(s->program, 1), angle);
    phase->log = NO_TILE;
    phase->levels = decay_levels_new(s);
  }
}

static bool on_sides(const decay_factor *phase, axis_set keys, int sides) {
  int side = phase->axes == 0 ? PHASE_SCALAR : phase->axes & keys ? PHASE_KEYS : PHASE_VALUES;
  return (side & sides) != 0;
}

bool phase_has_side(const scan *s, int state, axis_set keys, int sides) {
  for (int i = 0; i < s->states[state].phases.count; i++) {
    if (on_sides(&s->states[state].phases.items[i], keys, sides)) return true;
  }
  return false;
}

static tile_pair product(scan *s, int state, axis_set keys, int sides, level_product which) {
  tile_pair all = pair_real(tile_number(s->program, 1));
  for (int i = 0; i < s->states[state].phases.count; i++) {
    decay_factor *phase = &s->states[state].phases.items[i];
    if (on_sides(phase, keys, sides))
      all = pair_mul(s->program, all, decay_over_chunk(s, phase, which));
  }
  return all;
}

tile_pair phase_of_read(scan *s, int state, bool previous, axis_set keys, int sides) {
  return product(s, state, keys, sides, previous ? EXCLUSIVE : INCLUSIVE);
}

tile_pair phase_of_write(scan *s, int state, axis_set keys, int sides) {
  tile_pair x = product(s, state, keys, sides, INCLUSIVE);
  if (pair_is_complex(x)) x.im = tile_unary(s->program, TILE_NEG, x.im);
  return x;
}

tile_pair phase_to_end(scan *s, int state, axis_set keys, int sides) {
  return product(s, state, keys, sides, SUFFIX);
}

tile_pair phase_total(scan *s, int state) {
  return product(s, state, 0, PHASE_SCALAR | PHASE_KEYS | PHASE_VALUES, TOTAL);
}
