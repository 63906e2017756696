/* States of an instance: loaded from h0 or cleared, stored as hT, saved for backward.
 *
 *   S <- h0, or 0;   saved[chunk] <- S before each chunk;   hT <- S
 */
#include "compiler/kernel/frame.h"

typedef struct add_data {
  const view *from, *to;
  axis_set axes;
} add_data;

static void add_point(lower *l, const place_in_loops *at, void *data) {
  const add_data *c = data;
  ir x = view_load(l, c->from, at, c->axes);
  view_store(l, c->to, at, c->axes, LLVMBuildFAdd(l->e->b, view_load(l, c->to, at, c->axes), x, ""));
}

static void add_state(host *h, part *p, const tile_place *place, const view *from, const view *to) {
  add_data c = {.from = from, .to = to, .axes = host_axes_of_place(place)};
  bool lane = h->m.lane_axis >= 0 && axis_in(c.axes, h->m.lane_axis);
  p->l.outside = h->at;
  lower_copies(&p->l, plan_tile_axes(&h->m, c.axes), lane, add_point, &c);
}

/* Whether every row of every saved state begins on a cache line, as each chunk's states do (rec_frame). */
static bool rows_are_aligned(const host *h) {
  const typed_body *body = &h->k->recurrence->body;
  int64_t line = REC_SAVED_ALIGNMENT / (h->m.f64 ? 8 : 4);
  if (h->e->gpu || h->m.lane_axis >= 0 || body->lags.count) return false;
  if (host_kept_value(h->k, 0) && h->k->chunk % line != 0) return false;
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    if (t->kind != TENSOR_STATE) continue;
    axis_set tile = plan_tile_axes(&h->m, t->axis_set);
    plan_buffer rows = plan_buffer_for(&h->m, h->k->program, tile, false, -1);
    if (!rows.axis_count) return false;
    int64_t row = body->axes.items[rows.axes[rows.axis_count - 1]].size;
    if (row <= 0 || row % line != 0) return false;
  }
  return true;
}

/* Whether the caller wants anything saved. */
ir host_saves(host *h) {
  return LLVMBuildIsNotNull(h->e->b, host_saved_data(h), "");
}

/* What is kept of a part comes of no states; but the first one knows the steps before it. */
static ir begins_with(host *h, const tile_place *place) {
  emitter *e = h->e;
  ir whole = LLVMBuildNot(e->b, gpu_keeps_parts(h), "");
  if (place->lag < 0) return whole;
  return LLVMBuildOr(e->b, whole, int_compare(e, LLVMIntEQ, h->part, integer(e, 0)), "");
}

/* Blocks of threads copy by a function, which asks whether there is something: one call. */
static void load_or_clear(host *h, part *p, int c, view *memory, ir there) {
  emitter *e = h->e;
  const tile_place *place = &p->carried.items[c].place;
  if (h->team.shares && !host_kept_of(p, &p->l.carried[c])) {
    memory->present = there;
    host_copy_state(h, p, place, memory, &p->l.carried[c]);
    return;
  }
  emit_branch branch = branch_begin(e, there);
  host_copy_state(h, p, place, memory, &p->l.carried[c]);
  branch_else(e, &branch);
  host_copy_state(h, p, place, NULL, &p->l.carried[c]);
  branch_end(e, &branch);
}

/* Of a part alone; the states before chunks are made of those before the first step. */
static void begin_maxima(host *h, part *p) {
  emit_branch alone = branch_begin(h->e, gpu_keeps_parts(h));
  gpu_begin_maxima(h, p);
  branch_end(h->e, &alone);
}

void host_load_states(host *h, part *p) {
  emitter *e = h->e;
  if (gpu_makes_parts(h->k)) gpu_begin_factors(h, p);
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    if (place->transfer) continue;
    if (h->k->kind == KERNEL_PART_BACK) {
      host_copy_state(h, p, place, NULL, &p->l.carried[c]);
      gpu_begin_column(h, p, place, &p->l.carried[c]);
      continue;
    }
    ir data;
    view memory = host_memory_view(h, p->backward ? TILE_D_NEXT_STATE : TILE_STATE, place, &data);
    ir there =
        LLVMBuildAnd(e->b, LLVMBuildIsNotNull(e->b, data, ""), host_is_first(h, place->partial), "");
    if (gpu_makes_parts(h->k)) there = LLVMBuildAnd(e->b, there, begins_with(h, place), "");
    load_or_clear(h, p, c, &memory, there);
    if (gpu_makes_parts(h->k)) gpu_begin_column(h, p, place, &p->l.carried[c]);
  }
  if (gpu_makes_parts(h->k)) begin_maxima(h, p);
  if (h->described->joins) gpu_join_parts(h, p);
  host_show_states(h, p);
}

void host_store_states(host *h, part *p) {
  emitter *e = h->e;
  if (gpu_makes_parts(h->k)) {
    gpu_end_part(h, p);
    return;
  }
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    tile_role role = p->backward ? TILE_D_STATE : TILE_NEXT_STATE;
    if (host_find_slot(h->described, role, place->tensor, place->lag) < 0) continue;
    ir data;
    view memory = host_memory_view(h, role, place, &data);
    ir wanted = LLVMBuildAnd(e->b, LLVMBuildIsNotNull(e->b, data, ""), host_writes_state(h, place), "");
    if (h->described->joins) wanted = LLVMBuildAnd(e->b, wanted, gpu_is_last_part(h, p), "");
    emit_branch branch = branch_begin(e, host_by_this_thread(h, wanted));
    if (!e->gpu && (host_grid_of(h->k) & place->partial)) {
      add_state(h, p, place, &p->l.carried[c], &memory);
    } else {
      host_copy_state(h, p, place, &p->l.carried[c], &memory);
    }
    branch_end(e, &branch);
  }
}

/* Backward reads saved states much later: they pass the caches by. */
void host_save_states(host *h, part *p, ir chunk) {
  emitter *e = h->e;
  e->streaming = rows_are_aligned(h);
  emit_branch branch = branch_begin(e, host_saves(h));
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    if (place->transfer) continue;
    view memory = host_saved_view(h, place, chunk);
    if (h->team.shares) memory.aligned = gpu_aligned(h, p, &memory, host_axes_of_place(place));
    emit_branch first = branch_begin(e, host_by_this_thread(h, host_writes_state(h, place)));
    host_copy_state(h, p, place, &p->l.carried[c], &memory);
    branch_end(e, &first);
  }
  branch_end(e, &branch);
  e->streaming = false;
}

void host_clear_sums(host *h, part *p) {
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (!b->persistent) continue;
    axis_set axes = 0;
    for (int x = 0; x < b->axis_count; x++) axes |= axis_bit(b->axes[x]);
    view to = buffer_view(&p->l, b, p->l.buffers[i]);
    lower_copy_view(&p->l, NULL, &to, axes | (b->lane ? axis_bit(h->m.lane_axis) : 0));
  }
}
