// The last pass before code is made. On the host exponentials of sums along time become products
// along time; then exponentials get base 2 where the change of base costs nothing.
//
//   %31 [step2,..] = prefix %30 along step2          %60 [t,..] = exp %10
//   %32 [step2,..] = exp %31                   ->    %61 [step2,..] = the views of %60 that %30 is of %10
//                                                    %62 [step2,..] = running_product %61 along step2
//
//   %33 = exp (neg %31)                              %63 = div 1 %62          where there is %62
//
//   %3 [G] = neg (exp A_log)                  %3 [G] = mul 1.4427 (neg (exp A_log))      once, in the prologue
//   %4 [t,G] = mul dt %3               ->     %4 [t,G] = mul dt %3
//   %6 [t,s,G] = exp (segment %4)             %6 [t,s,G] = exp2 (segment %4)
//
// The factor goes down through what is linear to a value of the prologue or to a constant.
// Exponents that have neither keep exp, which is more accurate for large arguments than exp2 of a
// rounded product. This pass stands after reverse mode: the derivative of exp needs no constant.
//
// An exponential takes as long as ten products, and all levels of a chunk share those of single
// steps. The sums are never above 0. So no product overflows, and it loses no more by rounding than
// a state that decays step by step.
#include "compiler/tile/products.h"

// ---- products along time ----

// An entry of the operand for each entry, perhaps with the other sign.
static bool is_view_op(tile_op op) {
  return op == TILE_SLICE || op == TILE_SPLIT || op == TILE_JOIN || op == TILE_RENAME ||
         op == TILE_EXPAND || op == TILE_NEG;
}

// What a value is a view of; `negative`: of its opposite.
static tile_id finished_view(const tile_program *p, tile_id id, bool *negative) {
  for (; is_view_op(tile_at(p, id)->op); id = tile_at(p, id)->args[0])
    *negative ^= tile_at(p, id)->op == TILE_NEG;
  return id;
}

// The sums of an exponential of sums over few steps of what is never above 0: a product along time.
// `inverse`: of what is never below 0, its reciprocal. NO_TILE: neither. `factor`: what is summed,
// views apart, and whether it is its opposite.
static tile_id sums_of_product(const tile_program *p, const tile_value *v, bool inverse,
                               tile_id *factor, bool *negative) {
  enum { MOST_STEPS = 64 };
  if (v->op != TILE_EXP) return NO_TILE;
  bool opposite = tile_at(p, v->args[0])->op == TILE_NEG;
  tile_id id = opposite ? tile_at(p, v->args[0])->args[0] : v->args[0];
  *negative = opposite != inverse;
  const tile_value *sums = tile_at(p, id);
  if (sums->op != TILE_PREFIX) return NO_TILE;
  if (p->axes.items[tile_step_axis(sums)].size > MOST_STEPS) return NO_TILE;
  *factor = finished_view(p, sums->args[0], negative);
  bool below = *negative ? tile_is_not_negative(p, *factor) : tile_is_not_positive(p, *factor);
  return below ? id : NO_TILE;
}

// The exponential of a value or of its opposite: of what the value is a view of, the same views.
static tile_id exponential(tile_rewrite *r, tile_id id, bool negative) {
  tile_value v = *tile_at(r->from, id);
  if (v.op == TILE_NEG) return exponential(r, v.args[0], !negative);
  if (is_view_op(v.op)) {
    v.args[0] = exponential(r, v.args[0], negative);
    return tile_append_exact(r->to, v);
  }
  tile_id x = r->image[id];
  if (negative) x = tile_append_exact(r->to, (tile_value){.op = TILE_NEG, .args = {x}});
  return tile_append_exact(r->to, (tile_value){.op = TILE_EXP, .args = {x}});
}

// Values whose exponentials are made for products along time: of views of them they are views.
static bool *find_factors(arena *a, const tile_program *program) {
  bool *factors = ARENA_ARRAY(a, bool, program->values.count), negative;
  tile_id factor;
  for (int i = 0; i < program->values.count; i++)
    if (sums_of_product(program, tile_at(program, i), false, &factor, &negative) != NO_TILE)
      factors[factor] = true;
  return factors;
}

// The product along time of the exponentials of what is summed, or of its opposites.
static tile_id product_along_time(tile_rewrite *r, tile_id sums, bool opposite) {
  tile_value product = *tile_at(r->from, sums);
  product.op = TILE_RUNNING_PRODUCT;
  product.args[0] = exponential(r, product.args[0], opposite);
  return tile_append_exact(r->to, product);
}

static tile_id with_product_along_time(tile_rewrite *r, tile_id id) {
  const bool *factors = r->context;
  const tile_value *v = tile_at(r->from, id);
  tile_id factor;
  bool negative, opposite = v->op == TILE_EXP && tile_at(r->from, v->args[0])->op == TILE_NEG;
  tile_id sums = sums_of_product(r->from, v, false, &factor, &negative);
  if (sums != NO_TILE) return product_along_time(r, sums, opposite);
  sums = sums_of_product(r->from, v, true, &factor, &negative);
  if (sums != NO_TILE && factors[factor]) {
    tile_value reciprocal = {.op = TILE_DIV};
    reciprocal.args[0] = tile_append_exact(r->to, (tile_value){.op = TILE_NUMBER, .number = 1});
    reciprocal.args[1] = product_along_time(r, sums, !opposite);
    return tile_append_exact(r->to, reciprocal);
  }
  bool view_negative = false;
  if (v->op == TILE_EXP && factors[finished_view(r->from, v->args[0], &view_negative)])
    return exponential(r, v->args[0], false);
  return tile_rewrite_copy(r, id);
}

static const tile_program *with_products_along_time(arena *a, const tile_program *program) {
  if (!program->host) return program;
  return tile_rewritten(a, program, with_product_along_time, find_factors(a, program));
}

// ---- base 2 ----

static bool is_fixed_value(const tile_rewrite *r, tile_id id) {
  const tile_section *sections = r->context;
  return sections[id] == TILE_PROLOGUE;
}

// The operand through which a factor of a value goes down; NO_TILE if it goes no further.
static tile_id way_down(const tile_rewrite *r, tile_id id, int *position) {
  const tile_value *v = tile_at(r->from, id);
  *position = 0;
  if (tile_op_is(v->op, TILE_SINKS_FACTOR)) return v->args[0];
  switch (v->op) {
    case TILE_NEG: return v->args[0];
    case TILE_SLICE: return tile_at(r->from, v->args[0])->op == TILE_PREFIX ? v->args[0] : NO_TILE;
    case TILE_SELECT:
      *position = 1;
      return tile_is_number(r->from, v->args[2], 0) ? v->args[1] : NO_TILE;
    case TILE_MUL:
      // Constants stand first; of two factors of the body the first may be a product with a fixed
      // one.
      *position = is_fixed_value(r, v->args[1]) ? 1 : 0;
      return v->args[*position];
    default: return NO_TILE;
  }
}

static bool has_sums(const tile_rewrite *r, tile_id id, int depth) {
  enum { DEEPEST_SUM = 6 };
  const tile_value *v = tile_at(r->from, id);
  if (depth > DEEPEST_SUM) return false;
  if (v->op == TILE_SLICE || v->op == TILE_NEG) return has_sums(r, v->args[0], depth + 1);
  if (v->op == TILE_ADD || v->op == TILE_SUB)
    return has_sums(r, v->args[0], depth + 1) || has_sums(r, v->args[1], depth + 1);
  return v->op == TILE_PREFIX;
}

// A difference of sums over steps, with any signs: both operands get the factor.
static bool is_between_sums(const tile_rewrite *r, tile_id id) {
  tile_op op = tile_at(r->from, id)->op;
  return (op == TILE_ADD || op == TILE_SUB) && has_sums(r, id, 0);
}

static bool reaches_fixed(const tile_rewrite *r, tile_id id) {
  int position;
  while (id != NO_TILE && !is_fixed_value(r, id)) {
    if (is_between_sums(r, id) && !reaches_fixed(r, tile_at(r->from, id)->args[1])) return false;
    id = is_between_sums(r, id) ? tile_at(r->from, id)->args[0] : way_down(r, id, &position);
  }
  return id != NO_TILE;
}

// The value times log2(e): the same operations from the fixed factor up.
static tile_id scaled_by_log2_e(tile_rewrite *r, tile_id id) {
  static const double log2_e = 1.44269504088896340736;
  tile_value v = *tile_at(r->from, id);
  if (is_fixed_value(r, id)) {
    tile_value factor = {.op = TILE_NUMBER, .number = log2_e};
    if (v.op == TILE_NUMBER) {
      factor.number *= v.number;
      return tile_append_exact(r->to, factor);
    }
    tile_id constant = tile_append_exact(r->to, factor);
    tile_value product = {.op = TILE_MUL, .args = {constant, r->image[id]}};
    return tile_append_exact(r->to, product);
  }
  if (is_between_sums(r, id)) {
    for (int k = 0; k < 2; k++) v.args[k] = scaled_by_log2_e(r, v.args[k]);
    return tile_append_exact(r->to, v);
  }
  int position;
  tile_id below = scaled_by_log2_e(r, way_down(r, id, &position));
  for (int k = 0; k < tile_arity(v.op); k++)
    v.args[k] = k == position ? below : r->image[v.args[k]];
  return tile_append_exact(r->to, v);
}

static tile_id drop_with_gradient(tile_rewrite *r, tile_id id) {
  const tile_value *v = tile_at(r->from, id);
  return v->op == TILE_WITH_GRADIENT ? r->image[v->args[0]] : tile_rewrite_copy(r, id);
}

const tile_program *tile_without_gradients(arena *a, const tile_program *program) {
  if (!tile_has_op(program, TILE_WITH_GRADIENT)) return program;
  return tile_rewritten(a, program, drop_with_gradient, NULL);
}

static tile_id with_base_two(tile_rewrite *r, tile_id id) {
  tile_value v = *tile_at(r->from, id);
  if (v.op != TILE_EXP || is_fixed_value(r, id) || !reaches_fixed(r, v.args[0]))
    return tile_rewrite_copy(r, id);
  v.op = TILE_EXP2;
  v.args[0] = scaled_by_log2_e(r, v.args[0]);
  return tile_append_exact(r->to, v);
}

tile_program *tile_finish(arena *a, const tile_program *differentiable) {
  arena *scratch = arena_new();
  const tile_program *program =
      with_products_along_time(scratch, tile_without_gradients(scratch, differentiable));
  const tile_section *sections = tile_sections(scratch, program);
  return tile_program_out_of(scratch, a, tile_rewritten(scratch, program, with_base_two, sections));
}
