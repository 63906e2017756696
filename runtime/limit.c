// Counts multiply-adds of the cheapest known algorithm for a recurrence.
//
// A state with scalar or per-axis decay is read and written by matrix products over chunks of c
// steps. A step takes two multiply-adds and 1/c for decay per state entry. Inside the chunk it
// takes the triangle of scores, c/2 products each with keys and values. c is what makes the sum
// smallest. A low-rank state reads itself besides, and may be written with keys of several kinds;
// each kind has a triangle with each read.
//   ssd, 24 heads x 64, N = 128:   8192 (2 + 1/c) + c/2 (64 + 128/24) a head and step -> 1.71 GFLOP for 2048 steps
//
// Other states are counted entry by entry (value_cost). A product followed by a sum is one
// multiply-add. Values that depend on parameters alone count nothing. A part of a complex product
// is two multiply-adds, one with a real factor; a part that nothing needs is none.
//   selective_scan, 16 states:     9 a state entry and step -> 0.91 GFLOP for 1536 channels and 2048 steps
//   re(sum[N](C * h)):             2 for each entry of C
#include "runtime/limit.h"

#include <math.h>
#include <string.h>

typedef struct counter {
  const recurrence *program;
  const typed_body *body;
  const int64_t *sizes;
  arena *memory;
  bool *constant;         // by value: depends on parameters and sizes alone
  unsigned char *needed;  // by value: the parts that a state, an output or a lag buffer depends on
} counter;

enum { REAL = 1, IMAGINARY = 2, BOTH = REAL | IMAGINARY };

static double counted_entries(const counter *c, axis_set axes) {
  double product = 1;
  for (int i = 0; i < c->body->axes.count; i++)
    if (axis_in(axes, i)) product *= (double)c->sizes[i];
  return product;
}

static const typed_value *counted_value(const counter *c, value_id id) {
  return &c->body->values.items[id];
}

// The parts of a complex operand that these parts of the value are made of. A complex factor mixes
// them.
static unsigned char parts_of_operand(const counter *c, const typed_value *v, int operand,
                                      unsigned char parts) {
  if (v->op == VALUE_REAL_PART) return REAL;
  if (v->op == VALUE_IMAGINARY_PART) return IMAGINARY;
  bool factor = v->op == VALUE_MUL || v->op == VALUE_DIV;
  bool mixed = factor && counted_value(c, v->args[1 - operand])->complex;
  return value_is_linear_in(v->op, 1u << operand) && !mixed ? parts : BOTH;
}

// Which values cost nothing per step, and which count at all.
static void mark_counted(counter *c) {
  const typed_body *body = c->body;
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    bool varies = v->op == VALUE_INPUT || v->op == VALUE_PREVIOUS || v->op == VALUE_LAG;
    for (int a = 0; a < value_arity(v->op); a++) varies |= !c->constant[v->args[a]];
    c->constant[i] = !varies;
  }
  for (int i = 0; i < body->tensors.count; i++)
    if (body->tensors.items[i].assigned >= 0) c->needed[body->tensors.items[i].assigned] = BOTH;
  for (int i = 0; i < body->lags.count; i++) c->needed[body->lags.items[i].source] = BOTH;
  for (int i = body->values.count - 1; i >= 0; i--) {
    const typed_value *v = &body->values.items[i];
    for (int a = 0; a < value_arity(v->op) && c->needed[i]; a++)
      c->needed[v->args[a]] |= parts_of_operand(c, v, a, c->needed[i]);
  }
}

// Multiply-adds of an entry.
static double entry_cost(const counter *c, value_id id) {
  const typed_value *v = counted_value(c, id);
  int parts = c->needed[id] == BOTH ? 2 : 1;
  if (!v->complex) return value_cost(v);
  switch (v->op) {
    case VALUE_ADD:
    case VALUE_SUB: return parts;
    case VALUE_MUL:
      return counted_value(c, v->args[0])->complex && counted_value(c, v->args[1])->complex
                 ? 2 * parts
                 : parts;
    default: return value_cost(v);
  }
}

// Does a product feed this sum, so that both are one multiply-add?
static bool is_fused(const counter *c, const typed_value *v) {
  if (v->op != VALUE_ADD && v->op != VALUE_SUB && v->op != VALUE_SUM) return false;
  for (int a = 0; a < value_arity(v->op); a++)
    if (counted_value(c, v->args[a])->op == VALUE_MUL && !c->constant[v->args[a]]) return true;
  return false;
}

// (a * B) * x with small a and x: multiplied in another order, only one of the two products is
// large.
static bool is_free_product(const counter *c, const typed_value *v) {
  if (v->op != VALUE_MUL) return false;
  for (int a = 0; a < 2; a++) {
    const typed_value *large = counted_value(c, v->args[a]),
                      *small = counted_value(c, v->args[1 - a]);
    if (large->op != VALUE_MUL || large->axes != v->axes || small->axes == v->axes) continue;
    const typed_value *x = counted_value(c, large->args[0]), *y = counted_value(c, large->args[1]);
    if (x->axes != v->axes && y->axes != v->axes) return true;
  }
  return false;
}

static bool is_chunked(const state_structure *s) {
  return s->class == STATE_SCALAR_DECAY || s->class == STATE_AXIS_DECAY ||
         s->class == STATE_LOW_RANK;
}

// Is this value made once for each entry of a state, and not by the matrix products of a chunk? Or
// has it as many entries as every state? What is smaller (gates of channels, activations) is left
// out, as it is where kernels are compared.
static bool is_counted(const counter *c, const typed_value *v) {
  bool counted = false, smaller = false;
  int state = 0;
  for (int i = 0; i < c->body->tensors.count; i++) {
    if (c->body->tensors.items[i].kind != TENSOR_STATE) continue;
    const state_structure *s = &c->program->states.items[state++];
    axis_set axes = c->body->tensors.items[i].axis_set;
    bool every_entry = ((v->axes | v->over) & axes) == axes;
    if (every_entry && is_chunked(s)) return false;
    counted |= every_entry;
    smaller |= counted_entries(c, v->axes | v->over) < counted_entries(c, axes);
  }
  return counted || !smaller;
}

static double elementwise_cost(const counter *c) {
  double sum = 0;
  for (int i = 0; i < c->body->values.count; i++) {
    const typed_value *v = &c->body->values.items[i];
    if (c->constant[i] || !c->needed[i] || !is_counted(c, v)) continue;
    if (is_fused(c, v) || is_free_product(c, v)) continue;
    sum += entry_cost(c, i) * counted_entries(c, v->axes | v->over);
  }
  return sum;
}

// The scores of a chunk are made once for all heads that share their keys: the smallest input with
// the key axes.
static double shared_keys(const counter *c, const state_structure *s, axis_set axes) {
  double fewest = counted_entries(c, axes);
  vec_each(const typed_tensor, t, c->body->tensors) {
    if (t->kind != TENSOR_INPUT || !s->key_axes || (t->axis_set & s->key_axes) != s->key_axes)
      continue;
    fewest = fmin(fewest, counted_entries(c, t->axis_set));
  }
  return fewest;
}

// Sums over the keys of a state that its own update takes.
static int own_reads(const counter *c, const state_structure *s, const typed_tensor *state) {
  bool *taken = ARENA_ARRAY(c->memory, bool, c->body->values.count);
  int reads = 0;
  taken[state->assigned] = true;
  for (int i = state->assigned; i >= 0; i--) {
    const typed_value *v = counted_value(c, i);
    for (int a = 0; a < value_arity(v->op) && taken[i]; a++) taken[v->args[a]] = true;
    reads += taken[i] && v->op == VALUE_SUM && (v->over & s->key_axes) && (v->axes & s->value_axes);
  }
  return reads;
}

// Marks the factors of an outer product that have key axes, by their values.
static void find_keys(const counter *c, const state_structure *s, const recurrence_term *term,
                      bool *keys) {
  vec_each(const recurrence_factor, factor, term->factors)
    if (counted_value(c, factor->value)->axes & s->key_axes) keys[factor->value] = true;
}

static bool has_state(const counter *c, const state_structure *s, const recurrence_term *term) {
  vec_each(const recurrence_factor, factor, term->factors) {
    axis_set axes = counted_value(c, factor->value)->axes;
    if ((axes & s->key_axes) && (axes & s->value_axes)) return true;
  }
  return false;
}

// Outer products in the update that have other keys than those before them.
static int kinds_of_writes(const counter *c, const state_structure *s, const typed_tensor *state) {
  int count = c->body->values.count, kinds = 0;
  recurrence_terms terms =
      recurrence_split_terms(c->memory, c->body, state->assigned, s->key_axes, s->value_axes);
  bool *seen = ARENA_ARRAY(c->memory, bool, (terms.count + 1) * count);
  vec_each(const recurrence_term, term, terms) {
    if (has_state(c, s, term)) continue;
    bool *own = seen + kinds * count, known = false;
    for (int i = 0; i < count; i++) own[i] = false;
    find_keys(c, s, term, own);
    for (int k = 0; k < kinds && !known; k++)
      known = !memcmp(seen + k * count, own, (size_t)count * sizeof *own);
    kinds += !known;
  }
  return kinds;
}

static double chunked_cost(const counter *c, const state_structure *s, const typed_tensor *state) {
  bool low_rank = s->class == STATE_LOW_RANK;
  double reads = 1 + (low_rank ? fmax(1, own_reads(c, s, state)) : 0),
         writes = low_rank ? fmax(1, kinds_of_writes(c, s, state)) : 1;
  double all = counted_entries(c, state->axis_set),
         values = counted_entries(c, state->axis_set & ~s->key_axes);
  double keys = shared_keys(c, s, state->axis_set), best = INFINITY;
  for (double chunk = 1; chunk <= 256; chunk *= 2) {
    double triangle = chunk / 2 * (values + keys) * reads * writes;
    best = fmin(best, all * (reads + writes + 1 / chunk) + triangle);
  }
  return best * (state->complex ? 4 : 1);
}

static double forward_cost(counter *c) {
  mark_counted(c);
  double sum = elementwise_cost(c);
  for (int i = 0, state = 0; i < c->body->tensors.count; i++) {
    const typed_tensor *t = &c->body->tensors.items[i];
    if (t->kind != TENSOR_STATE) continue;
    const state_structure *s = &c->program->states.items[state++];
    if (is_chunked(s)) sum += chunked_cost(c, s, t);
  }
  return sum;
}

double rec_limit_forward(const recurrence *program, const int64_t *axis_sizes) {
  arena *memory = arena_new();
  int count = program->body.values.count;
  counter c = {.program = program,
               .body = &program->body,
               .sizes = axis_sizes,
               .memory = memory,
               .constant = ARENA_ARRAY(memory, bool, count),
               .needed = ARENA_ARRAY(memory, unsigned char, count)};
  double sum = forward_cost(&c);
  arena_free(memory);
  return sum;
}
