// Autonomous states: no input and no other state enters their update, which may be anything. A chunk makes their steps one
// after another, from the state before it.
//
//   n = where(n[t-1] >= 7, 0, n[t-1] + 1)     n0 = where(n >= 7, 0, n + 1), n1 = where(n0 >= 7, 0, n0 + 1), ..
//                                             at step t: n0 where t == 0, n1 where t == 1, ..
#include "compiler/chunk/scan.h"

// Operations of the update times steps of a chunk: the chunk program has a value for each.
enum { AUTONOMOUS_VALUES_MAX = 1024 };

static bool is_elementwise(const typed_value *v) {
  switch (v->op) {
    case VALUE_INPUT:
    case VALUE_LAG:
    case VALUE_SUM:
    case VALUE_MAX_OVER:
    case VALUE_MIN_OVER:
    case VALUE_RENAME:
    case VALUE_SLICE: return false;
    default: return true;
  }
}

bool autonomous_fits(const scan *s, int state) {
  int tensor = s->states[state].tensor, operations = 0;
  value_id update = s->body->tensors.items[tensor].assigned;
  bool *needed = ARENA_ARRAY(s->arena, bool, update + 1);
  needed[update] = true;
  for (value_id i = update; i >= 0; i--) {
    const typed_value *v = &s->body->values.items[i];
    if (!needed[i]) continue;
    if (!is_elementwise(v) || (v->op == VALUE_PREVIOUS && v->index != tensor)) return false;
    operations += value_arity(v->op) > 0;
    for (int k = 0; k < value_arity(v->op); k++) needed[v->args[k]] = true;
  }
  return operations * s->program->chunk <= AUTONOMOUS_VALUES_MAX;
}

static value_id previous_of(const scan *s, int tensor) {
  for (int i = 0; i < s->body->values.count; i++) {
    const typed_value *v = &s->body->values.items[i];
    if (v->op == VALUE_PREVIOUS && v->index == tensor) return i;
  }
  return NO_VALUE;
}

tile_pair autonomous_steps(scan *s, int state) {
  int tensor = s->states[state].tensor;
  value_id previous = previous_of(s, tensor), update = s->body->tensors.items[tensor].assigned;
  tile_pair now = scan_before(s, state), all = now;
  tile_id t = tile_leaf(s->program, TILE_INDEX, s->program->time_axis);
  for (int step = 0; step < s->program->chunk; step++) {
    lowering values = lowering_new(s->program, s->body);
    lowering_set(&values, previous, now);
    now = lower_value(&values, update);
    tile_id here = tile_binary(s->program, TILE_EQUAL, t, tile_number(s->program, step));
    all = pair_where(s->program, here, now, all);
  }
  return all;
}
