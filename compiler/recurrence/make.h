// Builds values that are simplified and shared: what normalisation and linearity append to a body
// with.
#pragma once

#include "compiler/recurrence/recurrence.h"

// Levels of sums and products that rules search.
enum { SEARCH_DEPTH = 12 };

typedef struct builder builder;

// A simpler value that means the same, with the same axes and element kind; NO_VALUE if `v` stays
// as it is. May instead change `v` in place to an equal form.
typedef value_id rules_function(builder *b, typed_value *v);

struct builder {
  arena *memory;
  typed_body *body;
  span span;       // of the values to be made: the place of what they stand for
  int *table;      // open hash table of value ids + 1
  int table_size;  // a power of two
  rules_function *rules;
  bool merges;  // factor.c merges two sums: contract.c does not take the new one apart
};

// With the rules of simplify.c. Values that the body has already are shared with.
builder builder_new(arena *memory, typed_body *body);
builder builder_with_rules(arena *memory, typed_body *body, rules_function *rules);

// Simplifies, then finds an equal value or appends one.
value_id make_value(builder *b, typed_value v);

value_id make_number(builder *b, double number);
value_id make_unary(builder *b, value_op op, value_id x);
value_id make_binary(builder *b, value_op op, value_id x, value_id y);
// sum + x, or sum - x if `minus`; NO_VALUE + x is x.
value_id make_added(builder *b, value_id sum, value_id x, bool minus);
value_id make_where(builder *b, value_id condition, value_id x, value_id y);

// The sum of x over `axes`; an axis that x lacks contributes its size as a factor.
value_id make_sum(builder *b, value_id x, axis_set axes);

// x with an axis under another name, which x lacks.
value_id make_renamed(builder *b, value_id x, int from, int to);

// The natural logarithm of a gate: exp(e), sigmoid(x), a product of those (with positive constants
// if `constants`), polar(gate, angle). NO_VALUE if x is none.
value_id make_gate_log(builder *b, value_id x, bool constants);

// 1 - x where that is formed without cancellation; NO_VALUE elsewhere.
value_id make_complement(builder *b, value_id x);

static inline const typed_value *value_at(const builder *b, value_id id) {
  return &b->body->values.items[id];
}
static inline bool has_op(const builder *b, value_id id, value_op op) {
  return value_at(b, id)->op == op;
}
static inline value_id value_operand(const builder *b, value_id id, int k) {
  return value_at(b, id)->args[k];
}
bool is_the_number(const builder *b, value_id id, double number);
// Is it what a state or an output becomes?
bool is_assigned(const builder *b, value_id id);
