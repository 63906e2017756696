// Copies of tensors, and packs: operands of products in the order of axes in which products read them.
#include <string.h>

#include "compiler/lower/nest_target.h"

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

void lower_pack(lower *l, const plan_nest *nest, view to) {
  pack_data p = {.from = nest->packed, .to = to};
  const plan_buffer *b = &l->p->buffers.items[nest->pack];
  if (nest->lane) {
    lower_points(l, nest->axes, true, pack_point, &p);
    return;
  }
  loop_axes all = {.count = b->axis_count};
  memcpy(all.axes, b->axes, sizeof all.axes);
  l->target->vectors(l, &all, true, pack_point, &p);
}

void lower_copy_point(lower *l, const place_in_loops *at, void *data) {
  const view_copy *c = data;
  ir x = c->from ? view_load(l, c->from, at, c->axes) : real_number(l->e, 0, 0);
  view_store(l, &c->to, at, c->axes, x);
}

void lower_copy_by_loops(lower *l, const view_copy *c) {
  bool lane = l->m->lane_axis >= 0 && axis_in(c->axes, l->m->lane_axis);
  lower_copy_loops(l, plan_tile_axes(l->m, c->axes), lane, lower_copy_point, (void *)c);
}

void lower_copy_view(lower *l, const view *from, const view *to, axis_set axes) {
  l->target->wait(l);
  l->target->copy(l, &(view_copy){.from = from, .to = *to, .axes = axes});
}
