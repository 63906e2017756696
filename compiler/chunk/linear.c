// Values that are linear in states not yet summed: sums of products.
//
//   r * (S[t-1] + u * k * v)     ->     1 * S[t-1] * {r}  +  1 * {u, k, v, r}
//
// Factors stay apart, so that each finds its side of a read: those with summed axes, and the rest.
#include "compiler/base/ice.h"
#include "compiler/chunk/scan.h"

linear *linear_new(scan *s) { return ARENA_NEW(s->arena, linear); }

static scan_product product_copy(scan *s, const scan_product *product) {
  scan_product copy = *product;
  copy.factors = (scan_factors){0};
  for (int i = 0; i < product->factors.count; i++)
    vec_push(s->arena, &copy.factors, product->factors.items[i]);
  return copy;
}

linear *linear_of_state(scan *s, int state, bool previous) {
  linear *x = linear_new(s);
  vec_push(s->arena, &x->products,
           ((scan_product){.scale = 1, .state = state, .previous = previous}));
  return x;
}

linear *linear_sum(scan *s, const linear *x, const linear *y, double scale_of_y) {
  linear *sum = linear_new(s);
  for (int i = 0; i < x->products.count; i++)
    vec_push(s->arena, &sum->products, x->products.items[i]);
  for (int i = 0; i < y->products.count; i++) {
    scan_product product = y->products.items[i];
    product.scale *= scale_of_y;
    vec_push(s->arena, &sum->products, product);
  }
  if (sum->products.count > PRODUCTS_MAX) scan_refuse(s, "a sum has too many products");
  return sum;
}

static void push_factor(scan *s, scan_product *product, value_id factor, bool divides) {
  if (product->factors.count >= PRODUCTS_MAX) {
    scan_refuse(s, "a product has too many factors");
    return;
  }
  const typed_value *v = &s->body->values.items[factor];
  if (v->op == VALUE_NUMBER && !divides)
    product->scale *= v->number;
  else
    vec_push(s->arena, &product->factors, ((recurrence_factor){factor, divides}));
}

// A factor that is a product is several factors. Squares stay whole: high powers are made of them.
// A state after the step stays whole: the parts of its update are not there.
static void push_opened(scan *s, scan_product *product, value_id factor) {
  const typed_value v = s->body->values.items[factor];
  bool opens = !s->linears[factor] && scan_updated_state(s, factor) < 0;
  if (v.op == VALUE_MUL && v.args[0] != v.args[1] && opens && !s->reason) {
    push_opened(s, product, v.args[0]);
    push_opened(s, product, v.args[1]);
  } else if (v.op == VALUE_NEG && opens) {
    product->scale = -product->scale;
    push_opened(s, product, v.args[0]);
  } else {
    push_factor(s, product, factor, false);
  }
}

static void push_whole(scan *s, scan_product *product, recurrence_factor factor) {
  if (factor.divides)
    push_factor(s, product, factor.value, true);
  else
    push_opened(s, product, factor.value);
}

linear *linear_of_factor(scan *s, value_id id) {
  linear *x = linear_new(s);
  scan_product product = {.scale = 1, .state = -1};
  push_opened(s, &product, id);
  if (product.scale != 0) vec_push(s->arena, &x->products, product);
  return x;
}

linear *linear_scaled(scan *s, const linear *x, value_id factor, bool divides) {
  linear *scaled = linear_new(s);
  vec_each(const scan_product, from, x->products) {
    if (from->part != PART_WHOLE && s->body->values.items[factor].complex)
      scan_refuse(s, "the real part of a state is multiplied by a complex value");
    scan_product product = product_copy(s, from);
    push_whole(s, &product, (recurrence_factor){factor, divides});
    vec_push(s->arena, &scaled->products, product);
  }
  return scaled;
}

static bool is_complex_product(const scan *s, const scan_product *product) {
  if (product->part != PART_WHOLE) return false;
  if (product->state >= 0 && s->body->tensors.items[s->states[product->state].tensor].complex)
    return true;
  for (int i = 0; i < product->factors.count; i++)
    if (s->body->values.items[product->factors.items[i].value].complex) return true;
  return false;
}

value_id linear_as_value(scan *s, const scan_product *product) {
  value_id value = scan_append(s, (typed_value){.op = VALUE_NUMBER, .number = product->scale});
  for (int i = 0; i < product->factors.count; i++) {
    recurrence_factor factor = product->factors.items[i];
    if (s->unknown[factor.value])
      scan_refuse(s, "the real part of a sum over a state enters its update");
    value_op op = factor.divides ? VALUE_DIV : VALUE_MUL;
    value = scan_append(s, (typed_value){.op = op, .args = {value, factor.value}});
  }
  return value;
}

// Of a real product the real part is the product, the imaginary one 0.
linear *linear_part(scan *s, const linear *x, scan_part part) {
  linear *parts = linear_new(s);
  for (int i = 0; i < x->products.count; i++) {
    scan_product product = x->products.items[i];
    if (!is_complex_product(s, &product)) {
      if (part == PART_IMAGINARY) continue;
    } else if (product.state >= 0) {
      product.part = part;
    } else {
      value_op op = part == PART_REAL ? VALUE_REAL_PART : VALUE_IMAGINARY_PART;
      value_id value =
          scan_append(s, (typed_value){.op = op, .args = {linear_as_value(s, &product)}});
      product = (scan_product){.scale = 1, .state = -1};
      vec_push(s->arena, &product.factors, ((recurrence_factor){value, false}));
    }
    vec_push(s->arena, &parts->products, product);
  }
  return parts;
}

// The condition by which a factor is chosen. A factor that lacks some axes of the condition, and has
// others, is chosen where any entry along those axes is: no choice mixes the axes of both
// (recurrence/apart.c).
static value_id condition_of_factor(scan *s, value_id condition, value_id factor, bool first) {
  axis_set of_condition = s->body->values.items[condition].axes;
  axis_set of_factor = s->body->values.items[factor].axes;
  bool mixed = (of_condition & ~of_factor) && (of_factor & ~of_condition);
  if (!mixed || value_op_class(s->body->values.items[condition].op) != CLASS_COMPARE)
    return condition;
  return scan_append(s, (typed_value){.op = first ? VALUE_MAX_OVER : VALUE_MIN_OVER,
                                      .args = {condition},
                                      .over = of_condition & ~of_factor});
}

// Every factor is chosen by the condition, so that none of the branch that is not taken leaks.
static void push_chosen(scan *s, linear *to, value_id condition, const linear *x, bool first) {
  value_id zero = scan_append(s, (typed_value){.op = VALUE_NUMBER});
  value_id one = scan_append(s, (typed_value){.op = VALUE_NUMBER, .number = 1});
  value_id chosen =
      scan_append(s, (typed_value){.op = VALUE_WHERE,
                                   .args = {condition, first ? one : zero, first ? zero : one}});
  for (int i = 0; i < x->products.count; i++) {
    scan_product product = x->products.items[i];
    product.factors = (scan_factors){0};
    const scan_factors *from = &x->products.items[i].factors;
    vec_push(s->arena, &product.factors, ((recurrence_factor){chosen, false}));
    for (int k = 0; k < from->count; k++) {
      value_id f = from->items[k].value, other = from->items[k].divides ? one : zero;
      bool solved = !s->unknown[f];  // an unknown is finite where the step is
      value_id own = solved ? condition_of_factor(s, condition, f, first) : condition;
      typed_value where = {.op = VALUE_WHERE, .args = {own, first ? f : other, first ? other : f}};
      value_id guarded = solved ? scan_append(s, where) : f;
      vec_push(s->arena, &product.factors, ((recurrence_factor){guarded, from->items[k].divides}));
    }
    vec_push(s->arena, &to->products, product);
  }
}

linear *linear_where(scan *s, value_id condition, const linear *x, const linear *y) {
  linear *chosen = linear_new(s);
  push_chosen(s, chosen, condition, x, true);
  push_chosen(s, chosen, condition, y, false);
  if (chosen->products.count > PRODUCTS_MAX) scan_refuse(s, "a sum has too many products");
  return chosen;
}

bool linear_has_states(const linear *x) {
  for (int i = 0; i < x->products.count; i++)
    if (x->products.items[i].state >= 0) return true;
  return false;
}

bool linear_has_unknown(const scan *s, const linear *x) {
  for (int i = 0; i < x->products.count; i++) {
    const scan_factors *factors = &x->products.items[i].factors;
    for (int k = 0; k < factors->count; k++)
      if (s->unknown[factors->items[k].value]) return true;
  }
  return false;
}

// ---- opening ---------------------------------------------------------------------------------

static bool mixes(const scan *s, value_id id, axis_set left, axis_set right) {
  axis_set axes = s->body->values.items[id].axes;
  return (axes & left) && (axes & right);
}

// The sum x times the terms of one factor.
static linear *times_terms(scan *s, const linear *x, const recurrence_terms *terms) {
  linear *result = linear_new(s);
  for (int i = 0; i < x->products.count; i++) {
    for (int k = 0; k < terms->count; k++) {
      scan_product product = product_copy(s, &x->products.items[i]);
      product.scale *= terms->items[k].scale;
      for (int n = 0; n < terms->items[k].factors.count; n++) {
        recurrence_factor factor = terms->items[k].factors.items[n];
        push_whole(s, &product, factor);
      }
      vec_push(s->arena, &result->products, product);
      if (result->products.count > PRODUCTS_MAX)
        scan_refuse(s, "an increment has too many products");
      if (s->reason) return result;
    }
  }
  return result;
}

linear *linear_opened(scan *s, const scan_product *product, axis_set left, axis_set right) {
  linear *sum = linear_new(s);
  scan_product bare = *product;
  bare.factors = (scan_factors){0};
  vec_push(s->arena, &sum->products, bare);
  for (int i = 0; i < product->factors.count && !s->reason; i++) {
    recurrence_factor factor = product->factors.items[i];
    bool mixed = mixes(s, factor.value, left, right);
    if (factor.divides || !mixed) {
      if (mixed) scan_refuse(s, "an increment is not a sum of outer products");
      for (int k = 0; k < sum->products.count; k++) push_whole(s, &sum->products.items[k], factor);
      continue;
    }
    recurrence_terms terms = recurrence_split_terms(s->arena, s->body, factor.value, left, right);
    sum = times_terms(s, sum, &terms);
  }
  for (int i = 0; i < sum->products.count && !s->reason; i++) {
    const scan_factors *factors = &sum->products.items[i].factors;
    for (int k = 0; k < factors->count; k++)
      if (mixes(s, factors->items[k].value, left, right))
        scan_refuse(s, "an increment is not a sum of outer products");
  }
  return sum;
}

// ---- factors to tiles ------------------------------------------------------------------------

// The factors of a step before, 0 at the chunk's first.
static tile_pair earlier_factors(scan *s, const scan_product *product, axis_set axes, bool with) {
  tile_pair x = linear_factors(s, product, axes, with);
  axis_set missing = scan_time_bit(s) & ~pair_axes(s->program, x);
  if (missing) x = pair_each(s->program, x, (tile_value){.op = TILE_EXPAND, .over = missing});
  return pair_on_axes(s->program, TILE_SHIFT, x, s->program->time_axis, 1, 0);
}

tile_pair linear_factors(scan *s, const scan_product *product, axis_set axes, bool with) {
  tile_pair result = product->earlier ? earlier_factors(s, product->earlier, axes, with)
                                      : pair_number(s->program, 1);
  for (int pass = 0; pass < 2; pass++) {  // products before quotients
    for (int i = 0; i < product->factors.count; i++) {
      recurrence_factor factor = product->factors.items[i];
      bool has = (s->body->values.items[factor.value].axes & axes) != 0;
      if (has != with || factor.divides != (pass == 1)) continue;
      tile_pair x = scan_pure(s, factor.value);
      result = pass ? pair_div(s->program, result, x) : pair_mul(s->program, result, x);
    }
  }
  return result;
}

tile_pair linear_pure(scan *s, const linear *x) {
  tile_pair sum = pair_number(s->program, 0);
  for (int i = 0; i < x->products.count; i++) {
    const scan_product *product = &x->products.items[i];
    tile_pair scaled = pair_mul(s->program, pair_number(s->program, product->scale),
                                linear_factors(s, product, 0, false));
    sum = i ? pair_linear(s->program, TILE_ADD, sum, scaled) : scaled;
  }
  return sum;
}
