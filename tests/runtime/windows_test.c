// Backwards that go window after window (runtime/support/window.h): their workspace does not grow
// with time, and their gradients are the interpreter's, whatever the number of threads. Takes about
// 10 s.
#include <stdio.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"
#include "tests/runtime/raw_call.h"

enum { BATCH = 6, HEADS = 8 };

static int64_t backward_bytes(const rec_recurrence *r, int64_t time) {
  raw_call *x = raw_call_new(r, REC_DEVICE_HOST, BATCH, time, NULL, 0, HEADS);
  int64_t bytes = x ? x->sizes.workspace_backward : 0;
  if (x) raw_call_free(x);
  return bytes;
}

static void agree(const rec_recurrence *r, int64_t time, bool states) {
  const rec_signature *s = rec_recurrence_signature(r);
  bool f64 = s->carried_type == REC_F64;
  problem *inputs = problem_new(s, BATCH, time, HEADS);
  problem_draw(inputs, (uint64_t)time, 0.3);
  if (!states) problem_drop_states(inputs);
  problem *exact = problem_copy(inputs), *one = problem_copy(inputs), *two = problem_copy(inputs);
  bool ran = problem_run(exact, r, "reference", &(rec_run_options){.backward = true}) &&
             problem_run(one, r, "host", &(rec_run_options){.backward = true, .threads = 1}) &&
             problem_run(two, r, "host",
                         &(rec_run_options){.backward = true, .threads = 3, .recompute = true});
  if (check(ran, "%s: %s", s->name, rec_message())) {
    char where[256];
    double tolerance =
        problem_tolerance(inputs, exact, r, f64 ? 1e-9 : 3e-5, f64 ? 1e-12 : 6e-8, true);
    double error = problem_compare(exact, one, true, 1e-4, where, sizeof where);
    check(error <= tolerance, "%s %s, %lld steps: error %.2e > %.2e at %s", s->name,
          f64 ? "f64" : "f32", (long long)time, error, tolerance, where);
    check(problem_equal(one, two, true), "%s %s, %lld steps: results depend on the threads",
          s->name, f64 ? "f64" : "f32", (long long)time);
  }
  problem_free(inputs);
  problem_free(exact);
  problem_free(one);
  problem_free(two);
}

static const char *const programs[] = {
    // Scalar decay in chunks; shared keys.
    "recurrence chunked(R, P = 8, N = 64) {\n  input x[R,P], g[R], k[N], q[N]\n  param w[R]\n  "
    "state S[R,P,N]\n  output y[R,P]\n"
    "  S = sigmoid(g + w) * S[t-1] + k * x\n  y = sum[N](q * S)\n}\n",
    // Steps, with a lag and a complex state; everything shares z.
    "recurrence stepped(R, N = 64) {\n  input x[R], z[N]\n  param a[R]\n  state h[R,N]\n  state "
    "c[R,N] : complex\n  output y[R]\n"
    "  h = sigmoid(a) * h[t-1] * tanh(z) + z * x[t-1]\n  c = complex(0.5, 0.4) * c[t-1] + x\n  y = "
    "sum[N](h * z + re(c))\n}\n",
    // Not linear, with matrices of parameters.
    "recurrence cell(R, K = 16, J = K, N = 64) {\n  input x[R,K], z[N]\n  param U[J,K], V[K,N]\n  "
    "state h[R,K]\n  output y[R,K]\n"
    "  h = tanh(sum[J](U * h[t-1]{K -> J}) + x + sum[N](V * z))\n  y = h\n}\n"};

static void check_program(const char *text, const char *const *options, bool states) {
  rec_module *module = compile_text(text, options);
  if (!check(module, "does not compile:\n%s", text)) return;
  const rec_recurrence *r = rec_module_recurrence(module, 0);
  int64_t once = backward_bytes(r, 2048), twice = backward_bytes(r, 4096);
  check(once > 0 && once == twice, "%s: %lld bytes of workspace for 2048 steps, %lld for 4096",
        r->symbol, (long long)once, (long long)twice);
  agree(r, 769, states);
  rec_module_close(module);
}

int main(void) {
  const char *const f32[] = {"--target", random_target(0), NULL}, *const f64[] = {
                                                                      "--target", random_target(0),
                                                                      "--dtype", "f64", NULL};
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    check_program(programs[i], f32, true);
    check_program(programs[i], f64, false);
  }
  return checked();
}
