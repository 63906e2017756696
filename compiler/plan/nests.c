// Values become loop nests.
//
//   %4 [N] = mul %2 %3          nest over N: %4, %5 live in registers, %6 is a sum that ends with the nest
//   %5 [N] = exp %4       ->    (leaves, renames and slices cost nothing: they are index maps)
//   %6 []  = sum %5 over N      nest over nothing: %7
//   %7 []  = add %6 %1
//
// A value joins the earliest nest with the same loops in which its operands are ready. Operands are
// values of earlier nests, or of the same nest at the same point. A value that a later nest reads
// gets a buffer. Products over large spaces are nests of their own (lower/host/products.c). A sum
// `x + dot` is made by adding the product to x in place. A state is updated in place where no nest
// reads its old value afterwards. On the host, sums along time take what is made of each of their
// rows.
#include <string.h>

#include "compiler/plan/planner.h"

// ---- nests ----

// Operands of these are read along their own loops: they must be in memory, or cost nothing.
static bool has_own_nest(const planner *q, tile_id id) {
  return tile_op_is(value(q, id)->op, TILE_OWN_NEST) || plan_is_blocked_dot(q, id);
}

static bool goes_by_rows(const planner *q, const plan_nest *nest) {
  return q->m->kind == MAP_LANES && nest->kind == NEST_PREFIX;
}

// The latest nest that `id` needs, and whether it may stand in that nest at the same point.
typedef struct need {
  int nest;
  bool same_point;  // every need in `nest` is for the value at the same point
} need;

static void add_need(planner *q, tile_id id, bool moved, need *n) {
  const tile_value *v = value(q, id);
  plan_value *pv = &q->p->values[id];
  if (plan_at_hand(q->p, id)) {
    for (int k = 0; k < tile_arity(v->op); k++)
      add_need(q, v->args[k], moved || tile_op_is(v->op, TILE_MOVES_INDEX), n);
    return;
  }
  if (pv->nest < n->nest) return;
  const plan_nest *nest = &q->p->nests.items[pv->nest];
  bool same = !moved && !tile_op_is(v->op, TILE_REDUCES) && v->op != TILE_ACCUMULATE &&
              (!has_own_nest(q, id) || goes_by_rows(q, nest));
  same = same && nest->axes == pv->tile && pv->dot == NO_TILE;
  if (pv->nest > n->nest) n->same_point = true;
  n->nest = pv->nest;
  n->same_point = n->same_point && same;
}

static need value_needs(planner *q, tile_id id) {
  need n = {.nest = -1, .same_point = true};
  const tile_value *v = value(q, id);
  for (int k = 0; k < tile_arity(v->op); k++)
    if (v->args[k] != q->p->values[id].dot) add_need(q, v->args[k], false, &n);
  if (q->p->values[id].rare) add_need(q, q->p->values[id].rare, true, &n);
  return n;
}

static axis_set reduced_axes(const planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  return tile_op_is(v->op, TILE_REDUCES) ? plan_tile_axes(q->m, v->over) : 0;
}

// About the instructions of a value before LLVM's passes, address computation included.
static int index_maps_below(const planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  if (!plan_at_hand(q->p, id) || !tile_arity(v->op)) return 0;
  int count = 1;
  for (int k = 0; k < tile_arity(v->op); k++) count += index_maps_below(q, v->args[k]);
  return count;
}

static int value_instructions(const planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  int count = 12 * (1 + tile_arity(v->op)) + 2 * (int)tile_op_cost(v->op);
  for (int k = 0; k < tile_arity(v->op); k++) count += 8 * index_maps_below(q, v->args[k]);
  return count;
}

// ---- sums over a single step ----

// The steps before the end of a chunk where `id`, x or 0, is x; 0: it is no such choice.
static int chosen_at_end(const planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  if (v->op != TILE_SELECT) return 0;
  const tile_value *here = value(q, v->args[0]), *other = value(q, v->args[2]);
  bool zero = other->op == TILE_NUMBER && other->number == 0;
  return here->op == TILE_AT_END && zero ? 1 + tile_steps_before_end(here) : 0;
}

// Does a nest of its own make the value, or the prologue? Then it is in memory for other reasons.
static bool lies_in_memory(const planner *q, tile_id id) {
  while (plan_at_hand(q->p, id) && tile_arity(value(q, id)->op) == 1) id = value(q, id)->args[0];
  return value(q, id)->op == TILE_ARGUMENT || has_own_nest(q, id) ||
         q->p->values[id].region == REGION_PROLOGUE;
}

// A state after the steps of a chunk is chosen among all steps: sum over t of where(at_end, h, 0).
// Such sums and choices have nests of their own, which look at that step alone.
static void find_sums_at_end(planner *q) {
  int count = q->program->values.count, *uses = ARENA_ARRAY(q->a, int, count);
  q->at_end = ARENA_ARRAY(q->a, int, count);
  if (q->m->kind != MAP_LANES || q->program->time_axis < 0) return;
  for (tile_id id = 0; id < count; id++)
    for (int k = 0; q->p->values[id].needed && k < tile_arity(value(q, id)->op); k++)
      uses[value(q, id)->args[k]]++;
  for (int i = 0; i < q->program->results.count; i++) uses[q->program->results.items[i].value]++;
  for (tile_id id = 0; id < count; id++) {
    const tile_value *v = value(q, id);
    bool over_time = v->op == TILE_SUM && v->over == axis_bit(q->program->time_axis);
    if (!over_time || !q->p->values[id].needed || uses[v->args[0]] > 1) continue;
    int at = chosen_at_end(q, v->args[0]);
    if (at && lies_in_memory(q, value(q, v->args[0])->args[1]))
      q->at_end[id] = q->at_end[v->args[0]] = at;
  }
}

// ---- points ----

enum { MOST_INSTRUCTIONS = 1000, MOST_COST_IN_ROWS = 9 };

// May the loop of a sum along time make this value, too? A long function may not: nests of points
// compute a few vectors of it side by side.
static bool row_takes(planner *q, const plan_nest *nest, tile_id id) {
  const plan_value *first = &q->p->values[nest->values.items[0]];
  return goes_by_rows(q, nest) && first->usual == q->p->values[id].usual && !reduced_axes(q, id) &&
         value(q, id)->op != TILE_ACCUMULATE && q->p->values[id].dot == NO_TILE &&
         !q->p->values[id].wide && tile_op_cost(value(q, id)->op) <= MOST_COST_IN_ROWS;
}

static bool nest_takes(planner *q, const plan_nest *nest, tile_id id, bool of_row) {
  if (nest->instructions + value_instructions(q, id) > MOST_INSTRUCTIONS) return false;
  const plan_value *pv = &q->p->values[id];
  if (nest->wide != pv->wide || nest->rare != pv->rare || nest->at_end != q->at_end[id])
    return false;
  if (nest->kind != NEST_POINTS && !(of_row && row_takes(q, nest, id))) return false;
  if (nest->region != pv->region || nest->axes != pv->space) return false;
  axis_set over = reduced_axes(q, id);
  if (over && nest->over && over != nest->over) return false;
  return true;
}

static bool uses_lane(planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  bool lane = q->p->values[id].lane;
  for (int k = 0; k < tile_arity(v->op); k++) lane = lane || q->p->values[v->args[k]].lane;
  return lane;
}

static void join_points(planner *q, tile_id id) {
  plan_value *pv = &q->p->values[id];
  need n = value_needs(q, id);
  bool lane = uses_lane(q, id);
  int from = n.nest < 0 ? 0 : n.same_point ? n.nest : n.nest + 1;
  int earliest = q->m->kind == MAP_BLOCK ? plan_earliest_nest(q, id) : 0;
  if (earliest > from) from = earliest;
  for (int i = from; i < q->p->nests.count; i++) {
    plan_nest *nest = &q->p->nests.items[i];
    bool of_row = n.same_point && i == n.nest;
    if (!nest_takes(q, nest, id, of_row) || nest->lane != lane) continue;
    nest->over |= reduced_axes(q, id);
    nest->instructions += value_instructions(q, id);
    vec_push(q->a, &nest->values, id);
    pv->nest = pv->start = i;
    return;
  }
  plan_nest nest = {.kind = NEST_POINTS,
                    .region = pv->region,
                    .axes = pv->space,
                    .lane = lane,
                    .wide = pv->wide,
                    .at_end = q->at_end[id],
                    .rare = pv->rare,
                    .pack = -1};
  nest.over = reduced_axes(q, id);
  nest.instructions = value_instructions(q, id);
  vec_push(q->a, &nest.values, id);
  pv->nest = pv->start = plan_new_nest(q, nest);
}

static nest_kind own_kind(tile_op op) {
  switch (op) {
    case TILE_PREFIX:
    case TILE_RUNNING_PRODUCT: return NEST_PREFIX;
    case TILE_SCAN:
    case TILE_SCAN_PAIR:
    case TILE_SCAN_JOINT: return NEST_SCAN;
    case TILE_SEGMENT: return NEST_SEGMENT;
    case TILE_SEGMENT_ADJOINT: return NEST_SEGMENT_ADJOINT;
    case TILE_FIRST_MAX:
    case TILE_FIRST_MIN: return NEST_FIRST_EXTREME;
    case TILE_SOLVE: return NEST_SOLVE;
    default: return NEST_DOT;
  }
}

// Memory under the operand: values behind index maps get buffers.
static void force_memory(planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  if (!plan_at_hand(q->p, id)) {
    plan_force_buffer(q, id, -1);
    return;
  }
  for (int k = 0; k < tile_arity(v->op); k++) force_memory(q, v->args[k]);
}

static void plan_own_nest(planner *q, tile_id id) {
  plan_value *pv = &q->p->values[id];
  const tile_value *v = value(q, id);
  for (int k = 0; k < tile_arity(v->op); k++) force_memory(q, v->args[k]);
  plan_nest nest = {.kind = own_kind(v->op),
                    .region = pv->region,
                    .axes = pv->space,
                    .lane = uses_lane(q, id),
                    .rare = pv->rare,
                    .pack = -1};
  vec_push(q->a, &nest.values, id);
  if (nest.kind == NEST_DOT) {
    plan_product(q, id, &nest);
    if (pv->into != NO_TILE) {
      tile_id operand = q->p->values[pv->into].dot;
      plan_force_buffer(q, pv->into, plan_axis_in_sum(q, operand, nest.dot.j));
      plan_buffer *sum = &q->p->buffers.items[q->p->values[pv->into].buffer];
      if (value(q, pv->into)->op == TILE_ACCUMULATE) sum->persistent = sum->gathered = true;
    } else {
      plan_turn_result(q, id, &nest.dot);
      plan_force_buffer(q, id, nest.dot.pack_c < 0 ? nest.dot.j : -1);
    }
  } else if (nest.kind == NEST_SOLVE) {
    plan_system(q, id, &nest);
    plan_force_buffer(q, id, nest.dot.j);
  } else if (!goes_by_rows(q, &nest)) {
    plan_force_buffer(q, id, -1);
  }
  pv->nest = pv->start = plan_new_nest(q, nest);
}

// Rare values have nests of their own. Usual ones join others, for they are needed nearly always: a
// nest of such values alone does not run elsewhere.
static void mark_usual_nests(planner *q) {
  for (int n = 0; n < q->p->nests.count; n++) {
    plan_nest *nest = &q->p->nests.items[n];
    for (int i = 0; i < nest->values.count; i++) {
      tile_id usual = q->p->values[nest->values.items[i]].usual;
      if (i == 0) nest->usual = usual;
      if (usual != nest->usual) nest->usual = 0;
    }
    tile_id condition = nest->usual;
    if (condition && q->p->values[condition].nest >= n) nest->usual = 0;
  }
}

// Stores a product by itself that would lie across the sum to which it could be added. False: it is
// added.
static bool store_apart(planner *q, tile_id dot) {
  tile_id sum = q->p->values[dot].into;
  if (q->m->kind != MAP_LANES || plan_is_steps(q)) return false;
  for (int k = 0; k < 2; k++) force_memory(q, value(q, dot)->args[k]);
  if (!plan_is_added_across(q, dot)) return false;
  q->p->values[sum].dot = q->p->values[dot].into = NO_TILE;
  return true;
}

void plan_make_nests(planner *q) {
  find_sums_at_end(q);
  for (int i = 0; i < q->order_count; i++) plan_added_product(q, q->order[i]);
  for (region r = 0; r < REGION_COUNT; r++) {
    for (int i = 0; i < q->order_count; i++) {
      tile_id id = q->order[i];
      plan_value *pv = &q->p->values[id];
      if (pv->region != r || (pv->into != NO_TILE && !store_apart(q, id))) continue;
      if (pv->dot != NO_TILE) {
        tile_id dot = plan_product_of(q->program, pv->dot);
        const tile_value *d = value(q, dot);
        for (int k = 0; k < 2; k++) force_memory(q, d->args[k]);
        if (value(q, id)->op != TILE_ACCUMULATE) join_points(q, id);
        plan_own_nest(q, dot);
        pv->nest = q->p->values[dot].nest;
      } else if (has_own_nest(q, id)) {
        plan_own_nest(q, id);
      } else {
        join_points(q, id);
      }
    }
  }
  mark_usual_nests(q);
}

// ---- results ----

static void plan_result(planner *q, int index) {
  tile_result *r = &q->program->results.items[index];
  plan_value *pv = &q->p->values[r->value];
  const tile_value *v = value(q, r->value);
  region where = pv->region;
  if (r->place.role == TILE_D_PARAM)
    where = REGION_EPILOGUE;
  else if (where == REGION_PROLOGUE)
    where = REGION_BODY;
  if (!plan_at_hand(q->p, r->value) && pv->region == where && pv->nest >= 0 && pv->dot == NO_TILE) {
    plan_nest *nest = &q->p->nests.items[pv->nest];
    if (nest->kind == NEST_POINTS && nest->axes == pv->tile && v->op != TILE_ACCUMULATE &&
        !tile_op_is(v->op, TILE_REDUCES)) {
      vec_push(q->a, &nest->results, index);
      nest->usual = 0;
      return;
    }
  }
  plan_nest nest = {
      .kind = NEST_POINTS, .region = where, .axes = pv->tile, .lane = pv->lane, .pack = -1};
  if (!plan_at_hand(q->p, r->value) && pv->held != HELD_BUFFER && v->op != TILE_ACCUMULATE &&
      pv->tile)
    plan_force_buffer(q, r->value, -1);
  vec_push(q->a, &nest.results, index);
  plan_new_nest(q, nest);
}

void plan_make_results(planner *q) {
  for (int i = 0; i < q->program->results.count; i++)
    if (!plan_is_carried_role(q->program->results.items[i].place.role)) plan_result(q, i);
}

// Nests are made region by region, but results and packs of a region come late: bring them into
// order.
void plan_sort_nests(planner *q) {
  plan *p = q->p;
  int count = p->nests.count, next = 0;
  int *position = ARENA_ARRAY(q->a, int, count);
  plan_nest *sorted = ARENA_ARRAY(q->a, plan_nest, count);
  for (region r = 0; r < REGION_COUNT; r++) {
    for (int n = 0; n < count; n++) {
      if (p->nests.items[n].region != r) continue;
      position[n] = next;
      sorted[next++] = p->nests.items[n];
    }
  }
  if (count) memcpy(p->nests.items, sorted, (size_t)count * sizeof *sorted);
  for (int id = 0; id < q->program->values.count; id++) {
    if (p->values[id].nest < 0) continue;
    p->values[id].nest = position[p->values[id].nest];
    p->values[id].start = position[p->values[id].start];
  }
}

void plan_remove_nest(planner *q, int n) {
  plan *p = q->p;
  for (int i = n; i + 1 < p->nests.count; i++) p->nests.items[i] = p->nests.items[i + 1];
  p->nests.count--;
  for (int id = 0; id < q->program->values.count; id++) {
    plan_value *pv = &p->values[id];
    if (pv->nest > n) pv->nest--;
    if (pv->start > n) pv->start--;
  }
}
