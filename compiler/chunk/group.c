// States that are made together: each depends on all others of its group, by sums or by what it
// adds of them.
//
//   Z = a * Z[t-1] + k * (v - sum[K](k * M[t-1]))        one group: Z has a sum over M in its update,
//   M = b * M[t-1] + Z                                   M adds Z itself
//
// First come the updates as sums of products, in which sums over the group are unknown. Then come
// decays, increments and terms of other states. Then one system is solved for all unknown sums.
#include "compiler/chunk/scan.h"

enum { STATES_MAX = 64 };  // in a set of states

typedef uint64_t state_set;

// ---- groups ----------------------------------------------------------------------------------

static state_set states_of_value(const scan *s, const state_set *sets, int id) {
  const typed_value *v = &s->body->values.items[id];
  state_set set = 0;
  for (int i = 0; i < s->state_count; i++)
    if (v->op == VALUE_PREVIOUS && v->index == s->states[i].tensor) set |= (state_set)1 << i;
  if (v->op == VALUE_LAG && s->body->lags.items[v->index].source < id)
    set |= sets[s->body->lags.items[v->index].source];
  for (int k = 0; k < value_arity(v->op); k++) set |= sets[v->args[k]];
  return set;
}

void group_find(scan *s) {
  s->groups = ARENA_ARRAY(s->arena, scan_group, s->state_count);
  if (s->state_count > STATES_MAX) {
    scan_refuse(s, arena_printf(s->arena, "there are more than %d states", STATES_MAX));
    return;
  }
  state_set *sets = ARENA_ARRAY(s->arena, state_set, s->body->values.count);
  state_set reached[STATES_MAX];
  for (int i = 0; i < s->body->values.count; i++) sets[i] = states_of_value(s, sets, i);
  for (int i = 0; i < s->state_count; i++)
    reached[i] = sets[s->body->tensors.items[s->states[i].tensor].assigned];
  for (int via = 0; via < s->state_count; via++) {
    for (int i = 0; i < s->state_count; i++)
      if (reached[i] >> via & 1) reached[i] |= reached[via];
  }
  for (int i = s->state_count - 1; i >= 0; i--) {
    s->states[i].group = i;
    for (int k = s->state_count - 1; k >= 0; k--)
      if (reached[i] >> k & reached[k] >> i & 1) s->states[i].group = k;
  }
}

// ---- axes of states whose structure does not tell --------------------------------------------

static void add_axes(const scan *s, const scan_state *state, const recurrence_term *term,
                     axis_set *beside, axis_set *apart) {
  for (int i = 0; i < term->factors.count; i++) {
    axis_set axes = s->body->values.items[term->factors.items[i].value].axes;
    *(axes & state->keys ? beside : apart) |= axes;
  }
}

// Axes of an outer product: those that no factor has beside a key, and some factor has apart from
// them.
static axis_set axes_made(const scan *s, const scan_state *state) {
  axis_set beside = 0, apart = 0, all = s->body->tensors.items[state->tensor].axis_set;
  vec_each(const scan_product, product, state->update->products) {
    for (int k = 0; product->state < 0 && k < product->factors.count; k++) {
      value_id factor = product->factors.items[k].value;
      recurrence_terms terms =
          recurrence_split_terms(s->arena, s->body, factor, state->keys, all & ~state->keys);
      for (int n = 0; n < terms.count; n++) add_axes(s, state, &terms.items[n], &beside, &apart);
    }
  }
  return apart & all & ~beside & ~state->keys;
}

// A state that is added to another has keys and values where that one has.
static bool share_axes(scan *s, scan_state *state) {
  axis_set keys = state->keys, values = state->values;
  for (int i = 0; i < state->update->products.count; i++) {
    int added = state->update->products.items[i].state;
    if (added < 0) continue;
    scan_state *other = &s->states[added];
    keys |= other->keys;
    values |= other->values;
    if (!other->finds_axes) continue;
    other->keys |= state->keys;
    other->values |= state->values & ~other->keys;
  }
  if (!state->finds_axes) return false;
  values &= ~keys;
  bool changed = keys != state->keys || values != state->values;
  state->keys = keys;
  state->values = values;
  return changed;
}

// Value axes that the decay has are heads, as long as another is left; else those beside its keys.
static void leave_heads(const scan *s, scan_state *state) {
  axis_set of_decay =
      state->decay_value == NO_VALUE ? 0 : s->body->values.items[state->decay_value].axes;
  vec_each(const scan_product, link, state->update->products) {
    for (int k = 0; link->state >= 0 && k < link->factors.count; k++)
      of_decay |= s->body->values.items[link->factors.items[k].value].axes;
  }
  bool may_have = state->finds_axes || state->structure->class == STATE_LOW_RANK;
  if (!may_have) return;
  axis_set heads = state->values & ~of_decay
                       ? of_decay
                       : recurrence_decay_heads(s->arena, s->body, state->decay_value,
                                                state->log_decay, state->keys, state->values);
  state->values &= ~heads;
}

// Axes that reads sum of one state are keys of those that it adds, read or not, and of those that
// add it.
static bool share_keys(scan *s, scan_state *state) {
  bool changed = false;
  for (int i = 0; i < state->update->products.count; i++) {
    int added = state->update->products.items[i].state;
    if (added < 0) continue;
    scan_state *other = &s->states[added];
    if (state->at_end) state->keys |= other->keys;
    if (other->group != state->group) continue;
    axis_set keys = state->keys | other->keys;
    changed |=
        (state->finds_axes && state->keys != keys) || (other->finds_axes && other->keys != keys);
    if (state->finds_axes) state->keys = keys;
    if (other->finds_axes) other->keys = keys;
  }
  return changed;
}

static void find_axes(scan *s, int group) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < s->state_count; i++)
      if (s->states[i].group == group) changed |= share_keys(s, &s->states[i]);
  }
  for (int i = 0; i < s->state_count; i++) {
    scan_state *state = &s->states[i];
    if (state->group == group && state->finds_axes) state->values = axes_made(s, state);
  }
  bool changed = true;
  for (int round = 0; changed && round <= s->state_count; round++) {
    changed = false;
    for (int i = 0; i < s->state_count; i++)
      if (s->states[i].group == group) changed |= share_axes(s, &s->states[i]);
  }
  for (int i = 0; i < s->state_count; i++)
    if (s->states[i].group == group) leave_heads(s, &s->states[i]);
}

// ---- one state -------------------------------------------------------------------------------

static bool is_decay(const scan_product *product, int state) {
  return product->state == state && product->previous && product->part == PART_WHOLE;
}

// The decay of a state whose structure does not tell: all factors of S[t-1].
static void find_decay(scan *s, int index) {
  scan_state *state = &s->states[index];
  value_id decay = NO_VALUE;
  for (int i = 0; i < state->update->products.count && !s->reason; i++) {
    scan_product product = state->update->products.items[i];
    if (!is_decay(&product, index)) continue;
    product.state = -1;
    value_id x = linear_as_value(s, &product);
    typed_value sum = {.op = VALUE_ADD, .args = {decay, x}};
    decay = decay == NO_VALUE ? x : scan_append(s, sum);
  }
  if (decay == NO_VALUE) decay = scan_append(s, (typed_value){.op = VALUE_NUMBER, .number = 0});
  state->decay_value = decay;
  state->log_decay = recurrence_decay_log(s->arena, s->body, decay);
  scan_grow(s);
}

// What the update adds: outer products of keys and values, and other states.
static void make_increment(scan *s, int index) {
  scan_state *state = &s->states[index];
  for (int i = 0; i < state->update->products.count && !s->reason; i++) {
    const scan_product *product = &state->update->products.items[i];
    if (is_decay(product, index)) continue;
    if (product->state == index) {
      scan_refuse(s, "an update uses a part of its own state");
    } else if (product->state >= 0) {
      vec_push(s->arena, &state->sources, *product);
    } else {
      const linear *opened = linear_opened(s, product, state->keys, state->values);
      for (int k = 0; k < opened->products.count; k++)
        vec_push(s->arena, &state->increment.products, opened->products.items[k]);
    }
  }
  if (state->increment.products.count > PRODUCTS_MAX)
    scan_refuse(s, "an increment has too many products");
}

// ---- a group ---------------------------------------------------------------------------------

static void make_updates(scan *s, int group) {
  for (int i = 0; i < s->state_count && !s->reason; i++) {
    if (s->states[i].group != group) continue;
    s->states[i].update = scan_update(s, i);
    for (int k = 0; k < s->states[i].update->products.count && !s->reason; k++) {
      int other = s->states[i].update->products.items[k].state;
      if (other >= 0 && s->states[other].group != group) scan_make_state(s, other);
    }
  }
}

// The decay of a state, or its logarithm, is a value without states.
static void visit_decay(scan *s, int state) {
  value_id decay = s->states[state].decay_value, log = s->states[state].log_decay;
  if (decay == NO_VALUE) return;
  const linear *visited = scan_visit(s, log == NO_VALUE ? decay : log);
  if (s->reason || !(linear_has_states(visited) || linear_has_unknown(s, visited))) return;
  scan_refuse(
      s, arena_printf(s->arena, "the decay of %s depends on a state", scan_state_name(s, state)));
}

// Matrices of a group have the decays themselves for entries, not their logarithms.
static void visit_entries(scan *s, int group) {
  for (int i = 0; i < s->state_count && !s->reason; i++)
    if (s->states[i].group == group && s->states[i].decay_value != NO_VALUE)
      scan_visit(s, s->states[i].decay_value);
}

static void make_matrices(scan *s, int group) {
  make_updates(s, group);
  for (int i = 0; i < s->state_count && !s->reason; i++) {
    const scan_state *state = &s->states[i];
    bool unknown = state->structure->class == STATE_LINEAR || state->delayed;
    if (state->group == group && unknown) find_decay(s, i);
  }
  if (!s->reason) find_axes(s, group);
  for (int i = 0; i < s->state_count && !s->reason; i++) {
    if (s->states[i].group != group) continue;
    if (!s->states[i].invariant) visit_decay(s, i);
    if (!s->reason && !s->states[i].invariant) decay_make(s, i);
    if (!s->reason) make_increment(s, i);
    if (!s->reason && s->states[i].invariant) toeplitz_make(s, i);
  }
  bool masks = true;
  for (int i = 0; i < s->state_count && !s->reason && !s->states[group].at_end; i++)
    if (s->states[i].group == group) masks = masks && coupled_by_masks(s, i);
  if (masks || s->reason) return;
  visit_entries(s, group);
  if (!s->reason && !lag_matrix_written(s, group)) joint_make(s, group);
}

// States that add each other and are used entry by entry.
static void make_scans(scan *s, int group) {
  make_updates(s, group);
  if (s->groups[group].unknown.count)
    scan_refuse(s, "states that are used entry by entry sum each other");
  for (int i = 0; i < s->state_count && !s->reason; i++) {
    if (s->states[i].group != group) continue;
    find_decay(s, i);
    if (!s->reason) make_increment(s, i);
  }
  visit_entries(s, group);
  if (!s->reason) joint_scan(s, group);
  scan_settle(s, group);
}

bool scan_make_state(scan *s, int index) {
  int group = s->states[index].group, outer = s->making;
  if (s->reason || s->groups[group].progress == MADE) return !s->reason;
  if (s->groups[group].progress == IN_WORK) {
    scan_refuse(s, "an update reads its own state");
    return false;
  }
  s->groups[group].progress = IN_WORK;
  s->making = group;
  span where = s->program->where;
  s->program->where = scan_update_span(s, index);
  const scan_state *state = &s->states[index];
  if (state->sequence && state->structure->class == STATE_LINEAR && !state->mixed)
    make_scans(s, group);
  else if (s->states[index].sequence)
    sequence_make(s, index);
  else
    make_matrices(s, group);
  s->making = outer;
  s->groups[group].progress = MADE;
  if (!s->reason && !s->states[index].sequence) low_rank_solve(s, group);
  s->program->where = where;
  return !s->reason;
}
