// Shift registers: each entry is a value of earlier steps, shifted.
//
//   W = where(index[N] == 0, x, where(index[N] == 1, W[t-1][N = 0], W[t-1][N = 1]))
//
//   entry 2 at step t is x at step t - 2; at step 0 it is entry 1 before the chunk, at step 1 entry 0
#include "compiler/chunk/scan.h"

static tile_pair entry_before(scan *s, int state, int entry) {
  tile_value slice = {.op = TILE_SLICE, .index = s->states[state].shift->axis, .index2 = entry};
  return pair_each(s->program, scan_before(s, state), slice);
}

// An entry at every step, or (`back` 1) before it.
static tile_pair entry_at(scan *s, int state, int entry, int back) {
  const recurrence_shift *shift = s->states[state].shift;
  tile_pair before[SHIFT_ENTRIES_MAX + 1];
  int steps = 0;
  if (back) before[steps++] = entry_before(s, state, entry);
  for (; shift->entries[entry].from >= 0; entry = shift->entries[entry].from)
    before[steps++] = entry_before(s, state, shift->entries[entry].from);
  tile_pair x = scan_value(s, shift->entries[entry].value,
                           arena_printf(s->arena, "the update of %s", scan_state_name(s, state)));
  return s->reason ? x : lag_shifted(s, x, steps, before);
}

tile_pair shift_previous(scan *s, int state, int entry) { return entry_at(s, state, entry, 1); }

// Entries, one for each number along the axis.
static tile_pair together(scan *s, int state, const tile_pair *entries) {
  const recurrence_shift *shift = s->states[state].shift;
  tile_pair all = entries[shift->count - 1];
  tile_id index = tile_leaf(s->program, TILE_INDEX, shift->axis);
  for (int i = shift->count - 2; i >= 0; i--) {
    tile_id here = tile_binary(s->program, TILE_EQUAL, index, tile_number(s->program, i));
    all = pair_where(s->program, here, entries[i], all);
  }
  return all;
}

tile_pair shift_steps(scan *s, int state) {
  tile_pair entries[SHIFT_ENTRIES_MAX];
  for (int i = 0; i < s->states[state].shift->count; i++) entries[i] = entry_at(s, state, i, 0);
  return together(s, state, entries);
}

tile_pair shift_next(scan *s, int state) {
  tile_pair entries[SHIFT_ENTRIES_MAX];
  for (int i = 0; i < s->states[state].shift->count; i++)
    entries[i] = sequence_at_end(s, entry_at(s, state, i, 0), 0);
  return together(s, state, entries);
}
