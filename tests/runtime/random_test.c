// Random programs of the whole language (tests/random): what compiled code makes of a program that nobody wrote must be what the
// interpreter makes of it, values and all gradients. In one call, packed, token by token and with nothing saved, on the host and
// on the executor.
//
//   REC_SEED=N       the programs of seed N again (a failure prints its seed); else a new seed each run
//   REC_PROGRAMS=N   so many programs (240; 20,000 with the word `full`)
//   REC_FILE=NAME    the program of this file in place of the one that the seed draws
//
// Sixteen programs are a library, whose form, chunk and number type follow from the seed. f64, where the comparison is sharp, must
// agree to 1e-9 of the rms, or to fifty times the effect of inputs that differ by 1e-12 of themselves. In f32 and 16 bits a program
// may stand at a kink (max, where), at which rounding picks the other branch. It fails only if it does so for three draws of the
// inputs.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/coverage.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

enum { BATCH = 16, RUNS = 2 };

static int compared, wild;

static int least(int a, int b) { return a < b ? a : b; }

// ---- libraries -----------------------------------------------------------------------------------------------------------

// The same for all programs of a batch, so that one alone gets the same.
typedef struct setting {
  const char *target, *dtype, *form, *chunk, *summary, *device;
} setting;

static setting setting_of(uint64_t seed, bool executor) {
  static const char *const forms[] = {"chosen", "chunk", "chunk", "step"}, *const chunks[] = {"16", "8", "32", "5", "64"},
                           *const dtypes[] = {"f64", "f64", "f64", "f32", "f64", "f64", "bf16", "f64", "f64", "f64", "f32", "f16"};
  uint64_t number = seed / BATCH, random = number;
  setting s = {random_target(next_random(&random)), dtypes[number % 12], forms[next_random(&random) % 4],
               chunks[next_random(&random) % 5], next_random(&random) % 3 ? "--no-summary" : "--summary", "host"};
  if (!executor) return s;
  s.target = simt_target();
  s.device = "simt";
  s.dtype = number % 3 ? "f32" : "bf16";
  return s;
}

static compilation start(const char *text, setting s) {
  const char *const options[] = {"--target", s.target, "--dtype", s.dtype, "--form", s.form, "--chunk", s.chunk, "-O0",
                                 *s.summary == '-' && s.summary[2] == 's' ? s.summary : NULL, NULL};
  return compile_start(text, options);
}

static char *program_of(arena *memory, uint64_t seed, const char *name, contents *has) {
  return random_program(memory, seed, name, has);
}

// ---- numbers -------------------------------------------------------------------------------------------------------------

// Promised inputs (`inT3`, ..) keep their promises, and a few numbers stand at the ends.
static void keep_promises(problem *p) {
  for (int i = 0; i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    if (strncmp(v->name, "in", 2) != 0 || is_carried(v)) continue;
    double low = v->name[2] == 'T' ? -1 : v->name[2] == 'N' ? -3 : v->name[2] == 'P' ? 0.5 : 0.125;
    double high = v->name[2] == 'T' ? 1 : v->name[2] == 'N' ? 0 : v->name[2] == 'P' ? 2 : 0.875;
    for (int64_t k = 0; k < problem_numbers(p, i); k++)
      p->value[i][k] = (float)(low + (high - low) / (1 + exp(-2 * p->value[i][k])));
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

static problem *random_problem(const rec_signature *signature, uint64_t *seed) {
  static const int64_t lengths[] = {0, 1, 2, 4, 7, 15, 16, 17, 20, 33, 40, 67};
  problem *p;
  if (next_random(seed) % 3 == 0) {
    int32_t each[5];
    for (int i = 0; i < 5; i++) each[i] = (int32_t)lengths[next_random(seed) % 11];
    p = problem_packed(signature, each, (int64_t)(next_random(seed) % 6), 1);
  } else {
    p = problem_new(signature, 1 + (int64_t)(next_random(seed) % 3), lengths[next_random(seed) % 12], 1);
  }
  draw_sizes(p, seed);
  problem_draw(p, next_random(seed), 0.8);
  keep_promises(p);
  problem_retype(p, signature);
  if (next_random(seed) % 5 == 0) problem_drop_states(p);
  return p;
}

// ---- comparing -----------------------------------------------------------------------------------------------------------

typedef enum outcome { SAME, WILD, DIFFERENT } outcome;

static double tolerance_of(const problem *inputs, const problem *exact, const rec_recurrence *r, double least, double shake,
                           bool backward) {
  return problem_tolerance(inputs, exact, r, least, shake, backward);
}

static bool is_same(const problem *inputs, const problem *exact, const problem *got, const rec_recurrence *recurrence,
                    const rec_run_options *options, char *text, size_t size) {
  char where[256];
  rec_dtype type = inputs->signature->token_type;
  bool f64 = type == REC_F64;
  double tolerance = f64 ? 1e-9 : 1e-4, shake = f64 ? 1e-12 : 1e-7;
  double error = problem_compare(exact, got, options->backward, f64 ? 1e-4 : 1e-2, where, sizeof where);
  if (error > tolerance) tolerance = tolerance_of(inputs, exact, recurrence, tolerance, shake, options->backward);
  snprintf(text, size, "B=%d T=%d%s%s: error %.2e > %.2e at %s", (int)inputs->batch, (int)inputs->time,
           inputs->cu_seqlens ? " packed" : "", options->step ? " token by token" : options->recompute ? " nothing saved" : "",
           error, tolerance, where);
  return error <= tolerance;
}

static outcome compare_once(const rec_recurrence *recurrence, const char *device, uint64_t *seed, char *text, size_t size) {
  problem *inputs = random_problem(rec_recurrence_signature(recurrence), seed);
  problem *exact = problem_copy(inputs), *got = problem_copy(inputs);
  int way = (int)(next_random(seed) % 6);
  rec_run_options options = {.backward = way != 0, .step = way == 0, .recompute = way == 1, .threads = 1 + way % 3},
                  plain = {.backward = way != 0};
  double most = inputs->signature->token_type == REC_F16 ? 3e4 : 1e6;
  outcome result = DIFFERENT;
  if (!problem_run(exact, recurrence, "reference", &plain) || !problem_run(got, recurrence, device, &options))
    snprintf(text, size, "%s", rec_message());
  else if (!(problem_largest(exact, true) < most))
    result = WILD;
  else if (is_same(inputs, exact, got, recurrence, &options, text, size))
    result = SAME;
  problem_free(inputs);
  problem_free(exact);
  problem_free(got);
  return result;
}

// The program of this seed, compiled.
static void judge(const rec_module *module, const char *name, uint64_t seed, setting s) {
  const rec_recurrence *recurrence = rec_module_find(module, name);
  arena *memory = arena_new();
  char message[1024];
  uint64_t random = seed;
  for (int run = 0; run < RUNS; run++) {
    outcome result = DIFFERENT;
    for (int draws = 3; draws > 0 && result == DIFFERENT; draws--)
      result = compare_once(recurrence, s.device, &random, message, sizeof message);
    compared += result != WILD;
    wild += result == WILD;
    if (!check(result != DIFFERENT, "REC_SEED=%llu REC_PROGRAMS=1 (%s, --target %s --dtype %s --form %s --chunk %s %s) %s\n%s",
               (unsigned long long)seed, s.device, s.target, s.dtype, s.form, s.chunk, s.summary, message,
               program_of(memory, seed, "r", NULL)))
      break;
  }
  arena_free(memory);
}

// ---- batches -------------------------------------------------------------------------------------------------------------

static void run_one(uint64_t seed, setting s) {
  arena *memory = arena_new();
  const char *text = program_of(memory, seed, "r", NULL);
  compilation c = start(text, s);
  rec_module *module = compile_finish(&c);
  if (check(module, "recc fails on REC_SEED=%llu REC_PROGRAMS=1 (%s, --target %s --dtype %s --form %s --chunk %s %s):\n%s",
            (unsigned long long)seed, s.device, s.target, s.dtype, s.form, s.chunk, s.summary, text))
    judge(module, "r", seed, s);
  rec_module_close(module);
  arena_free(memory);
}

static compilation start_batch(uint64_t seed, int count, setting s, coverage *all) {
  arena *memory = arena_new();
  const char *text = "";
  for (int i = 0; i < count; i++) {
    contents has;
    const char *program = program_of(memory, seed + (uint64_t)i, arena_printf(memory, "r%d", i), &has);
    text = arena_printf(memory, "%s%s\n", text, program);
    if (all) coverage_add(all, &has);
  }
  compilation c = start(text, s);
  arena_free(memory);
  return c;
}

// One by one where recc refuses them together.
static void finish_batch(const compilation *c, uint64_t seed, int count, setting s) {
  rec_module *module = compile_finish(c);
  for (int i = 0; i < count; i++) {
    char name[16];
    snprintf(name, sizeof name, "r%d", i);
    if (module)
      judge(module, name, seed + (uint64_t)i, s);
    else
      run_one(seed + (uint64_t)i, s);
  }
  rec_module_close(module);
}

// The next batch is compiled while this one runs.
int main(int count, char **words) {
  static coverage all;
  bool full = count > 1 && strcmp(words[1], "full") == 0;
  const char *wanted = getenv("REC_PROGRAMS");
  int programs = wanted ? atoi(wanted) : full ? 20000 : 240;
  uint64_t seed = chosen_seed();
  if (programs >= BATCH) seed -= seed % BATCH;
  printf("seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  compilation now, next = start_batch(seed, least(programs, BATCH), setting_of(seed, false), &all);
  for (int done = 0; done < programs; done += BATCH) {
    uint64_t first = seed + (uint64_t)done;
    int rest = programs - done - BATCH;
    now = next;
    if (rest > 0) next = start_batch(first + BATCH, least(rest, BATCH), setting_of(first + BATCH, false), &all);
    finish_batch(&now, first, least(programs - done, BATCH), setting_of(first, false));
  }
  coverage_print(&all);
  printf("%d comparisons, %d set aside because their numbers grow beyond 1e6\n", compared, wild);
  check(wild <= (compared + wild) / 5, "too many programs grow: they test little");
  return checked();
}
