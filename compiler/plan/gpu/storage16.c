// GPU: a buffer that only products on tensor cores read is stored with 16 bits.
//
//   %25 [t,s] = mul %16 %24      read by dot %28 only      ->      a buffer of bf16 with --dtype bf16
//
// Tensor cores take operands of 16 bits. Rounding an operand where it is made, not where it is
// read, changes no number and halves the memory. Sums that are added to in place, solutions and
// states stay f32.
#include "compiler/plan/planner.h"
#include "compiler/plan/tensor_cores.h"

typedef struct narrowing {
  const mapping *m;
  plan *p;
  bool *wide;  // by buffer
} narrowing;

static void widen_buffer(narrowing *n, int buffer) {
  if (buffer >= 0) n->wide[buffer] = true;
}

// Marks every buffer below index maps that nest number `nest` reads for `id`, except elements that
// it has just made itself.
static void widen_below(narrowing *n, tile_id id, int nest, bool moved) {
  const tile_value *v = tile_at(n->p->program, id);
  if (n->p->values[id].nest == nest && !moved && !tile_op_is(v->op, TILE_REDUCES)) return;
  widen_buffer(n, n->p->values[id].buffer);
  if (!plan_at_hand(n->p, id)) return;
  for (int k = 0; k < tile_arity(v->op); k++)
    widen_below(n, v->args[k], nest, moved || tile_op_is(v->op, TILE_MOVES_INDEX));
}

// The kind of the value at this position of a nest: values after a product are points.
static nest_kind nest_kind_at(const plan_nest *nest, int position) {
  return nest->kind == NEST_DOT && position > 0 ? NEST_POINTS : nest->kind;
}

static bool is_written_once(const narrowing *n, tile_id id, nest_kind kind) {
  if (n->p->values[id].dot != NO_TILE) return false;
  if (kind == NEST_DOT) return n->p->values[id].into == NO_TILE;
  return kind == NEST_POINTS && tile_at(n->p->program, id)->op != TILE_ACCUMULATE;
}

static void read_nest(narrowing *n, int number) {
  const plan_nest *nest = &n->p->nests.items[number];
  for (int i = 0; i < nest->values.count; i++) {
    tile_id id = nest->values.items[i];
    const tile_value *v = tile_at(n->p->program, id);
    nest_kind kind = nest_kind_at(nest, i);
    if (!is_written_once(n, id, kind)) {
      widen_buffer(n, n->p->values[id].buffer);
      if (n->p->values[id].into != NO_TILE)
        widen_buffer(n, n->p->values[n->p->values[id].into].buffer);
    }
    for (int k = 0; kind != NEST_DOT && k < tile_arity(v->op); k++)
      widen_below(n, v->args[k], number, false);
  }
  for (int i = 0; i < nest->results.count; i++)
    widen_below(n, n->p->program->results.items[nest->results.items[i]].value, number, false);
  if (nest->two && nest->scaled != NO_TILE) widen_below(n, nest->scaled, number, false);
  if (nest->kind == NEST_PACK) widen_below(n, nest->packed, number, true);
  if (nest->kind == NEST_SOLVE) widen_buffer(n, nest->dot.pack_a);
}

static bool is_factor(const mapping *m, const plan *p, const plan_dot *dot, int argument) {
  if (!plan_is_mma(m, p->program, dot)) return false;
  tile_id id = plan_argument_value(p, argument);
  return plan_reading_below(p, dot->a, id).reads || plan_reading_below(p, dot->b, id).reads;
}

bool plan_narrows_argument(const mapping *m, const plan *p, int argument) {
  if (m->kind != MAP_BLOCK || !number_is_narrow(m->dtype)) return false;
  vec_each(const plan_nest, nest, p->nests) {
    if (nest->kind != NEST_DOT) continue;
    if (is_factor(m, p, &nest->dot, argument)) return true;
    if (nest->two && is_factor(m, p, &nest->other_dot, argument)) return true;
  }
  return false;
}

void plan_narrow_operands(planner *q) {
  const mapping *m = q->m;
  plan *p = q->p;
  if (!number_is_narrow(m->dtype)) return;
  narrowing n = {.m = m, .p = p};
  n.wide = ARENA_ARRAY(p->program->arena, bool, p->buffers.count);
  for (int i = 0; i < p->nests.count; i++) read_nest(&n, i);
  vec_each(const tile_result, r, p->program->results)
    if (plan_is_carried_role(r->place.role)) widen_below(&n, r->value, -1, true);
  for (int c = 0; c < p->carried_count; c++) widen_buffer(&n, p->carried[c].staging);
  for (int i = 0; i < p->buffers.count; i++) {
    plan_buffer *b = &p->buffers.items[i];
    if (!n.wide[i] && !b->persistent && b->carried < 0 && !b->lane && b->axis_count)
      b->stored = m->dtype;
  }
}
