// Where the values of a plan are held: in registers, variables or buffers; states in place; buffers
// in scratch.
//
//   %6 read by a later nest     ->   buffer, alive from its nest to the last reader; later buffers take its place
//   S' = a * S + ..             ->   the memory of S, if no nest reads the old S afterwards
#include <string.h>

#include "compiler/plan/first_fit.h"
#include "compiler/plan/planner.h"

// ---- where values are held ----

static void note_value_use(planner *q, tile_id id, int nest, bool moved) {
  const tile_value *v = value(q, id);
  plan_value *pv = &q->p->values[id];
  if (plan_at_hand(q->p, id)) {
    for (int k = 0; k < tile_arity(v->op); k++)
      note_value_use(q, v->args[k], nest, moved || tile_op_is(v->op, TILE_MOVES_INDEX));
    return;
  }
  if (pv->nest == nest && !moved && !tile_op_is(v->op, TILE_REDUCES)) return;
  if (!pv->tile) {
    if (pv->held != HELD_BUFFER) pv->held = HELD_SCALAR;
  } else {
    plan_force_buffer(q, id, -1);
  }
}

void plan_hold_values(planner *q) {
  for (int i = 0; i < q->order_count; i++) {
    plan_value *pv = &q->p->values[q->order[i]];
    tile_op op = value(q, q->order[i])->op;
    if (pv->into != NO_TILE) continue;
    if (op == TILE_ACCUMULATE) {
      // Its buffer may be there already, where a product reads it.
      plan_force_buffer(q, q->order[i], -1);
      q->p->buffers.items[pv->buffer].persistent = true;
    } else if (pv->held != HELD_BUFFER) {
      pv->held = HELD_NEST;
      if (tile_op_is(op, TILE_REDUCES) && pv->tile) plan_force_buffer(q, q->order[i], -1);
      if (tile_op_is(op, TILE_REDUCES) && !pv->tile) pv->held = HELD_SCALAR;
    }
  }
  for (int i = 0; i < q->order_count; i++) {
    tile_id id = q->order[i];
    const tile_value *v = value(q, id);
    const plan_value *pv = &q->p->values[id];
    for (int k = 0; k < tile_arity(v->op); k++)
      if (v->args[k] != pv->dot) note_value_use(q, v->args[k], pv->start, false);
  }
  for (int n = 0; n < q->p->nests.count; n++) {
    const plan_nest *nest = &q->p->nests.items[n];
    for (int i = 0; i < nest->results.count; i++)
      note_value_use(q, q->program->results.items[nest->results.items[i]].value, n, false);
    if (nest->kind == NEST_PACK) note_value_use(q, nest->packed, n, false);
    if (nest->rare) note_value_use(q, nest->rare, n, false);
    if (nest->usual) note_value_use(q, nest->usual, n, false);
  }
  vec_each(const tile_result, r, q->program->results)
    if (plan_is_carried_role(r->place.role)) note_value_use(q, r->value, -1, false);
}

// ---- states in place ----

// The nest that starts to overwrite the memory of `id`: a chain of sums in place begins with its
// first operand.
static int writing_nest(planner *q, tile_id id) {
  int buffer = q->p->values[id].buffer;
  for (int n = 0; n < q->p->nests.count; n++) {
    const plan_nest *nest = &q->p->nests.items[n];
    for (int i = 0; i < nest->values.count; i++) {
      const plan_value *pv = &q->p->values[nest->values.items[i]];
      if (pv->held == HELD_BUFFER && pv->buffer == buffer) return n;
    }
  }
  return -1;
}

static bool may_update_in_place(planner *q, const carried_pair *pair) {
  tile_id id = q->program->results.items[pair->result].value;
  const plan_value *pv = &q->p->values[id];
  if (plan_at_hand(q->p, id) || pv->held != HELD_BUFFER || pv->region != REGION_BODY) return false;
  const plan_buffer *b = &q->p->buffers.items[pv->buffer];
  if (b->carried >= 0 || b->persistent || b->kept) return false;
  int written = writing_nest(q, id);
  if (written < 0) return false;
  const plan_nest *w = &q->p->nests.items[written];
  bool points =
      w->kind == NEST_POINTS && !tile_op_is(value(q, id)->op, TILE_REDUCES) && w->axes == pv->tile;
  tile_id state = plan_argument_value(q->p, pair->argument);
  for (int n = written; n < q->p->nests.count; n++) {
    plan_reading r = plan_reading_by_nest(q->p, &q->p->nests.items[n], state);
    if (r.reads && (n > written || !points || r.moved)) return false;
  }
  // other states' next values that are only an index map of this state are read after all nests
  vec_each(const tile_result, r, q->program->results)
    if (plan_is_carried_role(r->place.role) && plan_reading_below(q->p, r->value, state).reads)
      return false;
  return true;
}

static bool update_in_place(planner *q, int c) {
  plan *p = q->p;
  const carried_pair *pair = &p->carried[c];
  if (!may_update_in_place(q, pair)) return false;
  plan_buffer *b =
      &p->buffers.items[p->values[q->program->results.items[pair->result].value].buffer];
  const plan_buffer *memory = &q->carried->items[c].memory;
  if (memcmp(b->stride, memory->stride, sizeof b->stride)) return false;
  b->carried = c;
  return true;
}

int plan_copied_buffer(const plan *p, tile_id id) {
  while (plan_at_hand(p, id) && tile_at(p->program, id)->op == TILE_RENAME)
    id = tile_at(p->program, id)->args[0];
  return p->values[id].held == HELD_BUFFER ? p->values[id].buffer : -1;
}

void plan_states(planner *q) {
  plan *p = q->p;
  p->carried_count = q->carried->count;
  p->carried = ARENA_ARRAY(q->a, carried_pair, q->carried->count);
  for (int c = 0; c < q->carried->count; c++) {
    carried_pair *pair = &p->carried[c];
    *pair = (carried_pair){.argument = -1, .result = -1, .accumulator = -1, .staging = -1};
    for (int i = 0; i < q->program->arguments.count; i++) {
      const tile_place *place = &q->program->arguments.items[i];
      bool carried = place->role == TILE_STATE || place->role == TILE_D_NEXT_STATE;
      bool backward = q->carried->items[c].place.role == TILE_D_STATE ||
                      q->carried->items[c].place.role == TILE_D_NEXT_STATE;
      if (carried && (place->role == TILE_D_NEXT_STATE) == backward &&
          plan_same_state(place, &q->carried->items[c].place)) {
        pair->argument = i;
      }
    }
    for (int i = 0; i < q->program->results.count; i++) {
      const tile_place *place = &q->program->results.items[i].place;
      if (plan_is_carried_role(place->role) && plan_same_state(place, &q->carried->items[c].place))
        pair->result = i;
    }
    if (pair->result < 0) continue;
    pair->in_place = update_in_place(q, c);
    if (pair->in_place || plan_copied_buffer(p, q->program->results.items[pair->result].value) >= 0)
      continue;
    plan_buffer staging = q->carried->items[c].memory;
    staging.persistent = false;
    pair->staging = plan_new_buffer(q, staging);
  }
}

// A sum whose first operand is itself such a sum, used nowhere else, shares the memory: the whole
// chain adds in place.
void plan_share_sum_buffers(planner *q) {
  for (int i = q->order_count - 1; i >= 0; i--) {
    const plan_value *pv = &q->p->values[q->order[i]];
    if (pv->dot == NO_TILE || value(q, q->order[i])->op == TILE_ACCUMULATE) continue;
    tile_id x = plan_begins_as(q->p, q->order[i]);
    plan_value *xv = &q->p->values[x];
    bool product = xv->dot != NO_TILE || (plan_is_blocked_dot(q, x) && xv->into == NO_TILE);
    if (xv->uses == 1 && product && xv->tile == pv->tile && xv->region == pv->region &&
        xv->rare == pv->rare &&
        !memcmp(q->p->buffers.items[xv->buffer].stride, q->p->buffers.items[pv->buffer].stride,
                sizeof q->p->buffers.items[0].stride)) {
      xv->buffer = pv->buffer;
    }
  }
}

// ---- memory ----

static void note_life(plan *p, int buffer, int nest) {
  plan_buffer *b = &p->buffers.items[buffer];
  if (nest < b->first) b->first = nest;
  if (nest > b->last) b->last = nest;
}

static void note_argument_read(plan_value *argument, int nest) {
  if (argument->last_read < 0) argument->first_read = nest;
  argument->last_read = nest;
}

static void live_operand(planner *q, tile_id id, int nest) {
  const tile_value *v = value(q, id);
  if (v->op == TILE_ARGUMENT) note_argument_read(&q->p->values[id], nest);
  if (plan_at_hand(q->p, id)) {
    for (int k = 0; k < tile_arity(v->op); k++) live_operand(q, v->args[k], nest);
    return;
  }
  if (q->p->values[id].buffer >= 0) note_life(q->p, q->p->values[id].buffer, nest);
}

void plan_find_lives(planner *q) {
  plan *p = q->p;
  int end = p->nests.count;
  for (int i = 0; i < q->program->values.count; i++) p->values[i].last_read = -1;
  for (int n = 0; n < end; n++) {
    const plan_nest *nest = &p->nests.items[n];
    for (int i = 0; i < nest->values.count; i++) {
      tile_id id = nest->values.items[i];
      live_operand(q, id, n);
      if (p->values[id].partial_sums >= 0) note_life(p, p->values[id].partial_sums, n);
      if (p->values[id].into != NO_TILE) live_operand(q, p->values[id].into, n);
      for (int k = 0; k < tile_arity(value(q, id)->op); k++)
        if (plan_reads_itself(nest, i, value(q, id)->args[k]))
          live_operand(q, value(q, id)->args[k], n);
    }
    const plan_nest other = {.kind = NEST_DOT, .dot = nest->other_dot};
    for (int k = 0; nest->two && k < 2; k++) {
      tile_id factor = value(q, nest->other)->args[k];
      if (plan_reads_itself(&other, 0, factor)) live_operand(q, factor, n);
    }
    if (nest->two && nest->scaled != NO_TILE) live_operand(q, nest->scaled, n);
    for (int i = 0; i < nest->results.count; i++)
      live_operand(q, q->program->results.items[nest->results.items[i]].value, n);
    if (nest->kind == NEST_PACK) live_operand(q, nest->packed, n);
    if (nest->rare) live_operand(q, nest->rare, n);
    if (nest->usual) live_operand(q, nest->usual, n);
    if (nest->pack >= 0 && nest->kind == NEST_PACK) note_life(p, nest->pack, n);
    if (nest->kind != NEST_DOT && nest->kind != NEST_SOLVE) continue;
    if (nest->dot.pack_a >= 0) note_life(p, nest->dot.pack_a, n);
    if (nest->dot.pack_b >= 0) note_life(p, nest->dot.pack_b, n);
    if (nest->dot.pack_c >= 0) note_life(p, nest->dot.pack_c, n);
    if (nest->two && nest->other_dot.pack_a >= 0) note_life(p, nest->other_dot.pack_a, n);
    if (nest->two && nest->other_dot.pack_b >= 0) note_life(p, nest->other_dot.pack_b, n);
  }
  vec_each(const tile_result, r, q->program->results)
    if (plan_is_carried_role(r->place.role)) live_operand(q, r->value, end);
  for (int c = 0; c < p->carried_count; c++)
    if (p->carried[c].staging >= 0) note_life(p, p->carried[c].staging, end);
  // what the prologue or a shared region made is read in every later run
  for (int n = 0; n < end; n++) {
    const plan_nest *nest = &p->nests.items[n];
    if (nest->region != REGION_PROLOGUE && nest->region != REGION_SHARED) continue;
    if (nest->kind == NEST_PACK) note_life(p, nest->pack, end);
    for (int i = 0; i < nest->values.count; i++)
      if (p->values[nest->values.items[i]].buffer >= 0)
        note_life(p, p->values[nest->values.items[i]].buffer, end);
  }
}

// The part of scratch for buffers whose size depends on these run-time sizes.
static extent *scratch_part(planner *q, axis_set sizes) {
  for (int i = 0; i < q->p->scratch.count; i++)
    if (q->p->scratch.items[i].sizes == sizes) return &q->p->scratch.items[i];
  vec_push(q->a, &q->p->scratch, ((extent){.sizes = sizes}));
  return &q->p->scratch.items[q->p->scratch.count - 1];
}

static bool fits_stack(const planner *q, const plan_buffer *b) {
  return !q->m->chunks_outside && b->lane && !b->numbers.sizes &&
         b->numbers.factor / q->m->width <= PLAN_STACK_VECTORS;
}

static bool needs_place(const plan_buffer *b) {
  return b->last >= 0 && b->carried < 0 && !b->persistent && !b->kept && !b->stack;
}

// Behind the buffers that live at the same time, whole cache lines where the size is known.
static void place_buffer(planner *q, plan_buffer *b, placed_list *placed_so_far) {
  int64_t line = b->numbers.sizes ? 1 : 16, end;
  int next = 0;
  b->offset = 0;
  while ((end = first_fit_end(placed_so_far, &next, b->offset, b->numbers.factor, b->first,
                              b->last)) >= 0)
    b->offset = (end + line - 1) / line * line;
  end = b->offset + b->numbers.factor;
  first_fit_add(q->a, placed_so_far, (placed){b->offset, end, b->first, b->last});
  extent *scratch = scratch_part(q, b->numbers.sizes);
  if (end > scratch->factor) scratch->factor = end;
}

static void place_buffers_of(planner *q, axis_set sizes) {
  placed_list placed_so_far = {0};
  vec_each(plan_buffer, b, q->p->buffers)
    if (needs_place(b) && b->numbers.sizes == sizes) place_buffer(q, b, &placed_so_far);
}

void plan_place_buffers(planner *q) {
  vec_each(plan_buffer, b, q->p->buffers)
    if (b->last >= 0 && b->carried < 0 && !b->kept) b->stack = fits_stack(q, b);
  vec_each(const plan_buffer, b, q->p->buffers)
    if (needs_place(b) && b->offset < 0) place_buffers_of(q, b->numbers.sizes);
}
