// Simplification while appending: rules that look at one value and its operands.
//
//   %3 = mul 1 %2            ->  %2
//   %4 = add %2 (neg %1)     ->  %4 = sub %2 %1
//   %5 = slice (place %2 M = 1) M = 1   ->  %2
//   %6 = sum (mul %1 %2) over N, %1 without N   ->  %6 = mul %1 (sum %2 over N)
//   %7 = sum (select (index N == 3) %2 0) over N   ->  %7 = slice %2 N = 3
//
// silu x is written out as mul x (sigmoid x): its derivative needs the sigmoid alone.
// Rules keep what a formula means for every operand, infinities included. Axes may get lost on the
// way (0 has none); a missing axis always means "the same along it".
// Rewrites that need to see the users of a value are in simplify.c.
#include <math.h>
#include <stdlib.h>

#include "compiler/base/ice.h"
#include "compiler/tile/tile.h"

// Values move when the program grows: a copy, not a pointer.
static tile_value folded_value(tile_program *p, tile_id x) { return p->values.items[x]; }
static tile_op tile_op_of(tile_program *p, tile_id x) { return p->values.items[x].op; }
static tile_id arg_of(tile_program *p, tile_id x, int i) { return p->values.items[x].args[i]; }
static axis_set operand_axes(tile_program *p, tile_id x) { return p->values.items[x].axes; }
static double constant_value(tile_program *p, tile_id x) { return p->values.items[x].number; }
static bool is_constant(tile_program *p, tile_id x, double n) { return tile_is_number(p, x, n); }
static bool is_number(tile_program *p, tile_id x) { return tile_op_of(p, x) == TILE_NUMBER; }
static bool is_neg(tile_program *p, tile_id x) { return tile_op_of(p, x) == TILE_NEG; }

static tile_id exact(tile_program *p, tile_value v) { return tile_append_exact(p, v); }
static tile_id folded_number(tile_program *p, double n) { return tile_number(p, n); }
static tile_id unary(tile_program *p, tile_op op, tile_id x) { return tile_unary(p, op, x); }
static tile_id binary(tile_program *p, tile_op op, tile_id x, tile_id y) {
  return tile_binary(p, op, x, y);
}
static tile_id neg(tile_program *p, tile_id x) { return unary(p, TILE_NEG, x); }
static tile_id reduce(tile_program *p, tile_op op, tile_id x, axis_set over) {
  return tile_reduce(p, op, x, over);
}
static tile_id expand(tile_program *p, tile_id x, axis_set over) {
  return reduce(p, TILE_EXPAND, x, over);
}

// The number and the rest of `number * rest`.
static bool is_scaled(tile_program *p, tile_id x, double *scale, tile_id *rest) {
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

static tile_id times_sizes(tile_program *p, tile_id x, axis_set axes) {
  for (int i = 0; i < p->axes.count; i++)
    if (axis_in(axes, i)) x = binary(p, TILE_MUL, tile_leaf(p, TILE_AXIS_SIZE, i), x);
  return x;
}

// ---- elementwise -----------------------------------------------------------------------------

static tile_id fold_neg(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  switch (x.op) {
    case TILE_NEG: return x.args[0];
    case TILE_SUB: return binary(p, TILE_SUB, x.args[1], x.args[0]);
    case TILE_MUL:
      if (!is_number(p, x.args[0])) return exact(p, v);
      return binary(p, TILE_MUL, folded_number(p, -constant_value(p, x.args[0])), x.args[1]);
    default: return exact(p, v);
  }
}

// Gates are often handed over as logarithms; their exponential is one function, not two.
static tile_id fold_exp(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  if (x.op == TILE_LOG_SIGMOID) return unary(p, TILE_SIGMOID, x.args[0]);
  if (x.op == TILE_NEG && tile_op_of(p, x.args[0]) == TILE_SOFTPLUS)
    return unary(p, TILE_SIGMOID, neg(p, arg_of(p, x.args[0], 0)));
  return exact(p, v);
}

static tile_id fold_unary(tile_program *p, tile_value v) {
  tile_id x = v.args[0];
  if (is_neg(p, x) && tile_op_is(v.op, TILE_EVEN)) return unary(p, v.op, arg_of(p, x, 0));
  if (is_neg(p, x) && tile_op_is(v.op, TILE_ODD)) return neg(p, unary(p, v.op, arg_of(p, x, 0)));
  switch (v.op) {
    case TILE_NEG: return fold_neg(p, v);
    case TILE_EXP: return fold_exp(p, v);
    case TILE_SILU: return binary(p, TILE_MUL, x, unary(p, TILE_SIGMOID, x));
    case TILE_ABS:
    case TILE_WRAP:
    case TILE_STOP: return tile_op_of(p, x) == v.op ? x : exact(p, v);
    default: return exact(p, v);
  }
}

static bool same_entry(const tile_value *v, const tile_value *w) {
  return tile_entry_axis(v) == tile_entry_axis(w) && tile_entry(v) == tile_entry(w);
}

static bool same_regrouping(const tile_value *v, const tile_value *w) {
  return tile_whole_axis(v) == tile_whole_axis(w) && tile_outer_axis(v) == tile_outer_axis(w) &&
         tile_inner_axis(v) == tile_inner_axis(w);
}

// Sums of masked or placed values keep one mask or place.
static tile_id fold_add_structured(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]), y = folded_value(p, v.args[1]);
  if (x.op == TILE_PLACE && y.op == TILE_PLACE && same_entry(&x, &y)) {
    tile_id sum = binary(p, TILE_ADD, x.args[0], y.args[0]);
    return tile_indexed(p, TILE_PLACE, sum, tile_entry_axis(&x), tile_entry(&x));
  }
  if (x.op == TILE_JOIN && y.op == TILE_JOIN && same_regrouping(&x, &y)) {
    tile_id sum = binary(p, TILE_ADD, x.args[0], y.args[0]);
    return tile_regroup(p, TILE_JOIN, sum, tile_whole_axis(&x), tile_outer_axis(&x),
                        tile_inner_axis(&x));
  }
  if (x.op == TILE_SELECT && y.op == TILE_SELECT && x.args[0] == y.args[0]) {
    bool meet = (is_constant(p, x.args[1], 0) || is_constant(p, y.args[1], 0) ||
                 (is_constant(p, x.args[2], 0) && is_constant(p, y.args[2], 0))) &&
                (is_constant(p, x.args[2], 0) || is_constant(p, y.args[2], 0));
    if (meet)
      return tile_select(p, x.args[0], binary(p, TILE_ADD, x.args[1], y.args[1]),
                         binary(p, TILE_ADD, x.args[2], y.args[2]));
  }
  return exact(p, v);
}

static tile_id fold_add(tile_program *p, tile_value v) {
  tile_id x = v.args[0], y = v.args[1];
  if (is_constant(p, x, 0)) return y;
  if (is_constant(p, y, 0)) return x;
  if (x == y) return binary(p, TILE_MUL, folded_number(p, 2), x);
  if (is_neg(p, x) && is_neg(p, y))
    return neg(p, binary(p, TILE_ADD, arg_of(p, x, 0), arg_of(p, y, 0)));
  if (is_neg(p, y)) return binary(p, TILE_SUB, x, arg_of(p, y, 0));
  if (is_neg(p, x)) return binary(p, TILE_SUB, y, arg_of(p, x, 0));
  return fold_add_structured(p, v);
}

static tile_id fold_sub(tile_program *p, tile_value v) {
  tile_id x = v.args[0], y = v.args[1];
  if (is_constant(p, y, 0)) return x;
  if (is_constant(p, x, 0)) return neg(p, y);
  if (is_neg(p, y)) return binary(p, TILE_ADD, x, arg_of(p, y, 0));
  if (is_neg(p, x)) return neg(p, binary(p, TILE_ADD, arg_of(p, x, 0), y));
  return exact(p, v);
}

// Neither infinite nor NaN, whatever the arguments are.
static bool is_finite(tile_program *p, tile_id x) {
  tile_value v = folded_value(p, x);
  if (v.op == TILE_NUMBER) return isfinite(v.number);
  if (v.op == TILE_NEG || tile_op_is(v.op, TILE_COPIES)) return is_finite(p, v.args[0]);
  return tile_op_is(v.op, TILE_FINITE);
}

static tile_id fold_mul(tile_program *p, tile_value v) {
  tile_id x = v.args[0], y = v.args[1];
  if ((is_constant(p, x, 0) && is_finite(p, y)) || (is_constant(p, y, 0) && is_finite(p, x)))
    return folded_number(p, 0);
  if (is_constant(p, x, 1)) return y;
  if (is_constant(p, y, 1)) return x;
  if (is_neg(p, x)) return neg(p, binary(p, TILE_MUL, arg_of(p, x, 0), y));
  if (is_neg(p, y)) return neg(p, binary(p, TILE_MUL, x, arg_of(p, y, 0)));
  if (is_constant(p, x, -1)) return neg(p, y);
  if (is_constant(p, y, -1)) return neg(p, x);
  // Constants stand first, and one constant is left of a product.
  if (is_number(p, y)) return binary(p, TILE_MUL, y, x);
  double scale;
  tile_id rest;
  if (is_scaled(p, y, &scale, &rest)) {
    if (is_number(p, x)) {
      double product = constant_value(p, x) * scale;
      return isfinite(product) ? binary(p, TILE_MUL, folded_number(p, product), rest) : exact(p, v);
    }
    return binary(p, TILE_MUL, folded_number(p, scale), binary(p, TILE_MUL, x, rest));
  }
  if (!is_number(p, x) && is_scaled(p, x, &scale, &rest))
    return binary(p, TILE_MUL, folded_number(p, scale), binary(p, TILE_MUL, rest, y));
  return exact(p, v);
}

static tile_id fold_div(tile_program *p, tile_value v) {
  tile_id x = v.args[0], y = v.args[1];
  if (is_number(p, y)) {
    double reciprocal = 1 / constant_value(p, y);
    if (isnormal(reciprocal)) return binary(p, TILE_MUL, folded_number(p, reciprocal), x);
  }
  if (is_neg(p, x)) return neg(p, binary(p, TILE_DIV, arg_of(p, x, 0), y));
  if (is_neg(p, y)) return neg(p, binary(p, TILE_DIV, x, arg_of(p, y, 0)));
  return exact(p, v);
}

static tile_id fold_select(tile_program *p, tile_value v) {
  tile_id c = v.args[0], x = v.args[1], y = v.args[2];
  if (is_number(p, c)) return constant_value(p, c) != 0 ? x : y;
  if (x == y) return x;
  if (tile_op_of(p, x) == TILE_SELECT && arg_of(p, x, 0) == c)
    return tile_select(p, c, arg_of(p, x, 1), y);
  if (tile_op_of(p, y) == TILE_SELECT && arg_of(p, y, 0) == c)
    return tile_select(p, c, x, arg_of(p, y, 2));
  bool minus_x = is_neg(p, x), minus_y = is_neg(p, y);
  if ((minus_x || minus_y) && (minus_x || is_constant(p, x, 0)) &&
      (minus_y || is_constant(p, y, 0))) {
    tile_id positive =
        tile_select(p, c, minus_x ? arg_of(p, x, 0) : x, minus_y ? arg_of(p, y, 0) : y);
    return neg(p, positive);
  }
  return exact(p, v);
}

static tile_id fold_seldom(tile_program *p, tile_value v) {
  tile_id c = v.args[0], rare = v.args[1], usual = v.args[2];
  if (is_number(p, c)) return constant_value(p, c) != 0 ? rare : usual;
  return rare == usual ? rare : exact(p, v);
}

static tile_id fold_accumulate(tile_program *p, tile_value v) {
  tile_id x = v.args[0];
  if (is_constant(p, x, 0)) return x;
  double scale;
  tile_id rest;
  if (is_scaled(p, x, &scale, &rest))
    return binary(p, TILE_MUL, folded_number(p, scale), unary(p, TILE_ACCUMULATE, rest));
  return exact(p, v);
}

static tile_id fold_elementwise(tile_program *p, tile_value v) {
  int arity = tile_arity(v.op);
  axis_set all = 0;
  bool expanded = false, constant = v.op != TILE_ACCUMULATE;
  double numbers[3] = {0, 0, 0};
  for (int i = 0; i < arity; i++) {
    all |= operand_axes(p, v.args[i]);
    expanded |= tile_op_of(p, v.args[i]) == TILE_EXPAND;
    constant &= is_number(p, v.args[i]);
    numbers[i] = constant_value(p, v.args[i]);
  }
  if (expanded) {
    for (int i = 0; i < arity; i++)
      if (tile_op_of(p, v.args[i]) == TILE_EXPAND) v.args[i] = arg_of(p, v.args[i], 0);
    return expand(p, tile_append(p, v), all);
  }
  if (constant) return folded_number(p, tile_function_of(v.op)(numbers));
  // One order of operands for what commutes, constants first.
  if (tile_op_is(v.op, TILE_COMMUTES) && v.args[0] > v.args[1] && !is_number(p, v.args[0])) {
    tile_id x = v.args[0];
    v.args[0] = v.args[1];
    v.args[1] = x;
  }
  switch (v.op) {
    case TILE_ADD: return fold_add(p, v);
    case TILE_SUB: return fold_sub(p, v);
    case TILE_MUL: return fold_mul(p, v);
    case TILE_DIV: return fold_div(p, v);
    case TILE_SELECT: return fold_select(p, v);
    case TILE_SELDOM: return fold_seldom(p, v);
    case TILE_ACCUMULATE: return fold_accumulate(p, v);
    default: return arity == 1 ? fold_unary(p, v) : exact(p, v);
  }
}

// ---- reductions and products -----------------------------------------------------------------

// The entry at which a condition is true alone, along one of the axes; -1: it has none. Grid axes
// are apart: there a sum of one entry says which instance counts it.
static int only_entry(tile_program *p, tile_id condition, axis_set axes, int *axis) {
  tile_value v = folded_value(p, condition);
  if (v.op != TILE_EQUAL || !is_number(p, v.args[0]) || tile_op_of(p, v.args[1]) != TILE_INDEX)
    return -1;
  double entry = constant_value(p, v.args[0]);
  *axis = tile_index_axis(&p->values.items[v.args[1]]);
  int64_t size = p->axes.items[*axis].size;
  bool apart = !axis_in(axes, *axis) || axis_in(p->grid, *axis) || size == TILE_RUNTIME_SIZE;
  if (apart || entry != floor(entry) || entry < 0 || entry >= (double)size) return -1;
  return (int)entry;
}

static tile_id fold_sum(tile_program *p, tile_value v) {
  tile_id x = v.args[0];
  axis_set missing = v.over & ~operand_axes(p, x);
  v.over &= ~missing;
  if (missing) return times_sizes(p, reduce(p, TILE_SUM, x, v.over), missing);
  if (!v.over) return x;
  tile_value inner = folded_value(p, x);
  double scale;
  tile_id rest;
  if (is_scaled(p, x, &scale, &rest))
    return binary(p, TILE_MUL, folded_number(p, scale), reduce(p, TILE_SUM, rest, v.over));
  switch (inner.op) {
    case TILE_SUM: return reduce(p, TILE_SUM, inner.args[0], v.over | inner.over);
    case TILE_EXPAND: return reduce(p, TILE_SUM, inner.args[0], v.over);
    case TILE_JOIN: {
      axis_set parts = axis_bit(tile_outer_axis(&inner)) | axis_bit(tile_inner_axis(&inner));
      if (!axis_in(v.over, tile_whole_axis(&inner)) || (v.over & parts)) break;
      return reduce(p, TILE_SUM, inner.args[0],
                    (v.over & ~axis_bit(tile_whole_axis(&inner))) | parts);
    }
    case TILE_SPLIT: {
      axis_set parts = axis_bit(tile_outer_axis(&inner)) | axis_bit(tile_inner_axis(&inner));
      if ((v.over & parts) != parts || axis_in(v.over, tile_whole_axis(&inner))) break;
      return reduce(p, TILE_SUM, inner.args[0],
                    (v.over & ~parts) | axis_bit(tile_whole_axis(&inner)));
    }
    case TILE_PLACE:
      if (!axis_in(v.over, tile_entry_axis(&inner))) break;
      return reduce(p, TILE_SUM, inner.args[0], v.over & ~axis_bit(tile_entry_axis(&inner)));
    case TILE_SELECT: {
      int axis = -1, entry = is_constant(p, inner.args[2], 0)
                                 ? only_entry(p, inner.args[0], v.over, &axis)
                                 : -1;
      if (entry < 0) break;
      tile_id there = tile_indexed(p, TILE_SLICE, inner.args[1], axis, entry);
      return reduce(p, TILE_SUM, there, v.over & ~axis_bit(axis));
    }
    case TILE_MUL:
      for (int i = 0; i < 2; i++) {
        tile_id factor = inner.args[i], other = inner.args[1 - i];
        // Of several axes, those that the factor lacks are summed first.
        axis_set free = v.over & ~operand_axes(p, factor);
        if (!free || operand_axes(p, factor) == 0) {
          if (!free) continue;
          return binary(p, TILE_MUL, factor, reduce(p, TILE_SUM, other, v.over));
        }
        tile_id summed = binary(p, TILE_MUL, factor, reduce(p, TILE_SUM, other, free));
        return reduce(p, TILE_SUM, summed, v.over & ~free);
      }
      break;
    default: break;
  }
  return exact(p, v);
}

static tile_id fold_dot(tile_program *p, tile_value v) {
  tile_id x = v.args[0], y = v.args[1];
  for (int i = 0; i < 2; i++) {
    if (tile_op_of(p, v.args[i]) == TILE_EXPAND) {
      axis_set all = (operand_axes(p, x) | operand_axes(p, y)) & ~v.over;
      tile_id stripped = arg_of(p, v.args[i], 0), other = v.args[1 - i];
      return expand(p, tile_dot(p, stripped, other, v.over), all);
    }
  }
  axis_set only_x = v.over & ~operand_axes(p, y), only_y = v.over & ~operand_axes(p, x);
  if (only_x | only_y) {
    axis_set both = v.over & ~(only_x | only_y);
    // An axis that neither has counts once.
    tile_id a = reduce(p, TILE_SUM, x, only_x), c = reduce(p, TILE_SUM, y, only_y & ~only_x);
    return tile_dot(p, a, c, both);
  }
  if (!v.over) return binary(p, TILE_MUL, x, y);
  if ((is_constant(p, x, 0) && is_finite(p, y)) || (is_constant(p, y, 0) && is_finite(p, x)))
    return folded_number(p, 0);
  // A sign moves out; a constant stays on its operand, which may serve several products.
  for (int i = 0; i < 2; i++) {
    if (!is_neg(p, v.args[i])) continue;
    return neg(p, tile_dot(p, arg_of(p, v.args[i], 0), v.args[1 - i], v.over));
  }
  if (v.args[0] > v.args[1]) {
    v.args[0] = y;
    v.args[1] = x;
  }
  return exact(p, v);
}

static tile_id fold_extreme(tile_program *p, tile_value v) {
  v.over &= operand_axes(p, v.args[0]);
  if (!v.over) return v.args[0];
  if (tile_op_of(p, v.args[0]) == TILE_EXPAND) {
    axis_set kept = operand_axes(p, v.args[0]) & ~v.over;
    return expand(p, reduce(p, v.op, arg_of(p, v.args[0], 0), v.over), kept);
  }
  return exact(p, v);
}

static tile_id fold_expand(tile_program *p, tile_value v) {
  v.over &= ~operand_axes(p, v.args[0]);
  if (!v.over) return v.args[0];
  if (tile_op_of(p, v.args[0]) == TILE_EXPAND) {
    tile_value inner = folded_value(p, v.args[0]);
    return expand(p, inner.args[0], v.over | inner.over);
  }
  return exact(p, v);
}

// ---- axes ------------------------------------------------------------------------------------

static tile_id fold_rename(tile_program *p, tile_value v) {
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
  return exact(p, v);
}

static bool is_placed(const tile_program *p, tile_id id, const tile_value *slice) {
  const tile_value *v = &p->values.items[id];
  return v->op == TILE_PLACE && tile_entry_axis(v) == tile_entry_axis(slice);
}

// An entry of several that were placed is one of them.
static tile_id fold_slice(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  if (!axis_in(x.axes, tile_entry_axis(&v))) return v.args[0];
  switch (x.op) {
    case TILE_INDEX: return folded_number(p, tile_entry(&v));
    case TILE_PLACE:
      if (tile_entry_axis(&x) != tile_entry_axis(&v)) break;
      return tile_entry(&x) == tile_entry(&v) ? x.args[0] : folded_number(p, 0);
    case TILE_EXPAND: {
      tile_id sliced = tile_indexed(p, TILE_SLICE, x.args[0], tile_entry_axis(&v), tile_entry(&v));
      return expand(p, sliced, x.axes & ~axis_bit(tile_entry_axis(&v)));
    }
    case TILE_ADD:
    case TILE_SUB:
      if (!is_placed(p, x.args[0], &v) || !is_placed(p, x.args[1], &v)) break;
      for (int k = 0; k < 2; k++)
        x.args[k] = tile_indexed(p, TILE_SLICE, x.args[k], tile_entry_axis(&v), tile_entry(&v));
      return binary(p, x.op, x.args[0], x.args[1]);
    default: break;
  }
  return exact(p, v);
}

static tile_id fold_place(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  if (is_constant(p, v.args[0], 0)) return v.args[0];
  if (axis_in(x.axes, tile_entry_axis(&v))) ICE("tile", "place on an axis that the value has");
  if (x.op == TILE_NEG)
    return neg(p, tile_indexed(p, TILE_PLACE, x.args[0], tile_entry_axis(&v), tile_entry(&v)));
  return exact(p, v);
}

// An operand that is the same along an axis that the operation needs: the expansion must stay
// visible to the verifier.
static tile_id with_needed_axes(tile_program *p, tile_id x, axis_set needed) {
  axis_set missing = needed & ~operand_axes(p, x);
  if (!missing) return x;
  return exact(p, (tile_value){.op = TILE_EXPAND, .args = {x}, .over = missing});
}

// The same operation on another operand.
static tile_id applied_to(tile_program *p, tile_value v, tile_id x) {
  v.args[0] = x;
  return tile_append(p, v);
}

// Sums along time, and shifts: linear, so signs and constants move out.
static tile_id fold_along_time(tile_program *p, tile_value v) {
  tile_id x = v.args[0];
  if (is_constant(p, x, 0)) return x;
  double scale;
  tile_id rest;
  if (is_scaled(p, x, &scale, &rest))
    return binary(p, TILE_MUL, folded_number(p, scale), applied_to(p, v, rest));
  axis_set needed = axis_bit(v.op == TILE_SHIFT ? tile_shift_axis(&v) : tile_step_axis(&v));
  if (v.op == TILE_SEGMENT_ADJOINT) needed |= axis_bit(tile_other_step_axis(&v));
  v.args[0] = with_needed_axes(p, x, needed);
  return exact(p, v);
}

static tile_id fold_shift(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  int64_t size = p->axes.items[tile_shift_axis(&v)].size;
  int distance = tile_shift_distance(&v);
  if (distance == 0) return v.args[0];
  if (size != TILE_RUNTIME_SIZE && llabs((long long)distance) >= size) return folded_number(p, 0);
  if (x.op == TILE_SHIFT && tile_shift_axis(&x) == tile_shift_axis(&v) &&
      (tile_shift_distance(&x) > 0) == (distance > 0))
    return tile_indexed(p, TILE_SHIFT, x.args[0], tile_shift_axis(&v),
                        distance + tile_shift_distance(&x));
  return fold_along_time(p, v);
}

// ---- one axis as two -------------------------------------------------------------------------

static tile_id fold_split(tile_program *p, tile_value v) {
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
      tile_id first = binary(p, TILE_MUL, folded_number(p, (double)inner),
                             tile_leaf(p, TILE_INDEX, tile_outer_axis(&v)));
      return binary(p, TILE_ADD, first, tile_leaf(p, TILE_INDEX, tile_inner_axis(&v)));
    }
    case TILE_EXPAND: return expand(p, applied_to(p, v, x.args[0]), (x.axes & ~whole) | parts);
    case TILE_NEG: return neg(p, applied_to(p, v, x.args[0]));
    default: break;
  }
  return exact(p, v);
}

static tile_id fold_join(tile_program *p, tile_value v) {
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
  return exact(p, v);
}

static tile_id fold_solve(tile_program *p, tile_value v) {
  tile_id matrix = v.args[0], r = v.args[1];
  if (is_constant(p, matrix, 0) || is_constant(p, r, 0)) return r;
  if (is_neg(p, r)) {
    v.args[1] = arg_of(p, r, 0);
    return neg(p, tile_append(p, v));
  }
  v.args[0] =
      with_needed_axes(p, matrix, axis_bit(tile_row_axis(&v)) | axis_bit(tile_column_axis(&v)));
  v.args[1] = with_needed_axes(p, r, axis_bit(tile_row_axis(&v)));
  return exact(p, v);
}

static tile_id fold_scan(tile_program *p, tile_value v) {
  bool zero = true;
  for (int k = 1; k < tile_arity(v.op); k++) zero = zero && is_constant(p, v.args[k], 0);
  if (zero) return v.args[1];
  if (v.op == TILE_SCAN && is_constant(p, v.args[0], 0)) return v.args[1];
  if (v.op == TILE_SCAN_PAIR)
    v.args[0] = with_needed_axes(p, v.args[0], axis_bit(tile_part_axis(&v)));
  return exact(p, v);
}

tile_id tile_append(tile_program *program, tile_value v) {
  const char *name = v.name;
  span outer = program->where;
  tile_id id;
  if (v.where.source) program->where = v.where;  // whatever it is folded to
  for (int i = tile_arity(v.op); i < 3; i++) v.args[i] = NO_TILE;
  if (tile_elementwise(v.op)) {
    id = fold_elementwise(program, v);
  } else {
    switch (v.op) {
      case TILE_AXIS_SIZE: {
        int64_t size = program->axes.items[tile_index_axis(&v)].size;
        id = size == TILE_RUNTIME_SIZE ? exact(program, v) : folded_number(program, (double)size);
        break;
      }
      case TILE_SUM: id = fold_sum(program, v); break;
      case TILE_MAX_OVER:
      case TILE_MIN_OVER: id = fold_extreme(program, v); break;
      case TILE_DOT: id = fold_dot(program, v); break;
      case TILE_EXPAND: id = fold_expand(program, v); break;
      case TILE_RENAME: id = fold_rename(program, v); break;
      case TILE_SLICE: id = fold_slice(program, v); break;
      case TILE_PLACE: id = fold_place(program, v); break;
      case TILE_SHIFT: id = fold_shift(program, v); break;
      case TILE_SPLIT: id = fold_split(program, v); break;
      case TILE_JOIN: id = fold_join(program, v); break;
      case TILE_SOLVE: id = fold_solve(program, v); break;
      case TILE_SCAN:
      case TILE_SCAN_PAIR: id = fold_scan(program, v); break;
      case TILE_PREFIX:
      case TILE_SEGMENT:
      case TILE_SEGMENT_ADJOINT: id = fold_along_time(program, v); break;
      case TILE_FIRST_MAX:
      case TILE_FIRST_MIN: {
        axis_set missing = v.over & ~operand_axes(program, v.args[0]);
        if (missing)
          v.args[0] =
              exact(program, (tile_value){.op = TILE_EXPAND, .args = {v.args[0]}, .over = missing});
        id = exact(program, v);
        break;
      }
      default: id = exact(program, v); break;
    }
  }
  if (name && !program->values.items[id].name) program->values.items[id].name = name;
  program->where = outer;
  return id;
}
