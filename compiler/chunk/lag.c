// Values of earlier steps in a chunk: shifts along the steps.
//
//   x[t-2]     ->     x shifted by 2; at steps 0 and 1 the last two values before the chunk
//
// The buffer has a slot for each of its values, the oldest first. After the chunk, slot d holds the
// value depth - d steps before the end. That is a value of the chunk. Where the chunk (its part
// inside the sequence) is shorter, it is a later slot from before the chunk.
#include "compiler/chunk/scan.h"

static tile_id index_is_number(scan *s, tile_op leaf, int index, int number) {
  return tile_binary(s->program, TILE_EQUAL, tile_leaf(s->program, leaf, index),
                     tile_number(s->program, number));
}

tile_pair lag_shifted(scan *s, tile_pair x, int steps, const tile_pair *before) {
  int t = s->program->time_axis;
  x = pair_on_axes(s->program, TILE_SHIFT, x, t, steps, 0);
  for (int step = 0; step < steps && step < s->program->chunk; step++)
    x = pair_where(s->program, index_is_number(s, TILE_INDEX, t, step), before[step], x);
  return x;
}

tile_pair lag_read(scan *s, const typed_value *v, tile_pair x) {
  int depth = s->body->lags.items[v->index].depth;
  tile_pair *before = ARENA_ARRAY(s->arena, tile_pair, v->steps);
  for (int step = 0; step < v->steps && step < s->program->chunk; step++)
    before[step] = lag_slot_before(s, v->index, depth - v->steps + step);
  return lag_shifted(s, x, v->steps, before);
}

static tile_pair slot_after(scan *s, int lag, int slot, tile_pair x) {
  int depth = s->body->lags.items[lag].depth, back = depth - 1 - slot;
  tile_pair after = pair_number(s->program, 0);
  if (back < s->program->chunk) after = scan_at_end(s, x, back);
  for (int before = slot + 1; before < depth && before - slot <= s->program->chunk; before++) {
    tile_id this_long = index_is_number(s, TILE_LENGTH, 0, before - slot);
    after = pair_where(s->program, this_long, lag_slot_before(s, lag, before), after);
  }
  return after;
}

void lag_results(scan *s, int lag, tile_pair x) {
  for (int slot = 0; slot < s->body->lags.items[lag].depth; slot++)
    lower_lag_result(s->program, s->body, lag, slot, slot_after(s, lag, slot, x));
}
