// A value as a sum of products of factors, opened only as far as the axes of two sets must be told
// apart.
//
//   dt * (k1 + k2) * (v - u) / n        left [K], right [V]:
//     + dt * (k1 + k2), v, /n      - dt * (k1 + k2), u, /n
#include "compiler/recurrence/recurrence.h"

enum { OPENED_MAX = 4096 };  // values that are opened; a value used twice counts twice
enum { TERMS_MAX = 256 };    // a product of sums with more terms than this stays one factor

typedef struct opening {
  arena *memory;
  const typed_body *body;
  axis_set left, right;
  int opened;
} opening;

static recurrence_terms open_value(opening *o, value_id id);

static recurrence_terms single_term(opening *o, double scale, value_id id) {
  recurrence_terms terms = {0};
  recurrence_term term = {.scale = scale};
  if (id != NO_VALUE) vec_push(o->memory, &term.factors, ((recurrence_factor){id, false}));
  vec_push(o->memory, &terms, term);
  return terms;
}

static void append_factors(opening *o, recurrence_term *to, const recurrence_term *from) {
  for (int i = 0; i < from->factors.count; i++)
    vec_push(o->memory, &to->factors, from->factors.items[i]);
}

static void append_terms(opening *o, recurrence_terms *to, const recurrence_terms *from,
                         double scale) {
  for (int i = 0; i < from->count; i++) {
    recurrence_term term = from->items[i];
    term.scale *= scale;
    vec_push(o->memory, to, term);
  }
}

static recurrence_terms terms_product(opening *o, value_id id, const typed_value *v) {
  recurrence_terms x = open_value(o, v->args[0]), y = open_value(o, v->args[1]), terms = {0};
  if (x.count * y.count > TERMS_MAX) return single_term(o, 1, id);
  for (int i = 0; i < x.count; i++) {
    for (int k = 0; k < y.count; k++) {
      recurrence_term term = {.scale = x.items[i].scale * y.items[k].scale};
      append_factors(o, &term, &x.items[i]);
      append_factors(o, &term, &y.items[k]);
      vec_push(o->memory, &terms, term);
    }
  }
  return terms;
}

static recurrence_terms terms_quotient(opening *o, const typed_value *v) {
  recurrence_terms x = open_value(o, v->args[0]), terms = {0};
  for (int i = 0; i < x.count; i++) {
    recurrence_term term = {.scale = x.items[i].scale};
    append_factors(o, &term, &x.items[i]);
    vec_push(o->memory, &term.factors, ((recurrence_factor){v->args[1], true}));
    vec_push(o->memory, &terms, term);
  }
  return terms;
}

static recurrence_terms sum(opening *o, value_id id, const typed_value *v) {
  recurrence_terms terms = {0}, x = open_value(o, v->args[0]), y = open_value(o, v->args[1]);
  if (x.count + y.count > TERMS_MAX) return single_term(o, 1, id);
  append_terms(o, &terms, &x, 1);
  append_terms(o, &terms, &y, v->op == VALUE_SUB ? -1 : 1);
  return terms;
}

static recurrence_terms open_value(opening *o, value_id id) {
  const typed_value *v = &o->body->values.items[id];
  if (v->op == VALUE_NUMBER) return single_term(o, v->number, NO_VALUE);
  if (v->op == VALUE_NEG) {
    recurrence_terms terms = {0}, x = open_value(o, v->args[0]);
    append_terms(o, &terms, &x, -1);
    return terms;
  }
  if (!(v->axes & o->left) || !(v->axes & o->right)) return single_term(o, 1, id);
  if (o->opened++ >= OPENED_MAX) return single_term(o, 1, id);
  switch (v->op) {
    case VALUE_MUL: return terms_product(o, id, v);
    case VALUE_DIV: return terms_quotient(o, v);
    case VALUE_ADD:
    case VALUE_SUB: return sum(o, id, v);
    default: return single_term(o, 1, id);
  }
}

recurrence_terms recurrence_split_terms(arena *a, const typed_body *body, value_id value,
                                        axis_set left, axis_set right) {
  opening o = {a, body, left, right, 0};
  return open_value(&o, value);
}
