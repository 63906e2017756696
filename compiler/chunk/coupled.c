// States that other states add to themselves without a sum: what one wrote reaches reads of the
// other.
//
//   Z = a * Z[t-1] + k * v           what Z wrote at s is read of M at t through every step r between them:
//   M = b * M[t-1] + c * Z     ->    P[t,s] = sum over r of exp(segment b)[t,r] c[r] exp(segment a)[r,s]
//
// a product of the masks of both, [t,r] by [r,s]: sums of products of decays, nothing divided or
// subtracted. Chains of several states are products of several masks. (Z, M) decay by the
// triangular matrices (a, 0; c a, b), and P is what their products have below the diagonal.
#include "compiler/chunk/scan.h"

static int middle_axis(scan *s) {
  if (s->middle < 0) s->middle = tile_axis_new(s->program, "between", s->program->chunk);
  return s->middle;
}

static tile_pair renamed_pair(scan *s, tile_pair x, int from, int to) {
  if (!axis_in(pair_axes(s->program, x), from)) return x;
  return pair_on_axes(s->program, TILE_RENAME, x, from, to, 0);
}

// ---- which states ----------------------------------------------------------------------------

bool coupled_reaches(const scan *s, int to, int from) {
  if (to == from) return true;
  if (s->states[to].joint) return joint_has(s, to, from);
  for (int i = 0; i < s->states[to].sources.count; i++)
    if (coupled_reaches(s, s->states[to].sources.items[i].state, from)) return true;
  return false;
}

static bool on_a_circle(const scan *s, int state, int from, int depth) {
  if (depth > s->state_count) return true;
  for (int i = 0; i < s->states[from].sources.count; i++) {
    int link = s->states[from].sources.items[i].state;
    if (link == state || on_a_circle(s, state, link, depth + 1)) return true;
  }
  return false;
}

static bool is_one_number(const scan *s, int state, const scan_product *link) {
  for (int i = 0; i < link->factors.count; i++) {
    recurrence_factor factor = link->factors.items[i];
    axis_set axes = s->body->values.items[factor.value].axes;
    if (s->unknown[factor.value] || (axes & (s->states[state].keys | s->states[state].values)))
      return false;
  }
  return true;
}

static bool has_plain_mask(const scan_state *state) {
  return !state->joint && decay_is_mask(state) && state->phases.count == 0;
}

bool coupled_by_masks(const scan *s, int index) {
  const scan_state *state = &s->states[index];
  const axis_set axes = s->body->tensors.items[state->tensor].axis_set;
  vec_each(const scan_product, link, state->sources) {
    const scan_state *other = &s->states[link->state];
    if (on_a_circle(s, index, index, 0) || !has_plain_mask(state) || !has_plain_mask(other) ||
        link->part != PART_WHOLE || !is_one_number(s, index, link) ||
        s->body->tensors.items[other->tensor].axis_set != axes)
      return false;
  }
  return true;
}

// ---- masks of pairs of states ----------------------------------------------------------------

tile_pair coupled_unmasked_factor(scan *s, const scan_product *link) {
  tile_pair c = linear_factors(s, link, 0, false);
  return pair_mul(s->program, c, pair_number(s->program, link->scale));
}

tile_pair coupled_factor(scan *s, const scan_product *link) {
  tile_pair c = coupled_unmasked_factor(s, link);
  c.re = lower_valid(s->program, c.re);
  if (pair_is_complex(c)) c.im = lower_valid(s->program, c.im);
  return c;
}

tile_pair coupled_mask(scan *s, int to, int from, bool previous) {
  if (s->states[to].joint) return joint_mask(s, to, from, previous);
  tile_pair own = pair_real(decay_mask(s, to, previous, previous)),
            sum = pair_number(s->program, 0);
  if (to == from) return own;
  int t = s->program->time_axis, pair = s->program->pair_axis, middle = middle_axis(s);
  vec_each(const scan_product, link, s->states[to].sources) {
    if (!coupled_reaches(s, link->state, from)) continue;
    tile_pair inner = coupled_mask(s, link->state, from, link->previous);
    inner = pair_mul(s->program, coupled_factor(s, link), inner);
    tile_pair part = pair_dot(s->program, renamed_pair(s, own, pair, middle),
                              renamed_pair(s, inner, t, middle), axis_bit(middle));
    sum = pair_linear(s->program, TILE_ADD, sum, part);
  }
  return sum;
}

tile_pair coupled_from_start(scan *s, int to, int from, bool previous, axis_set keys,
                             decay_side side) {
  if (s->states[to].joint)
    return joint_on_side(s, to, keys, side) ? joint_from_start(s, to, from, previous)
                                            : pair_number(s->program, 1);
  if (to == from) return decay_from_start(s, to, previous, keys, side);
  if (side == DECAY_VALUES) return pair_number(s->program, 1);
  int t = s->program->time_axis, pair = s->program->pair_axis;
  tile_pair own = pair_real(decay_mask(s, to, previous, previous)),
            sum = pair_number(s->program, 0);
  vec_each(const scan_product, link, s->states[to].sources) {
    if (!coupled_reaches(s, link->state, from)) continue;
    tile_pair inner = coupled_from_start(s, link->state, from, link->previous, keys, side);
    inner = renamed_pair(s, pair_mul(s->program, coupled_factor(s, link), inner), t, pair);
    sum = pair_linear(s->program, TILE_ADD, sum, pair_dot(s->program, own, inner, axis_bit(pair)));
  }
  return sum;
}

// What `to` keeps, at the end, of the values that its links hand over at each step. They are each
// write of `from` (by the other step of the pair), or `from` before the chunk.
static tile_pair kept_of_links(scan *s, int to, int from, bool writes) {
  tile_pair sum = pair_number(s->program, 0);
  vec_each(const scan_product, link, s->states[to].sources) {
    if (!coupled_reaches(s, link->state, from)) continue;
    tile_pair inner = writes
                          ? coupled_mask(s, link->state, from, link->previous)
                          : coupled_from_start(s, link->state, from, link->previous, 0, DECAY_ALL);
    tile_pair kept =
        pair_mul(s->program, decay_to_end(s, to, 0, DECAY_ALL), coupled_factor(s, link));
    sum =
        pair_linear(s->program, TILE_ADD, sum, pair_dot(s->program, kept, inner, scan_time_bit(s)));
  }
  return sum;
}

tile_pair coupled_to_end(scan *s, int to, int from, axis_set keys, decay_side side) {
  if (s->states[to].joint)
    return joint_on_side(s, to, keys, side) ? joint_to_end(s, to, from)
                                            : pair_number(s->program, 1);
  if (to == from) return decay_to_end(s, to, keys, side);
  if (side == DECAY_VALUES) return pair_number(s->program, 1);
  return renamed_pair(s, kept_of_links(s, to, from, true), s->program->pair_axis,
                      s->program->time_axis);
}

tile_pair coupled_within_step(scan *s, int to, int from, axis_set keys, decay_side side) {
  bool joint = s->states[to].joint && joint_on_side(s, to, keys, side);
  return joint ? joint_within_step(s, to, from) : pair_number(s->program, 1);
}

tile_pair coupled_total(scan *s, int to, int from) {
  if (s->states[to].joint) return joint_total(s, to, from);
  return to == from ? decay_total(s, to) : kept_of_links(s, to, from, false);
}
