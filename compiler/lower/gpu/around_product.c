// GPU: the code around a product in its nest, while the product lies in registers.
//
//   nest of %7 = dot, %8 = mul %7 %2, %9 = sum %8 over s      at each place of %7: %8, then %9 += %8
#include "compiler/lower/gpu/nests.h"

ir gpu_between_products(lower *l, const place_in_loops *at, const plan_nest *nest, ir x) {
  lower_forget(l);
  l->memo[nest->other] = x;
  ir scaled = lower_value_at(l, at, nest->scaled);
  lower_forget(l);
  return scaled;
}

place_in_loops gpu_place_made(lower *l, const place_in_loops *at, const plan_nest *nest) {
  tile_id product = nest->values.items[0], sum = l->p->values[product].into;
  return sum == NO_TILE ? *at : lower_place_under(l, at, l->p->values[sum].dot, product);
}

// The values after the product in its nest, at a place where the product is x.
static void after_product(lower *l, const place_in_loops *place, const plan_nest *nest, ir x) {
  place_in_loops there = gpu_place_made(l, place, nest), *at = &there;
  tile_id into = l->p->values[nest->values.items[0]].into,
          made = into != NO_TILE ? into : nest->values.items[0];
  tile_id begun = plan_begun_sum(l->p, nest);
  lower_forget(l);
  lower_read_states(l, at, nest);
  l->memo[made] = x;
  lower_keep_value(l, at, made, x);
  for (int i = 1; i < nest->values.count; i++) {
    tile_id id = nest->values.items[i];
    if (id == made || id == begun) continue;
    if (!tile_op_is(value(l, id)->op, TILE_REDUCES)) {
      lower_compute(l, at, id);
      continue;
    }
    ir sum = load_real(l->e, l->row_sums[i], at->lanes);
    store_real(l->e, lower_reduced(l, at, id, sum), l->row_sums[i]);
  }
  for (int i = 0; i < nest->results.count; i++) lower_store_result(l, at, nest->results.items[i]);
  lower_forget(l);
}

// The initial value of the accumulator of the nest's product. `known`: an argument that is not in
// memory and is `kept`; -1: nothing is known.
static ir before_product(lower *l, const place_in_loops *at, tile_id sum, int known, ir kept) {
  tile_id state = plan_argument_value(l->p, known);
  lower_forget(l);
  if (state != NO_TILE) l->memo[state] = kept;
  ir start = lower_value_at(l, at, plan_begins_as(l->p, sum));
  lower_forget(l);
  return start;
}

ir gpu_first_sum(lower *l, const gpu_operands *o, const place_in_loops *at, ir kept) {
  int lanes = at->lanes && axis_in(o->c_axes, at->vector_axis) ? at->lanes : 0;
  int known = kept ? o->state : -1;
  if (o->start != NO_TILE) return spread(l->e, before_product(l, at, o->start, known, kept), lanes);
  if (o->add) return view_load(l, &o->c, at, o->c_axes);
  return real_number(l->e, 0, lanes);
}

void gpu_last_sum(lower *l, const plan_nest *nest, const gpu_operands *o, const place_in_loops *at,
                  ir x) {
  if (o->goes_on)
    after_product(l, at, nest, x);
  else if (!o->hidden)
    view_store(l, &o->c, at, o->c_axes, x);
}
