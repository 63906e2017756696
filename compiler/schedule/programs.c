// The passes over tile programs: how each calls the function that it is named after, and what is
// verified behind it.
#include "compiler/schedule/programs.h"

#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/schedule/relative.h"
#include "compiler/schedule/save.h"

static void make_step(arena *a, program_work *w) { w->made = chunk_build_step(a, w->recurrence); }
static void make_chunk(arena *a, program_work *w) {
  w->made = chunk_build_linear_scan(a, w->recurrence, w->length, &w->why);
}
static void make_host_chunk(arena *a, program_work *w) {
  w->made = chunk_build_for_host(a, w->recurrence, w->length, &w->why);
}
static void make_host_forward(arena *a, program_work *w) {
  w->made = chunk_build_forward_for_host(a, w->recurrence, w->length, &w->why);
}
static void make_pointwise(arena *a, program_work *w) {
  w->made = chunk_build_pointwise(a, w->recurrence, w->length);
}
static void make_relative(arena *a, program_work *w) {
  w->made = schedule_relative(a, w->recurrence, w->from);
}

static void differentiate_program(arena *a, program_work *w) {
  w->gradient = tile_differentiate(a, w->from);
}
static void differentiate_plainly(arena *a, program_work *w) {
  w->made = tile_backward(a, w->from);
}
static void leave_gradients(arena *a, program_work *w) {
  w->made = tile_without_gradients(a, w->from);
}
static void save_in_memory(arena *a, program_work *w) {
  w->made = w->from;
  w->spared = save_values(a, &w->made, &w->gradient, w->axes, w->clone, SAVE_IN_MEMORY);
}
static void keep_in_scratch(arena *a, program_work *w) {
  w->made = w->from;
  w->spared = save_values(a, &w->made, &w->gradient, w->axes, w->clone, SAVE_IN_SCRATCH);
}

static void keep_for_slice(arena *a, program_work *w) {
  w->made = w->from;
  w->spared = save_of_slice(a, &w->made, &w->forward, w->axes, w->clone);
}

static void restrict_results(arena *a, program_work *w) {
  w->made = tile_restrict(a, w->from, w->roles);
}
static void transfer(arena *a, program_work *w) {
  w->made = tile_transfer(a, w->from, (tile_role)w->roles, w->given, w->axes, &w->axis, &w->why);
}

static void cut_tile(arena *a, program_work *w) {
  tile_program *p = ARENA_NEW(a, tile_program);
  *p = *w->from;
  p->axes.items = ARENA_ARRAY(a, tile_axis, p->axes.count);
  memcpy(p->axes.items, w->from->axes.items, (size_t)p->axes.count * sizeof(tile_axis));
  p->axes.items[w->axis].size = w->entries;
  w->made = p;
}

static void simplify(arena *a, program_work *w) { w->made = tile_simplify(a, w->from); }
static void finish_program(arena *a, program_work *w) { w->made = tile_finish(a, w->from); }

// ---- the table ----

static const struct {
  const char *name;
  void (*run)(arena *, program_work *);
} passes[PROGRAM_PASSES] = {
#define PROGRAM_PASS(pass, name, run) {name, run},
#include "compiler/schedule/programs.def"
#undef PROGRAM_PASS
};

static const char *program_pass_name(int pass) { return passes[pass].name; }

static bool may_leave_program_pass_out(int pass) {
  return pass == PROGRAM_SAVE || pass == PROGRAM_KEEP || pass == PROGRAM_SLICE;
}

const pass_stage program_stage = {"programs", PROGRAM_PASSES, program_pass_name,
                                  may_leave_program_pass_out};

static int verified_programs(arena *a, program_pass pass, const program_work *w) {
  const tile_program *made[] = {w->made, w->gradient.backward, w->gradient.recompute, w->forward};
  int count = 0;
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
    const char *wrong = made[i] ? tile_verify(a, made[i]) : NULL;
    if (wrong) ICE(passes[pass].name, "%s: %s", made[i]->name, wrong);
    count += made[i] != NULL;
  }
  return count;
}

void program_run(arena *a, program_pass pass, program_work *w) {
  double start = pass_clock();
  passes[pass].run(a, w);
  int count = verified_programs(a, pass, w);
  pass_ran(&program_stage, pass, pass_clock() - start, count);
}

const tile_program *program_of(arena *a, program_pass pass, const recurrence *r) {
  program_work w = {.recurrence = r};
  program_run(a, pass, &w);
  return w.made;
}

const tile_program *program_rewritten(arena *a, program_pass pass, const tile_program *from) {
  program_work w = {.from = from};
  program_run(a, pass, &w);
  return w.made;
}

const tile_program *program_of_length(arena *a, program_pass pass, const recurrence *r, int length,
                                      const char **why) {
  program_work w = {.recurrence = r, .length = length, .why = *why};
  program_run(a, pass, &w);
  *why = w.why;
  return w.made;
}

tile_gradient program_gradient(arena *a, const tile_program *forward) {
  program_work w = {.from = forward};
  program_run(a, PROGRAM_DIFFERENTIATE, &w);
  return w.gradient;
}
