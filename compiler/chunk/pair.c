// Arithmetic on values that may be complex: pairs of tiles, as recurrence bodies have them.
//
//   (a + ib) (c + id)   ->   re = a*c - b*d,  im = a*d + b*c;  a real operand costs half of it
#include "compiler/chunk/pair.h"

typedef tile_program program;

static tile_id add(program *p, tile_id x, tile_id y) { return tile_binary(p, TILE_ADD, x, y); }
static tile_id sub(program *p, tile_id x, tile_id y) { return tile_binary(p, TILE_SUB, x, y); }
static tile_id mul_tiles(program *p, tile_id x, tile_id y) {
  return tile_binary(p, TILE_MUL, x, y);
}
static tile_id divide(program *p, tile_id x, tile_id y) { return tile_binary(p, TILE_DIV, x, y); }

tile_id pair_imaginary(program *p, tile_pair x) {
  return pair_is_complex(x) ? x.im : tile_number(p, 0);
}

// ---- complex arithmetic ----------------------------------------------------------------------

tile_pair pair_linear(program *p, tile_op op, tile_pair x, tile_pair y) {
  tile_pair r = pair_real(tile_binary(p, op, x.re, y.re));
  if (pair_is_complex(x) || pair_is_complex(y))
    r.im = tile_binary(p, op, pair_imaginary(p, x), pair_imaginary(p, y));
  return r;
}

tile_pair pair_mul(program *p, tile_pair x, tile_pair y) {
  if (!pair_is_complex(x) && !pair_is_complex(y)) return pair_real(mul_tiles(p, x.re, y.re));
  if (!pair_is_complex(x)) return (tile_pair){mul_tiles(p, x.re, y.re), mul_tiles(p, x.re, y.im)};
  if (!pair_is_complex(y)) return (tile_pair){mul_tiles(p, x.re, y.re), mul_tiles(p, x.im, y.re)};
  return (tile_pair){sub(p, mul_tiles(p, x.re, y.re), mul_tiles(p, x.im, y.im)),
                     add(p, mul_tiles(p, x.re, y.im), mul_tiles(p, x.im, y.re))};
}

// x / y = (x/s) conj(y/s) / |y/s|^2 for any s > 0; s = max(|re|, |im|) keeps the squares in range.
// The quotient does not depend on s, so no gradient flows along it.
tile_pair pair_div(program *p, tile_pair x, tile_pair y) {
  if (!pair_is_complex(y))
    return (tile_pair){divide(p, x.re, y.re), pair_is_complex(x) ? divide(p, x.im, y.re) : NO_TILE};
  tile_id size =
      tile_binary(p, TILE_MAX, tile_unary(p, TILE_ABS, y.re), tile_unary(p, TILE_ABS, y.im));
  tile_id s = tile_unary(p, TILE_STOP, size);
  tile_pair v = {divide(p, y.re, s), divide(p, y.im, s)};
  tile_pair u = {divide(p, x.re, s), pair_is_complex(x) ? divide(p, x.im, s) : NO_TILE};
  tile_id square = add(p, mul_tiles(p, v.re, v.re), mul_tiles(p, v.im, v.im));
  tile_pair product = pair_mul(p, u, (tile_pair){v.re, tile_unary(p, TILE_NEG, v.im)});
  return (tile_pair){divide(p, product.re, square), divide(p, product.im, square)};
}

tile_pair pair_whole_power(program *p, tile_pair x, int exponent) {
  long long left = exponent < 0 ? -(long long)exponent : exponent;
  tile_pair result = pair_real(tile_number(p, 1)), square = x;
  for (bool first = true; left; left >>= 1) {
    if (left & 1) {
      result = first ? square : pair_mul(p, result, square);
      first = false;
    }
    if (left > 1) square = pair_mul(p, square, square);
  }
  return exponent < 0 ? pair_div(p, pair_real(tile_number(p, 1)), result) : result;
}

tile_pair pair_polar(program *p, tile_id radius, tile_id angle) {
  return (tile_pair){mul_tiles(p, radius, tile_unary(p, TILE_COS, angle)),
                     mul_tiles(p, radius, tile_unary(p, TILE_SIN, angle))};
}

tile_pair pair_exp(program *p, tile_pair x) {
  tile_id radius = tile_unary(p, TILE_EXP, x.re);
  return pair_is_complex(x) ? pair_polar(p, radius, x.im) : pair_real(radius);
}

// exp(a + ib) - 1 = expm1(a) - 2 exp(a) sin(b/2)^2 + i exp(a) sin b: nothing cancels, neither near
// 0 nor, in the derivative by b, where exp(a) vanishes.
tile_pair pair_expm1(program *p, tile_pair x) {
  tile_id less_one = tile_unary(p, TILE_EXPM1, x.re);
  if (!pair_is_complex(x)) return pair_real(less_one);
  tile_id radius = tile_unary(p, TILE_EXP, x.re);
  tile_id half = tile_unary(p, TILE_SIN, mul_tiles(p, tile_number(p, 0.5), x.im));
  tile_id turned = mul_tiles(p, radius, mul_tiles(p, tile_number(p, 2), mul_tiles(p, half, half)));
  return (tile_pair){sub(p, less_one, turned), mul_tiles(p, radius, tile_unary(p, TILE_SIN, x.im))};
}

tile_id pair_abs(program *p, tile_pair x) {
  if (!pair_is_complex(x)) return tile_unary(p, TILE_ABS, x.re);
  return tile_binary(p, TILE_HYPOT, x.re, x.im);
}

static tile_pair chosen(program *p, tile_op op, tile_id condition, tile_pair x, tile_pair y) {
  tile_pair r = pair_real(tile_append(p, (tile_value){.op = op, .args = {condition, x.re, y.re}}));
  if (pair_is_complex(x) || pair_is_complex(y)) {
    tile_id of_x = pair_imaginary(p, x), of_y = pair_imaginary(p, y);
    r.im = tile_append(p, (tile_value){.op = op, .args = {condition, of_x, of_y}});
  }
  return r;
}

tile_pair pair_where(program *p, tile_id condition, tile_pair x, tile_pair y) {
  return chosen(p, TILE_SELECT, condition, x, y);
}

tile_pair pair_seldom(program *p, tile_id condition, tile_pair x, tile_pair y) {
  return chosen(p, TILE_SELDOM, condition, x, y);
}

tile_pair pair_on_diagonal(program *p, tile_pair x) {
  tile_id same = tile_binary(p, TILE_EQUAL, tile_leaf(p, TILE_INDEX, p->time_axis),
                             tile_leaf(p, TILE_INDEX, p->pair_axis));
  return pair_where(p, same, x, pair_real(tile_number(p, 0)));
}

// ---- what works on each part -----------------------------------------------------------------

tile_pair pair_each(program *p, tile_pair x, tile_value pattern) {
  pattern.args[0] = x.re;
  tile_pair r = pair_real(tile_append(p, pattern));
  if (pair_is_complex(x)) {
    pattern.args[0] = x.im;
    r.im = tile_append(p, pattern);
  }
  return r;
}

tile_pair pair_on_axes(program *p, tile_op op, tile_pair x, int index, int index2, int index3) {
  return pair_each(p, x,
                   (tile_value){.op = op, .index = index, .index2 = index2, .index3 = index3});
}

tile_pair pair_sum(program *p, tile_pair x, axis_set over) {
  return over ? pair_each(p, x, (tile_value){.op = TILE_SUM, .over = over}) : x;
}

tile_pair pair_dot(program *p, tile_pair x, tile_pair y, axis_set over) {
  tile_pair r = pair_real(tile_dot(p, x.re, y.re, over));
  bool both = pair_is_complex(x) && pair_is_complex(y);
  if (both) r.re = sub(p, r.re, tile_dot(p, x.im, y.im, over));
  if (pair_is_complex(x)) r.im = tile_dot(p, x.im, y.re, over);
  if (pair_is_complex(y)) {
    tile_id im = tile_dot(p, x.re, y.im, over);
    r.im = both ? add(p, r.im, im) : im;
  }
  return r;
}

axis_set pair_axes(const program *p, tile_pair x) {
  axis_set axes = p->values.items[x.re].axes;
  return pair_is_complex(x) ? axes | p->values.items[x.im].axes : axes;
}
