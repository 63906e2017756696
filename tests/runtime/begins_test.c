// States that start from a number or from a parameter (`state m[D] ~ -1e38`, `~ m0`), of every
// class of states. The interpreter says what is right, and its gradients by such parameters are
// held to differences of its values. Takes about 15 s.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"
#include "tests/runtime/segments.h"

static const char *const programs[] = {
    // a parameter that lacks an axis, one whose axes stand in another order, numbers, a size
    "recurrence several(H, K = 3, D = 2) {\n"
    "  input  x[H,K], k[H,D,K]\n"
    "  param  m0[K], s0[D,H], w[H]\n"
    "  state  m[H,K] ~ -7, S[H,D,K] ~ m0, a[H] ~ 1/K, q[H,D] ~ s0, none[H]\n"
    "  output y[H,K]\n"
    "  m = max(m[t-1] - 1, x)\n"
    "  S = 0.9 * S[t-1] + k\n"
    "  a = 0.5 * a[t-1] + sum[K](x)\n"
    "  q = sigmoid(w) * q[t-1] + sum[K](k)\n"
    "  none = 0.5 * none[t-1] + a\n"
    "  y = m + sum[D](S) + a + none + sum[D](q)\n"
    "}\n",
    "recurrence gated(H, K = 4, V = 3) {\n"
    "  input  q[H,K], k[H,K], v[H,V], a[H]\n"
    "  param  s0[K,V]\n"
    "  state  S[H,K,V] ~ s0\n"
    "  output y[H,V]\n"
    "  S = sigmoid(a) * S[t-1] + k * v\n"
    "  y = sum[K](q * S)\n"
    "}\n",
    "recurrence corrected(H, K = 4, V = 3) {\n"
    "  input  q[H,K], k[H,K], v[H,V], b[H]\n"
    "  param  s0\n"
    "  state  S[H,K,V] ~ s0\n"
    "  output y[H,V]\n"
    "  let u = normalize[K](k)\n"
    "  S = S[t-1] + sigmoid(b) * u * (v - sum[K](u * S[t-1]))\n"
    "  y = sum[K](q * S)\n"
    "}\n",
    // the parameter stands in the body, too
    "recurrence rotated(D, P = 3) {\n"
    "  input  x[D]\n"
    "  param  z0[P] : complex, w[D,P]\n"
    "  state  h[D,P] : complex ~ z0, g[D] : complex ~ complex(0.5, -2)\n"
    "  output y[D]\n"
    "  h = 0.9 * polar(1, w) * h[t-1] + x * z0\n"
    "  g = complex(0.5, 0.5) * g[t-1] + x\n"
    "  y = re(sum[P](h)) + im(g)\n"
    "}\n",
    "recurrence mixed(N = 3, M = N) {\n"
    "  input  x[N], lagged[N]\n"
    "  param  A[N,M] in [-0.3, 0.3], h0[N]\n"
    "  state  h[N] ~ h0, c ~ 1, r[N] ~ -0.5\n"
    "  output y[N]\n"
    "  c = where(c[t-1] < 3, c[t-1] + 1, 0)\n"
    "  h = sum[M](A * h[t-1]{N -> M}) + x + lagged[t-50]\n"
    "  r = tanh(r[t-1] + h)\n"
    "  y = h + c * r\n"
    "}\n",
    // a maximum, what is held relative to it, and packed sequences that begin with other ones
    // behind them
    "recurrence stable(D) {\n"
    "  input  k[D], v[D]\n"
    "  param  m0[D]\n"
    "  state  a[D], b[D] ~ 1, m[D] ~ m0\n"
    "  output y[D]\n"
    "  m = max(m[t-1] - 0.1, k)\n"
    "  let keep = exp(m[t-1] - 0.1 - m)\n"
    "  let write = exp(k - m)\n"
    "  a = keep * a[t-1] + write * v\n"
    "  b = keep * b[t-1] + write\n"
    "  y = a / b\n"
    "}\n"};

enum { PROGRAMS = sizeof programs / sizeof *programs };

// ---- against the interpreter -----------------------------------------------------------------

static int variable_of(const rec_signature *s, const char *name) {
  for (int i = 0; i < s->variable_count; i++)
    if (strcmp(s->variables[i].name, name) == 0) return i;
  return -1;
}

// Promised parameters keep their promise.
static problem *drawn(const rec_signature *s, const int32_t *lengths, int64_t sequences,
                      int64_t batch, int64_t time) {
  problem *p = lengths ? problem_packed(s, lengths, sequences, 3) : problem_new(s, batch, time, 3);
  problem_draw(p, (uint64_t)(17 + time), 0.8);
  int matrix = variable_of(s, "A");
  for (int64_t k = 0; matrix >= 0 && k < problem_numbers(p, matrix); k++)
    p->value[matrix][k] *= 0.25;
  problem_drop_states(p);
  return p;
}

static problem *exact_of(const problem *inputs, const rec_recurrence *r) {
  problem *exact = problem_copy(inputs);
  check(problem_run(exact, r, "reference", &(rec_run_options){.backward = true}), "%s",
        rec_message());
  return exact;
}

static void compare(const problem *exact, const problem *got, bool backward, double allowed,
                    const char *what) {
  char where[256];
  double error = problem_compare(exact, got, backward, 1e-3, where, sizeof where);
  check(error <= allowed, "%s %s: error %.1e > %.1e at %s", exact->signature->name, what, error,
        allowed, where);
}

static void run(const problem *inputs, const problem *exact, const rec_recurrence *r,
                const char *device, rec_run_options options, double allowed) {
  char what[128];
  problem *got = problem_copy(inputs);
  snprintf(what, sizeof what, "on %s, %lld steps of %lld sequences%s%s", device,
           (long long)inputs->time,
           (long long)(inputs->cu_seqlens ? inputs->sequences : inputs->batch),
           options.step ? ", step by step" : "", options.recompute ? ", nothing saved" : "");
  if (check(problem_run(got, r, device, &options), "%s: %s", what, rec_message()))
    compare(exact, got, options.backward, allowed, what);
  problem_free(got);
}

static void run_each_way(problem *inputs, const rec_recurrence *r, const char *const *devices,
                         double allowed) {
  problem *exact = exact_of(inputs, r);
  for (int i = 0; devices[i]; i++) {
    run(inputs, exact, r, devices[i], (rec_run_options){.backward = true, .time_slices = 2},
        allowed);
    run(inputs, exact, r, devices[i],
        (rec_run_options){.backward = true, .recompute = true, .threads = 3}, allowed);
    run(inputs, exact, r, devices[i], (rec_run_options){.step = true}, allowed);
  }
  problem_free(exact);
  problem_free(inputs);
}

// The states that the first part ends with, handed to the second.
static void run_in_parts(const rec_recurrence *r, const char *device, double allowed) {
  problem *whole = drawn(rec_recurrence_signature(r), NULL, 0, 2, 41), *exact = exact_of(whole, r);
  problem *joined = problem_run_split(whole, 19, r, device, &(rec_run_options){.backward = true});
  if (check(joined, "%s", rec_message())) compare(exact, joined, true, allowed, "in two parts");
  problem_free(joined);
  problem_free(whole);
  problem_free(exact);
}

static void run_in_segments(const rec_recurrence *r, const char *device, double allowed) {
  problem *whole = drawn(rec_recurrence_signature(r), NULL, 0, 2, 48), *exact = exact_of(whole, r);
  segments_report report = {.wrong = ""};
  problem *got =
      segments_sizes(r, device, whole).summary ? segments_run(r, device, whole, 3, &report) : NULL;
  check(!*report.wrong, "%s in segments: %s", whole->signature->name, report.wrong);
  if (got) compare(exact, got, true, allowed, "in segments");
  problem_free(got);
  problem_free(exact);
  problem_free(whole);
}

static void check_program(const rec_recurrence *r, const char *const *devices, double allowed) {
  static const int32_t lengths[] = {5, 0, 33, 1, 17};
  static const int64_t times[] = {0, 1, 7, 40};
  const rec_signature *s = rec_recurrence_signature(r);
  for (int i = 0; i < 4; i++) run_each_way(drawn(s, NULL, 0, 2, times[i]), r, devices, allowed);
  run_each_way(drawn(s, lengths, 5, 1, 1), r, devices, allowed);
  for (int i = 0; devices[i]; i++) {
    run_in_parts(r, devices[i], allowed);
    run_in_segments(r, devices[i], 10 * allowed);
  }
}

// ---- gradients -------------------------------------------------------------------------------

static double dot(const problem *p) {
  double sum = 0;
  for (int i = 0; i < p->signature->variable_count; i++)
    for (int64_t k = 0; p->signature->variables[i].kind == REC_OUTPUT && k < problem_numbers(p, i);
         k++)
      sum += p->value[i][k] * p->gradient[i][k];
  return sum;
}

static double value_with(const problem *inputs, const rec_recurrence *r, int variable, int64_t k,
                         double change) {
  problem *p = problem_copy(inputs);
  p->value[variable][k] += change;
  bool ran = problem_run(p, r, "reference", &(rec_run_options){0});
  double value = ran ? dot(p) : NAN;
  problem_free(p);
  return value;
}

// The interpreter's gradients by every parameter, against differences.
static void check_differences(const rec_recurrence *r) {
  problem *inputs = drawn(rec_recurrence_signature(r), NULL, 0, 2, 5), *exact = exact_of(inputs, r);
  for (int i = 0; i < inputs->signature->variable_count; i++) {
    for (int64_t k = 0;
         inputs->signature->variables[i].kind == REC_PARAM && k < problem_numbers(inputs, i); k++) {
      double h = 1e-5,
             slope = (value_with(inputs, r, i, k, h) - value_with(inputs, r, i, k, -h)) / (2 * h);
      check(fabs(slope - exact->gradient[i][k]) <= 1e-6 * (1 + fabs(slope)),
            "%s: d.%s[%d] is %.9g, by differences %.9g", inputs->signature->name,
            inputs->signature->variables[i].name, (int)k, exact->gradient[i][k], slope);
    }
  }
  problem_free(inputs);
  problem_free(exact);
}

// A state that is given replaces the start, whose parameter then gets no gradient.
static void check_given(const rec_recurrence *r, const char *const *devices) {
  const rec_signature *s = rec_recurrence_signature(r);
  problem *given = problem_new(s, 2, 9, 3);
  problem_draw(given, 3, 0.8);
  int start = variable_of(s, "s0");
  for (int i = 0; devices[i]; i++) {
    problem *p = problem_copy(given), *other = problem_copy(given);
    for (int64_t k = 0; k < problem_numbers(given, start); k++) other->value[start][k] += 1;
    rec_run_options options = {.backward = true};
    check(problem_run(p, r, devices[i], &options) && problem_run(other, r, devices[i], &options),
          "%s", rec_message());
    check(problem_equal(p, other, true), "%s: the start counts beside a state that is given",
          s->name);
    for (int64_t k = 0; k < problem_numbers(given, start); k++)
      check(p->gradient[start][k] == 0,
            "%s on %s: d.s0[%d] is %g beside a state that is given, expected 0", s->name,
            devices[i], (int)k, p->gradient[start][k]);
    problem_free(p);
    problem_free(other);
  }
  problem_free(given);
}

// ---- RWKV-4 ----------------------------------------------------------------------------------

enum { CHANNELS = 3, TOKENS = 40 };

// The formula of the paper in the largest common exponent: y = sum of e^(..) v / sum of e^(..).
static double wkv(const double *k, const double *v, double w, double u, int t) {
  double most = u + k[t * CHANNELS], up = 0, down = 0;
  for (int i = 0; i < t; i++) most = fmax(most, k[i * CHANNELS] - (t - 1 - i) * w);
  for (int i = 0; i <= t; i++) {
    double weight = exp((i < t ? k[i * CHANNELS] - (t - 1 - i) * w : u + k[t * CHANNELS]) - most);
    up += weight * v[i * CHANNELS];
    down += weight;
  }
  return up / down;
}

static void check_rwkv4(const rec_recurrence *r, const char *device, bool step, double level,
                        double allowed) {
  const rec_signature *s = rec_recurrence_signature(r);
  problem *p = problem_new(s, 1, TOKENS, CHANNELS);
  problem_draw(p, 8, 0.8);
  problem_drop_states(p);
  double *k = p->value[variable_of(s, "k")];
  const double *v = p->value[variable_of(s, "v")], *w = p->value[variable_of(s, "time_decay")],
               *u = p->value[variable_of(s, "time_first")];
  for (int i = 0; i < TOKENS * CHANNELS; i++) k[i] += level;
  bool ran = problem_run(p, r, device, &(rec_run_options){.backward = !step, .step = step});
  const double *y = p->value[variable_of(s, "y")];
  for (int i = 0; check(ran, "%s", rec_message()) && i < TOKENS * CHANNELS; i++) {
    int channel = i % CHANNELS;
    double expected = wkv(k + channel, v + channel, exp(w[channel]), u[channel], i / CHANNELS);
    check(fabs(y[i] - expected) <= allowed,
          "rwkv4 on %s%s, keys about %g: y[%d] is %.9g, expected %.9g", device,
          step ? ", step by step" : "", level, i, y[i], expected);
  }
  for (int i = 0; i < s->variable_count && !step; i++)
    for (int64_t n = 0; s->variables[i].kind == REC_PARAM && n < CHANNELS; n++)
      check(isfinite(p->gradient[i][n]), "rwkv4 on %s: d.%s is no number", device,
            s->variables[i].name);
  problem_free(p);
}

static void check_paper(const char *dtype, const char *target, const char *const *devices,
                        double allowed) {
  static const char *const forms[] = {"chunk", "step"};
  static const double levels[] = {0, -100, -1000};
  for (int form = 0; form < 2; form++) {
    const char *const options[] = {"--dtype", dtype,       "--target", target,
                                   "--form",  forms[form], NULL};
    rec_module *module = compile_file("stdlib/rwkv4.rec", options);
    for (int i = 0; check(module, "rwkv4 does not compile") && devices[i]; i++)
      for (int level = 0; level < 3; level++)
        for (int step = 0; step < 2; step++)
          check_rwkv4(rec_module_recurrence(module, 0), devices[i], step, levels[level], allowed);
    rec_module_close(module);
  }
}

// ----------------------------------------------------------------------------------------------------------------------------

static void check_type(const char *dtype, const char *target, const char *form,
                       const char *const *devices, double allowed) {
  const char *const options[] = {"--dtype", dtype, "--target", target, "--form",    form,
                                 "--chunk", "8",   "-O",       "0",    "--summary", NULL};
  compilation started[PROGRAMS];
  for (int i = 0; i < PROGRAMS; i++) started[i] = compile_start(programs[i], options);
  for (int i = 0; i < PROGRAMS; i++) {
    rec_module *module = compile_finish(&started[i]);
    if (!check(module, "program %d does not compile", i)) continue;
    const rec_recurrence *r = rec_module_recurrence(module, 0);
    check_program(r, devices, allowed);
    if (strcmp(dtype, "f64") == 0) check_differences(r);
    if (variable_of(rec_recurrence_signature(r), "s0") >= 0) check_given(r, devices);
    rec_module_close(module);
  }
}

int main(void) {
  static const char *const on_host[] = {"host", NULL}, *const everywhere[] = {"host", "simt", NULL};
  check_type("f64", host_target(), "chunk", on_host, 1e-9);
  check_type("f64", host_target(), "step", on_host, 1e-9);
  check_type("f32", simt_target(), "chunk", everywhere, 2e-4);
  check_paper("f64", host_target(), on_host, 1e-9);
  check_paper("f32", simt_target(), everywhere, 1e-3);
  return checked();
}
