// Joins axes that always occur together: the recurrence of a region has one axis where its tensors
// have several side by side.
//
//   input x[H,P]  let a = x * x  output y[H,P]     ->   input x[HP]  let a = x * x  output y[HP]
#include <string.h>

#include "compiler/graph/build.h"

static bool set_splits(axis_set set, int a, int b) { return axis_in(set, a) != axis_in(set, b); }

static bool order_splits(const typed_tensor *t, int a, int b) {
  for (int i = 0; i < t->axis_count; i++)
    if (t->axes[i] == a) return i + 1 == t->axis_count || t->axes[i + 1] != b;
  return axis_in(t->axis_set, b);
}

// Is [.., a, b, ..] of every tensor and value the same as one axis of size a * b?
static bool are_joinable(const typed_body *body, int a, int b) {
  for (int i = 0; i < body->tensors.count; i++)
    if (order_splits(&body->tensors.items[i], a, b)) return false;
  for (int i = 0; i < body->lags.count; i++)
    if (set_splits(body->lags.items[i].axes, a, b) ||
        (axis_in(body->lags.items[i].axes, a) && b != a + 1))
      return false;
  vec_each(const typed_value, v, body->values) {
    if (set_splits(v->axes, a, b) || set_splits(v->over, a, b)) return false;
    bool by_axis = v->op == VALUE_INDEX || v->op == VALUE_SLICE || v->op == VALUE_RENAME;
    if (by_axis && (v->index == a || v->index == b)) return false;
    if (v->op == VALUE_RENAME && (v->index2 == a || v->index2 == b)) return false;
  }
  return true;
}

static axis_set drop_bit(axis_set set, int axis) {
  axis_set low = axis_bit(axis) - 1;
  return (set & low) | ((set >> 1) & ~low);
}

static void join_axes(graph_builder *builder, typed_body *body, int a, int b) {
  typed_axis *first = &body->axes.items[a];
  first->name = intern(builder->names,
                       arena_printf(builder->arena, "%s%s", first->name, body->axes.items[b].name));
  first->size *= body->axes.items[b].size;
  memmove(&body->axes.items[b], &body->axes.items[b + 1],
          sizeof(typed_axis) * (size_t)(body->axes.count - b - 1));
  body->axes.count--;
  vec_each(typed_tensor, t, body->tensors) {
    int kept = 0;
    for (int k = 0; k < t->axis_count; k++)
      if (t->axes[k] != b) t->axes[kept++] = t->axes[k] > b ? t->axes[k] - 1 : t->axes[k];
    t->axis_count = kept;
    t->axis_set = drop_bit(t->axis_set, b);
  }
  for (int i = 0; i < body->lags.count; i++)
    body->lags.items[i].axes = drop_bit(body->lags.items[i].axes, b);
  vec_each(typed_value, v, body->values) {
    v->axes = drop_bit(v->axes, b);
    v->over = drop_bit(v->over, b);
    bool by_axis = v->op == VALUE_INDEX || v->op == VALUE_SLICE || v->op == VALUE_RENAME;
    if (by_axis && v->index > b) v->index--;
    if (v->op == VALUE_RENAME && v->index2 > b) v->index2--;
  }
}

void join_all_axes(graph_builder *builder, typed_body *body) {
  for (int a = 0; a < body->axes.count; a++)
    for (int b = 0; b < body->axes.count; b++)
      if (a != b && are_joinable(body, a, b)) {
        join_axes(builder, body, a, b);
        a = -1;
        break;
      }
}
