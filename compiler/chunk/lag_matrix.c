// Lags of matrices. A value that is a sum of outer products is read some steps later, by sums or in
// an update. Its matrix is never made at every step. Each slot of its lag buffer is a state that
// holds what the slot before it held.
//
//   let u = k * v                              u1 = u            slot 1: what u was a step before
//   S = a * S[t-1] + u + 0.5 * u[t-2]    ->    u2 = u1[t-1]      slot 0: two steps before
//                                              S  = a * S[t-1] + u + 0.5 * u2[t-1]
#include <string.h>

#include "compiler/chunk/scan.h"

enum { DEPTH_MAX = 4 };  // of longer buffers every step is made

static const state_structure of_a_slot = {.class = STATE_DELAY,
                                          .decay = NO_VALUE,
                                          .log_decay = NO_VALUE,
                                          .increment = NO_VALUE,
                                          .limit = NO_VALUE};

static bool lag_fits(const scan *s, const typed_lag *lag) {
  return lag->input < 0 && lag->depth <= DEPTH_MAX && scan_is_outer(s, lag->source, lag->axes);
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
  s->states[s->state_count++] = (scan_state){
      .structure = &of_a_slot, .tensor = tensor, .lag = lag, .slot = buffer->depth - steps};
}

bool lag_matrix_make(scan *s) {
  s->lag_is_states = ARENA_ARRAY(s->arena, bool, s->body->lags.count);
  bool any = false;
  for (int lag = 0; lag < s->body->lags.count; lag++) {
    if (!lag_fits(s, &s->body->lags.items[lag])) continue;
    s->lag_is_states[lag] = any = true;
    for (int steps = 1; steps <= s->body->lags.items[lag].depth; steps++)
      add_lag_slot(s, lag, steps);
  }
  return any;
}

int lag_matrix_slots(const scan *s) {
  int slots = 0;
  for (int lag = 0; lag < s->body->lags.count; lag++)
    if (lag_fits(s, &s->body->lags.items[lag])) slots += s->body->lags.items[lag].depth;
  return slots;
}
