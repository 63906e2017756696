// The derivative rule of every operation: from the cotangent dy of a value to those of its
// operands.
//
//   y = exp x      ->   dx = dy * y
//   y = div a b    ->   da = dy / b,  db = -da * y      (never a reciprocal: its own rule would square it)
//   y = max a b    ->   da = select (b < a) dy 0,  db = select (b < a) 0 dy
//
// Rules refer to results where that is cheaper. At a kink one side gets the gradient: the second
// operand of max and min, the first extreme entry of a reduction. For abs, relu and sqrt_kink
// nothing gets it.
#include <math.h>

#include "compiler/base/ice.h"
#include "compiler/tile/gradient.h"

static tile_id arg(const gradient *g, tile_id id, int k) {
  return g->forward->values.items[id].args[k];
}
static const tile_value *row(const gradient *g, tile_id id) {
  return &g->forward->values.items[id];
}
static tile_id num(gradient *g, double x) { return tile_number(g->program, x); }
static tile_id un(gradient *g, tile_op op, tile_id x) { return tile_unary(g->program, op, x); }
static tile_id bin(gradient *g, tile_op op, tile_id x, tile_id y) {
  return tile_binary(g->program, op, x, y);
}
static tile_id mul(gradient *g, tile_id x, tile_id y) { return bin(g, TILE_MUL, x, y); }
static tile_id mask(gradient *g, tile_id condition, tile_id x) {
  return tile_select(g->program, condition, x, num(g, 0));
}
static tile_id mask_out(gradient *g, tile_id condition, tile_id x) {
  return tile_select(g->program, condition, num(g, 0), x);
}

// ---- one operand -----------------------------------------------------------------------------

static void vjp_neg(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, un(g, TILE_NEG, dy), dy);
}

// exp(-exp(w)) is 0 for large w, and so is what comes back from it, while exp(w) has overflowed: 0
// stays 0.
static void vjp_exp(gradient *g, tile_id y, tile_id dy) {
  tile_id dx = mul(g, dy, y);
  if (tile_may_overflow(g->forward, y)) dx = mask_out(g, bin(g, TILE_EQUAL, dy, num(g, 0)), dx);
  gradient_give(g, y, 0, dx, dy);
}

static void vjp_exp2(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, mul(g, dy, mul(g, num(g, log(2)), y)), dy);
}

static void vjp_expm1(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, mul(g, dy, bin(g, TILE_ADD, num(g, 1), y)), dy);
}

static void vjp_log(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, bin(g, TILE_DIV, dy, arg(g, y, 0)), dy);
}

static void vjp_log1p(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, bin(g, TILE_DIV, dy, bin(g, TILE_ADD, num(g, 1), arg(g, y, 0))), dy);
}

static void vjp_sqrt(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, bin(g, TILE_DIV, mul(g, num(g, 0.5), dy), y), dy);
}

static void vjp_sqrt_kink(gradient *g, tile_id y, tile_id dy) {
  tile_id at_kink = bin(g, TILE_EQUAL, arg(g, y, 0), num(g, 0));
  gradient_give(g, y, 0, mask_out(g, at_kink, bin(g, TILE_DIV, mul(g, num(g, 0.5), dy), y)), dy);
}

// x / y is at most 1, where dy / y need not be finite.
static void vjp_hypot(gradient *g, tile_id y, tile_id dy) {
  tile_id at_kink = bin(g, TILE_EQUAL, y, num(g, 0));
  for (int k = 0; k < 2; k++)
    gradient_give(g, y, k, mask_out(g, at_kink, mul(g, dy, bin(g, TILE_DIV, arg(g, y, k), y))), dy);
}

static void vjp_rsqrt(gradient *g, tile_id y, tile_id dy) {
  tile_id cube = mul(g, y, mul(g, y, y));
  gradient_give(g, y, 0, mul(g, dy, mul(g, num(g, -0.5), cube)), dy);
}

static void vjp_abs(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, mul(g, dy, un(g, TILE_SIGN, arg(g, y, 0))), dy);
}

// Is y, the sigmoid of x, needed for x y alone? So silu is written.
static bool only_scales_its_operand(const gradient *g, tile_id y) {
  tile_id x = row(g, y)->args[0];
  for (int i = 0; i < g->forward->results.count; i++)
    if (g->forward->results.items[i].value == y) return false;
  for (int i = y + 1; i < g->forward->values.count; i++) {
    const tile_value *user = &g->forward->values.items[i];
    for (int k = 0; k < tile_arity(user->op); k++)
      if (user->args[k] == y && !(user->op == TILE_MUL && user->args[1 - k] == x)) return false;
  }
  return true;
}

// y (1 - y), where 1 - y is the sigmoid of -x: near 1 the difference has lost its digits, which
// gates that remember live in. Not so in the derivative of silu, y + x y (1 - y), where it adds
// little to y.
static void vjp_sigmoid(gradient *g, tile_id y, tile_id dy) {
  tile_id x = arg(g, y, 0), rest;
  if (only_scales_its_operand(g, y))
    rest = bin(g, TILE_SUB, num(g, 1), y);
  else
    rest = un(g, TILE_SIGMOID, row(g, x)->op == TILE_NEG ? arg(g, x, 0) : un(g, TILE_NEG, x));
  gradient_give(g, y, 0, mul(g, dy, mul(g, y, rest)), dy);
}

static void vjp_log_sigmoid(gradient *g, tile_id y, tile_id dy) {
  tile_id other = un(g, TILE_SIGMOID, un(g, TILE_NEG, arg(g, y, 0)));
  gradient_give(g, y, 0, mul(g, dy, other), dy);
}

static void vjp_softplus(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, mul(g, dy, un(g, TILE_SIGMOID, arg(g, y, 0))), dy);
}

// y = x s: s + x s (1 - s) = s (1 + (x - y))
static void vjp_silu(gradient *g, tile_id y, tile_id dy) {
  tile_id x = arg(g, y, 0), s = un(g, TILE_SIGMOID, x);
  tile_id slope = mul(g, s, bin(g, TILE_ADD, num(g, 1), bin(g, TILE_SUB, x, y)));
  gradient_give(g, y, 0, mul(g, dy, slope), dy);
}

static void vjp_erf(gradient *g, tile_id y, tile_id dy) {
  tile_id x = arg(g, y, 0);
  tile_id bell = un(g, TILE_EXP, un(g, TILE_NEG, mul(g, x, x)));
  gradient_give(g, y, 0, mul(g, dy, mul(g, num(g, 2 / sqrt(acos(-1))), bell)), dy);
}

static void vjp_relu(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, mask(g, bin(g, TILE_LESS, num(g, 0), arg(g, y, 0)), dy), dy);
}

static void vjp_tanh(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, mul(g, dy, bin(g, TILE_SUB, num(g, 1), mul(g, y, y))), dy);
}

static void vjp_sin(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, mul(g, dy, un(g, TILE_COS, arg(g, y, 0))), dy);
}

static void vjp_cos(gradient *g, tile_id y, tile_id dy) {
  tile_id slope = un(g, TILE_NEG, un(g, TILE_SIN, arg(g, y, 0)));
  gradient_give(g, y, 0, mul(g, dy, slope), dy);
}

// ---- two and three operands ------------------------------------------------------------------

static void vjp_add(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, dy, dy);
  gradient_give(g, y, 1, dy, dy);
}

static void vjp_sub(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 0, dy, dy);
  gradient_give(g, y, 1, un(g, TILE_NEG, dy), dy);
}

static void vjp_with_gradient(gradient *g, tile_id y, tile_id dy) {
  gradient_give(g, y, 1, dy, dy);
}

static void vjp_mul(gradient *g, tile_id y, tile_id dy) {
  tile_id a = arg(g, y, 0), b = arg(g, y, 1);
  if (a == b) {
    gradient_give_product(g, y, 0, mul(g, num(g, 2), dy), a);
    return;
  }
  gradient_give_product(g, y, 0, dy, b);
  gradient_give_product(g, y, 1, dy, a);
}

static void vjp_div(gradient *g, tile_id y, tile_id dy) {
  tile_id da = bin(g, TILE_DIV, dy, arg(g, y, 1));
  gradient_give(g, y, 0, da, dy);
  gradient_give(g, y, 1, un(g, TILE_NEG, mul(g, da, y)), dy);
}

static void vjp_pow(gradient *g, tile_id y, tile_id dy) {
  tile_id x = arg(g, y, 0), p = arg(g, y, 1);
  tile_id slope = mul(g, p, bin(g, TILE_POWER, x, bin(g, TILE_SUB, p, num(g, 1))));
  gradient_give(g, y, 0, mul(g, dy, slope), dy);
  if (!g->wanted[p]) return;
  // 0 to a positive power does not depend on the power.
  tile_id at_zero = bin(g, TILE_EQUAL, x, num(g, 0));
  gradient_give(g, y, 1, mask_out(g, at_zero, mul(g, dy, mul(g, y, un(g, TILE_LOG, x)))), dy);
}

static void give_by_question(gradient *g, tile_id y, tile_id dy, tile_id first) {
  gradient_give(g, y, 0, mask(g, first, dy), dy);
  gradient_give(g, y, 1, mask_out(g, first, dy), dy);
}

static void vjp_min(gradient *g, tile_id y, tile_id dy) {
  give_by_question(g, y, dy, bin(g, TILE_LESS, arg(g, y, 0), arg(g, y, 1)));
}

static void vjp_max(gradient *g, tile_id y, tile_id dy) {
  give_by_question(g, y, dy, bin(g, TILE_LESS, arg(g, y, 1), arg(g, y, 0)));
}

static void vjp_select(gradient *g, tile_id y, tile_id dy) {
  tile_id c = arg(g, y, 0);
  gradient_give(g, y, 1, mask(g, c, dy), dy);
  gradient_give(g, y, 2, mask_out(g, c, dy), dy);
}

// A branch gets the cotangent as it is, and what leaves it counts where it is taken (autodiff.c).
static void vjp_seldom(gradient *g, tile_id y, tile_id dy) {
  bool within_branch = g->branches[y].condition != NO_TILE;
  for (int k = 1; k < 3 && !within_branch; k++) gradient_give(g, y, k, dy, dy);
  if (within_branch) vjp_select(g, y, dy);
}

// ---- axes ------------------------------------------------------------------------------------

// Of sums too: dy lacks the axes that were summed, which means the same along them.
static void vjp_same(gradient *g, tile_id y, tile_id dy) { gradient_give(g, y, 0, dy, dy); }

static void vjp_first(gradient *g, tile_id y, tile_id dy) {
  tile_op op = row(g, y)->op == TILE_MAX_OVER ? TILE_FIRST_MAX : TILE_FIRST_MIN;
  tile_value first = {.op = op, .args = {arg(g, y, 0)}, .over = row(g, y)->over};
  gradient_give(g, y, 0, mask(g, tile_append(g->program, first), dy), dy);
}

static void give_indexed(gradient *g, tile_id y, tile_id dy, tile_op op, int index, int index2) {
  gradient_give(g, y, 0, tile_indexed(g->program, op, dy, index, index2), dy);
}

static void vjp_rename(gradient *g, tile_id y, tile_id dy) {
  give_indexed(g, y, dy, TILE_RENAME, tile_renamed_to(row(g, y)), tile_renamed_from(row(g, y)));
}

static void vjp_slice(gradient *g, tile_id y, tile_id dy) {
  give_indexed(g, y, dy, TILE_PLACE, tile_entry_axis(row(g, y)), tile_entry(row(g, y)));
}

static void vjp_place(gradient *g, tile_id y, tile_id dy) {
  give_indexed(g, y, dy, TILE_SLICE, tile_entry_axis(row(g, y)), tile_entry(row(g, y)));
}

static void give_regrouped(gradient *g, tile_id y, tile_id dy, tile_op op) {
  tile_value v = *row(g, y);
  tile_id dx = tile_regroup(g->program, op, dy, tile_whole_axis(&v), tile_outer_axis(&v),
                            tile_inner_axis(&v));
  gradient_give(g, y, 0, dx, dy);
}

static void vjp_split(gradient *g, tile_id y, tile_id dy) { give_regrouped(g, y, dy, TILE_JOIN); }

static void vjp_join(gradient *g, tile_id y, tile_id dy) { give_regrouped(g, y, dy, TILE_SPLIT); }

static void vjp_shift(gradient *g, tile_id y, tile_id dy) {
  give_indexed(g, y, dy, TILE_SHIFT, tile_shift_axis(row(g, y)), -tile_shift_distance(row(g, y)));
}

static void give_along(gradient *g, tile_id y, tile_id dy, tile_op op, int kind) {
  tile_value v = *row(g, y);
  gradient_give(g, y, 0,
                tile_along(g->program, op, dy, kind, tile_step_axis(&v), tile_other_step_axis(&v)),
                dy);
}

// The sums of the other direction, bit 1 of the index.
static void vjp_prefix(gradient *g, tile_id y, tile_id dy) {
  give_along(g, y, dy, TILE_PREFIX, row(g, y)->index ^ 2);
}

static void vjp_segment(gradient *g, tile_id y, tile_id dy) {
  give_along(g, y, dy, TILE_SEGMENT_ADJOINT, tile_is_exclusive(row(g, y)));
}

static void vjp_segment_adjoint(gradient *g, tile_id y, tile_id dy) {
  give_along(g, y, dy, TILE_SEGMENT, tile_is_exclusive(row(g, y)));
}

// The cotangent of the right side solves the transposed system. A pair's factor of the matrix gets
// the product of that cotangent, at the later step, and the result, at the earlier step.
static void vjp_solve(gradient *g, tile_id y, tile_id dy) {
  tile_program *p = g->program;
  tile_value v = *row(g, y);
  tile_id matrix = v.args[0], dr = tile_solve(p, matrix, dy, tile_row_axis(&v),
                                              tile_column_axis(&v), !tile_is_transposed(&v));
  gradient_give(g, y, 1, dr, dy);
  if (!g->wanted[matrix]) return;
  tile_id at_t = tile_is_transposed(&v) ? y : dr, at_s = tile_is_transposed(&v) ? dr : y;
  at_s = tile_indexed(p, TILE_RENAME, at_s, tile_row_axis(&v), tile_column_axis(&v));
  axis_set all = p->values.items[at_t].axes | p->values.items[at_s].axes;
  tile_id product = tile_dot(p, at_t, at_s, all & ~p->values.items[matrix].axes);
  tile_id below = tile_along(p, TILE_CAUSAL, NO_TILE, 1, tile_row_axis(&v), tile_column_axis(&v));
  gradient_give(g, y, 0, mask(g, below, product), dy);
}

// The cotangents g of x are a scan the other way, with the factor of the step behind. That of a
// factor is g times the state before it.
static tile_id scan_back(gradient *g, const tile_value *v, tile_id a, tile_id re, tile_id im) {
  int axis = tile_step_axis(v), part = v->op == TILE_SCAN_PAIR ? tile_part_axis(v) : -1;
  if (axis_in(g->program->values.items[a].axes, axis))
    a = tile_indexed(g->program, TILE_SHIFT, a, axis, tile_is_from_end(v) ? 1 : -1);
  return tile_scan(g->program, a, re, im, axis, part, !tile_is_from_end(v));
}

static tile_id state_before(gradient *g, const tile_value *v, tile_id h) {
  return tile_indexed(g->program, TILE_SHIFT, h, tile_step_axis(v), tile_is_from_end(v) ? -1 : 1);
}

static void vjp_scan(gradient *g, tile_id y, tile_id dy) {
  tile_value v = *row(g, y);
  tile_id dx = scan_back(g, &v, v.args[0], dy, NO_TILE);
  gradient_give(g, y, 1, dx, dy);
  if (g->wanted[v.args[0]]) gradient_give_product(g, y, 0, dx, state_before(g, &v, y));
}

static tile_id part_of(gradient *g, const tile_value *v, tile_id x, int part) {
  return tile_indexed(g->program, TILE_SLICE, x, tile_part_axis(v), part);
}

static tile_id of_parts(gradient *g, const tile_value *v, tile_id re, tile_id im) {
  return bin(g, TILE_ADD, tile_indexed(g->program, TILE_PLACE, re, tile_part_axis(v), 0),
             tile_indexed(g->program, TILE_PLACE, im, tile_part_axis(v), 1));
}

// A product, summed over the axes that the factor of the scan lacks.
static tile_id product_for_factor(gradient *g, const tile_value *v, tile_id x, tile_id y) {
  const tile_value *values = g->program->values.items;
  axis_set all = values[x].axes | values[y].axes;
  return tile_dot(g->program, x, y, all & ~values[v->args[0]].axes);
}

// Cotangents of complex factors are products with conjugates.
static void vjp_scan_pair(gradient *g, tile_id y, tile_id dy) {
  tile_value v = *row(g, y);
  tile_id a = v.args[0], dx[2], h[2];
  tile_id conjugate = of_parts(g, &v, part_of(g, &v, a, 0), un(g, TILE_NEG, part_of(g, &v, a, 1)));
  tile_id both = scan_back(g, &v, conjugate, part_of(g, &v, dy, 0), part_of(g, &v, dy, 1));
  for (int k = 0; k < 2; k++) {
    dx[k] = part_of(g, &v, both, k);
    gradient_give(g, y, 1 + k, dx[k], dy);
  }
  if (!g->wanted[a]) return;
  for (int k = 0; k < 2; k++) h[k] = state_before(g, &v, part_of(g, &v, y, k));
  tile_id re = bin(g, TILE_ADD, product_for_factor(g, &v, dx[0], h[0]),
                   product_for_factor(g, &v, dx[1], h[1]));
  tile_id im = bin(g, TILE_SUB, product_for_factor(g, &v, dx[1], h[0]),
                   product_for_factor(g, &v, dx[0], h[1]));
  gradient_give(g, y, 0, of_parts(g, &v, re, im), dy);
}

// The scan the other way goes from what the parts became to what they were: the axes trade places.
static void vjp_scan_joint(gradient *g, tile_id y, tile_id dy) {
  tile_value v = *row(g, y);
  int to = tile_part_axis(&v), from = tile_from_axis(&v), axis = tile_step_axis(&v);
  tile_program *p = g->program;
  tile_id a = v.args[0], before = state_before(g, &v, y);
  if (axis_in(p->values.items[a].axes, axis))
    a = tile_indexed(p, TILE_SHIFT, a, axis, tile_is_from_end(&v) ? 1 : -1);
  tile_id back = tile_scan_joint(p, a, tile_indexed(p, TILE_RENAME, dy, to, from), axis, to, from,
                                 !tile_is_from_end(&v));
  tile_id dx = tile_indexed(p, TILE_RENAME, back, from, to);
  gradient_give(g, y, 1, dx, dy);
  if (g->wanted[v.args[0]])
    gradient_give_product(g, y, 0, dx, tile_indexed(p, TILE_RENAME, before, to, from));
}

static void vjp_NONE(gradient *g, tile_id y, tile_id dy) {
  (void)dy;
  ICE("autodiff", "%%%d (%s) has no derivative rule", y, tile_op_text(row(g, y)->op));
}

static void (*const rules[])(gradient *, tile_id, tile_id) = {
#define TILE_OP(id, text, detail, arity, shape, vjp, ...) vjp_##vjp,
#include "compiler/tile/ops.def"
#undef TILE_OP
};

bool gradient_has_rule(tile_op op) { return rules[op] != vjp_NONE; }

void gradient_apply_rule(gradient *g, tile_id id, tile_id dy) { rules[row(g, id)->op](g, id, dy); }
