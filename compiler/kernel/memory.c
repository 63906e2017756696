// The plans of a kernel and the memory that they take, for one clone.
#include "compiler/kernel/frame.h"

static void place_around(kernel_frame *h, part *p) {
  frame_place_carried(h, p);
  frame_place_pads(h, p);
}

void frame_plan(kernel_frame *h) {
  h->tiles.used = gpu_has_passes(h->k);
  h->recomputes = frame_reads_saved(h->k) && h->k->recompute;
  if (h->recomputes && h->k->program->form == TILE_CHUNK) {
    gpu_plan_chunks(h);
    gpu_place_columns(h);
    return;
  }
  if (h->recomputes) frame_plan_program(h, &h->recompute, h->k->recompute, false);
  bool back = h->k->kind == KERNEL_BACKWARD || h->k->kind == KERNEL_PART_BACK;
  frame_plan_program(h, &h->main, h->k->program, back);
  h->crowded = gpu_is_crowded(h);
  h->m.looped = h->crowded && (h->recomputes || gpu_carries_many(h));
  if (h->recomputes) place_around(h, &h->recompute);
  place_around(h, &h->main);
  if (h->m.kind != MAP_LANES) gpu_place_sums(h);
  bool dense = gpu_place_matrices(h);
  if (dense) gpu_place(h);  // each step reads its buffers again and again, what is kept of a chunk once or twice
  frame_place_history(h, &h->main);
  frame_place_stashes(h);
  if (h->m.kind != MAP_LANES) {
    if (!dense) gpu_place(h);
    frame_place_kept(h, &h->main);
    gpu_place_columns(h);
    return;
  }
  frame_place_scratch(h, &h->main);
  if (h->recomputes) frame_place_scratch(h, &h->recompute);
  frame_place_kept(h, &h->main);
}

codegen_bytes frame_bytes_of(const kernel_frame *h) {
  int64_t size = h->m.f64 ? 8 : 4;
  if (h->tiles.used)
    return (codegen_bytes){.constant = (h->shared_numbers + h->instance_numbers * gpu_most_passes(h->k)) * size + 64};
  codegen_bytes bytes = {.constant = h->shared_numbers * size + 64, .per_instance = h->instance_numbers * size};
  for (int i = 0; i < h->sized.count; i++) {
    const extent *block = &h->sized.items[i];
    codegen_bytes_add(h->a, &bytes, (codegen_bytes_term){block->factor * size, block->sizes});
  }
  return bytes;
}
