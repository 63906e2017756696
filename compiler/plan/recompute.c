// Values that are computed again at each use instead of being stored.
//
//   %34 [t,P] = mul %0 %6    read by one sum, many nests later      ->      no buffer: the sum computes it
//
// On a GPU a stored value takes shared memory, the scarcest resource of a thread block. On the
// host, single steps would write and read a matrix for each value, which takes as long as several
// multiply-adds an entry. A value is recomputed if that takes a few additions and multiplications
// of ready values, and if its readers are nests over points. Products, systems and sums along time
// read memory.
#include "compiler/plan/planner.h"

enum { MOST_USES = 2 };

static const double most_cost = 4;

typedef struct inlining {
  planner *q;
  int *uses;     // of values, index maps looked through
  bool *kept;    // read by what needs memory, a result, or of another region
  double *cost;  // of computing it at a use
} inlining;

static bool reads_memory(const planner *q, tile_id user) {
  tile_op op = value(q, user)->op;
  return tile_op_is(op, TILE_OWN_NEST) || op == TILE_ACCUMULATE || op == TILE_DOT;
}

static void note_inline_uses(inlining *n, const bool *needed) {
  planner *q = n->q;
  for (int i = 0; i < q->program->results.count; i++)
    n->kept[q->program->results.items[i].value] = true;
  for (tile_id user = q->program->values.count - 1; user >= 0; user--) {
    const tile_value *v = value(q, user);
    bool map = plan_is_inline(v->op);
    for (int k = 0; needed[user] && k < tile_arity(v->op); k++) {
      tile_id x = v->args[k];
      n->uses[x] += map ? n->uses[user] : 1;
      bool elsewhere = q->p->values[x].region != q->p->values[user].region;
      if (reads_memory(q, user) || elsewhere || (map && n->kept[user])) n->kept[x] = true;
    }
  }
}

static double cost_at(const inlining *n, tile_id id) {
  const tile_value *v = value(n->q, id);
  if (n->q->p->values[id].inlined) return n->cost[id];
  double cost = 0;
  if (!plan_is_inline(v->op)) return 0;
  for (int k = 0; k < tile_arity(v->op); k++) cost += cost_at(n, v->args[k]);
  return cost;
}

// Such a sum has memory of its own, to which the product is added.
static bool adds_product(const inlining *n, const tile_value *v) {
  for (int k = 0; (v->op == TILE_ADD || v->op == TILE_SUB) && k < 2; k++) {
    tile_id dot = plan_product_of(n->q->program, v->args[k]);
    if (dot != NO_TILE && plan_is_blocked_dot(n->q, dot)) return true;
  }
  return false;
}

static bool is_cheap_inline(inlining *n, tile_id id) {
  const tile_value *v = value(n->q, id);
  if (adds_product(n, v)) return false;
  if (plan_is_inline(v->op) || !tile_elementwise(v->op) || tile_op_cost(v->op) > 1) return false;
  if (n->kept[id] || n->uses[id] > MOST_USES || !n->q->p->values[id].tile) return false;
  if (n->q->m->kind == MAP_LANES && !plan_is_wide_value(n->q, id)) return false;
  n->cost[id] = tile_op_cost(v->op);
  for (int k = 0; k < tile_arity(v->op); k++) n->cost[id] += cost_at(n, v->args[k]);
  return n->cost[id] <= most_cost;
}

static void mark_needed_operands(const planner *q, tile_id id, bool *needed) {
  if (needed[id]) return;
  needed[id] = true;
  for (int k = 0; k < tile_arity(value(q, id)->op); k++)
    mark_needed_operands(q, value(q, id)->args[k], needed);
}

void plan_inline_cheap(planner *q) {
  int count = q->program->values.count;
  inlining n = {.q = q};
  n.uses = ARENA_ARRAY(q->a, int, count);
  n.kept = ARENA_ARRAY(q->a, bool, count);
  n.cost = ARENA_ARRAY(q->a, double, count);
  bool *needed = ARENA_ARRAY(q->a, bool, count);
  for (int i = 0; i < q->program->results.count; i++)
    mark_needed_operands(q, q->program->results.items[i].value, needed);
  note_inline_uses(&n, needed);
  for (tile_id id = 0; id < count; id++)
    if (needed[id] && is_cheap_inline(&n, id)) q->p->values[id].inlined = true;
}
