// Sums of outer products along a short axis, written out. A matrix of rank R becomes R matrices of
// rank 1, which the chunk builders know as writes.
//
//   h = a * h[t-1] + sum[R](B * x)    B[N,R], x[P,R], R = 2
//     ->  a * h[t-1] + B[R = 0] * x[R = 0] + B[R = 1] * x[R = 1]
//
// Factors that are made of a state are written out as well, down to the sums over it. The errors of
// a delta rule are such factors. A sum with a state itself among its factors stays: it is a read,
// or a dense transition.
#include "compiler/recurrence/factor.h"
#include "compiler/recurrence/simplify.h"

// beyond, scores of every pair of entries cost more than the state
enum { RANK_MAX = 8 };

// Does a state have these axes?
static bool fit_a_state(const builder *b, axis_set axes) {
  vec_each(const typed_tensor, t, b->body->tensors)
    if (t->kind == TENSOR_STATE && !(axes & ~t->axis_set)) return true;
  return false;
}

// Do at least two factors have the axis, none with all axes of the result?
static bool are_outer(const builder *b, const factors *all, int axis, axis_set result) {
  int with_axis = 0;
  for (int i = 0; i < all->count; i++) {
    axis_set axes = value_at(b, all->items[i])->axes;
    if (!(result & ~axes)) return false;
    with_axis += axis_in(axes, axis);
  }
  return with_axis > 1;
}

// What is known of the values up to the sum, for slices of one axis.
typedef struct slicing {
  builder *b;
  int axis;
  bool *made;    // of states
  bool *may;     // those that are made of states: no state itself has the axis
  value_id *of;  // the slice of the entry at work; NO_VALUE until it is made
} slicing;

static bool is_each_entry(const typed_value *v, int axis) {
  switch (v->op) {
    case VALUE_NEG:
    case VALUE_ADD:
    case VALUE_SUB:
    case VALUE_MUL:
    case VALUE_DIV:
    case VALUE_REAL_PART:
    case VALUE_IMAGINARY_PART: return true;
    case VALUE_SUM: return !axis_in(v->over, axis);
    default: return false;
  }
}

static slicing slicing_new(builder *b, int axis, int count) {
  arena *a = b->memory;
  slicing s = {b, axis, ARENA_ARRAY(a, bool, count), ARENA_ARRAY(a, bool, count),
               ARENA_ARRAY(a, value_id, count)};
  for (int i = 0; i < count; i++) {
    const typed_value *v = value_at(b, i);
    bool each = is_each_entry(v, axis);
    s.made[i] = v->op == VALUE_PREVIOUS;
    for (int k = 0; k < value_arity(v->op); k++) {
      s.made[i] |= s.made[v->args[k]];
      each &= s.may[v->args[k]];
    }
    s.may[i] = !s.made[i] || !axis_in(v->axes, axis) || each;
  }
  return s;
}

static value_id slice(slicing *s, value_id id, int entry) {
  typed_value v = *value_at(s->b, id);
  if (!axis_in(v.axes, s->axis)) return id;
  if (s->of[id] != NO_VALUE) return s->of[id];
  v.name = NULL;
  if (!s->made[id])
    v = (typed_value){.op = VALUE_SLICE, .args = {id}, .index = s->axis, .steps = entry};
  for (int k = 0; s->made[id] && k < value_arity(v.op); k++) v.args[k] = slice(s, v.args[k], entry);
  return s->of[id] = make_value(s->b, v);
}

static value_id sliced_entry(slicing *s, const factors *all, int entry, int count) {
  value_id product = NO_VALUE;
  for (int i = 0; i < count; i++) s->of[i] = NO_VALUE;
  for (int i = 0; i < all->count; i++) {
    value_id factor = slice(s, all->items[i], entry);
    product = product == NO_VALUE ? factor : make_binary(s->b, VALUE_MUL, product, factor);
  }
  return product;
}

value_id write_out_outer_sum(builder *b, const typed_value *v) {
  if (!v->over || (v->over & (v->over - 1))) return NO_VALUE;
  int axis = axis_first(v->over);
  typed_value shaped = *v;
  value_set_shape(b->body, &shaped);
  if (!fit_a_state(b, shaped.axes)) return NO_VALUE;
  int64_t size = b->body->axes.items[axis].size;
  factors all = {0};
  bool negative = false;
  if (size == TYPED_RUNTIME_SIZE || size > RANK_MAX ||
      !collect_factors(b->body, v->args[0], &negative, &all) ||
      !are_outer(b, &all, axis, shaped.axes))
    return NO_VALUE;
  int count = v->args[0] + 1;
  slicing s = slicing_new(b, axis, count);
  value_id sum = NO_VALUE;
  for (int i = 0; i < all.count; i++)
    if (!s.may[all.items[i]]) return NO_VALUE;
  for (int i = 0; i < size; i++) {
    value_id product = sliced_entry(&s, &all, i, count);
    sum = sum == NO_VALUE ? product : make_binary(b, VALUE_ADD, sum, product);
  }
  return negative ? make_unary(b, VALUE_NEG, sum) : sum;
}
