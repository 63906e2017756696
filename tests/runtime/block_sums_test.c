// Strong decays whose logarithms sum to between 10 and 83 over a block of steps: exp(-sum) is still
// finite in f32, but a form that multiplies it with exp(sum) has few digits left, and none in the
// gradient of the decay. In chunks, on every kind of processor that this one can stand in for;
// values and all gradients are the interpreter's.
//
// All keys decay alike in a run, so that a tensor's rms is that of strong decays. Within a block the
// steps share the sum evenly, or a few of them have nearly all of it. Takes about 12 s.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

// The gate of a decay exp(-size); its other terms are 0.
static double softplus_inverse(double x) { return x + log(-expm1(-x)); }
static double gate_of_gla(double size) { return -softplus_inverse(16 * size); }
static double gate_of_rwkv7(double size) {
  double share = fmin(size * exp(0.5), 0.98);
  return log(share) - log1p(-share);
}

typedef struct subject {
  const char *name, *gate;
  double (*gate_of)(double size);
  double largest;  // of a step's logarithm
} subject;

static const subject subjects[] = {
    {"gla", "gate", gate_of_gla, INFINITY},
    {"kda", "gate", softplus_inverse, INFINITY},
    {"rwkv6", "decay", log, INFINITY},
    {"rwkv7", "decay", gate_of_rwkv7, 0.6},
};

// Blocks of so many steps with such a sum.
static const struct {
  int steps;
  double sum;
} blocks[] = {{16, 10}, {16, 30}, {16, 83}, {64, 10}, {64, 35}, {64, 83}, {128, 75}};

typedef struct run {
  const subject *subject;
  const rec_recurrence *recurrences[3];  // by processor
  int processors;
  const char *chunk;
} run;

enum { TIME = 150 };

// Shares of the sum for the steps of a block, of one key.
static void draw_block(const subject *s, double *gates, int64_t stride, int steps, double sum,
                       bool even, uint64_t *seed) {
  double size[128], all = 0;
  for (int i = 0; i < steps; i++) {
    double u = next_uniform(seed);
    all += size[i] = even ? 0.5 + u : exp(12 * u - 12);
  }
  for (int i = 0; i < steps; i++)
    gates[i * stride] = (float)s->gate_of(fmin(size[i] * sum / all, s->largest));
}

static void draw_gates(const subject *s, problem *p, int steps, double sum, bool even) {
  uint64_t seed = (uint64_t)steps + (uint64_t)sum;
  for (int i = 0; i < p->signature->variable_count; i++) {
    const char *name = p->signature->variables[i].name;
    int64_t row = problem_numbers(p, i) / TIME;
    bool zero = strcmp(name, "A_log") == 0 || strcmp(name, "dt_bias") == 0;
    if (zero) memset(p->value[i], 0, (size_t)problem_numbers(p, i) * sizeof *p->value[i]);
    if (strcmp(name, s->gate) != 0) continue;
    for (int64_t key = 0; key < row; key++)
      for (int t = 0; t < TIME; t += steps)
        draw_block(s, p->value[i] + t * row + key, row, steps < TIME - t ? steps : TIME - t, sum,
                   even, &seed);
  }
}

// f32 may err by what it may in grid_test.c.
static void judge(const run *r, const problem *inputs, const problem *exact, const char *what) {
  static const char *const names[] = {"v2", "v3", "v4"};
  const rec_run_options options = {.backward = true};
  double plain = -1;
  for (int i = 0; i < r->processors; i++) {
    char where[256];
    problem *host = problem_copy(inputs);
    setenv("REC_CPU", names[i], 1);
    if (check(problem_run(host, r->recurrences[i], "host", &options), "%s", rec_message())) {
      double error = problem_compare(exact, host, true, 1e-4, where, sizeof where);
      if (error > 2e-5 && plain < 0)
        plain = problem_plain_error(inputs, exact, r->recurrences[i], true, 0);
      check(error <= fmax(2e-5, 10 * plain),
            "%s in chunks of %s, %s, %s: error %.2e (plain loop %.2e) at %s", r->subject->name,
            r->chunk, names[i], what, error, plain, where);
    }
    problem_free(host);
  }
}

static void check_block(const run *r, int steps, double sum, bool even) {
  char what[64];
  snprintf(what, sizeof what, "%g over %d steps%s", sum, steps, even ? "" : ", unevenly");
  problem *inputs = problem_new(rec_recurrence_signature(r->recurrences[0]), 1, TIME, 2);
  problem_draw(inputs, (uint64_t)steps, 0.7);
  draw_gates(r->subject, inputs, steps, sum, even);
  problem *exact = problem_copy(inputs);
  if (check(
          problem_run(exact, r->recurrences[0], "reference", &(rec_run_options){.backward = true}),
          "%s: %s", r->subject->name, rec_message()))
    judge(r, inputs, exact, what);
  problem_free(inputs);
  problem_free(exact);
}

static void check_chunk(const subject *s, const char *chunk, int processors) {
  const char *const options[] = {"--target", "host", "-O0",  "--form", "chunk", "--chunk",
                                 chunk,      "-D",   "K=16", "-D",     "V=16",  NULL};
  char path[512];
  rec_module *modules[3];
  run r = {.subject = s, .processors = processors, .chunk = chunk};
  snprintf(path, sizeof path, REC_SOURCE_DIR "/stdlib/%s.rec", s->name);
  if (!check(compile_copies(path, options, modules, processors), "%s does not compile", path))
    return;
  for (int i = 0; i < processors; i++) r.recurrences[i] = rec_module_recurrence(modules[i], 0);
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
    if (blocks[i].sum > s->largest * blocks[i].steps) continue;
    check_block(&r, blocks[i].steps, blocks[i].sum, true);
    check_block(&r, blocks[i].steps, blocks[i].sum, false);
  }
  for (int i = 0; i < processors; i++) rec_module_close(modules[i]);
}

int main(void) {
  int processors = __builtin_cpu_supports("x86-64-v4")   ? 3
                   : __builtin_cpu_supports("x86-64-v3") ? 2
                                                         : 1;
  for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
    check_chunk(&subjects[i], "16", processors);
    check_chunk(&subjects[i], "64", processors);
  }
  return checked();
}
