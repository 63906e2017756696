// Host: states of an instance. Loaded from h0 or cleared, stored as hT, saved for backward.
//
//   S <- h0, or 0;   saved[chunk] <- S before each chunk;   hT <- S
#include "compiler/abi/segment.h"
#include "compiler/kernel/host/loops.h"

typedef struct add_data {
  const view *from, *to;
  axis_set axes;
} add_data;

static void add_view_at_point(lower *l, const place_in_loops *at, void *data) {
  const add_data *c = data;
  ir x = view_load(l, c->from, at, c->axes);
  view_store(l, c->to, at, c->axes,
             LLVMBuildFAdd(l->e->b, view_load(l, c->to, at, c->axes), x, ""));
}

static void add_state(kernel_frame *h, frame_program *p, const tile_place *place, const view *from,
                      const view *to) {
  add_data c = {.from = from, .to = to, .axes = tile_body_axes(place)};
  bool lane = h->m.lane_axis >= 0 && axis_in(c.axes, h->m.lane_axis);
  p->l.outside = h->at;
  lower_copies(&p->l, plan_tile_axes(&h->m, c.axes), lane, add_view_at_point, &c);
}

// Whether every row of every saved state begins on a cache line, as each chunk's states do
// (rec_frame).
static bool rows_are_aligned(const kernel_frame *h) {
  const typed_body *body = &h->k->recurrence->body;
  int64_t line = REC_SAVED_ALIGNMENT / (h->m.f64 ? 8 : 4);
  if (h->m.lane_axis >= 0 || body->lags.count) return false;
  if (kernel_kept_value(h->k, 0) && h->k->chunk % line != 0) return false;
  vec_each(const typed_tensor, t, body->tensors) {
    if (t->kind != TENSOR_STATE) continue;
    axis_set tile = plan_tile_axes(&h->m, t->axis_set);
    plan_buffer rows = plan_buffer_for(&h->m, h->k->program, tile, false, -1);
    if (!rows.axis_count) return false;
    int64_t row = body->axes.items[rows.axes[rows.axis_count - 1]].size;
    if (row <= 0 || row % line != 0) return false;
  }
  return true;
}

void host_load_states(kernel_frame *h, frame_program *p) {
  emitter *e = h->e;
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    if (place->transfer) {
      frame_fill_state(h, p, place, kernel_first_transfer(place), &p->l.carried[c]);
      continue;
    }
    ir data;
    view memory = frame_memory_view(h, p->backward ? TILE_D_NEXT_STATE : TILE_STATE, place, &data);
    ir there = bit_and(e, is_given(e, data), frame_is_first(h, place->partial));
    emit_branch branch = branch_begin(e, there);
    frame_copy_state(h, p, place, &memory, &p->l.carried[c]);
    branch_else(e, &branch);
    if (h->k->segment && kernel_is_maximum(place))
      frame_fill_state(h, p, place, SEGMENT_NO_MAXIMUM, &p->l.carried[c]);
    else
      frame_copy_state(h, p, place, NULL, &p->l.carried[c]);
    branch_end(e, &branch);
  }
}

void host_store_states(kernel_frame *h, frame_program *p) {
  emitter *e = h->e;
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    tile_role role = p->backward ? TILE_D_STATE : TILE_NEXT_STATE;
    if (kernel_find_slot(h->described, role, place) < 0) continue;
    ir data;
    view memory = frame_memory_view(h, role, place, &data);
    ir wanted = bit_and(e, is_given(e, data), frame_writes_state(h, place));
    emit_branch branch = branch_begin(e, wanted);
    if (kernel_grid_of(h->k) & place->partial)
      add_state(h, p, place, &p->l.carried[c], &memory);
    else
      frame_copy_state(h, p, place, &p->l.carried[c], &memory);
    branch_end(e, &branch);
  }
}

void host_load_saved(kernel_frame *h, frame_program *p, ir chunk) {
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    view memory = frame_saved_view(h, place, chunk);
    frame_copy_state(h, p, place, &memory, &p->l.carried[c]);
  }
}

// Backward reads saved states much later: they pass the caches by.
void host_save_states(kernel_frame *h, frame_program *p, ir chunk) {
  emitter *e = h->e;
  e->streaming = rows_are_aligned(h);
  emit_branch branch = branch_begin(e, frame_saves(h));
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    view memory = frame_saved_view(h, place, chunk);
    emit_branch first = branch_begin(e, frame_writes_state(h, place));
    frame_copy_state(h, p, place, &p->l.carried[c], &memory);
    branch_end(e, &first);
  }
  branch_end(e, &branch);
  e->streaming = false;
}
