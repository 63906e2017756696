// GPU: double buffers for the rows of a chunk, where shared memory is left (kernel/gpu/staging.c).
#include "compiler/plan/kernel_plan.h"

static int64_t staging_words(const kernel_plan *w, const program_plan *p, int argument) {
  int64_t numbers = p->staging_buffers[argument].row * p->program->chunk;
  if (kernel_stores_narrow(&w->m, tile_argument_place(p->program, argument)))
    numbers = (numbers + 1) / 2;
  return (numbers + 31) / 32 * 32;  // lines of banks
}

// Neither program copies ahead while the other runs, so their second halves may share memory.
static void place_part_ahead(kernel_plan *w, program_plan *p) {
  bool doubles = !choice_is_left_out(w->k->without, CHOICE_DOUBLE_BUFFERS);
  for (int i = 0; i < p->program->arguments.count; i++) {
    staging_buffer *d = &p->staging_buffers[i];
    d->ahead = (location){-1, -1, false};
    if (!doubles || !gpu_is_staged(p, i) || !d->at.in_shared) continue;
    if (gpu_shared_place(w, w->shared_words, staging_words(w, p, i)) + staging_words(w, p, i) <=
        w->shared_limit)
      d->ahead = gpu_take(w, staging_words(w, p, i));
  }
}

void gpu_place_ahead(kernel_plan *w) {
  if (w->m.kind != MAP_BLOCK || w->k->program->form != TILE_CHUNK) return;
  int64_t begin = w->shared_words;
  place_part_ahead(w, &w->main);
  int64_t end = w->shared_words;
  if (!w->recomputes) return;
  w->shared_words = begin;
  place_part_ahead(w, &w->recompute);
  if (end > w->shared_words) w->shared_words = end;
}
