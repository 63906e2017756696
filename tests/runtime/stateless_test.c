// Recurrences without states, from tests/random/stateless.c. Code is made for the executor and for a GPU target. The executor's
// values and all gradients are the interpreter's, in one call, packed, token by token and in time slices. 200 more programs are
// scheduled for every target without their code, which is most of the time. (15 s of processor time.)
//
//   REC_SEED=N       the programs of seed N again (a failure prints its seed); else a new seed each run
//   REC_PROGRAMS=N   so many programs (20; 480 with the word `full`)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/stateless.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

enum { BATCH = 16 };

static int compared;

static problem *random_problem(const rec_signature *signature, uint64_t *seed) {
  static const int64_t lengths[] = {0, 1, 2, 5, 9, 16, 17, 33, 70};
  int64_t run_time_size = next_random(seed) % 3 ? 1 + (int64_t)(next_random(seed) % 3) : 70;
  problem *p;
  if (next_random(seed) % 4 == 0) {
    int32_t each[4];
    for (int i = 0; i < 4; i++) each[i] = (int32_t)lengths[next_random(seed) % 8];
    p = problem_packed(signature, each, 4, run_time_size);
  } else {
    p = problem_new(signature, 1 + (int64_t)(next_random(seed) % 2), lengths[next_random(seed) % 9], run_time_size);
  }
  problem_draw(p, next_random(seed), 0.8);
  return p;
}

// Tokens have 16 bits, and so have values that products alone read, such as a cotangent summed over an axis. The bound is
// eight times half a unit in their last place.
static double least_error(rec_dtype type) { return type == REC_BF16 ? 0x1p-5 : type == REC_F16 ? 0x1p-8 : 1e-4; }

static bool compare_once(const rec_recurrence *r, uint64_t *seed, char *text, size_t size) {
  problem *inputs = random_problem(rec_recurrence_signature(r), seed), *exact = problem_copy(inputs),
          *got = problem_copy(inputs);
  int way = (int)(next_random(seed) % 5);
  rec_run_options plain = {.backward = way != 0}, options = {.backward = way != 0, .step = way == 0};
  if (way == 1) options.time_slices = 3;
  options.recompute = way == 2;
  bool same = problem_run(exact, r, "reference", &plain) && problem_run(got, r, "simt", &options);
  snprintf(text, size, "%s", same ? "" : rec_message());
  if (same) {
    char where[256];
    double tolerance =
               problem_tolerance(inputs, exact, r, least_error(rec_recurrence_signature(r)->token_type), 1e-7, plain.backward),
           error = problem_compare(exact, got, plain.backward, 1e-2, where, sizeof where);
    same = error <= tolerance;
    snprintf(text, size, "B=%d T=%d%s%s: error %.2e > %.2e at %s", (int)inputs->batch, (int)inputs->time,
             inputs->cu_seqlens ? " packed" : "", options.step ? " step by step" : "", error, tolerance, where);
  }
  problem_free(inputs);
  problem_free(exact);
  problem_free(got);
  return same;
}

// At a kink rounding may pick the other branch: a program fails if three draws of the inputs do.
static void judge(const rec_recurrence *r, uint64_t seed) {
  arena *memory = arena_new();
  char message[1024];
  uint64_t random = seed;
  bool same = false;
  for (int draws = 3; draws > 0 && !same; draws--) same = compare_once(r, &random, message, sizeof message);
  check(same, "REC_SEED=%llu REC_PROGRAMS=1, %s\n%s", (unsigned long long)seed, message,
        stateless_recurrence(memory, seed, "r"));
  compared++;
  arena_free(memory);
}

// What a batch has follows from its seed, so that one program alone gets the same.
static compilation start(const char *text, uint64_t seed) {
  static const char *const types[] = {"f32", "bf16", "f16"}, *const targets[] = {"simt,sm_80", "simt,sm_90a", "simt,sm_100a",
                                                                                 "simt,sm_120"};
  const char *const words[] = {"--target", targets[seed / BATCH % 4], "--ptxas", "none", "-O0",
                               "--dtype",  types[seed / BATCH % 3],   NULL};
  return compile_start(text, words);
}

static void run_one(uint64_t seed) {
  arena *memory = arena_new();
  const char *text = stateless_recurrence(memory, seed, "r");
  compilation started = start(text, seed);
  rec_module *module = compile_finish(&started);
  if (check(module, "recc fails on REC_SEED=%llu REC_PROGRAMS=1:\n%s", (unsigned long long)seed, text))
    judge(rec_module_find(module, "r"), seed);
  rec_module_close(module);
  arena_free(memory);
}

static const char *programs_from(arena *memory, uint64_t seed, int count) {
  const char *text = "";
  for (int i = 0; i < count; i++)
    text =
        arena_printf(memory, "%s%s\n", text, stateless_recurrence(memory, seed + (uint64_t)i, arena_printf(memory, "r%d", i)));
  return text;
}

// Programs together in one library; one by one where recc refuses that.
static void finish_batch(const compilation *started, uint64_t seed, int count) {
  arena *memory = arena_new();
  rec_module *module = compile_finish(started);
  for (int i = 0; i < count; i++) {
    if (module)
      judge(rec_module_find(module, arena_printf(memory, "r%d", i)), seed + (uint64_t)i);
    else
      run_one(seed + (uint64_t)i);
  }
  rec_module_close(module);
  arena_free(memory);
}

// Two libraries are compiled side by side.
static void run_two_batches(uint64_t seed, int count) {
  arena *memory = arena_new();
  compilation started[2];
  int first = count < BATCH ? count : BATCH, second = count - first;
  started[0] = start(programs_from(memory, seed, first), seed);
  if (second) started[1] = start(programs_from(memory, seed + BATCH, second), seed + BATCH);
  finish_batch(&started[0], seed, first);
  if (second) finish_batch(&started[1], seed + BATCH, second);
  arena_free(memory);
}

// A report has the schedule of all targets, but none of their code.
static bool is_scheduled(uint64_t seed, int count) {
  arena *memory = arena_new();
  const char *const words[] = {"--target", "all", "--emit=report", NULL};
  bool well = compile_output(programs_from(memory, seed, count), words);
  arena_free(memory);
  return well;
}

static void schedule_programs(uint64_t seed, int count) {
  for (int done = 0; done < count; done += BATCH) {
    uint64_t first = seed + (uint64_t)done;
    bool together = is_scheduled(first, BATCH);
    for (uint64_t i = first; i < first + BATCH; i++)
      check(together || is_scheduled(i, 1), "recc --emit=report fails on REC_SEED=%llu REC_PROGRAMS=1", (unsigned long long)i);
  }
}

int main(int count, char **words) {
  bool full = count > 1 && strcmp(words[1], "full") == 0;
  const char *wanted = getenv("REC_PROGRAMS");
  int programs = wanted ? atoi(wanted) : full ? 480 : 20;
  uint64_t seed = chosen_seed();
  if (programs >= BATCH) seed -= seed % BATCH;
  printf("seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  for (int done = 0; done < programs; done += 2 * BATCH)
    run_two_batches(seed + (uint64_t)done, programs - done < 2 * BATCH ? programs - done : 2 * BATCH);
  check(compared == programs, "%d of %d programs were compared", compared, programs);
  if (!wanted) schedule_programs(seed + (uint64_t)programs, 208);
  return checked();
}
