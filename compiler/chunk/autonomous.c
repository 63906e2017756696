// Autonomous states: no input and no other state enters their update, which a few cheap operations make. A chunk makes their
// steps one after another, from the state before it.
//
//   n = where(n[t-1] >= 7, 0, n[t-1] + 1)     n0 = where(n >= 7, 0, n + 1), n1 = where(n0 >= 7, 0, n0 + 1), ..
//                                             at step t: n0 where t == 0, n1 where t == 1, ..
#include "compiler/chunk/scan.h"

// Operations of the update times steps of a chunk: the chunk program has a value for each.
enum { AUTONOMOUS_VALUES_MAX = 512 };

// Entry by entry, in an instruction or two: a chunk keeps a register for each of the steps.
static bool is_cheap(value_op op) {
  switch (op) {
    case VALUE_NUMBER:
    case VALUE_AXIS_SIZE:
    case VALUE_INDEX:
    case VALUE_PARAM:
    case VALUE_PREVIOUS:
    case VALUE_NEG:
    case VALUE_ADD:
    case VALUE_SUB:
    case VALUE_MUL:
    case VALUE_DIV:
    case VALUE_MIN:
    case VALUE_MAX:
    case VALUE_ABS:
    case VALUE_RELU:
    case VALUE_LESS:
    case VALUE_LESS_EQUAL:
    case VALUE_GREATER:
    case VALUE_GREATER_EQUAL:
    case VALUE_EQUAL:
    case VALUE_WHERE:
    case VALUE_STOP_GRADIENT: return true;
    default: return false;
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
    if (!is_cheap(v->op) || (v->op == VALUE_PREVIOUS && v->index != tensor)) return false;
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
