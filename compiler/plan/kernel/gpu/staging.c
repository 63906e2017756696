// GPU: double buffers for the rows of a chunk, where shared memory is left (kernel/gpu/staging.c).
#include "compiler/plan/kernel_plan.h"

bool gpu_is_staged(const program_plan *p, int argument) {
  const tile_place *place = tile_argument_place(p->program, argument);
  return place->time && !kernel_is_saved(p->backward, place);
}

static int64_t words_of(const kernel_plan *w, const program_plan *p, int argument) {
  int64_t numbers = p->pads[argument].row * p->program->chunk;
  if (kernel_stores_narrow(&w->m, tile_argument_place(p->program, argument))) numbers = (numbers + 1) / 2;
  return (numbers + 31) / 32 * 32;  // lines of banks
}

// Neither part reads ahead while the other runs: their second halves may lie in the same place.
static void place_part_ahead(kernel_plan *w, program_plan *p) {
  for (int i = 0; i < p->program->arguments.count; i++) {
    pad *d = &p->pads[i];
    d->ahead = (location){-1, -1, false};
    if (!gpu_is_staged(p, i) || !d->at.on_chip) continue;
    if (gpu_chip_place(w, w->on_chip, words_of(w, p, i)) + words_of(w, p, i) <= w->chip_limit)
      d->ahead = gpu_take(w, words_of(w, p, i));
  }
}

void gpu_place_ahead(kernel_plan *w) {
  if (w->m.kind != MAP_BLOCK || w->k->program->form != TILE_CHUNK) return;
  gpu_choose_bulk(w);
  int64_t begin = w->on_chip;
  place_part_ahead(w, &w->main);
  int64_t end = w->on_chip;
  if (!w->recomputes) return;
  w->on_chip = begin;
  place_part_ahead(w, &w->recompute);
  if (end > w->on_chip) w->on_chip = end;
}
