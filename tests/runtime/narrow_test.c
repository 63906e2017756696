// Tokens in bf16 and f16: the host against the interpreter on the same rounded inputs. It runs
// every golden case and every program of tests/runtime/programs, on every kind of processor that
// this one can stand in for.
//
// Numbers are f32 between load and store. Results therefore lie as near to the exact ones as those
// of an f32 library, but for the rounding of the tokens themselves. That is sharper than the
// promise of the language (bf16: rms error 1.5e-2, at most 6e-2 of the rms; f16 an eighth of that).
// A run has each program in one type, which REC_SEED says; with the word `full` in both.
// Where the processor multiplies pairs of bf16 (v4-bf16), products round their operands: there the
// bound is the promise, as for the GPU's code (simt_test.c).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

typedef struct program {
  const char *path;
  int64_t run_time_size;
  double least;
  const char *sizes[4];  // of chunks of 16 steps, whose products may be of pairs; none: as it is
} program;

#define GOLDEN(name) "tests/golden/" name ".rec"
#define PROGRAM(name) "tests/runtime/programs/" name ".rec"
#define STANDARD(name) "stdlib/" name ".rec"
static const program programs[] = {
    {GOLDEN("gated_deltanet"), 3, 2e-5, {NULL}},
    {GOLDEN("gla"), 3, 2e-5, {NULL}},
    {GOLDEN("linear_attn"), 2, 2e-5, {NULL}},
    {GOLDEN("mamba1"), 37, 2e-5, {NULL}},
    {GOLDEN("mamba2"), 3, 2e-5, {NULL}},
    {GOLDEN("mingru"), 19, 2e-5, {NULL}},
    {GOLDEN("rwkv6"), 2, 2e-5, {NULL}},
    {GOLDEN("s4d"), 5, 1e-4, {NULL}},
    {PROGRAM("delta_product"), 2, 2e-5, {NULL}},
    {PROGRAM("gru"), 2, 2e-5, {NULL}},
    {PROGRAM("lru"), 21, 2e-5, {NULL}},
    {PROGRAM("mlstm"), 3, 2e-5, {NULL}},
    {PROGRAM("momentum"), 2, 2e-5, {NULL}},
    {PROGRAM("rwkv7"), 2, 2e-5, {NULL}},
    {PROGRAM("two_taps"), 35, 2e-5, {NULL}},
    {PROGRAM("heads_in_lanes"), 3, 2e-5, {NULL}},
    {STANDARD("gla"), 2, 2e-5, {"-D", "K=32", "-D", "V=48"}},
    {STANDARD("gated_deltanet"), 2, 2e-5, {"-D", "K=48", "-D", "V=32"}},
    {STANDARD("rwkv7"), 1, 2e-5, {"-D", "K=32", "-D", "V=64"}},
    {STANDARD("mamba2"), 2, 2e-5, {"-D", "P=80", "-D", "N=34"}},
};

static const int64_t lengths[] = {0, 1, 17, 300};

// One program on one kind of processor.
typedef struct subject {
  const rec_recurrence *recurrence;
  const char *processor;
  bool pairs;
  char name[64];
} subject;

// What a program is to compute from some inputs.
typedef struct expectation {
  const problem *inputs, *exact;
  double tolerance;
} expectation;

static void agree(const subject *s, const expectation *e, const char *what, rec_run_options options,
                  problem **keep) {
  char where[256];
  problem *host = problem_copy(e->inputs);
  setenv("REC_CPU", s->processor, 1);
  bool ran = problem_run(host, s->recurrence, "host", &options);
  if (check(ran, "%s %s T=%lld: %s", s->name, what, (long long)host->time, rec_message())) {
    double error = problem_compare(e->exact, host, options.backward, 1e-4, where, sizeof where);
    double tolerance = s->pairs ? 6e-2 : e->tolerance;
    if (s->pairs && error > tolerance)
      tolerance = problem_rounded_tolerance(e->inputs, e->exact, s->recurrence, tolerance, 0x1p-8,
                                            options.backward);
    check(error <= tolerance, "%s %s T=%lld: error %.2e > %.2e at %s", s->name, what,
          (long long)host->time, error, tolerance, where);
  }
  if (keep)
    *keep = host;
  else
    problem_free(host);
}

static void check_threads(const subject *s, const expectation *e) {
  problem *one, *other;
  agree(s, e, "1 thread", (rec_run_options){.backward = true, .threads = 1}, &one);
  for (int64_t threads = 2; threads <= 3; threads++) {
    rec_run_options options = {.backward = true, .threads = threads, .recompute = true};
    agree(s, e, "threads", options, &other);
    check(problem_equal(one, other, true), "%s: %d threads give other bits than one", s->name,
          (int)threads);
    problem_free(other);
  }
  problem_free(one);
}

static problem *new_inputs(const rec_signature *signature, const program *p, int64_t time) {
  problem *inputs = problem_new(signature, time > 100 ? 1 : 2, time, p->run_time_size);
  problem_draw(inputs, (uint64_t)time + 1, 0.7);
  return inputs;
}

static problem *new_packed(const rec_signature *signature, const program *p) {
  static const int32_t packed_lengths[] = {0, 5, 1, 34, 17, 0};
  problem *inputs = problem_packed(signature, packed_lengths, 6, p->run_time_size);
  problem_draw(inputs, 7, 0.7);
  return inputs;
}

// Products of pairs have other bits than those of f32: both were run.
static void check_pairs(const subject *list, int count, const program *p, const expectation *e) {
  problem *results[2];
  if (!*p->sizes || !list[count - 1].pairs || e->inputs->time < 100) return;
  for (int i = 0; i < 2; i++)
    agree(&list[count - 2 + i], e, "pairs", (rec_run_options){.backward = true}, &results[i]);
  check(!problem_equal(results[0], results[1], true), "%s: products are not of pairs",
        list[count - 1].name);
  for (int i = 0; i < 2; i++) problem_free(results[i]);
}

// The whole on the best processor, less on the others.
static void check_inputs(const subject *list, int count, const program *p, problem *inputs) {
  const rec_run_options plain = {.backward = true};
  const rec_recurrence *recurrence = list[0].recurrence;
  problem *exact = problem_copy(inputs);
  if (check(problem_run(exact, recurrence, "reference", &plain), "%s: %s", p->path,
            rec_message())) {
    double tolerance = problem_tolerance(inputs, exact, recurrence, p->least, 6e-8, true);
    expectation e = {inputs, exact, tolerance};
    for (int i = 0; i < count; i++) {
      agree(&list[i], &e, "backward", plain, NULL);
      agree(&list[i], &e, "step by step", (rec_run_options){.step = true}, NULL);
    }
    if (inputs->time > 1) check_threads(&list[count - 1], &e);
    check_pairs(list, count, p, &e);
  }
  problem_free(inputs);
  problem_free(exact);
}

enum { V2, V3, V4, V4_BF16, PROCESSORS };
static const char *const names[] = {"v2", "v3", "v4", "v4-bf16"};

static void check_program(const program *p, const char *type, int processors) {
  const char *options[16] = {"--target", "host", "--dtype", type, "-O1"};
  int words = 5;
  for (int i = 0; i < 4 && p->sizes[i]; i++) options[words++] = p->sizes[i];
  if (words > 5)
    memcpy(&options[words], (const char *[]){"--form", "chunk", "--chunk", "16"},
           4 * sizeof *options);
  rec_module *modules[PROCESSORS];
  subject list[PROCESSORS];
  if (!check(compile_copies(p->path, options, modules, processors), "%s does not compile for %s",
             p->path, type))
    return;
  for (int i = 0; i < processors; i++) {
    list[i] = (subject){.recurrence = rec_module_recurrence(modules[i], 0),
                        .processor = names[i],
                        .pairs = i == V4_BF16 && strcmp(type, "bf16") == 0};
    const rec_signature *s = rec_recurrence_signature(list[i].recurrence);
    snprintf(list[i].name, sizeof list[i].name, "%s %s %s", s->name, type, names[i]);
  }
  const rec_signature *s = rec_recurrence_signature(list[0].recurrence);
  rec_dtype wanted = strcmp(type, "bf16") == 0 ? REC_BF16 : REC_F16;
  check(s->token_type == wanted && s->carried_type == REC_F32, "%s: types of a library of %s",
        p->path, type);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    check_inputs(list, processors, p, new_inputs(s, p, lengths[i]));
  check_inputs(list, processors, p, new_packed(s, p));
  for (int i = 0; i < processors; i++) rec_module_close(modules[i]);
}

int main(int count, char **words) {
  bool full = count > 1 && strcmp(words[1], "full") == 0;
  const char *only = count > 1 && !full ? words[1] : NULL;
  uint64_t seed = chosen_seed();
  printf("REC_SEED=%llu\n", (unsigned long long)seed);
  int processors = 1;
  if (__builtin_cpu_supports("x86-64-v3")) processors = 2;
  if (__builtin_cpu_supports("x86-64-v4")) processors = 3;
  if (processors == 3 && __builtin_cpu_supports("avx512bf16"))
    processors = 4;
  else
    printf("left out: products of pairs of bf16: the processor lacks AVX512_BF16\n");
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    if (only && !strstr(programs[i].path, only)) continue;
    bool both = full || only, first = (seed + i) % 2 == 0;
    if (both || first) check_program(&programs[i], "bf16", processors);
    if (both || !first) check_program(&programs[i], "f16", processors);
  }
  return checked();
}
