// States of an instance, and sums that live from run to run.
#include "compiler/kernel/frame.h"

ir frame_saves(kernel_frame *h) { return is_given(h->e, frame_saved_data(h)); }

void frame_save_before_chunk(kernel_frame *h, ir chunk) {
  emitter *e = h->e;
  int64_t every = h->k->chunk / h->k->program->chunk;
  if (every == 1) {
    h->hooks->save_states(h, &h->main, chunk);
    return;
  }
  ir rest = int_rem_n(e, chunk, every);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntEQ, rest, integer(e, 0)));
  h->hooks->save_states(h, &h->main, int_div_n(e, chunk, every));
  branch_end(e, &branch);
}

void frame_copy_state(kernel_frame *h, frame_program *p, const tile_place *place, const view *from,
                      const view *to) {
  h->hooks->copy_state(h, p, place, from, to, false);
}

typedef struct fill_data {
  const view *to;
  axis_set axes;
  double number;
} fill_data;

static void fill_point(lower *l, const place_in_loops *at, void *data) {
  const fill_data *f = data;
  view_store(l, f->to, at, f->axes,
             real_number(l->e, f->number, at->vector_axis >= 0 ? at->lanes : 0));
}

void frame_fill_state(kernel_frame *h, frame_program *p, const tile_place *place, double number,
                      const view *to) {
  fill_data f = {.to = to, .axes = tile_body_axes(place), .number = number};
  bool lane = h->m.kind == MAP_LANES && plan_has_lane(&h->m, f.axes);
  p->l.outside = h->at;
  lower_copies(&p->l, plan_tile_axes(&h->m, f.axes), lane, fill_point, &f);
}

void frame_clear_sums(kernel_frame *h, frame_program *p) {
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (!b->persistent) continue;
    axis_set axes = plan_buffer_axes(b);
    view to = buffer_view(&p->l, b, p->l.buffers[i]);
    lower_copy_view(&p->l, NULL, &to, axes | (b->lane ? axis_bit(h->m.lane_axis) : 0));
  }
}
