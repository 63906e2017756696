// The step program: one step of any recurrence. With its derived backward it is the fallback for
// everything.
//
//   S = a * S[t-1] + k * v          %0 = argument input a   %3 = argument state S
//   y = sum[K](q * S)         ->    %5 = add (mul %0 %3) (mul %1 %2)
//                                   result next S = %5, result output y = sum (mul %4 %5) over K
//
// A lag buffer is a state for each of its slots. Slot 0 is the oldest value. After the step every
// slot holds the value of the next slot, and the last slot holds the value itself.
#include "compiler/chunk/chunk.h"
#include "compiler/chunk/lower.h"

static void set_lag_reads(lowering *l) {
  const typed_body *body = l->body;
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    if (v->op != VALUE_LAG) continue;
    int slot = body->lags.items[v->index].depth - v->steps;
    lowering_set(l, i, lower_lag(l->program, body, v->index, slot));
  }
}

static void add_lag_results(lowering *l) {
  tile_program *p = l->program;
  for (int lag = 0; lag < l->body->lags.count; lag++) {
    const typed_lag *buffer = &l->body->lags.items[lag];
    tile_pair newest = lower_value(l, buffer->source);
    for (int slot = 0; slot < buffer->depth; slot++) {
      tile_pair value = slot + 1 < buffer->depth ? lower_lag(p, l->body, lag, slot + 1) : newest;
      lower_lag_result(p, l->body, lag, slot, value);
    }
  }
}

tile_program *chunk_build_step(arena *a, const recurrence *from) {
  const typed_body *body = &from->body;
  tile_program *p =
      tile_program_new(a, arena_printf(a, "%s.forward", body->name), body, TILE_STEP, 1);
  lower_declare(p, body);
  lowering l = lowering_new(p, body);
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    if (v->op == VALUE_PREVIOUS) lowering_set(&l, i, lower_tensor(p, body, TILE_STATE, v->index));
  }
  set_lag_reads(&l);
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *tensor = &body->tensors.items[i];
    if (tensor->kind == TENSOR_OUTPUT)
      lower_result(p, body, TILE_OUTPUT, i, lower_value(&l, tensor->assigned));
    else if (tensor->kind == TENSOR_STATE)
      lower_result(p, body, TILE_NEXT_STATE, i, lower_value(&l, tensor->assigned));
  }
  add_lag_results(&l);
  tile_find_grid(p);
  return tile_simplify(a, tile_drop_unused(a, p));
}
