// What must hold for every recurrence and every size. The host agrees with the interpreter at
// lengths around the chunk, at sizes that are no powers of two, and with resets. It agrees without
// initial states, packed, and split anywhere.
//
//   property_test          a seeded third of the programs (a minute of processor time)
//   property_test full     all of them
//   property_test NAME     the programs in whose path or text NAME stands
//   REC_SEED=N             the part of seed N again (it is printed); else a new one each run
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

typedef struct program {
  const char *path;  // under the source folder; NULL: `text`
  const char *text;
  const char *options[8];
  int64_t run_time_size;
  bool cut;  // at this size it is one instance, whose time is cut
} program;

static const char resets[] =
    "recurrence resets(H, K = 6, V = 10) {\n"
    "  input q[H,K], k[H,K], v[H,V], a[H]\n"
    "  state S[H,K,V]\n"
    "  output y[H,V]\n"
    "  S = a * S[t-1] + k * v\n"
    "  y = sum[K](q * S)\n"
    "}\n";

static const char key_resets[] =
    "recurrence key_resets(H, K = 6, V = 10) {\n"
    "  input q[H,K], k[H,K], v[H,V], g[H,K]\n"
    "  state S[H,K,V]\n"
    "  output y[H,V]\n"
    "  S = exp(g) * S[t-1] + k * v\n"
    "  y = sum[K](q * S)\n"
    "}\n";

static const char shifts[] =
    "recurrence shifts(D, N = 5) {\n"
    "  input x[D], b[D,N], c[N]\n"
    "  param mu[D]\n"
    "  state h[D,N]\n"
    "  output y[D]\n"
    "  let m = x + mu * (x[t-1] - x[t-3])\n"
    "  let a = sigmoid(b + m[t-2])\n"
    "  h = a * h[t-1] + m * b\n"
    "  y = sum[N](c * h)\n"
    "}\n";

// Heads share a lag, the state of a value and a sum of all steps. Instances that differ in the head
// alone have cotangents of their own of these.
static const char shared_by_heads[] =
    "recurrence shared_by_heads(G, R, P = 6, N = 16) {\n"
    "  input q[G,N], k[G,N], v[G,R,P], g[G,R]\n"
    "  param w[G,N]\n"
    "  state S[G,R,P,N], before[G,N], top[G]\n"
    "  output y[G,R,P]\n"
    "  let key = silu(k + w * k[t-1])\n"
    "  let query = q + 0.5 * before[t-1]\n"
    "  before = key * q\n"
    "  top = 0.9 * top[t-1] + sum[N](key)\n"
    "  S = sigmoid(g) * S[t-1] + key * v\n"
    "  y = sum[N](query * S) + tanh(top)\n"
    "}\n";

// A sum that all heads share is added to a state of each head. Heads lie in lanes.
static const char shared_row[] =
    "recurrence shared_row(H, K = 5, N = 4) {\n"
    "  input x[H,N], z[K]\n"
    "  param w[N,K]\n"
    "  state S[H,N]\n"
    "  output y[H,N], u[H]\n"
    "  S = 0.3 * S[t-1] + x\n"
    "  let row = sum[K](w * z) + S[t-1]\n"
    "  y = row\n"
    "  u = sum[N](row)\n"
    "}\n";

// A real state leaves the imaginary part of a sum that it enters.
static const char leaves[] =
    "recurrence leaves(H, K = 6) {\n"
    "  input x[H,K] : complex, w : complex, g[H]\n"
    "  state S[H,K]\n"
    "  output y[H,K], z[H]\n"
    "  S = sigmoid(g) * S[t-1] + 0.3 * im(w + S[t-1]) + im(x)\n"
    "  y = S + im(w + S[t-1])\n"
    "  z = sum[K](re(x + S[t-1]) * im(x))\n"
    "}\n";

// Products of the epilogue read a sum over all steps, which each instance along G has of its own.
static const char mixed_parameters[] =
    "recurrence mixed_parameters(G = 2, R, P = 12, N = 9) {\n"
    "  input x[G,R,N]\n"
    "  param p[R,P], w[P,N]\n"
    "  state S[G,R,N]\n"
    "  output y[G,R,N], z[G,R]\n"
    "  let row = sum[P](w * silu(p)) + S[t-1]\n"
    "  S = 0.9 * S[t-1] + 0.5 * x\n"
    "  y = row\n"
    "  z = sum[N](row)\n"
    "}\n";

// A state whose gradient a part of its update stops: chunks make its steps one after another.
static const char stops[] =
    "recurrence stops(H, K = 6) {\n"
    "  input g[H,K], x[H], z[H]\n"
    "  param p[H]\n"
    "  state S[H,K]\n"
    "  output y[H,K]\n"
    "  S = tanh(p) * sigmoid(g) * S[t-1] + where(z > 0, abs(x), 0.3 * stop_gradient(S[t-1]))\n"
    "  y = S\n"
    "}\n";

#define GOLDEN(name) "tests/golden/" name ".rec", NULL
#define PROGRAM(name) "tests/runtime/programs/" name ".rec", NULL
static const program programs[] = {
    {GOLDEN("mamba2"), {"--chunk", "16"}, 2, false},
    {GOLDEN("mamba2"), {"--chunk", "32", "-D", "K=5", "-D", "V=7"}, 3, false},
    {GOLDEN("mamba2"), {"--chunk", "64", "-D", "K=33", "-D", "V=8"}, 1, true},
    {GOLDEN("mamba2"), {"--dtype", "f64", "-D", "K=5", "-D", "V=7"}, 3, false},
    {GOLDEN("mamba1"), {"--chunk", "16"}, 3, false},
    {GOLDEN("mamba1"), {"--chunk", "64", "-D", "N=5"}, 17, true},
    {GOLDEN("mamba1"), {"--dtype", "f64", "-D", "N=3"}, 1, true},
    {GOLDEN("gla"), {"--chunk", "16", "-D", "K=5", "-D", "V=9"}, 2, false},
    {GOLDEN("gla"), {"--chunk", "64"}, 1, true},
    {GOLDEN("linear_attn"), {"-D", "K=3", "-D", "V=17"}, 3, false},
    {GOLDEN("mingru"), {"--chunk", "32"}, 19, true},
    {GOLDEN("rwkv6"), {"--chunk", "16", "-D", "K=7", "-D", "V=3"}, 2, false},
    {GOLDEN("gated_deltanet"), {"--chunk", "32", "-D", "K=7", "-D", "V=5"}, 2, false},
    {GOLDEN("s4d"), {"--chunk", "32", "-D", "P=3"}, 5, true},
    {PROGRAM("delta_product"), {"--dtype", "f64"}, 2, false},
    {PROGRAM("gru"), {"--chunk", "16"}, 1, false},
    {PROGRAM("lru"), {"--dtype", "f64"}, 1, true},
    // slices read products that their summaries have kept, the second what is saved for backward too
    {PROGRAM("lru"), {"-D", "D=44", "-D", "N=11"}, 1, true},
    {PROGRAM("lru"), {"-D", "D=300", "-D", "N=5"}, 1, true},
    {PROGRAM("lru"), {"-D", "D=300", "-D", "N=5", "--dtype", "bf16"}, 1, true},
    {PROGRAM("mlstm"), {"--dtype", "f64", "-D", "K=9"}, 3, false},
    {PROGRAM("momentum"), {"--dtype", "f64"}, 2, false},
    {PROGRAM("rwkv7"), {"--chunk", "16"}, 2, false},
    {PROGRAM("two_taps"), {"--dtype", "f64"}, 2, false},
    {PROGRAM("heads_in_lanes"), {"--dtype", "f64"}, 2, false},
    {PROGRAM("two_key_axes"), {"--dtype", "f64"}, 1, false},
    {PROGRAM("two_key_axes"), {"--chunk", "16", "--save-every", "32"}, 1, false},
    {PROGRAM("kept_values"), {"--form", "chunk", "--chunk", "128"}, 2, false},
    {NULL, resets, {"--chunk", "16"}, 2, false},
    {NULL, resets, {"--dtype", "f64"}, 1, false},
    {NULL, key_resets, {"--chunk", "16"}, 2, false},
    {NULL, key_resets, {"--dtype", "f64"}, 1, true},
    {NULL, shifts, {"--chunk", "16"}, 9, false},
    {NULL, shifts, {"--dtype", "f64"}, 3, false},
    {NULL, shared_by_heads, {"--form", "chunk", "--chunk", "16"}, 3, false},
    {NULL, shared_by_heads, {"--form", "chunk", "--chunk", "16", "--save-every", "48"}, 3, false},
    {NULL, shared_by_heads, {"--dtype", "f64"}, 4, false},
    {NULL, mixed_parameters, {"--form", "chunk", "--chunk", "16", "--dtype", "f64"}, 3, false},
    {NULL, mixed_parameters, {"--form", "chunk", "--chunk", "16", "-D", "R=3"}, 1, false},
    {NULL, stops, {"--form", "chunk", "--chunk", "16", "--dtype", "f64"}, 3, false},
    {NULL, stops, {"--form", "chunk", "--chunk", "4"}, 2, false},
    {NULL, leaves, {"--form", "chunk", "--chunk", "16"}, 3, false},
    {NULL, leaves, {"--dtype", "f64"}, 2, false},
    {NULL, shared_row, {"--form", "chunk", "--chunk", "16"}, 3, false},
    {NULL, shared_row, {"--dtype", "f64"}, 11, false},
};

static const int64_t lengths[] = {0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 300};

// One program, compiled, and where it stands in messages.
typedef struct subject {
  const rec_recurrence *recurrence;
  const rec_signature *signature;
  char name[64];
  int64_t run_time_size;
  double least, shake;
} subject;

// Decays that are ordinary values: resets, no decay, a sign, growth.
static void draw_resets(problem *p, uint64_t *seed) {
  static const double factors[] = {0, 1, -1, 0.5, 0.9, 1.25, 0, 1},
                      logs[] = {0, -1e4, -0.5, -3, 0, -80, -1e-3, 0};
  for (int i = 0; i < p->signature->variable_count; i++) {
    const char *name = p->signature->variables[i].name;
    const double *list =
        strcmp(p->signature->name, "resets") == 0 && strcmp(name, "a") == 0       ? factors
        : strcmp(p->signature->name, "key_resets") == 0 && strcmp(name, "g") == 0 ? logs
                                                                                  : NULL;
    for (int64_t k = 0; list && k < problem_numbers(p, i); k++)
      p->value[i][k] = (float)list[next_random(seed) % 8];
  }
}

static problem *draw_problem(const subject *s, int64_t batch, int64_t time, uint64_t seed) {
  problem *p = problem_new(s->signature, batch, time, s->run_time_size);
  problem_draw(p, seed, 0.7);
  draw_resets(p, &seed);
  return p;
}

// Runs on both devices and compares; the host's results are kept if `keep` is not NULL.
static void agree(const subject *s, const problem *inputs, const char *what,
                  rec_run_options options, problem **keep) {
  const rec_run_options plain = {.backward = options.backward};
  problem *exact = problem_copy(inputs), *host = problem_copy(inputs);
  bool ran = problem_run(exact, s->recurrence, "reference", &plain) &&
             problem_run(host, s->recurrence, "host", &options);
  if (check(ran, "%s %s T=%lld: %s", s->name, what, (long long)inputs->time, rec_message())) {
    char where[256];
    double tolerance =
        problem_tolerance(inputs, exact, s->recurrence, s->least, s->shake, options.backward);
    double error = problem_compare(exact, host, options.backward, 1e-4, where, sizeof where);
    check(error <= tolerance, "%s %s B=%lld T=%lld: error %.2e > %.2e at %s", s->name, what,
          (long long)inputs->batch, (long long)inputs->time, error, tolerance, where);
  }
  problem_free(exact);
  if (keep && ran)
    *keep = host;
  else
    problem_free(host);
}

static void check_lengths(const subject *s) {
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    problem *p = draw_problem(s, lengths[i] > 100 ? 1 : 2, lengths[i], i);
    agree(s, p, "backward", (rec_run_options){.backward = true, .recompute = i % 2}, NULL);
    problem_free(p);
  }
  problem *none = draw_problem(s, 0, 5, 1);
  agree(s, none, "empty batch", (rec_run_options){.backward = true}, NULL);
  problem_free(none);
}

static void check_absent(const subject *s) {
  problem *p = draw_problem(s, 2, 21, 5);
  problem_drop_states(p);
  agree(s, p, "without states", (rec_run_options){.backward = true}, NULL);
  for (int i = 0; i < s->signature->variable_count; i++) {
    if (s->signature->variables[i].kind != REC_OUTPUT) continue;
    free(p->gradient[i]);
    p->gradient[i] = NULL;
  }
  agree(s, p, "without cotangents", (rec_run_options){.backward = true}, NULL);
  agree(s, p, "step by step", (rec_run_options){.step = true}, NULL);
  problem_free(p);
}

static problem *draw_packed(const subject *s, const int32_t *sequence_lengths, int64_t count) {
  problem *p = problem_packed(s->signature, sequence_lengths, count, s->run_time_size);
  uint64_t seed = 9;
  problem_draw(p, seed, 0.7);
  draw_resets(p, &seed);
  return p;
}

// Packed or one by one: the same values and final states to the last bit.
static void check_one_by_one(const subject *s, const problem *packed, const char *what) {
  for (int64_t i = 0; i < packed->sequences; i++) {
    problem *alone = problem_sequence(packed, i);
    if (check(problem_run(alone, s->recurrence, "host", &(rec_run_options){0}), "%s %s: %s",
              s->name, what, rec_message()))
      check(sequence_equal(packed, i, alone), "%s %s: sequence %d gives other bits alone", s->name,
            what, (int)i);
    problem_free(alone);
  }
}

static void check_packing(const subject *s, const char *what, const int32_t *sequence_lengths,
                          int64_t count) {
  problem *p = draw_packed(s, sequence_lengths, count), *one = NULL, *other = NULL;
  agree(s, p, what, (rec_run_options){.backward = true, .threads = 1}, &one);
  if (one) check_one_by_one(s, one, what);
  for (int64_t threads = 2; one && threads <= 3; threads++) {
    other = problem_copy(p);
    rec_run_options options = {.backward = true, .recompute = threads == 2, .threads = threads};
    bool ran = problem_run(other, s->recurrence, "host", &options);
    check(ran && problem_equal(one, other, true), "%s %s: %d threads give other bits than one",
          s->name, what, (int)threads);
    problem_free(other);
  }
  problem_free(one);
  problem_free(p);
}

// Sequences of many lengths, zero included.
static void check_packed(const subject *s) {
  static const int32_t some[] = {0, 5, 1, 0, 34, 17, 0}, mixed[] = {0, 1, 2, 16, 0, 17, 63, 300},
                       none[] = {0, 0, 0}, one[] = {33};
  int32_t many[300];
  uint64_t seed = 5;
  for (int i = 0; i < 300; i++) many[i] = (int32_t)(next_random(&seed) % 4);
  check_packing(s, "packed", mixed, 8);
  check_packing(s, "packed, only empty ones", none, 3);
  check_packing(s, "packed, a single one", one, 1);
  check_packing(s, "packed, none", none, 0);
  check_packing(s, "packed, many", many, 300);
  problem *p = draw_packed(s, some, 7);
  agree(s, p, "packed, step by step", (rec_run_options){.step = true}, NULL);
  problem_drop_states(p);
  agree(s, p, "packed, without states", (rec_run_options){.backward = true}, NULL);
  problem_free(p);
}

static void check_threads(const subject *s) {
  problem *p = draw_problem(s, 3, 130, 11), *one = NULL, *other = NULL;
  agree(s, p, "1 thread", (rec_run_options){.backward = true, .threads = 1}, &one);
  for (int64_t threads = 2; one && threads <= 5; threads++) {
    other = NULL;
    agree(s, p, "threads", (rec_run_options){.backward = true, .threads = threads}, &other);
    check(other && problem_equal(one, other, true), "%s: %d threads give other bits than one",
          s->name, (int)threads);
    problem_free(other);
  }
  problem_free(one);
  problem_free(p);
}

// Two calls with the state handed over give what one gives. `options` are those of the second call.
static void check_split(const subject *s, problem *whole, int64_t at, const char *what,
                        rec_run_options options) {
  const rec_run_options plain = {.backward = options.backward};
  problem_drop_states(whole);
  problem *exact = problem_copy(whole), *joined = NULL;
  if (problem_run(exact, s->recurrence, "reference", &plain))
    joined = problem_run_split(whole, at, s->recurrence, "host", &options);
  if (check(joined, "%s %s at %d: %s", s->name, what, (int)at, rec_message())) {
    char where[256];
    double tolerance =
        problem_tolerance(whole, exact, s->recurrence, s->least, s->shake, options.backward);
    double error = problem_compare(exact, joined, options.backward, 1e-4, where, sizeof where);
    check(error <= tolerance, "%s %s at %d: error %.2e > %.2e at %s", s->name, what, (int)at, error,
          tolerance, where);
  }
  problem_free(whole);
  problem_free(exact);
  problem_free(joined);
}

// One sequence that is one instance is cut in time (runtime/support/split.c): long ones.
static void check_parts(const subject *s) {
  static const int64_t long_lengths[] = {1024, 1100, 4500};
  for (size_t i = 0; i < sizeof long_lengths / sizeof *long_lengths; i++) {
    problem *p = draw_problem(s, 1, long_lengths[i], i), *one = NULL, *two = NULL;
    rec_run_options options = {.backward = true, .recompute = i % 2, .threads = 1};
    agree(s, p, "cut in time", options, &one);
    options.threads = 3;
    agree(s, p, "cut in time", options, &two);
    check(one && two && problem_equal(one, two, true), "%s: 3 threads give other bits than one",
          s->name);
    problem_free(one);
    problem_free(two);
    problem_drop_states(p);
    agree(s, p, "cut in time, without states", options, NULL);
    problem_free(p);
  }
}

// Packed with others, such a sequence is cut as it would be alone.
static void check_packed_parts(const subject *s) {
  static const int32_t one[] = {3, 1100, 0, 5, 64}, two[] = {1024, 0, 1, 1500, 70, 0},
                       short_ones[] = {1023, 40}, many[] = {1100, 1100, 1100, 1100, 1100};
  check_packing(s, "packed with a long one", one, 5);
  check_packing(s, "packed with two long ones", two, 6);
  check_packing(s, "packed, not long enough", short_ones, 2);
  problem *p = draw_packed(s, many, 5);  // enough of them to share out: they stay whole
  agree(s, p, "packed, all long", (rec_run_options){.backward = true}, NULL);
  problem_drop_states(p);
  agree(s, p, "packed, all long, without states", (rec_run_options){.backward = true}, NULL);
  problem_free(p);
  p = draw_packed(s, one, 5);
  problem_drop_states(p);
  agree(s, p, "packed with a long one, without states", (rec_run_options){.backward = true}, NULL);
  problem_free(p);
}

static void check_program(const program *p, uint64_t *seed) {
  rec_module *module =
      p->path ? compile_file(p->path, p->options) : compile_text(p->text, p->options);
  if (!check(module, "%s does not compile", p->path ? p->path : p->text)) return;
  subject s = {.recurrence = rec_module_recurrence(module, 0), .run_time_size = p->run_time_size};
  s.signature = rec_recurrence_signature(s.recurrence);
  bool f64 = s.signature->token_type == REC_F64;
  s.least = f64 ? 1e-9 : 2e-5;
  s.shake = f64 ? 1e-12 : 6e-8;
  snprintf(s.name, sizeof s.name, "%s", s.signature->name);
  for (int i = 0; i < 8 && p->options[i]; i++) {
    size_t used = strlen(s.name);
    snprintf(s.name + used, sizeof s.name - used, " %s", p->options[i]);
  }
  check_lengths(&s);
  check_absent(&s);
  check_packed(&s);
  check_threads(&s);
  for (int i = 0; i < 3; i++)
    check_split(&s, draw_problem(&s, 2, 70, 13), (int64_t)(next_random(seed) % 71), "split",
                (rec_run_options){.backward = true});
  check_split(&s, draw_problem(&s, 2, 83, 17), 70, "prefill, then steps, split",
              (rec_run_options){.step = true});
  if (p->cut) check_parts(&s);
  if (p->cut) check_packed_parts(&s);
  rec_module_close(module);
}

// What layers compute between their calls becomes recurrences without a name in the source: they
// run everywhere, too.
static void check_synthesised(void) {
  static const char *const none[] = {NULL};
  rec_module *module = compile_file("tests/graph/layers-of-all-kinds.rec", none);
  if (!check(module, "layers-of-all-kinds.rec does not compile")) return;
  int synthesised = 0;
  for (int i = 0; i < rec_module_count(module); i++) {
    subject s = {.recurrence = rec_module_recurrence(module, i), .run_time_size = 3};
    s.signature = rec_recurrence_signature(s.recurrence);
    s.least = 2e-5;
    s.shake = 6e-8;
    synthesised += strchr(s.signature->name, '.') != NULL;
    snprintf(s.name, sizeof s.name, "%s", s.signature->name);
    check_packed(&s);
  }
  check(synthesised >= 3, "%d recurrences are synthesised", synthesised);
  rec_module_close(module);
}

// The product of decays above 1 overflows in the second slice, where the state stays zero: nothing
// may become NaN by a cut in time.
static const char growth[] =
    "recurrence growth(D) {\n"
    "  input a[D], x[D]\n"
    "  state h[D]\n"
    "  output y[D]\n"
    "  h = a * h[t-1] + x\n"
    "  y = h\n"
    "}\n";

// The same where the first slice is finished by then: a cache has no room for 600 numbers of every
// step.
static const char growth_of_products[] =
    "recurrence growth(D = 600, E = 44) {\n"
    "  input a[D], x[E]\n"
    "  param w[D,E], u[E,D]\n"
    "  state h[D]\n"
    "  output y[E]\n"
    "  h = a * h[t-1] + sum[E](w * x)\n"
    "  y = sum[D](u * h)\n"
    "}\n";

static void check_growth(const char *text) {
  static const char *const none[] = {NULL};
  rec_module *module = compile_text(text, none);
  if (!check(module, "growth does not compile")) return;
  subject s = {
      .recurrence = rec_module_recurrence(module, 0), .name = "growth", .run_time_size = 3};
  s.signature = rec_recurrence_signature(s.recurrence);
  s.least = 2e-5;
  s.shake = 6e-8;
  problem *p = draw_problem(&s, 1, 1100, 3);
  problem_drop_states(p);
  for (int i = 0; i < s.signature->variable_count; i++) {
    const char *name = s.signature->variables[i].name;
    bool decay = strcmp(name, "a") == 0;
    if (!decay && strcmp(name, "x") != 0) continue;
    int64_t numbers = problem_numbers(p, i) / 1100;
    for (int64_t k = 0; k < 300 * numbers && decay; k++) p->value[i][k] = 0;
    for (int64_t k = (decay ? 300 : 200) * numbers; k < 1090 * numbers; k++)
      p->value[i][k] = decay ? 2 : 0;
  }
  agree(&s, p, "decays above 1", (rec_run_options){.backward = true, .threads = 1}, NULL);
  problem_free(p);
  rec_module_close(module);
}

int main(int count, char **words) {
  bool full = count > 1 && strcmp(words[1], "full") == 0;
  const char *only = count > 1 && !full ? words[1] : NULL;
  uint64_t seed = 1, part = chosen_seed();
  printf("seed %llu\n", (unsigned long long)part);
  if (!only || strcmp(only, "growth") == 0) {
    check_growth(growth);
    check_growth(growth_of_products);
  }
  if (!only || strcmp(only, "synthesised") == 0) check_synthesised();
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    const program *p = &programs[i];
    if (only ? strstr(p->path ? p->path : p->text, only) != NULL : full || (part + i) % 3 == 0)
      check_program(p, &seed);
  }
  return checked();
}
