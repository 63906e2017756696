// Removes from a body what nothing needs: the branch that a constant condition did not take, unused
// lets, repeated attempts at a fold. What remains keeps its order.
//
//   %0 [] = input a           %0 [] = input a
//   %1 [] = lag a 1           %1 [] = exp %0  "y"
//   %2 [] = exp %0  "y"
//   output y = %2             output y = %1
#include "compiler/sema/typed.h"

// Marks what states, outputs and used lag buffers need. Operands stand before their users, but a
// lag buffer's source may stand after the LAG that reads it. The sweep is therefore repeated until
// no buffer is added.
static void mark_needed_values(const typed_body *body, bool *needed, bool *lag_needed) {
  for (int i = 0; i < body->tensors.count; i++) {
    value_id assigned = body->tensors.items[i].assigned;
    if (assigned >= 0) needed[assigned] = true;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = body->values.count - 1; i >= 0; i--) {
      if (!needed[i]) continue;
      const typed_value *v = &body->values.items[i];
      for (int k = 0; k < value_arity(v->op); k++) needed[v->args[k]] = true;
      if (v->op == VALUE_LAG && !lag_needed[v->index]) {
        lag_needed[v->index] = true;
        value_id remembered = body->lags.items[v->index].source;
        changed |= !needed[remembered];
        needed[remembered] = true;
      }
    }
  }
}

void body_prune(arena *memory, typed_body *body) {
  int count = body->values.count;
  bool *needed = ARENA_ARRAY(memory, bool, count);
  bool *lag_needed = ARENA_ARRAY(memory, bool, body->lags.count);
  value_id *moved = ARENA_ARRAY(memory, value_id, count);
  int *lag_moved = ARENA_ARRAY(memory, int, body->lags.count);
  mark_needed_values(body, needed, lag_needed);

  int kept = 0, kept_lags = 0;
  for (int i = 0; i < body->lags.count; i++) {
    lag_moved[i] = kept_lags;
    if (lag_needed[i]) body->lags.items[kept_lags++] = body->lags.items[i];
  }
  body->lags.count = kept_lags;
  for (int i = 0; i < kept_lags; i++) body->lags.items[i].depth = 0;
  for (int i = 0; i < count; i++) {
    moved[i] = NO_VALUE;
    if (!needed[i]) continue;
    typed_value v = body->values.items[i];
    for (int k = 0; k < value_arity(v.op); k++) v.args[k] = moved[v.args[k]];
    if (v.op == VALUE_LAG) {
      v.index = lag_moved[v.index];
      int *depth = &body->lags.items[v.index].depth;
      if (v.steps > *depth) *depth = v.steps;
    }
    moved[i] = kept;
    body->values.items[kept++] = v;
  }
  body->values.count = kept;
  for (int i = 0; i < kept_lags; i++)
    body->lags.items[i].source = moved[body->lags.items[i].source];
  for (int i = 0; i < body->tensors.count; i++) {
    value_id *assigned = &body->tensors.items[i].assigned;
    if (*assigned >= 0) *assigned = moved[*assigned];
  }
}
