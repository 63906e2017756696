// An instance: where its tensors begin, and where its results go.
//
//   instance 5 of G = 2, R = 4   ->   g = 1, r = 1: y of it is stored, d.B [G,N] is added to the store of r = 0
#include "compiler/kernel/frame.h"

static frame_program program_of(const program_plan *at) {
  return (frame_program){.at = at,
                         .program = at->program,
                         .p = at->p,
                         .carried = at->carried,
                         .backward = at->backward};
}

kernel_frame frame_for(arena *a, const kernel_plan *w, const char *symbol,
                       const kernel_hooks *hooks) {
  return (kernel_frame){.hooks = hooks,
                        .a = a,
                        .plan = w,
                        .k = w->k,
                        .described = w->described,
                        .symbol = symbol,
                        .m = w->m,
                        .main = program_of(&w->main),
                        .recompute = program_of(&w->recompute),
                        .common = program_of(&w->common),
                        .opening = program_of(&w->opening),
                        .recomputes = w->recomputes};
}

// Instances that have nothing of their own in a value would store the same, where the tensor lacks
// the axis: the first does.
ir frame_stores_result(kernel_frame *h, const frame_program *p, const tile_result *r) {
  return frame_is_first(h, ~(p->p->values[r->value].own | tile_body_axes(&r->place)));
}

// Per-instance memory and the tensors of this instance: once the instance is known.
void frame_open_instance(kernel_frame *h, frame_program *p) {
  emitter *e = h->e;
  lower *l = &p->l;
  l->outside = h->at;
  l->tile_first = h->tile_first;
  bool in_turn = h->plan->in_tiles || h->m.chunks_outside;
  for (int c = 0; h->m.chunks_outside && c < p->carried.count; c++)
    l->carried[c] = buffer_view(l, &p->carried.items[c].memory,
                                frame_scratch_at(h, h->local, p->at->carried_at[c].offset));
  for (int i = 0; in_turn && i < p->p->buffers.count; i++)
    if (p->p->buffers.items[i].persistent)
      l->buffers[i] = frame_scratch_at(h, h->local, p->at->persistent_at[i].offset);
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    tile_role role = place->role;
    if (role == TILE_STATE || role == TILE_STASH || role == TILE_D_NEXT_STATE) continue;
    ir data;
    view v = frame_memory_view(h, role, place, &data);
    if (role == TILE_D_OUTPUT) v.present = is_given(e, data);
    if (h->hooks->open_argument) h->hooks->open_argument(h, place, &v);
    p->time_stride[i] = frame_slot_field(h, role, place, offsetof(rec_slot, time_stride), e->i64);
    p->memory[i] = l->arguments[i] = v;
  }
  for (int c = 0; c < p->carried.count; c++) {
    int argument = p->p->carried[c].argument;
    if (argument >= 0) l->arguments[argument] = l->carried[c];
  }
  for (int i = 0; i < p->program->results.count; i++) {
    const tile_result *r = &p->p->program->results.items[i];
    if (!kernel_in_memory(h->k, &r->place) || r->place.role == TILE_NEXT_STATE ||
        r->place.role == TILE_D_STATE)
      continue;
    ir data;
    p->result_memory[i] = frame_memory_view(h, r->place.role, &r->place, &data);
    p->result_time_stride[i] =
        frame_slot_field(h, r->place.role, &r->place, offsetof(rec_slot, time_stride), e->i64);
    result_target *target = &l->results[i];
    target->at = p->result_memory[i];
    int slot = kernel_find_slot(h->described, r->place.role, &r->place);
    target->add = h->described->slots.items[slot].accumulated;
    h->hooks->open_result(h, p, i, data);
  }
}

ir frame_lane_blocks(kernel_frame *h) {
  emitter *e = h->e;
  ir up = int_add_n(e, h->axis_size[h->k->lane_axis], h->k->lane_block - 1);
  return int_div_n(e, up, h->k->lane_block);
}
