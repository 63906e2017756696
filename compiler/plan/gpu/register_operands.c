// GPU: a product whose result is the A operand (left factor) of the next product stays in registers, as P = QK' does in flash
// attention.
//
//   dot [t,s] %15, * decay: %29       a warp makes 16 rows t and all s, 16 bits each       64 x 64: 16 registers of a lane
//   dot [t,P] of %29, x over s   ->   its rows of %29 are the A operand there              no memory, no barrier for it
//   dot [s,P] of %29, dy over t       made in rows of s, its operands swapped              the same
//
// Accumulators of two tiles of 8 columns, two neighbours to a register, lie as 16 columns of an A operand do (gpu_ops.def). A
// block must have as many warps as there are blocks of 16 rows: 128 threads for chunks of 64 steps. With more warps, several
// would make the same rows. A result that other nests read is stored in memory as well.
#include "compiler/plan/planner.h"
#include "compiler/plan/tensor_cores.h"

static bool reads(const planner *q, tile_id from, tile_id id) {
  if (from == id) return true;
  const tile_value *v = value(q, from);
  for (int k = 0; plan_at_hand(q->p, from) && k < tile_arity(v->op); k++)
    if (reads(q, v->args[k], id)) return true;
  return false;
}

// Has the product no axes but its rows, its columns and the summed axis?
static bool is_plain(const planner *q, tile_id product, const plan_dot *dot) {
  axis_set own = plan_tile_axes(q->m, value(q, product)->axes | value(q, product)->over);
  return !(own & ~plan_inner_axes(dot)) && plan_is_mma(q->m, q->program, dot);
}

// May each warp own whole rows of all products of the nest? A register-resident state has another division.
static bool may_go_by_rows(const planner *q, int n) {
  const plan_nest *nest = &q->p->nests.items[n];
  if (nest->kind != NEST_DOT || nest->region != REGION_BODY || nest->wide) return false;
  for (int c = 0; c < q->p->carried_count; c++)
    if (q->p->carried[c].accumulator == n) return false;
  return is_plain(q, nest->values.items[0], &nest->dot) && (!nest->two || is_plain(q, nest->other, &nest->other_dot));
}

// ---- the product that makes the operand ----

// Is the value made at each element of the product, and stored once?
static bool is_made_at_points(const planner *q, const plan_nest *nest, int index) {
  tile_id id = nest->values.items[index];
  const plan_value *pv = &q->p->values[id];
  if ((index && tile_op_is(value(q, id)->op, TILE_REDUCES)) || pv->into != NO_TILE || pv->dot != NO_TILE) return false;
  if (pv->held == HELD_BUFFER && q->p->buffers.items[pv->buffer].carried >= 0) return false;
  return pv->tile == (axis_bit(nest->dot.i) | axis_bit(nest->dot.j)) && (pv->held == HELD_BUFFER || pv->copy >= 0);
}

static void turn_dot(plan_dot *dot) {
  *dot =
      (plan_dot){.a = dot->b, .b = dot->a, .pack_a = dot->pack_b, .pack_b = dot->pack_a, .i = dot->j, .j = dot->i, .k = dot->k};
}

// May the product swap its operands, so that rows become columns? Sums over rows and results do not allow it.
static bool may_turn(const planner *q, const plan_nest *nest) {
  if (nest->results.count || nest->dot.register_a || (nest->two && nest->other_dot.register_a)) return false;
  for (int i = 0; i < nest->values.count; i++) {
    tile_id id = nest->values.items[i];
    if ((i && tile_op_is(value(q, id)->op, TILE_REDUCES)) || q->p->values[id].into != NO_TILE) return false;
  }
  return true;
}

// ---- the products that read it ----

static bool takes(const planner *q, const plan_dot *dot, const plan_dot *made, tile_id id) {
  if (dot->a != id || reads(q, dot->b, id) || dot->i != made->i || dot->k != made->j) return false;
  return dot->pack_a < 0 || dot->pack_a == q->p->values[id].copy;
}

// The number of products that can read the value from registers; `mark`: they do so from now on.
static int takers(const planner *q, int n, const plan_dot *made, tile_id id, bool mark) {
  int count = 0;
  for (int k = n + 1; k < q->p->nests.count; k++) {
    plan_nest *nest = &q->p->nests.items[k];
    if (!may_go_by_rows(q, k)) continue;
    plan_dot *dots[] = {&nest->dot, &nest->other_dot};
    for (int i = 0; i <= nest->two; i++) {
      if (!takes(q, dots[i], made, id)) continue;
      count++;
      dots[i]->register_a = dots[i]->register_a || mark;
      if (mark) dots[i]->pack_a = -1;
    }
  }
  return count;
}

// ---- the choice ----

typedef struct choice {
  int count;
  tile_id id;
  bool turned;
} choice;

static choice best_choice(const planner *q, int n) {
  const plan_nest *nest = &q->p->nests.items[n];
  choice best = {0};
  for (int turned = 0; turned < 2; turned++) {
    plan_dot made = nest->dot;
    if (turned) turn_dot(&made);
    if (!plan_gives_rows_to_warps(q->m, q->program, &made) || (turned && !may_turn(q, nest))) continue;
    for (int i = 0; i < nest->values.count; i++) {
      if (!is_made_at_points(q, nest, i)) continue;
      choice c = {takers(q, n, &made, nest->values.items[i], false), nest->values.items[i], turned};
      if (c.count > best.count) best = c;
    }
  }
  return best;
}

static bool is_read_as_copy(const planner *q, int buffer) {
  for (int n = 0; n < q->p->nests.count; n++) {
    const plan_nest *nest = &q->p->nests.items[n];
    if (nest->kind != NEST_DOT && nest->kind != NEST_SOLVE) continue;
    if (nest->dot.pack_a == buffer || nest->dot.pack_b == buffer) return true;
    if (nest->two && (nest->other_dot.pack_a == buffer || nest->other_dot.pack_b == buffer)) return true;
  }
  return false;
}

static void keep(planner *q, int n, choice c) {
  plan_nest *nest = &q->p->nests.items[n];
  plan_value *pv = &q->p->values[c.id];
  if (c.turned) {
    turn_dot(&nest->dot);
    if (nest->two) turn_dot(&nest->other_dot);
  }
  takers(q, n, &nest->dot, c.id, true);
  pv->register_a = true;
  q->p->register_operands++;
  if (pv->copy >= 0 && !is_read_as_copy(q, pv->copy)) pv->copy = -1;
  if (pv->held == HELD_BUFFER && plan_is_read_behind(q, n, c.id)) return;
  pv->held = HELD_WARPS;
  pv->buffer = -1;
}

void plan_register_operands(planner *q) {
  if (!number_is_narrow(q->m->dtype)) return;
  for (int n = 0; n < q->p->nests.count; n++) {
    if (!may_go_by_rows(q, n)) continue;
    choice c = best_choice(q, n);
    if (c.count) keep(q, n, c);
  }
}
