// The recurrences of a library on the GPU against its code for the host. Backward runs with and
// without what forward keeps, token by token, packed, and packed in time slices. Lengths go from 1
// to several chunks. Where results lie further apart than is usual, the interpreter says how far
// rounding moves them (tests/runtime/problem.h).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/clock.h"
#include "tests/runtime/grid_cases.h"
#include "tests/runtime/problem.h"
#include "tools/gpu/gpu_check.h"

typedef struct subject {
  const char *path;
  const rec_recurrence *recurrence;
  const rec_signature *signature;
  int run_time_size, failed;
} subject;

static const grid_case *case_of(const rec_recurrence *recurrence) {
  const char *name = rec_recurrence_signature(recurrence)->name;
  for (int i = 0; i < grid_case_count; i++)
    if (strncmp(grid_cases[i].path, "stdlib/", 7) == 0 &&
        strcmp(grid_cases[i].recurrence, name) == 0)
      return &grid_cases[i];
  return NULL;
}

double in_domain_of(const rec_recurrence *recurrence, const char *variable, double x) {
  return grid_in_domain(case_of(recurrence), variable, x);
}

void draw_in_domains(const rec_recurrence *recurrence, problem *p, uint64_t seed) {
  grid_draw(case_of(recurrence), p, seed);
}

static double rounding_of(const rec_signature *signature) {
  return signature->token_type == REC_BF16  ? 0x1p-8
         : signature->token_type == REC_F16 ? 0x1p-11
                                            : 0x1p-24;
}

// Two results that each may lie as far from the exact one as rounding moves it.
static double tolerance_of(const subject *s, const problem *inputs, bool backward, double error,
                           double least) {
  if (error <= least) return least;
  const rec_run_options options = {.backward = backward};
  problem *exact = problem_copy(inputs);
  double tolerance = least;
  if (problem_run(exact, s->recurrence, "reference", &options))
    tolerance =
        2 * (s->signature->token_type == REC_F32
                 ? fmax(least, 10 * problem_plain_error(inputs, exact, s->recurrence, backward, 0))
                 : problem_tolerance(inputs, exact, s->recurrence, least,
                                     rounding_of(s->signature) / 50, backward));
  problem_free(exact);
  return tolerance;
}

void print_check(const char *members, bool passed, double error, double tolerance,
                 const char *where) {
  printf("{%s, \"passed\": %s, \"error\": %.3g, \"tolerance\": %.3g, \"where\": \"", members,
         passed ? "true" : "false", isfinite(error) ? error : -1, tolerance);
  for (const char *c = where; *c; c++)
    if (*c != '"' && *c != '\\' && *c >= ' ') putchar(*c);
  printf("\"}\n");
}

double least_tolerance(const rec_recurrence *recurrence) {
  static const double least[] = {[REC_F32] = 2e-5, [REC_BF16] = 6e-2, [REC_F16] = 7.5e-3};
  return least[rec_recurrence_signature(recurrence)->token_type];
}

double error_of_call(const rec_recurrence *recurrence, const problem *inputs,
                     rec_run_options options, char *where, size_t size) {
  rec_run_options on_host = options;
  double error = INFINITY;
  on_host.recompute = false;
  problem *host = problem_copy(inputs), *got = problem_copy(inputs);
  if (problem_run(host, recurrence, "host", &on_host) &&
      problem_run(got, recurrence, "cuda", &options))
    error = problem_compare(host, got, options.backward, 1e-4, where, size);
  else
    snprintf(where, size, "%s", rec_message());
  problem_free(host);
  problem_free(got);
  return error;
}

double movement_on_host(const rec_recurrence *recurrence, const problem *inputs,
                        rec_run_options options) {
  char where[256];
  uint64_t seed = 1;
  double moved = 0, rounding = rounding_of(inputs->signature);
  problem *host = problem_copy(inputs), *shaken = problem_copy(inputs);
  for (int i = 0; i < inputs->signature->variable_count; i++) {
    bool given = inputs->signature->variables[i].kind != REC_OUTPUT && shaken->value[i];
    for (int64_t k = 0; given && k < problem_numbers(shaken, i); k++)
      shaken->value[i][k] *= 1 - rounding * next_uniform(&seed);
  }
  problem_retype(shaken, inputs->signature);
  if (problem_run(host, recurrence, "host", &options) &&
      problem_run(shaken, recurrence, "host", &options))
    moved = problem_compare(host, shaken, options.backward, 1e-4, where, sizeof where);
  problem_free(host);
  problem_free(shaken);
  return moved;
}

static void compare(subject *s, const problem *inputs, const char *way, rec_run_options options) {
  static const char *const types[] = {
      [REC_F32] = "f32", [REC_F64] = "f64", [REC_BF16] = "bf16", [REC_F16] = "f16"};
  char where[256] = "", members[256];
  double error = error_of_call(s->recurrence, inputs, options, where, sizeof where), tolerance = 0;
  if (isfinite(error))
    tolerance = tolerance_of(s, inputs, options.backward, error, least_tolerance(s->recurrence));
  bool passed = isfinite(error) && error <= tolerance;
  snprintf(members, sizeof members,
           "\"kind\": \"check\", \"library\": \"%s\", \"recurrence\": \"%s\", \"type\": \"%s\", "
           "\"way\": \"%s\", \"time\": %lld",
           s->path, s->signature->name, types[s->signature->token_type], way,
           (long long)inputs->time);
  print_check(members, passed, error, tolerance, where);
  s->failed += !passed;
}

void time_loading(const rec_recurrence *recurrence, const char *path, problem *one) {
  draw_in_domains(recurrence, one, 1);
  double start = clock_seconds(CLOCK_MONOTONIC);
  if (problem_run(one, recurrence, "cuda", &(rec_run_options){0}))
    printf("{\"kind\": \"load\", \"library\": \"%s\", \"milliseconds\": %.2f}\n", path,
           1e3 * (clock_seconds(CLOCK_MONOTONIC) - start));
  problem_free(one);
}

static void check_recurrence(subject *s) {
  static const int64_t lengths[] = {1, 17, 64, 150};
  static const int32_t packed[] = {0, 1, 17, 0, 65, 130, 2}, long_packed[] = {1, 300, 0, 129};
  for (int i = 0; i < 4; i++) {
    problem *p = problem_new(s->signature, 2, lengths[i], s->run_time_size);
    draw_in_domains(s->recurrence, p, (uint64_t)lengths[i]);
    compare(s, p, "backward", (rec_run_options){.backward = true, .recompute = i % 2});
    if (lengths[i] == 17) compare(s, p, "step", (rec_run_options){.step = true});
    problem_free(p);
  }
  problem *p =
      problem_packed(s->signature, packed, sizeof packed / sizeof *packed, s->run_time_size);
  draw_in_domains(s->recurrence, p, 1000);
  compare(s, p, "packed", (rec_run_options){.backward = true});
  problem_free(p);
  p = problem_packed(s->signature, long_packed, sizeof long_packed / sizeof *long_packed,
                     s->run_time_size);
  draw_in_domains(s->recurrence, p, 2000);
  compare(s, p, "slices", (rec_run_options){.backward = true, .time_slices = 4});
  compare(s, p, "slices, nothing saved",
          (rec_run_options){.backward = true, .recompute = true, .time_slices = 4});
  problem_free(p);
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
    s.run_time_size = case_of(s.recurrence) ? case_of(s.recurrence)->run_time_size : 2;
    time_loading(s.recurrence, path, problem_new(s.signature, 1, 1, s.run_time_size));
    check_recurrence(&s);
    failed += s.failed;
  }
  rec_module_close(module);
  return failed;
}
