// Scans over the steps of a chunk, entry by entry: h = a x h[t-1] + x for any two operations that
// distribute.
//
//   n = a * n[t-1] + k              times is *, plus is +
//   m = max(f + m[t-1], i)          times is +, plus is max
//
//   segments of 2 steps:  second step: a[1] x h[0] + h[1]        and the products a[1] x a[0]
//   segments of 4 steps:  second half: (products up to a step) x (end of the first half) + h, and so on
//
// Where a is the same at all steps its products are powers, made once for all chunks. The host makes
// n by a nest that goes from step to step (TILE_SCAN), and has no segments.
//
// Products are made towards a reference and never divided or subtracted: -inf is an ordinary
// logarithm, 0 an ordinary factor. Of two equal candidates a maximum has its gradient at the one
// that the step program would give it to.
#include <math.h>

#include "compiler/chunk/scan.h"

typedef struct elements {
  scan *s;
  semiring ring;
} elements;

static tile_pair ring_product(elements e, tile_pair x, tile_pair y) {
  if (e.ring == PLUS_TIMES) return pair_mul(e.s->program, x, y);
  return pair_linear(e.s->program, TILE_ADD, x, y);
}

static tile_pair ring_sum(elements e, tile_pair carried, tile_pair own) {
  if (e.ring == PLUS_TIMES) return pair_linear(e.s->program, TILE_ADD, carried, own);
  bool kept = e.ring == MAX_PLUS_KEPT;
  return pair_real(
      tile_binary(e.s->program, TILE_MAX, kept ? own.re : carried.re, kept ? carried.re : own.re));
}

static tile_pair ring_number(elements e, double x) { return pair_number(e.s->program, x); }
static tile_pair zero(elements e) { return ring_number(e, e.ring == PLUS_TIMES ? 0 : -INFINITY); }
static tile_pair ring_one(elements e) { return ring_number(e, e.ring == PLUS_TIMES ? 1 : 0); }

static tile_pair in_second_half(elements e, tile_pair x, tile_pair elsewhere) {
  return pair_where(e.s->program, level_is_half(e.s, 1), x, elsewhere);
}

static tile_pair at_every_step(elements e, tile_pair x) {
  axis_set time = scan_time_bit(e.s);
  if (pair_axes(e.s->program, x) & time) return x;
  return pair_each(e.s->program, x, (tile_value){.op = TILE_EXPAND, .over = time});
}

// Up to each step of its segment, and over all of it: the products of a, and the values from a
// start of zero.
typedef struct segments {
  tile_pair products, product, values, value;
} segments;

static segments twice_as_long(elements e, segments x, int level) {
  tile_pair product1 = level_half(e.s, x.product, level, 0);
  tile_pair product2 = level_half(e.s, x.product, level, 1);
  tile_pair value1 = level_half(e.s, x.value, level, 0);
  tile_pair value2 = level_half(e.s, x.value, level, 1);
  tile_pair products = level_halve(e.s, x.products, level);
  tile_pair values = level_halve(e.s, x.values, level);
  tile_pair carried = in_second_half(e, ring_product(e, products, value1), zero(e));
  segments y = {.product = ring_product(e, product1, product2),
                .value = ring_sum(e, ring_product(e, product2, value1), value2)};
  y.values = level_join(e.s, ring_sum(e, carried, values), level);
  y.products =
      level_join(e.s, ring_product(e, products, in_second_half(e, product1, ring_one(e))), level);
  return y;
}

// Entries along an axis of two.
static tile_id along_parts(tile_program *p, tile_pair x, int part) {
  return tile_binary(p, TILE_ADD, tile_indexed(p, TILE_PLACE, x.re, part, 0),
                     tile_indexed(p, TILE_PLACE, pair_imaginary(p, x), part, 1));
}

// The host makes one step after another, of many entries at a time. The state before the chunk
// enters the first.
static tile_pair steps_in_order(scan *s, tile_pair a, tile_pair x, tile_pair before) {
  tile_program *p = s->program;
  int t = p->time_axis;
  bool varies = axis_in(pair_axes(p, a), t);
  tile_pair first = varies ? pair_on_axes(p, TILE_SLICE, a, t, 0, 0) : a;
  first = pair_on_axes(p, TILE_PLACE, pair_mul(p, first, before), t, 0, 0);
  x = pair_linear(p, TILE_ADD, x, first);
  if (!pair_is_complex(a)) {
    tile_pair h = pair_real(tile_scan(p, a.re, x.re, NO_TILE, t, -1, false));
    if (pair_is_complex(x)) h.im = tile_scan(p, a.re, x.im, NO_TILE, t, -1, false);
    return h;
  }
  if (s->part < 0) s->part = tile_axis_new(p, "part", 2);
  tile_id h =
      tile_scan(p, along_parts(p, a, s->part), x.re, pair_imaginary(p, x), t, s->part, false);
  return (tile_pair){tile_indexed(p, TILE_SLICE, h, s->part, 0),
                     tile_indexed(p, TILE_SLICE, h, s->part, 1)};
}

tile_pair semiring_scan(scan *s, semiring ring, tile_pair a, tile_pair x, tile_pair before) {
  elements e = {s, ring};
  bool is_number = s->program->values.items[a.re].op == TILE_NUMBER;
  if (is_number) a = at_every_step(e, a);  // products of 1 would have no axes
  x = at_every_step(e, x);
  if (s->host && ring == PLUS_TIMES) return steps_in_order(s, a, x, before);
  segments all = {.products = a, .product = a, .values = x, .value = x};
  for (int level = 0; level < decay_levels(s); level++) all = twice_as_long(e, all, level);
  return ring_sum(e, ring_product(e, all.products, before), all.values);
}
