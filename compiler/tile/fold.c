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

#include "compiler/tile/fold.h"

static tile_id times_sizes(tile_program *p, tile_id x, axis_set axes) {
  for (int i = 0; i < p->axes.count; i++)
    if (axis_in(axes, i)) x = tile_binary(p, TILE_MUL, tile_leaf(p, TILE_AXIS_SIZE, i), x);
  return x;
}

// ---- elementwise -----------------------------------------------------------------------------

static tile_id fold_neg(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  switch (x.op) {
    case TILE_NEG: return x.args[0];
    case TILE_SUB: return tile_binary(p, TILE_SUB, x.args[1], x.args[0]);
    case TILE_MUL:
      if (!is_number(p, x.args[0])) return tile_append_exact(p, v);
      return tile_binary(p, TILE_MUL, tile_number(p, -constant_value(p, x.args[0])), x.args[1]);
    default: return tile_append_exact(p, v);
  }
}

// Gates are often handed over as logarithms; their exponential is one function, not two.
static tile_id fold_exp(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]);
  if (x.op == TILE_LOG_SIGMOID) return tile_unary(p, TILE_SIGMOID, x.args[0]);
  if (x.op == TILE_NEG && tile_op_of(p, x.args[0]) == TILE_SOFTPLUS)
    return tile_unary(p, TILE_SIGMOID, neg(p, arg_of(p, x.args[0], 0)));
  return tile_append_exact(p, v);
}

static tile_id fold_unary(tile_program *p, tile_value v) {
  tile_id x = v.args[0];
  if (is_neg(p, x) && tile_op_is(v.op, TILE_EVEN)) return tile_unary(p, v.op, arg_of(p, x, 0));
  if (is_neg(p, x) && tile_op_is(v.op, TILE_ODD))
    return neg(p, tile_unary(p, v.op, arg_of(p, x, 0)));
  switch (v.op) {
    case TILE_NEG: return fold_neg(p, v);
    case TILE_EXP: return fold_exp(p, v);
    case TILE_SILU: return tile_binary(p, TILE_MUL, x, tile_unary(p, TILE_SIGMOID, x));
    case TILE_ABS:
    case TILE_WRAP:
    case TILE_STOP: return tile_op_of(p, x) == v.op ? x : tile_append_exact(p, v);
    default: return tile_append_exact(p, v);
  }
}

static bool same_entry(const tile_value *v, const tile_value *w) {
  return tile_entry_axis(v) == tile_entry_axis(w) && tile_entry(v) == tile_entry(w);
}

// Sums of masked or placed values keep one mask or place.
static tile_id fold_add_structured(tile_program *p, tile_value v) {
  tile_value x = folded_value(p, v.args[0]), y = folded_value(p, v.args[1]);
  if (x.op == TILE_PLACE && y.op == TILE_PLACE && same_entry(&x, &y)) {
    tile_id sum = tile_binary(p, TILE_ADD, x.args[0], y.args[0]);
    return tile_indexed(p, TILE_PLACE, sum, tile_entry_axis(&x), tile_entry(&x));
  }
  if (x.op == TILE_JOIN && y.op == TILE_JOIN && same_regrouping(&x, &y)) {
    tile_id sum = tile_binary(p, TILE_ADD, x.args[0], y.args[0]);
    return tile_regroup(p, TILE_JOIN, sum, tile_whole_axis(&x), tile_outer_axis(&x),
                        tile_inner_axis(&x));
  }
  if (x.op == TILE_SELECT && y.op == TILE_SELECT && x.args[0] == y.args[0]) {
    bool meet = (tile_is_number(p, x.args[1], 0) || tile_is_number(p, y.args[1], 0) ||
                 (tile_is_number(p, x.args[2], 0) && tile_is_number(p, y.args[2], 0))) &&
                (tile_is_number(p, x.args[2], 0) || tile_is_number(p, y.args[2], 0));
    if (meet)
      return tile_select(p, x.args[0], tile_binary(p, TILE_ADD, x.args[1], y.args[1]),
                         tile_binary(p, TILE_ADD, x.args[2], y.args[2]));
  }
  return tile_append_exact(p, v);
}

static tile_id fold_add(tile_program *p, tile_value v) {
  tile_id x = v.args[0], y = v.args[1];
  if (tile_is_number(p, x, 0)) return y;
  if (tile_is_number(p, y, 0)) return x;
  if (x == y) return tile_binary(p, TILE_MUL, tile_number(p, 2), x);
  if (is_neg(p, x) && is_neg(p, y))
    return neg(p, tile_binary(p, TILE_ADD, arg_of(p, x, 0), arg_of(p, y, 0)));
  if (is_neg(p, y)) return tile_binary(p, TILE_SUB, x, arg_of(p, y, 0));
  if (is_neg(p, x)) return tile_binary(p, TILE_SUB, y, arg_of(p, x, 0));
  return fold_add_structured(p, v);
}

static tile_id fold_sub(tile_program *p, tile_value v) {
  tile_id x = v.args[0], y = v.args[1];
  if (tile_is_number(p, y, 0)) return x;
  if (tile_is_number(p, x, 0)) return neg(p, y);
  if (is_neg(p, y)) return tile_binary(p, TILE_ADD, x, arg_of(p, y, 0));
  if (is_neg(p, x)) return neg(p, tile_binary(p, TILE_ADD, arg_of(p, x, 0), y));
  return tile_append_exact(p, v);
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
  if ((tile_is_number(p, x, 0) && is_finite(p, y)) || (tile_is_number(p, y, 0) && is_finite(p, x)))
    return tile_number(p, 0);
  if (tile_is_number(p, x, 1)) return y;
  if (tile_is_number(p, y, 1)) return x;
  if (is_neg(p, x)) return neg(p, tile_binary(p, TILE_MUL, arg_of(p, x, 0), y));
  if (is_neg(p, y)) return neg(p, tile_binary(p, TILE_MUL, x, arg_of(p, y, 0)));
  if (tile_is_number(p, x, -1)) return neg(p, y);
  if (tile_is_number(p, y, -1)) return neg(p, x);
  // Constants stand first, and one constant is left of a product.
  if (is_number(p, y)) return tile_binary(p, TILE_MUL, y, x);
  double scale;
  tile_id rest;
  if (is_scaled(p, y, &scale, &rest)) {
    if (is_number(p, x)) {
      double product = constant_value(p, x) * scale;
      return isfinite(product) ? tile_binary(p, TILE_MUL, tile_number(p, product), rest)
                               : tile_append_exact(p, v);
    }
    return tile_binary(p, TILE_MUL, tile_number(p, scale), tile_binary(p, TILE_MUL, x, rest));
  }
  if (!is_number(p, x) && is_scaled(p, x, &scale, &rest))
    return tile_binary(p, TILE_MUL, tile_number(p, scale), tile_binary(p, TILE_MUL, rest, y));
  return tile_append_exact(p, v);
}

static tile_id fold_div(tile_program *p, tile_value v) {
  tile_id x = v.args[0], y = v.args[1];
  if (is_number(p, y)) {
    double reciprocal = 1 / constant_value(p, y);
    if (isnormal(reciprocal)) return tile_binary(p, TILE_MUL, tile_number(p, reciprocal), x);
  }
  if (is_neg(p, x)) return neg(p, tile_binary(p, TILE_DIV, arg_of(p, x, 0), y));
  if (is_neg(p, y)) return neg(p, tile_binary(p, TILE_DIV, x, arg_of(p, y, 0)));
  return tile_append_exact(p, v);
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
  if ((minus_x || minus_y) && (minus_x || tile_is_number(p, x, 0)) &&
      (minus_y || tile_is_number(p, y, 0))) {
    tile_id positive =
        tile_select(p, c, minus_x ? arg_of(p, x, 0) : x, minus_y ? arg_of(p, y, 0) : y);
    return neg(p, positive);
  }
  return tile_append_exact(p, v);
}

static tile_id fold_seldom(tile_program *p, tile_value v) {
  tile_id c = v.args[0], rare = v.args[1], usual = v.args[2];
  if (is_number(p, c)) return constant_value(p, c) != 0 ? rare : usual;
  return rare == usual ? rare : tile_append_exact(p, v);
}

static tile_id fold_accumulate(tile_program *p, tile_value v) {
  tile_id x = v.args[0];
  if (tile_is_number(p, x, 0)) return x;
  double scale;
  tile_id rest;
  if (is_scaled(p, x, &scale, &rest))
    return tile_binary(p, TILE_MUL, tile_number(p, scale), tile_unary(p, TILE_ACCUMULATE, rest));
  return tile_append_exact(p, v);
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
  if (constant) return tile_number(p, tile_function_of(v.op)(numbers));
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
    default: return arity == 1 ? fold_unary(p, v) : tile_append_exact(p, v);
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
  if (missing) return times_sizes(p, tile_reduce(p, TILE_SUM, x, v.over), missing);
  if (!v.over) return x;
  tile_value inner = folded_value(p, x);
  double scale;
  tile_id rest;
  if (is_scaled(p, x, &scale, &rest))
    return tile_binary(p, TILE_MUL, tile_number(p, scale), tile_reduce(p, TILE_SUM, rest, v.over));
  switch (inner.op) {
    case TILE_SUM: return tile_reduce(p, TILE_SUM, inner.args[0], v.over | inner.over);
    case TILE_EXPAND: return tile_reduce(p, TILE_SUM, inner.args[0], v.over);
    case TILE_JOIN: {
      axis_set parts = axis_bit(tile_outer_axis(&inner)) | axis_bit(tile_inner_axis(&inner));
      if (!axis_in(v.over, tile_whole_axis(&inner)) || (v.over & parts)) break;
      return tile_reduce(p, TILE_SUM, inner.args[0],
                         (v.over & ~axis_bit(tile_whole_axis(&inner))) | parts);
    }
    case TILE_SPLIT: {
      axis_set parts = axis_bit(tile_outer_axis(&inner)) | axis_bit(tile_inner_axis(&inner));
      if ((v.over & parts) != parts || axis_in(v.over, tile_whole_axis(&inner))) break;
      return tile_reduce(p, TILE_SUM, inner.args[0],
                         (v.over & ~parts) | axis_bit(tile_whole_axis(&inner)));
    }
    case TILE_PLACE:
      if (!axis_in(v.over, tile_entry_axis(&inner))) break;
      return tile_reduce(p, TILE_SUM, inner.args[0], v.over & ~axis_bit(tile_entry_axis(&inner)));
    case TILE_SELECT: {
      int axis = -1, entry = tile_is_number(p, inner.args[2], 0)
                                 ? only_entry(p, inner.args[0], v.over, &axis)
                                 : -1;
      if (entry < 0) break;
      tile_id there = tile_indexed(p, TILE_SLICE, inner.args[1], axis, entry);
      return tile_reduce(p, TILE_SUM, there, v.over & ~axis_bit(axis));
    }
    case TILE_MUL:
      for (int i = 0; i < 2; i++) {
        tile_id factor = inner.args[i], other = inner.args[1 - i];
        if (tile_op_of(p, factor) == TILE_PLACE) {
          tile_value place = folded_value(p, factor);
          int axis = tile_entry_axis(&place);
          if (!axis_in(v.over, axis)) continue;
          if (axis_in(operand_axes(p, other), axis))
            other = tile_indexed(p, TILE_SLICE, other, axis, tile_entry(&place));
          tile_id there = tile_binary(p, TILE_MUL, place.args[0], other);
          return tile_reduce(p, TILE_SUM, there, v.over & ~axis_bit(axis));
        }
        // Of several axes, those that the factor lacks are summed first.
        axis_set free = v.over & ~operand_axes(p, factor);
        if (!free) continue;
        tile_id summed = tile_binary(p, TILE_MUL, factor, tile_reduce(p, TILE_SUM, other, free));
        return tile_reduce(p, TILE_SUM, summed, v.over & ~free);
      }
      break;
    default: break;
  }
  return tile_append_exact(p, v);
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
    tile_id a = tile_reduce(p, TILE_SUM, x, only_x),
            c = tile_reduce(p, TILE_SUM, y, only_y & ~only_x);
    return tile_dot(p, a, c, both);
  }
  if (!v.over) return tile_binary(p, TILE_MUL, x, y);
  if ((tile_is_number(p, x, 0) && is_finite(p, y)) || (tile_is_number(p, y, 0) && is_finite(p, x)))
    return tile_number(p, 0);
  // A sign moves out; a constant stays on its operand, which may serve several products.
  for (int i = 0; i < 2; i++) {
    if (!is_neg(p, v.args[i])) continue;
    return neg(p, tile_dot(p, arg_of(p, v.args[i], 0), v.args[1 - i], v.over));
  }
  if (v.args[0] > v.args[1]) {
    v.args[0] = y;
    v.args[1] = x;
  }
  return tile_append_exact(p, v);
}

static tile_id fold_extreme(tile_program *p, tile_value v) {
  v.over &= operand_axes(p, v.args[0]);
  if (!v.over) return v.args[0];
  if (tile_op_of(p, v.args[0]) == TILE_EXPAND) {
    axis_set kept = operand_axes(p, v.args[0]) & ~v.over;
    return expand(p, tile_reduce(p, v.op, arg_of(p, v.args[0], 0), v.over), kept);
  }
  return tile_append_exact(p, v);
}

static tile_id fold_expand(tile_program *p, tile_value v) {
  v.over &= ~operand_axes(p, v.args[0]);
  if (!v.over) return v.args[0];
  if (tile_op_of(p, v.args[0]) == TILE_EXPAND) {
    tile_value inner = folded_value(p, v.args[0]);
    return expand(p, inner.args[0], v.over | inner.over);
  }
  return tile_append_exact(p, v);
}

static tile_id fold_solve(tile_program *p, tile_value v) {
  tile_id matrix = v.args[0], r = v.args[1];
  if (tile_is_number(p, matrix, 0) || tile_is_number(p, r, 0)) return r;
  if (is_neg(p, r)) {
    v.args[1] = arg_of(p, r, 0);
    return neg(p, tile_append(p, v));
  }
  v.args[0] =
      with_needed_axes(p, matrix, axis_bit(tile_row_axis(&v)) | axis_bit(tile_column_axis(&v)));
  v.args[1] = with_needed_axes(p, r, axis_bit(tile_row_axis(&v)));
  return tile_append_exact(p, v);
}

static tile_id fold_scan(tile_program *p, tile_value v) {
  bool zero = true;
  for (int k = 1; k < tile_arity(v.op); k++) zero = zero && tile_is_number(p, v.args[k], 0);
  if (zero) return v.args[1];
  if (v.op == TILE_SCAN && tile_is_number(p, v.args[0], 0)) return v.args[1];
  if (v.op != TILE_SCAN)
    v.args[0] = with_needed_axes(p, v.args[0], axis_bit(tile_part_axis(&v)) | v.over);
  return tile_append_exact(p, v);
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
        id = size == TILE_RUNTIME_SIZE ? tile_append_exact(program, v)
                                       : tile_number(program, (double)size);
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
      case TILE_SCAN_PAIR:
      case TILE_SCAN_JOINT: id = fold_scan(program, v); break;
      case TILE_PREFIX:
      case TILE_SEGMENT:
      case TILE_SEGMENT_ADJOINT: id = fold_along_time(program, v); break;
      case TILE_FIRST_MAX:
      case TILE_FIRST_MIN:
        v.args[0] = with_needed_axes(program, v.args[0], v.over);
        id = tile_append_exact(program, v);
        break;
      default: id = tile_append_exact(program, v); break;
    }
  }
  if (name && !program->values.items[id].name) program->values.items[id].name = name;
  program->where = outer;
  return id;
}
