// Plans of all kinds of kernels are right after each pass. A plan that is broken by hand is refused
// with the pass and the place. 1 second.
#include "compiler/kernel/frame.h"
#include "compiler/plan/tensor_cores.h"
#include "compiler/schedule/gpu/schedule.h"
#include "compiler/schedule/programs.h"
#include "compiler/schedule/tile_kernel.h"
#include "compiler/target/target.h"
#include "tests/recurrence/fixture.h"
#include "tests/recurrence/kernel_programs.h"
#include "tests/unit/unit.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"  // breakers share a signature

// ---- behind each pass ------------------------------------------------------------------------

// A pass that leaves something wrong ends the program: an internal compiler error names it.
static int plan_kernel(arena *a, const mapping *m, const tile_program *program, bool backward) {
  if (!program) return 0;
  carried_list carried = plan_carried(a, m, program, backward);
  return plan_program_checked(a, m, program, &carried)->nests.count;
}

static int plan_kernels(arena *a, const recurrence_kernels *kernels, codegen_clone clone,
                        number_type dtype) {
  int nests = 0;
  vec_each(const kernel, k, kernels->kernels) {
    mapping m = kernel_mapping_of(k, clone, dtype);
    m.threads = k->gpu.threads ? k->gpu.threads : GPU_BLOCK_THREADS;
    nests += plan_kernel(a, &m, k->program,
                         k->kind == KERNEL_BACKWARD || k->kind == KERNEL_SUMMARY_BACK);
    nests += plan_kernel(a, &m, k->recompute, false);
  }
  return nests;
}

// Passes of a stage that a log has counted; `verified`: those that were verified each time.
static int passes_of(const pass_log *log, const pass_stage *stage, bool verified) {
  int passes = 0;
  for (int i = 0; i < log->stages.count; i++) {
    const pass_count *counts = log->stages.items[i].counts;
    for (int n = 0; log->stages.items[i].stage == stage && n < stage->count; n++)
      passes += counts[n].runs && (!verified || counts[n].verified >= counts[n].runs);
  }
  return passes;
}

TEST(plans_are_right_behind_each_pass) {
  pass_log log = {.memory = arena_new()};
  pass_log *before = pass_log_use(&log);
  for (int i = 0; i < kernel_program_count; i++) {
    for (schedule_form form = FORM_STEP; form <= FORM_CHUNK; form++) {
      fixture f = fixture_open();
      const recurrence *r = fixture_analyse(&f, kernel_programs[i].source);
      schedule_options options = {.form = form};
      const recurrence_kernels *kernels = schedule_recurrence(f.memory, r, options);
      for (codegen_clone clone = 0; clone < CLONE_X86_COUNT; clone++)
        assert_true(plan_kernels(f.memory, kernels, clone, NUMBER_F32) > 0);
      options.save_every = 64;
      assert_true(plan_kernels(f.memory, schedule_recurrence(f.memory, r, options), CLONE_V3,
                               NUMBER_F32) > 0);
      options.save_every = 0;
      options.gpu = true;
      const number_type types[] = {NUMBER_F32, NUMBER_BF16};
      for (int t = 0; t < 2; t++) {
        codegen_gpu_options gpu = {.dtype = types[t], .warpgroups = t};
        const recurrence_kernels *device = codegen_gpu_schedule(f.memory, r, options, gpu);
        assert_true(plan_kernels(f.memory, device, CLONE_GPU, types[t]) > 0);
      }
      fixture_close(&f);
    }
  }
  pass_log_use(before);
  // Every row of the tables has run for some kernel.
  assert_int_equal(passes_of(&log, &plan_pass_stage, false), plan_pass_stage.count);
  assert_int_equal(passes_of(&log, &program_stage, false), program_stage.count);
  arena_free(log.memory);
}

static int runs_of(const pass_log *log, const pass_stage *stage, int pass) {
  for (int i = 0; i < log->stages.count; i++)
    if (log->stages.items[i].stage == stage) return log->stages.items[i].counts[pass].runs;
  return 0;
}

TEST(each_pass_is_verified) {
  fixture f = fixture_open();
  const recurrence *r = fixture_analyse(&f, kernel_programs[0].source);
  pass_log log = {.memory = f.memory}, *before = pass_log_use(&log);
  const recurrence_kernels *kernels =
      schedule_recurrence(f.memory, r, (schedule_options){.form = FORM_CHUNK});
  assert_true(plan_kernels(f.memory, kernels, CLONE_V3, NUMBER_F32) > 0);
  pass_log_use(before);
  const pass_stage *stages[] = {&program_stage, &plan_pass_stage};
  for (int i = 0; i < 2; i++) {
    assert_true(passes_of(&log, stages[i], true) > 5);
    assert_int_equal(passes_of(&log, stages[i], true), passes_of(&log, stages[i], false));
  }
  fixture_close(&f);
}

// What is lowered is the plan that the kernel carries.
TEST(host_kernels_are_planned_once) {
  fixture f = fixture_open();
  const recurrence *r = fixture_analyse(&f, kernel_programs[0].source);
  recurrence_kernels *kernels = schedule_recurrence(f.memory, r, (schedule_options){0});
  codegen_options options = {.dtype = NUMBER_F32};
  VEC(const kernel *) list = {0};
  for (int i = 0; i < kernels->kernels.count; i++)
    vec_push(f.memory, &list, &kernels->kernels.items[i]);
  pass_log log = {.memory = f.memory}, *before = pass_log_use(&log);
  host_plan_kernels(f.memory, kernels->kernels.items, kernels->kernels.count,
                    codegen_clones(&options), options.dtype);
  int planned = runs_of(&log, &kernel_stage, KERNEL_PASS_HOST),
      clones = __builtin_popcount(codegen_clones(&options));
  assert_true(planned >= clones);
  codegen_compile(f.memory, (codegen_input){.kernels = list.items, .kernel_count = list.count},
                  options);
  assert_int_equal(runs_of(&log, &kernel_stage, KERNEL_PASS_HOST), planned);
  assert_int_equal(runs_of(&log, &code_stage, CODE_EMIT), clones);
  pass_log_use(before);
  fixture_close(&f);
}

static int functions_of(const recurrence_kernels *kernels) {
  int functions = 0;
  for (int i = 0; i < kernels->kernels.count; i++) {
    int same = 0;
    while (strcmp(kernels->kernels.items[same].symbol, kernels->kernels.items[i].symbol) != 0)
      same++;
    assert_ptr_equal(kernels->kernels.items[same].gpu.plan, kernels->kernels.items[i].gpu.plan);
    functions += same == i;
  }
  return functions;
}

// The plan that the schedule has chosen a kernel by is the one that is lowered, and kernels of one
// function share it.
TEST(gpu_kernels_are_planned_once) {
  for (int i = 0; i < kernel_program_count; i++) {
    fixture f = fixture_open();
    const recurrence *r = fixture_analyse(&f, kernel_programs[i].source);
    pass_log log = {.memory = f.memory}, *before = pass_log_use(&log);
    codegen_gpu_options options = {.dtype = NUMBER_BF16, .warpgroups = i % 2};
    recurrence_kernels *kernels =
        codegen_gpu_schedule(f.memory, r, (schedule_options){.gpu = true}, options);
    int planned = runs_of(&log, &kernel_stage, KERNEL_PASS_GPU), functions = functions_of(kernels);
    assert_true(planned >= functions);
    VEC(const kernel *) list = {0};
    for (int n = 0; n < kernels->kernels.count; n++)
      vec_push(f.memory, &list, &kernels->kernels.items[n]);
    const codegen_gpu_object *object =
        codegen_gpu_compile(f.memory, list.items, list.count, options);
    assert_int_equal(runs_of(&log, &kernel_stage, KERNEL_PASS_GPU), planned);
    for (int n = 0; n < list.count; n++)
      assert_ptr_equal(object->kernels.items[n].plan, list.items[n]->gpu.plan);
    pass_log_use(before);
    fixture_close(&f);
  }
}

// Single steps have one candidate for each function.
TEST(candidates_are_planned_once) {
  fixture f = fixture_open();
  const recurrence *r = fixture_analyse(&f, kernel_programs[0].source);
  pass_log log = {.memory = f.memory}, *before = pass_log_use(&log);
  recurrence_kernels *kernels = codegen_gpu_schedule(
      f.memory, r, (schedule_options){.gpu = true, .form = FORM_STEP}, (codegen_gpu_options){0});
  assert_true(kernels->kernels.count > functions_of(kernels));
  assert_int_equal(runs_of(&log, &kernel_stage, KERNEL_PASS_GPU), functions_of(kernels));
  pass_log_use(before);
  fixture_close(&f);
}

// ---- broken by hand --------------------------------------------------------------------------

// Nests on the host: 0 copy of k, 1 scores %5, 2 their mask %8, 3 product %10, 4 %12 begins. Then 5
// product %11 added to it. Then 6 %14 begins, 7 product %13 added to it: the next S in place, 8 y.
static const char attention[] =
    "program p.forward chunk 16\n"
    "axis H ? grid\naxis K 64\naxis V 64 grid\ntime t 16\npair s 16\n"
    "argument 0 input q[H,K] time tensor 0\n"
    "argument 1 input k[H,K] time tensor 1\n"
    "argument 2 input v[H,V] time tensor 2\n"
    "argument 3 state S[H,K,V] tensor 3\n"
    "%0 [t,H,K] = argument 0 \"q\"\n"
    "%1 [t,H,K] = argument 1 \"k\"\n"
    "%2 [t,H,V] = argument 2 \"v\"\n"
    "%3 [H,K,V] = argument 3 \"S\"\n"
    "%4 [s,H,K] = rename %1 t -> s\n"
    "%5 [t,s,H] = dot %0 %4 over K\n"
    "%6 [t,s] = causal\n"
    "%7 [] = number 0\n"
    "%8 [t,s,H] = select %6 %5 %7\n"
    "%9 [s,H,V] = rename %2 t -> s\n"
    "%10 [t,H,V] = dot %8 %9 over s\n"
    "%11 [t,H,V] = dot %0 %3 over K\n"
    "%12 [t,H,V] = add %10 %11\n"
    "%13 [H,K,V] = dot %1 %2 over t\n"
    "%14 [H,K,V] = add %3 %13\n"
    "result output y[H,V] time tensor 4 = %12\n"
    "result next S[H,K,V] tensor 3 = %14\n";

static plan_nest *nest(plan *p, int n) { return &p->nests.items[n]; }

static plan_buffer *buffer_of(plan *p, tile_id id) {
  return &p->buffers.items[p->values[id].buffer];
}

// Breaks a plan of the program above.
typedef void breaking(arena *a, plan *p);

static void no_nest_makes_it(arena *a, plan *p) { nest(p, 2)->values.count = 0; }

static void two_nests_make_it(arena *a, plan *p) { vec_push(a, &nest(p, 8)->values, 8); }

static void nests_swapped(arena *a, plan *p) {
  plan_nest scores = *nest(p, 1);
  *nest(p, 1) = *nest(p, 2);
  *nest(p, 2) = scores;
  p->values[5].nest = p->values[5].start = 2;
  p->values[8].nest = p->values[8].start = 1;
}

static void regions_swapped(arena *a, plan *p) { nest(p, 8)->region = REGION_PROLOGUE; }

static void result_stored_early(arena *a, plan *p) { vec_push(a, &nest(p, 2)->results, 0); }

static void result_stored_twice(arena *a, plan *p) { vec_push(a, &nest(p, 8)->results, 0); }

static void result_stored_by_none(arena *a, plan *p) { nest(p, 8)->results.count = 0; }

static void copy_without_reader(arena *a, plan *p) { nest(p, 1)->dot.pack_b = -1; }

static void copy_that_nobody_fills(arena *a, plan *p) {
  nest(p, 3)->dot.pack_b = p->values[5].buffer;
}

static void factor_of_another(arena *a, plan *p) { nest(p, 7)->dot.a = 0; }

static void rows_and_depth_swapped(arena *a, plan *p) {
  plan_dot *dot = &nest(p, 7)->dot;
  int i = dot->i;
  dot->i = dot->k;
  dot->k = i;
}

static void sum_with_lanes(arena *a, plan *p) {
  p->values[12].lane = buffer_of(p, 12)->lane = true;
}

static void buffer_of_another_shape(arena *a, plan *p) { buffer_of(p, 8)->axis_count--; }

static void value_in_registers_of_another_nest(arena *a, plan *p) { p->values[8].held = HELD_NEST; }

static void bits_too_few(arena *a, plan *p) {
  plan_buffer *b = buffer_of(p, 8);
  b->persistent = true;
  b->stored = NUMBER_BF16;
}

static void layout_of_wide_numbers(arena *a, plan *p) { buffer_of(p, 8)->wgmma_layout = true; }

// Threads of the host read numbers where they are.
static void layout_without_banks(arena *a, plan *p) {
  buffer_of(p, 8)->layout = (plan_layout){PATTERN_LINES, 5, 0};
}

static void old_state_read_later(arena *a, plan *p) { p->program->results.items[0].value = 3; }

static void state_of_other_memory(arena *a, plan *p) { buffer_of(p, 14)->carried = -1; }

static void state_in_registers_of_another_nest(arena *a, plan *p) { p->carried[0].accumulator = 5; }

static void life_cut_short(arena *a, plan *p) { buffer_of(p, 12)->last = 6; }

static void born_too_late(arena *a, plan *p) { buffer_of(p, 8)->first = 3; }

static void memory_shared(arena *a, plan *p) {
  buffer_of(p, 8)->offset = buffer_of(p, 5)->offset + 16;
}

static void operand_below_its_user(arena *a, plan *p) { p->program->values.items[8].args[1] = 12; }

// Nests on the host: 0 sum %1, 1 the condition %3, 2 %4 and %5 where it is not 0, 3 %6 where it is, 4
// the choice and y.
static const char branches[] =
    "program p.forward chunk 16\n"
    "axis H ? grid\naxis K 64\ntime t 16\npair s 16\n"
    "argument 0 input x[H,K] time tensor 0\n"
    "%0 [t,H,K] = argument 0\n"
    "%1 [H] = sum %0 over t,K\n"
    "%2 [] = number 0\n"
    "%3 [H] = lt %1 %2\n"
    "%4 [t,H,K] = exp %0\n"
    "%5 [t,H] = sum %4 over K\n"
    "%6 [t,H] = sum %0 over K\n"
    "%7 [t,H] = seldom %3 %5 %6\n"
    "result output y[H] time tensor 1 = %7\n";

static void rare_values_always(arena *a, plan *p) { nest(p, 2)->rare = 0; }

static void usual_nest_of_all(arena *a, plan *p) { nest(p, 4)->usual = 3; }

static void result_of_a_branch(arena *a, plan *p) { nest(p, 4)->usual = p->values[7].usual = 3; }

static void result_made_in_a_branch(arena *a, plan *p) { p->program->results.items[0].value = 6; }

static void condition_made_later(arena *a, plan *p) {
  plan_nest condition = *nest(p, 1);
  *nest(p, 1) = *nest(p, 3);
  *nest(p, 3) = condition;
  p->values[3].nest = p->values[3].start = 3;
  p->values[6].nest = p->values[6].start = 1;
}

typedef struct breakage {
  breaking *break_it;
  const char *said;
} breakage;

static const breakage of_attention[] = {
    {no_nest_makes_it, "value %8 (select): no nest makes it"},
    {two_nests_make_it, "nest 8 (%8 = select): it lists %8, whose nest is 2"},
    {nests_swapped, "nest 1 (%8 = select): it reads %5, which nest 2 makes later"},
    {regions_swapped, "nest 8: it reads %12, which nest 5 makes later"},
    {result_stored_early, "nest 2 (%8 = select): it reads %12, which nest 5 makes later"},
    {result_stored_twice, "value %12 (add): 2 nests store result 0"},
    {result_stored_by_none, "value %12 (add): 0 nests store result 0"},
    {copy_without_reader, "buffer 0: nest 0 fills this copy, and no product reads it"},
    {copy_that_nobody_fills, "nest 3 (%10 = dot): it reads a copy that no nest fills: buffer 1"},
    {factor_of_another, "nest 7 (%13 = dot): the factors are not those of %13"},
    {rows_and_depth_swapped, "nest 7 (%13 = dot): rows, columns and depth are not those of %13"},
    {sum_with_lanes, "nest 5 (%11 = dot): %11 is added to %12, and one of them alone has lanes"},
    {buffer_of_another_shape, "value %8 (select): buffer 2 has other axes"},
    {value_in_registers_of_another_nest,
     "nest 3 (%10 = dot): it reads %8, which is in registers of nest 2 alone"},
    {bits_too_few, "buffer 2: its numbers live on, and have 16 bits"},
    {layout_of_wide_numbers, "buffer 2: it lies as warpgroups read it, and has no 16 bits"},
    {layout_without_banks,
     "buffer 2: its layout is not one of f32 numbers in whole blocks of banks"},
    {old_state_read_later, "nest 8: it reads the old state %3, which nest 6 has overwritten"},
    {state_of_other_memory, "value %14 (add): it is the next state in place, and has other memory"},
    {state_in_registers_of_another_nest,
     "value %14 (add): nest 5 has the state in registers, and another one makes it"},
    {life_cut_short, "buffer 4: its life, nests 3 to 6, lacks nest 8"},
    {born_too_late, "buffer 2: its life, nests 3 to 3, lacks nest 2"},
    {memory_shared, "buffer 2: it lies over buffer 1, which is alive as well"},
    {operand_below_its_user, "value %8 (select): an operand does not stand above it"},
    {NULL, NULL},
};

static const breakage of_branches[] = {
    {rare_values_always, "nest 2 (%4 = exp): it runs in another branch than %4 is needed in"},
    {usual_nest_of_all, "nest 4 (%7 = seldom): it runs in another branch than %7 is needed in"},
    {result_of_a_branch,
     "nest 4 (%7 = seldom): it stores a result, and does not run in every chunk"},
    {result_made_in_a_branch,
     "value %6 (sum): it is a result, and nest 3 does not run in every chunk"},
    {condition_made_later, "nest 1 (%6 = sum): it runs by %3, which nest 3 makes later"},
    {NULL, NULL},
};

static const tile_program *read_text(fixture *f, const char *text) {
  const char *wrong = NULL;
  const source *file = sources_add(f->sources, "p.tile", text, strlen(text), &wrong);
  return tile_parse(f->memory, f->names, f->messages, file);
}

static void check_refused(const char *text, const breakage *broken) {
  for (; broken->break_it; broken++) {
    fixture f = fixture_open();
    const kernel *k = schedule_tile(f.memory, read_text(&f, text));
    mapping m = kernel_mapping_of(k, CLONE_V3, NUMBER_F32);
    carried_list carried = plan_carried(f.memory, &m, k->program, false);
    plan *p = plan_program(f.memory, &m, k->program, &carried);
    assert_null(plan_verify(f.memory, &m, p, "memory"));
    broken->break_it(f.memory, p);
    const char *said = plan_verify(f.memory, &m, p, "memory");
    assert_non_null(said);
    assert_string_equal(said, arena_printf(f.memory, "after the pass 'memory', %s", broken->said));
    fixture_close(&f);
  }
}

TEST(broken_plans_are_refused) {
  check_refused(attention, of_attention);
  check_refused(branches, of_branches);
}

// ---- threads of a GPU block ------------------------------------------------------------------

static const char norms[] =
    "program p.forward chunk 16\n"
    "axis H ? grid\n"
    "axis K 64\n"
    "time t 16\n"
    "pair s 16\n"
    "argument 0 input x[H,K] time tensor 0\n"
    "%0 [t,H,K] = argument 0\n"
    "%1 [t,H] = sum %0 over K\n"
    "%2 [H,K] = sum %0 over t\n"
    "result output y[H] time tensor 1 = %1\n"
    "result output z[H,K] tensor 2 = %2\n";

static const struct {
  int nest;
  plan_threads threads;
  const char *said;
} divided_wrongly[] = {
    {0, {.lanes = 3, .width = 1}, "nest 0 (%1 = sum): 3 lanes cannot share its sums"},
    {0, {.lanes = 64, .width = 1}, "nest 0 (%1 = sum): 64 lanes cannot share its sums"},
    {0,
     {.lanes = PLAN_ALL_THREADS, .width = 1},
     "nest 0 (%1 = sum): -1 lanes cannot share its sums"},
    {3, {.lanes = 32, .width = 1}, "nest 3: 32 lanes cannot share its sums"},
    {1,
     {.lanes = 1, .vector = 1, .width = 3},
     "nest 1 (%2 = sum): a thread cannot take 3 neighbours at once"},
    {3, {.lanes = 1, .vector = 2, .width = 4}, "nest 3: a thread cannot take 4 neighbours at once"},
};

TEST(threads_that_cannot_divide_a_nest_are_refused) {
  for (size_t i = 0; i < sizeof divided_wrongly / sizeof *divided_wrongly; i++) {
    fixture f = fixture_open();
    const kernel *k = schedule_tile(f.memory, read_text(&f, norms));
    mapping m = kernel_mapping_of(k, CLONE_GPU, NUMBER_F32);
    m.threads = GPU_BLOCK_THREADS;
    carried_list carried = plan_carried(f.memory, &m, k->program, false);
    plan *p = plan_program(f.memory, &m, k->program, &carried);
    p->nests.items[divided_wrongly[i].nest].threads = divided_wrongly[i].threads;
    const char *said = plan_verify(f.memory, &m, p, "memory");
    assert_non_null(said);
    assert_string_equal(
        said, arena_printf(f.memory, "after the pass 'memory', %s", divided_wrongly[i].said));
    fixture_close(&f);
  }
}

// On a GPU, whose memory is laid out behind the plan.
TEST(buffers_over_each_other_are_refused) {
  fixture f = fixture_open();
  const kernel *k = schedule_tile(f.memory, read_text(&f, attention));
  mapping m = kernel_mapping_of(k, CLONE_GPU, NUMBER_F32);
  m.threads = GPU_BLOCK_THREADS;
  carried_list carried = plan_carried(f.memory, &m, k->program, false);
  plan *p = plan_program(f.memory, &m, k->program, &carried);
  int count = 0, alive[2] = {0, 0};
  for (int i = 0; i < p->buffers.count && count < 2; i++)
    if (p->buffers.items[i].last >= 0) alive[count++] = i;
  assert_int_equal(count, 2);
  plan_place *at = ARENA_ARRAY(f.memory, plan_place, p->buffers.count);
  for (int i = 0; i < p->buffers.count; i++) at[i] = (plan_place){plan_shared, 1024 * i, 1024};
  assert_null(plan_verify_places(f.memory, p, at));
  p->buffers.items[alive[0]].last = p->buffers.items[alive[1]].last;
  at[alive[1]].offset = at[alive[0]].offset + 512;
  const char *said = plan_verify_places(f.memory, p, at);
  assert_non_null(said);
  assert_string_equal(
      said,
      arena_printf(f.memory, "buffer %d lies over buffer %d in shared memory, and both are alive",
                   alive[1], alive[0]));
  fixture_close(&f);
}
