// The chunk program of linear states: all steps of a chunk by products over tiles, whatever the
// structure.
//
//   S = exp(g) * S[t-1] + k * v        scores = dot q k[s] over K                          [t,s]
//   y = sum[K](q * S)            ->    y = dot (scores * M) v[s] over s + dot (q * E) S over K
//                                      S' = exp(total) * S + dot k (v * F) over t
//   M = exp(segment g) below the diagonal, 1 on it, 0 above;  E = exp(prefix g);  F = exp(suffix g, exclusive)
//
// The structure of the states decides, never a name. There may be any number of states, each with
// any axes. Increments may be sums of outer products with further factors, and sums over the state
// itself. Reads are sums over axes of the state times factors, anywhere in an expression. They see
// the state after the step, or before it (S[t-1]: every sum is exclusive). Everything else is
// pointwise over the steps. scan.h says which part does what.
//
// The four rules of stable chunk programs hold by construction. Every exponent is a one-sided sum
// towards a reference; decays that differ along keys or values are products towards a reference.
// Pairs get their exact decay. Division is an operation. Decays and keys are masked on padded rows.

#include "compiler/chunk/chunk.h"
#include "compiler/chunk/scan.h"

// ---- the program -----------------------------------------------------------------------------

static void add_outputs(scan *s) {
  for (int i = 0; i < s->body->tensors.count && !s->reason; i++) {
    const typed_tensor tensor = s->body->tensors.items[i];
    if (tensor.kind != TENSOR_OUTPUT) continue;
    s->program->where = s->body->values.items[tensor.assigned].span;
    const linear *x = scan_visit(s, tensor.assigned);
    if (s->reason) return;
    if (linear_has_states(x) || linear_has_unknown(s, x)) {
      scan_refuse(
          s, arena_printf(s->arena, "the output %s is a state that is not summed", tensor.name));
      return;
    }
    lower_output(s->program, s->body, i, scan_pure(s, tensor.assigned));
  }
}

// ---- how states are used ---------------------------------------------------------------------

static bool passes_on(const typed_value *v, const bool *depends) {
  unsigned dependent = 0;
  for (int k = 0; k < value_arity(v->op); k++) dependent |= (unsigned)depends[v->args[k]] << k;
  return value_is_linear_in(v->op, dependent) && !value_moves_entries(v->op);
}

static bool leaves_unsummed(const scan *s, const bool *depends) {
  vec_each(const typed_tensor, tensor, s->body->tensors)
    if (tensor->kind == TENSOR_OUTPUT && depends[tensor->assigned]) return true;
  for (int i = 0; i < s->body->lags.count; i++) {
    bool remembered = !s->lag_is_states || !s->lag_is_states[i];
    if (remembered && depends[s->body->lags.items[i].source]) return true;
  }
  return false;
}

// Reads that sum different axes each have keys of their own. Where they have none in common, those
// of the first stand on one side of an outer product.
static void find_uses(scan *s, int state) {
  scan_state *of = &s->states[state];
  const typed_tensor *tensor = &s->body->tensors.items[of->tensor];
  bool *depends = ARENA_ARRAY(s->arena, bool, s->body->values.count);
  axis_set first = 0;
  for (int i = 0; i < s->body->values.count; i++) {
    const typed_value *v = &s->body->values.items[i];
    for (int k = 0; k < value_arity(v->op); k++) depends[i] |= depends[v->args[k]];
    of->entries |= depends[i] && !passes_on(v, depends);
    axis_set over = depends[i] && v->op == VALUE_SUM ? v->over & tensor->axis_set : 0;
    if (!first) first = over;
    of->summed |= over;
    if (over) depends[i] = false;
    depends[i] |= i == tensor->assigned || (v->op == VALUE_PREVIOUS && v->index == of->tensor);
  }
  of->entries |= leaves_unsummed(s, depends);
  of->finds_axes = of->keys == 0;
  if (of->finds_axes) of->keys = first;
}

// D = k * v, read as D[t-1] by sums and by updates of other states: a matrix whose decay is 0,
// never made at every step.
static bool is_delayed_matrix(const scan *s, const scan_state *state) {
  const typed_tensor *tensor = &s->body->tensors.items[state->tensor];
  if (state->structure->class != STATE_DELAY || state->entries) return false;
  return state->lag >= 0 || (state->keys && scan_is_outer(s, tensor->assigned, tensor->axis_set));
}

// Z = c * S + k * v, read as Z[t-1] nowhere: a sum of states after the step, times factors, and of
// outer products.
static bool is_made_at_end(const scan *s, const scan_state *state) {
  enum { NEITHER, OUTER, HAS_STATE };
  const typed_tensor *t = &s->body->tensors.items[state->tensor];
  if (state->structure->class != STATE_DELAY || state->lag >= 0) return false;
  int *kind = ARENA_ARRAY(s->arena, int, s->body->values.count);
  for (int i = 0; i < s->body->values.count; i++) {
    const typed_value *v = &s->body->values.items[i];
    if (v->op == VALUE_PREVIOUS && v->index == state->tensor) return false;
    if (v->axes != t->axis_set) continue;
    int x = value_arity(v->op) > 0 ? kind[v->args[0]] : NEITHER;
    int y = value_arity(v->op) > 1 ? kind[v->args[1]] : x;
    bool whole = false;
    for (int k = 0; k < value_arity(v->op); k++)
      whole |= s->body->values.items[v->args[k]].axes == v->axes;
    if (scan_updated_state(s, i) >= 0)
      kind[i] = HAS_STATE;
    else if (v->op == VALUE_MUL)
      kind[i] = whole ? (x > y ? x : y) : OUTER;
    else if (v->op == VALUE_NEG || v->op == VALUE_ADD || v->op == VALUE_SUB)
      kind[i] = x && y ? (x > y ? x : y) : NEITHER;
  }
  return kind[t->assigned] == HAS_STATE;
}

// Diagonal decays: nothing but another state's update has the state without a sum.
static bool may_be_matrix(const scan_state *state) {
  switch (state->structure->class) {
    case STATE_SCALAR_DECAY:
    case STATE_AXIS_DECAY: return state->keys && !state->entries;
    case STATE_LOW_RANK:
    case STATE_LINEAR: return true;
    case STATE_ELEMENTWISE: return state->finds_axes && state->keys && !state->entries;
    default: return false;
  }
}

// Is each entry of the update made of the group's entries at the same place, and is no outer product
// added? Products for all pairs of steps then cost more than the steps do.
static bool updates_by_entries(const scan *s, int state, const bool *made) {
  const typed_tensor *tensor = &s->body->tensors.items[s->states[state].tensor];
  const bool *needed = scan_needed_by(s, state);
  for (value_id i = tensor->assigned; i >= 0; i--) {
    const typed_value *v = &s->body->values.items[i];
    if (!needed[i]) continue;
    bool whole = v->op == VALUE_PREVIOUS || (passes_on(v, made) && v->op != VALUE_SUM);
    if (made[i] && !(whole && v->axes == tensor->axis_set)) return false;
    if (!made[i] && (v->op == VALUE_PREVIOUS || v->op == VALUE_LAG)) return false;
    if (!made[i] && scan_multiplies_apart(s, i, tensor->axis_set)) return false;
  }
  return !tensor->complex;
}

// States that add each other are scanned together.
static bool group_is_scanned(const scan *s, int group) {
  const bool *made = scan_made_of(s, group);
  bool entries = false, by_entries = true;
  for (int i = 0; i < s->state_count; i++) {
    if (s->states[i].group != group) continue;
    if (s->states[i].structure->class != STATE_LINEAR) return false;
    entries |= s->states[i].entries;
    by_entries = by_entries && updates_by_entries(s, i, made);
  }
  return entries || by_entries;
}

// What one of them is read by shows in all that add it (group.c).
static bool group_has_keys(const scan *s, int group) {
  for (int i = 0; i < s->state_count; i++)
    if (s->states[i].group == group && s->states[i].keys) return true;
  return false;
}

static recurrence_shift *scan_shift(scan *s, const scan_state *state) {
  recurrence_shift *shift = ARENA_NEW(s->arena, recurrence_shift);
  if (state->structure->class != STATE_DELAY || state->lag >= 0) return NULL;
  return recurrence_is_shift(s->arena, s->body, state->tensor, shift) ? shift : NULL;
}

static void check_state(scan *s, int index) {
  scan_state *state = &s->states[index];
  const char *name = scan_state_name(s, index);
  if (toeplitz_fits(s, index)) {
    state->invariant = true;
    state->finds_axes = false;
    state->keys = state->summed;
    state->values = 0;
    return;
  }
  state->shift = scan_shift(s, state);
  state->at_end = is_made_at_end(s, state);
  state->delayed = state->at_end || is_delayed_matrix(s, state);
  if (state->delayed) return;
  if (state->lag >= 0) scan_refuse(s, "a lag is used entry by entry");
  state->mixed = mixed_fits(s, index);
  state->sequence = state->mixed || sequence_fits(s, index, may_be_matrix(state)) ||
                    group_is_scanned(s, state->group);
  if (state->sequence) return;
  if (!may_be_matrix(state)) {
    scan_refuse(s,
                arena_printf(s->arena, "%s is not linear: each step needs the one before", name));
  } else if (!state->keys && !group_has_keys(s, state->group)) {
    scan_refuse(s, arena_printf(s->arena, "no axis of %s is summed by every read", name));
  }
}

static void check_scan_states(scan *s) {
  if (!s->state_count) scan_refuse(s, "there is no state");
  for (int i = 0; i < s->state_count; i++) find_uses(s, i);
  for (int i = 0; i < s->state_count; i++) check_state(s, i);
}

static void make_scan_body(scan *s, const recurrence *from) {
  s->body = ARENA_NEW(s->arena, typed_body);
  *s->body = from->body;
  vec_keep(s->arena, &s->body->values);
  // what is appended leaves the original as it is
  s->body->tensors.capacity = from->body.tensors.count;
}

static int *uses_of_values(arena *a, const typed_body *body) {
  int *uses = ARENA_ARRAY(a, int, body->values.count);
  vec_each(const typed_value, v, body->values) {
    for (int k = 0; k < value_arity(v->op); k++) uses[v->args[k]]++;
  }
  for (int i = 0; i < body->tensors.count; i++)
    if (body->tensors.items[i].assigned != NO_VALUE) uses[body->tensors.items[i].assigned]++;
  for (int i = 0; i < body->lags.count; i++) uses[body->lags.items[i].source]++;
  return uses;
}

static scan *scan_new(arena *a, const recurrence *from, const recurrence_reads *reads, int length,
                      scan_purpose purpose) {
  scan *s = ARENA_NEW(a, scan);
  *s = (scan){.arena = a,
              .from = from,
              .reads = reads,
              .declared_lags = from->body.lags.count - (reads ? reads->begins.count : 0),
              .host = purpose != SCAN_FOR_GPU,
              .forward_alone = purpose == SCAN_FOR_HOST_FORWARD,
              .making = -1,
              .part = -1,
              .middle = -1,
              .half = -1,
              .other_half = -1};
  make_scan_body(s, from);
  s->uses = uses_of_values(a, &from->body);
  const char *name = arena_printf(a, "%s.forward", s->body->name);
  s->program = tile_program_new(a, name, s->body, TILE_CHUNK, length);
  s->values = lowering_new(s->program, s->body);
  s->values.values = NULL;
  s->values.done = NULL;
  scan_grow(s);
  for (int i = 0; i < CHUNK_LEVELS; i++) s->axes[i] = (scan_axes){-1, -1, -1};
  for (int i = 0; i <= LEVELS_MAX; i++) s->distances[i] = -1;
  s->state_count = from->states.count;
  s->states = ARENA_ARRAY(a, scan_state, s->state_count + lag_matrix_slots(s));
  s->lag_in_work = ARENA_ARRAY(a, bool, s->body->lags.count);
  int next = 0;
  for (int i = 0; i < s->body->tensors.count; i++) {
    if (s->body->tensors.items[i].kind != TENSOR_STATE || next == s->state_count) continue;
    scan_state *state = &s->states[next];
    state->structure = &from->states.items[next++];
    state->tensor = i;
    state->lag = -1;
    state->after_decay.re = NO_TILE;
    state->decay_value = state->structure->decay;
    state->log_decay = state->structure->log_decay;
    state->keys = state->structure->key_axes;
    state->values = state->structure->value_axes;
  }
  return s;
}

// Levels and systems have axes of their own, and a program has room for so many.
static void check_axis_room(scan *s) {
  int needed = 3 * decay_levels(s) + 3;  // of each level; the halves, the step between two
  for (int i = 0; i < s->state_count; i++) {
    state_class class = s->states[i].structure->class;
    if (class == STATE_LOW_RANK || class == STATE_LINEAR) needed += 4;
    if (s->states[i].invariant) needed += decay_levels(s) + 1;
  }
  if (tile_axes_left(s->program) < needed) scan_refuse(s, "there are too many axes");
}

// Rows of a triangular system beyond which f32 loses digits: twice as many double the error, and a
// plain loop's stays.
enum { ROWS_MAX = 128 };

static bool is_too_long(const scan *s, int length) {
  int most = 0;
  for (int i = 0; i < s->state_count; i++)
    most = s->groups[i].unknown.count > most ? s->groups[i].unknown.count : most;
  return length > 1 && length * most > ROWS_MAX;
}

static void add_next_state(scan *s, int state) {
  const scan_state *of = &s->states[state];
  if (of->lag >= s->declared_lags) return;
  tile_pair next = of->sequence ? sequence_next(s, state) : contract_next_state(s, state);
  if (of->lag >= 0)
    lower_lag_result(s->program, s->body, of->lag, of->slot, next);
  else
    lower_result(s->program, s->body, TILE_NEXT_STATE, of->tensor, next);
}

static tile_program *build_scan_program(arena *a, const recurrence *from,
                                        const recurrence_reads *reads, int length,
                                        scan_purpose purpose, bool lags_as_states,
                                        const char **reason) {
  scan *s = scan_new(a, from, reads, length, purpose);
  bool tries_states = lags_as_states && lag_matrix_make(s);
  s->program->host = s->host;
  scan_grow(s);
  group_find(s);
  if (!s->reason) check_scan_states(s);
  check_axis_room(s);
  typed_body declared = from->body;
  declared.lags.count = s->declared_lags;
  lower_declare(s->program, &declared);
  for (int i = 0; i < s->state_count && !s->reason; i++) scan_make_state(s, i);
  if (!s->reason && is_too_long(s, length))
    return build_scan_program(a, from, reads, length / 2, purpose, lags_as_states, reason);
  if (!s->reason) add_outputs(s);
  for (int i = 0; i < s->state_count && !s->reason; i++) {
    s->program->where = scan_update_span(s, i);
    add_next_state(s, i);
  }
  for (int lag = 0; lag < s->declared_lags && !s->reason; lag++) {
    if (s->lag_is_states && s->lag_is_states[lag]) continue;
    tile_pair x = scan_lag(s, lag);
    if (!s->reason) lag_results(s, lag, x);
  }
  if (s->reason && tries_states)
    return build_scan_program(a, from, reads, length, purpose, false, reason);
  if (s->reason) {
    *reason = s->reason;
    return NULL;
  }
  tile_find_grid(s->program);
  return tile_simplify(a, tile_drop_unused(a, s->program));
}

// Where no copy fits either, the reason is that of the recurrence itself.
static tile_program *build_chunk(arena *a, const recurrence *from, int length, scan_purpose purpose,
                                 const char **reason) {
  const recurrence_reads *reads = recurrence_read_again(a, from);
  tile_program *made =
      reads ? build_scan_program(a, reads->made, reads, length, purpose, true, reason) : NULL;
  if (!made) made = build_scan_program(a, from, NULL, length, purpose, true, reason);
  const recurrence *with_keys = made ? NULL : recurrence_with_unit_keys(a, from);
  const char *unused;
  return with_keys ? build_scan_program(a, with_keys, NULL, length, purpose, true, &unused) : made;
}

tile_program *chunk_build_linear_scan(arena *a, const recurrence *from, int length,
                                      const char **reason) {
  return build_chunk(a, from, length, SCAN_FOR_GPU, reason);
}

tile_program *chunk_build_for_host(arena *a, const recurrence *from, int length,
                                   const char **reason) {
  return build_chunk(a, from, length, SCAN_FOR_HOST, reason);
}

tile_program *chunk_build_forward_for_host(arena *a, const recurrence *from, int length,
                                           const char **reason) {
  return build_chunk(a, from, length, SCAN_FOR_HOST_FORWARD, reason);
}

axis_set chunk_toeplitz_axes(arena *a, const recurrence *from) {
  scan *s = scan_new(a, from, NULL, 1, SCAN_FOR_GPU);
  axis_set axes = 0;
  for (int i = 0; i < s->state_count; i++) {
    find_uses(s, i);
    axes |= toeplitz_of_matrices(s, i);
  }
  return axes;
}
