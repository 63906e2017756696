// Random recurrences: what the compiled code makes of a program that nobody wrote must be what the interpreter makes of it, values
// and all gradients.
//
//   REC_SEED=N       the programs of seed N again (a failure prints its seed); else a new seed each run
//   REC_PROGRAMS=N   so many programs (200; 320 with the word `full`)
//   REC_DTYPE=TYPE   f32, bf16 or f16 beside f64 (drawn for each batch of programs)
//
// Programs are compiled many to a file, in float64, where the comparison is sharp, and in another type. Tolerances follow from how far
// tiny changes of the inputs move the results. In f32 arithmetic a program may stand at a kink (max, where), at which rounding
// picks the other branch. It fails only if it does so for three draws of the inputs.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/generate.h"
#include "tests/recurrence/structured.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

enum { BATCH = 20 };

// Sequences of random lengths, many of them 0 or 1.
static problem *random_packed(const rec_signature *signature, uint64_t *seed) {
  int32_t each[8];
  int64_t count = (int64_t)(next_random(seed) % 9);
  for (int64_t i = 0; i < count; i++) {
    int32_t bound = next_random(seed) % 2 ? 2 : 40;
    each[i] = (int32_t)(next_random(seed) % (uint64_t)bound);
  }
  return problem_packed(signature, each, count, 1 + (int64_t)(next_random(seed) % 3));
}

static problem *random_problem(const rec_signature *signature, uint64_t *seed) {
  static const int64_t lengths[] = {0, 1, 2, 3, 5, 8, 15, 16, 17, 20, 33};
  problem *p;
  if (next_random(seed) % 4 == 0) {
    p = random_packed(signature, seed);
  } else {
    int64_t time = lengths[next_random(seed) % 11], batch = 1 + (int64_t)(next_random(seed) % 3);
    p = problem_new(signature, batch, time, 1 + (int64_t)(next_random(seed) % 3));
  }
  problem_draw(p, next_random(seed), 0.8);
  return p;
}

typedef enum outcome { SAME, WILD, DIFFERENT } outcome;

static outcome compare_once(const rec_recurrence *recurrence, uint64_t *seed, char *text, size_t size) {
  const rec_signature *signature = rec_recurrence_signature(recurrence);
  bool f64 = signature->token_type == REC_F64, f16 = signature->token_type == REC_F16;
  problem *inputs = random_problem(signature, seed), *exact = problem_copy(inputs), *host = problem_copy(inputs);
  rec_run_options plain = {.backward = true}, options = {.backward = true};
  int way = (int)(next_random(seed) % 6);
  if (way == 0) plain.backward = options.backward = false, options.step = true;
  options.recompute = way == 1;
  options.threads = 1 + way % 3;
  outcome result = DIFFERENT;
  if (!problem_run(exact, recurrence, "reference", &plain) || !problem_run(host, recurrence, "host", &options)) {
    snprintf(text, size, "%s", rec_message());
  } else if (!(problem_largest(exact, plain.backward) < (f16 ? 6e4 : 1e6))) {
    result = WILD;
  } else {
    char where[256];
    double tolerance = problem_tolerance(inputs, exact, recurrence, f64 ? 1e-9 : 1e-4, f64 ? 1e-12 : 1e-7, plain.backward);
    double error = problem_compare(exact, host, plain.backward, f64 ? 1e-4 : 1e-2, where, sizeof where);
    if (error <= tolerance) result = SAME;
    snprintf(text, size, "%s%s B=%lld T=%lld%s: error %.2e > %.2e at %s", rec_dtype_name(signature->token_type),
             options.step ? " step by step" : "", (long long)inputs->batch, (long long)inputs->time,
             inputs->cu_seqlens ? " packed" : "", error, tolerance, where);
  }
  problem_free(inputs);
  problem_free(exact);
  problem_free(host);
  return result;
}

static outcome compare(const rec_recurrence *recurrence, uint64_t seed, char *text, size_t size) {
  bool f64 = rec_recurrence_signature(recurrence)->token_type == REC_F64;
  for (int draws = f64 ? 1 : 3; draws > 0; draws--) {
    outcome result = compare_once(recurrence, &seed, text, size);
    if (result != DIFFERENT) return result;
  }
  return DIFFERENT;
}

typedef struct tally {
  uint64_t seed;
  const char *type, *target;  // of the batch at hand; its programs are compiled in f64, too
  int compared, wild;
} tally;

// Built freely from expressions, or around the structures that linearity knows.
static char *random_program(arena *memory, uint64_t seed, const char *name) {
  return seed % 2 ? random_recurrence(memory, seed, name) : structured_recurrence(memory, seed, name);
}

// One program of a module against the interpreter.
static void judge(tally *t, const rec_module *module, const char *name, uint64_t seed) {
  arena *memory = arena_new();
  char message[1024];
  outcome result = compare(rec_module_find(module, name), seed, message, sizeof message);
  t->wild += result == WILD;
  t->compared += result != WILD;
  if (result != WILD) {
    check(result == SAME, "REC_SEED=%llu REC_PROGRAMS=1 REC_DTYPE=%s (%s), %s\n%s", (unsigned long long)seed, t->type,
          t->target, message, random_program(memory, seed, "r"));
  }
  arena_free(memory);
}

// Where a whole batch does not compile, its programs one by one.
static void run_one(tally *t, uint64_t seed, const char *const *options) {
  arena *memory = arena_new();
  const char *text = random_program(memory, seed, "r");
  rec_module *module = compile_text(text, options);
  if (check(module, "recc fails on REC_SEED=%llu REC_PROGRAMS=1 REC_DTYPE=%s:\n%s", (unsigned long long)seed, t->type, text)) {
    judge(t, module, "r", seed);
  }
  rec_module_close(module);
  arena_free(memory);
}

static void finish_batch(tally *t, const compilation *c, uint64_t seed, int count, const char *const *options) {
  rec_module *module = compile_finish(c);
  for (int i = 0; i < count; i++) {
    char name[16];
    snprintf(name, sizeof name, "r%d", i);
    if (module)
      judge(t, module, name, seed + (uint64_t)i);
    else
      run_one(t, seed + (uint64_t)i, options);
  }
  rec_module_close(module);
}

static const char *draw_type(uint64_t seed) {
  static const char *const types[] = {"f32", "bf16", "f32", "f16"};
  const char *wanted = getenv("REC_DTYPE");
  return wanted ? wanted : types[next_random(&seed) % 4];
}

// Every eighth batch is compiled with all the effort that users get, the others quickly.
static void run_batch(tally *t, uint64_t seed, int count, int number) {
  arena *memory = arena_new();
  const char *text = "";
  t->type = draw_type(seed);
  t->target = random_target(seed);
  const char *const f64[] = {"--target", t->target, "--dtype", "f64", "-O0", NULL};
  const char *const other[] = {"--target", t->target, "--dtype", t->type, number % 8 == 0 ? "-O3" : "-O0", NULL};
  for (int i = 0; i < count; i++) {
    const char *name = arena_printf(memory, "r%d", i);
    text = arena_printf(memory, "%s%s\n", text, random_program(memory, seed + (uint64_t)i, name));
  }
  compilation first = compile_start(text, f64), second = compile_start(text, other);
  finish_batch(t, &first, seed, count, f64);
  finish_batch(t, &second, seed, count, other);
  arena_free(memory);
}

int main(int words, char **word) {
  bool full = words > 1 && strcmp(word[1], "full") == 0;
  const char *wanted = getenv("REC_PROGRAMS");
  int count = wanted ? atoi(wanted) : full ? 320 : 200;
  tally t = {.seed = chosen_seed()};
  printf("seed %llu\n", (unsigned long long)t.seed);
  fflush(stdout);
  for (int done = 0; done < count; done += BATCH) {
    int batch = count - done < BATCH ? count - done : BATCH;
    run_batch(&t, t.seed + (uint64_t)done, batch, done / BATCH);
  }
  printf("%d comparisons, %d programs set aside because their numbers grow large\n", t.compared, t.wild);
  check(t.compared + t.wild == 2 * count || count == 0, "not every program was compared");
  check(t.wild <= count / 5, "too many programs grow: they test little");
  return checked();
}
