// Copies of tensors, and packs: operands of products in the order of axes in which products read
// them.
#include <string.h>

#include "compiler/lower/nest_target.h"

// Where a matrix that is multiplied by vectors has the column: plan_has_fours_apart.
static ir place_of_column(emitter *e, ir column) {
  enum { FOUR = 4 };
  ir apart = integer(e, PLAN_FOURS_APART), all = integer(e, 2 * PLAN_FOURS_APART),
     four = integer(e, FOUR);
  ir block = int_mul(e, int_div(e, column, all), all),
     second = int_div(e, int_rem(e, column, all), apart);
  ir number = int_div(e, int_rem(e, column, apart), four), within = int_rem(e, column, four);
  ir place = int_add(e, int_mul_n(e, number, 2 * FOUR), int_mul(e, second, four));
  return int_add(e, int_add(e, block, place), within);
}

void lower_copy_value(lower *l, const place_in_loops *at, void *data) {
  const value_copy *c = data;
  place_in_loops there = *at;
  lower_forget(l);
  if (c->apart >= 0) there.index[c->apart] = place_of_column(l->e, at->index[c->apart]);
  view_store(l, &c->to, &there, c->axes, lower_value_at(l, at, c->from));
  lower_forget(l);
}

void lower_pack(lower *l, const plan_nest *nest, view to) {
  const plan_buffer *b = &l->p->buffers.items[nest->pack];
  bool apart = plan_has_fours_apart(l->p->program, b);
  value_copy copy = {.from = nest->packed,
                     .to = to,
                     .axes = value(l, nest->packed)->axes,
                     .apart = apart ? b->axes[b->axis_count - 1] : -1};
  if (nest->lane) {
    lower_points(l, nest->axes, true, lower_copy_value, &copy);
    return;
  }
  loop_axes all = {.count = b->axis_count};
  memcpy(all.axes, b->axes, sizeof all.axes);
  l->target->vectors(l, &all, true, lower_copy_value, &copy);
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
  lower_wait(l);
  lower_copy_beside(l, from, to, axes);
}

void lower_copy_beside(lower *l, const view *from, const view *to, axis_set axes) {
  l->target->copy(l, &(view_copy){.from = from, .to = *to, .axes = axes});
}
