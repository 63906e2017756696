// Recurrences of heads that share lags, states and parameters, of open and of fixed sizes, with several heads in a group
// (tests/random/heads.c). Against the interpreter: outputs, final states and all gradients, in one call, packed and token by
// token.
//
//   REC_SEED=N       the programs of seed N again (a failure prints its seed); else a new seed each run
//   REC_PROGRAMS=N   so many programs (120; 2,000 with the word `full`)
//   REC_CHUNK=N      all of them in chunks of so many steps
//
// Twenty programs are one library, for one kind of processor, in a form, chunk and number type that follow from the seed. f64,
// where the comparison is sharp, must agree to 1e-9 of the rms, or to the effect of inputs that differ by 1e-12 of themselves.
// Every fourth library is f32. Four programs of each f32 library are compiled for GPUs besides, and run on the executor. At a
// kink rounding may pick the other branch: a program fails if three draws of the inputs do.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/heads.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

enum { BATCH = 20, RUNS = 2, EXECUTED = 4 };

static int compared, wild;

static int least(int a, int b) { return a < b ? a : b; }

// ---- compiling -----------------------------------------------------------------------------------------------------------

// The same for all programs of a batch, so that one alone gets the same.
typedef struct setting {
  const char *target, *dtype, *form, *chunk, *device;
} setting;

static setting setting_of(uint64_t seed) {
  static const char *const forms[] = {"chunk", "chunk", "chunk", "chosen", "step"}, *const chunks[] = {"16", "8",  "32", "5",
                                                                                                       "16", "64", "1",  "27"};
  uint64_t random = seed / BATCH;
  const char *target = random_target(next_random(&random));
  const char *dtype = next_random(&random) % 4 ? "f64" : "f32", *form = forms[next_random(&random) % 5],
             *chunk = chunks[next_random(&random) % 8];
  const char *wanted = getenv("REC_CHUNK");
  return (setting){target, dtype, wanted ? "chunk" : form, wanted ? wanted : chunk, "host"};
}

static compilation start(const char *text, setting s) {
  const char *const options[] = {"--target", s.target, "--dtype", s.dtype, "--form", s.form, "--chunk", s.chunk, "-O0", NULL};
  return compile_start(text, options);
}

// ---- comparing -----------------------------------------------------------------------------------------------------------

// Each open axis has a size of its own, a few dozen points in all.
static void draw_sizes(problem *p, uint64_t *seed) {
  static const int64_t sizes[] = {1, 2, 3, 3, 4, 5, 9};
  int64_t points = 1;
  for (int i = 0; i < p->signature->axis_count; i++) {
    if (p->signature->axes[i].size >= 0) continue;
    do p->axis_sizes[i] = sizes[next_random(seed) % 7];
    while (points * p->axis_sizes[i] > 48);
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
    p = problem_new(signature, 1 + (int64_t)(next_random(seed) % 2), lengths[next_random(seed) % 12], 1);
  }
  draw_sizes(p, seed);
  problem_draw(p, next_random(seed), 0.8);
  if (next_random(seed) % 5 == 0) problem_drop_states(p);
  return p;
}

typedef enum outcome { SAME, WILD, DIFFERENT } outcome;

static bool is_same(const problem *inputs, const problem *exact, const problem *got, const rec_recurrence *recurrence,
                    const rec_run_options *options, char *text, size_t size) {
  char where[256];
  bool f64 = inputs->signature->token_type == REC_F64;
  double tolerance = f64 ? 1e-9 : 1e-4,
         error = problem_compare(exact, got, options->backward, f64 ? 1e-4 : 1e-2, where, sizeof where);
  if (error > tolerance)
    tolerance = problem_tolerance(inputs, exact, recurrence, tolerance, f64 ? 1e-12 : 1e-7, options->backward);
  snprintf(text, size, "B=%d T=%d%s%s: error %.2e > %.2e at %s", (int)inputs->batch, (int)inputs->time,
           inputs->cu_seqlens ? " packed" : "", options->step ? " token by token" : "", error, tolerance, where);
  return error <= tolerance;
}

static outcome compare_once(const rec_recurrence *recurrence, const char *device, uint64_t *seed, char *text, size_t size) {
  problem *inputs = random_problem(rec_recurrence_signature(recurrence), seed);
  problem *exact = problem_copy(inputs), *got = problem_copy(inputs);
  int way = (int)(next_random(seed) % 6);
  rec_run_options options = {.backward = way != 0, .step = way == 0, .recompute = way == 1, .threads = 1 + way % 3},
                  plain = {.backward = way != 0};
  outcome result = DIFFERENT;
  if (!problem_run(exact, recurrence, "reference", &plain) || !problem_run(got, recurrence, device, &options))
    snprintf(text, size, "%s", rec_message());
  else if (!(problem_largest(exact, true) < 1e6))
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
    if (!check(result != DIFFERENT, "REC_SEED=%llu REC_PROGRAMS=1 (%s, --target %s --dtype %s --form %s --chunk %s) %s\n%s",
               (unsigned long long)seed, s.device, s.target, s.dtype, s.form, s.chunk, message,
               recurrence_of_heads(memory, seed, "r")))
      break;
  }
  arena_free(memory);
}

// ---- batches -------------------------------------------------------------------------------------------------------------

static void run_one(uint64_t seed, setting s) {
  arena *memory = arena_new();
  const char *text = recurrence_of_heads(memory, seed, "r");
  compilation c = start(text, s);
  rec_module *module = compile_finish(&c);
  if (check(module, "recc fails on REC_SEED=%llu REC_PROGRAMS=1:\n%s", (unsigned long long)seed, text))
    judge(module, "r", seed, s);
  rec_module_close(module);
  arena_free(memory);
}

static compilation start_batch(uint64_t seed, int count, setting s) {
  arena *memory = arena_new();
  const char *text = "";
  for (int i = 0; i < count; i++) {
    const char *program = recurrence_of_heads(memory, seed + (uint64_t)i, arena_printf(memory, "r%d", i));
    text = arena_printf(memory, "%s%s\n", text, program);
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

// The same programs, or some of them, as GPUs run them.
static void run_executed(uint64_t seed, int count, setting s) {
  char targets[32];
  snprintf(targets, sizeof targets, "%s,simt", s.target);
  s.target = targets;
  s.device = "simt";
  compilation c = start_batch(seed, least(count, EXECUTED), s);
  finish_batch(&c, seed, least(count, EXECUTED), s);
}

// Seeds that found a fault. A thread block that goes through value-axis tiles stored 0 over gradients of the first (two). A
// product of one row beside prefetches added all its steps after each of them.
static void judge_found(void) {
  static const uint64_t seeds[] = {780, 1236163, UINT64_C(3412285498)};
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
    setting s = setting_of(seeds[i]);
    compilation one = start_batch(seeds[i], 1, s);
    finish_batch(&one, seeds[i], 1, s);
    if (!strcmp(s.dtype, "f32")) run_executed(seeds[i], 1, s);
  }
}

// The next batch is compiled while this one runs.
int main(int count, char **words) {
  bool full = count > 1 && strcmp(words[1], "full") == 0;
  const char *wanted = getenv("REC_PROGRAMS");
  int programs = wanted ? atoi(wanted) : full ? 2000 : 120;
  uint64_t seed = chosen_seed();
  if (programs >= BATCH) seed -= seed % BATCH;
  printf("seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  if (!wanted) judge_found();
  compilation now, next = start_batch(seed, least(programs, BATCH), setting_of(seed));
  for (int done = 0; done < programs; done += BATCH) {
    uint64_t first = seed + (uint64_t)done;
    int rest = programs - done - BATCH;
    setting s = setting_of(first);
    now = next;
    if (rest > 0) next = start_batch(first + BATCH, least(rest, BATCH), setting_of(first + BATCH));
    finish_batch(&now, first, least(programs - done, BATCH), s);
    if (!strcmp(s.dtype, "f32")) run_executed(first, least(programs - done, BATCH), s);
  }
  printf("%d comparisons, %d set aside because their numbers grow beyond 1e6\n", compared, wild);
  check(wild <= (compared + wild) / 5, "too many programs grow: they test little");
  return checked();
}
