// Linear states whose entries along one small axis make each other: a matrix of that axis at every
// step.
//
//   h = sum[J](R * h[t-1]{P -> J}) + u        h[t,P] = sum over J of A[t,P,J] h[t-1,J] + u[t,P],  A = R
//   h = where(index[P] == 0, a, b)            the rows of A are a's and b's factors of the entries
//   a = c * h[t-1][P = 0] - s * h[t-1][P = 1], ..
//
// However the update is spelled: row p of A is its derivative at entry p by all entries before the
// step, which is exact, and u is the update of a state that was 0. The host goes from step to step
// (TILE_SCAN_JOINT).
#include "compiler/chunk/scan.h"

// The axes of the state along which the value has other entries of it, or sums of them.
static axis_set mixed_axes(const typed_value *v, axis_set own) {
  switch (v->op) {
    case VALUE_RENAME: return own & (axis_bit(v->index) | axis_bit(v->index2));
    case VALUE_SLICE: return own & axis_bit(v->index);
    case VALUE_SUM: return own & v->over;
    default: return 0;
  }
}

// Linear in the state, and each entry by itself but for what mixed_axes tells.
static bool is_linear_step(const typed_value *v, const bool *made) {
  unsigned dependent = 0;
  for (int k = 0; k < value_arity(v->op); k++) dependent |= (unsigned)made[v->args[k]] << k;
  switch (v->op) {
    case VALUE_PREVIOUS:
    case VALUE_RENAME:
    case VALUE_SLICE: return true;
    default: return value_is_linear_in(v->op, dependent) && !value_moves_entries(v->op);
  }
}

// The one axis along which the update mixes entries of the state; -1: there is none, or it is large.
static int axis_of_mixing(const scan *s, int state) {
  const typed_tensor *tensor = &s->body->tensors.items[s->states[state].tensor];
  const bool *made = scan_made_of(s, s->states[state].group), *needed = scan_needed_by(s, state);
  axis_set along = 0, kept = tensor->axis_set;
  for (value_id i = 0; i <= tensor->assigned; i++) {
    const typed_value *v = &s->body->values.items[i];
    if (!needed[i] || !made[i]) continue;
    if (v->complex || !is_linear_step(v, made)) return -1;
    along |= mixed_axes(v, tensor->axis_set);
    kept &= v->axes | along;
  }
  if (!along || (along & (along - 1)) || (kept | along) != tensor->axis_set) return -1;
  for (value_id i = 0; i <= tensor->assigned; i++)
    if (needed[i] && !made[i] && scan_multiplies_apart(s, i, tensor->axis_set & ~along)) return -1;
  int axis = axis_first(along);
  int64_t size = s->body->axes.items[axis].size;
  return size >= 2 && size <= TILE_PARTS_MAX ? axis : -1;
}

bool mixed_fits(const scan *s, int state) {
  return s->host && scan_is_alone(s, state) && s->states[state].structure->class == STATE_LINEAR &&
         axis_of_mixing(s, state) >= 0;
}

// Is a value 0 where the state before the step is? `without`: that of earlier values.
static bool vanishes(const typed_value *v, const bool *made, const bool *without) {
  bool adds = v->op == VALUE_ADD || v->op == VALUE_SUB || v->op == VALUE_WHERE;
  for (int k = adds && v->op == VALUE_WHERE; k < value_arity(v->op); k++)
    if (made[v->args[k]] ? !without[v->args[k]] : adds) return false;
  return true;
}

// What the update is of a state that was 0. What is multiplied by that state is left out, for it
// may be infinite.
static tile_pair added_at_step(scan *s, int state, const tile_pair *beside) {
  const typed_body *body = s->body;
  const bool *made = scan_made_of(s, s->states[state].group), *needed = scan_needed_by(s, state);
  value_id update = body->tensors.items[s->states[state].tensor].assigned;
  bool *without = ARENA_ARRAY(s->arena, bool, update + 1);
  lowering values = lowering_new(s->program, body);
  for (value_id i = 0; i <= update; i++) {
    const typed_value *v = &body->values.items[i];
    if (!needed[i] || !made[i]) continue;
    for (int k = 0; k < value_arity(v->op); k++)
      if (!made[v->args[k]]) lowering_set(&values, v->args[k], beside[v->args[k]]);
    without[i] = vanishes(v, made, without);
    lowering_set(&values, i, without[i] ? pair_number(s->program, 0) : lower_value(&values, i));
  }
  return lower_value(&values, update);
}

// The derivatives of an update by the entries before it: [t,..,to,from].
static tile_id matrix_of(scan *s, tile_id update, tile_id before, int to, int from) {
  tile_program *p = s->program;
  tile_id a = tile_number(p, 0);
  for (int row = 0; row < p->axes.items[to].size; row++) {
    tile_id seed = tile_indexed(p, TILE_PLACE, tile_number(p, 1), to, row);
    tile_id x = tile_derivative(p, update, before, seed);
    if (axis_in(p->values.items[x].axes, to)) x = tile_indexed(p, TILE_RENAME, x, to, from);
    a = tile_binary(p, TILE_ADD, a, tile_indexed(p, TILE_PLACE, x, to, row));
  }
  return a;
}

tile_pair mixed_steps(scan *s, int state, const tile_pair *beside) {
  tile_program *p = s->program;
  int t = p->time_axis, to = axis_of_mixing(s, state);
  int from = tile_axis_new(p, "before", p->axes.items[to].size);
  tile_id start = scan_before(s, state).re;
  // The state before each step may be any tile along t: the update is linear, so its derivatives do
  // not depend on it.
  tile_id before = tile_select(p, tile_leaf(p, TILE_VALID, 0), start, tile_number(p, 0));
  tile_id update = stepwise_updated(s, state, beside, pair_real(before)).re;
  tile_id a = matrix_of(s, update, before, to, from);
  tile_id x = added_at_step(s, state, beside).re;
  tile_id first = scan_first_step(s, pair_real(a)).re;
  first = tile_binary(p, TILE_MUL, first, tile_indexed(p, TILE_RENAME, start, to, from));
  first = tile_indexed(p, TILE_PLACE, tile_reduce(p, TILE_SUM, first, axis_bit(from)), t, 0);
  return pair_real(tile_scan_joint(p, a, tile_binary(p, TILE_ADD, x, first), t, from, to, false));
}
