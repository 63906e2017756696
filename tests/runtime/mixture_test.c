// Structures that nobody put together before: recurrences from tests/random/mixture.c, compiled for chunks of any size. Against
// the interpreter: values and all gradients, in one call, packed and token by token.
//
//   REC_SEED=N       the programs of seed N again (a failure prints its seed); else a new seed each run
//   REC_PROGRAMS=N   so many programs (16; 400 with the word `full`)
//
// f64 must agree to 1e-9 of the rms. f32 may be ten times as far off as a plain loop, and 1e-4. At a kink (max, abs) rounding
// may pick the other branch, so it fails only if three draws of the inputs do. So may 16-bit tokens, which two batches of three
// have. Their inputs are rounded to 16 bits, and the rounding of each result is allowed.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/mixture.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

// The libraries of a batch: f64 and f32 in chunks, f32 one step at a time, and perhaps tokens of 16 bits in chunks.
typedef enum kind { CHUNKED_F64, CHUNKED_F32, PLAIN_F32, CHUNKED_NARROW, KINDS } kind;
enum { BATCH = 8 };

static int compared, narrow_compared, wild;

// Promised inputs keep their promise.
static void draw_numbers(problem *p, uint64_t seed) {
  problem_draw(p, seed, 0.8);
  for (int i = 0; i < p->signature->variable_count; i++) {
    if (strncmp(p->signature->variables[i].name, "promised", 8) != 0) continue;
    for (int64_t k = 0; k < problem_numbers(p, i); k++) p->value[i][k] = (float)(-3 / (1 + exp(-2 * p->value[i][k])));
  }
}

static problem *random_problem(const rec_signature *signature, uint64_t *seed) {
  static const int64_t lengths[] = {0, 1, 2, 15, 16, 17, 31, 33, 40, 64, 65, 130};
  int64_t heads = 1 + (int64_t)(next_random(seed) % 2);
  problem *p;
  if (next_random(seed) % 4 == 0) {
    int32_t each[5];
    for (int i = 0; i < 5; i++) each[i] = (int32_t)lengths[next_random(seed) % 10];
    p = problem_packed(signature, each, 5, heads);
  } else {
    int64_t time = lengths[next_random(seed) % 12];
    p = problem_new(signature, time > 40 ? 1 : 2, time, heads);
  }
  draw_numbers(p, next_random(seed));
  return p;
}

static const char *const kind_names[KINDS] = {"f64", "f32", "plain f32", "16 bits"};

static bool run_host(const problem *inputs, const rec_recurrence *recurrence, rec_run_options options, problem **result) {
  *result = problem_copy(inputs);
  problem_retype(*result, rec_recurrence_signature(recurrence));
  return problem_run(*result, recurrence, "host", &options);
}

typedef struct trial {
  const rec_recurrence *recurrences[KINDS];
  const problem *inputs, *exact;
  rec_run_options options;
  double plain;
} trial;

// Nothing there leaves the range of f16.
static const double largest_narrow = 3e4;

// The trial on inputs rounded to 16 bits, and what is exact for them. False: there is none, or nothing to compare.
static bool rounded_trial(const trial *t, problem **inputs, problem **exact) {
  const rec_run_options plain = {.backward = t->options.backward};
  const rec_recurrence *narrow = t->recurrences[CHUNKED_NARROW];
  if (!narrow) return false;
  *inputs = problem_copy(t->inputs);
  problem_retype(*inputs, rec_recurrence_signature(narrow));
  *exact = problem_copy(*inputs);
  if (problem_run(*exact, narrow, "reference", &plain) && problem_largest(*exact, true) < largest_narrow) return true;
  problem_free(*inputs);
  problem_free(*exact);
  return false;
}

static bool agrees(trial *t, kind k, char *text, size_t size) {
  char where[256];
  problem *got;
  bool f64 = k == CHUNKED_F64;
  if (!run_host(t->inputs, t->recurrences[k], t->options, &got)) {
    snprintf(text, size, "%s", rec_message());
    problem_free(got);
    return false;
  }
  double error = problem_compare(t->exact, got, t->options.backward, f64 ? 1e-4 : 1e-2, where, sizeof where);
  double tolerance = f64 ? 1e-9 : fmax(1e-4, 10 * t->plain);
  if (k == PLAIN_F32) t->plain = error;
  if (k != PLAIN_F32 && error > tolerance)
    tolerance = problem_tolerance(t->inputs, t->exact, t->recurrences[k], tolerance, f64 ? 1e-12 : 1e-7, t->options.backward);
  snprintf(text, size, "%s B=%d T=%d%s%s: error %.2e > %.2e (plain f32 loop %.2e) at %s", kind_names[k], (int)got->batch,
           (int)got->time, got->cu_seqlens ? " packed" : "", t->options.step ? " token by token" : "", error, tolerance,
           t->plain, where);
  problem_free(got);
  return k == PLAIN_F32 || error <= tolerance;
}

static bool narrow_agrees(trial *t, char *text, size_t size) {
  problem *inputs, *exact;
  if (!rounded_trial(t, &inputs, &exact)) return true;
  trial rounded = *t;
  rounded.inputs = inputs;
  rounded.exact = exact;
  bool same = agrees(&rounded, CHUNKED_NARROW, text, size);
  narrow_compared++;
  problem_free(inputs);
  problem_free(exact);
  return same;
}

// 1: agrees, 0: does not, -1: grows too far to tell.
static int compare_once(trial *t, uint64_t *seed, char *text, size_t size) {
  problem *inputs = random_problem(rec_recurrence_signature(t->recurrences[CHUNKED_F64]), seed);
  problem *exact = problem_copy(inputs);
  int way = (int)(next_random(seed) % 5);
  t->options = (rec_run_options){.backward = way != 0, .step = way == 0, .recompute = way == 1, .threads = 1 + way % 3};
  const rec_run_options plain = {.backward = way != 0};
  t->inputs = inputs;
  t->exact = exact;
  int result = 1;
  if (!problem_run(exact, t->recurrences[CHUNKED_F64], "reference", &plain)) {
    snprintf(text, size, "%s", rec_message());
    result = 0;
  } else if (!(problem_largest(exact, true) < 1e6)) {
    result = -1;
  } else {
    result = agrees(t, CHUNKED_F64, text, size);
    char other[1024];
    agrees(t, PLAIN_F32, other, sizeof other);
    if (result && !(agrees(t, CHUNKED_F32, text, size) && narrow_agrees(t, text, size))) result = 2;  // what is rounded alone
  }
  problem_free(inputs);
  problem_free(exact);
  return result;
}

static void judge(rec_module *const *modules, const char *name, uint64_t seed, const char *words) {
  arena *memory = arena_new();
  char message[1024];
  trial t = {.plain = 0};
  uint64_t random = seed;
  for (int k = 0; k < KINDS; k++) t.recurrences[k] = modules[k] ? rec_module_find(modules[k], name) : NULL;
  for (int run = 0; run < 4; run++) {
    int result = 2;
    for (int draws = 3; draws > 0 && result == 2; draws--) result = compare_once(&t, &random, message, sizeof message);
    compared += result >= 0;
    wild += result < 0;
    if (!check(result == 1 || result < 0, "REC_SEED=%llu REC_PROGRAMS=1 (%s) %s\n%s", (unsigned long long)seed, words, message,
               mixed_recurrence(memory, seed, "r")))
      break;
  }
  arena_free(memory);
}

// What a batch has follows from its seed, so that one program alone gets the same.
static const char *chunk_of(uint64_t seed) {
  static const char *const chunks[] = {"16", "32", "64", "128", "8"};
  return chunks[seed / BATCH % 5];
}

static const char *narrow_of(uint64_t seed) {
  static const char *const types[] = {"bf16", "f16", NULL};
  return types[seed / BATCH % 3];
}

static bool compile_all(const char *text, uint64_t seed, rec_module **modules) {
  const char *chunk = chunk_of(seed), *narrow = narrow_of(seed), *target = random_target(seed / BATCH);
  const char *const words[KINDS][10] = {
      {"--target", target, "--dtype", "f64", "--form", "chunk", "--chunk", chunk, "-O0", NULL},
      {"--target", target, "--dtype", "f32", "--form", "chunk", "--chunk", chunk, "-O0", NULL},
      {"--target", target, "--dtype", "f32", "--form", "step", "-O0", NULL},
      {"--target", target, "--dtype", narrow, "--form", "chunk", "--chunk", chunk, "-O0", NULL}};
  compilation started[KINDS];
  int kinds = narrow ? KINDS : CHUNKED_NARROW;
  bool complete = true;
  for (int k = 0; k < KINDS; k++) modules[k] = NULL;
  for (int k = 0; k < kinds; k++) started[k] = compile_start(text, words[k]);
  for (int k = 0; k < kinds; k++) {
    modules[k] = compile_finish(&started[k]);
    complete = complete && modules[k];
  }
  return complete;
}

static void close_all(rec_module **modules) {
  for (int k = 0; k < KINDS; k++) rec_module_close(modules[k]);
}

static void run_one(uint64_t seed) {
  arena *memory = arena_new();
  rec_module *modules[KINDS];
  const char *text = mixed_recurrence(memory, seed, "r");
  if (check(compile_all(text, seed, modules), "recc fails on REC_SEED=%llu REC_PROGRAMS=1:\n%s", (unsigned long long)seed,
            text))
    judge(modules, "r", seed, chunk_of(seed));
  close_all(modules);
  arena_free(memory);
}

// Programs of one chunk size together in one library; one by one where recc refuses that.
static void run_batch(uint64_t seed, int count) {
  arena *memory = arena_new();
  rec_module *modules[KINDS];
  const char *text = "";
  for (int i = 0; i < count; i++) {
    const char *name = arena_printf(memory, "r%d", i);
    text = arena_printf(memory, "%s%s\n", text, mixed_recurrence(memory, seed + (uint64_t)i, name));
  }
  bool complete = compile_all(text, seed, modules);
  for (int i = 0; i < count; i++) {
    if (complete)
      judge(modules, arena_printf(memory, "r%d", i), seed + (uint64_t)i, chunk_of(seed));
    else
      run_one(seed + (uint64_t)i);
  }
  close_all(modules);
  arena_free(memory);
}

int main(int count, char **words) {
  bool full = count > 1 && strcmp(words[1], "full") == 0;
  const char *wanted = getenv("REC_PROGRAMS");
  int programs = wanted ? atoi(wanted) : full ? 400 : 16;
  uint64_t seed = chosen_seed();
  if (programs >= BATCH) seed -= seed % BATCH;
  printf("seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  for (int done = 0; done < programs; done += BATCH) {
    int batch = programs - done < BATCH ? programs - done : BATCH;
    run_batch(seed + (uint64_t)done, batch);
  }
  printf("%d comparisons, %d in 16 bits, %d set aside because their numbers grow beyond 1e6\n", compared, narrow_compared,
         wild);
  check(wild <= (compared + wild) / 5, "too many programs grow: they test little");
  return checked();
}
