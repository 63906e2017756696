// The trunk: one body for a whole model.
//
//   Mamba2, layer 0:  %3 = silu %1          trunk:  %17 = silu %12
//   Mamba2, layer 1:  %3 = silu %1                  %41 = silu %36
//
// Axes of different layers are the same axis of the trunk if name and size are equal. Sizes become
// numbers here.
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/graph/build.h"

int trunk_axis(graph_builder *b, const char *name, int64_t size) {
  for (int i = 0; i < b->trunk->axes.count; i++)
    if (b->trunk->axes.items[i].name == name && b->trunk->axes.items[i].size == size) return i;
  if (b->trunk->axes.count == TYPED_MAX_AXES) {
    diag_error(b->diag, b->trunk->span,
               "expected at most %d different axes in a model, found more at '%s'", TYPED_MAX_AXES,
               name);
    return 0;
  }
  vec_push(b->arena, &b->trunk->axes, (typed_axis){.name = name, .size = size});
  return b->trunk->axes.count - 1;
}

static int lift_axis(instance *in, int axis) {
  const typed_axis *a = &in->body->axes.items[axis];
  return trunk_axis(in->b, a->name, a->size);
}

static axis_set lift_set(instance *in, axis_set set) {
  axis_set lifted = 0;
  for (int i = 0; i < in->body->axes.count; i++)
    if (axis_in(set, i)) lifted |= axis_bit(lift_axis(in, i));
  return lifted;
}

axis_order trunk_order(instance *in, axis_order order) {
  for (int i = 0; i < order.count; i++) order.axes[i] = lift_axis(in, order.axes[i]);
  return order;
}

axis_order order_of_set(axis_set set) {
  axis_order order = {0};
  for (int i = 0; i < TYPED_MAX_AXES; i++)
    if (axis_in(set, i)) order.axes[order.count++] = i;
  return order;
}

axis_order order_of_tensor(const typed_tensor *tensor) {
  axis_order order = {.count = tensor->axis_count};
  memcpy(order.axes, tensor->axes, sizeof(int) * (size_t)tensor->axis_count);
  return order;
}

axis_set order_set(axis_order order) {
  axis_set set = 0;
  for (int i = 0; i < order.count; i++) set |= axis_bit(order.axes[i]);
  return set;
}

int64_t order_elements(const typed_body *body, axis_order order) {
  const int64_t most = (int64_t)1 << 48;  // more is refused where memory is planned
  int64_t elements = 1;
  for (int i = 0; i < order.count; i++)
    if (__builtin_mul_overflow(elements, body->axes.items[order.axes[i]].size, &elements) ||
        elements > most)
      elements = most;
  return elements;
}

const char *order_text(arena *memory, const typed_body *body, axis_order order) {
  return arena_printf(memory, "[%s]", body_order_text(memory, body, order.axes, order.count));
}

const char *set_text(arena *memory, const typed_body *body, axis_set set) {
  return order_text(memory, body, order_of_set(set));
}

// ---- values ----------------------------------------------------------------------------------

static value_id append_trunk_value(graph_builder *b, typed_value value) {
  return body_append(b->arena, b->trunk, value);
}

value_id tensor_value(arena *a, typed_body *body, int tensor) {
  const typed_tensor *t = &body->tensors.items[tensor];
  return body_append(a, body,
                     (typed_value){.op = t->kind == TENSOR_PARAM ? VALUE_PARAM : VALUE_INPUT,
                                   .index = tensor,
                                   .name = t->name,
                                   .span = t->span});
}

value_id trunk_input_value(graph_builder *b, int tensor) {
  return tensor_value(b->arena, b->trunk, tensor);
}

static int *copy_axes(arena *memory, axis_order order) {
  int *axes = ARENA_ARRAY(memory, int, order.count ? order.count : 1);
  for (int i = 0; i < order.count; i++) axes[i] = order.axes[i];
  return axes;
}

static int add_body_tensor(graph_builder *b, typed_body *body, tensor_kind kind, const char *name,
                           axis_order order, bool complex) {
  vec_push(b->arena, &body->tensors,
           (typed_tensor){.kind = kind,
                          .name = name,
                          .axis_count = order.count,
                          .axes = copy_axes(b->arena, order),
                          .axis_set = order_set(order),
                          .complex = complex,
                          .assigned = NO_VALUE});
  return body->tensors.count - 1;
}

int trunk_add_input(graph_builder *b, const char *name, axis_order trunk_axes, bool complex, int op,
                    int output) {
  vec_push(b->arena, &b->tensors, (trunk_tensor){.op = op, .output = output, .use = {NONE, 0}});
  return add_body_tensor(b, b->trunk, TENSOR_INPUT, name, trunk_axes, complex);
}

void set_tensor_value(instance *in, value_id trunk_value) {
  while (in->tensor_value.count < in->body->tensors.count)
    vec_push(in->b->arena, &in->tensor_value, NO_VALUE);
  in->tensor_value.items[in->body->tensors.count - 1] = trunk_value;
}

static value_id instance_tensor(instance *in, tensor_kind kind, const char *name, axis_order order,
                                bool complex, value_id trunk_value) {
  int tensor = add_body_tensor(in->b, in->body, kind, name, order, complex);
  set_tensor_value(in, trunk_value);
  return tensor_value(in->b->arena, in->body, tensor);
}

value_id instance_add_input(instance *in, const char *name, axis_order order, bool complex,
                            value_id trunk_value) {
  return instance_tensor(in, TENSOR_INPUT, name, order, complex, trunk_value);
}

value_id trunk_add_param(instance *in, const char *name, axis_order order, bool complex,
                         graph_use use) {
  graph_builder *b = in->b;
  int tensor = add_body_tensor(b, b->trunk, TENSOR_PARAM, name, trunk_order(in, order), complex);
  vec_push(b->arena, &b->tensors, (trunk_tensor){.op = NONE, .output = NONE, .use = use});
  return trunk_input_value(b, tensor);
}

value_id instance_add_param(instance *in, const char *name, axis_order order, graph_use use) {
  return instance_tensor(in, TENSOR_PARAM, name, order, false,
                         trunk_add_param(in, name, order, false, use));
}

void instance_note_lags(instance *in) {
  while (in->lag_places.count < in->body->lags.count)
    vec_push(in->b->arena, &in->lag_places, (lag_place){in->prefix, in->repeat_index});
}

static int lift_lag(instance *in, int lag) {
  graph_builder *b = in->b;
  while (in->lag_map.count <= lag) vec_push(b->arena, &in->lag_map, NONE);
  if (in->lag_map.items[lag] != NONE) return in->lag_map.items[lag];
  typed_lag own = in->body->lags.items[lag];
  value_id from = trunk_lift(in, own.source);
  in->lag_map.items[lag] = b->trunk->lags.count;
  vec_push(b->arena, &b->trunk->lags,
           (typed_lag){.name = own.name,
                       .input = NONE,
                       .source = from,
                       .depth = own.depth,
                       .axes = lift_set(in, own.axes),
                       .complex = own.complex});
  lag_place place = lag < in->lag_places.count ? in->lag_places.items[lag]
                                               : (lag_place){in->prefix, in->repeat_index};
  vec_push(
      b->arena, &b->lags,
      (trunk_lag){arena_printf(b->arena, "%s%s.lag", place.prefix, own.name), place.repeat_index});
  return b->trunk->lags.count - 1;
}

value_id trunk_lift(instance *in, value_id value) {
  graph_builder *b = in->b;
  while (in->lifted.count <= value) vec_push(b->arena, &in->lifted, NO_VALUE);
  if (in->lifted.items[value] != NO_VALUE) return in->lifted.items[value];
  typed_value v = in->body->values.items[value];
  typed_value lifted = v;
  lifted.axes = lift_set(in, v.axes);
  lifted.over = lift_set(in, v.over);
  for (int i = 0; i < value_arity(v.op); i++) lifted.args[i] = trunk_lift(in, v.args[i]);
  value_id result;
  switch (v.op) {
    case VALUE_INPUT:
    case VALUE_PARAM:
      result = v.index < in->tensor_value.count ? in->tensor_value.items[v.index] : NO_VALUE;
      if (result == NO_VALUE)
        ICE("graph", "tensor '%s' of '%s' is bound to nothing", v.name, in->body->name);
      break;
    case VALUE_AXIS_SIZE:
      lifted.op = VALUE_NUMBER;
      lifted.number = (double)in->body->axes.items[v.index].size;
      result = append_trunk_value(b, lifted);
      break;
    case VALUE_INDEX:
    case VALUE_SLICE:
      lifted.index = lift_axis(in, v.index);
      result = append_trunk_value(b, lifted);
      break;
    case VALUE_RENAME:
      lifted.index = lift_axis(in, v.index);
      lifted.index2 = lift_axis(in, v.index2);
      result = append_trunk_value(b, lifted);
      break;
    case VALUE_LAG:
      lifted.index = lift_lag(in, v.index);
      result = append_trunk_value(b, lifted);
      break;
    default: result = append_trunk_value(b, lifted);
  }
  in->lifted.items[value] = result;
  return result;
}

const char *header_text(arena *memory, const ast_header *header) {
  const char *text = "";
  for (int i = 0; i < header->count; i++)
    text = arena_printf(memory, "%s%s%s", text, i ? ", " : "", header->items[i].name.text);
  return *text ? text : "none";
}
