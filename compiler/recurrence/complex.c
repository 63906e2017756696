// Complex numbers made of parts, and conjugates.
//
//   complex(kr * v, ki * v)                ->  complex(kr, ki) * v
//   complex(a * re(S), a * im(S))          ->  a * S
//   complex(x * cos(t), x * sin(t))        ->  x * polar(1, t)
//   complex(a * v - b * w, b * v + a * w)  ->  complex(a, b) * complex(v, w)
//   conj(complex(a, b) * v)                ->  complex(a, -b) * v
//   re(sum[K](c * conj(S)))                ->  re(sum[K](conj(c) * S))
//
// A conjugate goes to the factors of an outer product, and where it meets another one. It stops at
// what a state or an output is.
#include "compiler/recurrence/factor.h"
#include "compiler/recurrence/simplify.h"

static bool passes_conjugates(value_op op) {
  return op == VALUE_NEG || op == VALUE_ADD || op == VALUE_SUB || op == VALUE_MUL ||
         op == VALUE_SUM;
}

// ---- conjugates ---------------------------------------------------------------------------------

static bool has_conjugate(const builder *b, value_id id, int depth) {
  typed_value v = *value_at(b, id);
  if (v.op == VALUE_CONJUGATE) return true;
  if (!passes_conjugates(v.op) || is_assigned(b, id) || depth == SEARCH_DEPTH) return false;
  return has_conjugate(b, v.args[0], depth + 1) ||
         (value_arity(v.op) > 1 && has_conjugate(b, v.args[1], depth + 1));
}

// Does a conjugate of it come to lie at smaller values, or vanish? A sum of states is not made
// twice for one.
static bool takes_conjugate(const builder *b, value_id id, int depth) {
  typed_value v = *value_at(b, id);
  if (has_conjugate(b, id, 0)) return true;
  if (is_assigned(b, id) || depth == SEARCH_DEPTH) return false;
  switch (v.op) {
    case VALUE_COMPLEX:
    case VALUE_POLAR: return true;
    case VALUE_NEG: return takes_conjugate(b, v.args[0], depth + 1);
    case VALUE_ADD:
    case VALUE_SUB:
      return takes_conjugate(b, v.args[0], depth + 1) || takes_conjugate(b, v.args[1], depth + 1);
    default: return is_outer(b, id);
  }
}

value_id simplify_conjugate(builder *b, const typed_value *v) {
  typed_value x = *value_at(b, v->args[0]);
  if (!x.complex) return v->args[0];
  if (x.op == VALUE_CONJUGATE) return x.args[0];
  x.name = NULL;
  if (x.op == VALUE_COMPLEX || x.op == VALUE_POLAR) {
    x.args[1] = make_unary(b, VALUE_NEG, x.args[1]);
    return make_value(b, x);
  }
  if (!passes_conjugates(x.op) || !takes_conjugate(b, v->args[0], 0)) return NO_VALUE;
  for (int k = 0; k < value_arity(x.op); k++) x.args[k] = make_unary(b, VALUE_CONJUGATE, x.args[k]);
  return make_value(b, x);
}

static bool has_conjugated_state(const builder *b, value_id product) {
  factors all = {0};
  if (!collect_factors(b->body, product, NULL, &all)) return false;
  for (int i = 0; i < all.count; i++) {
    if (!has_op(b, all.items[i], VALUE_CONJUGATE)) continue;
    value_id x = value_operand(b, all.items[i], 0);
    if (is_assigned(b, x) || has_op(b, x, VALUE_PREVIOUS)) return true;
  }
  return false;
}

// The same real part (imaginary, if `flips`) by states that are not conjugates; NO_VALUE: the value
// has no such.
static value_id without_conjugates(builder *b, value_id id, bool flips, int depth) {
  typed_value v = *value_at(b, id);
  if (!passes_conjugates(v.op) || is_assigned(b, id) || depth == SEARCH_DEPTH) return NO_VALUE;
  v.name = NULL;
  if (v.op == VALUE_MUL) {
    if (!has_conjugated_state(b, id)) return NO_VALUE;
    value_id conjugate = make_unary(b, VALUE_CONJUGATE, id);
    return flips ? make_unary(b, VALUE_NEG, conjugate) : conjugate;
  }
  bool changed = false;
  for (int k = 0; k < value_arity(v.op); k++) {
    value_id x = without_conjugates(b, v.args[k], flips, depth + 1);
    changed |= x != NO_VALUE;
    if (x != NO_VALUE) v.args[k] = x;
  }
  return changed ? make_value(b, v) : NO_VALUE;
}

value_id simplify_part(builder *b, const typed_value *v) {
  bool imaginary = v->op == VALUE_IMAGINARY_PART;
  value_id x = v->args[0];
  if (has_op(b, x, VALUE_CONJUGATE)) {
    value_id part = make_unary(b, v->op, value_operand(b, x, 0));
    return imaginary ? make_unary(b, VALUE_NEG, part) : part;
  }
  value_id plain = without_conjugates(b, x, imaginary, 0);
  return plain == NO_VALUE ? NO_VALUE : make_unary(b, v->op, plain);
}

// ---- parts --------------------------------------------------------------------------------------

// Terms of the real and the imaginary part with common factors: common * complex(re, im).
typedef struct part_pair {
  factors common;
  value_id re, im;
  bool useful;
} part_pair;

static bool are_parts_of_one(const builder *b, value_id re, value_id im) {
  return has_op(b, re, VALUE_REAL_PART) && has_op(b, im, VALUE_IMAGINARY_PART) &&
         value_operand(b, re, 0) == value_operand(b, im, 0);
}

static bool are_parts_of_turn(const builder *b, value_id re, value_id im) {
  return has_op(b, re, VALUE_COS) && has_op(b, im, VALUE_SIN) &&
         value_operand(b, re, 0) == value_operand(b, im, 0);
}

static bool pair_terms(builder *b, term re, term im, part_pair *pair) {
  factors of_re = {0}, of_im = {0};
  pair->common.count = 0;
  if (!collect_factors(b->body, re.id, NULL, &of_re) ||
      !collect_factors(b->body, im.id, NULL, &of_im))
    return false;
  take_common(&of_re, &of_im, &pair->common);
  if (!pair->common.count) return false;
  axis_set rest = product_axes(b, &of_re) | product_axes(b, &of_im);
  pair->useful = product_axes(b, &pair->common) & ~rest;
  pair->re = factor_product(b, &of_re);
  pair->im = factor_product(b, &of_im);
  pair->useful |=
      are_parts_of_one(b, pair->re, pair->im) || are_parts_of_turn(b, pair->re, pair->im);
  if (re.negative) pair->re = make_unary(b, VALUE_NEG, pair->re);
  if (im.negative) pair->im = make_unary(b, VALUE_NEG, pair->im);
  return true;
}

// Is the complex number of a pair i times that of another?
static bool is_turned(const builder *b, const part_pair *pair, const part_pair *from) {
  return pair->im == from->re && has_op(b, pair->re, VALUE_NEG) &&
         value_operand(b, pair->re, 0) == from->im;
}

static value_id product_of_pair(builder *b, value_id common, const part_pair *pair) {
  return make_binary(b, VALUE_MUL, common, make_binary(b, VALUE_COMPLEX, pair->re, pair->im));
}

// x * z + y * (i * z) is complex(x, y) * z.
static value_id sum_of_pairs(builder *b, const part_pair *pairs, int count) {
  bool joined[TERMS_MAX] = {false};
  value_id sum = NO_VALUE;
  for (int i = 0; i < count; i++) {
    if (joined[i]) continue;
    value_id common = factor_product(b, &pairs[i].common);
    for (int k = i + 1; k < count; k++) {
      value_id turned = factor_product(b, &pairs[k].common);
      if (joined[k] || value_at(b, common)->complex || value_at(b, turned)->complex ||
          !is_turned(b, &pairs[k], &pairs[i]))
        continue;
      common = make_binary(b, VALUE_COMPLEX, common, turned);
      joined[k] = true;
    }
    value_id product = product_of_pair(b, common, &pairs[i]);
    sum = sum == NO_VALUE ? product : make_binary(b, VALUE_ADD, sum, product);
  }
  return sum;
}

static value_id complex_of_terms(builder *b, const terms *re, terms *im) {
  part_pair pairs[TERMS_MAX];
  bool useful = re->count > 1;
  for (int i = 0; i < re->count; i++) {
    int k = 0;
    while (k < im->count && !pair_terms(b, re->items[i], im->items[k], &pairs[i])) k++;
    if (k == im->count) return NO_VALUE;
    im->items[k] = im->items[--im->count];
    useful |= pairs[i].useful;
  }
  return useful ? sum_of_pairs(b, pairs, re->count) : NO_VALUE;
}

value_id simplify_complex(builder *b, const typed_value *v) {
  value_id re = v->args[0], im = v->args[1];
  terms of_re = {0}, of_im = {0};
  if (has_op(b, re, VALUE_NUMBER) && has_op(b, im, VALUE_NUMBER)) return NO_VALUE;
  if (are_parts_of_one(b, re, im)) return value_operand(b, re, 0);
  if (are_parts_of_turn(b, re, im))
    return make_binary(b, VALUE_POLAR, make_number(b, 1), value_operand(b, re, 0));
  if (!collect_addends(b, re, false, &of_re) || !collect_addends(b, im, false, &of_im) ||
      of_re.count != of_im.count)
    return NO_VALUE;
  return complex_of_terms(b, &of_re, &of_im);
}
