// The plans of a kernel and the memory that they take, for one clone.
#include "compiler/plan/kernel_plan.h"

static void place_around(kernel_plan *w, program_plan *p) {
  kernel_place_carried(w, p);
  kernel_place_pads(w, p);
}

kernel_plan kernel_plan_for(arena *a, const codegen_kernel *described, const kernel *k, codegen_clone clone, number_type dtype) {
  return (kernel_plan){.a = a, .k = k, .described = described, .m = kernel_mapping_of(k, clone, dtype)};
}

void kernel_plan_make(kernel_plan *w) {
  w->in_tiles = gpu_has_value_tiles(w->k);
  w->recomputes = kernel_reads_saved(w->k) && w->k->recompute;
  if (w->recomputes && w->k->program->form == TILE_CHUNK) {
    gpu_plan_chunks(w);
    gpu_place_columns(w);
    return;
  }
  if (w->recomputes) kernel_plan_program(w, &w->recompute, w->k->recompute, false);
  bool back = w->k->kind == KERNEL_BACKWARD || w->k->kind == KERNEL_SUMMARY_BACK;
  kernel_plan_program(w, &w->main, w->k->program, back);
  w->register_pressure = gpu_has_register_pressure(w);
  w->m.looped = w->register_pressure && (w->recomputes || gpu_carries_many(w));
  if (w->recomputes) place_around(w, &w->recompute);
  place_around(w, &w->main);
  if (w->m.kind != MAP_LANES) gpu_place_sums(w);
  bool dense = gpu_place_matrices(w);
  if (dense) gpu_place(w);  // each step reads its buffers again and again, what is kept of a chunk once or twice
  kernel_place_history(w, &w->main);
  kernel_place_stashes(w);
  if (w->m.kind != MAP_LANES) {
    if (!dense) gpu_place(w);
    kernel_place_kept(w, &w->main);
    gpu_place_columns(w);
    return;
  }
  kernel_place_scratch(w, &w->main);
  if (w->recomputes) kernel_place_scratch(w, &w->recompute);
  kernel_place_kept(w, &w->main);
}

codegen_bytes kernel_bytes_of(const kernel_plan *w) {
  int64_t size = w->m.f64 ? 8 : 4;
  if (w->in_tiles)
    return (codegen_bytes){.constant = (w->shared_numbers + w->instance_numbers * gpu_most_value_tiles(w->k)) * size + 64};
  codegen_bytes bytes = {.constant = w->shared_numbers * size + 64, .per_instance = w->instance_numbers * size};
  for (int i = 0; i < w->sized.count; i++) {
    const extent *block = &w->sized.items[i];
    codegen_bytes_add(w->a, &bytes, (codegen_bytes_term){block->factor * size, block->sizes});
  }
  return bytes;
}
