// Axes of a state that a chunked form can use. Every read sums over the keys. An outer product in
// the increment makes the values.
//
//   S = a * S[t-1] + k * v          k[H,K], v[H,V]: K stands in k alone, V in v alone
//   y = sum[K](q * S)               keys [K], values [V]; H is in everything
//
// An axis that reads sum and both factors of the increment have is a head: heads are summed after
// the keys (heads.c).
//
//   S = a * S[t-1] + k * v          k[R,K], v[R,V]
//   y = sum[R,K](q * S)             keys [K], values [V], heads [R]
//
// So is one that the decay has beside other keys, and one that some sum over the state leaves.
//
//   S = a * S[t-1] + k * v          a[M], k[K], v[V]
//   y = sum[M,K](q * S)             keys [K], values [V], heads [M]
#include "compiler/recurrence/structure.h"

enum { HEADS_AMONG_MAX = 8 };  // of more key axes none is tried as a head

value_id previous_value(const typed_body *body, int state) {
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    if (v->op == VALUE_PREVIOUS && v->index == state) return i;
  }
  return NO_VALUE;
}

int state_assigned(const typed_body *body, value_id id) {
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    if (t->kind == TENSOR_STATE && t->assigned == id) return i;
  }
  return -1;
}

// ---- keys ---------------------------------------------------------------------------------------

// Axes summed on all ways from a value to where it ends. all_axes: no way but the state's own
// elementwise update.
static const axis_set all_axes = ~(axis_set)0;

static bool passes_linearly(const typed_value *user, value_id id) {
  if (value_moves_entries(user->op)) return false;
  for (int k = 0; k < value_arity(user->op); k++)
    if (user->args[k] == id && !value_is_linear_in(user->op, 1u << k)) return false;
  return true;
}

static axis_set way_before_rename(const typed_value *rename, axis_set way) {
  bool summed = axis_in(way, rename->index2);
  return summed ? way | axis_bit(rename->index) : way & ~axis_bit(rename->index);
}

static axis_set way_through(const typed_value *user, value_id id, axis_set way_of_user) {
  if (user->op == VALUE_RENAME) return way_before_rename(user, way_of_user);
  if (!passes_linearly(user, id)) return 0;
  if (user->op != VALUE_SUM) return way_of_user;
  return way_of_user == all_axes ? user->over : way_of_user | user->over;
}

// Ways end at outputs, at other states and at lag buffers, having summed nothing more.
static void end_ways(const typed_body *body, int state, axis_set *way) {
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    if ((t->kind == TENSOR_STATE && i != state) || t->kind == TENSOR_OUTPUT) way[t->assigned] = 0;
  }
  for (int i = 0; i < body->lags.count; i++) way[body->lags.items[i].source] = 0;
}

axis_set axes_summed_by_reads(arena *memory, const typed_body *body, int state) {
  int count = body->values.count;
  axis_set *way = ARENA_ARRAY(memory, axis_set, count), keys = all_axes;
  for (int i = 0; i < count; i++) way[i] = all_axes;
  end_ways(body, state, way);
  for (int i = count - 1; i >= 0; i--) {
    const typed_value *v = &body->values.items[i];
    for (int k = 0; k < value_arity(v->op); k++)
      way[v->args[k]] &= way_through(v, v->args[k], way[i]);
    if (v->op == VALUE_PREVIOUS && v->index == state) keys &= way[i];
  }
  return keys == all_axes ? 0 : keys & body->tensors.items[state].axis_set;
}

axis_set axes_left_by_sums(arena *memory, const typed_body *body, int state, axis_set keys) {
  bool *has = ARENA_ARRAY(memory, bool, body->values.count);
  axis_set left = 0;
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    has[i] =
        (v->op == VALUE_PREVIOUS && v->index == state) || body->tensors.items[state].assigned == i;
    for (int k = 0; k < value_arity(v->op) && !has[i]; k++) {
      if (!has[v->args[k]] || !passes_linearly(v, v->args[k])) continue;
      if (v->op != VALUE_SUM) has[i] = true;
      if (v->op == VALUE_SUM && v->over & keys) left |= keys & ~v->over;
    }
  }
  return left;
}

// ---- values -------------------------------------------------------------------------------------

// What a factor was some steps earlier, if it is a lag of a let, or a delay, of a matrix; NO_VALUE
// elsewhere.
static value_id lagged_matrix(const builder *b, value_id id, axis_set keys, axis_set values) {
  const typed_value *v = value_at(b, id);
  if (!(v->axes & keys) || !(v->axes & values)) return NO_VALUE;
  if (v->op == VALUE_LAG) return b->body->lags.items[v->index].source;
  return v->op == VALUE_PREVIOUS ? b->body->tensors.items[v->index].assigned : NO_VALUE;
}

typedef struct outer_axes {
  axis_set keys;
  axis_set beside_keys, apart;  // axes of factors with keys, of others
} outer_axes;

enum { LAGS_MAX = 4 };  // lags of lags that are looked through

static void find_outer(builder *b, value_id id, axis_set values, int lags, outer_axes *found) {
  recurrence_terms terms = recurrence_split_terms(b->memory, b->body, id, found->keys, values);
  for (int i = 0; i < terms.count; i++) {
    for (int k = 0; k < terms.items[i].factors.count; k++) {
      value_id factor = terms.items[i].factors.items[k].value;
      value_id earlier = lags < LAGS_MAX ? lagged_matrix(b, factor, found->keys, values) : NO_VALUE;
      axis_set axes = value_at(b, factor)->axes;
      if (earlier != NO_VALUE)
        find_outer(b, earlier, values, lags + 1, found);
      else if (axes & found->keys)
        found->beside_keys |= axes;
      else
        found->apart |= axes;
    }
  }
}

axis_set axes_of_outer_product(builder *b, axis_set state_axes, value_id increment, axis_set keys) {
  if (increment == NO_VALUE || keys == 0) return 0;
  axis_set values = state_axes & ~keys;
  outer_axes found = {.keys = keys};
  find_outer(b, increment, values, 0, &found);
  return values & found.apart & ~found.beside_keys;
}

// The next set of as many bits among the lowest ones; Gosper's rule.
static unsigned next_of_size(unsigned set) {
  unsigned low = set & -set, carried = set + low;
  return carried | ((set ^ carried) / low >> 2);
}

static axis_set chosen_axes(const int *axes, int count, unsigned which) {
  axis_set chosen = 0;
  for (int i = 0; i < count; i++)
    if (which >> i & 1) chosen |= axis_bit(axes[i]);
  return chosen;
}

axis_set axes_of_heads(builder *b, axis_set state_axes, value_id increment, axis_set keys) {
  int axes[TYPED_MAX_AXES], count = 0;
  if (axes_of_outer_product(b, state_axes, increment, keys)) return 0;
  for (int i = 0; i < TYPED_MAX_AXES; i++)
    if (axis_in(keys, i)) axes[count++] = i;
  for (int size = 1; size < count && count <= HEADS_AMONG_MAX; size++) {
    for (unsigned which = (1u << size) - 1; which < 1u << count; which = next_of_size(which)) {
      axis_set heads = chosen_axes(axes, count, which);
      if (axes_of_outer_product(b, state_axes, increment, keys & ~heads)) return heads;
    }
  }
  return 0;
}

// No factor of a product (no term of a logarithm's sum) may have axes of both sets.
static bool separates(const builder *b, value_id id, value_op joins, axis_set keys,
                      axis_set values) {
  bool *reached = ARENA_ARRAY(b->memory, bool, id + 1);
  reached[id] = true;
  for (int i = id; i >= 0; i--) {
    const typed_value *v = value_at(b, i);
    if (!reached[i] || !(v->axes & keys) || !(v->axes & values)) continue;
    bool opens = v->op == joins || v->op == VALUE_NEG || (joins == VALUE_ADD && v->op == VALUE_SUB);
    if (!opens) return false;
    for (int k = 0; k < value_arity(v->op); k++) reached[v->args[k]] = true;
  }
  return true;
}

axis_set recurrence_decay_heads(arena *memory, const typed_body *body, value_id decay,
                                value_id log_decay, axis_set keys, axis_set values) {
  value_id parts = log_decay != NO_VALUE ? log_decay : decay;
  axis_set heads = 0;
  if (parts == NO_VALUE) return 0;
  recurrence_terms terms = recurrence_split_terms(memory, body, parts, keys, values);
  bool apart = log_decay == NO_VALUE && terms.count == 1;  // a product: factors by themselves
  for (int i = 0; i < terms.count; i++) {
    axis_set axes = 0;
    for (int k = 0; k < terms.items[i].factors.count; k++) {
      axis_set own = body->values.items[terms.items[i].factors.items[k].value].axes;
      if (own & keys) heads |= own & values;
      axes |= own;
    }
    if (!apart && (axes & keys)) heads |= axes & values;
  }
  return values & ~heads ? heads : 0;
}

bool decay_separates(const builder *b, value_id decay, value_id log_decay, axis_set keys,
                     axis_set values) {
  if (decay == NO_VALUE || separates(b, decay, VALUE_MUL, keys, values)) return true;
  return log_decay != NO_VALUE && separates(b, log_decay, VALUE_ADD, keys, values);
}
