// The rules of fold.c for operations that rename, cut, move or join axes, or sum along time.
#include <stdlib.h>

#include "compiler/base/ice.h"
#include "compiler/tile/fold.h"

tile_id fold_rename(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  if (tile_renamed_from(&v) == tile_renamed_to(&v) || !axis_in(x.axes, tile_renamed_from(&v)))
    return v.args[0];
  if (axis_in(x.axes, tile_renamed_to(&v))) ICE("tile", "rename onto an axis that the value has");
  switch (x.op) {
    case TILE_RENAME:
      if (tile_renamed_to(&x) != tile_renamed_from(&v)) break;
      return tile_indexed(p, TILE_RENAME, x.args[0], tile_renamed_from(&x), tile_renamed_to(&v));
    case TILE_SPLIT:
      if (tile_renamed_from(&v) != tile_outer_axis(&x) &&
          tile_renamed_from(&v) != tile_inner_axis(&x))
        break;
      if (tile_renamed_to(&v) == tile_whole_axis(&x)) break;
      if (tile_renamed_from(&v) == tile_outer_axis(&x))
        x.index2 = tile_renamed_to(&v);
      else
        x.index3 = tile_renamed_to(&v);
      return tile_append(p, x);
    case TILE_JOIN:
      if (tile_renamed_from(&v) != tile_whole_axis(&x) ||
          axis_in(operand_axes(p, x.args[0]), tile_renamed_to(&v)))
        break;
      x.index = tile_renamed_to(&v);
      return tile_append(p, x);
    case TILE_INDEX: return tile_leaf(p, TILE_INDEX, tile_renamed_to(&v));
    case TILE_EXPAND: {
      axis_set axes = (x.axes & ~axis_bit(tile_renamed_from(&v))) | axis_bit(tile_renamed_to(&v));
      tile_id renamed =
          tile_indexed(p, TILE_RENAME, x.args[0], tile_renamed_from(&v), tile_renamed_to(&v));
      return expand(p, renamed, axes);
    }
    case TILE_NEG:
      return neg(
          p, tile_indexed(p, TILE_RENAME, x.args[0], tile_renamed_from(&v), tile_renamed_to(&v)));
    default: break;
  }
  return tile_append_exact(p, v);
}

static bool is_placed(const tile_program *p, tile_id id, const tile_value *slice) {
  const tile_value *v = &p->values.items[id];
  return v->op == TILE_PLACE && tile_entry_axis(v) == tile_entry_axis(slice);
}

// An entry of several that were placed is one of them.
tile_id fold_slice(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  if (!axis_in(x.axes, tile_entry_axis(&v))) return v.args[0];
  switch (x.op) {
    case TILE_INDEX: return tile_number(p, tile_entry(&v));
    case TILE_PLACE:
      if (tile_entry_axis(&x) != tile_entry_axis(&v)) break;
      return tile_entry(&x) == tile_entry(&v) ? x.args[0] : tile_number(p, 0);
    case TILE_EXPAND: {
      tile_id sliced = tile_indexed(p, TILE_SLICE, x.args[0], tile_entry_axis(&v), tile_entry(&v));
      return expand(p, sliced, x.axes & ~axis_bit(tile_entry_axis(&v)));
    }
    case TILE_ADD:
    case TILE_SUB:
      if (!is_placed(p, x.args[0], &v) || !is_placed(p, x.args[1], &v)) break;
      for (int k = 0; k < 2; k++)
        x.args[k] = tile_indexed(p, TILE_SLICE, x.args[k], tile_entry_axis(&v), tile_entry(&v));
      return tile_binary(p, x.op, x.args[0], x.args[1]);
    default: break;
  }
  return tile_append_exact(p, v);
}

tile_id fold_place(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  if (tile_is_number(p, v.args[0], 0)) return v.args[0];
  if (axis_in(x.axes, tile_entry_axis(&v))) ICE("tile", "place on an axis that the value has");
  if (x.op == TILE_NEG)
    return neg(p, tile_indexed(p, TILE_PLACE, x.args[0], tile_entry_axis(&v), tile_entry(&v)));
  return tile_append_exact(p, v);
}

// An operation on another operand.
static tile_id applied_to(tile_program *p, tile_value v, tile_id x) {
  v.args[0] = x;
  return tile_append(p, v);
}

// Sums along time, and shifts: linear, so signs and constants move out.
tile_id fold_along_time(tile_program *p, tile_value v) {
  tile_id x = v.args[0];
  if (tile_is_number(p, x, 0)) return x;
  double scale;
  tile_id rest;
  if (is_scaled(p, x, &scale, &rest))
    return tile_binary(p, TILE_MUL, tile_number(p, scale), applied_to(p, v, rest));
  axis_set needed = axis_bit(v.op == TILE_SHIFT ? tile_shift_axis(&v) : tile_step_axis(&v));
  if (v.op == TILE_SEGMENT_ADJOINT) needed |= axis_bit(tile_other_step_axis(&v));
  v.args[0] = with_needed_axes(p, x, needed);
  return tile_append_exact(p, v);
}

tile_id fold_shift(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  int64_t size = p->axes.items[tile_shift_axis(&v)].size;
  int distance = tile_shift_distance(&v);
  if (distance == 0) return v.args[0];
  if (size != TILE_RUNTIME_SIZE && llabs((long long)distance) >= size) return tile_number(p, 0);
  if (x.op == TILE_SHIFT && tile_shift_axis(&x) == tile_shift_axis(&v) &&
      (tile_shift_distance(&x) > 0) == (distance > 0))
    return tile_indexed(p, TILE_SHIFT, x.args[0], tile_shift_axis(&v),
                        distance + tile_shift_distance(&x));
  return fold_along_time(p, v);
}

// ---- one axis as two -------------------------------------------------------------------------

tile_id fold_split(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  axis_set whole = axis_bit(tile_whole_axis(&v)),
           parts = axis_bit(tile_outer_axis(&v)) | axis_bit(tile_inner_axis(&v));
  if (!(x.axes & whole)) return v.args[0];
  if (x.axes & parts) ICE("tile", "split into an axis that the value has");
  switch (x.op) {
    case TILE_JOIN:
      if (same_regrouping(&x, &v)) return x.args[0];
      break;
    case TILE_RENAME:
      if (tile_renamed_to(&x) != tile_whole_axis(&v) || (operand_axes(p, x.args[0]) & parts)) break;
      v.index = tile_renamed_from(&x);
      return applied_to(p, v, x.args[0]);
    case TILE_INDEX: {
      int64_t inner = p->axes.items[tile_inner_axis(&v)].size;
      tile_id first = tile_binary(p, TILE_MUL, tile_number(p, (double)inner),
                                  tile_leaf(p, TILE_INDEX, tile_outer_axis(&v)));
      return tile_binary(p, TILE_ADD, first, tile_leaf(p, TILE_INDEX, tile_inner_axis(&v)));
    }
    case TILE_EXPAND: return expand(p, applied_to(p, v, x.args[0]), (x.axes & ~whole) | parts);
    case TILE_NEG: return neg(p, applied_to(p, v, x.args[0]));
    default: break;
  }
  return tile_append_exact(p, v);
}

tile_id fold_join(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  axis_set whole = axis_bit(tile_whole_axis(&v)),
           parts = axis_bit(tile_outer_axis(&v)) | axis_bit(tile_inner_axis(&v));
  if (!(x.axes & parts)) return v.args[0];
  if (x.axes & whole) ICE("tile", "join into an axis that the value has");
  switch (x.op) {
    case TILE_SPLIT:
      if (same_regrouping(&x, &v)) return x.args[0];
      break;
    case TILE_RENAME:
      if (axis_in(operand_axes(p, x.args[0]), tile_whole_axis(&v))) break;
      if (tile_renamed_to(&x) != tile_outer_axis(&v) && tile_renamed_to(&x) != tile_inner_axis(&v))
        break;
      if (p->axes.items[tile_renamed_from(&x)].size != p->axes.items[tile_renamed_to(&x)].size)
        break;
      if (tile_renamed_to(&x) == tile_outer_axis(&v))
        v.index2 = tile_renamed_from(&x);
      else
        v.index3 = tile_renamed_from(&x);
      return applied_to(p, v, x.args[0]);
    case TILE_EXPAND: {
      axis_set to = (x.axes & ~parts) | whole;
      if (!(operand_axes(p, x.args[0]) & parts)) return expand(p, x.args[0], to);
      if (!(x.over & ~parts)) break;
      return expand(p, applied_to(p, v, expand(p, x.args[0], x.over & parts)), to);
    }
    case TILE_NEG: return neg(p, applied_to(p, v, x.args[0]));
    default: break;
  }
  v.args[0] = with_needed_axes(p, v.args[0], parts);
  return tile_append_exact(p, v);
}
