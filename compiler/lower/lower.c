// Lowering of regions and of nests: the plan says what they compute, the target's table (nest_target.h) how.
#include "compiler/lower/nest_target.h"

// The value that a nest is there for: the last.
static void line_of_nest(lower *l, const plan_nest *nest) {
  if (nest->kind == NEST_PACK) {
    lower_line(l, nest->packed);
  } else if (nest->values.count) {
    lower_line(l, nest->values.items[nest->values.count - 1]);
  } else if (nest->results.count) {
    lower_line(l, l->p->program->results.items[nest->results.items[0]].value);
  }
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
  line_of_nest(l, nest);
  l->target->around(l, nest, lower_kind);
}

static nest_range nests_of(const plan *p, region r) {
  nest_range range = {.region = r, .first = 0, .last = p->nests.count - 1};
  while (range.first <= range.last && p->nests.items[range.first].region != r) range.first++;
  while (range.last >= range.first && p->nests.items[range.last].region != r) range.last--;
  return range;
}

void lower_region(lower *l, region r) {
  l->target->region(l, nests_of(l->p, r));
  lines_at(l->e, l->e->where);
}
