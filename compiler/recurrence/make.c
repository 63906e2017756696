// Sharing of equal values, and the smart constructor that applies the rules of its builder.
#include "compiler/recurrence/make.h"

static void insert(builder *b, value_id id) {
  uint64_t slot = hash_typed_value(value_at(b, id)) & (uint64_t)(b->table_size - 1);
  while (b->table[slot]) slot = (slot + 1) & (uint64_t)(b->table_size - 1);
  b->table[slot] = id + 1;
}

static void grow_value_table(builder *b) {
  b->table_size = b->table_size ? b->table_size * 2 : 64;
  while (b->table_size < 2 * b->body->values.count) b->table_size *= 2;
  b->table = ARENA_ARRAY(b->memory, int, b->table_size);
  for (int i = 0; i < b->body->values.count; i++) insert(b, i);
}

builder builder_with_rules(arena *memory, typed_body *body, rules_function *rules) {
  builder b = {.memory = memory, .body = body, .rules = rules};
  grow_value_table(&b);
  return b;
}

static value_id find_exactly(const builder *b, const typed_value *v) {
  uint64_t slot = hash_typed_value(v) & (uint64_t)(b->table_size - 1);
  for (; b->table[slot]; slot = (slot + 1) & (uint64_t)(b->table_size - 1)) {
    value_id id = b->table[slot] - 1;
    if (same_typed_value(value_at(b, id), v)) return id;
  }
  return NO_VALUE;
}

// x + y is y + x as well.
static value_id find_equal_value(const builder *b, const typed_value *v) {
  value_id id = find_exactly(b, v);
  if (id != NO_VALUE || (v->op != VALUE_ADD && v->op != VALUE_MUL)) return id;
  typed_value swapped = *v;
  swapped.args[0] = v->args[1];
  swapped.args[1] = v->args[0];
  return find_exactly(b, &swapped);
}

// A let's name goes to the value that it became, if that has none; inputs, parameters and numbers
// have their own.
static void name_made_value(builder *b, value_id id, const char *name) {
  typed_value *v = &b->body->values.items[id];
  if (name && !v->name && value_arity(v->op) > 0) v->name = name;
}

value_id make_value(builder *b, typed_value v) {
  for (int k = value_arity(v.op); k < 3; k++) v.args[k] = NO_VALUE;
  if (v.span.source == 0) v.span = b->span;
  value_id id = b->rules(b, &v);
  if (id == NO_VALUE) id = find_equal_value(b, &v);
  if (id == NO_VALUE) {
    if (2 * (b->body->values.count + 1) > b->table_size) grow_value_table(b);
    const char *name = v.name;
    v.name = NULL;
    id = body_append(b->memory, b->body, v);
    insert(b, id);
    v.name = name;
  }
  name_made_value(b, id, v.name);
  return id;
}

value_id make_number(builder *b, double number) {
  return make_value(b, (typed_value){.op = VALUE_NUMBER, .number = number});
}

value_id make_unary(builder *b, value_op op, value_id x) {
  return make_value(b, (typed_value){.op = op, .args = {x}});
}

value_id make_binary(builder *b, value_op op, value_id x, value_id y) {
  return make_value(b, (typed_value){.op = op, .args = {x, y}});
}

value_id make_added(builder *b, value_id sum, value_id x, bool minus) {
  if (sum != NO_VALUE) return make_binary(b, minus ? VALUE_SUB : VALUE_ADD, sum, x);
  return minus ? make_unary(b, VALUE_NEG, x) : x;
}

value_id make_where(builder *b, value_id condition, value_id x, value_id y) {
  return make_value(b, (typed_value){.op = VALUE_WHERE, .args = {condition, x, y}});
}

value_id make_sum(builder *b, value_id x, axis_set axes) {
  axis_set present = axes & value_at(b, x)->axes;
  if (present) x = make_value(b, (typed_value){.op = VALUE_SUM, .args = {x}, .over = present});
  for (int i = 0; i < b->body->axes.count; i++) {
    if (!axis_in(axes & ~present, i)) continue;
    x = make_binary(b, VALUE_MUL, make_value(b, (typed_value){.op = VALUE_AXIS_SIZE, .index = i}),
                    x);
  }
  return x;
}

bool is_assigned(const builder *b, value_id id) {
  for (int i = 0; i < b->body->tensors.count; i++)
    if (b->body->tensors.items[i].assigned == id) return true;
  return false;
}

// Is it made of the identity over two axes, or of what stands on its diagonal?
static bool is_of_indices(const builder *b, value_id id, int depth) {
  const typed_value *v = value_at(b, id);
  if (v->op == VALUE_WHERE) v = value_at(b, v->args[0]);
  if (v->op == VALUE_EQUAL)
    return value_at(b, v->args[0])->op == VALUE_INDEX && value_at(b, v->args[1])->op == VALUE_INDEX;
  bool adds = v->op == VALUE_ADD || v->op == VALUE_SUB || v->op == VALUE_MUL || v->op == VALUE_NEG;
  for (int k = 0; k < value_arity(v->op) && adds && depth > 0; k++)
    if (is_of_indices(b, v->args[k], depth - 1)) return true;
  return false;
}

value_id make_renamed(builder *b, value_id x, int from, int to) {
  typed_value v = *value_at(b, x);
  if (!axis_in(v.axes, from)) return x;
  if (v.op == VALUE_RENAME && v.index2 == from)
    return v.index == to ? v.args[0] : make_renamed(b, v.args[0], v.index, to);
  if (v.op == VALUE_INDEX) return make_value(b, (typed_value){.op = VALUE_INDEX, .index = to});
  bool one = v.op == VALUE_MUL && axis_in(value_at(b, v.args[0])->axes, from) !=
                                      axis_in(value_at(b, v.args[1])->axes, from);
  if ((one || is_of_indices(b, x, SEARCH_DEPTH)) && !is_assigned(b, x)) {
    v.name = NULL;
    for (int k = 0; k < value_arity(v.op); k++) v.args[k] = make_renamed(b, v.args[k], from, to);
    return make_value(b, v);
  }
  return make_value(b, (typed_value){.op = VALUE_RENAME, .args = {x}, .index = from, .index2 = to});
}

bool is_the_number(const builder *b, value_id id, double number) {
  return value_at(b, id)->op == VALUE_NUMBER && value_at(b, id)->number == number;
}
