// Facts about axes, places and values that all plan passes ask for; functions that add a nest or a
// buffer.
//
//   %7 [t,P] under a rename of %3      its memory is that of %3; its contiguous axis is the renamed one
#include <string.h>

#include "compiler/plan/planner.h"

// ---- axes and buffers ----

axis_set plan_cut_axes(const mapping *m) {
  return m->instance | (m->lane_axis >= 0 ? axis_bit(m->lane_axis) : 0);
}

axis_set plan_tile_axes(const mapping *m, axis_set axes) { return axes & ~plan_cut_axes(m); }

int64_t plan_axis_size(const tile_program *program, int axis) {
  return program->axes.items[axis].size;
}

bool plan_sized(const tile_program *program, axis_set axes) {
  for (int axis = 0; axis < program->axes.count; axis++)
    if (axis_in(axes, axis) && program->axes.items[axis].size == TILE_RUNTIME_SIZE) return false;
  return true;
}

int64_t plan_entries(const tile_program *program, axis_set axes) {
  if (!plan_sized(program, axes)) return -1;
  int64_t count = 1;
  for (int axis = 0; axis < program->axes.count; axis++)
    if (axis_in(axes, axis)) count *= plan_axis_size(program, axis);
  return count;
}

axis_list plan_by_rank(const mapping *m, const tile_program *program, axis_set axes) {
  axis_list list = {0};
  for (int axis = 0; axis < program->axes.count; axis++) {
    if (!axis_in(axes, axis)) continue;
    int at = list.count++;
    for (; at > 0 && m->rank[list.axes[at - 1]] > m->rank[axis]; at--)
      list.axes[at] = list.axes[at - 1];
    list.axes[at] = axis;
  }
  return list;
}

int plan_numbers_at_once(int64_t size, int64_t count, int threads) {
  int numbers = 4;
  while (numbers > 1 && (size % numbers || count / numbers < threads)) numbers /= 2;
  return numbers;
}

bool plan_has_lane(const mapping *m, axis_set axes) {
  return m->lane_axis >= 0 && axis_in(axes, m->lane_axis);
}

// Axes by rank, `last_axis` (if any) behind all others.
plan_buffer plan_buffer_for(const mapping *m, const tile_program *program, axis_set axes, bool lane,
                            int last_axis) {
  plan_buffer b = {.lane = lane, .carried = -1, .first = 0x7fffffff, .last = -1, .offset = -1};
  for (int axis = 0; axis < program->axes.count; axis++) {
    if (!axis_in(axes, axis)) continue;
    int at = b.axis_count++;
    while (at > 0 && axis != last_axis &&
           (b.axes[at - 1] == last_axis || m->rank[b.axes[at - 1]] > m->rank[axis])) {
      b.axes[at] = b.axes[at - 1];
      at--;
    }
    b.axes[at] = axis;
  }
  extent stride = {.factor = lane ? m->lanes : 1};
  for (int i = b.axis_count - 1; i >= 0; i--) {
    int64_t size = plan_axis_size(program, b.axes[i]);
    b.stride[b.axes[i]] = stride;
    if (size == TILE_RUNTIME_SIZE)
      stride.sizes |= axis_bit(b.axes[i]);
    else
      stride.factor *= size;
  }
  b.numbers = stride;
  return b;
}

extent plan_words(const plan_buffer *b) {
  extent words = b->numbers;
  if (number_is_narrow(b->stored)) words.factor = (words.factor + 1) / 2;
  return words;
}

// Products over the steps of a chunk read a column of several rows at once. Rows of whole blocks of
// banks would lie bank under bank.
extent plan_words_of_kept_row(const plan *p, const plan_buffer *b, bool in_shared) {
  enum { BETWEEN_ROWS = 4 };
  extent words = plan_words(b);
  if (in_shared && p->steps >= 0 && !words.sizes && words.factor % PLAN_BANKS == 0)
    words.factor += BETWEEN_ROWS;
  return words;
}

int plan_new_buffer(planner *q, plan_buffer b) {
  vec_push(q->a, &q->p->buffers, b);
  return q->p->buffers.count - 1;
}

int plan_new_nest(planner *q, plan_nest nest) {
  vec_push(q->a, &q->p->nests, nest);
  return q->p->nests.count - 1;
}

void plan_force_buffer(planner *q, tile_id id, int last_axis) {
  plan_value *pv = &q->p->values[id];
  if (pv->buffer >= 0) return;
  pv->held = HELD_BUFFER;
  int levels = plan_levels_of(q->m, q->program, id);
  axis_set axes = levels ? pv->tile & ~axis_bit(tile_other_step_axis(value(q, id))) : pv->tile;
  plan_buffer b = plan_buffer_for(q->m, q->program, axes, pv->lane, last_axis);
  if (levels) b.numbers.factor = levels * plan_level_apart(b.numbers.factor);
  if (pv->wide) {
    b.stored = NUMBER_F64;
    b.numbers.factor *= 2;
  }
  pv->buffer = plan_new_buffer(q, b);
}

// ---- states, and what instances have of them ----

bool plan_same_state(const tile_place *x, const tile_place *y) {
  return x->tensor == y->tensor && x->lag == y->lag && x->component == y->component &&
         x->transfer == y->transfer && x->source == y->source && (x->lag < 0 || x->slot == y->slot);
}

axis_set plan_own_axes(const tile_place *place) { return tile_body_axes(place) | place->partial; }

bool plan_is_shared(const mapping *m, axis_set own) {
  return m->chunks_outside && !axis_in(own, m->shared_axis);
}

static void carry_place(arena *a, const mapping *m, const tile_program *program, carried_list *list,
                        const tile_place *place) {
  for (int i = 0; i < list->count; i++)
    if (plan_same_state(&list->items[i].place, place)) return;
  vec_push(a, list, (carried_value){.place = *place});
  carried_value *v = &list->items[list->count - 1];
  axis_set axes = tile_body_axes(place);
  v->memory = plan_buffer_for(m, program, plan_tile_axes(m, axes), plan_has_lane(m, axes), -1);
  v->memory.persistent = true;
}

carried_list plan_carried(arena *a, const mapping *m, const tile_program *program, bool backward) {
  carried_list list = {0};
  tile_role read = backward ? TILE_D_NEXT_STATE : TILE_STATE,
            written = backward ? TILE_D_STATE : TILE_NEXT_STATE;
  for (int i = 0; i < program->results.count; i++)
    if (program->results.items[i].place.role == written)
      carry_place(a, m, program, &list, &program->results.items[i].place);
  for (int i = 0; i < program->arguments.count; i++)
    if (program->arguments.items[i].role == read)
      carry_place(a, m, program, &list, &program->arguments.items[i]);
  return list;
}

bool plan_is_carried_role(tile_role role) {
  return role == TILE_NEXT_STATE || role == TILE_D_STATE;
}

bool plan_is_steps(const planner *q) {
  return q->m->kind == MAP_LANES && q->m->kernel->program->form == TILE_STEP;
}

bool plan_gathers_steps(const planner *q) {
  return q->m->kind != MAP_THREADS && q->m->kernel->program->form == TILE_STEP;
}

axis_set plan_buffer_axes(const plan_buffer *b) {
  axis_set axes = 0;
  for (int i = 0; i < b->axis_count; i++) axes |= axis_bit(b->axes[i]);
  return axes;
}

// ---- what a value is ----

bool plan_is_inline(tile_op op) { return !tile_arity(op) || tile_op_is(op, TILE_COPIES); }

bool plan_at_hand(const plan *p, tile_id id) {
  return p->values[id].inlined || plan_is_inline(tile_at(p->program, id)->op);
}

tile_id plan_argument_value(const plan *p, int argument) {
  for (tile_id id = 0; id < p->program->values.count; id++) {
    const tile_value *v = tile_at(p->program, id);
    if (v->op == TILE_ARGUMENT && tile_argument_number(v) == argument) return id;
  }
  return NO_TILE;
}

// Operands stand before their users.
static void read_below(const plan *p, tile_id from, tile_id id, bool moved, plan_reading *r) {
  if (from < id) return;
  if (from == id) {
    r->reads = true;
    r->moved = r->moved || moved;
    return;
  }
  if (!plan_at_hand(p, from)) return;
  const tile_value *v = tile_at(p->program, from);
  for (int k = 0; k < tile_arity(v->op); k++)
    read_below(p, v->args[k], id, moved || tile_op_is(v->op, TILE_MOVES_INDEX), r);
}

plan_reading plan_reading_below(const plan *p, tile_id from, tile_id id) {
  plan_reading r = {false, false};
  read_below(p, from, id, false, &r);
  return r;
}

plan_reading plan_reading_by_nest(const plan *p, const plan_nest *nest, tile_id id) {
  plan_reading r = {false, false};
  for (int i = 0; i < nest->values.count; i++) {
    const tile_value *v = tile_at(p->program, nest->values.items[i]);
    for (int k = 0; k < tile_arity(v->op); k++) read_below(p, v->args[k], id, false, &r);
  }
  for (int k = 0; nest->two && k < 2; k++)
    read_below(p, tile_at(p->program, nest->other)->args[k], id, true, &r);
  if (nest->two && nest->scaled != NO_TILE) read_below(p, nest->scaled, id, false, &r);
  for (int i = 0; i < nest->results.count; i++)
    read_below(p, p->program->results.items[nest->results.items[i]].value, id, false, &r);
  if (nest->kind == NEST_PACK) read_below(p, nest->packed, id, true, &r);
  return r;
}

tile_id plan_begun_sum(const plan *p, const plan_nest *nest) {
  if (nest->kind != NEST_DOT || nest->values.count < 2) return NO_TILE;
  tile_id sum = p->values[nest->two ? nest->other : nest->values.items[0]].into;
  return nest->values.items[1] == sum ? sum : NO_TILE;
}

bool plan_is_wide_value(const planner *q, tile_id id) {
  const plan_value *pv = &q->p->values[id];
  return pv->lane || (pv->tile & (pv->tile - 1));
}

// ---- where a value lies ----

// Step form reads tokens where they are: they are no numbers there if they take 16 bits, and a
// cotangent may be absent.
static bool in_numbers(const mapping *m, const tile_program *program, const tile_place *place) {
  if (program->form == TILE_CHUNK || !place->time) return true;
  return !number_is_narrow(m->dtype) && place->role != TILE_D_OUTPUT;
}

static int64_t size_of_inner(const plan *p, const tile_value *v) {
  return p->program->axes.items[tile_inner_axis(v)].size;
}

// The strides of a value in a buffer, through index maps; false where memory outside lies below.
static bool known_strides(const plan *p, tile_id id, extent *stride) {
  const tile_value *v = tile_at(p->program, id);
  if (p->values[id].held == HELD_BUFFER) {
    memcpy(stride, p->buffers.items[p->values[id].buffer].stride, PLAN_MAX_AXES * sizeof *stride);
    return true;
  }
  if (tile_arity(v->op) != 1 || !plan_is_inline(v->op)) return false;
  if (!known_strides(p, v->args[0], stride)) return false;
  switch (v->op) {
    case TILE_RENAME: stride[tile_renamed_to(v)] = stride[tile_renamed_from(v)]; break;
    case TILE_SPLIT:
      stride[tile_outer_axis(v)] = stride[tile_inner_axis(v)] = stride[tile_whole_axis(v)];
      stride[tile_outer_axis(v)].factor *= size_of_inner(p, v);
      break;
    case TILE_JOIN: stride[tile_whole_axis(v)] = stride[tile_inner_axis(v)]; break;
    default: break;
  }
  return true;
}

// The parts of the joined axis lie one after another.
static bool joins_in_memory(const plan *p, const tile_value *v) {
  extent stride[PLAN_MAX_AXES];
  if (!known_strides(p, v->args[0], stride)) return false;
  extent outer = stride[tile_outer_axis(v)], inner = stride[tile_inner_axis(v)];
  return outer.sizes == inner.sizes && outer.factor == inner.factor * size_of_inner(p, v);
}

bool plan_viewable(const mapping *m, const plan *p, tile_id id) {
  const tile_value *v = tile_at(p->program, id);
  switch (v->op) {
    case TILE_ARGUMENT: return in_numbers(m, p->program, tile_place_of(p->program, v));
    case TILE_JOIN: return plan_viewable(m, p, v->args[0]) && joins_in_memory(p, v);
    case TILE_RENAME:
    case TILE_SPLIT:
    case TILE_SLICE:
    case TILE_EXPAND:
    case TILE_STOP: return plan_viewable(m, p, v->args[0]);
    default: return p->values[id].held == HELD_BUFFER && !plan_levels_of(m, p->program, id);
  }
}

int plan_contiguous_axis(const mapping *m, const plan *p, tile_id id) {
  const tile_program *program = p->program;
  const tile_value *v = tile_at(program, id);
  if (v->op == TILE_ARGUMENT) {
    const tile_place *place = tile_place_of(program, v);
    bool state =
        place->role == TILE_STATE || place->role == TILE_D_NEXT_STATE || place->role == TILE_STASH;
    if (state) {
      plan_buffer b = plan_buffer_for(m, program, plan_tile_axes(m, v->axes), false, -1);
      return b.axis_count ? b.axes[b.axis_count - 1] : -1;
    }
    bool is_complex = false;
    const typed_body *body = &m->kernel->recurrence->body;
    if (place->tensor >= 0) is_complex = body->tensors.items[place->tensor].complex;
    if (place->lag >= 0) is_complex = body->lags.items[place->lag].complex;
    return place->axis_count && !is_complex ? place->axes[place->axis_count - 1] : -1;
  }
  int below =
      plan_is_inline(v->op) && tile_arity(v->op) ? plan_contiguous_axis(m, p, v->args[0]) : -1;
  switch (v->op) {
    case TILE_RENAME: return below == tile_renamed_from(v) ? tile_renamed_to(v) : below;
    case TILE_SPLIT: return below == tile_whole_axis(v) ? tile_inner_axis(v) : below;
    case TILE_JOIN:
      return below == tile_inner_axis(v)   ? tile_whole_axis(v)
             : below == tile_outer_axis(v) ? -1
                                           : below;
    case TILE_SLICE: return below == tile_entry_axis(v) ? -1 : below;
    case TILE_EXPAND:
    case TILE_STOP: return below;
    default: break;
  }
  int buffer = p->values[id].buffer;
  if (buffer < 0 || !p->buffers.items[buffer].axis_count) return -1;
  const plan_buffer *b = &p->buffers.items[buffer];
  return b->axes[b->axis_count - 1];
}
