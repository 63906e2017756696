#include "compiler/recurrence/reference_plan.h"

#include <stdlib.h>

typedef struct allocation {
  struct allocation *next;
  _Alignas(16) unsigned char data[];
} allocation;

void *plan_alloc(plan *p, int64_t count, size_t size) {
  if (p->failed || count < 0 || (uint64_t)count > (SIZE_MAX / 2 - sizeof(allocation)) / size) {
    p->failed = true;
    return NULL;
  }
  allocation *a = calloc(1, sizeof *a + (size_t)count * size);
  if (!a) {
    p->failed = true;
    return NULL;
  }
  a->next = p->memory;
  p->memory = a;
  return a->data;
}

void plan_free(plan *p) {
  for (allocation *a = p->memory; a;) {
    allocation *next = a->next;
    free(a);
    a = next;
  }
  p->memory = NULL;
}

// ---- positions of elements ----------------------------------------------------------------------

typedef struct layout {
  int64_t stride[TYPED_MAX_AXES];  // 0 for axes that are absent
  int64_t offset;
} layout;

static int64_t element_count(plan *p, axis_set axes) {
  int64_t count = 1;
  for (int i = 0; i < p->body->axes.count; i++) {
    if (!axis_in(axes, i)) continue;
    if (__builtin_mul_overflow(count, p->sizes[i], &count) || count > INT32_MAX) {
      p->failed = true;
      return 0;
    }
  }
  return count;
}

static layout header_layout(const plan *p, axis_set axes) {
  layout l = {.offset = 0};
  int64_t stride = 1;
  for (int i = p->body->axes.count - 1; i >= 0; i--) {
    if (!axis_in(axes, i)) continue;
    l.stride[i] = stride;
    stride *= p->sizes[i];
  }
  return l;
}

static layout declared_layout(const plan *p, const typed_tensor *t) {
  layout l = {.offset = 0};
  int64_t stride = 1;
  for (int k = t->axis_count - 1; k >= 0; k--) {
    l.stride[t->axes[k]] = stride;
    stride *= p->sizes[t->axes[k]];
  }
  return l;
}

// For every element of an iteration over `axes` in header order, its position in `l`.
static element_map make_element_map(plan *p, axis_set axes, const layout *l) {
  int dims[TYPED_MAX_AXES], rank = 0;
  int64_t index[TYPED_MAX_AXES] = {0};
  for (int i = 0; i < p->body->axes.count; i++)
    if (axis_in(axes, i)) dims[rank++] = i;
  int64_t count = element_count(p, axes);
  int32_t *map = plan_alloc(p, count, sizeof *map);
  if (!map) return NULL;
  int64_t at = l->offset;
  bool identity = true;
  for (int64_t i = 0; i < count; i++) {
    map[i] = (int32_t)at;
    identity &= at == i;
    for (int k = rank - 1; k >= 0; k--) {  // the next element: the last axis runs fastest
      at += l->stride[dims[k]];
      if (++index[k] < p->sizes[dims[k]]) break;
      at -= l->stride[dims[k]] * index[k];
      index[k] = 0;
    }
  }
  return identity ? NULL : map;
}

static element_map operand_map(plan *p, const typed_value *v, const typed_value *operand) {
  layout l = header_layout(p, operand->axes);
  if (v->op == VALUE_RENAME) {
    l.stride[v->index2] = l.stride[v->index];
    l.stride[v->index] = 0;
  } else if (v->op == VALUE_SLICE) {
    l.offset = l.stride[v->index] * v->steps;
    l.stride[v->index] = 0;
  }
  return make_element_map(p, v->axes, &l);
}

// ---- the plan -----------------------------------------------------------------------------------

static void mark_live(plan *p, value_id id) {
  if (id != NO_VALUE) p->nodes[id].live = true;
}

static void find_live_nodes(plan *p) {
  const typed_body *body = p->body;
  for (int i = 0; i < body->tensors.count; i++) {
    tensor_kind kind = body->tensors.items[i].kind;
    if (kind == TENSOR_STATE || kind == TENSOR_OUTPUT)
      mark_live(p, body->tensors.items[i].assigned);
  }
  for (int i = 0; i < body->lags.count; i++) mark_live(p, body->lags.items[i].source);
  for (int i = body->values.count - 1; i >= 0; i--) {
    const typed_value *v = &body->values.items[i];
    for (int k = 0; k < value_arity(v->op) && p->nodes[i].live; k++) mark_live(p, v->args[k]);
  }
}

static bool is_invariant(const plan *p, const typed_value *v) {
  if (v->op == VALUE_INPUT || v->op == VALUE_PREVIOUS || v->op == VALUE_LAG) return false;
  for (int k = 0; k < value_arity(v->op); k++)
    if (!p->nodes[v->args[k]].invariant) return false;
  return true;
}

static void plan_node(plan *p, node *n, bool backward) {
  const typed_value *v = n->value, *values = p->body->values.items;
  int width = v->complex ? 2 : 1;
  n->count = element_count(p, v->axes);
  n->pairs = v->complex;
  n->numbers = plan_alloc(p, n->count * width, sizeof(double));
  if (backward) n->cotangent = plan_alloc(p, n->count * width, sizeof(double));
  for (int k = 0; k < value_arity(v->op); k++) {
    const typed_value *operand = &values[v->args[k]];
    n->pairs |= operand->complex;
    if (value_op_class(v->op) != CLASS_REDUCE) n->operand[k] = operand_map(p, v, operand);
  }
  if (value_op_class(v->op) == CLASS_REDUCE) {
    layout l = header_layout(p, v->axes);
    n->result = make_element_map(p, values[v->args[0]].axes, &l);
    if (v->op != VALUE_SUM) n->extreme = plan_alloc(p, n->count, sizeof(int32_t));
  }
}

static place plan_place(plan *p, axis_set axes, bool complex, const layout *memory,
                        value_id assigned) {
  place at = {.count = element_count(p, axes), .width = complex ? 2 : 1, .assigned = assigned};
  at.memory = make_element_map(p, axes, memory);
  if (assigned != NO_VALUE) {
    layout assigned_layout = header_layout(p, p->body->values.items[assigned].axes);
    at.source = make_element_map(p, axes, &assigned_layout);
  }
  return at;
}

static carried plan_carried(plan *p, place at, int entries) {
  carried c = {.place = at, .offset = p->carry_size, .entries = entries};
  int64_t size;
  if (__builtin_mul_overflow(at.count * at.width, (int64_t)entries, &size) ||
      __builtin_add_overflow(p->carry_size, size, &p->carry_size)) {
    p->failed = true;
  }
  return c;
}

static void plan_begin(plan *p, const typed_tensor *state, carried *c) {
  c->begin = state->begin;
  if (!c->begin || c->begin->parameter == NO_PARAMETER) return;
  layout parameter = declared_layout(p, &p->body->tensors.items[c->begin->parameter]);
  c->parameter = make_element_map(p, state->axis_set, &parameter);
}

static void plan_tensors(plan *p) {
  const typed_body *body = p->body;
  for (int i = 0; i < body->tensors.count && !p->failed; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    layout memory = declared_layout(p, t);
    place at = plan_place(p, t->axis_set, t->complex, &memory, t->assigned);
    if (t->kind == TENSOR_STATE) {
      p->states[i] = plan_carried(p, at, 1);
      plan_begin(p, t, &p->states[i]);
    } else {
      p->tensors[i] = at;
    }
  }
  for (int i = 0; i < body->lags.count && !p->failed; i++) {
    const typed_lag *lag = &body->lags.items[i];
    layout memory = lag->input >= 0 ? declared_layout(p, &body->tensors.items[lag->input])
                                    : header_layout(p, lag->axes);
    p->lags[i] =
        plan_carried(p, plan_place(p, lag->axes, lag->complex, &memory, lag->source), lag->depth);
  }
}

bool plan_make(plan *p, const typed_body *body, const int64_t *sizes, bool backward) {
  *p = (plan){.body = body, .sizes = sizes};
  p->nodes = plan_alloc(p, body->values.count, sizeof *p->nodes);
  p->tensors = plan_alloc(p, body->tensors.count, sizeof *p->tensors);
  p->states = plan_alloc(p, body->tensors.count, sizeof *p->states);
  p->lags = plan_alloc(p, body->lags.count, sizeof *p->lags);
  if (p->failed) return false;
  find_live_nodes(p);
  for (int i = 0; i < body->values.count && !p->failed; i++) {
    node *n = &p->nodes[i];
    n->value = &body->values.items[i];
    n->invariant = is_invariant(p, n->value);
    if (n->live) plan_node(p, n, backward);
  }
  plan_tensors(p);
  return !p->failed;
}
