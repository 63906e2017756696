// For a kernel that leaves some grid axes whole: what only counts the first of their instances
// counts nothing there.
//
//   %3 [V] = eq 0 (index V)
//   %4 [t,V] = select %3 %2 0         ->   %2
//   %5 [t] = sum %4 over V
//
// Reverse mode adds such sums where a value that is not partial over V meets one that is
// (autodiff.c).
#include "compiler/tile/products.h"

// The axis whose entry 0 this condition asks for, or -1.
static int axis_of_first_entry(const tile_program *p, tile_id condition) {
  const tile_value *v = &p->values.items[condition];
  for (int k = 0; v->op == TILE_EQUAL && k < 2; k++) {
    const tile_value *index = &p->values.items[v->args[k]];
    if (index->op == TILE_INDEX && tile_is_number(p, v->args[1 - k], 0))
      return tile_index_axis(index);
  }
  return -1;
}

// The value that a sum over `axes` of a value counts once; NO_TILE if it is no such sum.
static tile_id counted_once(const tile_program *p, tile_id id, axis_set axes, int *axis) {
  const tile_value *v = &p->values.items[id];
  if (v->op != TILE_SELECT || !tile_is_number(p, v->args[2], 0)) return NO_TILE;
  *axis = axis_of_first_entry(p, v->args[0]);
  if (*axis < 0 || !axis_in(axes, *axis)) return NO_TILE;
  return axis_in(p->values.items[v->args[1]].axes, *axis) ? NO_TILE : v->args[1];
}

static tile_id uncut_value(tile_rewrite *r, tile_id id) {
  const axis_set *cut = r->context;
  tile_value v = tile_with_images(*tile_at(r->from, id), r->image);
  int axis;
  tile_id once = v.op == TILE_SUM ? counted_once(r->to, v.args[0], v.over & ~*cut, &axis) : NO_TILE;
  if (once == NO_TILE) return tile_append_exact(r->to, v);
  return tile_reduce(r->to, TILE_SUM, once, v.over & ~axis_bit(axis));
}

tile_program *tile_uncut(arena *a, const tile_program *program, axis_set cut) {
  return tile_rewritten(a, program, uncut_value, &cut);
}
