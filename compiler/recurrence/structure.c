// Linearity: the class of every state, the cheapest that fits.
//
//   1  on no cycle of dependences, but for entries   delay
//      of a shift register (shift.c)
//   2  coupled with other states or a lag buffer     linear or nonlinear
//   3  max(f + S[t-1], i)                            max plus
//   4  decay * S[t-1] + increment                    scalar decay, axis decay or elementwise,
//                                                    by the axes
//   5  the same with sums over the state             low rank
//   6  affine in another way (dense, slices)         linear
//   7  anything else                                 nonlinear
#include "compiler/recurrence/structure.h"

#include <string.h>

#include "compiler/recurrence/decay.h"
#include "compiler/recurrence/normalise.h"

typedef struct finder {
  arena *memory;
  typed_body *body;
  builder builder;
  state_graph graph;
} finder;

static void set_limit(state_structure *s, value_id limit, const char *reason) {
  s->limit = limit;
  s->limit_reason = reason;
}

// ---- max plus -----------------------------------------------------------------------------------

// max(shift + leaf, floor); NO_VALUE: shift 0, no floor.
typedef struct tropical {
  bool fits;
  value_id shift, floor;
} tropical;

static tropical tropical_form(finder *f, const bool *depends, value_id id, value_id leaf,
                              int depth) {
  typed_value v = *value_at(&f->builder, id);
  tropical none = {false, NO_VALUE, NO_VALUE}, t;
  if (id == leaf) return (tropical){true, NO_VALUE, NO_VALUE};
  if (depth > 64 || value_arity(v.op) != 2) return none;
  bool first = depends[v.args[0]];
  value_id inner = v.args[first ? 0 : 1], other = v.args[first ? 1 : 0];
  if (depends[other]) return none;
  t = tropical_form(f, depends, inner, leaf, depth + 1);
  if (!t.fits) return none;
  switch (v.op) {
    case VALUE_MAX:
      t.floor = t.floor == NO_VALUE ? other : make_binary(&f->builder, VALUE_MAX, t.floor, other);
      return t;
    case VALUE_ADD:
      t.shift = make_added(&f->builder, t.shift, other, false);
      if (t.floor != NO_VALUE) t.floor = make_binary(&f->builder, VALUE_ADD, t.floor, other);
      return t;
    case VALUE_SUB:
      if (!first) return none;
      t.shift = t.shift == NO_VALUE ? make_unary(&f->builder, VALUE_NEG, other)
                                    : make_binary(&f->builder, VALUE_SUB, t.shift, other);
      if (t.floor != NO_VALUE) t.floor = make_binary(&f->builder, VALUE_SUB, t.floor, other);
      return t;
    default: return none;
  }
}

static bool find_max_plus(finder *f, const affine_analysis *a, value_id update,
                          state_structure *s) {
  if (value_at(&f->builder, update)->op == VALUE_STOP_GRADIENT)
    update = value_at(&f->builder, update)->args[0];
  tropical t = tropical_form(f, a->depends, update, a->leaf, 0);
  if (!t.fits || t.floor == NO_VALUE) return false;
  s->class = STATE_MAX_PLUS;
  s->log_decay = t.shift;
  s->increment = t.floor;
  return true;
}

// ---- affine -------------------------------------------------------------------------------------

// "the axis K", "the axes H,K".
static const char *axes_in_words(finder *f, axis_set axes) {
  const char *text = body_axes_text(f->memory, f->body, axes);
  return arena_printf(f->memory, "the %s %s", strchr(text, ',') ? "axes" : "axis", text);
}

// Why a decay with some of the key or value axes is no scalar, or with both not even one per axis.
static const char *decay_in_words(finder *f, const state_structure *s, axis_set decay_axes) {
  axis_set keys = decay_axes & s->key_axes, values = decay_axes & s->value_axes;
  if (s->class == STATE_ELEMENTWISE) {
    if (values)
      return arena_printf(f->memory, "mixes %s with %s", axes_in_words(f, keys),
                          axes_in_words(f, values));
    return arena_printf(f->memory, "has %s, and no outer product makes another",
                        axes_in_words(f, keys));
  }
  const char *which = keys && values ? "reads sum over and an outer product makes"
                      : keys         ? "reads sum over"
                                     : "an outer product makes";
  return arena_printf(f->memory, "has %s, which %s", axes_in_words(f, keys | values), which);
}

// Scalar decay, axis decay or elementwise, by the axes of the decay.
static void classify_decay(finder *f, state_structure *s) {
  axis_set decay_axes = s->decay == NO_VALUE ? 0 : value_at(&f->builder, s->decay)->axes;
  // Axes that the decay has are heads rather than values, as long as some value axis remains: heads
  // that share B.
  axis_set beside_heads = s->value_axes & ~decay_axes;
  s->value_axes = beside_heads ? beside_heads
                               : s->value_axes & ~recurrence_decay_heads(
                                                     f->memory, f->body, s->decay, s->log_decay,
                                                     s->key_axes, s->value_axes);
  if (s->key_axes == 0) {
    s->class = STATE_ELEMENTWISE;
    return;
  }
  if (!(decay_axes & (s->key_axes | s->value_axes))) {
    s->class = STATE_SCALAR_DECAY;
    return;
  }
  bool separate = s->value_axes &&
                  decay_separates(&f->builder, s->decay, s->log_decay, s->key_axes, s->value_axes);
  s->class = separate ? STATE_AXIS_DECAY : STATE_ELEMENTWISE;
  set_limit(s, s->decay, decay_in_words(f, s, decay_axes));
}

// The axes of what a decay makes smaller: angles move to reads and writes (chunk/phase.c).
static axis_set axes_of_modulus(finder *f, const state_structure *s) {
  value_id decay = s->log_decay != NO_VALUE ? s->log_decay : s->decay;
  if (decay == NO_VALUE) return 0;
  const typed_value *v = value_at(&f->builder, decay);
  bool apart = s->log_decay != NO_VALUE && v->op == VALUE_COMPLEX;
  return apart ? value_at(&f->builder, v->args[0])->axes : v->axes;
}

static bool are_several(const finder *f, axis_set axes) {
  enum { FEWEST_KEYS = 8 };  // of fewer, products are not worth a decay for each head
  int64_t keys = 1;
  for (int i = 0; i < f->body->axes.count && keys < FEWEST_KEYS; i++) {
    int64_t size = axis_in(axes, i) ? f->body->axes.items[i].size : 1;
    keys = size == TYPED_RUNTIME_SIZE ? FEWEST_KEYS : keys * size;
  }
  return axes && keys >= FEWEST_KEYS;
}

// Keys but those that are heads, or that are summed once others have been. A sum in the state's own
// update goes over keys.
static axis_set keys_without_heads(finder *f, int state, const affine *form,
                                   const state_structure *s) {
  axis_set state_axes = f->body->tensors.items[state].axis_set, keys = s->key_axes;
  axis_set first = keys & ~axes_left_by_sums(f->memory, f->body, state, keys);
  if (axes_of_outer_product(&f->builder, state_axes, s->increment, first)) keys = first;
  keys &= ~axes_of_heads(&f->builder, state_axes, s->increment, keys);
  axis_set decayed = keys & axes_of_modulus(f, s);
  for (int i = 0; i < form->reads.count; i++) decayed &= ~form->reads.items[i].over;
  axis_set fewer = keys & ~axes_left_by_sums(f->memory, f->body, state, keys);
  if (are_several(f, fewer & ~decayed)) fewer &= ~decayed;
  return axes_of_outer_product(&f->builder, state_axes, s->increment, fewer) ? fewer : keys;
}

static void describe_affine(finder *f, int state, const affine *form, state_structure *s) {
  axis_set state_axes = f->body->tensors.items[state].axis_set;
  s->decay = form->factor;
  if (s->decay == NO_VALUE) s->decay = make_number(&f->builder, 0);
  s->log_decay = make_decay_log(&f->builder, s->decay);
  if (s->log_decay == NO_VALUE) s->decay = make_separate_choices(&f->builder, s->decay);
  if (is_the_number(&f->builder, s->decay, 1)) s->decay = s->log_decay = NO_VALUE;
  s->increment = form->rest;
  s->key_axes = axes_summed_by_reads(f->memory, f->body, state);
  s->key_axes = keys_without_heads(f, state, form, s);
  s->value_axes = axes_of_outer_product(&f->builder, state_axes, s->increment, s->key_axes);
  if (form->reads.count == 0) {
    classify_decay(f, s);
    return;
  }
  s->class = STATE_LOW_RANK;
  set_limit(s, form->reads.items[0].source,
            arena_printf(f->memory, "sums %s[t-1] into its own update: a low-rank term",
                         f->body->tensors.items[state].name));
}

// ---- coupled states -----------------------------------------------------------------------------

// How a value depends on the states and lag buffers of one cycle.
typedef struct joint {
  int degree;      // 0: not at all, 1: linearly, 2: otherwise
  value_id limit;  // degree 2: the operation that is not linear
} joint;

static bool on_cycle(const finder *f, const typed_value *v, int node) {
  int other = v->op == VALUE_PREVIOUS ? f->graph.node_of_state[v->index]
              : v->op == VALUE_LAG    ? f->graph.node_of_lag[v->index]
                                      : -1;
  return other >= 0 && (other == node || node_coupled(&f->graph, other, node));
}

static joint join_operands(const joint *of, const typed_value *v, value_id id) {
  unsigned dependent = 0;
  for (int k = 0; k < value_arity(v->op); k++) {
    const joint *operand = &of[v->args[k]];
    if (operand->degree == 2) return *operand;
    if (operand->degree == 1) dependent |= 1u << k;
  }
  if (!dependent) return (joint){0, NO_VALUE};
  return value_is_linear_in(v->op, dependent) ? (joint){1, NO_VALUE} : (joint){2, id};
}

static joint joint_degree(finder *f, int node, value_id update) {
  joint *of = ARENA_ARRAY(f->memory, joint, update + 1);
  for (int i = 0; i <= update; i++) {
    const typed_value *v = value_at(&f->builder, i);
    of[i] = on_cycle(f, v, node) ? (joint){1, NO_VALUE} : join_operands(of, v, i);
  }
  return of[update];
}

static const char *partner_name(const finder *f, int node) {
  for (int i = 0; i < f->body->tensors.count; i++) {
    int other = f->graph.node_of_state[i];
    if (other >= 0 && other != node && node_coupled(&f->graph, node, other))
      return f->body->tensors.items[i].name;
  }
  for (int i = 0; i < f->body->lags.count; i++) {
    int other = f->graph.node_of_lag[i];
    if (other >= 0 && node_coupled(&f->graph, node, other))
      return arena_printf(f->memory, "%s.lag", f->body->lags.items[i].name);
  }
  return NULL;
}

// A value that is not linear in the states and lag buffers of the cycle of `node`, among those that
// make the next ones.
static value_id find_nonlinear(finder *f, int node) {
  for (int i = 0; i < f->body->tensors.count + f->body->lags.count; i++) {
    int lag = i - f->body->tensors.count;
    int other = lag < 0 ? f->graph.node_of_state[i] : f->graph.node_of_lag[lag];
    if (other < 0 || (other != node && !node_coupled(&f->graph, node, other))) continue;
    joint j = joint_degree(
        f, node, lag < 0 ? f->body->tensors.items[i].assigned : f->body->lags.items[lag].source);
    if (j.degree == 2) return j.limit;
  }
  return NO_VALUE;
}

static void classify_coupled(finder *f, int node, const char *partner, state_structure *s) {
  value_id nonlinear = find_nonlinear(f, node);
  s->class = nonlinear == NO_VALUE ? STATE_LINEAR : STATE_NONLINEAR;
  set_limit(s, nonlinear,
            nonlinear == NO_VALUE
                ? arena_printf(f->memory, "is coupled with %s", partner)
                : arena_printf(f->memory, "reads coupled states (%s among them)", partner));
}

// ---- one state ----------------------------------------------------------------------------------

static void classify(finder *f, int state, state_structure *s) {
  int node = f->graph.node_of_state[state];
  value_id update = f->body->tensors.items[state].assigned;
  s->stratum = f->graph.level[node];
  const char *partner = partner_name(f, node);
  recurrence_shift shift;
  if (!node_reaches(&f->graph, node, node) ||
      (!partner && recurrence_is_shift(f->memory, f->body, state, &shift))) {
    s->class = STATE_DELAY;
    s->increment = update;
    return;
  }
  if (partner) {
    classify_coupled(f, node, partner, s);
    return;
  }
  const char *leaf_text = arena_printf(f->memory, "%s[t-1]", f->body->tensors.items[state].name);
  affine_analysis analysis = affine_begin(&f->builder, previous_value(f->body, state), leaf_text);
  const affine *form = affine_form(&analysis, update);
  if (form->split) {
    describe_affine(f, state, form, s);
  } else if (!find_max_plus(f, &analysis, update, s)) {
    s->class = form->linear ? STATE_LINEAR : STATE_NONLINEAR;
    set_limit(s, form->limit, form->reason);
  }
}

static const state_structure unknown_structure = {
    .decay = NO_VALUE, .log_decay = NO_VALUE, .increment = NO_VALUE, .limit = NO_VALUE};

void find_structure(arena *memory, recurrence *r) {
  finder f = {memory, &r->body, builder_new(memory, &r->body), state_graph_make(memory, &r->body)};
  r->states.count = r->stratum_count = 0;
  for (int i = 0; i < r->body.tensors.count; i++) {
    if (r->body.tensors.items[i].kind != TENSOR_STATE) continue;
    state_structure s = unknown_structure;
    classify(&f, i, &s);
    vec_push(memory, &r->states, s);
    if (s.stratum >= r->stratum_count) r->stratum_count = s.stratum + 1;
  }
}
