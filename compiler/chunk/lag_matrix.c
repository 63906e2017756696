// Lags of matrices. A value that is a sum of outer products is read some steps later, by sums or in
// an update. Its matrix is never made at every step. Each slot of its lag buffer is a state that
// holds what the slot before it held.
//
//   let u = k * v                              u1 = u            slot 1: what u was a step before
//   S = a * S[t-1] + u + 0.5 * u[t-2]    ->    u2 = u1[t-1]      slot 0: two steps before
//                                              S  = a * S[t-1] + u + 0.5 * u2[t-1]
//
// A state with any decay writes such a product itself, a step after. What a slot holds before the
// chunk joins the state there, behind the decay of the first step.
//
//   S = a * S[t-1] + c * u1[t-1]    ->    S = a * S[t-1] + c * k[t-1] * v[t-1]    from the second step on
//                                         S = a * S[t-1] + c * u1[t-1]            in the first
#include <string.h>

#include "compiler/chunk/scan.h"

enum { DEPTH_MAX = 4 };  // of longer buffers every step is made

static const state_structure of_a_slot = {.class = STATE_DELAY,
                                          .decay = NO_VALUE,
                                          .log_decay = NO_VALUE,
                                          .increment = NO_VALUE,
                                          .limit = NO_VALUE};

static bool lag_fits(const scan *s, int index) {
  const typed_lag *lag = &s->body->lags.items[index];
  bool state = index >= s->declared_lags && s->reads->begins.items[index - s->declared_lags].whole;
  return lag->input < 0 && lag->depth <= DEPTH_MAX &&
         (state || scan_is_outer(s, lag->source, lag->axes));
}

static typed_tensor tensor_of_slot(scan *s, const typed_lag *lag, value_id assigned) {
  typed_tensor t = {
      .kind = TENSOR_STATE, .name = lag->name, .axis_set = lag->axes, .complex = lag->complex};
  t.axes = ARENA_ARRAY(s->arena, int, TYPED_MAX_AXES);
  for (int i = 0; i < TYPED_MAX_AXES; i++)
    if (axis_in(lag->axes, i)) t.axes[t.axis_count++] = i;
  t.assigned = assigned;
  t.span = s->body->values.items[lag->source].span;
  return t;
}

// The state of what the value was `steps` steps ago, from that of one step less.
static void add_lag_slot(scan *s, int lag, int steps) {
  const typed_lag *buffer = &s->body->lags.items[lag];
  int tensor = s->body->tensors.count;
  value_id before = buffer->source;
  if (steps > 1) {
    typed_value previous = {.op = VALUE_PREVIOUS, .index = tensor - 1};
    before = body_append(s->arena, s->body, previous);
  }
  vec_push(s->arena, &s->body->tensors, tensor_of_slot(s, buffer, before));
  vec_each(typed_value, v, s->body->values) {
    if (v->op != VALUE_LAG || v->index != lag || v->steps != steps) continue;
    v->op = VALUE_PREVIOUS;
    v->index = tensor;
    v->steps = 0;
  }
  s->states[s->state_count++] = (scan_state){.structure = &of_a_slot,
                                             .tensor = tensor,
                                             .lag = lag,
                                             .slot = buffer->depth - steps,
                                             .after_decay.re = NO_TILE};
}

bool lag_matrix_make(scan *s) {
  s->lag_is_states = ARENA_ARRAY(s->arena, bool, s->body->lags.count);
  bool any = false;
  for (int lag = 0; lag < s->body->lags.count; lag++) {
    if (!lag_fits(s, lag)) continue;
    s->lag_is_states[lag] = any = true;
    for (int steps = 1; steps <= s->body->lags.items[lag].depth; steps++)
      add_lag_slot(s, lag, steps);
  }
  return any;
}

int lag_matrix_slots(const scan *s) {
  int slots = 0;
  for (int lag = 0; lag < s->body->lags.count; lag++)
    if (lag_fits(s, lag)) slots += s->body->lags.items[lag].depth;
  return slots;
}

// ---- states that write what slots hold ---------------------------------------------------------

static bool adds_slots_alone(const scan *s, const scan_state *state) {
  const axis_set axes = s->body->tensors.items[state->tensor].axis_set;
  vec_each(const scan_product, link, state->sources) {
    const scan_state *slot = &s->states[link->state];
    if (!slot->delayed || slot->sources.count || !link->previous || link->part != PART_WHOLE ||
        s->body->tensors.items[slot->tensor].axis_set != axes)
      return false;
    vec_each(const recurrence_factor, factor, link->factors)
      if (s->unknown[factor->value]) return false;
  }
  return state->sources.count > 0;
}

static void write_slot(scan *s, scan_state *state, const scan_product *link) {
  vec_each(const scan_product, earlier, s->states[link->state].increment.products) {
    scan_product written = *link;
    written.state = -1;
    written.scale *= earlier->scale;
    written.earlier = earlier;
    vec_push(s->arena, &state->increment.products, written);
  }
}

bool lag_matrix_written(scan *s, int index) {
  scan_state *state = &s->states[index];
  if (!adds_slots_alone(s, state) || !scan_is_alone(s, index)) return false;
  tile_pair before = scan_before(s, index);
  if (state->decay_value != NO_VALUE) {
    tile_pair decay = scan_first_step(s, scan_pure(s, state->decay_value));
    before = pair_mul(s->program, decay, before);
  }
  vec_each(const scan_product, link, state->sources) {
    tile_pair factor = scan_first_step(s, coupled_factor(s, link));
    tile_pair added = pair_mul(s->program, factor, scan_before(s, link->state));
    before = pair_linear(s->program, TILE_ADD, before, added);
    write_slot(s, state, link);
  }
  state->sources.count = 0;
  state->after_decay = before;
  state->decay.count = state->phases.count = state->block = 0;
  state->by_start = state->seldom_levels = false;
  decay_make(s, index);
  return true;
}
