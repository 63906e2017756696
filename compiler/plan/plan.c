// The list of plan passes. A plan says how a tile program runs: loop nests over buffers, in order.
//
// Each pass is a file of this folder or a function of one, and plan_verify knows what a plan must
// be behind each of them.
#include <string.h>

#include "compiler/plan/planner.h"

static bool always(const planner *q) { return q != NULL; }

static bool is_block(const planner *q) { return q->m->kind == MAP_BLOCK; }

static bool is_block_or_steps(const planner *q) { return is_block(q) || plan_is_steps(q); }

static bool has_lane_steps(const planner *q) {
  return plan_is_steps(q) || q->m->kind == MAP_THREADS;
}

static bool has_lanes(const planner *q) { return q->m->kind == MAP_LANES; }

static bool is_host_f32(const planner *q) { return has_lanes(q) && !q->m->f64; }

enum { NEEDED, OPTIONAL };

static const plan_pass passes[] = {
    {"cut axes", plan_cut_program, always, PLAN_PROGRAM, NEEDED},
    {"move factors", plan_move_factors, is_block, PLAN_PROGRAM, OPTIONAL},
    {"find products", plan_find_products, plan_gathers_steps, PLAN_PROGRAM, OPTIONAL},
    {"lane parameters", plan_copy_parameters, has_lane_steps, PLAN_PROGRAM, OPTIONAL},
    // Before wide angles, which are marked by their numbers.
    {"move renames", plan_move_renames, has_lanes, PLAN_PROGRAM, OPTIONAL},
    {"wide angles", plan_widen, is_host_f32, PLAN_PROGRAM, NEEDED},
    // Before any value is described: it appends values.
    {"extra axes", plan_sum_extra_axes, always, PLAN_PROGRAM, NEEDED},
    {"describe values", plan_describe_values, always, PLAN_VALUES, NEEDED},
    {"gathered gradients", plan_mark_gathered, plan_gathers_steps, PLAN_VALUES, NEEDED},
    // Before order: values that are computed at their uses have no place in it.
    {"recompute", plan_inline_cheap, is_block_or_steps, PLAN_VALUES, OPTIONAL},
    {"order values", plan_order_values, always, PLAN_ORDERED, NEEDED},
    {"nests", plan_make_nests, always, PLAN_NESTS, NEEDED},
    {"results", plan_make_results, always, PLAN_RESULTS, NEEDED},
    {"regions", plan_sort_nests, always, PLAN_SORTED, NEEDED},
    {"hold values", plan_hold_values, always, PLAN_HELD, NEEDED},
    {"share sums", plan_share_sum_buffers, always, PLAN_HELD, OPTIONAL},
    {"states", plan_states, always, PLAN_STATES, NEEDED},
    {"decayed sums", plan_decay_in_products, has_lanes, PLAN_STATES, OPTIONAL},
    {"fuse", plan_join_nests, is_block, PLAN_STATES, OPTIONAL},
    {"register states", plan_register_states, is_block, PLAN_STATES, OPTIONAL},
    {"16-bit storage", plan_narrow_operands, is_block, PLAN_STATES, OPTIONAL},
    // After storage: warpgroups read memory of 16-bit numbers alone.
    {"wgmma layout", plan_mark_wgmma, always, PLAN_STATES, NEEDED},
    {"row sums", plan_add_row_sums, is_block, PLAN_STATES, NEEDED},
    {"gather nests", plan_gather_nests, is_block, PLAN_STATES, OPTIONAL},
    // After storage and layouts: neighbours in memory are taken by neighbouring lanes.
    {"threads", plan_divide_nests, is_block, PLAN_THREADS, NEEDED},
    {"lives", plan_find_lives, always, PLAN_LIVES, NEEDED},
    // After lives: what is read for the last time lives until the next barrier.
    {"barriers", plan_find_barriers, is_block, PLAN_LIVES, NEEDED},
    {"layouts", plan_choose_layouts, is_block, PLAN_LIVES, OPTIONAL},
    {"memory", plan_place_buffers, always, PLAN_PLACED, NEEDED},
};

enum { PASSES = sizeof passes / sizeof *passes };

static const char *plan_pass_name(int pass) { return passes[pass].name; }

static bool may_leave_plan_pass_out(int pass) { return passes[pass].optional; }

const pass_stage plan_pass_stage = {"plan", PASSES, plan_pass_name, may_leave_plan_pass_out};

plan_stage plan_stage_after(const char *pass) {
  for (int i = 0; i < PASSES; i++)
    if (strcmp(passes[i].name, pass) == 0) return passes[i].made;
  ICE("plan", "no pass %s", pass);
}

// `each`: looks at the plan behind each pass, not behind the last one alone.
static plan *run_plan_passes(arena *a, const mapping *m, const tile_program *program,
                             const carried_list *carried, bool each) {
  const char *wrong = NULL;
  planner q = {.a = a, .m = m, .carried = carried, .whole = program, .p = ARENA_NEW(a, plan)};
  q.p->steps = -1;
  for (int i = 0; i < PASSES && !wrong; i++) {
    if (!passes[i].when(&q) || pass_is_left_out(q.m->kernel->without, passes[i].name)) continue;
    double start = pass_clock();
    bool looks = each || i == PASSES - 1;
    passes[i].run(&q);
    q.p->program = q.program;
    if (looks) wrong = plan_verify(q.a, q.m, q.p, passes[i].name);
    pass_ran(&plan_pass_stage, i, pass_clock() - start, looks);
  }
  if (wrong && each) ICE("plan", "%s: %s", q.whole->name, wrong);
  return wrong ? NULL : q.p;
}

plan *plan_program_checked(arena *a, const mapping *m, const tile_program *program,
                           const carried_list *carried) {
  return run_plan_passes(a, m, program, carried, true);
}

// A release looks at the finished plan. If that is wrong, it plans again to find the pass at fault.
plan *plan_program(arena *a, const mapping *m, const tile_program *program,
                   const carried_list *carried) {
#ifdef REC_VERIFY_EACH_PASS
  return plan_program_checked(a, m, program, carried);
#else
  plan *p = run_plan_passes(a, m, program, carried, false);
  return p ? p : plan_program_checked(a, m, program, carried);
#endif
}
