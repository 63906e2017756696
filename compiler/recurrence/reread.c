// States that are reads of another state, or of its entries: one step later they are read from that
// state again. Steps keep the number that they have; chunks know the other state alone.
//
//   S = a * S[t-1] + k * (v + w * z[t-1])      S = a * S[t-1] + k * (v + w * (z0 + sum[K](q1 * S[t-1])))
//   z = sum[K](q * S)                    ->    z = sum[K](q * S)
//
// q1 is q of the step before, 0 in the first step. z0 is the state in the first step, 0 behind it.
// Both are lags that the copy alone has. A sum that no update reads stays: it is there already.
#include "compiler/recurrence/normalise.h"
#include "compiler/recurrence/structure.h"

typedef struct rereading {
  arena *memory;
  const typed_body *from;
  bool *free;      // by value: made of no state
  bool *constant;  // by value: the same at all steps
  bool *later;     // by value: linear in states after the step alone
  bool *whole;     // by value: of these, entries of a state that no sum has
  bool *reread;    // by tensor
  recurrence_reads *to;
  builder *b;
  value_id *earlier_made, *copy_made;  // by value; NO_VALUE until they are made
} rereading;

static const typed_value *old_value(const rereading *r, value_id id) {
  return &r->from->values.items[id];
}

// ---- which states -------------------------------------------------------------------------------

// Is the state made of what it was before, but for what other states are after the step?
static bool keeps_itself(const rereading *r, int state) {
  value_id update = r->from->tensors.items[state].assigned;
  bool *depends = ARENA_ARRAY(r->memory, bool, update + 1);
  for (value_id i = 0; i <= update; i++) {
    const typed_value *v = old_value(r, i);
    depends[i] = v->op == VALUE_PREVIOUS && v->index == state;
    for (int k = 0; k < value_arity(v->op); k++) depends[i] |= depends[v->args[k]];
    if (i != update && state_assigned(r->from, i) >= 0) depends[i] = false;
  }
  return depends[update];
}

static bool lag_is_free(const state_graph *g, int lag) {
  int node = g->node_of_lag[lag];
  for (int i = 0; node >= 0 && i < g->state_count; i++)
    if (node_reaches(g, node, i)) return false;
  return true;
}

static bool is_later(const rereading *r, value_id id) {
  const typed_value *v = old_value(r, id);
  unsigned dependent = 0;
  for (int k = 0; k < value_arity(v->op); k++) {
    if (r->free[v->args[k]]) continue;
    if (!r->later[v->args[k]]) return false;
    dependent |= 1u << k;
  }
  bool divides = v->op == VALUE_DIV && !r->constant[v->args[1]];
  return dependent && value_is_linear_in(v->op, dependent) && !divides;
}

static void describe_value(rereading *r, const state_graph *g, value_id id) {
  const typed_value *v = old_value(r, id);
  bool lag = v->op == VALUE_LAG;
  r->free[id] = v->op != VALUE_PREVIOUS && (!lag || lag_is_free(g, v->index));
  r->constant[id] = !lag && v->op != VALUE_INPUT && v->op != VALUE_PREVIOUS;
  for (int k = 0; k < value_arity(v->op); k++) {
    r->free[id] &= r->free[v->args[k]];
    r->constant[id] &= r->constant[v->args[k]];
    r->whole[id] |= r->whole[v->args[k]] && v->op != VALUE_SUM;
  }
  int state = state_assigned(r->from, id);
  bool stops = state >= 0 && keeps_itself(r, state);
  r->whole[id] |= stops;
  r->later[id] = stops || (!r->free[id] && is_later(r, id));
}

// Sums that enter an update, and entries that none enters.
static bool is_reread(const rereading *r, const state_graph *g, int tensor) {
  const typed_tensor *t = &r->from->tensors.items[tensor];
  if (t->kind != TENSOR_STATE || previous_value(r->from, tensor) == NO_VALUE ||
      keeps_itself(r, tensor))
    return false;
  int node = g->node_of_state[tensor];
  return r->later[t->assigned] && r->whole[t->assigned] != node_reaches(g, node, node);
}

// ---- what they were a step before ---------------------------------------------------------------

static const recurrence_beginning with_zero = {-1, false};

// Sources are values of the old body. NO_VALUE: a number, 0 where the lag begins with a state, else 1.
static value_id lag_of(rereading *r, typed_lag lag, recurrence_beginning begins) {
  typed_body *body = r->b->body;
  int first = r->from->lags.count, index = first;
  while (index < body->lags.count && (body->lags.items[index].source != lag.source ||
                                      r->to->begins.items[index - first].tensor != begins.tensor))
    index++;
  if (index == body->lags.count) {
    vec_push(r->memory, &body->lags, lag);
    vec_push(r->memory, &r->to->begins, begins);
  }
  return make_value(r->b, (typed_value){.op = VALUE_LAG, .index = index, .steps = 1});
}

static value_id lag_of_value(rereading *r, value_id id) {
  const typed_value *v = old_value(r, id);
  return lag_of(r, (typed_lag){"", -1, id, 1, v->axes, v->complex}, with_zero);
}

static value_id copied(rereading *r, value_id id) {
  if (r->copy_made[id] != NO_VALUE) return r->copy_made[id];
  typed_value v = *old_value(r, id);
  for (int k = 0; k < value_arity(v.op); k++) v.args[k] = copied(r, v.args[k]);
  return r->copy_made[id] = make_value(r->b, v);
}

// A factor beside one that is 0 in the first step.
static value_id earlier_factor(rereading *r, value_id id) {
  return r->constant[id] ? copied(r, id) : lag_of_value(r, id);
}

static value_id earlier_state(rereading *r, int state) {
  value_id before = make_value(r->b, (typed_value){.op = VALUE_PREVIOUS, .index = state});
  value_id later = lag_of(r, (typed_lag){"", -1, NO_VALUE, 1, 0, false}, with_zero);
  return make_binary(r->b, VALUE_MUL, later, before);
}

// Outer products stay products.
static value_id earlier_product(rereading *r, value_id id) {
  const typed_value *v = old_value(r, id);
  bool outer = v->op == VALUE_MUL && old_value(r, v->args[0])->axes != v->axes &&
               old_value(r, v->args[1])->axes != v->axes;
  if (!outer) return lag_of_value(r, id);
  value_id x = lag_of_value(r, v->args[0]);
  return make_binary(r->b, VALUE_MUL, x, earlier_factor(r, v->args[1]));
}

// What a value was a step before; 0 in the first step.
static value_id earlier(rereading *r, value_id id) {
  if (r->earlier_made[id] != NO_VALUE) return r->earlier_made[id];
  typed_value v = *old_value(r, id);
  int state = state_assigned(r->from, id);
  if (r->free[id]) return r->earlier_made[id] = earlier_product(r, id);
  if (state >= 0 && !r->reread[state]) return r->earlier_made[id] = earlier_state(r, state);
  bool scales = v.op == VALUE_MUL || v.op == VALUE_DIV;
  for (int k = 0; k < value_arity(v.op); k++) {
    bool factor = scales ? r->free[v.args[k]] : v.op == VALUE_WHERE && k == 0;
    v.args[k] = factor ? earlier_factor(r, v.args[k]) : earlier(r, v.args[k]);
  }
  return r->earlier_made[id] = make_value(r->b, v);
}

static value_id read_again(builder *b, const value_id *map, value_id old, void *context) {
  (void)map;
  rereading *r = context;
  const typed_value *v = old_value(r, old);
  if (v->op != VALUE_PREVIOUS || !r->reread[v->index]) return NO_VALUE;
  r->b = b;
  const typed_tensor *t = &r->from->tensors.items[v->index];
  value_id first = lag_of(r, (typed_lag){"", -1, NO_VALUE, 1, t->axis_set, t->complex},
                          (recurrence_beginning){v->index, r->whole[t->assigned]});
  return make_binary(b, VALUE_ADD, first, earlier(r, t->assigned));
}

static void set_number_sources(rereading *r, typed_body *body) {
  builder b = builder_new(r->memory, body);
  for (int i = 0; i < r->to->begins.count; i++) {
    typed_lag *lag = &body->lags.items[r->from->lags.count + i];
    if (lag->source == NO_VALUE) lag->source = make_number(&b, r->to->begins.items[i].tensor < 0);
  }
}

recurrence_reads *recurrence_read_again(arena *memory, const recurrence *from) {
  int count = from->body.values.count, any = 0;
  rereading r = {.memory = memory, .from = &from->body, .to = ARENA_NEW(memory, recurrence_reads)};
  bool **arrays[] = {&r.free, &r.constant, &r.later, &r.whole, &r.reread};
  for (int i = 0; i < 5; i++)
    *arrays[i] = ARENA_ARRAY(memory, bool, count + from->body.tensors.count);
  state_graph g = state_graph_make(memory, &from->body);
  for (value_id i = 0; i < count; i++) describe_value(&r, &g, i);
  for (int i = 0; i < from->body.tensors.count; i++) any += r.reread[i] = is_reread(&r, &g, i);
  if (!any) return NULL;
  r.earlier_made = ARENA_ARRAY(memory, value_id, count);
  r.copy_made = ARENA_ARRAY(memory, value_id, count);
  for (value_id i = 0; i < count; i++) r.earlier_made[i] = r.copy_made[i] = NO_VALUE;
  recurrence *made = r.to->made = ARENA_NEW(memory, recurrence);
  made->body = body_rewritten(memory, &from->body, read_again, &r);
  set_number_sources(&r, &made->body);
  find_structure(memory, made);
  return r.to;
}
