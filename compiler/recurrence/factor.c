// Outer products that share a factor, added: the factor times a sum.
//
//   S[t-1] - b * k * sum[K](k * S[t-1]) + b * k * v   ->   S[t-1] + b * k * (v - sum[K](k * S[t-1]))
//   sum[K](q * S) + sum[K](p * S)                     ->   sum[K]((q + p) * S)
//   x - a * x                                         ->   (1 - a) * x
//   a * (S[t-1] - k * r) + k * u                      ->   a * S[t-1] + k * (u - a * r)
//
// One outer product instead of two. It is done where the sum lacks an axis that the common factors
// have, so that it is smaller than what it replaces. What a state or an output is, stays whole:
// others read it as that.
#include "compiler/recurrence/factor.h"

#include "compiler/recurrence/simplify.h"

bool collect_addends(const builder *b, value_id id, bool negative, terms *to) {
  const typed_value *v = value_at(b, id);
  if (!is_assigned(b, id) && (v->op == VALUE_ADD || v->op == VALUE_SUB))
    return collect_addends(b, v->args[0], negative, to) &&
           collect_addends(b, v->args[1], negative != (v->op == VALUE_SUB), to);
  if (v->op == VALUE_NEG) return collect_addends(b, v->args[0], !negative, to);
  if (to->count == TERMS_MAX) return false;
  to->items[to->count++] = (term){id, negative};
  return true;
}

bool collect_factors(const typed_body *body, value_id id, bool *negative, factors *to) {
  const typed_value *v = &body->values.items[id];
  if (v->op == VALUE_MUL)
    return collect_factors(body, v->args[0], negative, to) &&
           collect_factors(body, v->args[1], negative, to);
  if (negative && v->op == VALUE_NEG) {
    *negative = !*negative;
    return collect_factors(body, v->args[0], negative, to);
  }
  if (to->count == FACTORS_MAX) return false;
  to->items[to->count++] = id;
  return true;
}

void take_common(factors *x, factors *y, factors *common) {
  for (int i = 0; i < x->count; i++) {
    int k = 0;
    while (k < y->count && y->items[k] != x->items[i]) k++;
    if (k == y->count) continue;
    common->items[common->count++] = x->items[i];
    y->items[k] = y->items[--y->count];
    for (int rest = i + 1; rest < x->count; rest++) x->items[rest - 1] = x->items[rest];
    x->count--;
    i--;
  }
}

axis_set product_axes(const builder *b, const factors *x) {
  axis_set axes = 0;
  for (int i = 0; i < x->count; i++) axes |= value_at(b, x->items[i])->axes;
  return axes;
}

value_id factor_product(builder *b, const factors *x) {
  value_id id = x->count ? x->items[0] : make_number(b, 1);
  for (int i = 1; i < x->count; i++) id = make_binary(b, VALUE_MUL, id, x->items[i]);
  return id;
}

// A sum of which x and y were parts. contract.c would take it apart into the same two, without end.
static value_id merged_sum(builder *b, value_id id, axis_set over) {
  bool outer = b->merges;
  b->merges = true;
  value_id sum = make_sum(b, id, over);
  b->merges = outer;
  return sum;
}

// One summand of a sum: gate * id, or id alone.
typedef struct summand {
  value_id id, gate;  // NO_VALUE: there is no gate
  bool negative;
} summand;

typedef struct summands {
  summand items[TERMS_MAX];
  int count;
} summands;

static bool collect_all_factors(const builder *b, summand x, factors *to) {
  return collect_factors(b->body, x.id, NULL, to) &&
         (x.gate == NO_VALUE || collect_factors(b->body, x.gate, NULL, to));
}

// x + y, or x - y if their signs differ, as a product, or as the sum of one where both are sums;
// NO_VALUE where that saves nothing, or where the shared factor has all axes of `whole`.
static value_id factored(builder *b, summand x, summand y, axis_set whole) {
  typed_value of_first = *value_at(b, x.id), of_second = *value_at(b, y.id);
  bool sums = of_first.op == VALUE_SUM && of_second.op == VALUE_SUM;
  if (sums && of_first.over == of_second.over && x.gate == y.gate && x.gate == NO_VALUE) {
    x.id = of_first.args[0];
    y.id = of_second.args[0];
    value_id one = factored(b, x, y, whole);
    return one == NO_VALUE ? one : merged_sum(b, one, of_first.over);
  }
  factors of_x = {0}, of_y = {0}, common = {0};
  if (!collect_all_factors(b, x, &of_x) || !collect_all_factors(b, y, &of_y)) return NO_VALUE;
  take_common(&of_x, &of_y, &common);
  if (common.count == 0 || of_x.count + of_y.count == 0) return NO_VALUE;
  axis_set left = product_axes(b, &of_x) | product_axes(b, &of_y);
  axis_set shared = product_axes(b, &common);
  if (!(shared & ~left) || (whole && !(whole & ~shared))) return NO_VALUE;
  value_op op = x.negative == y.negative ? VALUE_ADD : VALUE_SUB;
  value_id sum = make_binary(b, op, factor_product(b, &of_x), factor_product(b, &of_y));
  return make_binary(b, VALUE_MUL, factor_product(b, &common), sum);
}

static bool collect_summands(const builder *b, value_id id, bool negative, summands *to) {
  terms all = {0};
  bool fits = collect_addends(b, id, negative, &all);
  for (int i = 0; i < all.count; i++)
    to->items[to->count++] = (summand){all.items[i].id, NO_VALUE, all.items[i].negative};
  return fits;
}

// Replaces each gate times a sum by the terms of the sum, each with the gate. Was there any?
static bool open_gated_sums(const builder *b, summands *all) {
  summands opened = {0};
  for (int i = 0; i < all->count; i++) {
    const typed_value *v = value_at(b, all->items[i].id);
    int sum = v->op == VALUE_MUL && value_at(b, v->args[0])->axes != v->axes;
    summands parts = {0};
    bool opens = v->op == VALUE_MUL && value_at(b, v->args[1 - sum])->axes != v->axes &&
                 value_at(b, v->args[sum])->axes == v->axes &&
                 collect_summands(b, v->args[sum], all->items[i].negative, &parts) &&
                 parts.count > 1;
    if (!opens) parts = (summands){{all->items[i]}, 1};
    if (opened.count + parts.count > TERMS_MAX) return false;
    for (int k = 0; k < parts.count; k++) {
      if (opens) parts.items[k].gate = v->args[1 - sum];
      opened.items[opened.count++] = parts.items[k];
    }
  }
  bool any = opened.count > all->count;
  *all = opened;
  return any;
}

static value_id add_summand(builder *b, value_id sum, summand x) {
  value_id id = x.gate == NO_VALUE ? x.id : make_binary(b, VALUE_MUL, x.gate, x.id);
  return make_added(b, sum, id, x.negative);
}

// The sum of all, with one product in place of two, one of each side; NO_VALUE where that saves
// nothing.
static value_id merged_pair(builder *b, const summands *left, const summands *right,
                            axis_set whole) {
  for (int i = 0; i < left->count; i++) {
    for (int k = 0; k < right->count; k++) {
      value_id merged = factored(b, left->items[i], right->items[k], whole);
      if (merged == NO_VALUE) continue;
      value_id sum = NO_VALUE;
      for (int n = 0; n < left->count; n++) {
        summand one = {merged, NO_VALUE, left->items[i].negative};
        sum = add_summand(b, sum, n == i ? one : left->items[n]);
      }
      for (int n = 0; n < right->count; n++)
        if (n != k) sum = add_summand(b, sum, right->items[n]);
      return sum;
    }
  }
  return NO_VALUE;
}

value_id factor_sum(builder *b, const typed_value *v) {
  summands left = {0}, right = {0};
  if (!collect_summands(b, v->args[0], false, &left) ||
      !collect_summands(b, v->args[1], v->op == VALUE_SUB, &right) ||
      left.count + right.count > TERMS_MAX)
    return NO_VALUE;
  value_id sum = merged_pair(b, &left, &right, 0);
  bool opens = sum == NO_VALUE && (open_gated_sums(b, &left) | open_gated_sums(b, &right));
  return opens ? merged_pair(b, &left, &right, v->axes) : sum;
}
