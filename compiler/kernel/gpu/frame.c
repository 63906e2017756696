// GPU: what the files of a kernel's frame ask of it: its fields, and states in memory or in
// registers.
#include "compiler/kernel/gpu/frame.h"

#include "compiler/lower/gpu/nests.h"

ir gpu_frame_number(kernel_frame *h, size_t offset) {
  return frame_field(h, h->frame, (int64_t)offset, h->e->i64);
}

kernel_frame gpu_copy_of(const kernel_frame *h) {
  kernel_frame copy = *h;
  copy.gpu = ARENA_NEW(h->a, gpu_frame);
  *copy.gpu = *h->gpu;
  copy.team = &copy.gpu->team;
  return copy;
}

void gpu_open_program(kernel_frame *h, frame_program *p) {
  frame_open_program(h, p);
  if (h->gpu->team.shares) p->l.since = plan_memory_since(h->a, p->p);
  for (int c = 0; c < p->carried.count; c++)
    if (p->p->carried[c].accumulator >= 0) gpu_accumulators_open(&p->l, c);
}

// ---- states, in memory or in registers ----

const register_accumulators *gpu_registers_of(const frame_program *p, const view *v) {
  for (int c = 0; c < p->carried.count; c++)
    if (v == &p->l.carried[c] && p->p->carried[c].accumulator >= 0) return &p->l.kept[c];
  return NULL;
}

void gpu_copy_state(kernel_frame *h, frame_program *p, const tile_place *place, const view *from,
                    const view *to, bool beside) {
  p->l.outside = h->at;
  if (gpu_registers_of(p, to))
    gpu_accumulators_load(&p->l, gpu_registers_of(p, to), from, tile_body_axes(place));
  else if (gpu_registers_of(p, from))
    gpu_accumulators_store(&p->l, gpu_registers_of(p, from), to, tile_body_axes(place));
  else
    (beside ? lower_copy_beside : lower_copy_view)(&p->l, from, to, tile_body_axes(place));
}

void gpu_show_states(kernel_frame *h, frame_program *p) {
  p->l.outside = h->at;
  for (int c = 0; c < p->carried.count; c++) {
    const view *state = &p->l.carried[c];
    const register_accumulators *kept = gpu_registers_of(p, state);
    if (kept && p->p->carried[c].has_copy)
      gpu_accumulators_show(&p->l, kept, state, tile_body_axes(&p->carried.items[c].place));
  }
}

ir gpu_by_this_thread(kernel_frame *h, ir condition) {
  return h->m.kind == MAP_THREADS ? bit_and(h->e, condition, h->gpu->team.inside) : condition;
}
