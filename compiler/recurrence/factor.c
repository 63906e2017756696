// Outer products that share a factor, added: the factor times a sum.
//
//   S[t-1] - b * k * sum[K](k * S[t-1]) + b * k * v   ->   S[t-1] + b * k * (v - sum[K](k * S[t-1]))
//   sum[K](q * S) + sum[K](p * S)                     ->   sum[K]((q + p) * S)
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

// x + y, or x - y if their signs differ, as a product, or as the sum of one where both are sums;
// NO_VALUE where that saves nothing.
static value_id factored(builder *b, term x, term y) {
  typed_value of_first = *value_at(b, x.id), of_second = *value_at(b, y.id);
  bool sums = of_first.op == VALUE_SUM && of_second.op == VALUE_SUM;
  if (sums && of_first.over == of_second.over) {
    x.id = of_first.args[0];
    y.id = of_second.args[0];
    value_id one = factored(b, x, y);
    return one == NO_VALUE ? one : merged_sum(b, one, of_first.over);
  }
  factors of_x = {0}, of_y = {0}, common = {0};
  if (!collect_factors(b->body, x.id, NULL, &of_x) || !collect_factors(b->body, y.id, NULL, &of_y))
    return NO_VALUE;
  take_common(&of_x, &of_y, &common);
  if (common.count == 0 || of_x.count == 0 || of_y.count == 0) return NO_VALUE;
  axis_set left = product_axes(b, &of_x) | product_axes(b, &of_y);
  if (!(product_axes(b, &common) & ~left)) return NO_VALUE;
  value_op op = x.negative == y.negative ? VALUE_ADD : VALUE_SUB;
  value_id sum = make_binary(b, op, factor_product(b, &of_x), factor_product(b, &of_y));
  return make_binary(b, VALUE_MUL, factor_product(b, &common), sum);
}

value_id factor_sum(builder *b, const typed_value *v) {
  terms all = {0};
  if (!collect_addends(b, v->args[0], false, &all)) return NO_VALUE;
  int first_of_second = all.count;
  if (!collect_addends(b, v->args[1], v->op == VALUE_SUB, &all)) return NO_VALUE;
  for (int i = 0; i < first_of_second; i++) {
    for (int k = first_of_second; k < all.count; k++) {
      value_id merged = factored(b, all.items[i], all.items[k]);
      if (merged == NO_VALUE) continue;
      value_id sum = NO_VALUE;
      all.items[i].id = merged;
      for (int n = 0; n < all.count; n++)
        if (n != k) sum = make_added(b, sum, all.items[n].id, all.items[n].negative);
      return sum;
    }
  }
  return NO_VALUE;
}
