// Autonomous states: no input and no other state enters their update, which a few cheap operations make. A chunk makes their
// steps one after another, from the state before it.
//
//   n = where(n[t-1] >= 7, 0, n[t-1] + 1)     n0 = where(n >= 7, 0, n + 1), n1 = where(n0 >= 7, 0, n0 + 1), ..
//                                             at step t: n0 where t == 0, n1 where t == 1, ..
//
// After the chunk it is n0 where one step lies inside the sequence, n1 where two do.
#include "compiler/chunk/scan.h"
#include "compiler/recurrence/structure.h"

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

// The state after each step of the chunk.
static tile_pair *steps_of(scan *s, int state) {
  int tensor = s->states[state].tensor;
  value_id previous = previous_value(s->body, tensor), update = s->body->tensors.items[tensor].assigned;
  tile_pair *now = ARENA_ARRAY(s->arena, tile_pair, s->program->chunk), before = scan_before(s, state);
  for (int step = 0; step < s->program->chunk; step++) {
    lowering values = lowering_new(s->program, s->body);
    lowering_set(&values, previous, before);
    before = now[step] = lower_value(&values, update);
  }
  return now;
}

// The value of the step that `leaf` counts, the first being `first`.
static tile_pair chosen(scan *s, const tile_pair *now, tile_id leaf, int first) {
  tile_pair all = now[0];
  for (int step = 1; step < s->program->chunk; step++) {
    tile_id here = tile_binary(s->program, TILE_EQUAL, leaf, tile_number(s->program, first + step));
    all = pair_where(s->program, here, now[step], all);
  }
  return all;
}

tile_pair autonomous_steps(scan *s, int state) {
  return chosen(s, steps_of(s, state), tile_leaf(s->program, TILE_INDEX, s->program->time_axis), 0);
}

tile_pair autonomous_next(scan *s, int state) {
  return chosen(s, steps_of(s, state), tile_leaf(s->program, TILE_LENGTH, 0), 1);
}
