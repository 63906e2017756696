// The recurrences of a library on the GPU against its code for the host. Backward runs with and without what forward keeps,
// token by token, packed, and packed in time slices. Lengths go from 1 to several chunks. Where results lie further apart than
// is usual, the interpreter says how far rounding moves them (tests/runtime/problem.h).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/grid_cases.h"
#include "tests/runtime/problem.h"
#include "tools/gpu/gpu_check.h"

typedef struct subject {
  const char *path;
  const rec_recurrence *recurrence;
  const rec_signature *signature;
  int run_time_size;
  const grid_case *case_;  // NULL: numbers as they are drawn
  int failed;
} subject;

static double in_domain(domain d, double x) {
  switch (d) {
    case POSITIVE: return fabs(x) + 0.1;
    case NEGATIVE: return -fabs(x) - 0.05;
    case UNIT: return 1 / (1 + exp(-x));
    case SMALL: return 0.3 * x;
    default: return x;
  }
}

static void draw(const subject *s, problem *p, uint64_t seed) {
  problem_draw(p, seed, 0.7);
  for (int i = 0; s->case_ && i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    if (v->kind == REC_OUTPUT || !p->value[i]) continue;
    for (int d = 0; d < 3; d++) {
      const grid_domain *named = &s->case_->domains[d];
      if (!named->name || strcmp(named->name, v->name) != 0) continue;
      for (int64_t k = 0; k < problem_numbers(p, i); k++) p->value[i][k] = (float)in_domain(named->domain, p->value[i][k]);
    }
  }
  problem_retype(p, p->signature);
}

static double rounding_of(const subject *s) {
  return s->signature->token_type == REC_BF16 ? 0x1p-8 : s->signature->token_type == REC_F16 ? 0x1p-11 : 0x1p-24;
}

// Two results that each may lie as far from the exact one as rounding moves it.
static double tolerance_of(const subject *s, const problem *inputs, bool backward, double error, double least) {
  if (error <= least) return least;
  const rec_run_options options = {.backward = backward};
  problem *exact = problem_copy(inputs);
  double tolerance = least;
  if (problem_run(exact, s->recurrence, "reference", &options))
    tolerance = 2 * (s->signature->token_type == REC_F32
                         ? fmax(least, 10 * problem_plain_error(inputs, exact, s->recurrence, backward, 0))
                         : problem_tolerance(inputs, exact, s->recurrence, least, rounding_of(s) / 50, backward));
  problem_free(exact);
  return tolerance;
}

static void report(subject *s, const char *way, int64_t time, bool passed, double error, double tolerance, const char *where) {
  static const char *const types[] = {[REC_F32] = "f32", [REC_F64] = "f64", [REC_BF16] = "bf16", [REC_F16] = "f16"};
  s->failed += !passed;
  printf(
      "{\"kind\": \"check\", \"library\": \"%s\", \"recurrence\": \"%s\", \"type\": \"%s\", "
      "\"way\": \"%s\", \"time\": %lld, "
      "\"passed\": %s, \"error\": %.3g, \"tolerance\": %.3g, \"where\": \"",
      s->path, s->signature->name, types[s->signature->token_type], way, (long long)time, passed ? "true" : "false",
      isfinite(error) ? error : -1, tolerance);
  for (const char *c = where; *c; c++)
    if (*c != '"' && *c != '\\' && *c >= ' ') putchar(*c);
  printf("\"}\n");
}

static void compare(subject *s, const problem *inputs, const char *way, rec_run_options options) {
  static const double least[] = {[REC_F32] = 2e-5, [REC_BF16] = 6e-2, [REC_F16] = 7.5e-3};
  char where[256] = "";
  rec_run_options on_host = options;
  on_host.recompute = false;
  problem *host = problem_copy(inputs), *got = problem_copy(inputs);
  if (!problem_run(host, s->recurrence, "host", &on_host) || !problem_run(got, s->recurrence, "cuda", &options)) {
    report(s, way, inputs->time, false, INFINITY, 0, rec_message());
  } else {
    double error = problem_compare(host, got, options.backward, 1e-4, where, sizeof where);
    double tolerance = tolerance_of(s, inputs, options.backward, error, least[s->signature->token_type]);
    report(s, way, inputs->time, error <= tolerance, error, tolerance, where);
  }
  problem_free(host);
  problem_free(got);
}

static void check_recurrence(subject *s) {
  static const int64_t lengths[] = {1, 17, 64, 150};
  static const int32_t packed[] = {0, 1, 17, 0, 65, 130, 2}, long_packed[] = {1, 300, 0, 129};
  for (int i = 0; i < 4; i++) {
    problem *p = problem_new(s->signature, 2, lengths[i], s->run_time_size);
    draw(s, p, (uint64_t)lengths[i]);
    compare(s, p, "backward", (rec_run_options){.backward = true, .recompute = i % 2});
    if (lengths[i] == 17) compare(s, p, "step", (rec_run_options){.step = true});
    problem_free(p);
  }
  problem *p = problem_packed(s->signature, packed, sizeof packed / sizeof *packed, s->run_time_size);
  draw(s, p, 1000);
  compare(s, p, "packed", (rec_run_options){.backward = true});
  problem_free(p);
  p = problem_packed(s->signature, long_packed, sizeof long_packed / sizeof *long_packed, s->run_time_size);
  draw(s, p, 2000);
  compare(s, p, "slices", (rec_run_options){.backward = true, .time_slices = 4});
  compare(s, p, "slices, nothing saved", (rec_run_options){.backward = true, .recompute = true, .time_slices = 4});
  problem_free(p);
}

static const grid_case *case_of(const char *name) {
  for (int i = 0; i < grid_case_count; i++)
    if (strncmp(grid_cases[i].path, "stdlib/", 7) == 0 && strcmp(grid_cases[i].recurrence, name) == 0) return &grid_cases[i];
  return NULL;
}

int check_library(const char *path) {
  rec_module *module;
  int failed = 0;
  if (rec_module_open(path, &module)) {
    fprintf(stderr, "rec-gpu-check: %s\n", rec_message());
    return 1;
  }
  for (int i = 0; i < rec_module_count(module); i++) {
    subject s = {.path = path, .recurrence = rec_module_recurrence(module, i)};
    s.signature = rec_recurrence_signature(s.recurrence);
    s.case_ = case_of(s.signature->name);
    s.run_time_size = s.case_ ? s.case_->run_time_size : 2;
    check_recurrence(&s);
    failed += s.failed;
  }
  rec_module_close(module);
  return failed;
}
