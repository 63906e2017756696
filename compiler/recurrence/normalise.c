// Normalisation: the body built again from its first value to its last through the simplifying
// constructor.
//
//   %2 [H] = sigmoid %1  "g"           %2 [H] = log_sigmoid %1
//   %3 = number 0.0625                 %3 = number 0.0625
//   %4 [H] = pow %2 %3  "a"            %4 [H] = mul %3 %2
//   %5 = number 1                      %5 [H] = exp %4  "a"
//   %6 [H] = sub %5 %4                 %6 [H] = expm1 %4
//                                      %7 [H] = neg %6
#include "compiler/recurrence/normalise.h"

#include <string.h>

#include "compiler/recurrence/make.h"

typed_body body_declared(arena *memory, const typed_body *from) {
  typed_body body = *from;
  vec_keep(memory, &body.tensors);
  vec_keep(memory, &body.lags);
  memset(&body.values, 0, sizeof body.values);
  return body;
}

typed_body body_copy(arena *memory, const typed_body *from) {
  typed_body copy = *from;
  vec_keep(memory, &copy.values);
  vec_keep(memory, &copy.tensors);
  return copy;
}

static value_id renumbered(const value_id *map, value_id id) {
  return id == NO_VALUE ? NO_VALUE : map[id];
}

static void keep_name(typed_value *made, const char *name) {
  if (!made->name && value_arity(made->op) > 0) made->name = name;
}

typed_body body_rewritten(arena *memory, const typed_body *body, rewrite_function *rewrite,
                          void *context) {
  typed_body result = body_declared(memory, body);
  builder b = builder_new(memory, &result);
  value_id *map = ARENA_ARRAY(memory, value_id, body->values.count);
  for (int i = 0; i < result.tensors.count; i++) result.tensors.items[i].assigned = NO_VALUE;
  for (int i = 0; i < body->values.count; i++) {
    typed_value v = body->values.items[i];
    b.span = v.span;
    for (int k = 0; k < value_arity(v.op); k++) v.args[k] = map[v.args[k]];
    map[i] = rewrite ? rewrite(&b, map, i, context) : NO_VALUE;
    if (map[i] == NO_VALUE) map[i] = make_value(&b, v);
    keep_name(&result.values.items[map[i]], v.name);
    for (int k = 0; k < result.tensors.count; k++)
      if (body->tensors.items[k].assigned == i) result.tensors.items[k].assigned = map[i];
  }
  for (int i = 0; i < result.lags.count; i++)
    result.lags.items[i].source = renumbered(map, result.lags.items[i].source);
  return result;
}

typed_body normalise_body(arena *memory, const typed_body *body) {
  return body_rewritten(memory, body, NULL, NULL);
}

// ---- dead values --------------------------------------------------------------------------------

// Calls `visit` for every reference from outside the list of values.
typedef void root_function(value_id *id, void *context);

static void for_all_roots(recurrence *r, root_function *visit, void *context) {
  for (int i = 0; i < r->body.tensors.count; i++)
    visit(&r->body.tensors.items[i].assigned, context);
  for (int i = 0; i < r->body.lags.count; i++) visit(&r->body.lags.items[i].source, context);
  vec_each(state_structure, s, r->states) {
    visit(&s->decay, context);
    visit(&s->log_decay, context);
    visit(&s->increment, context);
    visit(&s->limit, context);
  }
}

static void mark_root(value_id *id, void *context) {
  bool *live = context;
  if (*id >= 0) live[*id] = true;
}

static void renumber_root(value_id *id, void *context) {
  const value_id *map = context;
  *id = renumbered(map, *id);
}

void remove_dead_values(arena *memory, recurrence *r) {
  int count = r->body.values.count, kept = 0;
  typed_value *values = r->body.values.items;
  bool *live = ARENA_ARRAY(memory, bool, count);
  value_id *map = ARENA_ARRAY(memory, value_id, count);
  for_all_roots(r, mark_root, live);
  for (int i = count - 1; i >= 0; i--)
    for (int k = 0; k < value_arity(values[i].op) && live[i]; k++) live[values[i].args[k]] = true;
  for (int i = 0; i < count; i++) {
    if (!live[i]) continue;
    typed_value v = values[i];
    for (int k = 0; k < value_arity(v.op); k++) v.args[k] = map[v.args[k]];
    map[i] = kept;
    values[kept++] = v;
  }
  r->body.values.count = kept;
  for_all_roots(r, renumber_root, map);
}

bool *recurrence_needed(arena *a, const recurrence *r) {
  bool *needed = ARENA_ARRAY(a, bool, r->body.values.count);
  for (int i = 0; i < r->body.tensors.count; i++)
    if (r->body.tensors.items[i].assigned >= 0) needed[r->body.tensors.items[i].assigned] = true;
  for (int i = 0; i < r->body.lags.count; i++) needed[r->body.lags.items[i].source] = true;
  for (int i = r->body.values.count - 1; i >= 0; i--) {
    const typed_value *v = &r->body.values.items[i];
    for (int k = 0; k < value_arity(v->op) && needed[i]; k++) needed[v->args[k]] = true;
  }
  return needed;
}
