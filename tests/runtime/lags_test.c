// Lags of 37 to 5000 steps: of inputs, of lets, of what heads share, alone and together. Values and
// all gradients must be the interpreter's, on the host and on the executor. They run in one call,
// split in two, packed and token by token. The code must not grow with the lag. Takes about 10 s of
// processor time.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/simt_options.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

typedef struct program {
  const char *text;
  bool narrow;  // tokens of 16 bits, too
} program;

static const program programs[] = {
    {"recurrence weighted(D) {\n"
     "  input x[D]\n"
     "  param w[D], u[D]\n"
     "  output y[D]\n"
     "  y = w * x[t-37] + u * x[t-100] * x[t-1]\n"
     "}\n",
     true},
    {"recurrence far(D) {\n"
     "  input x[D], z[D]\n"
     "  state h[D]\n"
     "  output y[D]\n"
     "  h = sigmoid(z) * h[t-1] + x[t-1000] - z[t-37]\n"
     "  y = h * x[t-512] + x[t-5000]\n"
     "}\n",
     false},
    {"recurrence of_lets(D) {\n"
     "  input x[D], z\n"
     "  param b[D]\n"
     "  output y[D], s\n"
     "  let a = silu(x + b * x[t-2])\n"
     "  let c = a[t-100] * x + a[t-37] * z[t-1]\n"
     "  y = c[t-512] + a[t-1]\n"
     "  s = z * z[t-1]\n"
     "}\n",
     false},
    {"recurrence shared(G, R, P = 2, N = 4) {\n"
     "  input q[G,N], k[G,N], v[G,R,P], g[G,R]\n"
     "  state S[G,R,P,N]\n"
     "  output y[G,R,P]\n"
     "  let k2 = silu(k + k[t-40])\n"
     "  let u = tanh(k2[t-100])\n"
     "  S = sigmoid(g) * S[t-1] + k2 * v\n"
     "  y = sum[N]((q + u) * S) + v[t-512]\n"
     "}\n",
     false},
    {"recurrence folded_away(D) {\n"
     "  input x[D], z[D], u[D], w[D]\n"
     "  param p[D]\n"
     "  output y[D]\n"
     "  let a = tanh(x)\n"
     "  y = where(a[t-2] > 0, p, p) + where(u[t-22] * w[t-2] > 0, p, p) + z[t-37]\n"
     "}\n",
     false},
    {"recurrence all_folded_away(D) {\n"
     "  input x[D]\n"
     "  param p[D]\n"
     "  output y[D]\n"
     "  y = where(x[t-22] > 0, p, p)\n"
     "}\n",
     true},
    {"recurrence turning(D, K = 4) {\n"
     "  input x[D,K] : complex\n"
     "  input r[K,D]\n"
     "  param a[K] : complex\n"
     "  output y[D], z[K] : complex\n"
     "  let e = x * a[K = 1]\n"
     "  y = re(sum[K](e[t-100] * conj(x))) + sum[K](where(r > 0, r[t-40], exp(r[t-37])))\n"
     "  z = x[t-37][D = 0] + stop_gradient(e[t-33][D = 0])\n"
     "}\n",
     true},
    {"recurrence beside(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], g[H]\n"
     "  state S[H,K,V]\n"
     "  output y[H,V]\n"
     "  let e = v - 0.1 * sum[K](k * S[t-1])\n"
     "  S = sigmoid(g) * S[t-1] + k[t-300] * (v + 0.2 * e[t-3]) + 0.01 * k * v[t-64]\n"
     "  y = sum[K](q * S) + e\n"
     "}\n",
     true}};
enum { PROGRAMS = sizeof programs / sizeof *programs };

typedef struct subject {
  const rec_recurrence *recurrence;
  const char *device, *type;
} subject;

static double least_of(const subject *s) {
  if (strcmp(s->type, "f64") == 0) return 1e-9;
  return strcmp(s->type, "bf16") == 0 && strcmp(s->device, "simt") == 0 ? 6e-2 : 2e-5;
}

static const char *name_of(const subject *s) {
  return rec_recurrence_signature(s->recurrence)->name;
}

static bool run(const subject *s, problem *p, rec_run_options options) {
  rec_simt_options simt = {.size = sizeof simt, .seed = 5};
  options.simt = &simt;
  return problem_run(p, s->recurrence, s->device, &options);
}

static void judge(const subject *s, const problem *inputs, const problem *exact, const problem *got,
                  bool backward, const char *what) {
  char where[256];
  double error = problem_compare(exact, got, backward, 1e-4, where, sizeof where),
         tolerance = least_of(s);
  if (error > tolerance && strcmp(s->type, "f64") != 0)
    tolerance =
        fmax(tolerance, 10 * problem_plain_error(inputs, exact, s->recurrence, backward, 4));
  check(error <= tolerance, "%s %s %s %s B=%d T=%d: error %.2e > %.2e at %s", name_of(s), s->type,
        s->device, what, (int)got->batch, (int)got->time, error, tolerance, where);
}

// Takes the inputs.
static void run_whole(const subject *s, problem *inputs, const char *what,
                      rec_run_options options) {
  const rec_run_options plain = {.backward = options.backward};
  problem *exact = problem_copy(inputs), *got = problem_copy(inputs);
  bool ran = problem_run(exact, s->recurrence, "reference", &plain) && run(s, got, options);
  if (check(ran, "%s %s %s %s: %s", name_of(s), s->type, s->device, what, rec_message()))
    judge(s, inputs, exact, got, options.backward, what);
  problem_free(inputs);
  problem_free(exact);
  problem_free(got);
}

static problem *drawn(const subject *s, problem *p, uint64_t seed) {
  problem_draw(p, seed, 0.7);
  problem_retype(p, rec_recurrence_signature(s->recurrence));
  return p;
}

static problem *draw(const subject *s, int64_t batch, int64_t time) {
  return drawn(s, problem_new(rec_recurrence_signature(s->recurrence), batch, time, 3),
               (uint64_t)time + 1);
}

static void run_packed(const subject *s, const int32_t *lengths, int count, const char *what,
                       rec_run_options options) {
  problem *p = problem_packed(rec_recurrence_signature(s->recurrence), lengths, count, 3);
  run_whole(s, drawn(s, p, 17), what, options);
}

// Two calls with the state handed over, and its gradient handed back, against the interpreter's
// one.
static void run_split(const subject *s, int64_t time, int64_t at) {
  rec_simt_options simt = {.size = sizeof simt, .seed = 5};
  const rec_run_options plain = {.backward = true}, options = {.backward = true, .simt = &simt};
  problem *whole = draw(s, 1, time);
  problem_drop_states(whole);
  problem *exact = problem_copy(whole), *joined = NULL;
  if (problem_run(exact, s->recurrence, "reference", &plain))
    joined = problem_run_split(whole, at, s->recurrence, s->device, &options);
  if (check(joined, "%s %s split at %d: %s", name_of(s), s->device, (int)at, rec_message()))
    judge(s, whole, exact, joined, true, "split");
  problem_free(whole);
  problem_free(exact);
  problem_free(joined);
}

// Lengths around 37 and 100; with `thorough`, beyond most lags.
static void check_all(const subject *s, bool thorough) {
  static const int64_t lengths[] = {1, 37, 100, 0, 36, 38, 1500};
  static const int32_t packed[] = {0, 1, 37, 0, 130, 38, 2, 0, 700}, steps[] = {1, 0, 1, 1, 0};
  const rec_run_options backward = {.backward = true}, step = {.step = true};
  bool simt = strcmp(s->device, "simt") == 0;
  int count = simt ? 3 : thorough ? 7 : 6, sequences = thorough ? 9 : 8;
  for (int i = 0; i < count; i++) run_whole(s, draw(s, 1 + i % 2, lengths[i]), "whole", backward);
  run_whole(s, draw(s, 0, 5), "without entries", backward);
  run_packed(s, packed, sequences, "packed",
             (rec_run_options){.backward = true, .recompute = true});
  run_packed(s, steps, sizeof steps / sizeof *steps, "packed, token by token", step);
  run_split(s, 60, 20);
  if (simt) return;
  run_whole(s, draw(s, 1, 45), "token by token", step);
  if (thorough) run_split(s, 700, 411);
}

enum { VARIABLES_MAX = 16 };

// A call on the problem's own numbers, which are f64; gradients by initial states take the place of
// those by final ones.
static void call_in_place(problem *p, rec_call *call, void *(*all)[VARIABLES_MAX], bool final_too) {
  *call = (rec_call){.batch = p->batch,
                     .time = p->time,
                     .axis_sizes = p->axis_sizes,
                     .value = all[0],
                     .final = all[1],
                     .gradient = all[2],
                     .d_final = all[3]};
  for (int i = 0; i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    double **fresh = v->kind == REC_OUTPUT ? &p->value[i]
                     : is_carried(v)       ? &p->final[i]
                                           : &p->gradient[i];
    if (!*fresh) *fresh = calloc((size_t)problem_numbers(p, i) + 1, sizeof **fresh);
    all[0][i] = p->value[i];
    all[1][i] = final_too ? p->value[i] : p->final[i];
    all[2][i] = is_carried(v) ? p->d_final[i] : p->gradient[i];
    all[3][i] = p->d_final[i];
  }
}

// So may final states that of the initial ones, but for a backward that reads these.
static void check_in_place(const subject *s, int64_t time) {
  const rec_run_options backward = {.backward = true}, forward = {0};
  problem *apart = draw(s, 2, time), *place = problem_copy(apart);
  void *all[4][VARIABLES_MAX];
  rec_call call;
  bool ran = run(s, apart, backward);
  call_in_place(place, &call, all, false);
  ran = ran && !rec_run(s->recurrence, rec_device_find("host"), &call, &backward);
  call_in_place(place, &call, all, true);
  ran = ran && !rec_run(s->recurrence, rec_device_find("host"), &call, &forward);
  for (int i = 0; ran && i < place->signature->variable_count; i++) {
    if (!is_carried(&place->signature->variables[i])) continue;
    size_t bytes = sizeof(double) * (size_t)problem_numbers(place, i);
    check(memcmp(place->value[i], apart->final[i], bytes) == 0 &&
              memcmp(place->d_final[i], apart->gradient[i], bytes) == 0,
          "%s T=%d: other states in place", name_of(s), (int)time);
  }
  check(ran, "%s in place: %s", name_of(s), rec_message());
  problem_free(apart);
  problem_free(place);
}

static void check_threads(const subject *s) {
  problem *one = draw(s, 2, 300), *three = problem_copy(one);
  bool ran = run(s, one, (rec_run_options){.backward = true, .threads = 1}) &&
             run(s, three, (rec_run_options){.backward = true, .threads = 3});
  check(ran && problem_equal(one, three, true), "%s: 3 threads give other bits than one",
        name_of(s));
  problem_free(one);
  problem_free(three);
}

static void run_program(const program *p) {
  const char *const words[][6] = {{"--dtype", "f64", "-O0", NULL},
                                  {"--target", simt_target(), "-O0", NULL},
                                  {"--target", simt_target(), "--dtype", "bf16", "-O0", NULL}};
  static const char *const types[] = {"f64", "f32", "bf16"};
  compilation started[3];
  int count = p->narrow ? 3 : 2;
  for (int i = 0; i < count; i++) started[i] = compile_start(p->text, words[i]);
  for (int i = 0; i < count; i++) {
    rec_module *module = compile_finish(&started[i]);
    if (!check(module != NULL, "recc fails on\n%s", p->text)) continue;
    subject s = {rec_module_recurrence(module, 0), "host", types[i]};
    check_all(&s, i == 0);
    if (i == 0) check_in_place(&s, 20), check_in_place(&s, 120);
    if (i == 1) check_threads(&s);
    s.device = "simt";
    if (i > 0) check_all(&s, false);
    rec_module_close(module);
  }
}

// The functions of the library, each with its count of instructions, made in 1 GB of addresses (a
// sanitizer needs all of them). Returns the bytes of that text.
static size_t functions_of(int lag, char *text, size_t size) {
  char command[512];
  snprintf(command, sizeof command,
           "file=$(mktemp) && echo 'recurrence r(D) { input x[D] param w[D] output y[D] let a = x "
           "* w y = w * x[t-%d] + a[t-%d] + x[t-1] }' >$file; case " REC_BINARY_DIR
           " in */asan) ;; *) ulimit -v 1000000 ;; esac; " REC_BINARY_DIR
           "/bin/recc $file --target sm_80 --emit=functions | sort; rm $file",
           lag, 2 * lag);
  FILE *answer = popen(command, "r");
  size_t read = answer ? fread(text, 1, size - 1, answer) : 0;
  text[read] = 0;
  if (answer) pclose(answer);
  return read;
}

static void check_growth(void) {
  char small[8192], large[8192];
  size_t bytes = functions_of(50, small, sizeof small);
  functions_of(50000, large, sizeof large);
  check(bytes > 0 && strcmp(small, large) == 0, "a lag of 50 steps makes\n%sone of 50,000\n%s",
        small, large);
}

int main(void) {
  const char *wanted = getenv("REC_GRID");
  for (int i = 0; i < PROGRAMS; i++)
    if (!wanted || strstr(programs[i].text, wanted)) run_program(&programs[i]);
  if (!wanted) check_growth();
  return checked();
}
