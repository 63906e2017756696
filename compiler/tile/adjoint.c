// A sum of a product with a matrix product: the other way round, where that is computed anyway.
//
//   %4 [t,V] = dot A B over s                   %7 [t,s] = dot B x over V     needed anyway: the cotangent of A
//   %5 [t,V] = mul %4 x                    ->   %8 [t,s] = mul A %7
//   %6 [t] = sum %5 over V                      %6 [t] = sum %8 over s
//   %7 [t,s] = dot B x over V
//
// Reverse mode makes such sums for factors of a row that a product is multiplied or divided by. For
// example, the gradient of a denominator is the sum of y * dy. With the sum turned round the
// backward no longer needs y, nor its products.
#include "compiler/tile/products.h"

static tile_id find_commuting(const tile_rewrite *s, tile_op op, tile_id x, tile_id y,
                              axis_set over) {
  tile_value v = {.op = op, .args = {x, y, NO_TILE}, .over = over};
  tile_id found = tile_find(s->from, v);
  if (found != NO_TILE) return found;
  v.args[0] = y;
  v.args[1] = x;
  return tile_find(s->from, v);
}

// A sum over `over` of y * x. x stands for a value of both programs. `x` is its number in the old
// program, to look products up. `image` is its number in the new one; NO_TILE while the search only
// asks whether y can stay uncomputed.
typedef struct factor {
  tile_id x, image;
} factor;

static tile_id swapped(tile_rewrite *s, tile_id y, factor x, axis_set over);

static tile_id swapped_sum(tile_rewrite *s, const tile_value *v, factor x, axis_set over) {
  tile_id a = swapped(s, v->args[0], x, over);
  tile_id b = a == NO_TILE ? NO_TILE : swapped(s, v->args[1], x, over);
  if (b == NO_TILE || x.image == NO_TILE) return b;
  return tile_binary(s->to, v->op, a, b);
}

// A factor or divisor that is the same along `over` goes to x if the backward has that product,
// else it stays outside.
static tile_id swapped_scale(tile_rewrite *s, const tile_value *v, factor x, axis_set over) {
  int k = v->op == TILE_MUL && !(tile_at(s->from, v->args[0])->axes & over) ? 0 : 1;
  tile_id scale = v->args[k], rest = v->args[1 - k];
  if (tile_at(s->from, scale)->axes & over) return NO_TILE;
  tile_value quotient = {.op = TILE_DIV, .args = {x.x, scale, NO_TILE}};
  factor scaled = {.image = NO_TILE};
  scaled.x =
      v->op == TILE_MUL ? find_commuting(s, TILE_MUL, x.x, scale, 0) : tile_find(s->from, quotient);
  if (scaled.x != NO_TILE && x.image != NO_TILE)
    scaled.image = tile_binary(s->to, v->op, x.image, s->image[scale]);
  tile_id sum = scaled.x == NO_TILE ? NO_TILE : swapped(s, rest, scaled, over);
  if (sum != NO_TILE) return sum;
  sum = swapped(s, rest, x, over);
  if (sum == NO_TILE || x.image == NO_TILE) return sum;
  return tile_binary(s->to, v->op, sum, s->image[scale]);
}

static tile_id swapped_dot(tile_rewrite *s, const tile_value *v, factor x, axis_set over) {
  for (int k = 0; k < 2; k++) {
    tile_id a = v->args[k], b = v->args[1 - k];
    if ((tile_at(s->from, a)->axes & over) || over & ~tile_at(s->from, b)->axes) continue;
    if (tile_at(s->from, x.x)->axes & v->over) continue;  // another index of that name
    tile_id adjoint = find_commuting(s, TILE_DOT, b, x.x, over);
    if (adjoint == NO_TILE || x.image == NO_TILE) return adjoint;
    adjoint = tile_dot(s->to, s->image[b], x.image, over);
    tile_id product = tile_binary(s->to, TILE_MUL, s->image[a], adjoint);
    return tile_reduce(s->to, TILE_SUM, product, v->over);
  }
  return NO_TILE;
}

// The sum without y; NO_TILE if y is used elsewhere or holds anything that is not computed the
// other way round.
static tile_id swapped(tile_rewrite *s, tile_id y, factor x, axis_set over) {
  const tile_value *v = tile_at(s->from, y);
  if (s->uses[y] != 1) return NO_TILE;
  switch (v->op) {
    case TILE_ADD:
    case TILE_SUB: return swapped_sum(s, v, x, over);
    case TILE_MUL:
    case TILE_DIV: return swapped_scale(s, v, x, over);
    case TILE_DOT: return swapped_dot(s, v, x, over);
    default: return NO_TILE;
  }
}

static tile_id rewrite_adjoint(tile_rewrite *s, tile_id id) {
  tile_value v = *tile_at(s->from, id);
  const tile_value *product = v.op == TILE_SUM ? tile_at(s->from, v.args[0]) : NULL;
  bool alone = product && product->op == TILE_MUL && s->uses[v.args[0]] == 1;
  for (int k = 0; alone && k < 2; k++) {
    tile_id y = product->args[k];
    factor x = {.x = product->args[1 - k], .image = NO_TILE};
    if (swapped(s, y, x, v.over) == NO_TILE) continue;
    x.image = s->image[x.x];
    return swapped(s, y, x, v.over);
  }
  return tile_rewrite_copy(s, id);
}

tile_program *tile_swap_sums(arena *a, const tile_program *program) {
  return tile_rewritten(a, program, rewrite_adjoint, NULL);
}
