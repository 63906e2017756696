// Host: the decay of a state goes into the product that is added to it.
//
//   points:  %123 = S * %122; %128 begins as %123
//   product: %127 = dot[t](v, %126), added to %128         ->   product: %128 = S * %122 + dot[t](v, %126)
//
// The product multiplies each number of the state when it loads it. So no nest loads and stores the
// whole state before it. The factor is one number for a row of the product.
#include "compiler/plan/planner.h"

static const plan_value *planned(const planner *q, tile_id id) { return &q->p->values[id]; }

tile_id plan_state_factor(const plan *p, tile_id sum) {
  const tile_value *values = p->program->values.items, *decayed = &values[values[sum].args[0]];
  int buffer = p->values[sum].buffer, c = buffer < 0 ? -1 : p->buffers.items[buffer].carried;
  if (c < 0 || !p->carried[c].in_place || decayed->op != TILE_MUL) return NO_TILE;
  for (int k = 0; k < 2; k++) {
    const tile_value *state = &values[decayed->args[k]];
    if (state->op == TILE_ARGUMENT && tile_argument_number(state) == p->carried[c].argument)
      return decayed->args[1 - k];
  }
  return NO_TILE;
}

// Is the factor one number for each row of the product, in memory, or one number for all rows?
static bool is_factor_of_rows(const planner *q, tile_id id, const plan_dot *dot) {
  const plan_value *pv = planned(q, id), *root = planned(q, plan_root(q->program, id));
  bool viewed = root->held == HELD_BUFFER && !root->wide && plan_viewable(q->m, q->p, id);
  return (viewed || pv->held == HELD_SCALAR) && !axis_in(pv->tile, dot->j) && !pv->lane;
}

// The nest whose product is added to this sum, if nest n only decays a state in place for it; -1: it
// does not.
static int decays_for(const planner *q, int n, tile_id sum) {
  const plan_nest *nest = &q->p->nests.items[n];
  const plan_value *pv = planned(q, sum);
  if (pv->dot == NO_TILE || pv->start != n || value(q, pv->dot)->op != TILE_DOT) return -1;
  const plan_nest *product = &q->p->nests.items[pv->nest];
  if (pv->nest <= n || product->values.items[0] != pv->dot || product->region != nest->region)
    return -1;
  const plan_value *decayed = planned(q, value(q, sum)->args[0]);
  if (decayed->nest != n || decayed->uses != 1) return -1;
  const plan_dot *dot = &product->dot;
  axis_set looped = plan_tile_axes(q->m, value(q, pv->dot)->over) & ~plan_inner_axes(dot);
  if (product->lane || dot->along || looped || dot->i < 0) return -1;
  tile_id factor = plan_state_factor(q->p, sum);
  return factor != NO_TILE && is_factor_of_rows(q, factor, dot) ? pv->nest : -1;
}

static void move_into(planner *q, int n, int product, tile_id sum) {
  tile_id decayed = value(q, sum)->args[0];
  plan_hold_inline(q, decayed);
  plan_take_from_nest(q, n, decayed);
  vec_push(q->a, &q->p->nests.items[product].values, sum);
  q->p->values[sum].start = product;
  plan_take_from_nest(q, n, sum);
}

void plan_decay_in_products(planner *q) {
  for (int n = q->p->nests.count - 1; n >= 0; n--) {
    const plan_nest *nest = &q->p->nests.items[n];
    if (nest->kind != NEST_POINTS || nest->lane) continue;
    for (int i = 0; i < nest->values.count; i++) {
      tile_id sum = nest->values.items[i];
      int product = decays_for(q, n, sum);
      if (product < 0) continue;
      move_into(q, n, product, sum);
      break;
    }
  }
}
