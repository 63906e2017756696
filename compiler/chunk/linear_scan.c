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
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/chunk/chunk.h"
#include "compiler/chunk/scan.h"

// ---- values ----------------------------------------------------------------------------------

// A value that was linear in sums not yet solved for depends on nothing unknown later.
static bool is_linear(scan *s, value_id id) {
  const linear *x = s->linears[id];
  if (x && !linear_has_states(x) && !linear_has_unknown(s, x)) s->linears[id] = NULL;
  return s->linears[id] != NULL;
}

static const linear *operand(scan *s, value_id id) {
  return is_linear(s, id) ? s->linears[id] : linear_of_factor(s, id);
}

// Does the sum need a state whose update is being made?
static bool reads_state_in_work(const scan *s, const linear *x) {
  for (int i = 0; i < x->products.count; i++) {
    int state = x->products.items[i].state;
    if (state >= 0 && s->states[state].group == s->making) return true;
  }
  return linear_has_unknown(s, x);
}

// A sum over states: read now, or unknown as long as one of them is being made.
static void visit_sum(scan *s, value_id id) {
  const typed_value v = s->body->values.items[id];
  const linear *x = s->linears[v.args[0]];
  s->visited[id] = false;  // a state that is made now may visit it first
  for (int i = 0; i < x->products.count && !s->reason; i++) {
    int state = x->products.items[i].state;
    if (state >= 0 && s->states[state].group != s->making) scan_make_state(s, state);
  }
  s->visited[id] = true;
  if (s->reason || s->values.done[id]) return;  // solved for meanwhile
  if (reads_state_in_work(s, x)) {
    vec_push(s->arena, &s->groups[s->making].unknown, id);
    s->unknown[id] = true;
    s->linears[id] = linear_of_factor(s, id);
    return;
  }
  tile_pair sum = pair_number(s->program, 0);
  for (int i = 0; i < x->products.count && !s->reason; i++) {
    tile_pair part = contract_product(s, &x->products.items[i], v.over);
    sum = pair_linear(s->program, TILE_ADD, sum, part);
  }
  if (!v.complex) sum.im = NO_TILE;
  lowering_set(&s->values, id, sum);
}

static const linear *product_of(scan *s, const typed_value *v, bool divides) {
  bool first = is_linear(s, v->args[0]), second = is_linear(s, v->args[1]);
  if ((first && second) || (second && divides)) {
    scan_refuse(s, "a state is used otherwise than in sums over its axes");
    return linear_new(s);
  }
  return linear_scaled(s, operand(s, v->args[first ? 0 : 1]), v->args[first ? 1 : 0], divides);
}

// Under another name a state meets a matrix that mixes its entries.
static const char *dense_reason(scan *s, const typed_value *rename) {
  axis_set added = rename->axes & ~s->body->values.items[rename->args[0]].axes;
  double size = 1;
  for (int i = 0; i < s->body->axes.count; i++) {
    if (axis_in(added, i) && s->body->axes.items[i].size > 0)
      size *= (double)s->body->axes.items[i].size;
  }
  return arena_printf(s->arena,
                      "a state is renamed: between steps stand matrices of %.0f x %.0f, which each "
                      "level of a chunk would multiply, %.0f multiply-adds a step",
                      size, size, size * size * size);
}

// A value made of others that are linear in states; NULL where it is not linear itself.
static const linear *linear_value(scan *s, value_id id) {
  const typed_value v = s->body->values.items[id];
  switch (v.op) {
    case VALUE_NEG: return linear_sum(s, linear_new(s), operand(s, v.args[0]), -1);
    case VALUE_ADD: return linear_sum(s, operand(s, v.args[0]), operand(s, v.args[1]), 1);
    case VALUE_SUB: return linear_sum(s, operand(s, v.args[0]), operand(s, v.args[1]), -1);
    case VALUE_MUL: return product_of(s, &v, false);
    case VALUE_DIV: return product_of(s, &v, true);
    case VALUE_REAL_PART: return linear_part(s, operand(s, v.args[0]), PART_REAL);
    case VALUE_IMAGINARY_PART: return linear_part(s, operand(s, v.args[0]), PART_IMAGINARY);
    case VALUE_WHERE:
      if (is_linear(s, v.args[0])) break;
      return linear_where(s, v.args[0], operand(s, v.args[1]), operand(s, v.args[2]));
    default: break;
  }
  scan_refuse(s, v.op == VALUE_RENAME ? dense_reason(s, &v)
                                      : arena_printf(s->arena,
                                                     "a state is used otherwise than in sums over "
                                                     "its axes, by '%s'",
                                                     value_op_text(v.op)));
  return NULL;
}

static int state_of_tensor(const scan *s, int tensor) {
  for (int i = 0; i < s->state_count; i++) {
    if (s->states[i].tensor == tensor) return i;
  }
  return -1;
}

static bool has_linear_operand(scan *s, value_id id) {
  const typed_value *v = &s->body->values.items[id];
  for (int k = 0; k < value_arity(v->op); k++) {
    if (is_linear(s, v->args[k])) return true;
  }
  return false;
}

static void visit_state(scan *s, value_id id, int state, bool previous) {
  const scan_state *of = &s->states[state];
  bool in_work = of->group == s->making && of->structure->class == STATE_LINEAR;
  if (!of->sequence || in_work) {
    s->linears[id] = linear_of_state(s, state, previous);
    return;
  }
  s->visited[id] = false;  // its own update may visit it first
  bool made = scan_make_state(s, state);
  s->visited[id] = true;
  if (made) lowering_set(&s->values, id, previous ? sequence_previous(s, state) : of->steps);
}

// The shift register of which this is an entry before the step; -1: it is none.
static int state_shifted(const scan *s, const typed_value *v) {
  if (v->op != VALUE_SLICE) return -1;
  const typed_value *of = &s->body->values.items[v->args[0]];
  int state = of->op == VALUE_PREVIOUS ? state_of_tensor(s, of->index) : -1;
  bool shifted = state >= 0 && s->states[state].shift && s->states[state].shift->axis == v->index;
  return shifted ? state : -1;
}

// States may leave a sum: im(x + S) of a real S is im(x).
static bool has_left(scan *s, value_id id) {
  const linear *x = s->linears[id];
  if (linear_has_states(x) || linear_has_unknown(s, x)) return false;
  tile_pair rest = linear_pure(s, x);
  axis_set missing = s->body->values.items[id].axes & ~pair_axes(s->program, rest);
  if (missing) rest = pair_each(s->program, rest, (tile_value){.op = TILE_EXPAND, .over = missing});
  lowering_set(&s->values, id, rest);
  s->linears[id] = NULL;
  return true;
}

static void visit_one(scan *s, value_id id) {
  const typed_value *v = &s->body->values.items[id];
  int state = scan_updated_state(s, id), shifted = state_shifted(s, v);
  if (state >= 0) {
    visit_state(s, id, state, false);
  } else if (shifted >= 0) {
    lowering_set(&s->values, id, shift_previous(s, shifted, v->steps));
  } else if (v->op == VALUE_PREVIOUS) {
    visit_state(s, id, state_of_tensor(s, v->index), true);
  } else if (v->op == VALUE_LAG) {
    lag_read(s, id);
  } else if (has_linear_operand(s, id)) {
    if (v->op == VALUE_SUM) {
      visit_sum(s, id);
    } else {
      s->linears[id] = (linear *)linear_value(s, id);
      if (!s->reason && !has_left(s, id)) low_rank_replace(s, id);
    }
  }
}

void scan_settle(scan *s, int group) {
  for (int id = 0; id < s->body->values.count; id++) {
    bool of_group = false;
    for (int i = 0; s->linears[id] && i < s->linears[id]->products.count; i++) {
      int state = s->linears[id]->products.items[i].state;
      of_group |= state >= 0 && s->states[state].group == group;
    }
    if (!of_group) continue;
    s->linears[id] = NULL;
    s->visited[id] = false;
  }
}

// Visits what a value is made of, in order. A state's update counts as the state itself; its parts
// come when it is read.
const linear *scan_visit(scan *s, value_id id) {
  bool *needed = ARENA_ARRAY(s->arena, bool, id + 1);
  needed[id] = true;
  for (value_id i = id; i >= 0; i--) {
    if (!needed[i] || s->visited[i] || scan_updated_state(s, i) >= 0) continue;
    const typed_value *v = &s->body->values.items[i];
    for (int k = 0; k < value_arity(v->op); k++) needed[v->args[k]] = true;
  }
  span outer = s->program->where;
  for (value_id i = 0; i <= id && !s->reason; i++) {
    if (!needed[i] || s->visited[i]) continue;
    s->visited[i] = true;
    s->program->where = s->body->values.items[i].span;
    visit_one(s, i);
  }
  s->program->where = outer;
  return s->reason ? linear_new(s) : operand(s, id);
}

tile_pair scan_value(scan *s, value_id id, const char *what) {
  const linear *x = scan_visit(s, id);
  if (!s->reason && (linear_has_states(x) || linear_has_unknown(s, x))) {
    scan_refuse(s, arena_printf(s->arena, "%s uses a state that is not summed", what));
  }
  return s->reason ? pair_number(s->program, 0) : scan_pure(s, id);
}

// ---- states ----------------------------------------------------------------------------------

const linear *scan_update(scan *s, int state) {
  value_id id = s->body->tensors.items[s->states[state].tensor].assigned;
  const typed_value v = s->body->values.items[id];
  for (int k = 0; k < value_arity(v.op); k++) scan_visit(s, v.args[k]);
  if (s->reason) return linear_new(s);
  if (v.op == VALUE_PREVIOUS) return linear_of_state(s, state_of_tensor(s, v.index), true);
  if (!has_linear_operand(s, id)) return linear_of_factor(s, id);
  if (v.op == VALUE_SUM) scan_refuse(s, "an update is a sum over a state");
  const linear *x = s->reason ? NULL : linear_value(s, id);
  return x ? x : linear_new(s);
}

// ---- the program -----------------------------------------------------------------------------

static void add_outputs(scan *s) {
  for (int i = 0; i < s->body->tensors.count && !s->reason; i++) {
    const typed_tensor tensor = s->body->tensors.items[i];
    if (tensor.kind != TENSOR_OUTPUT) continue;
    s->program->where = s->body->values.items[tensor.assigned].span;
    scan_visit(s, tensor.assigned);
    if (s->reason) return;
    if (is_linear(s, tensor.assigned)) {
      scan_refuse(
          s, arena_printf(s->arena, "the output %s is a state that is not summed", tensor.name));
      return;
    }
    lower_output(s->program, s->body, i, scan_pure(s, tensor.assigned));
  }
}

// ---- how states are used ---------------------------------------------------------------------

static bool passes_on(const typed_value *v, const bool *depends) {
  switch (v->op) {
    case VALUE_NEG:
    case VALUE_ADD:
    case VALUE_SUB:
    case VALUE_REAL_PART:
    case VALUE_IMAGINARY_PART:
    case VALUE_SUM: return true;
    case VALUE_MUL: return !(depends[v->args[0]] && depends[v->args[1]]);
    case VALUE_DIV: return !depends[v->args[1]];
    case VALUE_WHERE: return !depends[v->args[0]];
    default: return false;
  }
}

static bool leaves_unsummed(const scan *s, const bool *depends) {
  for (int i = 0; i < s->body->tensors.count; i++) {
    const typed_tensor *tensor = &s->body->tensors.items[i];
    if (tensor->kind == TENSOR_OUTPUT && depends[tensor->assigned]) return true;
  }
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

// States that add each other are scanned together.
static bool group_has_entries(const scan *s, int group) {
  bool entries = false;
  for (int i = 0; i < s->state_count; i++) {
    if (s->states[i].group != group) continue;
    if (s->states[i].structure->class != STATE_LINEAR) return false;
    entries |= s->states[i].entries;
  }
  return entries;
}

// What one of them is read by shows in all that add it (group.c).
static bool group_has_keys(const scan *s, int group) {
  for (int i = 0; i < s->state_count; i++) {
    if (s->states[i].group == group && s->states[i].keys) return true;
  }
  return false;
}

static recurrence_shift *shift_of(scan *s, const scan_state *state) {
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
  state->shift = shift_of(s, state);
  state->delayed = is_delayed_matrix(s, state);
  if (state->delayed) return;
  if (state->lag >= 0) scan_refuse(s, "a lag is used entry by entry");
  state->sequence =
      sequence_fits(s, index, may_be_matrix(state)) || group_has_entries(s, state->group);
  if (state->sequence) return;
  if (!may_be_matrix(state)) {
    scan_refuse(s,
                arena_printf(s->arena, "%s is not linear: each step needs the one before", name));
  } else if (!state->keys && !group_has_keys(s, state->group)) {
    scan_refuse(s, arena_printf(s->arena, "no axis of %s is summed by every read", name));
  }
}

static void check_states(scan *s) {
  if (!s->state_count) scan_refuse(s, "there is no state");
  for (int i = 0; i < s->state_count; i++) find_uses(s, i);
  for (int i = 0; i < s->state_count; i++) check_state(s, i);
}

static void make_body(scan *s, const recurrence *from) {
  s->body = ARENA_NEW(s->arena, typed_body);
  *s->body = from->body;
  s->body->values.items = ARENA_ARRAY(s->arena, typed_value, from->body.values.count);
  memcpy(s->body->values.items, from->body.values.items,
         sizeof *s->body->values.items * (size_t)from->body.values.count);
  s->body->values.capacity = from->body.values.count;
  // what is appended leaves the original as it is
  s->body->tensors.capacity = from->body.tensors.count;
}

static int *uses_of_values(arena *a, const typed_body *body) {
  int *uses = ARENA_ARRAY(a, int, body->values.count);
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    for (int k = 0; k < value_arity(v->op); k++) uses[v->args[k]]++;
  }
  for (int i = 0; i < body->tensors.count; i++) {
    if (body->tensors.items[i].assigned != NO_VALUE) uses[body->tensors.items[i].assigned]++;
  }
  for (int i = 0; i < body->lags.count; i++) uses[body->lags.items[i].source]++;
  return uses;
}

static scan *scan_new(arena *a, const recurrence *from, int length, bool host) {
  scan *s = ARENA_NEW(a, scan);
  *s = (scan){.arena = a,
              .from = from,
              .host = host,
              .making = -1,
              .middle = -1,
              .half = -1,
              .other_half = -1};
  make_body(s, from);
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
    state->decay_value = state->structure->decay;
    state->log_decay = state->structure->log_decay;
    state->keys = state->structure->key_axes;
    state->values = state->structure->value_axes;
  }
  return s;
}

// Levels and systems have axes of their own, and a program has room for so many.
static void check_axes(scan *s) {
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
  tile_pair next = of->sequence ? sequence_next(s, state) : contract_next_state(s, state);
  if (of->lag >= 0) {
    lag_slot_result(s, of->lag, of->slot, next);
  } else {
    lower_result(s->program, s->body, TILE_NEXT_STATE, of->tensor, next);
  }
}

static tile_program *build(arena *a, const recurrence *from, int length, bool host,
                           bool lags_as_states, const char **reason) {
  scan *s = scan_new(a, from, length, host);
  bool tries_states = lags_as_states && lag_matrix_make(s);
  scan_grow(s);
  group_find(s);
  if (!s->reason) check_states(s);
  check_axes(s);
  lower_declare(s->program, &from->body);
  for (int i = 0; i < s->state_count && !s->reason; i++) scan_make_state(s, i);
  if (!s->reason && is_too_long(s, length))
    return build(a, from, length / 2, host, lags_as_states, reason);
  if (!s->reason) add_outputs(s);
  for (int i = 0; i < s->state_count && !s->reason; i++) {
    s->program->where = scan_update_span(s, i);
    add_next_state(s, i);
  }
  if (!s->reason) lag_results(s);
  if (s->reason && tries_states) return build(a, from, length, host, false, reason);
  if (s->reason) {
    *reason = s->reason;
    return NULL;
  }
  tile_find_grid(s->program);
  return tile_simplify(a, tile_drop_unused(a, s->program));
}

tile_program *chunk_build_linear_scan(arena *a, const recurrence *from, int length,
                                      const char **reason) {
  return build(a, from, length, false, true, reason);
}

tile_program *chunk_build_for_host(arena *a, const recurrence *from, int length,
                                   const char **reason) {
  return build(a, from, length, true, true, reason);
}

bool chunk_has_products(const tile_program *chunk) {
  for (int i = 0; i < chunk->values.count; i++) {
    if (chunk->values.items[i].op == TILE_DOT) return true;
  }
  return false;
}

axis_set chunk_toeplitz_axes(arena *a, const recurrence *from) {
  scan *s = scan_new(a, from, 1, false);
  axis_set axes = 0;
  for (int i = 0; i < s->state_count; i++) {
    find_uses(s, i);
    axes |= toeplitz_of_matrices(s, i);
  }
  return axes;
}
