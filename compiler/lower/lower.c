// Lowering of regions and of nests: the plan says what they compute, the target's table
// (nest_target.h) how.
#include "compiler/emit/marks.h"
#include "compiler/lower/nest_target.h"

// The value that a nest is there for: the last; or NO_TILE.
static tile_id purpose_of(const lower *l, const plan_nest *nest) {
  if (nest->kind == NEST_PACK) return nest->packed;
  if (nest->values.count) return nest->values.items[nest->values.count - 1];
  return nest->results.count ? l->p->program->results.items[nest->results.items[0]].value : NO_TILE;
}

// For code that is counted: what the plan says about the nest.
static void mark_nest(lower *l, const plan_nest *nest) {
  if (!l->e->m->marks) return;
  int n = (int)(nest - l->p->nests.items);
  tile_id purpose = purpose_of(l, nest);
  span where = purpose == NO_TILE ? (span){0} : value(l, purpose)->where;
  mark_place(
      l->e,
      arena_printf(l->e->a, "%s %s", l->p->program->name, plan_print_nest(l->e->a, l->m, l->p, n)),
      where);
}

// False: all that a nest of points computes has its place already.
static bool has_work(const lower *l, const plan_nest *nest) {
  if (nest->results.count) return true;
  for (int i = 0; i < nest->values.count; i++) {
    tile_id id = nest->values.items[i];
    const plan_value *pv = &l->p->values[id];
    if (pv->dot == NO_TILE) return true;
    tile_id x = plan_begins_as(l->p, id);
    if (l->p->values[x].buffer != pv->buffer) return true;
  }
  return false;
}

// Values in f64: as if the program were of that type, but for what is read from memory.
static void lower_wide(lower *l, const plan_nest *nest) {
  emitter *e = l->e, wide = emit_wide(e);
  l->e = &wide;
  l->target->nests[nest->kind](l, nest);
  l->e = e;
}

static void lower_kind(lower *l, const plan_nest *nest) {
  bool points = nest->kind == NEST_POINTS;
  if (points && !has_work(l, nest)) return;
  points && nest->wide ? lower_wide(l, nest) : l->target->nests[nest->kind](l, nest);
}

static void lower_always(lower *l, const plan_nest *nest) {
  mark_nest(l, nest);
  if (l->target->around)
    l->target->around(l, nest, lower_kind);
  else
    lower_kind(l, nest);
}

// The condition that a nest of points asks at each point, though it is one number that has been made
// before; 0: there is none.
static tile_id condition_of(const lower *l, const plan_nest *nest) {
  int n = (int)(nest - l->p->nests.items);
  for (int i = 0; i < nest->values.count && nest->kind == NEST_POINTS; i++) {
    const tile_value *v = value(l, nest->values.items[i]);
    const plan_value *asked = &l->p->values[v->args[0]];
    if (v->op != TILE_SELDOM || asked->held != HELD_SCALAR || asked->lane) continue;
    if (asked->nest != n) return v->args[0];
  }
  return 0;
}

static void lower_branch(lower *l, const plan_nest *nest, int operand) {
  l->branch = operand;
  lower_always(l, nest);
}

// Asks once for the whole nest, which may have work in both branches or in one.
static void lower_by_branch(lower *l, const plan_nest *nest, tile_id condition) {
  emitter *e = l->e;
  place_in_loops at = lower_start_place(l, false);
  lower_forget(l);
  ir number = lower_value_at(l, &at, condition);
  lower_forget(l);
  l->condition = condition;
  ir taken = real_compare(e, LLVMRealUNE, number, real_number(e, 0, 0));
  emit_branch branch = branch_begin(e, taken);
  if (!nest->usual) lower_branch(l, nest, 1);
  branch_else(e, &branch);
  if (!nest->rare) lower_branch(l, nest, 2);
  branch_end(e, &branch);
  l->condition = 0;
}

void lower_nest(lower *l, const plan_nest *nest) {
  tile_id purpose = purpose_of(l, nest);
  if (purpose != NO_TILE) lower_line(l, purpose);
  tile_id asked = nest->rare ? nest->rare : nest->usual ? nest->usual : condition_of(l, nest);
  asked ? lower_by_branch(l, nest, asked) : lower_always(l, nest);
}

static nest_range region_nests(const plan *p, region r) {
  nest_range range = {.region = r, .first = 0, .last = p->nests.count - 1};
  while (range.first <= range.last && p->nests.items[range.first].region != r) range.first++;
  while (range.last >= range.first && p->nests.items[range.last].region != r) range.last--;
  return range;
}

void lower_region(lower *l, region r) {
  l->target->region(l, region_nests(l->p, r));
  mark_place(l->e, "around nests", (span){0});
  lines_at(l->e, l->e->where);
}
