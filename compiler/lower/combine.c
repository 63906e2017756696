// How reductions combine two numbers, and the lanes of a vector.
#include <math.h>

#include "compiler/lower/nests.h"

double lower_identity(tile_op op) {
  return op == TILE_MAX_OVER ? -INFINITY : op == TILE_MIN_OVER ? INFINITY : 0;
}

ir lower_combine(emitter *e, tile_op op, ir x, ir y) {
  if (tile_op_is(op, TILE_PICKS))
    return expr_apply(e, op == TILE_MAX_OVER ? TILE_MAX : TILE_MIN, (ir[]){x, y});
  return real_add(e, x, y);
}

// What a sum comes to with the point at hand.
ir lower_reduced(lower *l, const place_in_loops *at, tile_id id, ir sum) {
  const tile_value *v = value(l, id);
  int lanes = ir_lanes(sum);
  ir x = spread(l->e, lower_value_at(l, at, v->args[0]), lanes);
  if (v->op != TILE_DOT) return lower_combine(l->e, v->op, sum, x);
  return real_fma(l->e, x, spread(l->e, lower_value_at(l, at, v->args[1]), lanes), sum);
}

ir lower_lanes_together(emitter *e, tile_op op, ir x) {
  if (op == TILE_SUM || op == TILE_DOT) return sum_of_lanes(e, x);
  ir all = LLVMBuildExtractElement(e->b, x, integer(e, 0), "");
  for (int i = 1; i < ir_lanes(x); i++)
    all = lower_combine(e, op, all, LLVMBuildExtractElement(e->b, x, integer(e, i), ""));
  return all;
}
