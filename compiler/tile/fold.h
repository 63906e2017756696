// What the rules of fold.c and fold_axes.c share.
#pragma once

#include "compiler/tile/tile.h"

// Values move when the program grows: a copy, not a pointer.
static inline tile_value folded_value(tile_program *p, tile_id x) { return p->values.items[x]; }
static inline tile_op tile_op_of(tile_program *p, tile_id x) { return p->values.items[x].op; }
static inline tile_id arg_of(tile_program *p, tile_id x, int i) {
  return p->values.items[x].args[i];
}
static inline axis_set operand_axes(tile_program *p, tile_id x) { return p->values.items[x].axes; }
static inline double constant_value(tile_program *p, tile_id x) {
  return p->values.items[x].number;
}
static inline bool is_number(tile_program *p, tile_id x) { return tile_op_of(p, x) == TILE_NUMBER; }
static inline bool is_neg(tile_program *p, tile_id x) { return tile_op_of(p, x) == TILE_NEG; }

static inline tile_id neg(tile_program *p, tile_id x) { return tile_unary(p, TILE_NEG, x); }
static inline tile_id expand(tile_program *p, tile_id x, axis_set over) {
  return tile_reduce(p, TILE_EXPAND, x, over);
}

// The number and the rest of `number * rest`.
static inline bool is_scaled(tile_program *p, tile_id x, double *scale, tile_id *rest) {
  tile_value v = folded_value(p, x);
  if (v.op == TILE_NEG) {
    *scale = -1;
    *rest = v.args[0];
    return true;
  }
  if (v.op == TILE_MUL && is_number(p, v.args[0])) {
    *scale = constant_value(p, v.args[0]);
    *rest = v.args[1];
    return true;
  }
  return false;
}

static inline bool same_regrouping(const tile_value *v, const tile_value *w) {
  return tile_whole_axis(v) == tile_whole_axis(w) && tile_outer_axis(v) == tile_outer_axis(w) &&
         tile_inner_axis(v) == tile_inner_axis(w);
}

// An operand that is the same along an axis that the operation needs: the expansion must stay
// visible to the verifier.
static inline tile_id with_needed_axes(tile_program *p, tile_id x, axis_set needed) {
  axis_set missing = needed & ~operand_axes(p, x);
  if (!missing) return x;
  return tile_append_exact(p, (tile_value){.op = TILE_EXPAND, .args = {x}, .over = missing});
}

// fold_axes.c
tile_id fold_rename(tile_program *p, tile_value v);
tile_id fold_slice(tile_program *p, tile_value v);
tile_id fold_place(tile_program *p, tile_value v);
tile_id fold_along_time(tile_program *p, tile_value v);
tile_id fold_shift(tile_program *p, tile_value v);
tile_id fold_split(tile_program *p, tile_value v);
tile_id fold_join(tile_program *p, tile_value v);
