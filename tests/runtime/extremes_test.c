// Functions at their edges, on the host, on the executor and in the interpreter, number by number.
// Examples are clamp where the bounds have crossed, and |z| of complex numbers whose squares leave
// the range of f32. Values and gradients. Tensors end where a page begins that must not be touched:
// a select that loaded its number as a vector read there (LLVM at -O0).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

static const char text[] =
    "recurrence extremes(D) {\n"
    "  input x[D], low[D], high[D], a[D], b[D], c[D], d[D], e[D], f[D], g[D]\n"
    "  output clamped[D], rest[D], crossed[D], rest2[D], tiny[D], usual[D], huge[D], full[D]\n"
    "  clamped = clamp(x, low, high)\n"
    "  rest = 1 - clamp(sigmoid(x), sigmoid(low), sigmoid(high))\n"
    "  crossed = clamp(x, 0.5, -0.5) + x\n"
    "  rest2 = x * (1 - clamp(sigmoid(x), 0.7, 0.3))\n"
    "  tiny = abs(complex(a, b))\n"
    "  usual = abs(complex(c, d))\n"
    "  huge = abs(complex(e, f))\n"
    "  full = tanh(g)\n"
    "}\n";

static double *values_of(const problem *p, const char *name) {
  for (int i = 0; i < p->signature->variable_count; i++)
    if (strcmp(p->signature->variables[i].name, name) == 0) return p->value[i];
  return NULL;
}

static void scale(const problem *p, const char *name, double size) {
  double *numbers = values_of(p, name);
  for (int64_t i = 0; i < p->batch * p->time * p->axis_sizes[0]; i++)
    numbers[i] *= i % 7 ? size : 0;
}

// Sizes are powers of two, so that a type holds what it held before.
static problem *draw_problem(const rec_signature *signature, bool f64) {
  problem *p = problem_new(signature, 1, 37, 9);
  problem_draw(p, 5, 0.8);
  double tiny = f64 ? 0x1p-700 : 0x1p-70, huge = f64 ? 0x1p700 : 0x1p70;
  scale(p, "a", tiny);
  scale(p, "b", 4 * tiny);
  scale(p, "c", 1);
  scale(p, "d", 1);
  scale(p, "e", huge);
  scale(p, "f", huge);
  double *x = values_of(p, "x"), *low = values_of(p, "low"), *g = values_of(p, "g");
  for (int i = 0; i < 37 * 9; i++) g[i] = g[i] < 0 ? -30 : 30;
  for (int i = 0; i < 37; i++) x[9 * i] = low[9 * i];  // at the kink
  return p;
}

// The first number that is not the exact one but for rounding; -1.
static int64_t first_wrong(const double *exact, const double *got, int64_t count, double allowed) {
  for (int64_t k = 0; exact && k < count; k++)
    if (!(fabs(got[k] - exact[k]) <= allowed * fabs(exact[k]) + (allowed > 1e-10 ? 1e-37 : 0)))
      return k;
  return -1;
}

static void compare(const problem *exact, const problem *got, const char *what, double allowed) {
  for (int i = 0; i < exact->signature->variable_count; i++) {
    bool output = exact->signature->variables[i].kind == REC_OUTPUT;
    const double *from = output ? exact->value[i] : exact->gradient[i],
                 *to = output ? got->value[i] : got->gradient[i];
    int64_t k = first_wrong(from, to, problem_numbers(exact, i), allowed);
    check(k < 0, "%s: %s%s[%d] is %.9g, expected %.9g", what, output ? "" : "d.",
          exact->signature->variables[i].name, (int)k, k < 0 ? 0 : to[k], k < 0 ? 0 : from[k]);
  }
}

static double clamped(double x, double low, double high) { return fmin(fmax(x, low), high); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

// The interpreter runs what the compiler has simplified: it is held against C.
static void check_interpreter(const problem *exact) {
  const double *x = values_of(exact, "x"), *low = values_of(exact, "low"),
               *high = values_of(exact, "high"), *same = values_of(exact, "clamped"),
               *rest = values_of(exact, "rest");
  int wrong = 0, crossed = 0;
  for (int i = 0; i < 37 * 9; i++) {
    double expected = 1 - clamped(sigmoid(x[i]), sigmoid(low[i]), sigmoid(high[i]));
    wrong +=
        fabs(same[i] - clamped(x[i], low[i], high[i])) > 1e-6 || fabs(rest[i] - expected) > 1e-6;
    crossed += low[i] > high[i];
  }
  check(!wrong && crossed,
        "the interpreter clamps %d of %d numbers otherwise, with %d bounds crossed", wrong, 37 * 9,
        crossed);
}

static void run(const char *dtype, const char *const *devices, double allowed) {
  const char *const options[] = {"--dtype", dtype, "-O0", "--target", "host,simt", NULL};
  rec_module *module = compile_text(text, options);
  if (!check(module, "%s does not compile", dtype)) return;
  const rec_recurrence *r = rec_module_recurrence(module, 0);
  rec_run_options backward = {.backward = true};
  problem *inputs = draw_problem(rec_recurrence_signature(r), strcmp(dtype, "f64") == 0),
          *exact = problem_copy(inputs);
  check(problem_run(exact, r, "reference", &backward), "%s", rec_message());
  check_interpreter(exact);
  for (int i = 0; devices[i]; i++) {
    char what[32];
    problem *got = problem_copy(inputs);
    snprintf(what, sizeof what, "%s %s", dtype, devices[i]);
    if (check(problem_run(got, r, devices[i], &backward), "%s: %s", what, rec_message()))
      compare(exact, got, what, allowed);
    problem_free(got);
  }
  problem_free(inputs);
  problem_free(exact);
  rec_module_close(module);
}

// Each input's last number is selected, from the tensor itself and from lags.
// Outputs and shared values that are extremes of states. Backward looks for the entry among states
// that it computes again, in other roundings than forward's: it compared them with forward's
// extreme once, found no entry, and lost the gradient.
static const char of_states[] =
    "recurrence corrected(V = 1, K = 32) {\n"
    "  input k[K], v[V], b\n"
    "  state S[K,V]\n"
    "  output y[V]\n"
    "  S = 0.9 * S[t-1] + sigmoid(b) * 0.1*k * (v - sum[K](0.1*k * S[t-1]))\n"
    "  y = max[K](S)\n"
    "}\n"
    "recurrence gated(G, K = 32, V) {\n"
    "  input k[G,K], g[G,K], v[G,V]\n"
    "  state S[G,K,V]\n"
    "  output y[G,V]\n"
    "  S = 0.9 * S[t-1] + k * silu(g) * v\n"
    "  y = max[K](S)\n"
    "}\n"
    "recurrence shared(G, K = 5, V = 3) {\n"
    "  input k[G,K], g[G,V], v[G,V]\n"
    "  state S[G,K,V], m[G]\n"
    "  output y[G,V], z[G]\n"
    "  S = sigmoid(g) * S[t-1] + k * v\n"
    "  let top = min[K,V](tanh(S))\n"
    "  m = max(0.5 * m[t-1], top)\n"
    "  y = min[K](S[t-1] + k) - v * top\n"
    "  z = m * max[V](sum[K](k * S)) + sum[V](softmax[V](v) * v)\n"
    "}\n"
    "recurrence earlier(G, K = 7) {\n"
    "  input x[G,K], a[G]\n"
    "  state u[G,K]\n"
    "  output y[G]\n"
    "  let top = max[K](exp(-softplus(a)) * u[t-1] - x)\n"
    "  u = tanh(a) * u[t-1] + x * x[t-2]\n"
    "  y = max[K](u) * top[t-1] + top\n"
    "}\n";

static void compare_extremes(const rec_recurrence *r, const char *device, const char *options,
                             double floor, double tolerance) {
  for (int64_t time = 1; time <= 47; time += 23) {
    problem *inputs = problem_new(rec_recurrence_signature(r), 2, time, 3);
    problem_draw(inputs, (uint64_t)time, 0.8);
    agree_with_reference(inputs, r, device, &(rec_run_options){.backward = true},
                         (agreement){floor, tolerance, 0}, "%s%s T=%d",
                         rec_recurrence_signature(r)->name, options, (int)time);
  }
}

static void run_of_states(const char *dtype, const char *device, const char *const *form,
                          double floor, double tolerance) {
  const char *target = strcmp(device, "simt") ? host_target() : simt_target();
  const char *const options[] = {"--target", target,  "--dtype", dtype,
                                 "-O0",      form[0], form[1],   NULL};
  char shown[64];
  snprintf(shown, sizeof shown, " %s %s %s", dtype, form[0] ? form[0] : "", form[0] ? form[1] : "");
  rec_module *module = compile_text(of_states, options);
  if (!check(module, "extremes of states do not compile:%s", shown)) return;
  for (int k = 0; k < rec_module_count(module); k++)
    compare_extremes(rec_module_recurrence(module, k), device, shown, floor, tolerance);
  rec_module_close(module);
}

static void run_forms(void) {
  const char *const forms[][2] = {
      {NULL, NULL}, {"--form", "step"}, {"--chunk", "16"}, {"--chunk", "64"}};
  for (int i = 0; i < 4; i++) run_of_states("f64", "host", forms[i], 1e-4, 1e-9);
  for (int i = 1; i < 3; i++) run_of_states("f32", "host", forms[i], 1e-2, 1e-3);
  run_of_states("f32", "simt", forms[2], 1e-2, 1e-3);
}

static void run_ends(void) {
  static const char selects[] =
      "recurrence r1(H = 3) {\n"
      "  input x\n"
      "  param p : complex\n"
      "  state S[H] : complex\n"
      "  output y[H]\n"
      "  S = complex(0.6 * sigmoid(x), 0.6 * tanh(x)) * S[t-1] + where(x > 0, p, 0.5)\n"
      "  y = im(x * S[t-1])\n"
      "}\n"
      "recurrence r2 { input x output y y = where(x[t-1] > 0, x[t-1], 1) }\n";
  // a v4 selects by masks
  const char *target = strcmp(host_target(), "x86-64-v4") ? host_target() : "x86-64-v3";
  const char *const options[] = {"--target", target, "--dtype", "f64", "-O0", NULL};
  rec_module *module = compile_text(selects, options);
  if (!check(module, "selects do not compile")) return;
  rec_run_options backward = {.backward = true};
  for (int k = 0; k < 2; k++) {
    const rec_recurrence *r = rec_module_recurrence(module, k);
    for (int64_t time = 1; time <= 60; time += 7) {
      problem *exact = problem_new(rec_recurrence_signature(r), 1, time, 1);
      problem_draw(exact, (uint64_t)time, 0.8);
      problem *got = problem_copy(exact);
      bool ran =
          problem_run(exact, r, "reference", &backward) && problem_run(got, r, "host", &backward);
      if (check(ran, "r%d: %s", k + 1, rec_message())) compare(exact, got, "select", 1e-12);
      problem_free(exact);
      problem_free(got);
    }
  }
  rec_module_close(module);
}

int main(void) {
  run_ends();
  run_forms();
  run("f32", (const char *const[]){"host", "simt", NULL}, 1e-3);
  run("f64", (const char *const[]){"host", NULL}, 1e-13);
  return checked();
}
