// A body as equations: one for each let, state and output, and for what is used again and again.
//
//   %2 [D] = add %0 %1                          keep[t,D] = sigmoid(z[t] + bias)
//   %3 [D] = sigmoid %2  "keep"        ->       h[t,D] = keep[t] * h[t-1] + (1 - keep[t]) * x[t]
//   ..                                          y[t,D] = h[t]
#include <string.h>

#include "compiler/equations/formula.h"

enum { LONGEST = 24, SHORTEST = 3 };  // symbols of an equation; of what is worth a name of its own

typedef struct body_writer {
  arena *a;
  const typed_body *body;
  const char **names;  // of values that have equations; NULL: written where they are used
  bool *varies;        // from step to step
  int *uses;
  const formula **formulas;
  const char *letter;  // of names made here
  int made;
} body_writer;

static const formula *leaf(const body_writer *w, const typed_value *v) {
  const typed_body *body = w->body;
  switch (v->op) {
    case VALUE_NUMBER: return formula_number(w->a, v->number);
    case VALUE_AXIS_SIZE: return formula_symbol(w->a, body->axes.items[v->index].name, NULL);
    case VALUE_INDEX: return formula_symbol(w->a, "index", body->axes.items[v->index].name);
    case VALUE_INPUT: return formula_symbol(w->a, body->tensors.items[v->index].name, "t");
    case VALUE_PARAM: return formula_symbol(w->a, body->tensors.items[v->index].name, NULL);
    case VALUE_PREVIOUS: return formula_symbol(w->a, body->tensors.items[v->index].name, "t-1");
    default:
      return formula_symbol(w->a, body->lags.items[v->index].name,
                            arena_printf(w->a, "t-%d", v->steps));
  }
}

// The value by its operation, operands as they stand.
static const formula *by_operation(const body_writer *w, const typed_value *v,
                                   const formula *const *x) {
  const char *text = value_op_text(v->op);
  const typed_axis *axes = w->body->axes.items;
  switch (v->op) {
    case VALUE_WHOLE_POWER:
      return formula_binary(w->a, FORMULA_POWER, x[0], formula_number(w->a, v->index));
    case VALUE_COMPLEX_ABS: return formula_call(w->a, "abs", x, 1);
    case VALUE_SUM: return formula_over(w->a, "sum", body_axes_text(w->a, w->body, v->over), x[0]);
    case VALUE_MAX_OVER:
    case VALUE_MIN_OVER:
      return formula_over(w->a, v->op == VALUE_MAX_OVER ? "max" : "min",
                          body_axes_text(w->a, w->body, v->over), x[0]);
    case VALUE_RENAME:
      text = arena_printf(w->a, "{%s -> %s}", axes[v->index].name, axes[v->index2].name);
      return formula_changed(w->a, text, x[0]);
    case VALUE_SLICE:
      return formula_changed(w->a, arena_printf(w->a, "[%s = %d]", axes[v->index].name, v->steps),
                             x[0]);
    default: return formula_operation(w->a, text, x, value_arity(v->op));
  }
}

// What stands for the value where it is used.
static const formula *reference(const body_writer *w, value_id id) {
  if (!w->names[id]) return w->formulas[id];
  return formula_symbol(w->a, w->names[id], w->varies[id] ? "t" : NULL);
}

static bool name_is_taken(const body_writer *w, const char *name) {
  const typed_body *body = w->body;
  for (int i = 0; i < body->axes.count; i++)
    if (strcmp(body->axes.items[i].name, name) == 0) return true;
  for (int i = 0; i < body->tensors.count; i++)
    if (strcmp(body->tensors.items[i].name, name) == 0) return true;
  for (int i = 0; i < body->values.count; i++)
    if (body->values.items[i].name && strcmp(body->values.items[i].name, name) == 0) return true;
  return false;
}

static const char *new_name(body_writer *w) {
  const char *name;
  do name = arena_printf(w->a, "%s%d", w->letter, ++w->made);
  while (name_is_taken(w, name));
  return name;
}

static bool is_first_of_name(const body_writer *w, value_id id, const char *name) {
  for (int i = 0; i < id; i++)
    if (w->names[i] && strcmp(w->names[i], name) == 0) return false;
  return true;
}

static const char *choose_name(body_writer *w, value_id id) {
  const typed_value *v = &w->body->values.items[id];
  int weight = w->formulas[id]->weight;
  if (value_arity(v->op) == 0) return NULL;
  if (v->name && is_first_of_name(w, id, v->name)) return v->name;
  if ((w->uses[id] > 1 && weight > SHORTEST) || weight > LONGEST) return new_name(w);
  return NULL;
}

static void make_formula(body_writer *w, value_id id) {
  const typed_value *v = &w->body->values.items[id];
  const formula *x[3];
  bool leaf_varies = v->op == VALUE_INPUT || v->op == VALUE_PREVIOUS || v->op == VALUE_LAG;
  w->varies[id] = leaf_varies;
  for (int k = 0; k < value_arity(v->op); k++) {
    x[k] = reference(w, v->args[k]);
    w->varies[id] |= w->varies[v->args[k]];
  }
  w->formulas[id] = value_arity(v->op) ? by_operation(w, v, x) : leaf(w, v);
}

static void count_value_uses(body_writer *w) {
  const typed_body *body = w->body;
  vec_each(const typed_value, v, body->values) {
    for (int k = 0; k < value_arity(v->op); k++) w->uses[v->args[k]]++;
  }
}

static body_writer writer_for(arena *a, const typed_body *body, const char *letter) {
  int count = body->values.count;
  body_writer w = {.a = a, .body = body, .letter = letter};
  w.names = ARENA_ARRAY(a, const char *, count);
  w.varies = ARENA_ARRAY(a, bool, count);
  w.uses = ARENA_ARRAY(a, int, count);
  w.formulas = ARENA_ARRAY(a, const formula *, count);
  count_value_uses(&w);
  for (value_id id = 0; id < count; id++) {
    make_formula(&w, id);
    w.names[id] = choose_name(&w, id);
  }
  return w;
}

static bool *needed_values(arena *a, const typed_body *body) {
  recurrence r = {.body = *body};
  return recurrence_needed(a, &r);
}

static equation own_equation(const body_writer *w, value_id id) {
  axis_set axes = w->body->values.items[id].axes;
  return (equation){formula_left(w->a, w->names[id], w->varies[id] ? "t" : NULL,
                                 body_axes_text(w->a, w->body, axes)),
                    w->formulas[id]};
}

equation_list equations_of_body(arena *a, const typed_body *body) {
  body_writer w = writer_for(a, body, "u");
  const bool *needed = needed_values(a, body);
  equation_list list = {0};
  for (value_id id = 0; id < body->values.count; id++)
    if (w.names[id] && needed[id]) vec_push(a, &list, own_equation(&w, id));
  vec_each(const typed_tensor, t, body->tensors) {
    if (t->assigned == NO_VALUE) continue;
    if (w.names[t->assigned] && strcmp(w.names[t->assigned], t->name) == 0) continue;
    const formula *left =
        formula_left(a, t->name, "t", body_order_text(a, body, t->axes, t->axis_count));
    vec_push(a, &list, ((equation){left, reference(&w, t->assigned)}));
  }
  return list;
}

// Values with names made here on which `id` depends, through values without names.
static void mark_made(const body_writer *w, value_id id, bool *made) {
  const typed_value *v = &w->body->values.items[id];
  for (int k = 0; k < value_arity(v->op); k++) {
    value_id x = v->args[k];
    bool told = w->names[x] && w->body->values.items[x].name == w->names[x];
    if (told || made[x]) continue;
    made[x] = w->names[x] != NULL;
    mark_made(w, x, made);
  }
}

equation_list equations_of_parts(arena *a, const typed_body *body, const equation_part *parts,
                                 int count) {
  body_writer w = writer_for(a, body, "r");
  equation_list list = {0};
  bool *made = ARENA_ARRAY(a, bool, body->values.count);
  for (int i = 0; i < count; i++) mark_made(&w, parts[i].value, made);
  for (value_id id = 0; id < body->values.count; id++)
    if (made[id]) vec_push(a, &list, own_equation(&w, id));
  for (int i = 0; i < count; i++) {
    value_id id = parts[i].value;
    const formula *left = formula_left(a, parts[i].name, w.varies[id] ? "t" : NULL,
                                       body_axes_text(a, body, body->values.items[id].axes));
    vec_push(a, &list, ((equation){left, w.formulas[id]}));
  }
  return list;
}
