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
    const tile_value *v = value(l, id);
    if (pv->dot == NO_TILE) return true;
    tile_id x = v->args[0] == pv->dot ? v->args[1] : v->args[0];
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

void lower_nest(lower *l, const plan_nest *nest) {
  tile_id purpose = purpose_of(l, nest);
  if (purpose != NO_TILE) lower_line(l, purpose);
  mark_nest(l, nest);
  l->target->around(l, nest, lower_kind);
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
