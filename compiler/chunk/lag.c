// Values of earlier steps in a chunk: shifts along the steps.
//
//   x[t-2]     ->     x shifted by 2; at steps 0 and 1 the last two values before the chunk
//
// The buffer has a slot for each of its values, the oldest first. After the chunk, slot d holds the
// value depth - d steps before the end. That is a value of the chunk. Where the chunk (its part
// inside the sequence) is shorter, it is a later slot from before the chunk.
#include "compiler/chunk/scan.h"

static tile_pair steps_of(scan *s, int lag) {
  const typed_lag *buffer = &s->body->lags.items[lag];
  tile_pair none = pair_number(s->program, 0);
  if (s->lag_in_work[lag]) {
    scan_refuse(s, arena_printf(s->arena, "%s depends on its own earlier values", buffer->name));
    return none;
  }
  s->lag_in_work[lag] = true;
  tile_pair x =
      scan_value(s, buffer->source, arena_printf(s->arena, "the lag of %s", buffer->name));
  s->lag_in_work[lag] = false;
  return s->reason ? none : x;
}

static tile_id is_number(scan *s, tile_op leaf, int index, int number) {
  return tile_binary(s->program, TILE_EQUAL, tile_leaf(s->program, leaf, index),
                     tile_number(s->program, number));
}

tile_pair lag_shifted(scan *s, tile_pair x, int steps, const tile_pair *before) {
  int t = s->program->time_axis;
  x = pair_on_axes(s->program, TILE_SHIFT, x, t, steps, 0);
  for (int step = 0; step < steps && step < s->program->chunk; step++)
    x = pair_where(s->program, is_number(s, TILE_INDEX, t, step), before[step], x);
  return x;
}

void lag_read(scan *s, value_id id) {
  const typed_value v = s->body->values.items[id];
  int depth = s->body->lags.items[v.index].depth;
  tile_pair x = steps_of(s, v.index), *before = ARENA_ARRAY(s->arena, tile_pair, v.steps);
  if (s->reason) return;
  for (int step = 0; step < v.steps && step < s->program->chunk; step++)
    before[step] = lag_slot_before(s, v.index, depth - v.steps + step);
  lowering_set(&s->values, id, lag_shifted(s, x, v.steps, before));
}

static tile_pair slot_after(scan *s, int lag, int slot, tile_pair x) {
  int depth = s->body->lags.items[lag].depth, back = depth - 1 - slot;
  tile_pair after = pair_number(s->program, 0);
  if (back < s->program->chunk) after = sequence_at_end(s, x, back);
  for (int before = slot + 1; before < depth && before - slot <= s->program->chunk; before++) {
    tile_id this_long = is_number(s, TILE_LENGTH, 0, before - slot);
    after = pair_where(s->program, this_long, lag_slot_before(s, lag, before), after);
  }
  return after;
}

void lag_slot_result(scan *s, int lag, int slot, tile_pair after) {
  for (int c = 0; c < (s->body->lags.items[lag].complex ? 2 : 1); c++) {
    tile_place place = lower_lag_place(s->body, TILE_NEXT_STATE, lag, slot, c, s->arena);
    tile_add_result(s->program, place, c ? pair_imaginary(s->program, after) : after.re);
  }
}

void lag_results(scan *s) {
  for (int lag = 0; lag < s->body->lags.count && !s->reason; lag++) {
    if (s->lag_is_states && s->lag_is_states[lag]) continue;
    tile_pair x = steps_of(s, lag);
    for (int slot = 0; slot < s->body->lags.items[lag].depth && !s->reason; slot++)
      lag_slot_result(s, lag, slot, slot_after(s, lag, slot, x));
  }
}
