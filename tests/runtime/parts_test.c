// Parts of time of states that could grow: where what a part leaves of the states before it overflows in f32, and the states
// themselves are 0 meanwhile, the executor's results are the interpreter's. (About 5 seconds.)
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

// A gate for each entry; the same of complex numbers; a delta rule, in blocks of threads and in threads by themselves.
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

enum { TIME = 520, PARTS = 4, BEGIN = 100, END = 300 };

static bool is_named(const rec_variable *v, const char *name) { return strcmp(v->name, name) == 0; }

// A token of the steps that grow, and of the one before and behind them, which let nothing through.
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

static void run_one(rec_module *module, const char *name, const char *form, uint64_t seed) {
  const rec_recurrence *r = rec_module_find(module, name);
  problem *inputs = problem_new(rec_recurrence_signature(r), 1, TIME, 3);
  char where[256];
  problem_draw(inputs, seed, 0.7);
  make_grow(inputs);
  problem_retype(inputs, inputs->signature);
  problem *exact = problem_copy(inputs), *got = problem_copy(inputs);
  rec_run_options options = {.backward = true};
  if (check(problem_run(exact, r, "reference", &options), "%s: %s", name, rec_message())) {
    options.time_parts = PARTS;
    bool ran = problem_run(got, r, "simt", &options);
    if (check(ran, "%s %s: %s", name, form, rec_message())) {
      double error = problem_compare(exact, got, true, 1e-4, where, sizeof where);
      check(error <= 2e-5, "%s %s: error %.2e at %s", name, form, error, where);
    }
  }
  problem_free(inputs);
  problem_free(exact);
  problem_free(got);
}

int main(void) {
  static const char *const forms[] = {"step", "chunk"};
  for (int i = 0; i < 2; i++) {
    const char *const words[] = {"--target", "simt", "-O0", "--form", forms[i], NULL};
    rec_module *module = compile_text(growing, words);
    if (!check(module, "does not compile")) continue;
    run_one(module, "entries", forms[i], 1);
    run_one(module, "turning", forms[i], 2);
    run_one(module, "delta", forms[i], 3);
    rec_module_close(module);
  }
  return checked();
}
