// Sums of products in the order of the fewest multiply-adds: an axis is summed together with the
// factors that have it, the cheapest first.
//
//   sum[K](q * sum[V](W * S))      ->   sum[V](W * sum[K](q * S))     W[U,V]
//   sum[J,K](q * W * S)            ->   sum[K](sum[J](q * W) * S)     W[J,K]
//   sum[R](w * k * v)              ->   sum[R](w * k) * v             v without R
//
// A factor that is the identity over two axes is none: the axis that is summed becomes the other.
//
//   sum[J](((index[K] == index[J]) - b * k * k{K -> J}) * S{K -> J})
//     ->  S - sum[J](b * k * k{K -> J} * S{K -> J})
//
// A matrix that is made at every step as a sum of others meets the inputs that it maps in parts:
//
//   sum[D]((a * W + b * U) * x)    ->   a * sum[D](W * x) + b * sum[D](U * x)     a, b, x: inputs
//
// What a state or an output is, stays whole: others read it as that.
#include <math.h>

#include "compiler/recurrence/factor.h"
#include "compiler/recurrence/simplify.h"

enum { AXES_MAX = 4, RUNTIME_ENTRIES = 64 };

// So many times as few multiply-adds are worth another form.
static const double worth = 1.5;

// sum[over](product of factors) / product of divisors. Divisors have no axis that is summed.
typedef struct contraction {
  axis_set over;
  factors of, divisors;
  bool negative, full;
  double cost;  // multiply-adds of the sums as they are written
} contraction;

static double entries_of(const builder *b, axis_set axes) {
  double entries = 1;
  for (int i = 0; i < b->body->axes.count; i++) {
    int64_t size = axis_in(axes, i) ? b->body->axes.items[i].size : 1;
    entries *= size == TYPED_RUNTIME_SIZE ? RUNTIME_ENTRIES : (double)size;
  }
  return entries;
}

// ---- what is summed -----------------------------------------------------------------------------

static void collect_product(const builder *b, contraction *c, value_id id) {
  const typed_value *v = value_at(b, id);
  bool whole = is_assigned(b, id) || c->of.count == FACTORS_MAX || c->divisors.count == FACTORS_MAX;
  c->full |= c->of.count == FACTORS_MAX;
  if (!whole && v->op == VALUE_MUL) {
    collect_product(b, c, v->args[0]);
    collect_product(b, c, v->args[1]);
  } else if (!whole && v->op == VALUE_NEG) {
    c->negative = !c->negative;
    collect_product(b, c, v->args[0]);
  } else if (!whole && v->op == VALUE_DIV && !(value_at(b, v->args[1])->axes & c->over)) {
    c->divisors.items[c->divisors.count++] = v->args[1];
    collect_product(b, c, v->args[0]);
  } else if (!c->full) {
    c->of.items[c->of.count++] = id;
  }
}

static axis_set axes_but(const builder *b, const contraction *c, int left_out) {
  axis_set axes = 0;
  for (int i = 0; i < c->of.count; i++)
    if (i != left_out) axes |= value_at(b, c->of.items[i])->axes;
  for (int i = 0; i < c->divisors.count; i++) axes |= value_at(b, c->divisors.items[i])->axes;
  return axes;
}

// A factor that is a sum itself becomes its factors, where its axes name nothing else.
static bool open_inner_sum(const builder *b, contraction *c) {
  for (int i = 0; i < c->of.count && !c->full; i++) {
    typed_value inner = *value_at(b, c->of.items[i]);
    if (inner.op != VALUE_SUM || is_assigned(b, c->of.items[i])) continue;
    if (inner.over & (c->over | axes_but(b, c, i))) continue;
    c->cost += entries_of(b, value_at(b, inner.args[0])->axes);
    c->of.items[i] = c->of.items[--c->of.count];
    c->over |= inner.over;
    collect_product(b, c, inner.args[0]);
    return true;
  }
  return false;
}

static contraction contraction_of(const builder *b, const typed_value *sum) {
  contraction c = {.over = sum->over, .cost = entries_of(b, value_at(b, sum->args[0])->axes)};
  collect_product(b, &c, sum->args[0]);
  while (open_inner_sum(b, &c)) continue;
  return c;
}

// ---- the identity -------------------------------------------------------------------------------

// Is it 1 where the entries of two axes are the same, one of them summed, else 0? Or what `where`
// chooses there, `entry`.
typedef struct identity {
  int from, to;  // the axis that is summed, and the other
  value_id entry;
} identity;

static bool is_identity(const builder *b, value_id id, axis_set over, identity *found) {
  typed_value v = *value_at(b, id);
  found->entry = NO_VALUE;
  if (v.op == VALUE_WHERE && is_the_number(b, v.args[2], 0)) {
    found->entry = v.args[1];
    v = *value_at(b, v.args[0]);
  }
  if (v.op != VALUE_EQUAL) return false;
  const typed_value *x = value_at(b, v.args[0]), *y = value_at(b, v.args[1]);
  if (x->op != VALUE_INDEX || y->op != VALUE_INDEX) return false;
  bool first = axis_in(over, x->index);
  found->from = first ? x->index : y->index;
  found->to = first ? y->index : x->index;
  return axis_in(over, found->from) && found->from != found->to &&
         b->body->axes.items[found->from].size == b->body->axes.items[found->to].size;
}

static bool has_identity(const builder *b, value_id id, axis_set over, int depth) {
  typed_value v = *value_at(b, id);
  identity found;
  if (is_identity(b, id, over, &found)) return true;
  if (is_assigned(b, id) || depth == 0 ||
      (v.op != VALUE_ADD && v.op != VALUE_SUB && v.op != VALUE_MUL && v.op != VALUE_NEG))
    return false;
  for (int k = 0; k < value_arity(v.op); k++)
    if (has_identity(b, v.args[k], over, depth - 1)) return true;
  return false;
}

// The product without its identity, over the axes that are left.
static value_id without_identity(builder *b, contraction *c, int which, const identity *found) {
  value_id before = c->of.items[which];
  c->of.items[which] = found->entry == NO_VALUE ? make_number(b, 1) : found->entry;
  for (int i = 0; i < c->of.count; i++) {
    axis_set axes = value_at(b, c->of.items[i])->axes;
    if (!axis_in(axes, found->from) || !axis_in(axes, found->to)) continue;
    c->of.items[which] = before;
    return NO_VALUE;
  }
  for (int i = 0; i < c->of.count; i++)
    c->of.items[i] = make_renamed(b, c->of.items[i], found->from, found->to);
  return make_sum(b, factor_product(b, &c->of), c->over & ~axis_bit(found->from));
}

static value_id sum_without_identities(builder *b, contraction *c) {
  for (int i = 0; i < c->of.count; i++) {
    identity found;
    typed_value v = *value_at(b, c->of.items[i]);
    if (is_identity(b, c->of.items[i], c->over, &found)) return without_identity(b, c, i, &found);
    if ((v.op != VALUE_ADD && v.op != VALUE_SUB) ||
        !has_identity(b, c->of.items[i], c->over, SEARCH_DEPTH))
      continue;
    c->of.items[i] = c->of.items[--c->of.count];
    value_id rest = factor_product(b, &c->of), parts[2];
    for (int k = 0; k < 2; k++)
      parts[k] = make_sum(b, make_binary(b, VALUE_MUL, v.args[k], rest), c->over);
    return make_binary(b, v.op, parts[0], parts[1]);
  }
  return NO_VALUE;
}

// ---- the order ----------------------------------------------------------------------------------

// The factors left after some sums, by their axes.
typedef struct remaining {
  axis_set axes[FACTORS_MAX];
  value_id values[FACTORS_MAX];  // NO_VALUE while only the cost is asked for
  int count;
} remaining;

// Sums an axis over the product of the factors that have it, and with it all axes that no other
// factor has. Multiply-adds. `b` is NULL while only the cost is asked for.
static double sum_axis(const builder *sizes, builder *b, remaining *r, axis_set over, int axis) {
  axis_set product = 0, others = 0;
  value_id made = NO_VALUE;
  int kept = 0;
  for (int i = 0; i < r->count; i++) {
    if (!axis_in(r->axes[i], axis)) {
      others |= r->axes[i];
      r->axes[kept] = r->axes[i];
      r->values[kept++] = r->values[i];
      continue;
    }
    product |= r->axes[i];
    if (b) made = made == NO_VALUE ? r->values[i] : make_binary(b, VALUE_MUL, made, r->values[i]);
  }
  axis_set summed = product & over & ~others;
  if (b) made = make_sum(b, made, summed);
  r->axes[kept] = product & ~summed;
  r->values[kept] = made;
  r->count = kept + 1;
  return entries_of(sizes, product);
}

static double sum_in_order(const builder *sizes, builder *b, remaining *r, axis_set over,
                           const int *order, int count) {
  double cost = 0;
  for (int i = 0; i < count; i++) {
    bool left = false;
    for (int k = 0; k < r->count; k++) left |= axis_in(r->axes[k], order[i]);
    if (left) cost += sum_axis(sizes, b, r, over, order[i]);
  }
  axis_set result = 0;
  for (int k = 0; k < r->count; k++) result |= r->axes[k];
  return r->count > 1 ? cost + entries_of(sizes, result) : cost;
}

typedef struct best_order {
  double cost;
  int axes[AXES_MAX], count;
} best_order;

// Tries all orders of the axes from `at` on.
static void try_orders(const builder *b, const remaining *all, axis_set over, int *order, int at,
                       int count, best_order *best) {
  if (at == count) {
    remaining r = *all;
    double cost = sum_in_order(b, NULL, &r, over, order, count);
    if (cost >= best->cost) return;
    best->cost = cost;
    for (int i = 0; i < count; i++) best->axes[i] = order[i];
    return;
  }
  for (int i = at; i < count; i++) {
    int axis = order[i];
    order[i] = order[at], order[at] = axis;
    try_orders(b, all, over, order, at + 1, count, best);
    order[at] = order[i], order[i] = axis;
  }
}

// The best of the orders that cost less than `most`; count 0: there is none, or too many axes.
static best_order order_below(const builder *b, const contraction *c, remaining *all, double most) {
  best_order best = {.cost = most};
  int order[AXES_MAX], count = 0;
  for (int i = 0; i < b->body->axes.count; i++) {
    if (!axis_in(c->over, i)) continue;
    if (count == AXES_MAX) return best;
    order[count++] = i;
  }
  all->count = c->of.count;
  for (int i = 0; i < c->of.count; i++) {
    all->values[i] = c->of.items[i];
    all->axes[i] = value_at(b, c->of.items[i])->axes;
  }
  try_orders(b, all, c->over, order, 0, count, &best);
  if (best.cost < most) best.count = count;
  return best;
}

static value_id sum_in_best_order(builder *b, const contraction *c) {
  remaining all;
  best_order best = order_below(b, c, &all, c->cost / worth);
  if (!best.count) return NO_VALUE;
  sum_in_order(b, b, &all, c->over, best.axes, best.count);
  value_id product = all.values[0];
  for (int i = 1; i < all.count; i++) product = make_binary(b, VALUE_MUL, product, all.values[i]);
  return product;
}

// ---- sums of matrices ---------------------------------------------------------------------------

// What a value is made of, and by how many operations at every step.
typedef struct making {
  bool of_inputs, of_states;
  double cost;
} making;

static making making_of(const builder *b, value_id id) {
  bool *needed = ARENA_ARRAY(b->memory, bool, id + 1),
       *varies = ARENA_ARRAY(b->memory, bool, id + 1);
  making m = {.cost = 0};
  needed[id] = true;
  for (value_id i = id; i >= 0; i--) {
    const typed_value *v = value_at(b, i);
    for (int k = 0; k < value_arity(v->op) && needed[i]; k++) needed[v->args[k]] = true;
    m.of_states |= needed[i] && (v->op == VALUE_PREVIOUS || v->op == VALUE_LAG);
  }
  for (value_id i = 0; i <= id; i++) {
    const typed_value *v = value_at(b, i);
    varies[i] = v->op == VALUE_INPUT;
    for (int k = 0; k < value_arity(v->op); k++) varies[i] |= varies[v->args[k]];
    bool summed = v->op == VALUE_SUM;
    bool added = summed && value_at(b, v->args[0])->op == VALUE_MUL;
    if (needed[i] && varies[i] && value_arity(v->op) && !added)
      m.cost += entries_of(b, summed ? value_at(b, v->args[0])->axes : v->axes);
  }
  m.of_inputs = varies[id];
  return m;
}

static double cost_of_making(const builder *b, const contraction *c) {
  double cost = 0;
  for (int i = 0; i < c->of.count; i++) cost += making_of(b, c->of.items[i]).cost;
  for (int i = 0; i < c->divisors.count; i++) cost += making_of(b, c->divisors.items[i]).cost;
  return cost;
}

// The operations of the sum if one of its factors were this term, and of making all factors.
static double cost_of_part(const builder *b, const contraction *c, int which, value_id one) {
  contraction part = {.over = c->over};
  remaining all;
  collect_product(b, &part, one);
  for (int i = 0; i < c->of.count; i++)
    if (i != which) collect_product(b, &part, c->of.items[i]);
  while (open_inner_sum(b, &part)) continue;
  return part.full ? INFINITY
                   : cost_of_making(b, &part) + order_below(b, &part, &all, INFINITY).cost;
}

static bool is_cheaper_in_parts(const builder *b, const contraction *c, int which,
                                const terms *parts) {
  making whole = making_of(b, c->of.items[which]);
  axis_set own = value_at(b, c->of.items[which])->axes, axes = axes_but(b, c, which) | own;
  double cost = (parts->count - 1) * entries_of(b, axes & ~c->over);
  if (!whole.of_inputs || !(own & c->over) || !(own & ~c->over)) return false;
  for (int i = 0; i < c->of.count; i++)
    if (making_of(b, c->of.items[i]).of_states) return false;
  for (int i = 0; i < parts->count; i++) cost += cost_of_part(b, c, which, parts->items[i].id);
  return cost <= cost_of_making(b, c) + c->cost;
}

static value_id sum_in_parts(builder *b, contraction *c) {
  for (int i = 0; i < c->of.count; i++) {
    terms parts = {.count = 0};
    value_id id = c->of.items[i];
    value_op op = value_at(b, id)->op;
    if ((op != VALUE_ADD && op != VALUE_SUB) || is_assigned(b, id)) continue;
    if (!collect_addends(b, id, false, &parts) || !is_cheaper_in_parts(b, c, i, &parts)) continue;
    c->of.items[i] = c->of.items[--c->of.count];
    value_id rest = factor_product(b, &c->of), all = NO_VALUE;
    for (int k = 0; k < parts.count; k++) {
      value_id part = make_sum(b, make_binary(b, VALUE_MUL, parts.items[k].id, rest), c->over);
      all = make_added(b, all, part, parts.items[k].negative);
    }
    return all;
  }
  return NO_VALUE;
}

value_id contract_sum(builder *b, const typed_value *v) {
  contraction c = contraction_of(b, v);
  if (c.full) return NO_VALUE;
  value_id sum = sum_without_identities(b, &c);
  if (sum == NO_VALUE && !b->merges) sum = sum_in_parts(b, &c);
  if (sum == NO_VALUE) sum = sum_in_best_order(b, &c);
  if (sum == NO_VALUE) return NO_VALUE;
  for (int i = 0; i < c.divisors.count; i++)
    sum = make_binary(b, VALUE_DIV, sum, c.divisors.items[i]);
  return c.negative ? make_unary(b, VALUE_NEG, sum) : sum;
}
