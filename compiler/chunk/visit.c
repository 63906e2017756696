// Values of the body one after another, and the states that they read when they read them: each
// becomes a tile, or a sum of products of states that are not summed yet.
#include "compiler/chunk/scan.h"

// A value that was linear in sums not yet solved for depends on nothing unknown later.
static bool is_linear_value(scan *s, value_id id) {
  const linear *x = s->linears[id];
  if (x && !linear_has_states(x) && !linear_has_unknown(s, x)) s->linears[id] = NULL;
  return s->linears[id] != NULL;
}

static const linear *linear_operand(scan *s, value_id id) {
  return is_linear_value(s, id) ? s->linears[id] : linear_of_factor(s, id);
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

static const linear *linear_product(scan *s, const typed_value *v, bool divides) {
  bool first = is_linear_value(s, v->args[0]), second = is_linear_value(s, v->args[1]);
  if ((first && second) || (second && divides)) {
    scan_refuse(s, "a state is used otherwise than in sums over its axes");
    return linear_new(s);
  }
  return linear_scaled(s, linear_operand(s, v->args[first ? 0 : 1]), v->args[first ? 1 : 0],
                       divides);
}

// Under another name a state meets a matrix that mixes its entries.
static const char *dense_reason(scan *s, const typed_value *rename) {
  axis_set added = rename->axes & ~s->body->values.items[rename->args[0]].axes;
  double size = scan_entries(s, added);
  return arena_printf(s->arena,
                      "a state is renamed: between steps stand matrices of %.0f x %.0f, which each "
                      "level of a chunk would multiply, %.0f multiply-adds a step",
                      size, size, size * size * size);
}

// A value made of others that are linear in states; NULL where it is not linear itself.
static const linear *linear_value(scan *s, value_id id) {
  const typed_value v = s->body->values.items[id];
  switch (v.op) {
    case VALUE_NEG: return linear_sum(s, linear_new(s), linear_operand(s, v.args[0]), -1);
    case VALUE_ADD:
      return linear_sum(s, linear_operand(s, v.args[0]), linear_operand(s, v.args[1]), 1);
    case VALUE_SUB:
      return linear_sum(s, linear_operand(s, v.args[0]), linear_operand(s, v.args[1]), -1);
    case VALUE_MUL: return linear_product(s, &v, false);
    case VALUE_DIV: return linear_product(s, &v, true);
    case VALUE_REAL_PART: return linear_part(s, linear_operand(s, v.args[0]), PART_REAL);
    case VALUE_IMAGINARY_PART: return linear_part(s, linear_operand(s, v.args[0]), PART_IMAGINARY);
    case VALUE_WHERE:
      if (is_linear_value(s, v.args[0])) break;
      return linear_where(s, v.args[0], linear_operand(s, v.args[1]), linear_operand(s, v.args[2]));
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
  for (int i = 0; i < s->state_count; i++)
    if (s->states[i].tensor == tensor) return i;
  return -1;
}

static bool has_linear_operand(scan *s, value_id id) {
  const typed_value *v = &s->body->values.items[id];
  for (int k = 0; k < value_arity(v->op); k++)
    if (is_linear_value(s, v->args[k])) return true;
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
  if (made) lowering_set(&s->values, id, previous ? scan_shifted(s, state, of->steps) : of->steps);
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

static void visit_lag(scan *s, value_id id) {
  const typed_value v = s->body->values.items[id];
  tile_pair x = scan_lag(s, v.index);
  if (!s->reason) lowering_set(&s->values, id, lag_read(s, &v, x));
}

static void visit_one(scan *s, value_id id) {
  const typed_value *v = &s->body->values.items[id];
  int state = scan_updated_state(s, id), shifted = state_shifted(s, v);
  if (state >= 0) {
    visit_state(s, id, state, false);
  } else if (shifted >= 0) {
    lowering_set(&s->values, id, sequence_entry_before(s, shifted, v->steps));
  } else if (v->op == VALUE_PREVIOUS) {
    visit_state(s, id, state_of_tensor(s, v->index), true);
  } else if (v->op == VALUE_LAG) {
    visit_lag(s, id);
  } else if (has_linear_operand(s, id)) {
    if (v->op == VALUE_SUM) {
      visit_sum(s, id);
    } else {
      const linear *x = linear_value(s, id);  // may move s->linears
      s->linears[id] = (linear *)x;
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
  return s->reason ? linear_new(s) : linear_operand(s, id);
}

tile_pair scan_value(scan *s, value_id id, const char *what) {
  const linear *x = scan_visit(s, id);
  if (!s->reason && (linear_has_states(x) || linear_has_unknown(s, x)))
    scan_refuse(s, arena_printf(s->arena, "%s uses a state that is not summed", what));
  return s->reason ? pair_number(s->program, 0) : scan_pure(s, id);
}

tile_pair scan_lag(scan *s, int lag) {
  const typed_lag *buffer = &s->body->lags.items[lag];
  tile_pair none = pair_number(s->program, 0);
  if (s->lag_in_work[lag]) {
    scan_refuse(s, arena_printf(s->arena, "%s depends on its own earlier values", buffer->name));
    return none;
  }
  s->lag_in_work[lag] = true;
  tile_pair x =
      scan_value(s, buffer->source, arena_printf(s->arena, "the lag of %s", buffer->name));
  s->lag_in_work[lag] = false;
  return s->reason ? none : x;
}

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
