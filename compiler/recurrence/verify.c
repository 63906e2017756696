// Checks a recurrence: every position in range, operands before users, axes and element kinds by
// the rows' rules. Assignments must fit their tensors, and the structure must fit the states. What
// this accepts, every later layer can read without looking twice.

#include "compiler/recurrence/text.h"

typedef struct verifier {
  arena *memory;
  const typed_body *body;
} verifier;

#define WRONG(v, ...) arena_printf((v)->memory, __VA_ARGS__)

static bool axis_legal(const typed_body *body, int axis) {
  return axis >= 0 && axis < body->axes.count;
}

static const char *check_body_tensor(const verifier *v, const typed_tensor *tensor) {
  axis_set set = 0;
  for (int i = 0; i < tensor->axis_count; i++) {
    int axis = tensor->axes[i];
    if (!axis_legal(v->body, axis)) return WRONG(v, "'%s' has an axis out of range", tensor->name);
    if (axis_in(set, axis))
      return WRONG(v, "'%s' has the axis '%s' twice", tensor->name, v->body->axes.items[axis].name);
    set |= axis_bit(axis);
  }
  if (set != tensor->axis_set) return WRONG(v, "'%s' has a wrong axis set", tensor->name);
  return NULL;
}

static const char *check_begin(const verifier *v, const typed_tensor *state) {
  int parameter = state->begin->parameter;
  if (parameter == NO_PARAMETER) return NULL;
  const typed_tensor *from = &v->body->tensors.items[parameter];
  if (parameter < 0 || parameter >= v->body->tensors.count || from->kind != TENSOR_PARAM)
    return WRONG(v, "'%s' starts from no parameter", state->name);
  if (from->axis_set & ~state->axis_set || from->complex != state->complex)
    return WRONG(v, "'%s' starts from a parameter of other axes or another kind", state->name);
  return NULL;
}

static const char *check_declarations(const verifier *v) {
  const typed_body *body = v->body;
  if (body->axes.count > TYPED_MAX_AXES) return WRONG(v, "more than %d axes", TYPED_MAX_AXES);
  vec_each(const typed_axis, axis, body->axes) {
    if (axis->size < 0 && axis->size != TYPED_RUNTIME_SIZE)
      return WRONG(v, "axis '%s' has a negative size", axis->name);
    if (axis->least < 0 || (axis->least && axis->size != TYPED_RUNTIME_SIZE))
      return WRONG(v, "axis '%s' has a least size beside its size", axis->name);
  }
  for (int i = 0; i < body->tensors.count; i++) {
    const char *wrong = check_body_tensor(v, &body->tensors.items[i]);
    if (!wrong && body->tensors.items[i].begin) wrong = check_begin(v, &body->tensors.items[i]);
    if (wrong) return wrong;
  }
  vec_each(const typed_lag, lag, body->lags) {
    if (lag->depth < 1) return WRONG(v, "the lag buffer of '%s' has no depth", lag->name);
    if (body->axes.count < 64 && lag->axes >> body->axes.count)
      return WRONG(v, "the lag buffer of '%s' has an axis out of range", lag->name);
    if (lag->input < -1 || lag->input >= body->tensors.count ||
        (lag->input >= 0 && body->tensors.items[lag->input].kind != TENSOR_INPUT)) {
      return WRONG(v, "the lag buffer of '%s' is of no input", lag->name);
    }
  }
  return NULL;
}

static const char *check_recurrence_leaf(const verifier *v, int id, const typed_value *x) {
  const typed_body *body = v->body;
  static const tensor_kind wanted[] = {
      [VALUE_INPUT] = TENSOR_INPUT, [VALUE_PARAM] = TENSOR_PARAM, [VALUE_PREVIOUS] = TENSOR_STATE};
  switch (x->op) {
    case VALUE_AXIS_SIZE:
    case VALUE_INDEX:
      if (!axis_legal(body, x->index)) return WRONG(v, "%%%d: axis out of range", id);
      break;
    case VALUE_INPUT:
    case VALUE_PARAM:
    case VALUE_PREVIOUS:
      if (x->index < 0 || x->index >= body->tensors.count ||
          body->tensors.items[x->index].kind != wanted[x->op]) {
        return WRONG(v, "%%%d: %s reads no such tensor", id, value_op_text(x->op));
      }
      break;
    case VALUE_LAG:
      if (x->index < 0 || x->index >= body->lags.count)
        return WRONG(v, "%%%d: lag buffer out of range", id);
      if (x->steps < 1 || x->steps > body->lags.items[x->index].depth)
        return WRONG(v, "%%%d: %d steps back in a lag buffer of depth %d", id, x->steps,
                     body->lags.items[x->index].depth);
      break;
    default: break;
  }
  return NULL;
}

static const char *check_axis_operation(const verifier *v, int id, const typed_value *x) {
  const typed_body *body = v->body;
  axis_set axes = body->values.items[x->args[0]].axes;
  if (value_op_class(x->op) == CLASS_REDUCE) {
    if (x->over == 0 || (x->over & ~axes))
      return WRONG(v, "%%%d: %s over an axis that the operand lacks", id, value_op_text(x->op));
    return NULL;
  }
  if (!axis_legal(body, x->index) || !axis_in(axes, x->index))
    return WRONG(v, "%%%d: %s of an axis that the operand lacks", id, value_op_text(x->op));
  int64_t size = body->axes.items[x->index].size;
  if (x->op == VALUE_SLICE && (x->steps < 0 || (size != TYPED_RUNTIME_SIZE && x->steps >= size)))
    return WRONG(v, "%%%d: entry %d of the axis '%s'", id, x->steps,
                 body->axes.items[x->index].name);
  if (x->op == VALUE_RENAME) {
    if (!axis_legal(body, x->index2) || axis_in(axes, x->index2))
      return WRONG(v, "%%%d: rename to an axis that is present", id);
    if (size != body->axes.items[x->index2].size)
      return WRONG(v, "%%%d: rename between axes of different sizes", id);
  }
  return NULL;
}

static const char *check_kinds(const verifier *v, int id, const typed_value *x) {
  const typed_value *values = v->body->values.items;
  int arity = value_arity(x->op);
  for (int k = 0; k < arity; k++) {
    bool complex = values[x->args[k]].complex;
    bool legal = true;
    switch (value_op_class(x->op)) {
      case CLASS_REAL:
      case CLASS_COMPARE:
      case CLASS_TO_COMPLEX: legal = !complex; break;
      case CLASS_TO_REAL:
        legal = true;  // a real operand promotes
        break;
      default:
        legal = !complex || ((x->op != VALUE_WHERE || k > 0) && x->op != VALUE_MAX_OVER &&
                             x->op != VALUE_MIN_OVER);
        break;
    }
    if (!legal) return WRONG(v, "%%%d: %s of a complex operand", id, value_op_text(x->op));
  }
  return NULL;
}

static const char *check_typed_value(const verifier *v, int id) {
  const typed_value *x = &v->body->values.items[id];
  if ((int)x->op < 0 || x->op >= VALUE_OP_COUNT) return WRONG(v, "%%%d: no such operation", id);
  for (int k = 0; k < 3; k++) {
    if (k >= value_arity(x->op)) {
      if (x->args[k] != NO_VALUE) return WRONG(v, "%%%d: too many operands", id);
    } else if (x->args[k] < 0 || x->args[k] >= id) {
      return WRONG(v, "%%%d: operand %%%d does not stand before it", id, (int)x->args[k]);
    }
  }
  value_class class = value_op_class(x->op);
  const char *wrong = class == CLASS_LEAF ? check_recurrence_leaf(v, id, x)
                      : class == CLASS_REDUCE || class == CLASS_AXIS
                          ? check_axis_operation(v, id, x)
                          : NULL;
  if (!wrong) wrong = check_kinds(v, id, x);
  if (wrong) return wrong;
  typed_value ruled = *x;
  value_set_shape(v->body, &ruled);
  if (ruled.axes != x->axes) return WRONG(v, "%%%d: the axes are not those of the operands", id);
  if (ruled.complex != x->complex)
    return WRONG(v, "%%%d: the element kind is not that of the operands", id);
  return NULL;
}

static const char *check_assigned_value(const verifier *v, const char *name, value_id id,
                                        axis_set axes, bool complex) {
  if (id < 0 || id >= v->body->values.count) return WRONG(v, "'%s' is not assigned", name);
  const typed_value *x = &v->body->values.items[id];
  if (x->axes & ~axes) return WRONG(v, "'%s' is assigned a value with an axis that it lacks", name);
  if (x->complex && !complex) return WRONG(v, "'%s' is real and is assigned a complex value", name);
  return NULL;
}

static const char *check_assignments(const verifier *v) {
  const typed_body *body = v->body;
  vec_each(const typed_tensor, t, body->tensors) {
    if (t->kind != TENSOR_STATE && t->kind != TENSOR_OUTPUT) continue;
    const char *wrong = check_assigned_value(v, t->name, t->assigned, t->axis_set, t->complex);
    if (wrong) return wrong;
  }
  vec_each(const typed_lag, lag, body->lags) {
    const char *wrong = check_assigned_value(v, lag->name, lag->source, lag->axes, lag->complex);
    if (wrong) return wrong;
  }
  return NULL;
}

static const char *check_part(const verifier *v, const typed_tensor *state, const char *part,
                              value_id id) {
  if (id == NO_VALUE) return NULL;
  if (id < 0 || id >= v->body->values.count)
    return WRONG(v, "the %s of '%s' is out of range", part, state->name);
  const typed_value *x = &v->body->values.items[id];
  if (x->axes & ~state->axis_set)
    return WRONG(v, "the %s of '%s' has an axis that the state lacks", part, state->name);
  if (x->complex && !state->complex)
    return WRONG(v, "the %s of '%s' is complex", part, state->name);
  return NULL;
}

static const char *check_structure(const verifier *v, const recurrence *r,
                                   const typed_tensor *state, const state_structure *s) {
  if ((int)s->class < 0 || s->class >= STATE_CLASSES)
    return WRONG(v, "'%s' has no class", state->name);
  if (s->stratum < 0 || s->stratum >= r->stratum_count)
    return WRONG(v, "'%s' lies in no stratum", state->name);
  if ((s->key_axes | s->value_axes) & ~state->axis_set)
    return WRONG(v, "'%s' has key or value axes that it lacks", state->name);
  if (s->key_axes & s->value_axes)
    return WRONG(v, "'%s' has an axis that is key and value", state->name);
  if (s->limit != NO_VALUE && (s->limit < 0 || s->limit >= v->body->values.count))
    return WRONG(v, "the limit of '%s' is out of range", state->name);
  const char *wrong = check_part(v, state, "decay", s->decay);
  if (!wrong) wrong = check_part(v, state, "logarithm of the decay", s->log_decay);
  if (!wrong) wrong = check_part(v, state, "increment", s->increment);
  return wrong;
}

const char *verify_body(arena *a, const typed_body *body) {
  verifier v = {a, body};
  const char *wrong = check_declarations(&v);
  for (int i = 0; i < body->values.count && !wrong; i++) wrong = check_typed_value(&v, i);
  return wrong ? wrong : check_assignments(&v);
}

const char *recurrence_verify(arena *a, const recurrence *r) {
  verifier v = {a, &r->body};
  const char *wrong = verify_body(a, &r->body);
  int state = 0;
  for (int i = 0; i < r->body.tensors.count && !wrong; i++) {
    if (r->body.tensors.items[i].kind != TENSOR_STATE) continue;
    if (state == r->states.count) return arena_strdup(a, "a state has no structure");
    wrong = check_structure(&v, r, &r->body.tensors.items[i], &r->states.items[state++]);
  }
  if (!wrong && state != r->states.count) return arena_strdup(a, "more structures than states");
  return wrong;
}
