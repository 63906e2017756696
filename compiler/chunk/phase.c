// Rotations among what a state keeps: they commute with everything else in a decay and move to the
// reads and writes.
//
//   S = r * e^(i angle) * S[t-1] + k * v         R[t] = product of e^(i angle) over the chunk up to t
//   y = sum[K](q * S)                     ->     S = R T,  T = r * T[t-1] + (conj(R) * k) * v,  y = sum[K]((q * R) * T)
//
// so that r alone is left to masks and pyramids, and one number r for a matrix is a mask whatever
// the angles are. R holds the sum of the angles, each wrapped into [-pi, pi] and cut in two.
// Multiples of `grain` have sums that are exact in 32 bits; the rests have small sums. The sum is
// then as accurate as its last angle. (Plain sums in 32 bits have 3 to 5 times the error of a loop
// over steps where angles are about pi.)
//
// A step's read of its own write would turn forth and back, so its rotation is left out. Where
// decays are strong, that read is the whole result, and its rounding would be the whole gradient of
// the angle. Reads of S[t-1] do so with the step before; states that have some keep their rotations
// in pyramids.
#include <math.h>

#include "compiler/chunk/scan.h"

// pi times the longest chunk, 128 steps, are less than 2^9, and 2^9 / grain less than 2^24.
static const double grain = 0x1p-14;

static scan_phase *phase_with(scan *s, scan_state *state, axis_set axes) {
  for (int i = 0; i < state->phases.count; i++)
    if (state->phases.items[i].axes == axes) return &state->phases.items[i];
  vec_push(s->arena, &state->phases, ((scan_phase){.axes = axes, .angle = NO_TILE}));
  return &state->phases.items[state->phases.count - 1];
}

void phase_add(scan *s, scan_state *state, axis_set axes, tile_id angle) {
  if (tile_is_number(s->program, angle, 0)) return;
  tile_id *sum = &phase_with(s, state, axes)->angle;
  *sum = *sum == NO_TILE ? angle : tile_binary(s->program, TILE_ADD, *sum, angle);
}

// An angle of the whole matrix joins one that has keys or values.
static void join_scalar(scan *s, scan_state *state) {
  for (int i = 0; i < state->phases.count && state->phases.count > 1; i++) {
    if (state->phases.items[i].axes) continue;
    scan_phase *other = &state->phases.items[i ? 0 : 1];
    other->angle = tile_binary(s->program, TILE_ADD, other->angle, state->phases.items[i].angle);
    state->phases.items[i] = state->phases.items[--state->phases.count];
  }
}

static tile_id scaled_angle(scan *s, tile_id x, double factor) {
  return tile_binary(s->program, TILE_MUL, x, tile_number(s->program, factor));
}

static tile_id wrapped(scan *s, tile_id angle) { return tile_unary(s->program, TILE_WRAP, angle); }

// Does a sum read S[t-1], or what is made of it before the step?
bool phase_is_read_before(const scan *s, int state) {
  const typed_body *body = &s->from->body;
  bool *before = ARENA_ARRAY(s->arena, bool, body->values.count);
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    before[i] = v->op == VALUE_PREVIOUS && v->index == s->states[state].tensor;
    for (int k = 0; k < value_arity(v->op); k++) before[i] |= before[v->args[k]];
    if (before[i] && v->op == VALUE_SUM) return true;
    for (int k = 0; k < s->state_count; k++) {
      const scan_state *other = &s->states[k];
      if (other->lag >= 0) continue;  // lag_matrix.c added it: s->from has no tensor of it
      before[i] = before[i] && i != body->tensors.items[other->tensor].assigned;
    }
  }
  return false;
}

bool phase_fits(const scan *s, const scan_state *state) {
  return state->structure->class != STATE_LOW_RANK &&
         !phase_is_read_before(s, (int)(state - s->states));
}

void phase_cut(scan *s, scan_phase *phase) {
  const double per_grain = 2 * acos(-1) / grain;
  tile_id angle = wrapped(s, lower_valid(s->program, phase->angle));
  phase->rest = scaled_angle(s, wrapped(s, scaled_angle(s, angle, per_grain)), 1 / per_grain);
  tile_id whole = tile_binary(s->program, TILE_SUB, angle, phase->rest);
  phase->whole = tile_unary(s->program, TILE_STOP, whole);  // the gradient goes through the rest
}

void phase_make(scan *s, scan_state *state) {
  join_scalar(s, state);
  for (int i = 0; i < state->phases.count; i++) phase_cut(s, &state->phases.items[i]);
}

static bool on_sides(const scan_phase *phase, axis_set keys, int sides) {
  int side = phase->axes == 0 ? PHASE_SCALAR : phase->axes & keys ? PHASE_KEYS : PHASE_VALUES;
  return (side & sides) != 0;
}

bool phase_has_side(const scan *s, int state, axis_set keys, int sides) {
  for (int i = 0; i < s->states[state].phases.count; i++)
    if (on_sides(&s->states[state].phases.items[i], keys, sides)) return true;
  return false;
}

tile_id phase_sum_of(scan *s, tile_id x, phase_sum which) {
  if (which == PHASE_ALL) return tile_reduce(s->program, TILE_SUM, x, scan_time_bit(s));
  int kind = which == PHASE_AFTER ? 3 : which == PHASE_BEFORE ? 1 : 0;
  return tile_indexed(s->program, TILE_PREFIX, x, kind, 0);
}

tile_pair phase_rotation(scan *s, const scan_phase *phase, phase_sum which) {
  tile_id whole = wrapped(s, phase_sum_of(s, phase->whole, which));
  tile_id angle = tile_binary(s->program, TILE_ADD, whole, phase_sum_of(s, phase->rest, which));
  return pair_polar(s->program, tile_number(s->program, 1), angle);
}

static tile_pair phase_product(scan *s, int state, axis_set keys, int sides, phase_sum which) {
  tile_pair all = pair_number(s->program, 1);
  vec_each(const scan_phase, phase, s->states[state].phases)
    if (on_sides(phase, keys, sides))
      all = pair_mul(s->program, all, phase_rotation(s, phase, which));
  return all;
}

tile_pair phase_of_read(scan *s, int state, axis_set keys, int sides) {
  return phase_product(s, state, keys, sides, PHASE_UP_TO);
}

tile_pair phase_of_write(scan *s, int state, axis_set keys, int sides) {
  tile_pair x = phase_product(s, state, keys, sides, PHASE_UP_TO);
  if (pair_is_complex(x)) x.im = tile_unary(s->program, TILE_NEG, x.im);
  return x;
}

tile_pair phase_to_end(scan *s, int state, axis_set keys, int sides) {
  return phase_product(s, state, keys, sides, PHASE_AFTER);
}

tile_pair phase_of_chunk(scan *s, int state) {
  return phase_product(s, state, 0, PHASE_SCALAR | PHASE_KEYS | PHASE_VALUES, PHASE_ALL);
}
