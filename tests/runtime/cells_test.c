// Cells that are not linear (tests/random/cells.c), of many sequences at a time, against the interpreter: outputs, final states
// and all gradients. The host takes several sequences in one pass over time where a batch has enough of them. It takes packed
// sequences so where they have one length.
//
//   REC_SEED=N       the programs of seed N again (a failure prints its seed); else a new seed each run
//   REC_PROGRAMS=N   so many programs (8; 200 with the word `full`)
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/cells.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

enum { BATCH = 4, RUNS = 4 };

static int compared;

static void drop_states(problem *p) {
  for (int i = 0; i < p->signature->variable_count; i++) {
    if (!is_carried(&p->signature->variables[i])) continue;
    free(p->value[i]);
    free(p->d_final[i]);
    p->value[i] = p->d_final[i] = NULL;
  }
}

// A batch; packed sequences of one length, whole chunks or not; or of several lengths.
static problem *random_problem(const rec_signature *signature, uint64_t *seed) {
  static const int64_t lengths[] = {1, 2, 17, 31, 32, 33, 40};
  int64_t entries = 5 + (int64_t)(next_random(seed) % 15);
  int way = (int)(next_random(seed) % 4);
  int32_t each[20];
  for (int64_t i = 0; i < entries; i++) each[i] = way == 2 ? 32 : way == 3 && i % 3 ? 9 : (int32_t)lengths[entries % 7];
  problem *p = way < 2 ? problem_new(signature, entries, lengths[next_random(seed) % 7], 1)
                       : problem_packed(signature, each, entries, 1);
  problem_draw(p, next_random(seed), 0.4);
  if (next_random(seed) % 5 == 0) drop_states(p);
  return p;
}

static bool is_same(const problem *inputs, const problem *exact, const problem *got, const rec_recurrence *recurrence,
                    const rec_run_options *options, char *text, size_t size) {
  char where[256];
  bool f64 = inputs->signature->token_type == REC_F64;
  double tolerance = f64 ? 1e-9 : 2e-5;
  double error = problem_compare(exact, got, options->backward, f64 ? 1e-4 : 1e-2, where, sizeof where);
  if (error > tolerance)
    tolerance = problem_tolerance(inputs, exact, recurrence, tolerance, f64 ? 1e-12 : 1e-7, options->backward);
  snprintf(text, size, "B=%d T=%d%s%s: error %.2e > %.2e at %s", (int)inputs->batch, (int)inputs->time,
           inputs->cu_seqlens ? " packed" : "", options->step ? " token by token" : "", error, tolerance, where);
  return error <= tolerance;
}

// One thread and three: the same bits.
static bool compare_once(const rec_recurrence *recurrence, uint64_t *seed, char *text, size_t size) {
  problem *inputs = random_problem(rec_recurrence_signature(recurrence), seed);
  problem *exact = problem_copy(inputs), *got = problem_copy(inputs), *other = problem_copy(inputs);
  int way = (int)(next_random(seed) % 5);
  const rec_run_options plain = {.backward = way != 0};
  rec_run_options options = {.backward = way != 0, .step = way == 0, .recompute = way == 1, .threads = 3}, one = options;
  one.threads = 1;
  snprintf(text, size, "one thread gives other bits than three");
  bool same = false;
  if (!problem_run(exact, recurrence, "reference", &plain) || !problem_run(got, recurrence, "host", &options) ||
      !problem_run(other, recurrence, "host", &one))
    snprintf(text, size, "%s", rec_message());
  else if (problem_equal(got, other, options.backward))
    same = is_same(inputs, exact, got, recurrence, &options, text, size);
  compared++;
  problem_free(inputs);
  problem_free(exact);
  problem_free(got);
  problem_free(other);
  return same;
}

// At a kink rounding may pick the other branch: a program fails if three draws of the inputs do.
static void judge(const rec_recurrence *recurrence, const char *program, uint64_t seed) {
  char message[1024];
  uint64_t random = seed;
  for (int run = 0; run < RUNS; run++) {
    bool same = false;
    for (int draws = 0; draws < 3 && !same; draws++) same = compare_once(recurrence, &random, message, sizeof message);
    if (!check(same, "REC_SEED=%llu REC_PROGRAMS=1: %s\n%s", (unsigned long long)seed, message, program)) return;
  }
}

static const char *type_of(uint64_t seed) { return seed / BATCH % 2 ? "f32" : "f64"; }

// What a library has follows from the seed of its first program, so that one alone gets the same.
static void run_library(uint64_t seed, int count) {
  arena *memory = arena_new();
  const char *text = "";
  for (int i = 0; i < count; i++)
    text = arena_printf(memory, "%s%s\n", text, random_cell(memory, seed + (uint64_t)i, arena_printf(memory, "r%d", i)));
  const char *const options[] = {"--target", random_target(seed / BATCH), "--dtype", type_of(seed), "-O0", NULL};
  rec_module *module = compile_text(text, options);
  check(module, "recc fails on REC_SEED=%llu:\n%s", (unsigned long long)seed, text);
  for (int i = 0; module && i < count; i++)
    judge(rec_module_find(module, arena_printf(memory, "r%d", i)), random_cell(memory, seed + (uint64_t)i, "r"),
          seed + (uint64_t)i);
  rec_module_close(module);
  arena_free(memory);
}

int main(int count, char **words) {
  bool full = count > 1 && strcmp(words[1], "full") == 0;
  const char *wanted = getenv("REC_PROGRAMS");
  int programs = wanted ? atoi(wanted) : full ? 200 : 8;
  uint64_t seed = chosen_seed();
  if (programs >= BATCH) seed -= seed % BATCH;
  printf("seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  for (int done = 0; done < programs; done += BATCH)
    run_library(seed + (uint64_t)done, programs - done < BATCH ? programs - done : BATCH);
  printf("%d comparisons\n", compared);
  return checked();
}
