// Parts of time: the executor's results are the interpreter's.
//
//   slices_test         of programs whose states grow, or are held relative to maxima, those in the form, steps or chunks,
//                       that the seed draws
//   slices_test full    all in both
//   REC_SEED=N          the same draws again; else new ones each run
//
//   states that could grow:  what a slice leaves of those before it overflows in f32, and they themselves are 0 meanwhile
//   running maxima:          states relative to them; slices without a finite token, tokens that rise by 500, and jumps
//   nothing saved:           backward makes its states in slices, too, in five launches at most; also where cotangents are made
//                            of them, where parameters have gradients then, and where they know the step before
//   sums of several blocks:  the same bits in whatever order the blocks run
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/simt_options.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

// A gate for each entry, real and complex. Then a delta rule, one head a thread block or one column
// a thread.
static const char growing[] =
    "recurrence entries(N = 5, D) {\n"
    "  input g[D], x[N,D]\n"
    "  param w[D]\n"
    "  state h[N,D]\n"
    "  output y[D]\n"
    "  h = g * h[t-1] + w * x\n"
    "  y = sum[N](h)\n"
    "}\n"
    "recurrence turning(D) {\n"
    "  input g[D], a[D], x[D]\n"
    "  state h[D] : complex\n"
    "  output y[D]\n"
    "  h = complex(g * cos(a), g * sin(a)) * h[t-1] + x\n"
    "  y = re(h) + 0.5 * im(h)\n"
    "}\n"
    "recurrence delta(H, K = 7, V = 5) {\n"
    "  input q[H,K], k[H,K], x[H,V], g[H], rate[H]\n"
    "  param w[H]\n"
    "  state S[H,K,V]\n"
    "  output y[H,V]\n"
    "  let before = g * S[t-1]\n"
    "  S = before + rate * k * (w * x - sum[K](k * before))\n"
    "  y = sum[K](q * S)\n"
    "}\n";

// Lags of a token: the last steps of a slice get cotangents from the next slice. Two states share
// the heads' axis alone.
static const char earlier[] =
    "recurrence taps(H, K = 5, V = 3) {\n"
    "  input q[H,K], k[H,K], x[H,V], g[H]\n"
    "  state S[H,K,V], n[H]\n"
    "  output y[H,V]\n"
    "  S = sigmoid(3 + g) * S[t-1] + (k - 0.5 * k[t-1]) * x[t-1]\n"
    "  n = 0.9 * n[t-1] + g[t-1] * g\n"
    "  y = sum[K](q * S) + n\n"
    "}\n";

enum { TIME = 520, SLICES = 4, BEGIN = 100, END = 300 };

static bool is_named(const rec_variable *v, const char *name) { return strcmp(v->name, name) == 0; }

// Steps that grow stand between two steps whose decay is 0.
static double grown(const rec_variable *v, int64_t step, int64_t number, double drawn) {
  bool inside = step > BEGIN && step < END, at_end = step == BEGIN || step == END;
  if (v->kind == REC_OUTPUT || is_named(v, "x")) return inside || at_end ? 0 : drawn;
  if (is_named(v, "g")) return inside ? 3 : at_end ? 0 : 0.5 + 0.2 * drawn;
  if (is_named(v, "k")) return inside ? number % 7 == 2 : 0.3 * drawn;
  if (is_named(v, "rate")) return inside ? 2.5 : 0.5 + 0.2 * drawn;
  return drawn;
}

static void make_grow(problem *p) {
  for (int i = 0; i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    double *tokens = v->kind == REC_OUTPUT ? p->gradient[i] : p->value[i];
    if (!is_token(v) || !tokens) continue;
    int64_t all = problem_numbers(p, i), row = all / p->time / p->batch;
    for (int64_t n = 0; n < all; n++) tokens[n] = grown(v, n / row % p->time, n % row, tokens[n]);
  }
}

// The maxima: of all heads for a matrix and its norm; of heads that share keys; of channels, read
// before it is written. Then two maxima of different axes, where a state decays faster than its
// maximum, resets are choices, and another state has no maximum. Three states that are made of each
// other, entry by entry: as the cotangents of the channels are.
static const char relative[] =
    "recurrence heads(H, K = 5, V = 3) {\n"
    "  input q[H,K], k[H,K], x[H,V], z[H], g[H]\n"
    "  state C[H,K,V], n[H,K], m[H]\n"
    "  output y[H,V]\n"
    "  let f = log_sigmoid(4 + g)\n"
    "  m = stop_gradient(max(f + m[t-1], z))\n"
    "  C = exp(f + m[t-1] - m) * C[t-1] + exp(z - m) * k * x\n"
    "  n = exp(f + m[t-1] - m) * n[t-1] + exp(z - m) * k\n"
    "  y = sum[K](q * C) / max(abs(sum[K](q * n)), exp(-m))\n"
    "}\n"
    "recurrence shared(H, K = 5, V = 3) {\n"
    "  input q[H,K], k[K], x[H,V], z[H], g[H]\n"
    "  state C[H,K,V], m[H]\n"
    "  output y[H,V]\n"
    "  let f = log_sigmoid(4 + g)\n"
    "  m = stop_gradient(max(f + m[t-1], z))\n"
    "  C = exp(f + m[t-1] - m) * C[t-1] + exp(z - m) * k * x\n"
    "  y = sum[K](q * C)\n"
    "}\n"
    "recurrence channels(D) {\n"
    "  input z[D], x[D]\n"
    "  param speed[D], bonus[D]\n"
    "  state a[D], b[D], m[D]\n"
    "  output y[D]\n"
    "  let now = bonus + z\n"
    "  let p = max(m[t-1], now)\n"
    "  y = (exp(m[t-1] - p) * a[t-1] + exp(now - p) * x) / (exp(m[t-1] - p) * b[t-1] + exp(now - "
    "p) + 1e-37)\n"
    "  m = max(m[t-1] - 0.01 * exp(speed), z)\n"
    "  a = exp(m[t-1] - 0.01 * exp(speed) - m) * a[t-1] + exp(z - m) * x\n"
    "  b = exp(m[t-1] - 0.01 * exp(speed) - m) * b[t-1] + exp(z - m)\n"
    "}\n"
    "recurrence circle(D) {\n"
    "  input f[D], g[D], x[D]\n"
    "  state a[D], b[D], c[D]\n"
    "  output y[D]\n"
    "  a = sigmoid(4 + f) * a[t-1] + 0.02 * tanh(g) * b[t-1] + x\n"
    "  b = 0.97 * b[t-1] - 0.02 * tanh(f) * a\n"
    "  c = sigmoid(4 + g) * c[t-1] + 0.01 * g * b[t-1] + x * f\n"
    "  y = a * c + b\n"
    "}\n"
    "recurrence both(H, K = 5, V = 3) {\n"
    "  input q[H,K], k[H,K], x[H,V], z[H], g[H], boundary[H]\n"
    "  state C[H,K,V], n[H,K], S[H,K,V], m[H], top[H,K]\n"
    "  output y[H,V]\n"
    "  let f = where(boundary > 1, -1e4, log_sigmoid(3 + g))\n"
    "  let slow = log_sigmoid(5 + k)\n"
    "  m = max(z, m[t-1] + f)\n"
    "  top = max(slow + top[t-1], k + 0.5 * z)\n"
    "  C = exp(f - 0.02 * softplus(g) + m[t-1] - m) * C[t-1] + (exp(z - m) * k - 0.5 * exp(z - 1 - "
    "m)) * x\n"
    "  n = n[t-1] * exp(slow + (top[t-1] - top)) + exp(k + 0.5 * z - top)\n"
    "  S = sigmoid(2 + g) * S[t-1] + k[t-1] * x\n"
    "  y = sum[K](q * (C + S)) / (1 + sum[K](n * softplus(q)))\n"
    "}\n";

// Tokens under a running maximum: a slice without finite tokens, an empty slice, a slow rise by
// 500, a jump.
static void make_extreme(problem *p) {
  for (int i = 0; i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    if (!is_token(v) || !p->value[i] || !is_named(v, "z")) continue;
    int64_t all = problem_numbers(p, i), row = all / p->time / p->batch;
    for (int64_t n = 0; n < all; n++) {
      int64_t step = n / row % p->time;
      double *z = &p->value[i][n];
      if (step < TIME / 2) *z = step < TIME / 5 ? -1e4 : -INFINITY;
      if (step >= TIME / 2) *z += 2 * (double)(step - TIME / 2);
      if (step == TIME - 20) *z = 580;
    }
  }
}

static void run_both(const problem *inputs, const rec_recurrence *r, const char *form,
                     const char *what) {
  const char *name = inputs->signature->name;
  char where[256];
  problem *exact = problem_copy(inputs), *whole = problem_copy(inputs), *got = problem_copy(inputs);
  rec_run_options options = {.backward = true}, slices = {.backward = true, .time_slices = SLICES};
  bool ran = problem_run(exact, r, "reference", &options) &&
             problem_run(whole, r, "simt", &options) && problem_run(got, r, "simt", &slices);
  if (check(ran, "%s %s: %s", name, form, rec_message())) {
    double loop = problem_compare(exact, whole, true, 1e-4, where, sizeof where);
    double error = problem_compare(exact, got, true, 1e-4, where, sizeof where);
    check(error <= 2e-5 + 2 * loop, "%s %s, %s: error %.2e at %s, %.2e in one slice", name, form,
          what, error, where, loop);
    check(!problem_equal(whole, got, true), "%s %s, %s: slices give the bits of one", name, form,
          what);
  }
  problem_free(exact);
  problem_free(whole);
  problem_free(got);
}

typedef enum tokens { PLAIN, PACKED, EXTREME } tokens;

static void run_relative(rec_module *module, const char *name, const char *form, tokens kind) {
  static const char *const kinds[] = {"plain", "packed", "extreme"};
  static const int32_t lengths[] = {0, 1, 300, 64, 0, 155};
  const rec_recurrence *r = rec_module_find(module, name);
  problem *inputs = kind == PACKED ? problem_packed(rec_recurrence_signature(r), lengths, 6, 3)
                                   : problem_new(rec_recurrence_signature(r), 1, TIME, 3);
  problem_draw(inputs, 4 + (uint64_t)kind, 0.7);
  if (kind == EXTREME) make_extreme(inputs);
  problem_retype(inputs, inputs->signature);
  run_both(inputs, r, form, kinds[kind]);
  problem_free(inputs);
}

// A maximum that nothing shifts, and states that decay with it alone: their summaries have no sums
// of logarithms.
static void run_unshifted(void) {
  for (int i = 0; i < 2; i++) {
    const char *const words[] = {"--target", simt_target(),        "-O0", "-D", "K=5", "-D", "V=3",
                                 "--form",   i ? "chunk" : "step", NULL};
    rec_module *module = compile_file("tests/invented/attention_by_a_running_maximum.rec", words);
    if (!check(module, "does not compile")) continue;
    for (tokens kind = PLAIN; kind <= PACKED; kind++)
      run_relative(module, "attention_by_a_running_maximum", words[8], kind);
    rec_module_close(module);
  }
}

static double error_of_one_slice(const problem *inputs, const problem *exact,
                                 const rec_recurrence *r) {
  const rec_run_options whole = {.backward = true};
  char where[256];
  problem *got = problem_copy(inputs);
  check(problem_run(got, r, "simt", &whole), "%s: %s", inputs->signature->name, rec_message());
  double error = problem_compare(exact, got, true, 1e-4, where, sizeof where);
  problem_free(got);
  return error;
}

static void compare(problem *inputs, const rec_recurrence *r, const char *form,
                    rec_run_options options) {
  const char *name = inputs->signature->name;
  const rec_run_options whole = {.backward = true};
  problem *exact = problem_copy(inputs), *got = problem_copy(inputs);
  char where[256];
  if (check(problem_run(exact, r, "reference", &whole), "%s: %s", name, rec_message())) {
    bool ran = problem_run(got, r, "simt", &options);
    if (check(ran, "%s %s: %s", name, form, rec_message())) {
      double error = problem_compare(exact, got, true, 1e-4, where, sizeof where), least = 2e-5;
      if (error > least) least += 2 * error_of_one_slice(inputs, exact, r);
      check(error <= least, "%s %s T=%d%s: error %.2e at %s", name, form, (int)inputs->time,
            options.recompute ? ", nothing saved" : "", error, where);
    }
  }
  problem_free(exact);
  problem_free(got);
}

// Whether a launch wrote slice summaries of states or of cotangents.
static void count_ends(void *context, const char *kernel, const char *tensor, int64_t read,
                       int64_t written) {
  (void)kernel, (void)read;
  if (strcmp(tensor, "slice summaries") == 0 && written > 0) ++*(int *)context;
}

// What one call, or two of them, launched.
static int64_t launches_of(const problem *inputs, const rec_recurrence *r, rec_run_options options,
                           int *ends) {
  simt_counts counts = {0};
  rec_simt_options simt = {
      .size = sizeof simt, .counts = &counts, .report = count_ends, .context = ends};
  problem *p = problem_copy(inputs);
  options.simt = &simt;
  check(problem_run(p, r, "simt", &options), "%s: %s", inputs->signature->name, rec_message());
  problem_free(p);
  return simt.launches;
}

static void count_launches(const problem *inputs, const rec_recurrence *r, const char *form) {
  const char *name = inputs->signature->name;
  int forward = 0, both = 0;
  rec_run_options options = {.time_slices = SLICES};
  int64_t one = launches_of(inputs, r, options, &forward);
  options.backward = options.recompute = true;
  int64_t all = launches_of(inputs, r, options, &both);
  check(one <= 3 && all - one <= 5, "%s %s: %d launches forward, %d backward", name, form, (int)one,
        (int)(all - one));
  check(forward == 1 && both == 3,
        "%s %s: time is not cut: slices are kept %d times forward, %d in all", name, form, forward,
        both);
}

// Calls that save nothing: drawn tokens, whole and ragged slices, several batch entries, packed
// sequences.
static void run_unsaved(const rec_recurrence *r, const char *form, uint64_t seed) {
  static const struct {
    int64_t batch, time, slices;
  } all[] = {{1, 300, 2}, {2, 257, 3}, {1, TIME, SLICES}};
  static const int32_t lengths[] = {0, 1, 129, 0, 270, 1};
  enum { CASES = sizeof all / sizeof *all };
  const rec_signature *signature = rec_recurrence_signature(r);
  for (int i = 0; i <= CASES; i++) {
    bool packed = i == CASES;
    problem *p = packed ? problem_packed(signature, lengths, 6, 3)
                        : problem_new(signature, all[i].batch, all[i].time, 3);
    problem_draw(p, seed + (uint64_t)i, 0.3);
    problem_retype(p, p->signature);
    compare(p, r, form,
            (rec_run_options){
                .backward = true, .recompute = true, .time_slices = packed ? 3 : all[i].slices});
    if (i == CASES - 1) count_launches(p, r, form);
    problem_free(p);
  }
}

// Backward in time slices, which an option of the executor asks for.
static bool run_told(problem *p, const rec_recurrence *r, rec_simt_options simt, int64_t threads) {
  simt.size = sizeof simt;
  return problem_run(p, r, "simt",
                     &(rec_run_options){.backward = true,
                                        .recompute = true,
                                        .time_slices = SLICES,
                                        .threads = threads,
                                        .simt = &simt});
}

// The seed chooses in which order blocks run; with several threads of the host, chance does.
static void run_seeds(const rec_recurrence *r, const char *form, int64_t time) {
  enum { SEEDS = 16 };
  problem *right = problem_new(rec_recurrence_signature(r), 1, time, 3);
  problem_draw(right, 7, 0.3);
  problem_retype(right, right->signature);
  problem *inputs = problem_copy(right);
  const char *name = inputs->signature->name;
  bool first = check(run_told(right, r, (rec_simt_options){.watched = true}, 1), "%s %s: %s", name,
                     form, rec_message());
  for (uint64_t seed = 1; first && seed <= SEEDS; seed++) {
    problem *p = problem_copy(inputs);
    if (check(run_told(p, r, (rec_simt_options){.seed = seed}, seed % 3 ? 1 : 3), "%s %s: %s", name,
              form, rec_message()))
      check(problem_equal(right, p, true), "%s %s: other bits with seed %d", name, form, (int)seed);
    problem_free(p);
  }
  problem_free(inputs);
  problem_free(right);
}

static void run_one(rec_module *module, const char *name, const char *form, uint64_t seed) {
  const rec_recurrence *r = rec_module_find(module, name);
  problem *inputs = problem_new(rec_recurrence_signature(r), 1, TIME, 3);
  problem_draw(inputs, seed, 0.7);
  make_grow(inputs);
  problem_retype(inputs, inputs->signature);
  for (int recompute = 0; recompute < 2; recompute++)
    compare(inputs, r, form,
            (rec_run_options){.backward = true, .recompute = recompute, .time_slices = SLICES});
  problem_free(inputs);
  run_unsaved(r, form, seed + 10);
}

int main(int count, char **words) {
  static const char *const forms[] = {"step", "chunk"};
  bool full = count > 1 && strcmp(words[1], "full") == 0;
  uint64_t seed = chosen_seed();
  printf("seed %llu\n", (unsigned long long)seed);
  for (int i = 0; i < 2; i++) {
    if (!full && seed % 4 != (uint64_t)i) continue;
    const char *const options[] = {"--target", simt_target(), "-O0", "--form", forms[i], NULL};
    rec_module *module = compile_text(growing, options);
    if (!check(module, "does not compile")) continue;
    run_one(module, "entries", forms[i], 1);
    run_one(module, "turning", forms[i], 2);
    run_one(module, "delta", forms[i], 3);
    rec_module_close(module);
  }
  for (int i = 0; i < 2; i++) {
    if (!full && seed % 4 != (uint64_t)i + 2) continue;
    const char *const options[] = {"--target", simt_target(), "-O0", "--form", forms[i], NULL};
    rec_module *module = compile_text(relative, options);
    if (!check(module, "does not compile")) continue;
    for (tokens kind = PLAIN; kind <= EXTREME; kind++) {
      if (kind != PACKED || i) run_relative(module, "heads", forms[i], kind);
      if (kind != PLAIN || i) run_relative(module, "channels", forms[i], kind);
      if (kind != EXTREME && !i) run_relative(module, "circle", forms[i], kind);
      if (i) run_relative(module, "both", forms[i], kind);  // its single steps wait for k[t-1]
    }
    run_unsaved(rec_module_find(module, "heads"), forms[i], 20);
    run_unsaved(rec_module_find(module, "shared"), forms[i], 70);
    if (!i) run_unsaved(rec_module_find(module, "channels"), forms[i], 50);
    if (!i) run_seeds(rec_module_find(module, "channels"), forms[i], 64);
    if (!i) run_unsaved(rec_module_find(module, "circle"), forms[i], 30);
    rec_module_close(module);
  }
  run_unshifted();
  const char *const chunks[] = {"--target", simt_target(), "-O0", "--form", "chunk", NULL};
  rec_module *module = compile_text(earlier, chunks);
  if (check(module, "does not compile")) run_unsaved(rec_module_find(module, "taps"), "chunk", 40);
  rec_module_close(module);
  module = compile_file("tests/invented/read_before_gates_read_after.rec", chunks);
  if (check(module, "does not compile")) {
    run_unsaved(rec_module_find(module, "read_before_gates_read_after"), "chunk", 60);
    run_seeds(rec_module_find(module, "read_before_gates_read_after"), "chunk", 300);
  }
  rec_module_close(module);
  return checked();
}
