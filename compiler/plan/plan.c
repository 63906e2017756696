/* Planning: values of a tile program become loop nests over buffers.
 *
 *   %4 [N] = mul %2 %3          nest over N: %4, %5 live in registers, %6 is a sum that ends with the nest
 *   %5 [N] = exp %4       ->    (leaves, renames and slices cost nothing: they are index maps)
 *   %6 []  = sum %5 over N      nest over nothing: %7
 *   %7 []  = add %6 %1
 *
 * A value joins the earliest nest with the same loops in which its operands are at hand: values of earlier nests, or of
 * the same nest at the same point. What a later nest reads gets a buffer. Products over large spaces are nests of their
 * own (lower/host/products.c), and a sum `x + dot` is made by adding the product to x in place. A state is updated in place where nobody
 * reads its old value afterwards.
 */
#include <stdio.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/plan/planner.h"

/* ---- axes and buffers ---- */

static axis_set cut_axes(const mapping *m) {
  return m->instance | (m->lane_axis >= 0 ? axis_bit(m->lane_axis) : 0);
}

axis_set plan_tile_axes(const mapping *m, axis_set axes) { return axes & ~cut_axes(m); }

int64_t plan_axis_size(const mapping *m, const tile_program *program, int axis) {
  (void)m;
  return program->axes.items[axis].size;
}

bool plan_sized(const tile_program *program, axis_set axes) {
  for (int axis = 0; axis < program->axes.count; axis++) {
    if (axis_in(axes, axis) && program->axes.items[axis].size == TILE_RUNTIME_SIZE) return false;
  }
  return true;
}

bool plan_has_lane(const mapping *m, axis_set axes) {
  return m->lane_axis >= 0 && axis_in(axes, m->lane_axis);
}

/* Axes by rank, `last_axis` (if any) behind all others. */
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
    int64_t size = plan_axis_size(m, program, b.axes[i]);
    b.stride[b.axes[i]] = stride;
    if (size == TILE_RUNTIME_SIZE) {
      stride.sizes |= axis_bit(b.axes[i]);
    } else {
      stride.factor *= size;
    }
  }
  b.numbers = stride;
  return b;
}

extent plan_words(const plan_buffer *b) {
  extent words = b->numbers;
  if (number_is_narrow(b->stored)) words.factor = (words.factor + 1) / 2;
  return words;
}

bool plan_same_state(const tile_place *x, const tile_place *y) {
  return x->tensor == y->tensor && x->lag == y->lag && x->component == y->component &&
         x->transfer == y->transfer && x->source == y->source && (x->lag < 0 || x->slot == y->slot);
}

static axis_set place_axes(const tile_place *place) {
  axis_set axes = 0;
  for (int i = 0; i < place->axis_count; i++) axes |= axis_bit(place->axes[i]);
  return axes;
}

axis_set plan_own_axes(const tile_place *place) { return place_axes(place) | place->partial; }

bool plan_is_shared(const mapping *m, axis_set own) {
  return m->chunks_outside && !axis_in(own, m->shared_axis);
}

static void carry(arena *a, const mapping *m, const tile_program *program, carried_list *list,
                  const tile_place *place) {
  for (int i = 0; i < list->count; i++) {
    if (plan_same_state(&list->items[i].place, place)) return;
  }
  vec_push(a, list, (carried_value){.place = *place});
  carried_value *v = &list->items[list->count - 1];
  axis_set axes = place_axes(place);
  v->memory = plan_buffer_for(m, program, plan_tile_axes(m, axes), plan_has_lane(m, axes), -1);
  v->memory.persistent = true;
}

carried_list plan_carried(arena *a, const mapping *m, const tile_program *program, bool backward) {
  carried_list list = {0};
  tile_role read = backward ? TILE_D_NEXT_STATE : TILE_STATE,
            written = backward ? TILE_D_STATE : TILE_NEXT_STATE;
  for (int i = 0; i < program->results.count; i++) {
    if (program->results.items[i].place.role == written)
      carry(a, m, program, &list, &program->results.items[i].place);
  }
  for (int i = 0; i < program->arguments.count; i++) {
    if (program->arguments.items[i].role == read)
      carry(a, m, program, &list, &program->arguments.items[i]);
  }
  return list;
}

/* ---- what a value is ---- */

bool plan_is_inline(tile_op op) {
  switch (op) {
    case TILE_NUMBER:
    case TILE_AXIS_SIZE:
    case TILE_INDEX:
    case TILE_VALID:
    case TILE_LENGTH:
    case TILE_AT_END:
    case TILE_ARGUMENT:
    case TILE_CAUSAL:
    case TILE_STOP:
    case TILE_EXPAND:
    case TILE_RENAME:
    case TILE_SLICE:
    case TILE_PLACE:
    case TILE_SPLIT:
    case TILE_JOIN:
    case TILE_SHIFT: return true;
    default: return false;
  }
}

bool plan_at_hand(const plan *p, tile_id id) {
  return p->values[id].inlined || plan_is_inline(p->program->values.items[id].op);
}

bool plan_moves_index(tile_op op) {
  switch (op) {
    case TILE_RENAME:
    case TILE_SLICE:
    case TILE_PLACE:
    case TILE_SPLIT:
    case TILE_JOIN:
    case TILE_SHIFT: return true;
    default: return false;
  }
}

bool plan_is_reduction(tile_op op) {
  return op == TILE_SUM || op == TILE_MAX_OVER || op == TILE_MIN_OVER || op == TILE_DOT;
}

/* Step form reads tokens where they are: they are no numbers there if they take 16 bits, and a cotangent may be absent. */
static bool in_numbers(const mapping *m, const tile_program *program, const tile_place *place) {
  if (program->form == TILE_CHUNK || !place->time) return true;
  return !number_is_narrow(m->dtype) && place->role != TILE_D_OUTPUT;
}

static int64_t size_of_inner(const plan *p, const tile_value *v) {
  return p->program->axes.items[v->index3].size;
}

/* The strides of a value in a buffer, through index maps; false where memory outside lies below. */
static bool known_strides(const plan *p, tile_id id, extent *stride) {
  const tile_value *v = &p->program->values.items[id];
  if (p->values[id].held == HELD_BUFFER) {
    memcpy(stride, p->buffers.items[p->values[id].buffer].stride, PLAN_MAX_AXES * sizeof *stride);
    return true;
  }
  if (tile_arity(v->op) != 1 || !plan_is_inline(v->op)) return false;
  if (!known_strides(p, v->args[0], stride)) return false;
  switch (v->op) {
    case TILE_RENAME: stride[v->index2] = stride[v->index]; break;
    case TILE_SPLIT:
      stride[v->index2] = stride[v->index3] = stride[v->index];
      stride[v->index2].factor *= size_of_inner(p, v);
      break;
    case TILE_JOIN: stride[v->index] = stride[v->index3]; break;
    default: break;
  }
  return true;
}

/* The parts of the joined axis lie one after another. */
static bool joins_in_memory(const plan *p, const tile_value *v) {
  extent stride[PLAN_MAX_AXES];
  if (!known_strides(p, v->args[0], stride)) return false;
  extent outer = stride[v->index2], inner = stride[v->index3];
  return outer.sizes == inner.sizes && outer.factor == inner.factor * size_of_inner(p, v);
}

bool plan_viewable(const mapping *m, const plan *p, tile_id id) {
  const tile_value *v = &p->program->values.items[id];
  switch (v->op) {
    case TILE_ARGUMENT: return in_numbers(m, p->program, &p->program->arguments.items[v->index]);
    case TILE_JOIN: return plan_viewable(m, p, v->args[0]) && joins_in_memory(p, v);
    case TILE_RENAME:
    case TILE_SPLIT:
    case TILE_SLICE:
    case TILE_EXPAND:
    case TILE_STOP: return plan_viewable(m, p, v->args[0]);
    default: return p->values[id].held == HELD_BUFFER && !gpu_levels_of(m, p->program, id);
  }
}

int plan_contiguous_axis(const mapping *m, const plan *p, tile_id id) {
  const tile_program *program = p->program;
  const tile_value *v = &program->values.items[id];
  if (v->op == TILE_ARGUMENT) {
    const tile_place *place = &program->arguments.items[v->index];
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
  if (v->op == TILE_RENAME) {
    int axis = plan_contiguous_axis(m, p, v->args[0]);
    return axis == v->index ? v->index2 : axis;
  }
  if (v->op == TILE_SPLIT) {
    int axis = plan_contiguous_axis(m, p, v->args[0]);
    return axis == v->index ? v->index3 : axis;
  }
  if (v->op == TILE_JOIN) {
    int axis = plan_contiguous_axis(m, p, v->args[0]);
    return axis == v->index3 ? v->index : axis == v->index2 ? -1 : axis;
  }
  if (v->op == TILE_SLICE) {
    int axis = plan_contiguous_axis(m, p, v->args[0]);
    return axis == v->index ? -1 : axis;
  }
  if (v->op == TILE_EXPAND || v->op == TILE_STOP) return plan_contiguous_axis(m, p, v->args[0]);
  int buffer = p->values[id].buffer;
  if (buffer < 0 || !p->buffers.items[buffer].axis_count) return -1;
  const plan_buffer *b = &p->buffers.items[buffer];
  return b->axes[b->axis_count - 1];
}

/* Operands of these are read along their own loops: they must be in memory, or cost nothing. */
static bool has_own_nest(const planner *q, tile_id id) {
  switch (value(q, id)->op) {
    case TILE_PREFIX:
    case TILE_SEGMENT:
    case TILE_SEGMENT_ADJOINT:
    case TILE_SOLVE:
    case TILE_FIRST_EQUAL: return true;
    default: return plan_is_blocked_dot(q, id);
  }
}

static bool zero_above(const planner *q, const tile_value *v) {
  const plan_value *values = q->p->values;
  int t = q->program->time_axis, s = q->program->pair_axis;
  if (t < 0 || !axis_in(v->axes, t) || !axis_in(v->axes, s)) return false;
  switch (v->op) {
    case TILE_CAUSAL:
    case TILE_SEGMENT: return v->index2 == t && v->index3 == s;
    case TILE_MUL: return values[v->args[0]].zero_above || values[v->args[1]].zero_above;
    case TILE_ADD:
    case TILE_SUB: return values[v->args[0]].zero_above && values[v->args[1]].zero_above;
    case TILE_NEG:
    case TILE_DIV:
    case TILE_STOP: return values[v->args[0]].zero_above;
    case TILE_SUM: return values[v->args[0]].zero_above;
    case TILE_EXPAND: return values[v->args[0]].zero_above;
    case TILE_SELECT: {
      bool otherwise = values[v->args[2]].zero_above || tile_is_number(q->program, v->args[2], 0);
      return values[v->args[0]].zero_above && otherwise;
    }
    default: return false;
  }
}

/* Of the axes that instances, lanes and parts are cut from. What is computed of an instance's own numbers is its own. */
static axis_set own_axes(const planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  axis_set own = v->axes;
  if (v->op == TILE_ARGUMENT) own |= plan_own_axes(&q->program->arguments.items[v->index]);
  for (int k = 0; k < tile_arity(v->op); k++) own |= q->p->values[v->args[k]].own;
  return own & (cut_axes(q->m) | q->m->parts);
}

/* A value of the body that all instances along the shared axis would compute alike. A sum over runs is each instance's own. */
static bool is_shared_value(const planner *q, tile_id id) {
  return q->sections[id] == TILE_BODY && value(q, id)->op != TILE_ACCUMULATE &&
         plan_is_shared(q->m, q->p->values[id].own);
}

static region region_of(const planner *q, tile_id id) {
  if (q->sections[id] == TILE_PROLOGUE) return REGION_PROLOGUE;
  if (value(q, id)->op == TILE_ACCUMULATE) return REGION_BODY;
  if (q->sections[id] == TILE_EPILOGUE) return REGION_EPILOGUE;
  return is_shared_value(q, id) ? REGION_SHARED : REGION_BODY;
}

static void describe_values(planner *q) {
  for (tile_id id = 0; id < q->program->values.count; id++) {
    const tile_value *v = value(q, id);
    plan_value *pv = &q->p->values[id];
    *pv = (plan_value){.nest = -1, .start = -1, .buffer = -1, .copy = -1, .row_parts = -1};
    pv->into = pv->dot = pv->copied = NO_TILE;
    pv->wide = q->wide && q->wide[id];
    pv->tile = plan_tile_axes(q->m, v->axes);
    pv->lane = plan_has_lane(q->m, v->axes);
    pv->space = pv->tile;
    for (int k = 0; k < tile_arity(v->op); k++) {
      if (plan_is_reduction(v->op) || v->op == TILE_FIRST_EQUAL || v->op == TILE_SEGMENT_ADJOINT) {
        pv->space |= q->p->values[v->args[k]].tile;
      }
    }
    pv->zero_above = zero_above(q, v);
    pv->own = own_axes(q, id);
    pv->region = region_of(q, id);
  }
}

/* ---- which values, in which order ---- */

bool plan_is_steps(const planner *q) {
  return q->m->kind == MAP_LANES && q->m->kernel->program->form == TILE_STEP;
}

static void count_uses(planner *q) {
  for (int i = 0; i < q->program->results.count; i++)
    q->p->values[q->program->results.items[i].value].uses++;
  for (tile_id id = 0; id < q->program->values.count; id++) {
    if (!q->p->values[id].needed) continue;
    for (int k = 0; k < tile_arity(value(q, id)->op); k++)
      q->p->values[value(q, id)->args[k]].uses++;
  }
}

static void visit(planner *q, tile_id id) {
  if (q->visited[id]) return;
  q->visited[id] = true;
  q->p->values[id].needed = true;
  const tile_value *v = value(q, id);
  for (int k = 0; k < tile_arity(v->op); k++) visit(q, v->args[k]);
  if (!plan_at_hand(q->p, id)) q->order[q->order_count++] = id;
}

bool plan_is_carried_role(tile_role role) {
  return role == TILE_NEXT_STATE || role == TILE_D_STATE;
}

bool plan_is_wide_value(const planner *q, tile_id id) {
  const plan_value *pv = &q->p->values[id];
  return pv->lane || (pv->tile & (pv->tile - 1));
}

/* Host, steps: what every entry of the state needs comes first. Else a loop over the state could not go on with what is made
 * behind it, and the state would be read once more. `above`: values made of whole rows of the state. */
static void visit_common(planner *q, tile_id id, const bool *above, bool *seen) {
  if (seen[id]) return;
  seen[id] = true;
  const tile_value *v = value(q, id);
  for (int k = 0; k < tile_arity(v->op); k++) visit_common(q, v->args[k], above, seen);
  if (q->p->values[id].region == REGION_BODY && !above[id]) visit(q, id);
}

static void order_common_first(planner *q) {
  int count = q->program->values.count;
  bool *above = ARENA_ARRAY(q->a, bool, count), *seen = ARENA_ARRAY(q->a, bool, count);
  for (tile_id id = 0; id < count; id++) {
    const tile_value *v = value(q, id);
    above[id] = plan_is_wide_value(q, id);
    for (int k = 0; k < tile_arity(v->op); k++) above[id] = above[id] || above[v->args[k]];
  }
  for (int i = 0; i < q->program->results.count; i++)
    visit_common(q, q->program->results.items[i].value, above, seen);
}

/* Results first, states last: then a state is often updated when its old value has been read by all. */
static void order_values(planner *q) {
  int count = q->program->values.count;
  q->order = ARENA_ARRAY(q->a, tile_id, count);
  q->visited = ARENA_ARRAY(q->a, bool, count);
  if (plan_is_steps(q)) order_common_first(q);
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < q->program->results.count; i++) {
      const tile_result *r = &q->program->results.items[i];
      if (plan_is_carried_role(r->place.role) == (pass == 1)) visit(q, r->value);
    }
  }
  count_uses(q);
}

/* Tile axes that a result's memory lacks are summed here; instances and lanes are summed where it is stored. */
static void sum_extra_axes(planner *q) {
  for (int i = 0; i < q->program->results.count; i++) {
    tile_result *r = &q->program->results.items[i];
    if (r->place.role == TILE_KEEP) continue;
    axis_set extra = q->program->values.items[r->value].axes & ~place_axes(&r->place);
    if (q->program->time_axis >= 0 && r->place.time) extra &= ~axis_bit(q->program->time_axis);
    extra = plan_tile_axes(q->m, extra);
    if (!extra) continue;
    tile_value sum = {.op = TILE_SUM, .args = {r->value, NO_TILE, NO_TILE}, .over = extra};
    r->value = tile_append_exact(q->program, sum);
  }
}

/* ---- nests ---- */

int plan_new_buffer(planner *q, plan_buffer b) {
  vec_push(q->a, &q->p->buffers, b);
  return q->p->buffers.count - 1;
}

int plan_new_nest(planner *q, plan_nest nest) {
  vec_push(q->a, &q->p->nests, nest);
  return q->p->nests.count - 1;
}

/* The latest nest that `id` needs, and whether it may stand in that nest at the same point. */
typedef struct need {
  int nest;
  bool same_point; /* every need in `nest` is for the value at the same point */
} need;

static void add_need(planner *q, tile_id id, bool moved, need *n) {
  const tile_value *v = value(q, id);
  plan_value *pv = &q->p->values[id];
  if (plan_at_hand(q->p, id)) {
    for (int k = 0; k < tile_arity(v->op); k++)
      add_need(q, v->args[k], moved || plan_moves_index(v->op), n);
    return;
  }
  if (pv->nest < n->nest) return;
  bool same =
      !moved && !plan_is_reduction(v->op) && !has_own_nest(q, id) && v->op != TILE_ACCUMULATE;
  same = same && q->p->nests.items[pv->nest].axes == pv->tile && pv->dot == NO_TILE;
  if (pv->nest > n->nest) n->same_point = true;
  n->nest = pv->nest;
  n->same_point = n->same_point && same;
}

static need needs_of(planner *q, tile_id id) {
  need n = {.nest = -1, .same_point = true};
  const tile_value *v = value(q, id);
  for (int k = 0; k < tile_arity(v->op); k++) {
    if (v->args[k] != q->p->values[id].dot) add_need(q, v->args[k], false, &n);
  }
  return n;
}

static axis_set reduced_axes(const planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  return plan_is_reduction(v->op) ? plan_tile_axes(q->m, v->over) : 0;
}

/* About the instructions of a value before LLVM's passes, address computation included. */
static int index_maps_below(const planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  if (!plan_at_hand(q->p, id) || !tile_arity(v->op)) return 0;
  int count = 1;
  for (int k = 0; k < tile_arity(v->op); k++) count += index_maps_below(q, v->args[k]);
  return count;
}

static int instructions_of(const planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  int count = 12 * (1 + tile_arity(v->op)) + 2 * (int)tile_op_cost(v->op);
  for (int k = 0; k < tile_arity(v->op); k++) count += 8 * index_maps_below(q, v->args[k]);
  return count;
}

enum { MOST_INSTRUCTIONS = 1000 };

static bool nest_takes(planner *q, const plan_nest *nest, tile_id id) {
  if (nest->instructions + instructions_of(q, id) > MOST_INSTRUCTIONS) return false;
  const plan_value *pv = &q->p->values[id];
  if (nest->wide != pv->wide) return false;
  if (nest->kind != NEST_POINTS || nest->region != pv->region || nest->axes != pv->space)
    return false;
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

/* GPU: a value of many numbers joins a late nest only: made early, it would take shared memory for long. */
static int earliest_nest(const planner *q, tile_id id) {
  enum { FEW_NUMBERS = 256, LATE = 3 };
  const plan_value *pv = &q->p->values[id];
  int64_t numbers = 1;
  if (q->m->kind != MAP_BLOCK || pv->region != REGION_BODY) return 0;
  for (int axis = 0; axis < q->program->axes.count; axis++) {
    if (axis_in(pv->tile, axis)) numbers *= plan_axis_size(q->m, q->program, axis);
  }
  return numbers <= FEW_NUMBERS ? 0 : q->p->nests.count - LATE;
}

static void join_points(planner *q, tile_id id) {
  plan_value *pv = &q->p->values[id];
  need n = needs_of(q, id);
  bool lane = uses_lane(q, id);
  int from = n.nest < 0 ? 0 : n.same_point ? n.nest : n.nest + 1;
  int earliest = earliest_nest(q, id);
  if (earliest > from) from = earliest;
  for (int i = from; i < q->p->nests.count; i++) {
    plan_nest *nest = &q->p->nests.items[i];
    if (!nest_takes(q, nest, id) || nest->lane != lane) continue;
    nest->over |= reduced_axes(q, id);
    nest->instructions += instructions_of(q, id);
    vec_push(q->a, &nest->values, id);
    pv->nest = pv->start = i;
    return;
  }
  plan_nest nest = {
      .kind = NEST_POINTS, .region = pv->region, .axes = pv->space, .lane = lane, .wide = pv->wide, .pack = -1};
  nest.over = reduced_axes(q, id);
  nest.instructions = instructions_of(q, id);
  vec_push(q->a, &nest.values, id);
  pv->nest = pv->start = plan_new_nest(q, nest);
}

static nest_kind own_kind(tile_op op) {
  switch (op) {
    case TILE_PREFIX: return NEST_PREFIX;
    case TILE_SEGMENT: return NEST_SEGMENT;
    case TILE_SEGMENT_ADJOINT: return NEST_SEGMENT_ADJOINT;
    case TILE_FIRST_EQUAL: return NEST_FIRST_EQUAL;
    case TILE_SOLVE: return NEST_SOLVE;
    default: return NEST_DOT;
  }
}

void plan_force_buffer(planner *q, tile_id id, int last_axis) {
  plan_value *pv = &q->p->values[id];
  if (pv->buffer >= 0) return;
  pv->held = HELD_BUFFER;
  int levels = gpu_levels_of(q->m, q->program, id);
  axis_set axes = levels ? pv->tile & ~axis_bit(value(q, id)->index3) : pv->tile;
  plan_buffer b = plan_buffer_for(q->m, q->program, axes, pv->lane, last_axis);
  if (levels) b.numbers.factor *= levels;
  if (pv->wide) {
    b.stored = NUMBER_F64;
    b.numbers.factor *= 2;
  }
  pv->buffer = plan_new_buffer(q, b);
}

/* Memory under the operand: values behind index maps get buffers. */
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
                    .pack = -1};
  vec_push(q->a, &nest.values, id);
  if (nest.kind == NEST_DOT) {
    plan_product(q, id, &nest);
    if (pv->into != NO_TILE) {
      tile_id operand = q->p->values[pv->into].dot;
      plan_force_buffer(q, pv->into, plan_axis_in_sum(q, operand, nest.dot.j));
      bool gathered = value(q, pv->into)->op == TILE_ACCUMULATE;
      if (gathered) q->p->buffers.items[q->p->values[pv->into].buffer].persistent = true;
    } else {
      plan_force_buffer(q, id, nest.dot.j);
    }
  } else if (nest.kind == NEST_SOLVE) {
    plan_system(q, id, &nest);
    plan_force_buffer(q, id, nest.dot.j);
  } else {
    plan_force_buffer(q, id, -1);
  }
  pv->nest = pv->start = plan_new_nest(q, nest);
}

static void plan_nests(planner *q) {
  for (int i = 0; i < q->order_count; i++) plan_added_product(q, q->order[i]);
  for (region r = 0; r < REGION_COUNT; r++) {
    for (int i = 0; i < q->order_count; i++) {
      tile_id id = q->order[i];
      plan_value *pv = &q->p->values[id];
      if (pv->region != r || pv->into != NO_TILE) continue;
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
}

/* ---- results ---- */

static void plan_result(planner *q, int index) {
  tile_result *r = &q->program->results.items[index];
  plan_value *pv = &q->p->values[r->value];
  const tile_value *v = value(q, r->value);
  region where = pv->region;
  if (r->place.role == TILE_D_PARAM) {
    where = REGION_EPILOGUE;
  } else if (where == REGION_PROLOGUE) {
    where = REGION_BODY;
  }
  if (!plan_at_hand(q->p, r->value) && pv->region == where && pv->nest >= 0 && pv->dot == NO_TILE) {
    plan_nest *nest = &q->p->nests.items[pv->nest];
    if (nest->kind == NEST_POINTS && nest->axes == pv->tile && v->op != TILE_ACCUMULATE &&
        !plan_is_reduction(v->op)) {
      vec_push(q->a, &nest->results, index);
      return;
    }
  }
  plan_nest nest = {
      .kind = NEST_POINTS, .region = where, .axes = pv->tile, .lane = pv->lane, .pack = -1};
  if (!plan_at_hand(q->p, r->value) && pv->held != HELD_BUFFER && v->op != TILE_ACCUMULATE && pv->tile)
    plan_force_buffer(q, r->value, -1);
  vec_push(q->a, &nest.results, index);
  plan_new_nest(q, nest);
}

static void plan_results(planner *q) {
  for (int i = 0; i < q->program->results.count; i++) {
    if (!plan_is_carried_role(q->program->results.items[i].place.role)) plan_result(q, i);
  }
}

/* GPU: rows of a chunk are staged with zeros beyond the end, so `select valid x 0` of an argument is the argument. */
static bool is_zero_beyond(const mapping *m, const tile_program *p, const tile_value *v) {
  if (m->kind != MAP_BLOCK || v->op != TILE_SELECT || p->form != TILE_CHUNK) return false;
  const tile_value *x = &p->values.items[v->args[1]];
  return p->values.items[v->args[0]].op == TILE_VALID && tile_is_number(p, v->args[2], 0) &&
         x->op == TILE_ARGUMENT && p->arguments.items[x->index].time;
}

/* A sum over an axis that is cut into instances or lanes adds up one entry: the value is partial, keeps the axis here, and
 * is summed where it is stored. */
static tile_program *copy_program(arena *a, const mapping *m, const tile_program *whole) {
  axis_set cut = cut_axes(m);
  const tile_program *program = tile_uncut(a, whole, cut | m->parts);
  tile_program *copy = tile_program_like(a, program->name, program);
  tile_id *image = ARENA_ARRAY(a, tile_id, program->values.count);
  for (int i = 0; i < program->values.count; i++) {
    tile_value v = program->values.items[i];
    bool argument = is_zero_beyond(m, program, &v);
    for (int k = 0; k < tile_arity(v.op); k++) v.args[k] = image[v.args[k]];
    if (argument) {
      image[i] = v.args[1];
      continue;
    }
    if (v.op == TILE_SUM || v.op == TILE_DOT) v.over &= ~cut;
    if (v.op == TILE_EXPAND) v.over &= ~copy->values.items[v.args[0]].axes;
    if ((v.op == TILE_SUM || v.op == TILE_EXPAND) && !v.over) {
      image[i] = v.args[0];
      continue;
    }
    if (v.op == TILE_DOT && !v.over) v.op = TILE_MUL;
    image[i] = tile_append_exact(copy, v);
  }
  for (int i = 0; i < program->results.count; i++) {
    tile_result r = program->results.items[i];
    r.value = image[r.value];
    vec_push(a, &copy->results, r);
  }
  return copy;
}

/* Nests are made region by region, but results and packs of a region come late: bring them into order. */
static void sort_nests(planner *q) {
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

plan *plan_program(arena *a, const mapping *m, const tile_program *program,
                   const carried_list *carried) {
  planner q = {.a = a, .m = m, .carried = carried};
  q.program = plan_move_factors(a, m, copy_program(a, m, program));
  if (plan_is_steps(&q)) q.program = plan_find_products(a, m, q.program);
  tile_program *widened = m->kind == MAP_LANES && !m->f64 ? plan_widen(&q, q.program) : NULL;
  if (widened) q.program = widened;
  q.p = ARENA_NEW(a, plan);
  q.p->program = q.program;
  sum_extra_axes(&q);
  q.sections = tile_sections(a, q.program);
  q.p->values = ARENA_ARRAY(a, plan_value, q.program->values.count);
  describe_values(&q);
  if (plan_is_steps(&q)) plan_mark_gathered(&q);
  if (m->kind == MAP_BLOCK || plan_is_steps(&q)) plan_inline_cheap(&q);
  order_values(&q);
  plan_nests(&q);
  plan_results(&q);
  sort_nests(&q);
  plan_hold_values(&q);
  plan_share_sum_buffers(&q);
  plan_states(&q);
  if (m->kind == MAP_BLOCK) {
    plan_order_nests(&q);
    plan_join_nests(&q);
    plan_join_copies(&q);
    plan_keep_sums(&q);
  }
  plan_narrow_operands(m, q.p);
  if (m->kind == MAP_BLOCK) plan_keep_left(&q);
  plan_mark_groups(a, m, q.p);
  plan_part_rows(&q);
  plan_find_lives(&q);
  plan_place_buffers(&q);
  return q.p;
}

/* ---- for people ---- */

char *plan_print(arena *a, const plan *p) {
  static const char *const kinds[] = {
      "points", "pack", "dot", "solve", "prefix", "segment", "segment_adjoint", "first_equal"};
  static const char *const regions[] = {"prologue", "shared", "body", "steps", "epilogue"};
  char *text = arena_strdup(a, "");
  for (int n = 0; n < p->nests.count; n++) {
    const plan_nest *nest = &p->nests.items[n];
    text = arena_printf(a, "%s%s %s [", text, regions[nest->region], kinds[nest->kind]);
    for (int axis = 0; axis < p->program->axes.count; axis++) {
      if (axis_in(nest->axes, axis))
        text = arena_printf(a, "%s %s", text, p->program->axes.items[axis].name);
    }
    text = arena_printf(a, "%s ]%s", text, nest->lane ? " lane" : "");
    for (int i = 0; i < nest->values.count; i++) {
      tile_id id = nest->values.items[i];
      static const char *const where[] = {"", "", "=", "<", "@"};
      text = arena_printf(a, "%s %%%d%s%s", text, id, tile_op_text(p->program->values.items[id].op),
                          where[p->values[id].held]);
    }
    for (int i = 0; i < nest->results.count; i++) {
      const tile_place *place = &p->program->results.items[nest->results.items[i]].place;
      text = arena_printf(a, "%s ->%s %s", text, tile_role_text(place->role),
                          place->name ? place->name : "");
    }
    text = arena_printf(a, "%s\n", text);
  }
  return text;
}
