#include "tests/recurrence/kernel_programs.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PROGRAM(name, text) {name, "recurrence r" text}

const kernel_program kernel_programs[] = {
    PROGRAM("elementwise",
            "(D, N = 3) {\n"
            "  input x[D], dt[D], B[N], C[N]\n"
            "  param A_log[D,N], bias[D], D_skip[D]\n"
            "  state h[D,N]\n"
            "  output y[D]\n"
            "  let delta = softplus(dt + bias)\n"
            "  h = exp(-exp(A_log) * delta) * h[t-1] + delta * x * B\n"
            "  y = sum[N](C * h) + D_skip * x\n"
            "}\n"),
    PROGRAM("many channels",
            "(D = 70, N = 16) {\n"
            "  input x[D], dt[D], B[N], C[N]\n"
            "  param A_log[D,N], bias[D]\n"
            "  state h[D,N]\n"
            "  output y[D]\n"
            "  let delta = softplus(dt + bias)\n"
            "  h = exp(-exp(A_log) * delta) * h[t-1] + delta * x * B\n"
            "  y = sum[N](C * h)\n"
            "}\n"),
    PROGRAM("scalar decay",
            "(G, R, P = 3, N = 4) {\n"
            "  input  x[G,R,P], dt[G,R], B[G,N], C[G,N]\n"
            "  param  A_log[G,R], dt_bias[G,R], D[G,R]\n"
            "  state  h[G,R,P,N]\n"
            "  output y[G,R,P]\n"
            "  let delta = softplus(dt + dt_bias)\n"
            "  h = exp(-exp(A_log) * delta) * h[t-1] + delta * B * x\n"
            "  y = sum[N](C * h) + D * x\n"
            "}\n"),
    PROGRAM("large heads",
            "(G, R, P = 24, N = 40) {\n"
            "  input  x[G,R,P], dt[G,R], B[G,N], C[G,N]\n"
            "  param  A_log[G,R], dt_bias[G,R], D[G,R]\n"
            "  state  h[G,R,P,N]\n"
            "  output y[G,R,P]\n"
            "  let delta = softplus(dt + dt_bias)\n"
            "  h = exp(-exp(A_log) * delta) * h[t-1] + delta * B * x\n"
            "  y = sum[N](C * h) + D * x\n"
            "}\n"),
    PROGRAM("per key",
            "(H, K = 4, V = 3) {\n"
            "  input q[H,K], k[H,K], v[H,V], g[H,K]\n"
            "  param u[H,K]\n"
            "  state S[H,K,V]\n"
            "  output y[H,V]\n"
            "  y = sum[K](q * (S[t-1] + u * k * v))\n"
            "  S = exp(log_sigmoid(g) / 16) * S[t-1] + k * v\n"
            "}\n"),
    PROGRAM("delta rule",
            "(H, K = 20, V = 33) {\n"
            "  input q[H,K], k[H,K], v[H,V], beta[H], a[H]\n"
            "  state S[H,K,V]\n"
            "  output y[H,V]\n"
            "  let kn = normalize[K](k)\n"
            "  let decayed = sigmoid(a) * S[t-1]\n"
            "  let e = v - sum[K](kn * decayed)\n"
            "  S = decayed + 2 * sigmoid(beta) * kn * e\n"
            "  y = sum[K](q * K^-0.5 * S)\n"
            "}\n"),
    PROGRAM("complex",
            "(D = 2, P = 3) {\n"
            "  input x[D]\n"
            "  param re[D,P], angle[D,P], C[P] : complex, w[D]\n"
            "  state h[D,P] : complex\n"
            "  output y[D], z[D,P] : complex, r[D]\n"
            "  let lambda = complex(-exp(re), angle)\n"
            "  let decay = exp(lambda)\n"
            "  h = decay * h[t-1] + expm1(lambda) / lambda * x * polar(w, w)\n"
            "  y = 2 * re(sum[P](C * h)) + abs(sum[P](conj(C) * h^-2))\n"
            "  z = where(x > 0, h^3, conj(h)) - mean[D](h)\n"
            "  r = im(h[P = 1]) + norm[P](h)\n"
            "}\n"),
    PROGRAM("lags",
            "(D, c) {\n"
            "  input x[D], z[D,c] : complex\n"
            "  param w[D]\n"
            "  state h[D]\n"
            "  output y[D], u[D,c] : complex\n"
            "  let mixed = w * x + x[t-1] - 0.5 * x[t-3]\n"
            "  h = tanh(mixed + mixed[t-2] * h[t-1])\n"
            "  y = h * x[t-1]\n"
            "  u = z * z[t-2] + z[t-1]\n"
            "}\n"),
    PROGRAM("stabilised",
            "(H, K = 3, V = 2) {\n"
            "  input q[H,K], k[H,K], v[H,V], f[H], i[H]\n"
            "  state C[H,K,V], n[H,K], m[H]\n"
            "  output y[H,V]\n"
            "  m = stop_gradient(max(log_sigmoid(f) + m[t-1], i))\n"
            "  let decay = exp(log_sigmoid(f) + m[t-1] - m)\n"
            "  let write = exp(i - m)\n"
            "  C = decay * C[t-1] + write * k * v\n"
            "  n = decay * n[t-1] + write * k\n"
            "  y = sum[K](q * C) / max(abs(sum[K](q * n)), exp(-m))\n"
            "}\n"),
    PROGRAM("gated unit",
            "(D = 35, E = D) {\n"
            "  input x[D], reset\n"
            "  param U[D,E], W[D,E]\n"
            "  state h[D]\n"
            "  output y[D], s\n"
            "  let before = where(reset > 0.4, 0, h[t-1])\n"
            "  let z = sigmoid(x + sum[E](W * before{D -> E}))\n"
            "  h = (1 - z) * before + z * tanh(x + sum[E](U * (before * z){D -> E}))\n"
            "  y = softmax[D](h) + gelu(h) * silu(x) + clamp(h, -0.2, 0.3) + relu(h)\n"
            "  s = max[D](h) - min[D](x) + sqrt(1 + h[D = 1]^2) + log(2 + x[D = 0]) + max(reset, "
            "x[D = 2])\n"
            "}\n"),
    PROGRAM("micro steps",
            "(H, K = 3, V = 2, M = 2) {\n"
            "  input q[H,K], k[H,M,K], v[H,M,V], beta[H,M], g[H]\n"
            "  state S[H,K,V]\n"
            "  output y[H,V]\n"
            "  S = fold[M](s = exp(-softplus(g)) * S[t-1], s + sigmoid(beta) * k * (v - sum[K](k * "
            "s)))\n"
            "  y = sum[K](q * S) + index[V] * H\n"
            "}\n"),
    PROGRAM("branches",
            "(D) {\n"
            "  input x[D]\n"
            "  param p[D]\n"
            "  state h[D]\n"
            "  output y[D]\n"
            "  let zero = x - x\n"
            "  let bad = log(zero) + p / zero + sqrt(zero) + zero^0.5\n"
            "  let big = exp(1e6 * (2 + x)) * p^2\n"
            "  h = where(x > 5, bad, x) * 0.5 + where(big < 1, big * x, 0) + 0.9 * h[t-1]\n"
            "  y = h + where(x < 5, p, bad * big)\n"
            "}\n"),
    PROGRAM("parameters",
            "(H, K = 3) {\n"
            "  input k[H,K]\n"
            "  param a[H], b[K], c\n"
            "  state n[H,K], still[K]\n"
            "  output y[H,K]\n"
            "  n = (1 - 2^(-5 - index[H]) * c) * n[t-1] + k\n"
            "  still = 0.5 * still[t-1] + sum[K](b) * b\n"
            "  y = n + exp(a) * b^2\n"
            "}\n"),
    PROGRAM("no state",
            "(D = 37, G) {\n"
            "  input x[G,D], z[G,D]\n"
            "  param w[D]\n"
            "  output y[G,D]\n"
            "  let v = x * silu(z)\n"
            "  y = v * rsqrt(mean[D](v^2) + 1e-5) * w\n"
            "}\n"),
    PROGRAM("rms norm",
            "(D = 70, G = 3) {\n"
            "  input x[G,D], z[G,D]\n"
            "  param w[D], b\n"
            "  output y[G,D], s[G]\n"
            "  let v = x * silu(z)\n"
            "  y = v * rsqrt(mean[D](v^2) + 1e-5) * w\n"
            "  s = max[D](x) * b\n"
            "}\n"),
    PROGRAM("linear attention",
            "(H, K = 17, V = 20) {\n"
            "  input q[H,K], k[H,K], v[H,V]\n"
            "  state S[H,K,V]\n"
            "  output y[H,V]\n"
            "  S = S[t-1] + k * v\n"
            "  y = K^-0.5 * sum[K](q * S)\n"
            "}\n"),
    PROGRAM("long",
            "(H, K = 6, V = 5, M = 8) {\n"
            "  input q[H,K], k[H,M,K], v[H,M,V], beta[H,M], g[H]\n"
            "  state S[H,K,V], c[H] : complex\n"
            "  output y[H,V]\n"
            "  S = fold[M](s = exp(-softplus(g)) * S[t-1], s + sigmoid(beta) * k * (tanh(v) - "
            "sum[K](k * s)))\n"
            "  c = fold[M](z = polar(0.5, g) * c[t-1], z * polar(0.9, beta) + complex(beta, "
            "softplus(beta)))\n"
            "  y = sum[K](q * S) + re(c) + abs(c)\n"
            "}\n"),
    PROGRAM("read before",
            "(H = 2, K = 16, V = 16) {\n"
            "  input r[H,K], k[H,K], v[H,V], g[H]\n"
            "  param u[H,K]\n"
            "  state S[H,K,V]\n"
            "  output y[H,V]\n"
            "  y = sum[K](r * (S[t-1] + u * k * v))\n"
            "  S = sigmoid(g) * S[t-1] + k * v\n"
            "}\n"),
    PROGRAM("run-time tiles",
            "(N, M = N, K = 5) {\n"
            "  input x[N], z[M,K]\n"
            "  param w[N,M]\n"
            "  state S[N,M], h[N], d[M]\n"
            "  output y[N,M], c\n"
            "  h = tanh(x + 0.5 * h[t-1] * h[t-1][N = 1])\n"
            "  d = h[t-1]{N -> M}\n"
            "  S = sigmoid(w) * S[t-1] + x * sum[K](z) + x[t-2][N = 0] * h{N -> M} * h + d[t-1]\n"
            "  y = S * d * S[N = 1]\n"
            "  c = S[N = 1, M = 0] + max[K](z)[M = 1]\n"
            "}\n"),
};

const int kernel_program_count = sizeof kernel_programs / sizeof *kernel_programs;

const char *kernel_program_source(const char *name) {
  for (int i = 0; i < kernel_program_count; i++)
    if (strcmp(kernel_programs[i].name, name) == 0) return kernel_programs[i].source;
  abort();
}

static uint64_t seed_of_run(void) {
  static uint64_t seed;
  const char *given = getenv("REC_SEED");
  if (given) return strtoull(given, NULL, 10);
  if (!seed) {
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = 1;
    seed = seed >> 32 | 1;
    printf("REC_SEED=%llu\n", (unsigned long long)seed);
  }
  return seed;
}

bool kernel_is_drawn(int number, int each) {
  return getenv("REC_FULL") || (seed_of_run() / 2 + (uint64_t)number) % (uint64_t)each == 0;
}
