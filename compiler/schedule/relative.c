// Running maxima in time slices: sums of logarithms as additional states.
//
//   state m[H], C[H,K,V]   ->   next m relative m, next C relative m, next m transfer relative m (F), next C transfer (D)
//
// The program is built from a copy of the recurrence in which F and D are states. There they share
// values with the decays of the other states.
#include "compiler/schedule/relative.h"

static const recurrence_relative *find(const recurrence_relatives *all, const tile_place *place) {
  for (int i = 0; i < all->count && place->lag < 0; i++) {
    const recurrence_relative *r = &all->items[i];
    if (place->tensor >= 0 && (place->tensor == r->state || place->tensor == r->sum)) return r;
  }
  return NULL;
}

static void mark_relative(const recurrence *r, const recurrence_relatives *all, tile_place *place) {
  bool of_state = place->role == TILE_STATE || place->role == TILE_NEXT_STATE;
  const recurrence_relative *found = of_state ? find(all, place) : NULL;
  if (!found) return;
  place->relative = 1 + found->maximum;
  place->transfer = place->tensor != found->state;
  place->tensor = found->state;
  place->name = r->body.tensors.items[found->state].name;
}

const tile_program *schedule_relative(arena *a, const recurrence *r, const tile_program *forward) {
  recurrence_relatives all = {0};
  const char *reason;
  const recurrence *with = recurrence_with_sums(a, r, &all);
  if (!with) return forward;
  tile_program *p = forward->form == TILE_STEP
                        ? chunk_build_step(a, with)
                        : chunk_build_linear_scan(a, with, forward->chunk, &reason);
  if (!p || p->chunk != forward->chunk || p->grid != forward->grid) return forward;
  for (int i = 0; i < p->arguments.count; i++) mark_relative(r, &all, &p->arguments.items[i]);
  for (int i = 0; i < p->results.count; i++) mark_relative(r, &all, &p->results.items[i].place);
  return p;
}
