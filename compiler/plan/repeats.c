// Nests that repeat, as those of a fold do. The front end writes the turns of a fold out, and each
// turn becomes the same nests.
//
//   dot, points, points, dot, points, points, dot, ..      ->      3 nests, 30 turns
//
// Two nests are alike if they apply the same operations to other values. A repeat is a suggestion:
// lower/repeats.c compares the code of the turns.
#include "compiler/plan/repeats.h"

enum {
  MOST_NESTS = 64,
  LEAST_TURNS = 6,
  LEAST_ALIKE = 16,
  LEAST_INSTRUCTIONS = 1500,
  OF_PRODUCT = 300,
  WORTH_A_CALL = 100,
  WORTH_A_TURN = 600
};

static bool alike_results(const plan *p, const plan_nest *x, const plan_nest *y) {
  if (x->results.count != y->results.count) return false;
  for (int i = 0; i < x->results.count; i++) {
    const tile_result *r = &p->program->results.items[x->results.items[i]];
    const tile_result *s = &p->program->results.items[y->results.items[i]];
    if (r->place.role != s->place.role) return false;
    if (tile_place_axes(p->program, &r->place) != tile_place_axes(p->program, &s->place))
      return false;
    if (tile_at(p->program, r->value)->axes != tile_at(p->program, s->value)->axes) return false;
  }
  return true;
}

static bool alike_values(const plan *p, const plan_nest *x, const plan_nest *y) {
  if (x->values.count != y->values.count) return false;
  for (int i = 0; i < x->values.count; i++) {
    tile_id id = x->values.items[i], other = y->values.items[i];
    const tile_value *v = tile_at(p->program, id), *w = tile_at(p->program, other);
    if (v->op != w->op || v->axes != w->axes || v->over != w->over) return false;
    if (p->values[id].held != p->values[other].held) return false;
  }
  return true;
}

static bool alike(const plan *p, int first, int second) {
  const plan_nest *x = &p->nests.items[first], *y = &p->nests.items[second];
  return x->kind == y->kind && x->axes == y->axes && x->over == y->over && x->lane == y->lane &&
         x->wide == y->wide && x->rare == y->rare && x->usual == y->usual && x->two == y->two &&
         alike_values(p, x, y) && alike_results(p, x, y);
}

// How many nests from `first` on are like those `nests` further on.
static int alike_count(const plan *p, int first, int nests, int end) {
  int count = 0;
  while (first + count + nests < end && alike(p, first + count, first + count + nests)) count++;
  return count;
}

static int64_t repeated_instructions(const plan *p, int first, int count) {
  int64_t all = 0;
  for (int n = first; n < first + count; n++)
    all += p->nests.items[n].kind == NEST_POINTS ? p->nests.items[n].instructions : OF_PRODUCT;
  return all;
}

plan_repeat plan_repeat_at(const plan *p, int first, int end) {
  for (int nests = 1; nests <= MOST_NESTS && first + nests * LEAST_TURNS <= end; nests++) {
    int turns = alike_count(p, first, nests, end) / nests + 1;
    if (turns < LEAST_TURNS || repeated_instructions(p, first, nests * turns) < LEAST_INSTRUCTIONS)
      continue;
    if (repeated_instructions(p, first, nests) < WORTH_A_TURN) continue;
    return (plan_repeat){nests, turns};
  }
  return (plan_repeat){0, 0};
}

int plan_alike_before(const plan *p, int first, int n) {
  for (int before = n - 1; before >= first; before--)
    if (alike(p, before, n)) return before;
  return -1;
}

int plan_alike_behind(const plan *p, int n, int last) {
  for (int behind = n + 1; behind <= last; behind++)
    if (alike(p, n, behind)) return behind;
  return -1;
}

bool plan_is_frequent(const plan *p, int first, int last, int n) {
  int count = 0;
  for (int other = first; other <= last; other++) count += alike(p, other, n);
  int64_t own = repeated_instructions(p, n, 1);
  return count >= LEAST_ALIKE && own >= WORTH_A_CALL && count * own >= LEAST_INSTRUCTIONS;
}

// ---- what nests read ----

static void each_below(const plan *p, tile_id id, plan_reader *reader, void *data) {
  reader(data, id);
  if (!plan_at_hand(p, id)) return;
  for (int k = 0; k < tile_arity(tile_at(p->program, id)->op); k++)
    each_below(p, tile_at(p->program, id)->args[k], reader, data);
}

static void each_of_product(const plan *p, const plan_dot *dot, plan_reader *reader, void *data) {
  each_below(p, dot->a, reader, data);
  each_below(p, dot->b, reader, data);
}

static void each_operand(const plan *p, tile_id id, plan_reader *reader, void *data) {
  for (int k = 0; k < tile_arity(tile_at(p->program, id)->op); k++)
    each_below(p, tile_at(p->program, id)->args[k], reader, data);
}

void plan_each_value(const plan *p, const plan_nest *nest, plan_reader *reader, void *data) {
  for (int i = 0; i < nest->values.count; i++) {
    tile_id id = nest->values.items[i];
    reader(data, id);
    each_operand(p, id, reader, data);
    if (p->values[id].into != NO_TILE) each_operand(p, p->values[id].into, reader, data);
  }
  if (nest->kind == NEST_DOT || nest->kind == NEST_SOLVE)
    each_of_product(p, &nest->dot, reader, data);
  if (nest->two) each_of_product(p, &nest->other_dot, reader, data);
  if (nest->two && nest->scaled != NO_TILE) each_below(p, nest->scaled, reader, data);
  for (int i = 0; i < nest->results.count; i++)
    each_below(p, p->program->results.items[nest->results.items[i]].value, reader, data);
  if (nest->kind == NEST_PACK) each_below(p, nest->packed, reader, data);
  if (nest->rare) reader(data, nest->rare);
  if (nest->usual) reader(data, nest->usual);
}

// Values in the order in which nests read them.
typedef struct value_list {
  arena *a;
  VEC(tile_id) ids;
} value_list;

static void list_value(void *data, tile_id id) {
  value_list *list = data;
  vec_push(list->a, &list->ids, id);
}

static value_list nest_values(arena *a, const plan *p, int first, int count) {
  value_list list = {.a = a};
  for (int n = first; n < first + count; n++)
    plan_each_value(p, &p->nests.items[n], list_value, &list);
  return list;
}

static bool values_differ(const tile_value *v, const tile_value *w) {
  switch (v->op) {
    case TILE_SLICE:
    case TILE_PLACE: return tile_entry(v) != tile_entry(w);
    case TILE_NUMBER: return v->number != w->number;
    default: return false;
  }
}

void plan_mark_varying(const plan *p, int x, int y, int count, bool *varies) {
  arena *a = arena_new();
  value_list of_x = nest_values(a, p, x, count), of_y = nest_values(a, p, y, count);
  for (int i = 0; i < of_x.ids.count && i < of_y.ids.count; i++) {
    tile_id v = of_x.ids.items[i], w = of_y.ids.items[i];
    if (tile_at(p->program, v)->op != tile_at(p->program, w)->op)
      break;  // the code will not be the same
    if (values_differ(tile_at(p->program, v), tile_at(p->program, w))) varies[v] = varies[w] = true;
  }
  arena_free(a);
}
