// States after a chunk, or a step, take the place of the states before it.
//
//   next C = %17 (in a buffer)      ->    C <- %17
//   next C = %17{E->D}              ->    C <- %17
//   next a = b, next b = a          ->    staging a <- b, staging b <- a;  a <- staging a, b <- staging b
//
// A state that a nest has updated in place (carried_pair.in_place) needs no copy.
#include "compiler/lower/nests.h"

// All new states are read before one is written: they may be index maps of each other's old values.
void lower_commit(lower *l) {
  int count = l->p->carried_count;
  view *staged = ARENA_ARRAY(l->e->a, view, count);
  for (int c = 0; c < count; c++) {
    const carried_pair *pair = &l->p->carried[c];
    if (pair->in_place || pair->result < 0) continue;
    const tile_result *r = &l->p->program->results.items[pair->result];
    axis_set axes = tile_place_axes(l->p->program, &r->place);
    lower_line(l, r->value);
    axis_set tile = plan_tile_axes(l->m, axes);
    bool lane = l->m->lane_axis >= 0 && axis_in(axes, l->m->lane_axis);
    if (pair->staging < 0) {
      staged[c] = value_view(l, r->value);
      continue;
    }
    staged[c] = lower_buffer(l, pair->staging);
    value_copy copy = {.from = r->value, .to = staged[c], .axes = axes, .apart = -1};
    lower_copies(l, tile, lane, lower_copy_value, &copy);
  }
  bool waited = false;
  for (int c = 0; c < count; c++) {
    const carried_pair *pair = &l->p->carried[c];
    if (pair->in_place || pair->result < 0) continue;
    const tile_result *r = &l->p->program->results.items[pair->result];
    axis_set axes = tile_place_axes(l->p->program, &r->place);
    (waited ? lower_copy_beside : lower_copy_view)(l, &staged[c], &l->carried[c], axes);
    waited = true;
  }
}
