// GPU: states that stay in the accumulator of the product that updates them, from chunk to chunk.
//
//   dot %126, added to %127 = %state * %decay       accumulator of the warps; memory has a 16-bit copy
//   dot %116 of %state                         ->   reads the copy
//
// A warp takes the same tiles of the result for every chunk. A state in memory would be read and
// written as f32 for each chunk. The products that read it would gather it element by element. A
// state that code other than products reads stays in memory.
#include "compiler/plan/planner.h"
#include "compiler/plan/tensor_cores.h"

typedef struct reader {
  const planner *q;
  tile_id sum;  // the next state
  // the sum with which its accumulator begins: the same one, or that of the first of two products
  tile_id begun;
  int argument;  // the state
} reader;

// Does `id` read the state or the next state? *moved: at another point.
static bool reads_register_state(const reader *r, tile_id id, bool *moved) {
  const tile_value *v = value(r->q, id);
  if (id == r->sum) return true;
  if (v->op == TILE_ARGUMENT) return tile_argument_number(v) == r->argument;
  bool reads = false;
  for (int k = 0; plan_at_hand(r->q->p, id) && k < tile_arity(v->op); k++) {
    if (!reads_register_state(r, v->args[k], moved)) continue;
    reads = true;
    *moved = *moved || tile_op_is(v->op, TILE_MOVES_INDEX);
  }
  return reads;
}

// A product on tensor cores reads the copy. The sum reads the state at its own point.
static bool may_read(const reader *r, tile_id user, bool moved) {
  const plan_nest *nest = &r->q->p->nests.items[r->q->p->values[user].nest];
  if (user == r->sum || user == r->begun) return !moved;
  if (nest->two && nest->other == user) return true;
  return nest->kind == NEST_DOT && nest->values.items[0] == user &&
         plan_is_mma(r->q->m, r->q->program, &nest->dot);
}

// Do products alone read the state? *shown: some do.
static bool products_alone_read(const reader *r, bool *shown) {
  const planner *q = r->q;
  for (int i = 0; i < q->order_count; i++) {
    tile_id user = q->order[i];
    const tile_value *v = value(q, user);
    for (int k = 0; k < tile_arity(v->op); k++) {
      bool moved = false;
      if (!reads_register_state(r, v->args[k], &moved)) continue;
      if (!may_read(r, user, moved)) return false;
      *shown = *shown || (user != r->sum && user != r->begun);
    }
  }
  vec_each(const tile_result, result, q->program->results) {
    bool moved = false, own = result->value == r->sum && result->place.role == TILE_NEXT_STATE;
    if (!own && reads_register_state(r, result->value, &moved)) return false;
  }
  return true;
}

// The nest whose product is added to the state; -1: there is none, or its accumulator starts from
// memory.
static int updating_nest(const planner *q, tile_id sum) {
  const plan_value *pv = &q->p->values[sum];
  if (pv->dot == NO_TILE || q->p->values[pv->dot].into != sum) return -1;
  int n = q->p->values[pv->dot].nest;
  const plan_nest *nest = &q->p->nests.items[n];
  if (nest->values.count != 2 || plan_begun_sum(q->p, nest) == NO_TILE || nest->results.count)
    return -1;
  bool whole = nest->dot.i >= 0 && pv->tile == (axis_bit(nest->dot.i) | axis_bit(nest->dot.j));
  return whole && plan_accumulator_share(q->m, q->program, &nest->dot).blocks ? n : -1;
}

// States made of each other are combined together, one element of all of them at a time.
static bool is_combined(const kernel *k, const tile_place *state) {
  // backward combines cotangents
  const tile_program *ends = k->kind == KERNEL_BACKWARD ? NULL : k->summary;
  for (int i = 0; ends && i < k->recurrence->body.tensors.count; i++)
    if (kernel_couples(ends, state->tensor, i)) return true;
  return false;
}

// Does the program make states? Forward does, and so does the recomputation of backward.
static bool makes_states(const tile_program *program) {
  for (int i = 0; i < program->results.count; i++)
    if (program->results.items[i].place.role == TILE_NEXT_STATE) return true;
  return false;
}

void plan_register_states(planner *q) {
  const kernel *k = q->m->kernel;
  bool forward = k->kind != KERNEL_STEP && makes_states(q->program);
  for (int c = 0; c < q->p->carried_count; c++) {
    carried_pair *pair = &q->p->carried[c];
    pair->accumulator = -1;
    if (!forward || !number_is_narrow(q->m->dtype)) continue;
    if (!pair->in_place || pair->argument < 0) continue;
    if (is_combined(k, &q->program->arguments.items[pair->argument])) continue;
    reader r = {
        .q = q, .sum = q->program->results.items[pair->result].value, .argument = pair->argument};
    int n = updating_nest(q, r.sum);
    if (n < 0) continue;
    r.begun = plan_begun_sum(q->p, &q->p->nests.items[n]);
    if (products_alone_read(&r, &pair->has_copy)) pair->accumulator = n;
  }
}
