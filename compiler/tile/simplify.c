// Rewrites of whole programs, until nothing changes; then products and sums are put into their
// cheapest order (arrange.c).
//
//   sum (mul (mul x B) dh) over N     ->   mul x (sum (mul B dh) over N)
//   accumulate (mul (mul x A) y)      ->   mul A (accumulate (mul x y))          A the same in all runs
//   mul e (select causal x 0)         ->   mul (select causal e 0) x             if the masked e is there anyway
//   segment_adjoint (select causal x 0)  ->  segment_adjoint x                   it does not look above the diagonal
//
// Equal values are one and unused ones are dropped by construction.
#include "compiler/tile/products.h"

// ---- factors ---------------------------------------------------------------------------------

enum { FACTORS_MAX = 12 };  // products of shared products would grow without bound

void tile_collect_factors(const tile_program *p, tile_id id, arena *a, tile_factors *factors) {
  // A stack instead of recursion: products may be long.
  tile_factors open = {.items = NULL};
  vec_push(a, &open, id);
  while (open.count) {
    tile_id x = open.items[--open.count];
    const tile_value *v = &p->values.items[x];
    if (v->op == TILE_NEG) {
      factors->negative = !factors->negative;
      vec_push(a, &open, v->args[0]);
    } else if (v->op == TILE_MUL && (x == id || (v->args[0] != v->args[1] &&
                                                 factors->count + open.count < FACTORS_MAX))) {
      vec_push(a, &open, v->args[1]);
      vec_push(a, &open, v->args[0]);
    } else {
      vec_push(a, factors, x);
    }
  }
}

static tile_id multiplied_factors(tile_program *p, const tile_factors *factors) {
  tile_id product = tile_number(p, factors->negative ? -1 : 1);
  for (int i = 0; i < factors->count; i++)
    product = tile_binary(p, TILE_MUL, product, factors->items[i]);
  return product;
}

typedef struct rewriter {
  arena *arena;
  tile_program *program;
  VEC(tile_section)
  sections;  // of the new program's values, as far as computed
} rewriter;

static tile_section section_of(rewriter *r, tile_id id) {
  for (int i = r->sections.count; i < r->program->values.count; i++) {
    vec_push(r->arena, &r->sections, TILE_PROLOGUE);
    r->sections.items[i] = tile_value_section(r->program, i, r->sections.items);
  }
  return r->sections.items[id];
}

static bool is_product(const tile_program *p, tile_id id) {
  return p->values.items[id].op == TILE_MUL || p->values.items[id].op == TILE_NEG;
}

// ---- rewrites --------------------------------------------------------------------------------

// The factors of a sum's operand, if it is a product: those that the sum is about, and the others.
static void part_factors(rewriter *r, const tile_value *v, tile_factors *in, tile_factors *out) {
  const tile_program *p = r->program;
  tile_factors all = {.items = NULL};
  if (!is_product(p, v->args[0])) return;
  tile_collect_factors(p, v->args[0], r->arena, &all);
  out->negative = all.negative;
  for (int i = 0; i < all.count; i++) {
    tile_id id = all.items[i];
    bool inside = v->op == TILE_SUM ? (p->values.items[id].axes & v->over) != 0
                                    : section_of(r, id) != TILE_PROLOGUE;
    vec_push(r->arena, inside ? in : out, id);
  }
}

// Factors that lack every axis of the sum move out of it.
static tile_id rewrite_sum(rewriter *r, tile_value v) {
  tile_program *p = r->program;
  tile_factors out = {.items = NULL}, in = {.items = NULL};
  part_factors(r, &v, &in, &out);
  if (!out.count || !in.count) return tile_append(p, v);
  tile_id sum = tile_reduce(p, TILE_SUM, multiplied_factors(p, &in), v.over);
  return tile_binary(p, TILE_MUL, multiplied_factors(p, &out), sum);
}

// Factors that are the same in all runs move out. In step form a partial sum waits for the end of
// the runs, too: its operand is accumulated entry by entry.
static tile_id rewrite_accumulate(rewriter *r, tile_value v) {
  tile_program *p = r->program;
  tile_value x = p->values.items[v.args[0]];
  if (x.op == TILE_SUM && p->form == TILE_STEP && (x.over & ~p->grid) == 0)
    return tile_reduce(p, TILE_SUM, tile_unary(p, TILE_ACCUMULATE, x.args[0]), x.over);
  tile_factors out = {.items = NULL}, in = {.items = NULL};
  part_factors(r, &v, &in, &out);
  if (!out.count) return tile_append(p, v);
  tile_id sum = tile_unary(p, TILE_ACCUMULATE, multiplied_factors(p, &in));
  return tile_binary(p, TILE_MUL, multiplied_factors(p, &out), sum);
}

static bool is_causal_mask(const tile_program *p, tile_id id) {
  const tile_value *v = &p->values.items[id];
  return v->op == TILE_SELECT && p->values.items[v->args[0]].op == TILE_CAUSAL &&
         tile_is_number(p, v->args[2], 0);
}

static bool is_mask_of(const tile_program *p, tile_id id, const tile_value *sums) {
  if (!is_causal_mask(p, id)) return false;
  const tile_value *mask = &p->values.items[p->values.items[id].args[0]];
  return tile_step_axis(mask) == tile_step_axis(sums) &&
         tile_other_step_axis(mask) == tile_other_step_axis(sums);
}

// Above the diagonal both sides are 0: decays of pairs and products are finite there.
static tile_id rewrite_masked_product(rewriter *r, tile_value v) {
  tile_program *p = r->program;
  for (int k = 0; k < 2; k++) {
    tile_id e = v.args[k], masked = v.args[1 - k];
    if (p->values.items[e].op != TILE_EXP || !is_causal_mask(p, masked)) continue;
    tile_value mask = p->values.items[masked];
    tile_id x = mask.args[1];
    mask.args[1] = e;
    tile_id found = tile_find(p, mask);
    if (found != NO_TILE) return tile_binary(p, TILE_MUL, found, x);
  }
  return tile_append(p, v);
}

static tile_id rewrite_segment_adjoint(rewriter *r, tile_value v) {
  tile_program *p = r->program;
  if (is_mask_of(p, v.args[0], &v)) v.args[0] = p->values.items[v.args[0]].args[1];
  return tile_append(p, v);
}

static tile_id simplify_value(rewriter *r, tile_value v) {
  switch (v.op) {
    case TILE_SUM: return rewrite_sum(r, v);
    case TILE_ACCUMULATE: return rewrite_accumulate(r, v);
    case TILE_MUL: return rewrite_masked_product(r, v);
    case TILE_SEGMENT_ADJOINT: return rewrite_segment_adjoint(r, v);
    default: return tile_append(r->program, v);
  }
}

// Appends every value again: rules that look at operands see them in their final form.
static tile_program *rebuild(arena *a, const tile_program *program) {
  rewriter r = {.arena = a, .program = tile_program_like(a, program->name, program)};
  tile_id *image = ARENA_ARRAY(a, tile_id, program->values.count);
  for (int i = 0; i < program->values.count; i++) {
    tile_value v = tile_with_images(program->values.items[i], image);
    r.program->where = v.where;
    image[i] = simplify_value(&r, v);
  }
  tile_add_results(r.program, program, image);
  return tile_drop_unused(a, r.program);
}

static bool same_program(const tile_program *p, const tile_program *q) {
  if (p->values.count != q->values.count) return false;
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i], *w = &q->values.items[i];
    if (v->op != w->op || v->over != w->over || v->index != w->index || v->index2 != w->index2 ||
        v->index3 != w->index3) {
      return false;
    }
    for (int k = 0; k < tile_arity(v->op); k++)
      if (v->args[k] != w->args[k]) return false;
  }
  return true;
}

enum { ROUNDS_MAX = 8 };  // every round makes sums smaller; what is left after that does no harm

// A round's memory ends with the next round: programs may have thousands of values.
tile_program *tile_simplify(arena *a, const tile_program *program) {
  arena *own = arena_new();
  tile_program *p = rebuild(own, program);
  bool done = false;
  for (int round = 1; round < ROUNDS_MAX && !done; round++) {
    arena *next = arena_new();
    tile_program *q =
        rebuild(next, tile_sink_slices(next, tile_swap_sums(next, tile_distribute_sums(next, p))));
    done = same_program(p, q);
    arena_free(own);
    own = next;
    p = q;
  }
  return tile_program_out_of(own, a, tile_arrange(own, p));
}
