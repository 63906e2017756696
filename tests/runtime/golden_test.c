// The published recurrences against numbers from a float64 loop that is not ours
// (tests/golden/README.md). They run on the interpreter, on the host, and as GPU code on the
// executor. They run whole, step by step, split in two calls, with every number of threads.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

typedef struct golden {
  const char *program, *numbers, *recurrence;
  double tolerance;  // of float32: 2e-5, but where a formula itself cancels (`Ab - 1` of s4d)
} golden;

static const golden cases[] = {
    {"gated_deltanet", "gated_deltanet", "gated_deltanet", 2e-5},
    {"gla", "gla", "gla", 2e-5},
    {"linear_attn", "linear_attn", "linear_attn", 2e-5},
    {"mamba1", "mamba1", "mamba1", 2e-5},
    {"mamba2", "mamba2", "mamba2", 2e-5},
    {"mamba2", "mamba2.g2", "mamba2", 2e-5},
    {"mingru", "mingru", "mingru", 2e-5},
    {"rwkv6", "rwkv6", "rwkv6", 2e-5},
    {"s4d", "s4d", "s4d", 1e-4},
};

// One case on one device.
typedef struct trial {
  const golden *golden;
  const rec_recurrence *recurrence;
  const char *device, *type;
  double tolerance;
  const problem *inputs, *expected;
} trial;

static double *read_numbers(const rec_file *file, const char *prefix, const char *name,
                            int64_t count) {
  char full[256];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  const rec_tensor *t = rec_file_find(file, full);
  double *numbers = calloc((size_t)count + 1, sizeof *numbers);
  if (!t || rec_tensor_elements(t) != count ||
      rec_convert(numbers, REC_F64, t->data, t->dtype, count)) {
    free(numbers);
    return NULL;
  }
  return numbers;
}

// The expected results; false if the file lacks one of them.
static bool read_expected(problem *p, const char *path) {
  rec_file *file;
  if (rec_file_open(path, &file)) return false;
  bool complete = true;
  for (int i = 0; i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    int64_t count = problem_numbers(p, i);
    double **value = is_carried(v) ? &p->final[i] : &p->value[i];
    if (v->kind == REC_OUTPUT || is_carried(v)) {
      *value = read_numbers(file, is_carried(v) ? "hT." : "", v->name, count);
      complete = complete && *value;
    }
    if (v->kind == REC_OUTPUT) continue;
    p->gradient[i] = read_numbers(file, is_carried(v) ? "d.h0." : "d.", v->name, count);
    complete = complete && p->gradient[i];
  }
  rec_file_close(file);
  return complete;
}

static void check_result(const trial *t, const char *what, const problem *got, bool ran,
                         bool backward) {
  char where[256];
  if (!check(ran, "%s %s %s %s: %s", t->golden->numbers, t->device, t->type, what, rec_message()))
    return;
  double error = problem_compare(t->expected, got, backward, 1e-4, where, sizeof where);
  check(error <= t->tolerance, "%s %s %s %s: error %.2e > %.0e at %s", t->golden->numbers,
        t->device, t->type, what, error, t->tolerance, where);
}

static void run_whole(const trial *t, const char *what, rec_run_options options, problem **keep) {
  problem *p = problem_copy(t->inputs);
  bool ran = problem_run(p, t->recurrence, t->device, &options);
  check_result(t, what, p, ran, options.backward);
  if (keep)
    *keep = p;
  else
    problem_free(p);
}

// Forward over both parts, then backward over the second and the first.
static void run_split(const trial *t, int64_t at) {
  char what[64];
  snprintf(what, sizeof what, "split at %d", (int)at);
  problem *whole = problem_run_split(t->inputs, at, t->recurrence, t->device,
                                     &(rec_run_options){.backward = true});
  check_result(t, what, whole, whole, true);
  problem_free(whole);
}

static void run_threads(const trial *t) {
  problem *one = NULL, *other = NULL;
  run_whole(t, "1 thread", (rec_run_options){.backward = true, .threads = 1}, &one);
  for (int64_t threads = 2; threads <= 3; threads++) {
    run_whole(t, "threads", (rec_run_options){.backward = true, .threads = threads}, &other);
    check(problem_equal(one, other, true), "%s %s: results differ between 1 and %d threads",
          t->golden->numbers, t->type, (int)threads);
    problem_free(other);
  }
  problem_free(one);
}

static void run_ways(const trial *t) {
  run_whole(t, "backward", (rec_run_options){.backward = true}, NULL);
  run_whole(t, "forward", (rec_run_options){0}, NULL);
  run_whole(t, "step by step", (rec_run_options){.step = true}, NULL);
  run_split(t, 1);
  run_split(t, 16);
  run_split(t, 23);
  if (strcmp(t->device, "reference") == 0) return;
  run_whole(t, "recomputed", (rec_run_options){.backward = true, .recompute = true}, NULL);
  run_threads(t);
}

static problem *load_inputs(const golden *g, const rec_module *module) {
  const rec_recurrence *recurrence = rec_module_find(module, g->recurrence);
  if (!check(recurrence, "%s: no recurrence %s", g->program, g->recurrence)) return NULL;
  char path[512];
  snprintf(path, sizeof path, REC_SOURCE_DIR "/tests/golden/%s.in.safetensors", g->numbers);
  problem *inputs = problem_load(recurrence, path, true);
  check(inputs, "%s: %s", g->numbers, rec_message());
  return inputs;
}

static void run_device(const golden *g, const rec_module *module, const char *device,
                       const char *type, double tolerance) {
  char path[512];
  problem *inputs = load_inputs(g, module);
  if (!inputs) return;
  problem *expected = problem_copy(inputs);
  snprintf(path, sizeof path, REC_SOURCE_DIR "/tests/golden/%s.out.safetensors", g->numbers);
  const rec_recurrence *recurrence = rec_module_find(module, g->recurrence);
  trial t = {g, recurrence, device, type, tolerance, inputs, expected};
  if (check(read_expected(expected, path), "%s lacks results", path)) run_ways(&t);
  problem_free(inputs);
  problem_free(expected);
}

// The numbers of the file rounded to the 16-bit type of the library, against the interpreter on
// them.
static void run_narrow(const golden *g, const rec_module *f32, const char *program,
                       const char *type) {
  const char *const options[] = {"--dtype", type, NULL};
  const rec_run_options plain = {.backward = true};
  rec_module *module = compile_file(program, options);
  problem *inputs = module ? load_inputs(g, f32) : NULL;
  if (!check(inputs, "%s does not run in %s", g->numbers, type)) {
    rec_module_close(module);
    return;
  }
  const rec_recurrence *recurrence = rec_module_find(module, g->recurrence);
  problem_retype(inputs, rec_recurrence_signature(recurrence));
  problem *expected = problem_copy(inputs);
  trial t = {g, recurrence, "host", type, g->tolerance, inputs, expected};
  if (check(problem_run(expected, recurrence, "reference", &plain), "%s: %s", g->numbers,
            rec_message()))
    run_ways(&t);
  problem_free(inputs);
  problem_free(expected);
  rec_module_close(module);
}

static void run_case(const golden *g) {
  char path[512];
  snprintf(path, sizeof path, REC_SOURCE_DIR "/tests/golden/%s.rec", g->program);
  const char *const f64[] = {"--dtype", "f64", NULL}, *const simt[] = {"--target", simt_target(),
                                                                       NULL};
  rec_module *single = compile_file(path, simt), *both = compile_file(path, f64);
  if (check(single, "%s does not compile", path)) {
    run_device(g, single, "host", "f32", g->tolerance);
    run_device(g, single, "reference", "f64", 1e-9);
    run_device(g, single, "simt", "f32", g->tolerance);
    run_narrow(g, single, path, "bf16");
    run_narrow(g, single, path, "f16");
  }
  if (check(both, "%s does not compile with --dtype f64", path))
    run_device(g, both, "host", "f64", 1e-9);
  rec_module_close(single);
  rec_module_close(both);
}

int main(int count, char **words) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (count < 2 || strcmp(words[1], cases[i].numbers) == 0) run_case(&cases[i]);
  return checked();
}
