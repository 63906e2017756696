// GPU: states of an instance, in memory or in registers. A state is loaded from h0 or cleared, and
// combined from the summaries of earlier slices. It is stored as hT or as the summary of the slice,
// and saved for backward.
#include "compiler/emit/marks.h"
#include "compiler/kernel/gpu/frame.h"
#include "compiler/lower/gpu/nests.h"

// ---- before the first step ----

// A thread block copies by a function, which handles an absent tensor itself: one call. A thread
// behind the end of the lane axis repeats its last entry. It starts from 0: hT may lie where h0
// does, and the thread of that entry may have written it already.
static void load_or_clear(kernel_frame *h, frame_program *p, int c, view *memory, ir there) {
  emitter *e = h->e;
  const tile_place *place = &p->carried.items[c].place;
  if (h->gpu->team.shares && !gpu_registers_of(p, &p->l.carried[c])) {
    memory->present = there;
    frame_copy_state(h, p, place, memory, &p->l.carried[c]);
    return;
  }
  emit_branch branch = branch_begin(e, gpu_by_this_thread(h, there));
  frame_copy_state(h, p, place, memory, &p->l.carried[c]);
  branch_else(e, &branch);
  frame_copy_state(h, p, place, NULL, &p->l.carried[c]);
  branch_end(e, &branch);
}

// Does a slice summary begin with a zero state? Lag buffers of the first slice do not: they hold
// earlier steps.
static bool begins_empty(const kernel *k, const tile_place *place) {
  return gpu_makes_summaries(k) && (place->lag < 0 || k->kind == KERNEL_SUMMARY_BACK);
}

// Loads a state, or 0. A block of the transition matrix then starts from columns of the identity.
static void load_state(kernel_frame *h, frame_program *p, int c) {
  emitter *e = h->e;
  const tile_place *place = &p->carried.items[c].place;
  if (begins_empty(h->k, place)) {
    frame_copy_state(h, p, place, NULL, &p->l.carried[c]);
    gpu_begin_column(h, p, place, &p->l.carried[c]);
    return;
  }
  ir data;
  view memory = frame_memory_view(h, p->backward ? TILE_D_NEXT_STATE : TILE_STATE, place, &data);
  ir there = bit_and(e, is_given(e, data), frame_is_first(h, place->partial));
  if (gpu_makes_summaries(h->k))
    there = bit_and(e, there, int_compare(e, LLVMIntEQ, h->gpu->slice.number, integer(e, 0)));
  load_or_clear(h, p, c, &memory, there);
}

void gpu_load_states(kernel_frame *h, frame_program *p) {
  mark_place(h->e, "states in", (span){0});
  bool summarises = gpu_makes_summaries(h->k);
  if (summarises) gpu_begin_factors(h, p);
  for (int c = 0; c < p->carried.count; c++)
    if (!p->carried.items[c].place.transfer) load_state(h, p, c);
  if (summarises) gpu_begin_maxima(h, p);
  if (h->described->combines) gpu_combine_summaries(h, p);
  gpu_show_states(h, p);
}

void gpu_load_saved(kernel_frame *h, frame_program *p, ir chunk) {
  mark_place(h->e, "saved states in", (span){0});
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    view memory = frame_saved_view(h, place, chunk);
    // a register-resident state is loaded once a group, so single loads do: no copy function
    bool alone = gpu_registers_of(p, &p->l.carried[c]);
    if (h->gpu->team.shares && !alone)
      memory.aligned = gpu_aligned(h, p, &memory, tile_body_axes(place));
    frame_copy_state(h, p, place, &memory, &p->l.carried[c]);
  }
  gpu_show_states(h, p);
}

// ---- at the end, and between ----

static void store_states(kernel_frame *h, frame_program *p) {
  emitter *e = h->e;
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    tile_role role = p->backward ? TILE_D_STATE : TILE_NEXT_STATE;
    if (kernel_find_slot(h->described, role, place) < 0) continue;
    ir data;
    view memory = frame_memory_view(h, role, place, &data);
    ir wanted = bit_and(e, is_given(e, data), frame_writes_state(h, place));
    if (h->described->combines) wanted = bit_and(e, wanted, gpu_is_last_slice(h, p));
    emit_branch branch = branch_begin(e, gpu_by_this_thread(h, wanted));
    frame_copy_state(h, p, place, &p->l.carried[c], &memory);
    branch_end(e, &branch);
  }
}

void gpu_store_states(kernel_frame *h, frame_program *p) {
  mark_place(h->e, "states out", (span){0});
  (gpu_makes_summaries(h->k) ? gpu_end_slice : store_states)(h, p);
}

void gpu_save_states(kernel_frame *h, frame_program *p, ir chunk) {
  mark_place(h->e, "saved states out", (span){0});
  emitter *e = h->e;
  emit_branch branch = branch_begin(e, frame_saves(h));
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    if (place->transfer) continue;
    view memory = frame_saved_view(h, place, chunk);
    if (h->gpu->team.shares) memory.aligned = gpu_aligned(h, p, &memory, tile_body_axes(place));
    emit_branch first = branch_begin(e, gpu_by_this_thread(h, frame_writes_state(h, place)));
    frame_copy_state(h, p, place, &p->l.carried[c], &memory);
    branch_end(e, &first);
  }
  branch_end(e, &branch);
}
