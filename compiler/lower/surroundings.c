// The surroundings of a nest: the values in `lower` that its code may read, such as tensors,
// strides, buffers, variables and indices.
#include "compiler/lower/surroundings.h"

#include <string.h>

#include "compiler/lower/nest_target.h"
#include "compiler/plan/repeats.h"

typedef struct listing {
  arena *a;
  lower *l;
  ir_list list;
  // of the program's values and arguments, those that a turn may read; NULL: all
  bool *read, *arguments;
} listing;

static void list_any(listing *s, ir *x) {
  if (*x) vec_push(s->a, &s->list, x);
}

static void list_one(listing *s, ir *x) {
  if (*x && !LLVMIsConstant(*x)) vec_push(s->a, &s->list, x);
}

// Turns have the same code if an address is a parameter of each, whether it is a constant or not.
static void list_address(listing *s, ir *x) { s->read ? list_any(s, x) : list_one(s, x); }

static void list_view(listing *s, view *v) {
  list_address(s, &v->base);
  list_one(s, &v->present);
  list_one(s, &v->offset);
  list_one(s, &v->aligned);
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) list_one(s, &v->stride[axis]);
}

static void list_target(listing *s, result_target *r) {
  list_view(s, &r->at);
  list_one(s, &r->active);
  list_one(s, &r->limit);
  list_one(s, &r->own);
  list_one(s, &r->first_pass);
  list_one(s, &r->last_pass);
  list_one(s, &r->single);
  if (r->in_passes) list_view(s, &r->sums);
  if (r->single) list_view(s, &r->tensor);
}

// Is a buffer alive at some of these nests?
static bool is_alive(const plan_buffer *b, nest_range nests) {
  return b->persistent || b->carried >= 0 || (b->first <= nests.last && b->last >= nests.first);
}

static void note_value(void *data, tile_id id) { ((bool *)data)[id] = true; }

static bool *values_read(arena *a, const lower *l, nest_range nests) {
  bool *read = ARENA_ARRAY(a, bool, l->p->program->values.count);
  for (int n = nests.first; n <= nests.last; n++)
    plan_each_value(l->p, &l->p->nests.items[n], note_value, read);
  return read;
}

// A nest reads the old state before it writes the new one.
static bool *arguments_read(arena *a, const lower *l, const bool *read) {
  const tile_program *program = l->p->program;
  bool *arguments = ARENA_ARRAY(a, bool, program->arguments.count);
  for (int c = 0; c < l->p->carried_count; c++)
    if (l->p->carried[c].argument >= 0) arguments[l->p->carried[c].argument] = true;
  for (tile_id id = 0; id < program->values.count; id++) {
    const tile_value *v = tile_at(program, id);
    if (read[id] && v->op == TILE_ARGUMENT) arguments[tile_argument_number(v)] = true;
  }
  return arguments;
}

static bool stores_result(const listing *s, nest_range nests, int result) {
  if (!s->read) return true;
  for (int n = nests.first; n <= nests.last; n++) {
    const plan_nest *nest = &s->l->p->nests.items[n];
    for (int i = 0; i < nest->results.count; i++)
      if (nest->results.items[i] == result) return true;
  }
  return false;
}

// Prologue and epilogue see parameters alone: where they stand, what belongs to a step or chunk
// does not exist.
static void list_program_tensors(listing *s, nest_range nests, bool run) {
  const tile_program *program = s->l->p->program;
  for (int i = 0; i < program->arguments.count; i++) {
    bool there = run || program->arguments.items[i].role == TILE_PARAM;
    if (there && (!s->arguments || s->arguments[i])) list_view(s, &s->l->arguments[i]);
  }
  for (int i = 0; i < program->results.count; i++) {
    bool there = run || program->results.items[i].place.role == TILE_D_PARAM;
    if (there && stores_result(s, nests, i)) list_target(s, &s->l->results[i]);
  }
}

static void list_ahead(listing *s, nest_range nests) {
  const ahead_list *ahead = &s->l->ahead;
  for (int n = nests.first; n <= nests.last; n++)
    if (&s->l->p->nests.items[n] == ahead->nest)
      for (int i = 0; i < ahead->count; i++) list_view(s, &ahead->items[i].rows);
}

static void list_nest_values(listing *s, nest_range nests) {
  lower *l = s->l;
  bool run =
      nests.region == REGION_SHARED || nests.region == REGION_BODY || nests.region == REGION_STEPS;
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) {
    list_one(s, &l->axis_size[axis]);
    list_one(s, &l->outside.index[axis]);
  }
  list_one(s, &l->outside.mask);
  if (run) list_one(s, &l->rows);
  if (nests.region == REGION_STEPS) list_one(s, &l->steps);
  if (run && l->fetch.list) list_one(s, &l->fetch.list);
  list_ahead(s, nests);
  list_program_tensors(s, nests, run);
  for (int c = 0; c < l->p->carried_count; c++) list_view(s, &l->carried[c]);
  for (int i = 0; i < l->p->buffers.count; i++)
    if (is_alive(&l->p->buffers.items[i], nests)) list_address(s, &l->buffers[i]);
  for (int i = 0; i < l->p->program->values.count; i++)
    if (!s->read || s->read[i]) list_one(s, &l->variables[i]);
}

ir_list surroundings_of(lower *l, nest_range nests) {
  listing s = {.a = l->e->a, .l = l};
  list_nest_values(&s, nests);
  return s.list;
}

ir_list surroundings_of_turn(arena *a, lower *l, nest_range nests, const bool *varies) {
  listing s = {.a = a, .l = l, .read = values_read(a, l, nests)};
  s.arguments = arguments_read(a, l, s.read);
  list_nest_values(&s, nests);
  list_one(&s, &l->tile_first);
  for (int i = 0; i < l->p->program->values.count; i++)
    if (varies[i] && s.read[i]) list_any(&s, &l->entries[i]);
  if (l->target->list) l->target->list(l, a, &s.list);
  return s.list;
}

static void *copied_memory(arena *a, const void *from, size_t size) {
  void *to = arena_alloc(a, size);
  if (size) memcpy(to, from, size);
  return to;
}

lower surroundings_copy(const lower *l, emitter *e) {
  lower copy = *l;
  const tile_program *program = l->p->program;
  size_t arguments = (size_t)program->arguments.count, results = (size_t)program->results.count;
  size_t values = (size_t)program->values.count;
  copy.e = e;
  copy.arguments = copied_memory(e->a, l->arguments, arguments * sizeof *l->arguments);
  copy.results = copied_memory(e->a, l->results, results * sizeof *l->results);
  copy.ahead.items =
      copied_memory(e->a, l->ahead.items, (size_t)l->ahead.count * sizeof *l->ahead.items);
  copy.carried = copied_memory(e->a, l->carried, (size_t)l->p->carried_count * sizeof *l->carried);
  copy.buffers = copied_memory(e->a, l->buffers, (size_t)l->p->buffers.count * sizeof *l->buffers);
  copy.variables = copied_memory(e->a, l->variables, values * sizeof *l->variables);
  if (l->entries) copy.entries = copied_memory(e->a, l->entries, values * sizeof *l->entries);
  copy.memo = ARENA_ARRAY(e->a, ir, values);
  if (l->target->enter) l->target->enter(&copy);
  return copy;
}
