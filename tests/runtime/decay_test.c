// Decays that hide a product or a power, in chunks, in float32: gates from weak to strong, decays
// that round to 0 and to 1. Values and all gradients are the interpreter's. And decays whose
// rounding would add up. Takes about 10 s.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

// In a[H], b[H], r[H] (0 or 1), p[H] in [0.25, 0.75] and the parameter c[H] in [0.5, 0.999].
static const char *const decays[] = {
    "1 - 2^(-5 - index[H])",
    "1 - 2^(-20 - index[H])",
    "1 - exp(-exp(a))",
    "1 - sigmoid(a)^2",
    "1 / (1 + exp(a))",
    "exp(a) / (exp(a) + exp(b))",
    "sigmoid(a) / (sigmoid(a) + sigmoid(b))",
    "(1 - 0.01) * sigmoid(a) + 0.01",
    "c + (1 - c) * sigmoid(a)",
    "sigmoid(b) + (1 - sigmoid(b)) * sigmoid(a)",
    "clamp(sigmoid(a), 0.001, 0.9999)",
    "where(r > 0, 0, 1 - exp(-exp(a)))",
    "c * exp(-softplus(a))",
    "p",
};
enum { DECAYS = sizeof decays / sizeof *decays };

static void append(char **text, size_t *size, const char *format, int number, const char *decay) {
  char piece[1024];
  int length = snprintf(piece, sizeof piece, format, number, decay);
  *text = realloc(*text, *size + (size_t)length + 1);
  if (!*text) abort();
  memcpy(*text + *size, piece, (size_t)length + 1);
  *size += (size_t)length;
}

static char *program_text(void) {
  char *text = NULL;
  size_t size = 0;
  for (int i = 0; i < DECAYS; i++) {
    append(&text, &size,
           "recurrence r%d(H, K = 16, V = 8) {\n"
           "  input q[H,K], k[H,K], v[H,V], a[H], b[H], r[H], p[H] in [0.25, 0.75]\n"
           "  param c[H] in [0.5, 0.999]\n"
           "  state S[H,K,V]\n"
           "  output y[H,V], z[H]\n"
           "  S = (%s) * S[t-1] + k * v\n"
           "  y = sum[K](q * S)\n"
           "  z = a + b + r + p + c\n"
           "}\n",
           i, decays[i]);
  }
  return text;
}

// Gates from where a decay rounds to 1 to where it rounds to 0.
static void draw_gates(problem *p, uint64_t *seed, double strength) {
  for (int i = 0; i < p->signature->variable_count; i++) {
    const char *name = p->signature->variables[i].name;
    for (int64_t k = 0; strlen(name) == 1 && k < problem_numbers(p, i); k++) {
      double u = next_uniform(seed);
      if (*name == 'a' || *name == 'b') p->value[i][k] = (float)(strength * (2 * u - 1));
      if (*name == 'r') p->value[i][k] = u < 0.1;
      if (*name == 'p') p->value[i][k] = (float)(0.25 + 0.5 * u);
      if (*name == 'c') p->value[i][k] = (float)(0.5 + 0.499 * u);
    }
  }
}

static void check_decay(const rec_recurrence *recurrence, const char *decay, double strength,
                        int64_t time) {
  const rec_signature *s = rec_recurrence_signature(recurrence);
  uint64_t seed = (uint64_t)time + 1;
  problem *inputs = problem_new(s, 1, time, 3);
  problem_draw(inputs, seed, 0.7);
  draw_gates(inputs, &seed, strength);
  agree_with_reference(inputs, recurrence, "host", &(rec_run_options){.backward = true},
                       (agreement){1e-4, 2e-5, 6e-8}, "%s strength %g T=%lld", decay, strength,
                       (long long)time);
}

typedef struct drifting {
  const char *text;
  bool backward;
  double tolerance;
  int steps;  // 0: 300
} drifting;

// Decays whose rounding error is the same at each step, so that it would add up over 300 steps. And
// decays of 30 in a sequence of five steps: the other steps of its chunk would overflow.
static const drifting drifts[] = {
    // An angle that is rounded to f32 is 1e-4 off here: after 300 steps the state would be, by some
    // percent.
    {"recurrence turn(H, K = 8) {\n"
     "  input x[H]\n"
     "  param w[H,K], c[H,K]\n"
     "  state h[H,K] : complex\n"
     "  output y[H]\n"
     "  h = polar(0.999, 5003 * w) * h[t-1] + x\n"
     "  y = re(sum[K](c * h))\n"
     "}\n",
     false, 1e-4, 0},
    // The stabiliser begins at some hundreds and sinks: a decay of exactly 1, where m by a scan and
    // m by steps differ by 3e-5.
    {"recurrence stable(H) {\n"
     "  input i[H], v[H]\n"
     "  param w[H]\n"
     "  state m[H], a[H]\n"
     "  output y[H]\n"
     "  let one = 1 + 0 * i\n"
     "  m = max(m[t-1] - exp(w - 4), 500 - 2000 * one[t-1])\n"
     "  a = exp(m[t-1] - exp(w - 4) - m) * a[t-1] + v\n"
     "  y = a\n"
     "}\n",
     false, 2e-5, 0},
    // The same where no gradient flows through it.
    {"recurrence stopped(H) {\n"
     "  input i[H], v[H]\n"
     "  param w[H]\n"
     "  state m[H], a[H]\n"
     "  output y[H]\n"
     "  let one = 1 + 0 * i\n"
     "  m = stop_gradient(max(m[t-1] - exp(w - 4), 500 - 2000 * one[t-1]))\n"
     "  a = exp(m[t-1] - exp(w - 4) - m) * a[t-1] + v\n"
     "  y = a\n"
     "}\n",
     true, 2e-5, 0},
    {"recurrence grows(H, N = 5) {\n"
     "  input x[H], u[N]\n"
     "  param c[N]\n"
     "  state a[N], b[N] : complex, p[N], q[N]\n"
     "  output y[H], z[N]\n"
     "  a = exp(3 + u) * a[t-1] + c\n"
     "  b = polar(29 + c, u) * b[t-1] + u\n"
     "  p = (29 + c) * p[t-1] + u * q[t-1]\n"
     "  q = (29 + u) * q[t-1] + 0.1 * p[t-1] + u\n"
     "  y = x * sum[N](c * a + c * q)\n"
     "  z = re(b) * u - p\n"
     "}\n",
     true, 2e-5, 5},
};

// On the host, or on the executor of the GPU's code ("simt").
static void check_drift(const drifting *d, const char *form, const char *device) {
  const char *target = strcmp(device, "simt") ? host_target() : simt_target();
  const char *const options[] = {"-O0", "--form", form, "--chunk", "64", "--target", target, NULL};
  rec_module *module = compile_text(d->text, options);
  if (!check(module, "does not compile:\n%s", d->text)) return;
  const rec_recurrence *recurrence = rec_module_recurrence(module, 0);
  problem *exact =
      problem_new(rec_recurrence_signature(recurrence), 1, d->steps ? d->steps : 300, 3);
  problem_draw(exact, 1, 0.7);
  problem *got = problem_copy(exact);
  const rec_run_options run = {.backward = d->backward};
  bool ran = problem_run(exact, recurrence, "reference", &run) &&
             problem_run(got, recurrence, device, &run);
  char where[256];
  double error = problem_compare(exact, got, d->backward, 1e-4, where, sizeof where);
  check(ran && error <= d->tolerance, "%s form on %s: error %.2e > %.2e at %s in\n%s", form, device,
        error, d->tolerance, where, d->text);
  problem_free(exact);
  problem_free(got);
  rec_module_close(module);
}

// Values and gradients of what is rewritten, and of the same where the maximum is hidden in a sum.
static void check_rewritten(void) {
  static const char form[] =
      "recurrence remainder(H) {\n"
      "  input x[H], z[H]\n"
      "  state m[H], a[H]\n"
      "  output y[H], low[H]\n"
      "  let before = m[t-1] - 0.1\n"
      "  m = stop_gradient(max(before, z)%s)\n"
      "  a = exp(before - m) * a[t-1] + exp(z - m) * x\n"
      "  y = a\n"
      "  low = x * z - stop_gradient(min(z, x * z)%s)\n"
      "}\n";
  const char *const options[] = {"-O0", NULL};
  rec_module *modules[2];
  problem *results[2] = {NULL, NULL};
  bool ran = true;
  for (int hidden = 0; hidden < 2; hidden++) {
    char *text = NULL;
    const char *more = hidden ? " + 0 * x" : "";
    if (asprintf(&text, form, more, more) < 0) return;
    modules[hidden] = compile_text(text, options);
    free(text);
    if (!check(modules[hidden], "does not compile")) return;
    const rec_recurrence *r = rec_module_recurrence(modules[hidden], 0);
    results[hidden] = problem_new(rec_recurrence_signature(r), 2, 40, 3);
    problem_draw(results[hidden], 3, 0.7);
    ran = ran && problem_run(results[hidden], r, "reference", &(rec_run_options){.backward = true});
  }
  char where[256];
  double error = problem_compare(results[0], results[1], true, 1e-4, where, sizeof where);
  check(ran && error <= 1e-12, "rewritten and not: %.2e at %s", error, where);
  for (int hidden = 0; hidden < 2; hidden++) {
    problem_free(results[hidden]);
    rec_module_close(modules[hidden]);
  }
}

int main(void) {
  static const char *const options[] = {"-O1", NULL};
  char *text = program_text();
  rec_module *module = compile_text(text, options);
  if (check(module, "does not compile:\n%s", text)) {
    for (int i = 0; i < DECAYS; i++) {
      static const double strengths[] = {1, 8, 30, 120};
      for (int k = 0; k < 4; k++) {
        check_decay(rec_module_recurrence(module, i), decays[i], strengths[k], 17);
        check_decay(rec_module_recurrence(module, i), decays[i], strengths[k], 150);
      }
    }
    rec_module_close(module);
  }
  free(text);
  for (size_t i = 0; i < sizeof drifts / sizeof *drifts; i++) {
    check_drift(&drifts[i], "step", "host");
    check_drift(&drifts[i], "chunk", "host");
    if (drifts[i].steps) check_drift(&drifts[i], "chunk", "simt");
  }
  check_rewritten();
  return checked();
}
