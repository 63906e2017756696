// The program as one instance sees it, the properties of its values, and the order in which values
// are made.
//
//   %6 [] = sum %5 over H      H is cut into instances: %6 is %5, and the stores of the instances add up
//   %7 [K] = mul ..            result of a place without K: the program gets %8 [] = sum %7 over K
#include "compiler/plan/planner.h"

// ---- the program ----

// GPU: rows of a chunk are staged with zeros beyond the end, so `select valid x 0` of an argument
// is the argument.
static bool is_zero_beyond(const mapping *m, const tile_program *p, const tile_value *v) {
  if (m->kind != MAP_BLOCK || v->op != TILE_SELECT || p->form != TILE_CHUNK) return false;
  const tile_value *x = &p->values.items[v->args[1]];
  return p->values.items[v->args[0]].op == TILE_VALID && tile_is_number(p, v->args[2], 0) &&
         x->op == TILE_ARGUMENT && tile_place_of(p, x)->time;
}

// A sum over an axis that is cut into instances or lanes adds up one entry. The value is partial
// and keeps the axis here; the sum is made where it is stored.
void plan_cut_program(planner *q) {
  arena *a = q->a;
  const mapping *m = q->m;
  axis_set cut = plan_cut_axes(m);
  const tile_program *program = tile_uncut(a, q->whole, cut | m->tiled);
  tile_program *copy = tile_program_like(a, program->name, program);
  tile_id *image = ARENA_ARRAY(a, tile_id, program->values.count);
  for (int i = 0; i < program->values.count; i++) {
    tile_value v = program->values.items[i];
    bool argument = is_zero_beyond(m, program, &v);
    v = tile_with_images(v, image);
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
  tile_copy_results(copy, program, image);
  q->program = copy;
}

// Tile axes that a result's memory lacks are summed here; instances and lanes are summed where it
// is stored.
void plan_sum_extra_axes(planner *q) {
  vec_each(tile_result, r, q->program->results) {
    if (r->place.role == TILE_KEEP) continue;
    axis_set extra = tile_at(q->program, r->value)->axes & ~tile_body_axes(&r->place);
    if (q->program->time_axis >= 0 && r->place.time) extra &= ~axis_bit(q->program->time_axis);
    extra = plan_tile_axes(q->m, extra);
    if (!extra) continue;
    tile_value sum = {.op = TILE_SUM, .args = {r->value, NO_TILE, NO_TILE}, .over = extra};
    r->value = tile_append_exact(q->program, sum);
  }
}

// ---- what a value is ----

static bool zero_above(const planner *q, const tile_value *v) {
  const plan_value *values = q->p->values;
  int t = q->program->time_axis, s = q->program->pair_axis;
  if (t < 0 || !axis_in(v->axes, t) || !axis_in(v->axes, s)) return false;
  switch (v->op) {
    case TILE_CAUSAL:
    case TILE_SEGMENT: return tile_step_axis(v) == t && tile_other_step_axis(v) == s;
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

// Of the axes that instances, lanes and parts are cut from. What is computed of an instance's own
// numbers is its own.
static axis_set own_axes(const planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  axis_set own = v->axes;
  if (v->op == TILE_ARGUMENT) own |= plan_own_axes(tile_place_of(q->program, v));
  for (int k = 0; k < tile_arity(v->op); k++) own |= q->p->values[v->args[k]].own;
  return own & (plan_cut_axes(q->m) | q->m->tiled);
}

// A value of the body that all instances along the shared axis would compute alike. A sum over runs
// is each instance's own.
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

// A condition is one number for the whole run.
static void mark_branches(planner *q) {
  if (q->m->kind != MAP_LANES || q->program->form != TILE_CHUNK) return;
  const tile_branch *branches = tile_branches(q->a, q->program);
  for (tile_id id = 0; id < q->program->values.count; id++) {
    plan_value *pv = &q->p->values[id];
    tile_branch b = branches[id];
    if (b.condition == NO_TILE || pv->region != REGION_BODY) continue;
    const plan_value *condition = &q->p->values[b.condition];
    if (!condition->tile && !condition->lane && condition->region == REGION_BODY)
      *(b.rare ? &pv->rare : &pv->usual) = b.condition;
  }
}

void plan_describe_values(planner *q) {
  q->p->program = q->program;
  q->sections = tile_sections(q->a, q->program);
  q->p->values = ARENA_ARRAY(q->a, plan_value, q->program->values.count);
  for (tile_id id = 0; id < q->program->values.count; id++) {
    const tile_value *v = value(q, id);
    plan_value *pv = &q->p->values[id];
    *pv = (plan_value){.nest = -1, .start = -1, .buffer = -1, .partial_sums = -1};
    pv->into = pv->dot = NO_TILE;
    pv->wide = q->wide && q->wide[id];
    pv->tile = plan_tile_axes(q->m, v->axes);
    pv->lane = plan_has_lane(q->m, v->axes);
    pv->space = pv->tile;
    bool reduces = tile_op_is(v->op, TILE_REDUCES) || v->op == TILE_SEGMENT_ADJOINT;
    for (int k = 0; reduces && k < tile_arity(v->op); k++)
      pv->space |= q->p->values[v->args[k]].tile;
    pv->zero_above = zero_above(q, v);
    pv->own = own_axes(q, id);
    pv->region = region_of(q, id);
  }
  mark_branches(q);
}

// ---- which values, in which order ----

static void count_planned_uses(planner *q) {
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
  if (q->p->values[id].rare) visit(q, q->p->values[id].rare);
  for (int k = 0; k < tile_arity(v->op); k++) visit(q, v->args[k]);
  if (!plan_at_hand(q->p, id)) q->order[q->order_count++] = id;
}

// Host, steps: what every entry of the state needs comes first. Else a loop over the state could
// not go on with what is made behind it, and the state would be read once more. `above`: values
// made of whole rows of the state.
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

// Results first, states last: then a state is often updated when its old value has been read by
// all.
void plan_order_values(planner *q) {
  int count = q->program->values.count;
  q->order = ARENA_ARRAY(q->a, tile_id, count);
  q->visited = ARENA_ARRAY(q->a, bool, count);
  if (plan_is_steps(q)) order_common_first(q);
  for (int pass = 0; pass < 2; pass++)
    vec_each(const tile_result, r, q->program->results)
      if (plan_is_carried_role(r->place.role) == (pass == 1)) visit(q, r->value);
  count_planned_uses(q);
}
