// Axes whose size is known only when called: sliced, renamed, folded around, numbered, in states
// and lags. Values and gradients must be the interpreter's at every size; a size that a slice
// reaches beyond is refused. Takes about 10 s.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

typedef struct program {
  const char *text;
  int64_t least;  // the smallest size that its slices allow
} program;

static const program programs[] = {
    {"recurrence slices(N) {\n"
     "  input x[N], g\n"
     "  param w[N]\n"
     "  state h[N]\n"
     "  output y[N], first, third\n"
     "  let a = tanh(w * x)\n"
     "  h = sigmoid(g) * h[t-1] + a * a[N = 1]\n"
     "  y = h * w[N = 0]\n"
     "  first = h[N = 0] + exp(-x * x)[N = 0]\n"
     "  third = h[t-1][N = 2] * w[N = 2]\n"
     "}\n",
     3},
    {"recurrence outer(N, M = N) {\n"
     "  input x[N], z[M]\n"
     "  param w[N,M]\n"
     "  state S[N,M]\n"
     "  output y[N,M], corner\n"
     "  S = 0.5 * S[t-1] + x * z + x{N -> M} * x\n"
     "  y = S * w + w[N = 0] * S[M = 0]\n"
     "  corner = S[N = 0, M = 0]\n"
     "}\n",
     1},
    {"recurrence shuffled(B, N, M = N, K = 3) {\n"
     "  input x[B,N,K], z[M,B]\n"
     "  state h[N,K], p[M,B], q[N,B]\n"
     "  output y[B,M], s[K]\n"
     "  h = 0.9 * h[t-1] + x[B = 0]\n"
     "  p = tanh(q[t-1]{N -> M}) + z\n"
     "  q = p[t-1]{M -> N} + sum[K](x) * index[N] / N\n"
     "  y = p * sum[K](h{N -> M} * (1 - h[t-1][N = 0])) / B\n"
     "  s = h[N = 0] + x[t-2][N = 0, B = 0]\n"
     "}\n",
     1},
    {"recurrence delayed(N, M = N) {\n"
     "  input x[N], z[M]\n"
     "  state d[N], e[M], f[N,M]\n"
     "  output y[N,M]\n"
     "  d = x\n"
     "  e = d[t-1]{N -> M}\n"
     "  f = f[t-1][N = 0] * 0.5 + e[t-1] * x\n"
     "  y = f * z + d[t-1]\n"
     "}\n",
     1},
    {"recurrence folded(N, M = N, R = 2) {\n"
     "  input x[N,R], z[M,R]\n"
     "  param w[N,M] in [-1, 1]\n"
     "  state S[N,M]\n"
     "  output y[M]\n"
     "  S = fold[R](s = 0.8 * S[t-1] + w, s * (1 - 0.1 * x * x{N -> M}) + x * z)\n"
     "  y = S[N = 0] * z[R = 1] + S[t-1][M = 0]{N -> M}\n"
     "}\n",
     1},
    {"recurrence rotated(D, E = D, P = 2) {\n"
     "  input x[D,P], z[E] : complex\n"
     "  param a[D,P] : complex\n"
     "  state h[D,P] : complex\n"
     "  output y[E], top : complex\n"
     "  h = exp(-abs(a) + complex(0, im(a))) * h[t-1] + x\n"
     "  y = re(z * sum[P](h{D -> E} * conj(a){D -> E}))\n"
     "  top = max[P](re(h))[D = 0] + h[D = 0, P = 1] * z[E = 0]\n"
     "}\n",
     1},
    {"recurrence pointwise(N, M = N) {\n"
     "  input x[N], z[M]\n"
     "  output y[N,M], w[M]\n"
     "  y = x * z + x[N = 0]\n"
     "  w = silu(x{N -> M}) * z\n"
     "}\n",
     1},
    {"recurrence keyed(H, G = H, K = 8, V = 8) {\n"
     "  input q[H,K], k[H,K], v[H,V], a[G]\n"
     "  state S[H,K,V]\n"
     "  output y[H,V]\n"
     "  S = sigmoid(a{G -> H}) * S[t-1] + k * v\n"
     "  y = sum[K](q * S)\n"
     "}\n",
     1},
    {"recurrence computed(N, E = max(N, min(N, pi))) {\n"
     "  input x[N]\n"
     "  param w[E]\n"
     "  state h[E]\n"
     "  output y[E,N]\n"
     "  h = 0.5 * h[t-1] + w * x[N = 0]\n"
     "  y = h * x\n"
     "}\n",
     1},
};

static const int64_t sizes[] = {1, 2, 3, 16, 17, 300};

// What moves by an input's rounding may lie that far off; sums of 300 * 300 terms a little further.
static void agree(const rec_recurrence *recurrence, int64_t size, int64_t batch, int64_t time,
                  rec_run_options options) {
  const rec_signature *s = rec_recurrence_signature(recurrence);
  bool f64 = s->token_type == REC_F64;
  problem *inputs = problem_new(s, batch, time, size);
  problem_draw(inputs, (uint64_t)(size + time), 0.5);
  agree_with_reference(inputs, recurrence, "host", &options,
                       (agreement){1e-4, f64 ? 1e-9 : 2e-5, f64 ? 1e-12 : 6e-8},
                       "%s %s%s size %lld B=%lld T=%lld", s->name, f64 ? "f64" : "f32",
                       options.step ? " by steps" : "", (long long)size, (long long)batch,
                       (long long)time);
}

static void refuse(const rec_recurrence *recurrence, int64_t size, int64_t least) {
  const rec_signature *s = rec_recurrence_signature(recurrence);
  static const char *const devices[] = {"reference", "host"};
  for (int d = 0; d < 2; d++) {
    char wanted[160];
    snprintf(
        wanted, sizeof wanted,
        "%s%s: expected a size of at least %lld for axis N, whose entry %lld is read, found %lld",
        s->name, d ? ": slices_sizes" : "", (long long)least, (long long)(least - 1),
        (long long)size);
    problem *p = problem_new(s, 1, 2, size);
    problem_draw(p, 1, 0.5);
    bool ran = problem_run(p, recurrence, devices[d], &(rec_run_options){0});
    check(!ran && strcmp(rec_message(), wanted) == 0, "%s size %lld: expected '%s', found '%s'",
          s->name, (long long)size, wanted, ran ? "no message" : rec_message());
    problem_free(p);
  }
}

static void check_program(const program *p, const char *const *options) {
  rec_module *module = compile_text(p->text, options);
  if (!check(module, "does not compile:\n%s", p->text)) return;
  const rec_recurrence *recurrence = rec_module_recurrence(module, 0);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i] < p->least) {
      refuse(recurrence, sizes[i], p->least);
      continue;
    }
    bool large = sizes[i] > 100;
    agree(recurrence, sizes[i], large ? 1 : 2, large ? 4 : 19,
          (rec_run_options){.backward = true, .threads = 2, .recompute = i % 2});
    agree(recurrence, sizes[i], 1, 3, (rec_run_options){.step = true});
  }
  rec_module_close(module);
}

int main(void) {
  static const char *const ways[][5] = {
      {"--dtype", "f64", "-O0", NULL}, {"--dtype", "f32", "--chunk", "5", NULL}, {NULL}};
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    for (int w = 0; w < 3; w++) check_program(&programs[i], ways[w]);
  return checked();
}
