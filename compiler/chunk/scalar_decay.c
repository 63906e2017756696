// The chunk program for scalar decay: masked matrix products.
//
//   S = exp(g) * S[t-1] + k * v        scores = dot q k[s] over K                          [t,s]
//   y = sum[K](q * S)            ->    y = dot (scores * M) v[s] over s + dot (q * E) S over K
//                                      S' = exp(total) * S + dot k (v * F) over t
//   M = exp(segment g) below the diagonal, 1 on it, 0 above;  E = exp(prefix g);  F = exp(suffix g, exclusive)
//
// The structure is looked at, never names: any number of states, each with any axes; increments that are sums of outer
// products with further factors; reads of the state after or before the step (S[t-1]: everything exclusive) wherever
// a sum over axes of the state times factors stands in an expression. Everything else is pointwise over the steps.
//
// The four rules of stable chunk programs hold by construction: every exponent is a one-sided sum towards a reference
// (prefix, segment), pairs get their exact sum, division is an operation, and the decay and the key factors are
// masked on padded rows. A scale that needs a gradient stands on an operand of its product, not on the result: its
// gradient then follows from products that are needed anyway.
#include "compiler/chunk/chunk.h"
#include "compiler/chunk/lower.h"

enum {
  TERMS_MAX = 64
};  // increments with more products, or more factors in one, are left to the step program

typedef VEC(tile_id) tiles;

// factors * S or factors * S[t-1]
typedef struct state_term {
  int state;
  bool previous;
  tiles factors;
} state_term;

// A value that is linear in states not yet summed: the terms and the rest (NO_TILE if it is 0).
typedef struct linear {
  VEC(state_term)
  terms;
  tile_id rest;
} linear;

// One product of an increment.
typedef VEC(tiles) products;

typedef enum part_progress { UNTOUCHED, IN_WORK, MADE } part_progress;

typedef struct builder {
  arena *arena;
  const recurrence *from;
  const typed_body *body;
  tile_program *program;
  lowering values;          // of values without states
  linear **linears;         // by value of the body; NULL for those without states
  int *state_tensor;        // by state: its tensor
  tile_id *log_decay;       // by state: masked, NO_TILE for decay 1
  products *increments;     // by state
  part_progress *progress;  // by state: of its decay and its increment
  bool *visited;            // by value of the body
  const char *reason;       // why there is no chunk program
} builder;

static const tile_value *tile_of(const builder *b, tile_id id) {
  return &b->program->values.items[id];
}
static axis_set axes_of(const builder *b, tile_id id) { return tile_of(b, id)->axes; }
static axis_set time_bit(const builder *b) { return axis_bit(b->program->time_axis); }

static void refuse(builder *b, const char *reason) {
  if (!b->reason) b->reason = reason;
}

static const char *tensor_name(const builder *b, int state) {
  return b->body->tensors.items[b->state_tensor[state]].name;
}

static tile_id product_of(builder *b, const tiles *factors) {
  tile_id product = tile_number(b->program, 1);
  for (int i = 0; i < factors->count; i++) {
    product = tile_binary(b->program, TILE_MUL, product, factors->items[i]);
  }
  return product;
}

// ---- decays -----------------------------------------------------------------------------------------------------------

static tile_id exp_of(builder *b, tile_id x) {
  return x == NO_TILE ? tile_number(b->program, 1) : tile_unary(b->program, TILE_EXP, x);
}

static tile_id along_time(builder *b, tile_op op, tile_id g, int index) {
  return g == NO_TILE ? NO_TILE : tile_indexed(b->program, op, g, index, 0);
}

// The decay from the chunk's start to each step; for S[t-1] without the step's own.
static tile_id decay_from_start(builder *b, int state, bool previous) {
  return exp_of(b, along_time(b, TILE_PREFIX, b->log_decay[state], previous ? 1 : 0));
}

// The decay of each pair of steps: what step s wrote, as step t reads it.
static tile_id decay_of_pairs(builder *b, int state, bool previous, tile_id scores) {
  tile_id causal = tile_leaf(b->program, TILE_CAUSAL, previous ? 1 : 0);
  tile_id zero = tile_number(b->program, 0);
  tile_id segment = along_time(b, TILE_SEGMENT, b->log_decay[state], previous ? 1 : 0);
  if (segment == NO_TILE) return tile_select(b->program, causal, scores, zero);
  tile_id mask = tile_select(b->program, causal, exp_of(b, segment), zero);
  return tile_binary(b->program, TILE_MUL, scores, mask);
}

// ---- increments as sums of products -----------------------------------------------------------------------------------

static products outer(builder *b, const products *x, const products *y) {
  products all = {NULL, 0, 0};
  for (int i = 0; i < x->count; i++) {
    for (int k = 0; k < y->count; k++) {
      tiles factors = {NULL, 0, 0};
      for (int n = 0; n < x->items[i].count; n++) {
        vec_push(b->arena, &factors, x->items[i].items[n]);
      }
      for (int n = 0; n < y->items[k].count; n++) {
        vec_push(b->arena, &factors, y->items[k].items[n]);
      }
      vec_push(b->arena, &all, factors);
      if (all.count > TERMS_MAX || factors.count > TERMS_MAX) {
        refuse(b, "an increment has too many products");
        return all;
      }
    }
  }
  return all;
}

static products single(builder *b, tile_id factor) {
  products one = {NULL, 0, 0};
  tiles factors = {NULL, 0, 0};
  vec_push(b->arena, &factors, factor);
  vec_push(b->arena, &one, factors);
  return one;
}

// Divides the factor that has the divisor's keys or values, so that none gets both; `own` is what it has of them.
static void divide_product(builder *b, tiles *product, tile_id divisor, axis_set own) {
  for (int i = 0; i < product->count; i++) {
    if (own && !(axes_of(b, product->items[i]) & own)) continue;
    product->items[i] = tile_binary(b->program, TILE_DIV, product->items[i], divisor);
    return;
  }
  tile_id one = tile_number(b->program, 1);
  vec_push(b->arena, product, tile_binary(b->program, TILE_DIV, one, divisor));
}

// Products are taken apart; sums only where they join keys and values.
static products products_of(builder *b, tile_id id, axis_set keys, axis_set values) {
  tile_value v = *tile_of(b, id);
  products none = {NULL, 0, 0};
  if (b->reason) return none;
  bool mixed = (v.axes & keys) && (v.axes & values);
  // Squares stay whole: high powers are made of them.
  if (v.op == TILE_MUL && (mixed || v.args[0] != v.args[1])) {
    products x = products_of(b, v.args[0], keys, values);
    products y = products_of(b, v.args[1], keys, values);
    return outer(b, &x, &y);
  }
  if (!mixed) return single(b, id);
  switch (v.op) {
    case TILE_NEG: {
      products minus = single(b, tile_number(b->program, -1));
      products x = products_of(b, v.args[0], keys, values);
      return outer(b, &minus, &x);
    }
    case TILE_ADD:
    case TILE_SUB: {
      products x = products_of(b, v.args[0], keys, values);
      products y = products_of(b, v.args[1], keys, values);
      if (v.op == TILE_SUB) {
        products minus = single(b, tile_number(b->program, -1));
        y = outer(b, &minus, &y);
      }
      for (int i = 0; i < y.count; i++) vec_push(b->arena, &x, y.items[i]);
      if (x.count > TERMS_MAX) refuse(b, "an increment has too many products");
      return x;
    }
    case TILE_DIV:
      if (!(axes_of(b, v.args[1]) & keys) || !(axes_of(b, v.args[1]) & values)) {
        products x = products_of(b, v.args[0], keys, values);
        for (int i = 0; i < x.count; i++) {
          divide_product(b, &x.items[i], v.args[1], (keys | values) & axes_of(b, v.args[1]));
        }
        return x;
      }
      break;
    default: break;
  }
  refuse(b, "an increment is not a sum of outer products");
  return none;
}

// Factors of a product with axes in a set, times each other, 0 on padded rows.
static tile_id keys_of(builder *b, const tiles *product, axis_set axes) {
  tiles keys = {NULL, 0, 0};
  for (int i = 0; i < product->count; i++) {
    if (axes_of(b, product->items[i]) & axes) vec_push(b->arena, &keys, product->items[i]);
  }
  return lower_valid(b->program, product_of(b, &keys));
}

static tile_id values_of(builder *b, const tiles *product, axis_set axes) {
  tiles values = {NULL, 0, 0};
  for (int i = 0; i < product->count; i++) {
    if (!(axes_of(b, product->items[i]) & axes)) vec_push(b->arena, &values, product->items[i]);
  }
  return lower_valid_if_unsafe(b->program, product_of(b, &values));
}

static tile_id at_pair(builder *b, tile_id x) {
  return tile_indexed(b->program, TILE_RENAME, x, b->program->time_axis, b->program->pair_axis);
}

// ---- reads --------------------------------------------------------------------------------------------------------------

// Splits the axes of a read into sets that no factor joins: the sum is then a product of sums.
static int split_axes(builder *b, const tiles *read, const tiles *written, axis_set over,
                      axis_set *parts) {
  int count = 0;
  for (axis_set left = over; left;) {
    axis_set part = left & (~left + 1);
    for (axis_set before = 0; before != part;) {
      before = part;
      for (int i = 0; i < read->count; i++) {
        if (axes_of(b, read->items[i]) & part) part |= axes_of(b, read->items[i]) & over;
      }
      for (int i = 0; i < written->count; i++) {
        if (axes_of(b, written->items[i]) & part) part |= axes_of(b, written->items[i]) & over;
      }
    }
    parts[count++] = part;
    left &= ~part;
  }
  return count;
}

// Factors of a read with axes in a set, times each other.
static tile_id read_factor(builder *b, const tiles *factors, axis_set axes) {
  tiles chosen = {NULL, 0, 0};
  for (int i = 0; i < factors->count; i++) {
    if (axes_of(b, factors->items[i]) & axes) vec_push(b->arena, &chosen, factors->items[i]);
  }
  return lower_valid_if_unsafe(b->program, product_of(b, &chosen));
}

// What the steps of this chunk wrote: (scores * mask) times values, for one product of the increment.
static tile_id read_product(builder *b, const state_term *term, const tiles *written,
                            axis_set over) {
  axis_set parts[TYPED_MAX_AXES];
  int count = split_axes(b, &term->factors, written, over, parts);
  tile_id scores = tile_number(b->program, 1);
  for (int i = 0; i < count; i++) {
    tile_id q = read_factor(b, &term->factors, parts[i]);
    tile_id k = keys_of(b, written, parts[i]);
    tile_id dot = tile_dot(b->program, q, at_pair(b, k), parts[i]);
    scores = tile_binary(b->program, TILE_MUL, scores, dot);
  }
  tile_id v = values_of(b, written, over);
  axis_set values = b->from->states.items[term->state].value_axes & ~over;
  if (axes_of(b, scores) & values) refuse(b, "a read mixes key and value axes");
  tile_id pairs = decay_of_pairs(b, term->state, term->previous, scores);
  return tile_dot(b->program, pairs, at_pair(b, v), axis_bit(b->program->pair_axis));
}

static bool make_parts(builder *b, int state);

// sum[over](factors * S)
static tile_id read_term(builder *b, const state_term *term, axis_set over) {
  tile_program *p = b->program;
  int tensor = b->state_tensor[term->state];
  axis_set state_axes = b->body->tensors.items[tensor].axis_set;
  if (over & ~state_axes) refuse(b, "a read sums over an axis that the state lacks");
  if (!make_parts(b, term->state)) return tile_number(p, 0);
  tile_id g = b->log_decay[term->state];
  if (g != NO_TILE && (axes_of(b, g) & over)) refuse(b, "a read sums over an axis of the decay");
  const products *increment = &b->increments[term->state];
  tile_id sum = tile_number(p, 0);
  for (int i = 0; i < increment->count; i++) {
    tile_id part = read_product(b, term, &increment->items[i], over);
    sum = tile_binary(p, TILE_ADD, sum, part);
  }
  // What was there before the chunk; the decay stands on the operand.
  tiles none = {NULL, 0, 0};
  axis_set parts[TYPED_MAX_AXES];
  int count = split_axes(b, &term->factors, &none, over, parts);
  tile_id state = lower_tensor(p, b->body, TILE_STATE, tensor).re;
  for (int i = 0; i < count; i++) {
    tile_id q = read_factor(b, &term->factors, parts[i]);
    if (i == 0) {
      tile_id decay = decay_from_start(b, term->state, term->previous);
      q = tile_binary(p, TILE_MUL, q, decay);
    }
    state = tile_dot(p, q, state, parts[i]);
  }
  tiles outside = {NULL, 0, 0};
  for (int i = 0; i < term->factors.count; i++) {
    if (!(axes_of(b, term->factors.items[i]) & over)) {
      vec_push(b->arena, &outside, term->factors.items[i]);
    }
  }
  tile_id scale = lower_valid_if_unsafe(p, product_of(b, &outside));
  return tile_binary(p, TILE_MUL, scale, tile_binary(p, TILE_ADD, sum, state));
}

// ---- values of the body -----------------------------------------------------------------------------------------------

static linear *linear_new(builder *b) {
  linear *l = ARENA_NEW(b->arena, linear);
  l->rest = NO_TILE;
  return l;
}

static linear *bare_state(builder *b, int state, bool previous) {
  linear *l = linear_new(b);
  vec_push(b->arena, &l->terms, (state_term){.state = state, .previous = previous});
  return l;
}

static linear *scaled(builder *b, const linear *x, tile_id factor) {
  linear *l = linear_new(b);
  for (int i = 0; i < x->terms.count; i++) {
    state_term term = x->terms.items[i];
    tiles factors = {NULL, 0, 0};
    for (int k = 0; k < term.factors.count; k++) {
      vec_push(b->arena, &factors, term.factors.items[k]);
    }
    // A factor stays a product of factors, so that each finds its side of a read.
    vec_push(b->arena, &factors, factor);
    term.factors = factors;
    vec_push(b->arena, &l->terms, term);
  }
  if (x->rest != NO_TILE) l->rest = tile_binary(b->program, TILE_MUL, x->rest, factor);
  return l;
}

static linear *added(builder *b, const linear *x, const linear *y) {
  linear *l = linear_new(b);
  for (int i = 0; i < x->terms.count; i++) vec_push(b->arena, &l->terms, x->terms.items[i]);
  for (int i = 0; i < y->terms.count; i++) vec_push(b->arena, &l->terms, y->terms.items[i]);
  l->rest = x->rest == NO_TILE   ? y->rest
            : y->rest == NO_TILE ? x->rest
                                 : tile_binary(b->program, TILE_ADD, x->rest, y->rest);
  return l;
}

static tile_id pure(builder *b, value_id id) {
  tile_pair pair = lower_value(&b->values, id);
  if (pair.im != NO_TILE) refuse(b, "a complex value meets a state");
  return pair.re;
}

// An operand as a linear value, also if it has no state.
static linear *operand(builder *b, value_id id) {
  if (b->linears[id]) return b->linears[id];
  linear *l = linear_new(b);
  l->rest = pure(b, id);
  return l;
}

// The factors of a value without states, so that q * w * S keeps q and w apart.
static linear *scaled_by_value(builder *b, const linear *x, tile_id factor) {
  tile_value v = *tile_of(b, factor);
  bool full = x->terms.count && x->terms.items[0].factors.count >= TERMS_MAX;
  if (v.op != TILE_MUL || v.args[0] == v.args[1] || full) return scaled(b, x, factor);
  return scaled_by_value(b, scaled_by_value(b, x, v.args[0]), v.args[1]);
}

static void read_all(builder *b, value_id id) {
  const typed_value *v = &b->body->values.items[id];
  linear *x = b->linears[v->args[0]];
  tile_id sum = tile_number(b->program, 0);
  if (x->rest != NO_TILE) sum = tile_reduce(b->program, TILE_SUM, x->rest, v->over);
  for (int i = 0; i < x->terms.count && !b->reason; i++) {
    sum = tile_binary(b->program, TILE_ADD, sum, read_term(b, &x->terms.items[i], v->over));
  }
  lowering_set(&b->values, id, (tile_pair){sum, NO_TILE});
}

static void visit_linear(builder *b, value_id id) {
  const typed_value *v = &b->body->values.items[id];
  value_id x = v->args[0], y = value_arity(v->op) > 1 ? v->args[1] : NO_VALUE;
  tile_id minus_one = tile_number(b->program, -1);
  switch (v->op) {
    case VALUE_SUM: read_all(b, id); return;
    case VALUE_NEG: b->linears[id] = scaled(b, b->linears[x], minus_one); return;
    case VALUE_ADD: b->linears[id] = added(b, operand(b, x), operand(b, y)); return;
    case VALUE_SUB:
      b->linears[id] = added(b, operand(b, x), scaled(b, operand(b, y), minus_one));
      return;
    case VALUE_MUL:
      if (b->linears[x] && b->linears[y]) break;
      b->linears[id] = b->linears[x] ? scaled_by_value(b, b->linears[x], pure(b, y))
                                     : scaled_by_value(b, b->linears[y], pure(b, x));
      return;
    default: break;
  }
  refuse(b, "a state is used otherwise than in sums over its axes");
}

static int state_of_tensor(const builder *b, int tensor) {
  for (int i = 0; i < b->from->states.count; i++) {
    if (b->state_tensor[i] == tensor) return i;
  }
  return -1;
}

static bool is_update(const builder *b, value_id id, int *state) {
  for (int s = 0; s < b->from->states.count; s++) {
    *state = s;
    if (b->body->tensors.items[b->state_tensor[s]].assigned == id) return true;
  }
  return false;
}

static void visit(builder *b, value_id id) {
  const typed_value *v = &b->body->values.items[id];
  int state;
  if (is_update(b, id, &state)) {
    b->linears[id] = bare_state(b, state, false);
  } else if (v->op == VALUE_PREVIOUS) {
    b->linears[id] = bare_state(b, state_of_tensor(b, v->index), true);
  } else {
    bool any = false;
    for (int k = 0; k < value_arity(v->op); k++) any |= b->linears[v->args[k]] != NULL;
    if (any) visit_linear(b, id);
  }
}

// Visits what a value is made of, in order. A state's update counts as the state itself; its parts come when it is read.
static void visit_all(builder *b, value_id id) {
  bool *needed = ARENA_ARRAY(b->arena, bool, id + 1);
  int state;
  needed[id] = true;
  for (value_id i = id; i >= 0; i--) {
    if (!needed[i] || b->visited[i] || is_update(b, i, &state)) continue;
    const typed_value *v = &b->body->values.items[i];
    for (int k = 0; k < value_arity(v->op); k++) needed[v->args[k]] = true;
  }
  for (value_id i = 0; i <= id && !b->reason; i++) {
    if (!needed[i] || b->visited[i]) continue;
    visit(b, i);
    b->visited[i] = true;
  }
}

// ---- states -------------------------------------------------------------------------------------------------------------

// A value of a state's update that must be known for all steps at once.
static tile_id part_of_update(builder *b, value_id id) {
  visit_all(b, id);
  if (!b->reason && b->linears[id]) refuse(b, "an update uses a state that is not summed");
  return b->reason ? tile_number(b->program, 0) : pure(b, id);
}

static void make_log_decay(builder *b, int state) {
  const state_structure *s = &b->from->states.items[state];
  b->log_decay[state] = NO_TILE;
  if (s->decay == NO_VALUE) return;
  if (s->log_decay == NO_VALUE) {
    refuse(b, arena_printf(b->arena, "the decay of %s is not formed as an exponential",
                           tensor_name(b, state)));
    return;
  }
  tile_id g = lower_valid(b->program, part_of_update(b, s->log_decay));
  if (axes_of(b, g) & (s->key_axes | s->value_axes)) {
    refuse(b, arena_printf(b->arena, "the decay of %s differs along its keys or values",
                           tensor_name(b, state)));
  }
  b->log_decay[state] = g;
}

// The decay and the products of the increment; false if there is a reason against a chunk program.
static bool make_parts(builder *b, int state) {
  if (b->reason || b->progress[state] == MADE) return !b->reason;
  if (b->progress[state] == IN_WORK) {
    refuse(b, "an update reads its own state");
    return false;
  }
  b->progress[state] = IN_WORK;
  const state_structure *s = &b->from->states.items[state];
  make_log_decay(b, state);
  if (!b->reason && s->increment != NO_VALUE) {
    tile_id increment = part_of_update(b, s->increment);
    b->increments[state] = products_of(b, increment, s->key_axes, s->value_axes);
  }
  b->progress[state] = MADE;
  return !b->reason;
}

// S' = exp(total) S + sum over the steps of k (v * suffix)
static void add_next_state(builder *b, int state) {
  if (!make_parts(b, state)) return;
  tile_program *p = b->program;
  const state_structure *s = &b->from->states.items[state];
  int tensor = b->state_tensor[state];
  tile_id g = b->log_decay[state];
  tile_id total = g == NO_TILE ? NO_TILE : tile_reduce(p, TILE_SUM, g, time_bit(b));
  tile_id suffix = exp_of(b, along_time(b, TILE_PREFIX, g, 3));
  tile_id before = lower_tensor(p, b->body, TILE_STATE, tensor).re;
  tile_id next = tile_binary(p, TILE_MUL, exp_of(b, total), before);
  for (int i = 0; i < b->increments[state].count; i++) {
    const tiles *product = &b->increments[state].items[i];
    tile_id k = keys_of(b, product, s->key_axes);
    tile_id v = tile_binary(p, TILE_MUL, values_of(b, product, s->key_axes), suffix);
    next = tile_binary(p, TILE_ADD, next, tile_dot(p, k, v, time_bit(b)));
  }
  lower_result(p, b->body, TILE_NEXT_STATE, tensor, (tile_pair){next, NO_TILE});
}

static void add_outputs(builder *b) {
  for (int i = 0; i < b->body->tensors.count && !b->reason; i++) {
    const typed_tensor *tensor = &b->body->tensors.items[i];
    if (tensor->kind != TENSOR_OUTPUT) continue;
    visit_all(b, tensor->assigned);
    if (b->reason) return;
    if (b->linears[tensor->assigned]) {
      refuse(b,
             arena_printf(b->arena, "the output %s is a state that is not summed", tensor->name));
      return;
    }
    lower_output(b->program, b->body, i, lower_value(&b->values, tensor->assigned));
  }
}

static void check_states(builder *b) {
  if (b->from->states.count == 0) refuse(b, "there is no state");
  if (b->body->lags.count > 0) refuse(b, "values of earlier steps are read");
  for (int i = 0; i < b->from->states.count; i++) {
    const state_structure *s = &b->from->states.items[i];
    if (s->class != STATE_SCALAR_DECAY) {
      refuse(b, arena_printf(b->arena, "%s has no scalar decay", tensor_name(b, i)));
    }
    if (b->body->tensors.items[b->state_tensor[i]].complex) refuse(b, "a state is complex");
  }
}

static builder builder_new(arena *a, const recurrence *from, int length) {
  const typed_body *body = &from->body;
  int states = from->states.count;
  builder b = {.arena = a, .from = from, .body = body};
  const char *name = arena_printf(a, "%s.forward", body->name);
  b.program = tile_program_new(a, name, body, TILE_CHUNK, length);
  b.values = lowering_new(b.program, body);
  b.linears = ARENA_ARRAY(a, linear *, body->values.count);
  b.state_tensor = ARENA_ARRAY(a, int, states);
  b.log_decay = ARENA_ARRAY(a, tile_id, states);
  b.increments = ARENA_ARRAY(a, products, states);
  b.progress = ARENA_ARRAY(a, part_progress, states);
  b.visited = ARENA_ARRAY(a, bool, body->values.count);
  int next = 0;
  for (int i = 0; i < body->tensors.count; i++) {
    if (body->tensors.items[i].kind == TENSOR_STATE && next < states) b.state_tensor[next++] = i;
  }
  return b;
}

tile_program *chunk_build_scalar_decay(arena *a, const recurrence *from, int length,
                                       const char **reason) {
  builder b = builder_new(a, from, length);
  check_states(&b);
  lower_declare(b.program, b.body);
  if (!b.reason) add_outputs(&b);
  for (int i = 0; i < from->states.count && !b.reason; i++) add_next_state(&b, i);
  if (b.reason) {
    *reason = b.reason;
    return NULL;
  }
  tile_find_grid(b.program);
  return tile_simplify(a, tile_drop_unused(a, b.program));
}
