// Sums over a state that enter its own update: delta rules and whatever else adds low-rank terms.
//
//   e = v - sum[K](k * S[t-1])        e[t] = r[t] + sum over s < t of A[t,s] e[s]
//   S = S[t-1] + b * k * e       ->   A    = -b[s] * (k . k[s]) where s < t, times the decay between
//                                     r    = v - the same read of the state before the chunk
//                                     e    = solve A r
//
// The unknown is e, since nothing but e uses the sum. The state then gains one outer product. With
// v and the sum apart it would gain two, each read by scores of its own. Where other values use the
// sum as well, the sum itself is solved for. Several such values are solved for together. Rows are
// steps and, within a step, the sums in the order of the source. Micro-steps of a fold are such
// rows. Real and imaginary parts are rows of their own.
#include "compiler/base/ice.h"
#include "compiler/chunk/scan.h"

enum { UNKNOWN_MAX = 32 };

typedef struct equations {
  scan *s;
  int group, unknowns, parts;  // parts: 2 where a state or a read is complex
  tile_pair right[UNKNOWN_MAX];
  tile_pair left[UNKNOWN_MAX][UNKNOWN_MAX];  // [t,s]; re = NO_TILE: none
} equations;

static value_id unknown_at(const equations *e, int row) {
  return e->s->groups[e->group].unknown.items[row];
}

static int unknown_of(const equations *e, const scan_product *product) {
  for (int i = 0; i < product->factors.count; i++) {
    for (int k = 0; k < e->unknowns; k++)
      if (product->factors.items[i].value == unknown_at(e, k)) return k;
  }
  return -1;
}

// The product without that factor. Two of them, or one that divides, are no linear equation.
static scan_product product_without(scan *s, const scan_product *product, value_id unknown) {
  scan_product rest = *product;
  rest.factors = (scan_factors){0};
  int found = 0;
  for (int i = 0; i < product->factors.count; i++) {
    recurrence_factor factor = product->factors.items[i];
    if (factor.value == unknown) {
      found += factor.divides ? 2 : 1;
    } else {
      if (s->unknown[factor.value]) found = 2;
      vec_push(s->arena, &rest.factors, factor);
    }
  }
  if (found != 1) scan_refuse(s, "sums over a state are multiplied in its update");
  return rest;
}

// ---- what is solved for ----------------------------------------------------------------------

static value_id unknown_factor(const scan *s, const scan_product *product) {
  for (int i = 0; i < product->factors.count; i++)
    if (s->unknown[product->factors.items[i].value]) return product->factors.items[i].value;
  return NO_VALUE;
}

// Is everything unknown in that value used by it alone?
static bool uses_alone(const scan *s, value_id id) {
  const linear *x = s->linears[id];
  if (s->unknown[id] || !x || !linear_has_unknown(s, x)) return true;
  const typed_value *v = &s->body->values.items[id];
  bool is_made_here = id < s->from->body.values.count && v->op != VALUE_WHERE;
  for (int k = 0; is_made_here && k < value_arity(v->op); k++) {
    value_id arg = v->args[k];
    const linear *of_arg = s->linears[arg];
    if (!of_arg || !linear_has_unknown(s, of_arg)) continue;
    is_made_here = s->uses[arg] == 1 && uses_alone(s, arg);
  }
  return is_made_here;
}

static bool has_its_axes(const scan *s, value_id id, const linear *x) {
  for (int i = 0; i < x->products.count; i++) {
    value_id unknown = unknown_factor(s, &x->products.items[i]);
    if (unknown == NO_VALUE) continue;
    if (s->body->values.items[unknown].axes != s->body->values.items[id].axes) return false;
  }
  return true;
}

static void forget_unknown(scan *s, value_id unknown) {
  scan_group *group = &s->groups[s->making];
  int kept = 0;
  for (int i = 0; i < group->unknown.count; i++)
    if (group->unknown.items[i] != unknown) group->unknown.items[kept++] = group->unknown.items[i];
  group->unknown.count = kept;
}

void low_rank_replace(scan *s, value_id id) {
  const linear *x = s->linears[id];
  if (x->products.count < 2 || linear_has_states(x) || !linear_has_unknown(s, x)) return;
  if (!uses_alone(s, id) || !has_its_axes(s, id, x)) return;
  for (int i = 0; i < x->products.count; i++) {
    value_id unknown = unknown_factor(s, &x->products.items[i]);
    if (unknown != NO_VALUE) forget_unknown(s, unknown);
  }
  vec_push(s->arena, &s->groups[s->making].unknown, id);
  s->unknown[id] = true;
  s->definition[id] = x;
  s->linears[id] = linear_of_factor(s, id);
}

// ---- equations -------------------------------------------------------------------------------

// A sum over a state, times a number, that stands in the equation of a row.
typedef struct summand {
  int row;
  axis_set over;
  tile_pair times;
} summand;

static void add_right(equations *e, int row, tile_pair x) {
  e->right[row] = pair_linear(e->s->program, TILE_ADD, e->right[row], x);
}

static void add_left(equations *e, int row, int column, tile_pair x) {
  tile_pair *a = &e->left[row][column];
  *a = a->re == NO_TILE ? x : pair_linear(e->s->program, TILE_ADD, *a, x);
}

// Keys erased and values erased: what one sum wrote is summed by the other, entry by entry.
static void refuse_sum_of_sum(scan *s, value_id id, axis_set over) {
  double rows = scan_entries(s, s->body->values.items[id].axes & over);
  scan_refuse(s, arena_printf(s->arena,
                              "a sum over a state is summed once more in its update: a system of "
                              "%.0f rows a step in place of 1",
                              rows));
}

// Factors without the summed axes, which stay outside of the sum.
static tile_pair outside_factors(equations *e, const summand *of, const scan_product *product) {
  scan *s = e->s;
  tile_pair factors = linear_factors(s, product, of->over, false);
  factors = pair_mul(s->program, factors, pair_number(s->program, product->scale));
  return pair_mul(s->program, of->times, factors);
}

// What a row reads of what a column's unknown wrote at earlier steps.
static void add_written_unknown(equations *e, const summand *of, const scan_product *read,
                                int writer, const scan_product *written, int column) {
  scan *s = e->s;
  value_id id = unknown_at(e, column);
  scan_product known = product_without(s, written, id);
  if (s->body->values.items[id].axes & of->over) refuse_sum_of_sum(s, id, of->over);
  if (s->reason) return;
  tile_pair scores = contract_pairs(s, read, writer, &known, of->over);
  if (s->reason) return;
  tile_pair rest = linear_factors(s, &known, of->over, false);
  rest = pair_mul(s->program, rest, pair_number(s->program, known.scale));
  scores = pair_mul(s->program, scores, contract_at_pair(s, rest));
  add_left(e, of->row, column, pair_mul(s->program, outside_factors(e, of, read), scores));
}

// A read of a state of the group: what was there before the chunk, and each product of the
// increments that reach it.
static void add_own_read(equations *e, const summand *of, const scan_product *read) {
  scan *s = e->s;
  if (read->part != PART_WHOLE) {
    scan_refuse(s, "an update sums a part of its own state");
    return;
  }
  tile_pair outside = outside_factors(e, of, read);
  add_right(e, of->row, pair_mul(s->program, outside, contract_before(s, read, of->over)));
  for (int writer = 0; writer < s->state_count; writer++) {
    const linear *increment = &s->states[writer].increment;
    if (!coupled_reaches(s, read->state, writer)) continue;
    for (int i = 0; i < increment->products.count && !s->reason; i++) {
      const scan_product *written = &increment->products.items[i];
      int column = unknown_of(e, written);
      if (column >= 0) {
        add_written_unknown(e, of, read, writer, written, column);
      } else {
        tile_pair part = contract_written(s, read, writer, written, of->over);
        add_right(e, of->row, pair_mul(s->program, outside, part));
      }
    }
  }
}

// An earlier unknown of the same step.
static void add_same_step(equations *e, const summand *of, const scan_product *product,
                          int column) {
  scan *s = e->s;
  value_id id = unknown_at(e, column);
  scan_product known = product_without(s, product, id);
  if (s->body->values.items[id].axes & of->over) refuse_sum_of_sum(s, id, of->over);
  if (s->reason) return;
  tile_pair factor = pair_mul(s->program, of->times, contract_product(s, &known, of->over));
  add_left(e, of->row, column, pair_on_diagonal(s->program, factor));
}

static void add_summand(equations *e, const summand *of, const scan_product *product);

// A state of the group after the step, summed before the step's own writes are known: its update
// applied to the states before the step.
//
//   W0 = where(c, W[t-1], W0[t-1])      sum[K](k * W0)  ->  sum[K](k * where(c, 1, 0) * W[t-1])
//                                                           + sum[K](k * where(c, 0, 1) * W0[t-1])
static void add_updated_read(equations *e, const summand *of, const scan_product *read) {
  scan *s = e->s;
  const linear *x = s->states[read->state].update;
  for (int i = 0; i < read->factors.count; i++)
    x = linear_scaled(s, x, read->factors.items[i].value, read->factors.items[i].divides);
  for (int i = 0; i < x->products.count && !s->reason; i++) {
    scan_product product = x->products.items[i];
    product.scale *= read->scale;
    add_summand(e, of, &product);
  }
}

static void add_summand(equations *e, const summand *of, const scan_product *product) {
  scan *s = e->s;
  int column = unknown_of(e, product);
  bool own = product->state >= 0 && s->states[product->state].group == e->group;
  if (own && column < 0 && !product->previous && product->part == PART_WHOLE) {
    add_updated_read(e, of, product);
  } else if (own && column < 0) {
    add_own_read(e, of, product);
  } else if (product->state < 0 && column >= 0) {
    add_same_step(e, of, product, column);
  } else if (column < 0) {
    tile_pair part = contract_product(s, product, of->over);
    add_right(e, of->row, pair_mul(s->program, of->times, part));
  } else {
    scan_refuse(s, "sums over a state are multiplied in its update");
  }
}

static void add_sum_terms(equations *e, int row, value_id id, tile_pair times) {
  scan *s = e->s;
  const typed_value *sum = &s->body->values.items[id];
  const linear *x = scan_visit(s, sum->args[0]);
  const summand of = {row, sum->over, times};
  for (int i = 0; i < x->products.count && !s->reason; i++)
    add_summand(e, &of, &x->products.items[i]);
}

static void add_unknown(equations *e, int row, value_id id, tile_pair times) {
  scan *s = e->s;
  const linear *x = s->definition[id];
  if (!x) {
    add_sum_terms(e, row, id, times);
    return;
  }
  for (int i = 0; i < x->products.count && !s->reason; i++) {
    const scan_product *product = &x->products.items[i];
    value_id unknown = unknown_factor(s, product);
    if (unknown == NO_VALUE) {
      tile_pair known = contract_product(s, product, 0);
      add_right(e, row, pair_mul(s->program, times, known));
    } else {
      scan_product factors = product_without(s, product, unknown);
      if (s->reason) return;
      add_unknown(e, row, unknown, pair_mul(s->program, times, contract_product(s, &factors, 0)));
    }
  }
}

static void add_unknown_equation(equations *e, int row) {
  e->right[row] = pair_number(e->s->program, 0);
  add_unknown(e, row, unknown_at(e, row), pair_number(e->s->program, 1));
}

// ---- one system ------------------------------------------------------------------------------

static bool any_complex(const equations *e) {
  for (int i = 0; i < e->unknowns; i++) {
    if (pair_is_complex(e->right[i])) return true;
    for (int k = 0; k < e->unknowns; k++)
      if (e->left[i][k].re != NO_TILE && pair_is_complex(e->left[i][k])) return true;
  }
  return false;
}

// Row and column of the real system: part 0 is real, part 1 imaginary; i * i = -1.
static tile_id left_part(const equations *e, int row, int row_part, int column, int column_part) {
  tile_pair a = e->left[row][column];
  if (a.re == NO_TILE) return NO_TILE;
  if (row_part == column_part) return a.re;
  if (!pair_is_complex(a)) return NO_TILE;
  return row_part ? a.im : tile_unary(e->s->program, TILE_NEG, a.im);
}

static tile_id right_part(const equations *e, int row, int part) {
  return part ? pair_imaginary(e->s->program, e->right[row]) : e->right[row].re;
}

static tile_id placed(scan *s, tile_id x, int axis, int entry) {
  return tile_indexed(s->program, TILE_PLACE, x, axis, entry);
}

static tile_id joined_axis(scan *s, tile_id x, int outer, int inner, int axis) {
  return tile_regroup(s->program, TILE_JOIN, x, axis, outer, inner);
}

static tile_id sum_or_first(scan *s, tile_id x, tile_id y) {
  return x == NO_TILE ? y : tile_binary(s->program, TILE_ADD, x, y);
}

// Axes that some rows have and others lack are given to all.
static tile_id expanded_to_axes(scan *s, tile_id x, axis_set axes) {
  axis_set missing = axes & ~s->program->values.items[x].axes;
  return missing ? tile_reduce(s->program, TILE_EXPAND, x, missing) : x;
}

static void solve_single(equations *e) {
  scan *s = e->s;
  tile_id a = e->left[0][0].re;
  if (a == NO_TILE) return;
  tile_id x = tile_solve(s->program, a, e->right[0].re, s->program->time_axis,
                         s->program->pair_axis, false);
  e->right[0] = pair_real(x);
}

// One row of the system, [t,s,other]: few entries are placed among few.
static tile_id placed_row(equations *e, int row, int other) {
  scan *s = e->s;
  tile_program *p = s->program;
  tile_id all = NO_TILE;
  for (int k = 0; k < e->unknowns * e->parts; k++) {
    tile_id part = left_part(e, row / e->parts, row % e->parts, k / e->parts, k % e->parts);
    if (part == NO_TILE) continue;
    part = expanded_to_axes(s, part, axis_bit(p->time_axis) | axis_bit(p->pair_axis));
    all = sum_or_first(s, all, placed(s, part, other, k));
  }
  return all;
}

static void solve_together(equations *e) {
  scan *s = e->s;
  tile_program *p = s->program;
  int rows = e->unknowns * e->parts, size = rows * p->chunk;
  int t = p->time_axis, pair = p->pair_axis;
  int sum = tile_axis_new(p, "sum", rows), other = tile_axis_new(p, "other_sum", rows);
  int row = tile_axis_new(p, "row", size), column = tile_axis_new(p, "column", size);
  tile_id a = NO_TILE, b = NO_TILE;
  axis_set axes = axis_bit(t);
  for (int i = 0; i < rows; i++)
    axes |= p->values.items[right_part(e, i / e->parts, i % e->parts)].axes;
  for (int i = 0; i < rows; i++) {
    tile_id r = expanded_to_axes(s, right_part(e, i / e->parts, i % e->parts), axes);
    tile_id row_of_a = placed_row(e, i, other);
    b = sum_or_first(s, b, placed(s, r, sum, i));
    if (row_of_a != NO_TILE) a = sum_or_first(s, a, placed(s, row_of_a, sum, i));
  }
  if (a == NO_TILE) return;
  a = joined_axis(s, joined_axis(s, a, t, sum, row), pair, other, column);
  tile_id x = tile_solve(p, a, joined_axis(s, b, t, sum, row), row, column, false);
  x = tile_regroup(p, TILE_SPLIT, x, row, t, sum);
  for (int i = 0; i < e->unknowns; i++) {
    e->right[i].re = tile_indexed(p, TILE_SLICE, x, sum, i * e->parts);
    if (e->parts == 2) e->right[i].im = tile_indexed(p, TILE_SLICE, x, sum, i * 2 + 1);
  }
}

static bool same_axes(const equations *e) {
  axis_set first = e->s->body->values.items[unknown_at(e, 0)].axes;
  for (int i = 1; i < e->unknowns; i++)
    if (e->s->body->values.items[unknown_at(e, i)].axes != first) return false;
  return true;
}

void low_rank_solve(scan *s, int group) {
  equations *e = ARENA_NEW(s->arena, equations);
  *e = (equations){.s = s, .group = group, .unknowns = s->groups[group].unknown.count};
  if (e->unknowns == 0) return;
  if (e->unknowns > UNKNOWN_MAX) scan_refuse(s, "an update has too many sums over its state");
  for (int i = 0; i < UNKNOWN_MAX; i++)
    for (int k = 0; k < UNKNOWN_MAX; k++) e->left[i][k] = pair_real(NO_TILE);
  for (int i = 0; i < e->unknowns && !s->reason; i++) add_unknown_equation(e, i);
  if (!s->reason && !same_axes(e))
    scan_refuse(s, "sums over a state in its update have different axes");
  if (s->reason) return;
  e->parts = any_complex(e) ? 2 : 1;
  if (e->unknowns * e->parts == 1)
    solve_single(e);
  else
    solve_together(e);
  for (int i = 0; i < e->unknowns; i++) {
    value_id id = unknown_at(e, i);
    if (!s->body->values.items[id].complex) e->right[i].im = NO_TILE;
    lowering_set(&s->values, id, e->right[i]);
    s->unknown[id] = false;
    s->linears[id] = NULL;
  }
}
