// Sums over keys and heads of a state together, taken apart: the chunk builders read a state by
// sums over its keys.
//
//   S = a * S[t-1] + k * v          k[R,K], v[R,V]: R is a head, K are keys
//   y = sum[R,K](q * S)       ->    y = sum[R](sum[K](q * S))
#include "compiler/recurrence/normalise.h"
#include "compiler/recurrence/structure.h"

typedef struct roles {
  axis_set keys, heads;
} roles;

static roles roles_of_state(arena *memory, const recurrence *r, int tensor,
                            const state_structure *s) {
  axis_set summed = s->key_axes ? axes_summed_by_reads(memory, &r->body, tensor) : 0;
  return (roles){s->key_axes, summed & ~s->key_axes};
}

static roles *roles_of_tensors(arena *memory, const recurrence *r) {
  roles *of = ARENA_ARRAY(memory, roles, r->body.tensors.count);
  int state = 0;
  for (int i = 0; i < r->body.tensors.count; i++)
    if (r->body.tensors.items[i].kind == TENSOR_STATE)
      of[i] = roles_of_state(memory, r, i, &r->states.items[state++]);
  return of;
}

// The axes of the states that a value holds without a sum.
static roles roles_in_value(const typed_body *body, const roles *of_tensor, const roles *of_value,
                            const typed_value *v) {
  roles all = v->op == VALUE_PREVIOUS ? of_tensor[v->index] : (roles){0};
  for (int k = 0; k < value_arity(v->op); k++) {
    if (body->values.items[v->args[k]].op == VALUE_SUM) continue;
    all.keys |= of_value[v->args[k]].keys;
    all.heads |= of_value[v->args[k]].heads;
  }
  return all;
}

typedef struct last_sums {
  const typed_body *from;
  axis_set *last;  // by value: the axes that a sum sums last
} last_sums;

// A sum over some axes is one over the others, then one over those.
static value_id with_last_sum(builder *b, const value_id *map, value_id old, void *context) {
  const last_sums *sums = context;
  axis_set last = sums->last[old];
  if (!last) return NO_VALUE;
  typed_value sum = sums->from->values.items[old];
  value_id inner = make_sum(b, map[sum.args[0]], sum.over & ~last);
  sum.args[0] = inner;
  sum.over = last;
  return make_value(b, sum);
}

bool sum_heads_last(arena *memory, recurrence *r) {
  const typed_body *body = &r->body;
  const roles *of_tensor = roles_of_tensors(memory, r);
  roles *of = ARENA_ARRAY(memory, roles, body->values.count);
  axis_set *last = ARENA_ARRAY(memory, axis_set, body->values.count);
  bool any = false;
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    of[i] = roles_in_value(body, of_tensor, of, v);
    if (v->op == VALUE_SUM && v->over & of[i].keys) last[i] = v->over & of[i].heads & ~of[i].keys;
    any |= last[i] != 0;
  }
  last_sums sums = {body, last};
  if (any) r->body = body_rewritten(memory, body, with_last_sum, &sums);
  return any;
}
