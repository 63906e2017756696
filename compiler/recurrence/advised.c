// The recurrence as its advices say to write it, for a trial.
//
//   let u = k * v    .. + u[t-1]    ->    .. + k[t-1] * v[t-1]
//   let P = b * S    .. P[t-1]      ->    .. b[t-1] * S[t-1]
//   y = S[K = 3]                    ->    y = sum[K](S * (index[K] == 3))
//   (k + v)^2                       ->    k^2 + 2 * k * v + v^2
#include "compiler/recurrence/normalise.h"
#include "compiler/recurrence/structure.h"
#include "compiler/sema/sema.h"

typedef struct trial {
  const typed_body *from;
  const recurrence_advices *advices;
  builder *b;
} trial;

static const typed_value *trial_value(const trial *t, value_id id) {
  return &t->from->values.items[id];
}

// ---- lags of factors ----------------------------------------------------------------------------

// The lag buffer of a value of the old body. Until the new body is made, sources are old values.
static int trial_lag(trial *t, value_id id) {
  const typed_value *v = trial_value(t, id);
  typed_body *body = t->b->body;
  int input = v->op == VALUE_INPUT ? v->index : -1;
  for (int i = 0; i < body->lags.count; i++) {
    const typed_lag *lag = &body->lags.items[i];
    if (lag->input == input && (input >= 0 || lag->source == id)) return i;
  }
  typed_lag lag = {.name = input >= 0 ? body->tensors.items[input].name : v->name,
                   .input = input,
                   .source = id,
                   .axes = v->axes,
                   .complex = v->complex};
  if (!lag.name) lag.name = arena_printf(t->b->memory, "factor%d", body->lags.count);
  vec_push(t->b->memory, &body->lags, lag);
  return body->lags.count - 1;
}

static value_id make_lag(trial *t, int lag, int steps) {
  typed_lag *of = &t->b->body->lags.items[lag];
  if (of->depth < steps) of->depth = steps;
  return make_value(t->b, (typed_value){.op = VALUE_LAG, .index = lag, .steps = steps});
}

static value_id lagged(trial *t, value_id id, int steps) {
  typed_value v = *trial_value(t, id);
  int state = state_assigned(t->from, id);
  if (state >= 0 && steps == 1)
    return make_value(t->b, (typed_value){.op = VALUE_PREVIOUS, .index = state});
  switch (v.op) {
    case VALUE_NUMBER:
    case VALUE_AXIS_SIZE:
    case VALUE_INDEX:
    case VALUE_PARAM: return make_value(t->b, v);
    case VALUE_NEG:
    case VALUE_ADD:
    case VALUE_SUB:
    case VALUE_MUL:
    case VALUE_SUM:
      for (int k = 0; k < value_arity(v.op); k++) v.args[k] = lagged(t, v.args[k], steps);
      return make_value(t->b, v);
    case VALUE_LAG: return make_lag(t, v.index, v.steps + steps);
    default: return make_lag(t, trial_lag(t, id), steps);
  }
}

// ---- reads and writes ---------------------------------------------------------------------------

static value_id sum_of_entry(trial *t, value_id x, int axis, int entry) {
  value_id index = make_value(t->b, (typed_value){.op = VALUE_INDEX, .index = axis});
  value_id here = make_binary(t->b, VALUE_EQUAL, index, make_number(t->b, entry));
  return make_sum(t->b, make_binary(t->b, VALUE_MUL, x, here), axis_bit(axis));
}

static value_id square(trial *t, value_id x) {
  return make_value(t->b, (typed_value){.op = VALUE_WHOLE_POWER, .args = {x}, .index = 2});
}

static value_id square_of_sum(trial *t, value_id x, value_id y, value_op op) {
  value_id twice =
      make_binary(t->b, VALUE_MUL, make_number(t->b, 2), make_binary(t->b, VALUE_MUL, x, y));
  value_id first = make_binary(t->b, op, square(t, x), twice);
  return make_binary(t->b, VALUE_ADD, first, square(t, y));
}

// ---- all of it ----------------------------------------------------------------------------------

static value_id as_advised(builder *b, const value_id *map, value_id old, void *context) {
  trial *t = context;
  const typed_value *v = trial_value(t, old);
  t->b = b;
  for (int i = 0; i < t->advices->count; i++) {
    if (t->advices->items[i].value != old) continue;
    if (v->op == VALUE_LAG) return lagged(t, t->from->lags.items[v->index].source, v->steps);
    if (v->op == VALUE_SLICE) return sum_of_entry(t, map[v->args[0]], v->index, v->steps);
    const typed_value *sum = trial_value(t, v->args[0]);
    return square_of_sum(t, map[sum->args[0]], map[sum->args[1]], sum->op);
  }
  return NO_VALUE;
}

recurrence *recurrence_advised(arena *memory, const recurrence *r,
                               const recurrence_advices *advices) {
  trial t = {.from = &r->body, .advices = advices};
  typed_body body = body_rewritten(memory, &r->body, as_advised, &t);
  body_prune(memory, &body);
  return recurrence_analyse(memory, &body);
}
