// GPU: elementwise values before and after a product join its nest; two products that are added
// share one accumulator.
//
//   points [P,N] %43 = %state * %decay              dot [P,N] %42 from %43, stored as the sum %43
//   dot [P,N] %42, added to %43              ->
//   dot [t,s] %16                                   dot [t,s] %16, %25
//   points [t,s] %25 = %16 * %decay
//   dot [t,V] %109
//   dot [t,V] %116, added to %109            ->   dot [t,V] %109 and %116, %119
//   points [t,V] %119 = %scale * their sum
//   dot [t,P] %34
//   points [t,P] %36 = %34 * %decay              dot [t,P] %34, * %decay, and %30
//   dot [t,P] %30, added to %36            ->
//   dot [K,V] %96, added to %192 = %state * %decay      dot [K,V] %96 and %151, which begin as %192
//   dot [K,V] %151, added to %193 = %192           ->
//
//   dot [t,V] %33
//   points [t,V] %74 = %33 + .., over V: %36         dot [t,V] %33, %74, %36 over V (row_sums.c)
//
// The accumulator of a product lies in registers. A warp initialises it with the value that the
// product is added to, and continues with elementwise values, sums over rows and results. If no
// other nest reads the product, the product is never stored and needs no barrier.
#include "compiler/plan/planner.h"
#include "compiler/plan/tensor_cores.h"

static bool reduces(const planner *q, const plan_nest *nest) {
  for (int i = 0; i < nest->values.count; i++)
    if (tile_op_is(value(q, nest->values.items[i])->op, TILE_REDUCES)) return true;
  return nest->over;
}

static bool at_points(const planner *q, const plan_nest *points, tile_id product) {
  return points->kind == NEST_POINTS && !points->lane &&
         points->axes == plan_tile_axes(q->m, value(q, product)->axes);
}

static bool same_points(const planner *q, const plan_nest *points, tile_id product) {
  return at_points(q, points, product) && !reduces(q, points);
}

// Do all its sums go over the columns of the product alone?
static bool sums_rows(const planner *q, const plan_nest *points, const plan_dot *dot) {
  for (int i = 0; i < points->values.count; i++) {
    const tile_value *v = value(q, points->values.items[i]);
    if (tile_op_is(v->op, TILE_REDUCES) && plan_tile_axes(q->m, v->over) != axis_bit(dot->j))
      return false;
  }
  return !(points->over & ~axis_bit(dot->j));
}

static bool is_lone_product(const planner *q, int n) {
  const plan_nest *nest = &q->p->nests.items[n];
  return nest->kind == NEST_DOT && nest->values.count == 1;
}

static tile_id under_renames(const planner *q, tile_id id) {
  while (value(q, id)->op == TILE_RENAME) id = value(q, id)->args[0];
  return id;
}

// ---- before ----

// The elements of the largest buffer that the value reads, states excepted. A later read would keep
// the buffer alive for longer.
static int64_t largest_read(const planner *q, tile_id id) {
  int buffer = q->p->values[id].buffer;
  if (!plan_at_hand(q->p, id)) return buffer < 0 ? 0 : q->p->buffers.items[buffer].numbers.factor;
  int64_t most = 0;
  for (int k = 0; k < tile_arity(value(q, id)->op); k++) {
    int64_t numbers = largest_read(q, value(q, id)->args[k]);
    if (numbers > most) most = numbers;
  }
  return most;
}

// A sum begins with what its buffer has: its first operand is there, and the nest does nothing.
static bool begins_in_place(const planner *q, int n, tile_id sum) {
  const plan_value *pv = &q->p->values[sum];
  if (pv->dot == NO_TILE || pv->start != n || pv->nest == n) return false;
  return q->p->values[plan_begins_as(q->p, sum)].buffer == pv->buffer;
}

// Does a nest between these two update a state in place whose old value the first one reads?
static bool loses_state(const planner *q, int from, int to) {
  for (int n = from + 1; n < to; n++) {
    const plan_nest *nest = &q->p->nests.items[n];
    for (int i = 0; i < nest->values.count; i++) {
      const plan_value *pv = &q->p->values[nest->values.items[i]];
      int buffer = pv->into != NO_TILE ? q->p->values[pv->into].buffer : pv->buffer;
      int c = buffer < 0 ? -1 : q->p->buffers.items[buffer].carried;
      if (c < 0 || begins_in_place(q, n, nest->values.items[i])) continue;
      tile_id state = plan_argument_value(q->p, q->p->carried[c].argument);
      if (plan_reading_by_nest(q->p, &q->p->nests.items[from], state).reads) return true;
    }
  }
  return false;
}

// The nest whose product is added to the value of nest n, which makes only the first operand of
// that sum; -1: there is none.
static int starts(const planner *q, int n) {
  const plan *p = q->p;
  const plan_nest *nest = &p->nests.items[n];
  if (nest->values.count != 1 || nest->results.count) return -1;
  tile_id sum = nest->values.items[0];
  const plan_value *pv = &p->values[sum];
  if (pv->dot == NO_TILE || p->values[pv->dot].into != sum) return -1;
  int k = p->values[pv->dot].nest;
  if (k <= n || !is_lone_product(q, k) || nest->region != p->nests.items[k].region) return -1;
  if (!same_points(q, nest, pv->dot) || loses_state(q, n, k)) return -1;
  tile_id x = plan_begins_as(p, sum);
  if (k > n + 1 && largest_read(q, x) > GPU_COST_FUSED_NUMBERS) return -1;
  return p->values[x].buffer != pv->buffer || pv->buffer < 0 ? k : -1;
}

static void join_before(planner *q, int n, int product) {
  tile_id sum = q->p->nests.items[n].values.items[0];
  vec_push(q->a, &q->p->nests.items[product].values, sum);
  plan_remove_nest(q, n);
  q->p->values[sum].start = q->p->values[sum].nest;
}

// ---- two products ----

// May the two products share an accumulator? They have the same rows and columns, and the states
// that the first reads still exist.
static bool is_two(const planner *q, int first, int n) {
  const plan_nest *nest = &q->p->nests.items[n], *other = &q->p->nests.items[first];
  tile_id x = other->values.items[0], sum = q->p->values[nest->values.items[0]].into;
  bool same =
      other->dot.i == nest->dot.i && other->dot.j == nest->dot.j && other->region == nest->region;
  same = same && q->p->values[x].tile == q->p->values[sum].tile;
  return same && plan_is_mma(q->m, q->program, &other->dot) && !loses_state(q, first, n);
}

// Does the nest make x as a product, or as the sum of what its accumulator begins with and a
// product?
static bool makes_in_accumulator(const planner *q, int n, tile_id x) {
  const plan_nest *nest = &q->p->nests.items[n];
  if (nest->kind != NEST_DOT || nest->two || nest->results.count) return false;
  if (nest->values.count == 1) return nest->values.items[0] == x && q->p->values[x].into == NO_TILE;
  return nest->values.count == 2 && plan_begun_sum(q->p, nest) == x;
}

// The nest of the product to which nest n adds its product, and which no other nest reads; -1:
// there is none. That product may be added to a sum of its own.
static int first_of_two(const planner *q, int n) {
  const plan *p = q->p;
  const plan_nest *nest = &p->nests.items[n];
  if (!is_lone_product(q, n) || !plan_is_mma(q->m, q->program, &nest->dot)) return -1;
  tile_id product = nest->values.items[0], sum = p->values[product].into;
  if (sum == NO_TILE || p->values[sum].dot != product || value(q, sum)->op == TILE_ACCUMULATE)
    return -1;
  const tile_value *v = value(q, sum);
  tile_id x = v->args[0] == product ? v->args[1] : v->args[0];
  const plan_value *xv = &p->values[x];
  if (xv->buffer < 0 || xv->uses != 1 || !begins_in_place(q, p->values[sum].start, sum)) return -1;
  int m = xv->nest;
  if (m >= n || p->nests.items[p->values[sum].start].kind != NEST_POINTS ||
      !makes_in_accumulator(q, m, x))
    return -1;
  return is_two(q, m, n) ? m : -1;
}

// The same where a factor multiplies the first product before the sum; *scaled: the value of that
// multiplication.
static int first_of_scaled(const planner *q, int n, tile_id *scaled) {
  const plan *p = q->p;
  const plan_nest *nest = &p->nests.items[n];
  if (!is_lone_product(q, n) || !plan_is_mma(q->m, q->program, &nest->dot)) return -1;
  tile_id made = nest->values.items[0], sum = p->values[made].into;
  if (sum == NO_TILE || p->values[sum].dot != made || value(q, sum)->op != TILE_ADD) return -1;
  *scaled = value(q, sum)->args[value(q, sum)->args[0] == made];
  if (value(q, *scaled)->op != TILE_MUL || p->values[*scaled].uses != 1) return -1;
  const plan_nest *start = &p->nests.items[p->values[sum].start];
  if (start->kind != NEST_POINTS || start->results.count) return -1;
  for (int i = 0; i < start->values.count; i++)
    if (start->values.items[i] != sum && start->values.items[i] != *scaled) return -1;
  for (int k = 0; k < 2; k++) {
    tile_id x = value(q, *scaled)->args[k];
    int m = p->values[x].nest;
    if (value(q, x)->op != TILE_DOT || p->values[x].uses != 1 || p->values[x].into != NO_TILE ||
        m < 0 || m >= n)
      continue;
    if (is_lone_product(q, m) && p->nests.items[m].values.items[0] == x && is_two(q, m, n))
      return m;
  }
  return -1;
}

void plan_take_from_nest(planner *q, int n, tile_id id) {
  plan_nest *nest = &q->p->nests.items[n];
  int left = 0;
  for (int i = 0; i < nest->values.count; i++)
    if (nest->values.items[i] != id) nest->values.items[left++] = nest->values.items[i];
  nest->values.count = left;
  if (!left && !nest->results.count) plan_remove_nest(q, n);
}

void plan_hold_inline(planner *q, tile_id id) {
  plan_value *pv = &q->p->values[id];
  pv->inlined = true;
  pv->held = HELD_INLINE;
  pv->buffer = pv->nest = pv->start = -1;
}

// The value is made in the accumulator of nest n alone.
static void hold_in_nest(planner *q, tile_id id, int n) {
  plan_value *pv = &q->p->values[id];
  pv->held = HELD_NEST;
  pv->buffer = -1;
  pv->nest = pv->start = n;
}

static void join_two(planner *q, int first, int n, tile_id scaled) {
  plan *p = q->p;
  plan_nest *nest = &p->nests.items[n];
  tile_id begun = plan_begun_sum(p, &p->nests.items[first]),
          sum = p->values[nest->values.items[0]].into;
  nest->two = true;
  nest->scaled = scaled;
  nest->other = p->nests.items[first].values.items[0];
  nest->other_dot = p->nests.items[first].dot;
  hold_in_nest(q, nest->other, n);
  if (begun != NO_TILE) hold_in_nest(q, begun, n);
  if (begun != NO_TILE) vec_push(q->a, &nest->values, begun);
  int start = p->values[sum].start;
  p->values[sum].start = n;
  int before = p->nests.count;
  plan_take_from_nest(q, start, sum);
  if (scaled != NO_TILE && p->nests.count == before) plan_take_from_nest(q, start, scaled);
  plan_remove_nest(q, first - (p->nests.count < before && start < first));
  if (scaled != NO_TILE) plan_hold_inline(q, scaled);
}

// ---- after ----

// The value that the nest makes: the product, or the sum that it is added to.
static tile_id made_by(const planner *q, int n) {
  tile_id product = q->p->nests.items[n].values.items[0], sum = q->p->values[product].into;
  return sum != NO_TILE ? sum : product;
}

// Is another product added in the buffer of this sum?
static bool goes_on_in_place(const planner *q, tile_id sum) {
  for (tile_id id = 0; id < q->program->values.count; id++) {
    const tile_value *v = value(q, id);
    if (q->p->values[id].dot == NO_TILE || q->p->values[id].buffer != q->p->values[sum].buffer)
      continue;
    if (v->args[0] == sum || v->args[1] == sum) return true;
  }
  return false;
}

// Is the nest a product without values or results after it?
static bool ends_with_product(const planner *q, int n) {
  const plan_nest *nest = &q->p->nests.items[n];
  if (nest->kind != NEST_DOT || nest->results.count) return false;
  return nest->values.count == 1 ||
         (nest->values.count == 2 && plan_begun_sum(q->p, nest) != NO_TILE);
}

// Are the operands of the value made before nest n, by it, or by the points?
static bool operands_are_there(const planner *q, int n, int points, tile_id id) {
  const tile_value *v = value(q, id);
  if (!plan_at_hand(q->p, id)) return q->p->values[id].nest <= n || q->p->values[id].nest == points;
  for (int k = 0; k < tile_arity(v->op); k++)
    if (!operands_are_there(q, n, points, v->args[k])) return false;
  return true;
}

// May the points be computed as early as nest n? They read no value of a later nest, and make no
// state.
static bool may_come(const planner *q, int n, int points) {
  const plan_nest *nest = &q->p->nests.items[points];
  for (int i = 0; i < nest->values.count; i++) {
    const tile_value *v = value(q, nest->values.items[i]);
    const plan_value *pv = &q->p->values[nest->values.items[i]];
    if (pv->buffer >= 0 && q->p->buffers.items[pv->buffer].carried >= 0) return false;
    for (int k = 0; k < tile_arity(v->op); k++)
      if (v->args[k] != pv->dot && !operands_are_there(q, n, points, v->args[k])) return false;
  }
  for (int i = 0; i < nest->results.count; i++)
    if (!operands_are_there(q, n, points, q->program->results.items[nest->results.items[i]].value))
      return false;
  return true;
}

static bool shares_buffer(const planner *q, tile_id id) {
  for (int other = 0; other < q->program->values.count; other++)
    if (other != id && q->p->values[other].buffer == q->p->values[id].buffer) return true;
  return false;
}

// Does a nest after this one read the value?
static bool is_read_behind(const planner *q, int n, tile_id id) {
  for (int k = n + 1; k < q->p->nests.count; k++)
    if (plan_reading_by_nest(q->p, &q->p->nests.items[k], id).reads) return true;
  return false;
}

// The nest of points that reads the product of nest n element by element, before any other nest;
// -1: there is none.
static int continuing_nest(const planner *q, int n) {
  const plan *p = q->p;
  const plan_nest *nest = &p->nests.items[n];
  tile_id id = made_by(q, n);
  const plan_value *pv = &p->values[id];
  bool added = id != nest->values.items[0] && !nest->two;
  if (added && (under_renames(q, pv->dot) != nest->values.items[0] || goes_on_in_place(q, id)))
    return -1;
  if (pv->held != HELD_BUFFER || (!added && shares_buffer(q, id))) return -1;
  if (p->buffers.items[pv->buffer].carried >= 0 || p->buffers.items[pv->buffer].persistent)
    return -1;
  vec_each(const tile_result, r, q->program->results)
    if (plan_is_carried_role(r->place.role) && plan_reading_below(p, r->value, id).reads) return -1;
  int found = -1;
  for (int k = 0; k < p->nests.count; k++) {
    plan_reading r = plan_reading_by_nest(p, &p->nests.items[k], id);
    if (!r.reads || k == n) continue;
    if (r.moved || k < n) return -1;
    found = k;
    break;
  }
  if (found < 0 || p->nests.items[found].region != nest->region) return -1;
  const plan_nest *points = &p->nests.items[found];
  if (!at_points(q, points, id) || points->instructions > GPU_COST_FUSED_WORK) return -1;
  if (!sums_rows(q, points, &nest->dot) || !axis_in(pv->tile, nest->dot.j)) return -1;
  if (nest->two && is_read_behind(q, found, id)) return -1;
  // what the product reads is lost in between, or the points overwrite it
  return loses_state(q, n, found + 1) ? -1 : found;
}

// Gives all values of nest `from` to nest `to`.
static void give_values(planner *q, int from, int to) {
  for (int id = 0; id < q->program->values.count; id++) {
    plan_value *pv = &q->p->values[id];
    if (pv->nest == from) pv->nest = to;
    if (pv->start == from) pv->start = to;
  }
  plan_remove_nest(q, from);
}

// Product and points become one nest: at the place of the product if the points may move there,
// else at theirs.
static void join_after(planner *q, int n, int points) {
  plan *p = q->p;
  tile_id id = made_by(q, n);
  plan_nest joined = p->nests.items[n];
  const plan_nest *other = &p->nests.items[points];
  bool first = joined.two || id == joined.values.items[0],
       starts = !first && joined.values.count > 1;
  joined.instructions += other->instructions;
  for (int i = 0; i < other->values.count; i++)
    vec_push(q->a, &joined.values, other->values.items[i]);
  joined.results.count = 0;
  for (int i = 0; i < other->results.count; i++)
    vec_push(q->a, &joined.results, other->results.items[i]);
  if (!is_read_behind(q, points, id)) {
    p->values[id].held = HELD_NEST;
    // else the buffer holds the other operand of the sum
    if (first || starts) p->values[id].buffer = -1;
  }
  bool comes = may_come(q, n, points);
  p->nests.items[comes ? n : points] = joined;
  comes ? give_values(q, points, n) : give_values(q, n, points);
}

void plan_join_nests(planner *q) {
  for (int n = 0; n < q->p->nests.count; n++) {
    tile_id scaled;
    int first = first_of_scaled(q, n, &scaled);
    if (first < 0) continue;
    join_two(q, first, n, scaled);
    n -= 2;
  }
  for (int n = 0; n < q->p->nests.count; n++) {
    int product = starts(q, n);
    if (product >= 0) join_before(q, n--, product);
  }
  for (int n = 0; n < q->p->nests.count; n++) {
    int first = first_of_two(q, n);
    if (first < 0) continue;
    join_two(q, first, n, NO_TILE);
    n -= 2;
  }
  for (int n = 0; n < q->p->nests.count; n++) {
    const plan_dot *dot = &q->p->nests.items[n].dot;
    if (!ends_with_product(q, n) || (dot->i >= 0 && !plan_is_mma(q->m, q->program, dot))) continue;
    int points = continuing_nest(q, n);
    if (points >= 0 && (dot->i >= 0 || !reduces(q, &q->p->nests.items[points])))
      join_after(q, n--, points);
  }
}

bool plan_reads_itself(const plan_nest *nest, int index, tile_id operand) {
  const plan_dot *dot = &nest->dot;
  bool factor = nest->kind == NEST_DOT || nest->kind == NEST_SOLVE;
  if (!factor || index || (dot->a != operand && dot->b != operand)) return true;
  return (dot->a == operand && dot->pack_a < 0) || (dot->b == operand && dot->pack_b < 0);
}

void plan_add_row_sums(planner *q) {
  vec_each(const plan_nest, nest, q->p->nests) {
    for (int i = 1; nest->kind == NEST_DOT && i < nest->values.count; i++) {
      tile_id id = nest->values.items[i];
      int64_t warps =
          tile_op_is(value(q, id)->op, TILE_REDUCES) ? plan_warps_of_row(q->m, q->p, nest) : 1;
      if (warps == 1) continue;
      plan_buffer b = plan_buffer_for(q->m, q->program, q->p->values[id].tile, false, -1);
      b.numbers.factor *= warps;
      q->p->values[id].partial_sums = plan_new_buffer(q, b);
    }
  }
}
