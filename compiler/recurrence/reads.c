// What chunk builders ask about a recurrence: affine forms of values, and the sums through which a
// state is read.
#include "compiler/recurrence/structure.h"

bool recurrence_affine(arena *a, recurrence *r, value_id value, value_id leaf,
                       recurrence_affine_form *form) {
  builder b = builder_new(a, &r->body);
  affine_analysis analysis = affine_begin(&b, leaf, "the leaf");
  const affine *split = affine_form(&analysis, value);
  *form =
      (recurrence_affine_form){.factor = split->factor, .rest = split->rest, .limit = split->limit};
  form->limit_reason = split->reason;
  for (int i = 0; i < split->reads.count; i++) {
    const affine_read *read = &split->reads.items[i];
    vec_push(a, &form->contractions,
             ((recurrence_contraction){read->outer, read->over, read->inner}));
  }
  return split->split;
}

// ---- reads of a state ---------------------------------------------------------------------------

typedef struct search {
  arena *memory;
  recurrence *recurrence;
  int state;
  value_id updated;     // the state after the step
  bool *from_previous;  // by value: it is the previous state, or linear in it element by element
  bool *from_updated;   // the same for the state after the step
  bool *reads;          // a sum over one of those
} search;

static bool is_root(const typed_body *body, value_id id, int except_state) {
  for (int i = 0; i < body->tensors.count; i++) {
    if (body->tensors.items[i].assigned == id && i != except_state) return true;
  }
  for (int i = 0; i < body->lags.count; i++) {
    if (body->lags.items[i].source == id) return true;
  }
  return false;
}

// May the elements of operand k pass through v with their places and linearly?
static bool passes(const typed_value *v, int k) {
  switch (v->op) {
    case VALUE_NEG:
    case VALUE_ADD:
    case VALUE_SUB:
    case VALUE_MUL: return true;
    case VALUE_DIV: return k == 0;
    case VALUE_WHERE: return k > 0;
    default: return false;
  }
}

// Follows the state through one value; false if the value uses it in another way than a read.
static bool follow(search *s, value_id id, axis_set state_axes) {
  const typed_value *v = &s->recurrence->body.values.items[id];
  if (v->op == VALUE_PREVIOUS && v->index == s->state) s->from_previous[id] = true;
  for (int k = 0; k < value_arity(v->op); k++) {
    bool previous = s->from_previous[v->args[k]], updated = s->from_updated[v->args[k]];
    if (!previous && !updated) continue;
    if (v->op == VALUE_SUM && (v->over & state_axes)) {
      s->reads[id] = true;
    } else if (passes(v, k)) {
      s->from_previous[id] |= previous;
      s->from_updated[id] |= updated;
    } else {
      return false;
    }
  }
  if (id == s->updated) {
    s->from_previous[id] = false;
    s->from_updated[id] = true;
    return !is_root(&s->recurrence->body, id, s->state);
  }
  return !(s->from_previous[id] || s->from_updated[id]) || !is_root(&s->recurrence->body, id, -1);
}

// Does `id` depend on `leaf` by a way that does not pass through `except`?
static bool depends_on(arena *a, const typed_body *body, value_id id, value_id leaf,
                       value_id except) {
  if (id == NO_VALUE || leaf == NO_VALUE) return false;
  bool *depends = ARENA_ARRAY(a, bool, body->values.count);
  depends[leaf] = leaf != except;
  for (int i = leaf + 1; i <= id; i++) {
    const typed_value *v = &body->values.items[i];
    for (int k = 0; k < value_arity(v->op); k++) depends[i] |= depends[v->args[k]] && i != except;
  }
  return depends[id];
}

static bool describe_read(search *s, value_id id, recurrence_reads *reads) {
  typed_body *body = &s->recurrence->body;
  value_id operand = body->values.items[id].args[0];
  value_id leaf = s->from_updated[operand] ? s->updated : previous_value(body, s->state);
  recurrence_affine_form form;
  if (!recurrence_affine(s->memory, s->recurrence, id, leaf, &form)) return false;
  if (form.factor != NO_VALUE || form.contractions.count != 1) return false;
  recurrence_contraction c = form.contractions.items[0];
  const typed_value *outer = &body->values.items[c.outer];
  if (outer->op != VALUE_NUMBER || outer->number != 1) return false;
  bool clean =
      !depends_on(s->memory, body, form.rest, previous_value(body, s->state), s->updated) &&
      !depends_on(s->memory, body, c.inner, previous_value(body, s->state), s->updated) &&
      !depends_on(s->memory, body, form.rest, s->updated, NO_VALUE) &&
      !depends_on(s->memory, body, c.inner, s->updated, NO_VALUE);
  vec_push(s->memory, reads,
           ((recurrence_read){id, leaf != s->updated, c.over, c.inner, form.rest}));
  return clean;
}

bool recurrence_find_reads(arena *a, recurrence *r, int state, recurrence_reads *reads) {
  int count = r->body.values.count;
  const typed_tensor *tensor = &r->body.tensors.items[state];
  search s = {.memory = a, .recurrence = r, .state = state, .updated = tensor->assigned};
  axis_set state_axes = tensor->axis_set;
  s.from_previous = ARENA_ARRAY(a, bool, count);
  s.from_updated = ARENA_ARRAY(a, bool, count);
  s.reads = ARENA_ARRAY(a, bool, count);
  *reads = (recurrence_reads){0};
  const bool *needed = recurrence_needed(a, r);
  for (int i = 0; i < count; i++) {
    if (needed[i] && !follow(&s, i, state_axes)) return false;
  }
  for (int i = 0; i < count; i++) {
    if (s.reads[i] && !describe_read(&s, i, reads)) {
      *reads = (recurrence_reads){0};
      return false;
    }
  }
  return true;
}
