// The carry program: what one step makes of the states alone, without what it adds to them.
//
//   S = a * S[t-1] + k * v     ->     %2 = mul %0 %1   result next S = %2
//
// Run over a range of steps from a state of ones it yields the product of the decays there. A state
// after the range is product
// * (state before it) + (state after it, from zero), entry by entry. Cotangents obey the same in
// reverse. Ranges of time can therefore be computed side by side (runtime/support/split.c). That
// needs states that decay element by element, and decays and increments that no state enters.
#include <string.h>

#include "compiler/chunk/chunk.h"
#include "compiler/chunk/lower.h"
#include "compiler/recurrence/structure.h"

// Which values a state from before the step enters.
static bool *values_with_states(arena *a, const typed_body *body) {
  bool *with = ARENA_ARRAY(a, bool, body->values.count);
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    with[i] = v->op == VALUE_PREVIOUS;
    for (int k = 0; k < value_arity(v->op); k++) with[i] |= with[v->args[k]];
  }
  return with;
}

static bool is_separate(const state_structure *s, const bool *with_states) {
  bool decays = s->class == STATE_SCALAR_DECAY || s->class == STATE_AXIS_DECAY ||
                s->class == STATE_ELEMENTWISE;
  return decays && (s->decay == NO_VALUE || !with_states[s->decay]) &&
         (s->increment == NO_VALUE || !with_states[s->increment]);
}

// A body of its own, to which values can be added.
static typed_body copy_of(arena *a, const typed_body *body) {
  typed_body copy = *body;
  copy.values.items = ARENA_ARRAY(a, typed_value, body->values.count);
  memcpy(copy.values.items, body->values.items,
         sizeof *copy.values.items * (size_t)body->values.count);
  copy.values.capacity = body->values.count;
  return copy;
}

tile_program *chunk_build_carry(arena *a, const recurrence *from) {
  if (!from->states.count || from->body.lags.count) return NULL;
  typed_body body = copy_of(a, &from->body);
  const bool *with_states = values_with_states(a, &body);
  value_id *next = ARENA_ARRAY(a, value_id, body.tensors.count);
  int state = 0;
  for (int i = 0; i < body.tensors.count; i++) {
    if (body.tensors.items[i].kind != TENSOR_STATE) continue;
    const state_structure *s = &from->states.items[state++];
    value_id previous = previous_value(&body, i);
    if (previous == NO_VALUE || !is_separate(s, with_states)) return NULL;
    next[i] =
        s->decay == NO_VALUE
            ? previous
            : body_append(a, &body, (typed_value){.op = VALUE_MUL, .args = {s->decay, previous}});
  }
  const char *name = arena_printf(a, "%s.carry", body.name);
  tile_program *p = tile_program_new(a, name, &body, TILE_STEP, 1);
  lowering l = lowering_new(p, &body);
  for (int i = 0; i < body.values.count; i++) {
    const typed_value *v = &body.values.items[i];
    if (v->op == VALUE_PREVIOUS) lowering_set(&l, i, lower_tensor(p, &body, TILE_STATE, v->index));
  }
  for (int i = 0; i < body.tensors.count; i++) {
    if (body.tensors.items[i].kind != TENSOR_STATE) continue;
    lower_result(p, &body, TILE_NEXT_STATE, i, lower_value(&l, next[i]));
  }
  tile_find_grid(p);
  return tile_simplify(a, tile_drop_unused(a, p));
}
