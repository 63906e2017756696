// Random programs of the whole language (tests/random): what compiled code makes of a program that
// nobody wrote must be what the interpreter makes of it, values and all gradients. In one call,
// token by token, with nothing saved, packed, in segments of time that are summarised, and in time
// slices; on the host and, of every eighth program, on the executor. The interpreter's gradients
// are differences of its values: every tenth program is held to that.
//
//   REC_SEED=N       the programs of seed N again (a failure prints its seed); else a new seed each run
//   REC_PROGRAMS=N   so many programs (128; 20,000 with the word `full`)
//   REC_FILE=NAME    the program of this file in place of what the seed draws
//   REC_TRIAL=LIST   the one run that a failure names
//
// Sixteen programs are a library, whose form, chunk and number type follow from the seed. f64,
// where the comparison is sharp, must agree to 1e-9 of the rms, or to fifty times the effect of
// inputs that differ by 1e-12 of themselves. In f32 and 16 bits a program may stand at a kink (max,
// where), at which rounding picks the other branch. It fails only if it does so for three draws of
// the inputs. A failing program is made small.
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/coverage.h"
#include "tests/random/shrink.h"
#include "tests/recurrence/fixture.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"
#include "tests/runtime/segments.h"

enum { BATCH = 16, RUNS = 2 };

static struct {
  int compared, wild, in_segments, executed, longest, by_differences;
} tally;
static coverage all;

static int least(int a, int b) { return a < b ? a : b; }

// ---- libraries -------------------------------------------------------------------------------

// The same for all programs of a batch, so that one alone gets the same. Every fortieth is compiled
// with all the effort that users get, the others quickly.
typedef struct setting {
  const char *target, *dtype, *form, *chunk, *every, *effort, *shared_kib, *device;
  bool summary;
} setting;

static setting setting_of(uint64_t seed, const char *device) {
  static const char *const forms[] = {"default", "chunk", "chosen", "step", "default"},
                           *const kib[] = {"99", "99", "48", "16"}, *const chunks[] = {"16", "8",
                                                                                       "32", "5",
                                                                                       "64", "16",
                                                                                       "32", "128"},
                           *const every[] = {"16", "64", "1", "96"};
  static const char *const types[] = {"f64",  "f64", "f32", "f64", "f64",
                                      "bf16", "f64", "f64", "f64", "f16"};
  static const char *const executed[] = {"f32", "f32", "bf16", "f32", "f16"};
  uint64_t number = seed / BATCH, random = number;
  bool executor = strcmp(device, "host") != 0;
  setting s = {.device = device};
  s.target = random_target(next_random(&random));
  if (executor) s.target = simt_target();
  s.dtype = executor ? executed[number % 5] : types[number % 10];
  s.form = forms[random_below(&random, 5)];
  s.chunk = chunks[random_below(&random, 8)];
  s.every = every[random_below(&random, 4)];
  s.effort = random_below(&random, 40) ? "0" : "3";
  s.shared_kib = kib[random_below(&random, 4)];
  s.summary = random_below(&random, 3) == 0;
  return s;
}

// The default is what users get: recc chooses chunks and the distance of saved states as well.
static compilation start(const char *text, setting s) {
  enum { MOST = 16 };
  const char *options[MOST] = {"--target", s.target, "--dtype",         s.dtype,
                               "-O",       s.effort, "--shared-memory", s.shared_kib};
  int count = 8;
  if (strcmp(s.form, "default") != 0) {
    const char *const form[] = {"--form", s.form, "--chunk", s.chunk, "--save-every", s.every};
    memcpy(options + count, form, sizeof form);
    count += 6;
  }
  if (s.summary) options[count++] = "--summary";
  return compile_start(text, options);
}

static const char *words_of(arena *memory, uint64_t seed, setting s) {
  return arena_printf(memory,
                      "REC_SEED=%llu REC_PROGRAMS=1 (%s, --target %s --dtype %s --form %s --chunk "
                      "%s --save-every %s -O%s --shared-memory %s%s)",
                      (unsigned long long)seed, s.device, s.target, s.dtype, s.form, s.chunk,
                      s.every, s.effort, s.shared_kib, s.summary ? " --summary" : "");
}

// ---- trials ----------------------------------------------------------------------------------

typedef enum way { WHOLE, STEPS, UNSAVED, SEGMENTS, WAYS } way;

// One run of a program. Packed sequences are up to `time` steps long each.
typedef struct run {
  int way, batch, time, sequences;  // -1: not packed
  int threads, slices, segments, stateless;
  unsigned long long numbers;
} run;

static run draw_run(uint64_t *seed, setting s) {
  static const int lengths[] = {0, 1, 2, 4, 7, 15, 16, 17, 20, 31, 33, 40, 67, 130},
                   batches[] = {1, 1, 2, 2, 3, 5, 9}, slices[] = {0, 0, 2, 3, 5};
  run r;
  r.way = random_below(seed, 6);
  r.batch = batches[random_below(seed, 7)];
  r.time = lengths[random_below(seed, 14)];
  if (random_below(seed, 4) == 0)
    r.time = (1 + random_below(seed, 3)) * atoi(s.chunk) + random_below(seed, 3) - 1;
  r.sequences = random_below(seed, 3) ? -1 : random_below(seed, 6);
  r.threads = 1 + random_below(seed, 7);
  r.slices = slices[random_below(seed, 5)];
  r.segments = 2 + random_below(seed, 3);
  r.stateless = random_below(seed, 5) == 0;
  r.numbers = next_random(seed) >> 16;
  if (r.way >= WAYS) r.way = s.summary ? SEGMENTS : WHOLE;
  if (r.way == SEGMENTS && !s.summary) r.way = WHOLE;
  if (r.way == SEGMENTS) {
    if (r.sequences < 0) r.time = r.segments * (1 + r.time / 2);
    if (r.sequences == 0) r.sequences = 1;
  }
  return r;
}

static const char *run_text(arena *memory, run r) {
  return arena_printf(memory, "REC_TRIAL=%d,%d,%d,%d,%d,%d,%d,%d,%llu", r.way, r.batch, r.time,
                      r.sequences, r.threads, r.slices, r.segments, r.stateless, r.numbers);
}

// The run that REC_TRIAL names.
static bool read_run(run *r) {
  const char *text = getenv("REC_TRIAL");
  return text &&
         sscanf(text, "%d,%d,%d,%d,%d,%d,%d,%d,%llu", &r->way, &r->batch, &r->time, &r->sequences,
                &r->threads, &r->slices, &r->segments, &r->stateless, &r->numbers) == 9;
}

// Promised inputs (`inT3`, ..) keep their promises; some of their numbers stand at an end.
static void keep_promises(problem *p) {
  static const struct {
    char kind;
    double low, high;
  } promises[] = {{'T', -1, 1}, {'N', -3, 0}, {'P', 0.5, 2}, {'U', 0.125, 0.875}};
  for (int i = 0; i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    for (int n = 0; n < 4; n++) {
      if (strncmp(v->name, "in", 2) != 0 || v->name[2] != promises[n].kind || is_carried(v))
        continue;
      double low = promises[n].low, high = promises[n].high;
      for (int64_t k = 0; k < problem_numbers(p, i); k++)
        p->value[i][k] =
            (float)fmin(fmax((low + high) / 2 + (high - low) * 0.5 * p->value[i][k], low), high);
    }
  }
}

// Each open axis has a size of its own.
static void draw_sizes(problem *p, uint64_t *seed) {
  static const int64_t sizes[] = {1, 2, 3, 3, 4, 5, 9};
  int64_t points = 1;
  for (int i = 0; i < p->signature->axis_count; i++) {
    if (p->signature->axes[i].size >= 0) continue;
    do p->axis_sizes[i] = sizes[next_random(seed) % 7];
    while (points * p->axis_sizes[i] > 24);
    points *= p->axis_sizes[i];
  }
}

static problem *problem_of(const rec_signature *signature, const run *r) {
  enum { MOST = 8 };
  int32_t each[MOST];
  uint64_t seed = r->numbers;
  bool equal = next_random(&seed) % 4 == 0;
  for (int i = 0; i < MOST; i++)
    each[i] =
        equal ? r->time : (int32_t)(next_random(&seed) % (uint64_t)(2 * r->time + 1)) - r->time / 2;
  for (int i = 0; i < MOST; i++) each[i] = each[i] < 0 ? 0 : least(each[i], r->time);
  problem *p = r->sequences >= 0 ? problem_packed(signature, each, least(r->sequences, MOST), 1)
                                 : problem_new(signature, r->batch, r->time, 1);
  draw_sizes(p, &seed);
  problem_draw(p, next_random(&seed), 0.8);
  keep_promises(p);
  problem_retype(p, signature);
  if (r->stateless) problem_drop_states(p);
  return p;
}

// ---- comparing -------------------------------------------------------------------------------

typedef enum outcome { SAME, WILD, DIFFERENT } outcome;

typedef struct message {
  char text[1024];
} message;

// Products on GPUs round their operands to 16 bits: a result may err as those of inputs rounded
// likewise do.
static double tolerance_of(const problem *inputs, const problem *exact, const rec_recurrence *r,
                           bool executor, bool backward) {
  enum { DRAWS = 8, SMALLER = 50 };
  rec_dtype type = inputs->signature->token_type;
  if (type == REC_F64) return problem_tolerance(inputs, exact, r, 1e-9, 1e-12, backward);
  if (type == REC_F32 || !executor)
    return problem_tolerance(inputs, exact, r, 1e-4, 1e-7, backward);
  double unit = type == REC_BF16 ? 0x1p-8 : 0x1p-11;
  return 16 * unit + SMALLER * problem_movement(inputs, exact, r, unit / SMALLER, backward, DRAWS);
}

static bool is_same(const problem *inputs, const problem *exact, const problem *got,
                    const rec_recurrence *compiled, const run *r, bool executor, message *m) {
  char where[256];
  bool f64 = inputs->signature->token_type == REC_F64, backward = r->way != STEPS;
  double tolerance = f64 ? 1e-9 : 1e-4,
         error = problem_compare(exact, got, backward, f64 ? 1e-4 : 1e-2, where, sizeof where);
  if (error > tolerance)
    tolerance =
        (r->way == SEGMENTS ? 10 : 1) * tolerance_of(inputs, exact, compiled, executor, backward);
  snprintf(m->text, sizeof m->text, "error %.2e > %.2e at %s", error, tolerance, where);
  return error <= tolerance;
}

// Is all that the state is assigned behind stop_gradient?
static bool is_stopped(const char *program, const char *state) {
  char assigned[64];
  snprintf(assigned, sizeof assigned, "\n  %s = stop_gradient(", state);
  const char *at = strstr(program, assigned);
  if (!at) return false;
  int depth = 1;
  for (at += strlen(assigned); depth && *at; at++) depth += (*at == '(') - (*at == ')');
  return *at == '\n';
}

// Cotangents of packed sequences may end at a state whose update is behind stop_gradient, even
// where a sequence has no steps. NAN is compared with nothing.
static void skip_stopped(problem *exact, const char *program) {
  for (int i = 0; i < exact->signature->variable_count; i++) {
    if (exact->signature->variables[i].kind != REC_STATE ||
        !is_stopped(program, exact->signature->variables[i].name))
      continue;
    for (int64_t k = 0; k < problem_numbers(exact, i); k++) exact->gradient[i][k] = NAN;
  }
}

static outcome compare_segments(const rec_recurrence *compiled, const char *device,
                                const problem *inputs, problem *exact, const run *r,
                                const char *program, message *m) {
  segments_report report = {.wrong = ""};
  problem *got = NULL;
  bool f64 = inputs->signature->token_type == REC_F64, same = true;
  if (!segments_sizes(compiled, device, inputs).summary) return SAME;
  tally.in_segments++;
  if (inputs->cu_seqlens) {
    skip_stopped(exact, program);
    segments_pack(compiled, device, inputs, exact, f64 ? 1e-7 : 1e-3, &report);
  } else {
    got = segments_run(compiled, device, inputs, r->segments, &report);
  }
  if (got) same = is_same(inputs, exact, got, compiled, r, strcmp(device, "host") != 0, m);
  if (*report.wrong) snprintf(m->text, sizeof m->text, "%s", report.wrong);
  problem_free(got);
  return same && !*report.wrong ? SAME : DIFFERENT;
}

// The host's bits are those of one thread.
static bool is_same_alone(const rec_recurrence *compiled, const problem *inputs, const problem *got,
                          rec_run_options options, message *m) {
  problem *alone = problem_copy(inputs);
  options.threads = 1;
  bool same =
      problem_run(alone, compiled, "host", &options) && problem_equal(got, alone, options.backward);
  if (!same) snprintf(m->text, sizeof m->text, "one thread gives other bits than several");
  problem_free(alone);
  return same;
}

// Numbers that differ are another fault than a call that is refused.
static bool is_error(const char *text) { return strncmp(text, "error ", 6) == 0; }

static outcome compare_once(const rec_recurrence *compiled, const char *device, const run *r,
                            const char *program, message *m) {
  problem *inputs = problem_of(rec_recurrence_signature(compiled), r),
          *exact = problem_copy(inputs);
  problem *got = problem_copy(inputs);
  bool executor = strcmp(device, "host") != 0;
  rec_run_options plain = {.backward = r->way != STEPS},
                  options = {.backward = r->way != STEPS,
                             .step = r->way == STEPS,
                             .recompute = r->way == UNSAVED,
                             .threads = executor && r->threads > 3 ? 1 : r->threads,
                             .time_slices = r->slices};
  double most = inputs->signature->token_type == REC_F16 ? 3e4 : 1e6;
  outcome result = DIFFERENT;
  snprintf(m->text, sizeof m->text, "the run fails");
  if (!problem_run(exact, compiled, "reference", &plain))
    snprintf(m->text, sizeof m->text, "%s", rec_message());
  else if (!(problem_largest(exact, true) < most))
    result = WILD;
  else if (r->way == SEGMENTS)
    result = compare_segments(compiled, device, inputs, exact, r, program, m);
  else if (!problem_run(got, compiled, device, &options))
    snprintf(m->text, sizeof m->text, "%s", rec_message());
  else if (is_same(inputs, exact, got, compiled, r, executor, m) &&
           (executor || r->threads != 3 || is_same_alone(compiled, inputs, got, options, m)))
    result = SAME;
  if (result == DIFFERENT && is_error(m->text) && inputs->signature->token_type != REC_F64 &&
      problem_underflows(exact))
    result = WILD;
  problem_free(inputs);
  problem_free(exact);
  problem_free(got);
  return result;
}

static outcome compare(const rec_recurrence *compiled, const char *device, run r,
                       const char *program, message *m) {
  bool f64 = rec_recurrence_signature(compiled)->token_type == REC_F64;
  outcome result = DIFFERENT;
  uint64_t seed = r.numbers;
  for (int draws = f64 ? 1 : 3; draws > 0 && result == DIFFERENT; draws--) {
    result = compare_once(compiled, device, &r, program, m);
    r.numbers = next_random(&seed) >> 16;
  }
  return result;
}

enum { THOUSAND = 1000 };

// Time slices begin at a thousand steps.
static void lengthen(run *r) {
  r->time = THOUSAND + 7 * r->time;
  r->batch = 1;
}

static int64_t numbers_of_step(const rec_recurrence *compiled) {
  const rec_signature *s = rec_recurrence_signature(compiled);
  problem *p = problem_new(s, 1, 1, 3);
  int64_t numbers = 0;
  for (int i = 0; i < s->variable_count; i++) numbers += problem_numbers(p, i);
  problem_free(p);
  return numbers;
}

static bool is_small(const rec_recurrence *compiled) { return numbers_of_step(compiled) <= 30; }

// The executor takes minutes and gigabytes for what the host does in a second.
static void fit_to_executor(run *r, const rec_recurrence *compiled) {
  enum { MOST_NUMBERS = 2000000 };
  int64_t numbers = numbers_of_step(compiled);
  if (numbers * r->time * r->batch > MOST_NUMBERS) r->batch = 1;
  while (numbers * r->time > MOST_NUMBERS) r->time /= 2;
}

// ---- differences -----------------------------------------------------------------------------

// Differences see what stop_gradient hides.
static bool has_differences(const char *program) { return !strstr(program, "stop_gradient"); }

static void check_differences(uint64_t seed, const char *program) {
  fixture f = fixture_open();
  const recurrence *r = fixture_analyse(&f, program);
  double error = INFINITY;
  const char *where = "";
  for (uint64_t draw = 0; draw < 3 && !(error <= 1e-6); draw++) {
    trial t = trial_new(f.memory, r, 1, 4, NULL, 0, seed + draw);
    error = trial_gradient_error(&t, f.memory, 2, seed, &where);
  }
  tally.by_differences++;
  check(error <= 1e-6, "REC_SEED=%llu REC_PROGRAMS=1, the interpreter: %s, error %.1e\n%s",
        (unsigned long long)seed, where, error, program);
  fixture_close(&f);
}

// ---- programs --------------------------------------------------------------------------------

static char *read_file(arena *memory, const char *path) {
  char *text = arena_alloc(memory, 1 << 16);
  FILE *file = fopen(path, "r");
  if (!file || fread(text, 1, (1 << 16) - 1, file) == 0) abort();
  fclose(file);
  return text;
}

static const char *program_of(arena *memory, uint64_t seed, const char *name, contents *has) {
  const char *drawn = random_program(memory, seed, name, has), *given = getenv("REC_FILE");
  return given ? read_file(memory, given) : drawn;
}

// ---- failures --------------------------------------------------------------------------------

typedef struct failure {
  setting setting;
  bool compiles;
  run run;
  message message;
} failure;

static const rec_recurrence *last_of(const rec_module *module) {
  return rec_module_recurrence(module, rec_module_count(module) - 1);
}

static bool fails_again(void *context, const char *text) {
  failure *f = context;
  message m;
  compilation c = start(text, f->setting);
  rec_module *module = compile_finish(&c);
  bool fails = !module && !f->compiles;
  if (module && f->compiles)
    fails = compare(last_of(module), f->setting.device, f->run, text, &m) == DIFFERENT;
  if (fails && module) fails = is_error(m.text) == is_error(f->message.text);
  if (fails && module) f->message = m;
  rec_module_close(module);
  return fails;
}

// A shorter run that fails as well.
static void shorten(failure *f, const char *program) {
  run shorter[] = {f->run, f->run, f->run, f->run, f->run, f->run};
  shorter[0].time = f->run.time / 2;
  shorter[1].time = f->run.time - 1;
  shorter[2].batch = 1;
  shorter[3].threads = 1;
  shorter[4].sequences = f->run.sequences > 1 ? f->run.sequences - 1 : f->run.sequences;
  shorter[5].slices = 0;
  for (int i = 0; i < 6; i++) {
    if (f->run.way == SEGMENTS && f->run.sequences < 0)
      shorter[i].time -= shorter[i].time % f->run.segments;
    run kept = f->run;
    if (!memcmp(&shorter[i], &kept, sizeof kept) || shorter[i].time < 0) continue;
    f->run = shorter[i];
    if (fails_again(f, program)) {
      shorten(f, program);
      return;
    }
    f->run = kept;
  }
}

static void report(failure *f, uint64_t seed, const char *program) {
  enum { TRIES = 250, ALL_TRIES = 2000 };
  static int asked;
  arena *memory = arena_new();
  const char *words = words_of(memory, seed, f->setting);
  check(false, "%s %s\n%s", words, f->compiles ? f->message.text : "recc fails", program);
  printf("%s\n", run_text(memory, f->run));
  if (asked < ALL_TRIES && !getenv("REC_FILE")) {
    asked += TRIES;
    if (f->compiles) shorten(f, program);
    const char *small = shrink_program(memory, program, fails_again, f, TRIES);
    if (f->compiles) shorten(f, small);
    printf("made small: %s %s %s\n%s", words, run_text(memory, f->run),
           f->compiles ? f->message.text : "recc fails", small);
  }
  fflush(stdout);
  arena_free(memory);
}

// ---- batches ---------------------------------------------------------------------------------

// The program of this seed, compiled.
static void judge(const rec_recurrence *compiled, uint64_t seed, setting s) {
  arena *memory = arena_new();
  const char *program = program_of(memory, seed, "r", NULL);
  uint64_t random = seed;
  bool executor = strcmp(s.device, "host") != 0, same = true;
  run given;
  for (int i = 0; i < RUNS && same; i++) {
    failure f = {.setting = s, .compiles = true, .run = draw_run(&random, s)};
    if (executor && i == 1 && is_small(compiled) && f.run.way != STEPS && f.run.way != SEGMENTS)
      lengthen(&f.run);
    if (executor) fit_to_executor(&f.run, compiled);
    if (read_run(&given)) f.run = given;
    outcome result = compare(compiled, s.device, f.run, program, &f.message);
    tally.compared += result != WILD;
    tally.wild += result == WILD;
    tally.executed += executor && result != WILD;
    tally.longest += f.run.time >= THOUSAND && result != WILD;
    same = result != DIFFERENT;
    if (same) check(true, " ");
    if (!same) report(&f, seed, program);
  }
  if (!executor && seed % 10 == 0 && has_differences(program)) check_differences(seed, program);
  arena_free(memory);
}

static void run_one(uint64_t seed, setting s) {
  arena *memory = arena_new();
  const char *text = program_of(memory, seed, "r", NULL);
  compilation c = start(text, s);
  rec_module *module = compile_finish(&c);
  failure f = {.setting = s};
  if (module)
    judge(last_of(module), seed, s);
  else
    report(&f, seed, text);
  rec_module_close(module);
  arena_free(memory);
}

// Programs of one library, while it is compiled.
typedef struct batch {
  uint64_t seeds[BATCH];
  int count;
  setting setting;
  compilation compilation;
} batch;

static const char *text_of(arena *memory, const batch *b) {
  const char *text = "";
  for (int i = 0; i < b->count; i++)
    text = arena_printf(memory, "%s%s\n", text,
                        program_of(memory, b->seeds[i], arena_printf(memory, "r%d", i), NULL));
  return text;
}

static void start_batch(batch *b) {
  arena *memory = arena_new();
  b->compilation = start(text_of(memory, b), b->setting);
  arena_free(memory);
}

static batch start_host(uint64_t first, int count) {
  batch b = {.count = count, .setting = setting_of(first, "host")};
  arena *memory = arena_new();
  for (int i = 0; i < count; i++) {
    contents has;
    b.seeds[i] = first + (uint64_t)i;
    random_program(memory, b.seeds[i], "r", &has);
    coverage_add(&all, &has);
  }
  arena_free(memory);
  start_batch(&b);
  return b;
}

// GPU code takes four times as long as the host's: the first small programs, unless there is one
// alone.
static batch start_executor(const batch *host) {
  enum { SMALL = 600, MOST = 2 };
  batch b = {.setting = setting_of(host->seeds[0], "simt")};
  arena *memory = arena_new();
  for (int i = 0; i < host->count && b.count < MOST; i++)
    if (host->count == 1 || strlen(random_program(memory, host->seeds[i], "r", NULL)) < SMALL)
      b.seeds[b.count++] = host->seeds[i];
  arena_free(memory);
  start_batch(&b);
  return b;
}

// One by one where recc refuses them together.
static void finish_batch(const batch *b) {
  rec_module *module = compile_finish(&b->compilation);
  for (int i = 0; i < b->count; i++) {
    char name[16];
    snprintf(name, sizeof name, "r%d", i);
    if (module)
      judge(getenv("REC_FILE") ? last_of(module) : rec_module_find(module, name), b->seeds[i],
            b->setting);
    else
      run_one(b->seeds[i], b->setting);
  }
  rec_module_close(module);
}

// A report has the schedule of all targets, but none of their code.
static bool is_scheduled(const batch *b) {
  const char *const words[] = {"--target", "all", "--emit=report", NULL};
  arena *memory = arena_new();
  bool well = compile_output(text_of(memory, b), words);
  arena_free(memory);
  return well;
}

static void schedule(const batch *b) {
  bool together = is_scheduled(b);
  for (int i = 0; i < b->count; i++)
    check(together || is_scheduled(&(batch){.seeds = {b->seeds[i]}, .count = 1}),
          "recc --target all --emit=report fails on REC_SEED=%llu REC_PROGRAMS=1",
          (unsigned long long)b->seeds[i]);
}

// While a batch runs, its GPU code is compiled, and then the next one.
static void run_programs(uint64_t seed, int programs) {
  enum { SCHEDULED = 8 };
  batch next = start_host(seed, least(programs, BATCH));
  for (int done = 0; done < programs; done += BATCH) {
    int rest = programs - done - BATCH;
    batch now = next, gpu = start_executor(&now);
    finish_batch(&now);
    if (rest > 0) next = start_host(seed + (uint64_t)(done + BATCH), least(rest, BATCH));
    finish_batch(&gpu);
    if (now.count == 1 || now.seeds[0] / BATCH % SCHEDULED == 0) schedule(&now);
  }
}

// ---- programs that found a fault -------------------------------------------------------------

// A file of tests/random/found: its first line is `// DEVICE: words for recc`.
static void run_found(const char *path) {
  enum { LONGEST = 200, MANY = 4, WORDS = 12 };
  arena *memory = arena_new();
  char *text = read_file(memory, path), line[LONGEST], *at = NULL;
  snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
  const char *device = strtok_r(line, "/ :", &at),
             *words[WORDS + 4] = {"-O0", "--target", host_target()};
  if (strcmp(device, "host") != 0) words[2] = simt_target();
  for (int i = 0; i < WORDS; i++) words[3 + i] = strtok_r(NULL, " ", &at);
  rec_module *module = compile_text(text, words);
  check(module, "%s: recc fails", path);
  uint64_t seed = chosen_seed();
  setting s = {.device = device, .chunk = "16", .summary = strstr(text, "--summary")};
  for (int i = 0; module && i < MANY * rec_module_count(module); i++) {
    const rec_recurrence *r = rec_module_recurrence(module, i / MANY);
    message m;
    run one = draw_run(&seed, s);
    check(compare(r, device, one, text, &m) != DIFFERENT, "%s, %s, %s: %s %s", path,
          rec_recurrence_signature(r)->name, device, run_text(memory, one), m.text);
  }
  rec_module_close(module);
  arena_free(memory);
}

static void run_all_found(void) {
  DIR *folder = opendir(REC_SOURCE_DIR "/tests/random/found");
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    char path[512];
    snprintf(path, sizeof path, REC_SOURCE_DIR "/tests/random/found/%s", entry->d_name);
    if (strstr(entry->d_name, ".rec")) run_found(path);
  }
  if (folder) closedir(folder);
}

int main(int word_count, char **words) {
  bool full = word_count > 1 && strcmp(words[1], "full") == 0;
  const char *wanted = getenv("REC_PROGRAMS");
  int programs = wanted ? atoi(wanted) : full ? 20000 : 128;
  uint64_t seed = chosen_seed();
  if (programs >= BATCH) seed -= seed % BATCH;
  printf("seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  if (!wanted || !programs) run_all_found();
  if (programs) run_programs(seed, programs);
  coverage_print(&all);
  printf(
      "%d comparisons, %d in segments, %d on the executor, %d of a thousand steps or more; %d by "
      "differences\n",
      tally.compared, tally.in_segments, tally.executed, tally.longest, tally.by_differences);
  printf("%d set aside because their numbers grow beyond 1e6, or differ and underflow\n",
         tally.wild);
  check(tally.wild <= (tally.compared + tally.wild) / 20,
        "too many programs grow: they test little");
  check(!full || wanted || coverage_least(&all) >= 20,
        "some two constructs are less than 20 times together");
  return checked();
}
