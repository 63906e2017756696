// Copies of tensors, and packs: operands of products in the order of axes in which products read them.
#include <string.h>

#include "compiler/lower/gpu/nests.h"

typedef struct pack_data {
  tile_id from;
  view to;
} pack_data;

static void pack_point(lower *l, const place_in_loops *at, void *data) {
  const pack_data *p = data;
  lower_forget(l);
  view_store(l, &p->to, at, value(l, p->from)->axes, lower_value_at(l, at, p->from));
  lower_forget(l);
}

static void copy_point(lower *l, const place_in_loops *at, void *data) {
  const view_copy *c = data;
  ir x = c->from ? view_load(l, c->from, at, c->axes) : real_number(l->e, 0, 0);
  view_store(l, &c->to, at, c->axes, x);
}

void lower_copy_view(lower *l, const view *from, const view *to, axis_set axes) {
  const team *all = l->team;
  team own;
  view_copy c = {.from = from, .to = *to, .axes = axes};
  axis_set tile = plan_tile_axes(l->m, axes);
  bool lane = l->m->lane_axis >= 0 && axis_in(axes, l->m->lane_axis);
  lower_barrier(l);
  gpu_forget_accesses(l, false);
  if (gpu_copies_by_call(l, &c, tile)) {
    gpu_copy(l, &c, tile, copy_point);
    return;
  }
  if (all) {
    own = gpu_team_of_nest(l);
    l->team = &own;
  }
  lower_copy_loops(l, tile, lane, copy_point, &c);
  l->team = all;
}

void lower_pack(lower *l, const plan_nest *nest) {
  pack_data p = {.from = nest->packed, .to = lower_buffer(l, nest->pack)};
  const plan_buffer *b = &l->p->buffers.items[nest->pack];
  if (nest->lane) {
    lower_points(l, nest->axes, true, pack_point, &p);
    return;
  }
  if (!l->team && lower_transposed(l, nest, b, p.to)) return;
  loop_axes all = {.count = b->axis_count};
  memcpy(all.axes, b->axes, sizeof all.axes);
  lower_copies_in_order(l, &all, pack_point, &p);
}
