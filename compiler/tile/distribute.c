// Sums of sums and differences of products become sums and differences of matrix products; of
// outer products in step form.
//
//   %5 [t,N,W] = mul %1 %2
//   %6 [t,N,W] = mul %3 %4
//   %7 [t,N,W] = sub %5 %6
//   %8 [t,W] = sum %7 over N      ->   %7 [t,W] = sub (sum %5 over N) (sum %6 over N)
//
//   %8 [V] = sum r * (S + bonus k v) over K      ->   add (sum r S over K) (v (sum r bonus k over K))
//
// arrange.c makes a dot of each matrix product. The real part of a product of complex numbers is such a
// difference. Other terms stay under one sum. A factor in front of the terms
// goes into each of them. Only terms that nobody else uses are opened: a value that is there as a
// whole is summed for little.
#include "compiler/tile/products.h"

enum { TERMS_MAX = 8 };  // more matrix products than these are no gain over one sum of all

// A term of the operand of a sum: a product, with its sign.
typedef struct term {
  tile_id value;
  bool negative;
} term;

typedef struct terms {
  term items[TERMS_MAX];
  int count;
  bool too_many;
} terms;

static bool is_sum_of_two(const tile_value *v) { return v->op == TILE_ADD || v->op == TILE_SUB; }

static void collect_terms(const tile_rewrite *s, tile_id id, bool negative, terms *to) {
  const tile_value *v = tile_at(s->from, id);
  if (v->op == TILE_NEG && s->uses[id] == 1) {
    collect_terms(s, v->args[0], !negative, to);
  } else if (is_sum_of_two(v) && s->uses[id] == 1) {
    collect_terms(s, v->args[0], negative, to);
    collect_terms(s, v->args[1], negative != (v->op == TILE_SUB), to);
  } else if (to->count < TERMS_MAX) {
    to->items[to->count++] = (term){id, negative};
  } else {
    to->too_many = true;
  }
}

// Two factors, each with axes that the other lacks, are left once every factor is multiplied with
// one that has all its axes.
static bool is_matrix_product(const tile_program *p, const tile_factors *factors, axis_set over) {
  axis_set sides[2] = {0};
  int count = 0;
  for (int i = 0; i < factors->count; i++) {
    axis_set axes = p->values.items[factors->items[i]].axes;
    bool beside = true;
    for (int k = 0; k < factors->count && beside; k++) {
      axis_set other = p->values.items[factors->items[k]].axes;
      bool contained = k != i && !(axes & ~other);
      beside = !contained || (axes == other && k > i);
    }
    if (beside && count == 2) return false;
    if (beside) sides[count++] = axes;
  }
  return count == 2 && !(over & ~(sides[0] & sides[1])) && (sides[0] & ~sides[1]) &&
         (sides[1] & ~sides[0]);
}

// A factor with axes that those under the sum lack leaves the sum. Sums over grid axes are of lanes:
// nothing becomes smaller.
static bool is_outer_product(const tile_program *p, const tile_factors *factors, axis_set over) {
  axis_set inside = 0, outside = 0;
  for (int i = 0; i < factors->count; i++) {
    axis_set axes = p->values.items[factors->items[i]].axes;
    *(axes & over ? &inside : &outside) |= axes;
  }
  return !(over & p->grid) && (outside & ~inside);
}

static bool is_summed_alone(const tile_program *p, const tile_factors *factors, axis_set over) {
  return p->form == TILE_CHUNK ? is_matrix_product(p, factors, over)
                               : is_outer_product(p, factors, over);
}

// The factors of the term and those in front of all terms.
static tile_factors term_factors(const tile_rewrite *s, arena *a, tile_id id,
                                 const tile_factors *front) {
  tile_factors all = {.items = NULL};
  tile_collect_factors(s->from, id, a, &all);
  for (int i = 0; i < front->count; i++) vec_push(a, &all, front->items[i]);
  return all;
}

static tile_id added(tile_rewrite *s, tile_id sum, tile_id x, bool negative) {
  if (sum == NO_TILE) return negative ? tile_unary(s->to, TILE_NEG, x) : x;
  return tile_binary(s->to, negative ? TILE_SUB : TILE_ADD, sum, x);
}

static tile_id in_front(tile_rewrite *s, const tile_factors *front, tile_id x) {
  for (int i = 0; i < front->count; i++)
    x = tile_binary(s->to, TILE_MUL, s->image[front->items[i]], x);
  return x;
}

// The operand of a sum is a product. One factor may be a sum of terms that is used here alone;
// NO_TILE: none is, or the product is summed alone as it stands.
static tile_id opened_factor(const tile_rewrite *s, arena *a, tile_id operand, axis_set over,
                             tile_factors *front, bool *negative) {
  tile_factors all = {.items = NULL};
  tile_id opened = NO_TILE;
  if (s->uses[operand] != 1) return NO_TILE;
  tile_collect_factors(s->from, operand, a, &all);
  if (is_summed_alone(s->from, &all, over)) return NO_TILE;
  for (int i = 0; i < all.count; i++) {
    tile_id x = all.items[i];
    bool opens = opened == NO_TILE && is_sum_of_two(tile_at(s->from, x)) && s->uses[x] == 1;
    if (opens)
      opened = x;
    else
      vec_push(a, front, x);
  }
  *negative = all.negative;
  return opened;
}

static tile_id distribute_value(tile_rewrite *s, tile_id id) {
  const tile_value *v = tile_at(s->from, id);
  if (v->op != TILE_SUM) return tile_rewrite_copy(s, id);
  arena *a = s->to->arena;
  tile_factors front = {.items = NULL};
  terms all = {.count = 0};
  bool negative = false;
  tile_id opened = opened_factor(s, a, v->args[0], v->over, &front, &negative);
  if (opened == NO_TILE) return tile_rewrite_copy(s, id);
  collect_terms(s, opened, negative, &all);
  tile_id sum = NO_TILE, rest = NO_TILE;
  for (int i = 0; i < all.count && !all.too_many; i++) {
    tile_factors factors = term_factors(s, a, all.items[i].value, &front);
    tile_id x = s->image[all.items[i].value];
    if (!is_summed_alone(s->from, &factors, v->over))
      rest = added(s, rest, x, all.items[i].negative);
    else
      sum = added(s, sum, tile_reduce(s->to, TILE_SUM, in_front(s, &front, x), v->over),
                  all.items[i].negative);
  }
  if (sum == NO_TILE) return tile_rewrite_copy(s, id);
  return rest == NO_TILE
             ? sum
             : added(s, sum, tile_reduce(s->to, TILE_SUM, in_front(s, &front, rest), v->over),
                     false);
}

tile_program *tile_distribute_sums(arena *a, const tile_program *program) {
  return tile_rewritten(a, program, distribute_value, NULL);
}
