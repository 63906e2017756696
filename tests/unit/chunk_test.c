// Tile programs against the reference interpreter: values and all gradients of the same
// recurrences, float64.
#include <math.h>
#include <time.h>

#include "compiler/chunk/chunk.h"
#include "tests/random/program.h"
#include "tests/recurrence/fixture.h"
#include "tests/recurrence/kernel_programs.h"
#include "tests/recurrence/tile_run.h"
#include "tests/unit/unit.h"

// ---- sources ---------------------------------------------------------------------------------

// NULL: the program of this name in kernel_programs.
static const struct {
  const char *name;
  bool steps, chunks;  // compared in this form
  const char *source;
} programs[] = {
    {"elementwise", true, true, NULL},
    {"complex", true, true, NULL},
    // Complex decays that inputs make, of real and complex increments; some are 0 for a step.
    {"turning entries", true, true,
     "recurrence r(H, K = 3) {\n"
     "  input x[H,K], g[H,K], w[H,K], C[K] : complex\n"
     "  param a[K] : complex\n"
     "  state h[H,K] : complex, f[H,K] : complex, d[H,K] : complex\n"
     "  output y[H], z[H,K]\n"
     "  h = polar(where(g < -0.5, 0, sigmoid(g)), w) * h[t-1] + x\n"
     "  f = sigmoid(g) * f[t-1] + C * h\n"
     "  d = a * d[t-1] + conj(f) * x\n"
     "  y = re(sum[K](C * h)) + im(sum[K](f))\n"
     "  z = re(d * f[t-1])\n"
     "}\n"},
    {"a matrix by its entries", false, true,
     "recurrence r(H, K = 3, V = 2) {\n"
     "  input k[H,K], v[H,V], f[H]\n"
     "  state S[H,K,V]\n"
     "  output y[H,K,V], z[H,V]\n"
     "  S = sigmoid(f) * S[t-1] + k * v\n"
     "  y = tanh(S)\n"
     "  z = sum[K](k * S[t-1])\n"
     "}\n"},
    {"coupled entries", false, true,
     "recurrence r(H, K = 3, V = 2) {\n"
     "  input k[H,K], v[H,V], z[H,K] : complex, f[H]\n"
     "  state a[H,K], b[H,K], c[H,K], S[H,K,V], p[H] : complex, u[H] : complex\n"
     "  output y[H,V], w[H,K], r[H]\n"
     "  a = sigmoid(f) * a[t-1] - 0.5 * c[t-1] + k\n"
     "  b = 0.3 * a\n"
     "  c = 0.9 * c[t-1] + f * b - abs(k)\n"
     "  S = exp(-softplus(f)) * S[t-1] + tanh(c) * v\n"
     "  p = polar(0.9, f) * p[t-1] - 0.2 * u[t-1] + sum[K](z)\n"
     "  u = 0.3 * p + polar(0.5, f) * u[t-1]\n"
     "  y = sum[K](S * b[t-1])\n"
     "  w = a * (c - a[t-1])\n"
     "  r = abs(u) + re(p[t-1])\n"
     "}\n"},
    {"a ring that is read at one end", false, true,
     "recurrence r(H, K = 3, V = 2) {\n"
     "  input q[H,K], k[H,K], v[H,V], f[H]\n"
     "  state A[H,K,V], B[H,K,V], C[H,K,V]\n"
     "  output y[H,V]\n"
     "  A = sigmoid(f) * A[t-1] + 0.1 * C[t-1] + k * v\n"
     "  B = 0.9 * B[t-1] + f * A[t-1]\n"
     "  C = 0.8 * C[t-1] - 0.4 * B\n"
     "  y = sum[K](q * C)\n"
     "}\n"},
    {"scalar decay", true, true, NULL},
    {"linear attention", true, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V]\n"
     "  state S[H,K,V], n[H,K]\n"
     "  output y[H,V], z[H,V], norm_[H]\n"
     "  S = S[t-1] + k * v\n"
     "  n = n[t-1] + k^2\n"
     "  y = K^-0.5 * sum[K](q * S) + v\n"
     "  z = sum[K](q * S) / (5 + abs(sum[K](q * n)))\n"
     "  norm_ = log(5 + sum[K](q^2 * n[t-1]))\n"
     "}\n"},
    {"retention", true, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V]\n"
     "  state S[H,K,V]\n"
     "  output y[H,V]\n"
     "  S = exp(log1p(-2^(-5 - index[H]))) * S[t-1] + k * v\n"
     "  y = K^-0.5 * sum[K](q * S)\n"
     "}\n"},
    // Read before and after the write, a bonus, two products in the increment, a reset that enters the
    // logarithm.
    {"shifted reads", true, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], w[H,V], g[H], reset\n"
     "  param u[H,K], scale[V]\n"
     "  state S[H,K,V]\n"
     "  output y[H,V], z[H,V]\n"
     "  let a = exp(where(reset > 0.5, log(0), log_sigmoid(g)))\n"
     "  y = sum[K](q * (S[t-1] + u * k * v)) * scale\n"
     "  S = a * S[t-1] + k * (v - w) + sigmoid(g) * u * w / (2 + g)\n"
     "  z = sum[K](q * scale * S - k * S[t-1]) + silu(v)\n"
     "}\n"},
    // A second state fed by the first one's read.
    {"chained", true, true,
     "recurrence r(H, K = 4, V = 3, W = 2) {\n"
     "  input q[H,K], k[H,K], v[H,V], x[H,W], g[H], f[H]\n"
     "  param A[H]\n"
     "  state S[H,K,V], C[H,V,W]\n"
     "  output y[H,W], z[H,V]\n"
     "  S = exp(-exp(A) * softplus(g)) * S[t-1] + k * v\n"
     "  let read = tanh(sum[K](q * S))\n"
     "  C = sigmoid(f)^0.25 * C[t-1] + read * x\n"
     "  y = sum[V](v * C)\n"
     "  z = read + v * sum[V](C[t-1] * v^2)[W = 1]\n"
     "}\n"},
    {"per key", true, true, NULL},
    {"delta rule", true, true, NULL},
    {"micro steps", true, true, NULL},
    // Keys, values and the whole matrix decay; one factor may be negative or 0.
    {"two sides", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], g[H,K], f[H,V], s[H], flip[H], reset\n"
     "  state S[H,K,V]\n"
     "  output y[H,V], z[H,V]\n"
     "  let a = sigmoid(g) * exp(-softplus(f)) * sigmoid(s)^0.5\n"
     "  S = where(reset > 0.7, 0, 1) * flip * a * S[t-1] + k * v\n"
     "  y = sum[K](q * S)\n"
     "  z = sum[K](k * S[t-1]) + v\n"
     "}\n"},
    {"any factor", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], a[H], b[H,K]\n"
     "  state S[H,K,V], T[H,K,V]\n"
     "  output y[H,V]\n"
     "  S = where(a > 0.5, 0, 2 * a) * S[t-1] + k * v\n"
     "  T = tanh(3 * b) * T[t-1] + q * v\n"
     "  y = sum[K](q * S + k * T[t-1])\n"
     "}\n"},
    // The delta rule with a decay per key, with an erase vector other than the write vector, and with
    // the erase before the decay. Then one that sums values.
    {"erase", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], g[H,K], b[H], p[H,K], w[H,V]\n"
     "  state S[H,K,V], T[H,K,V]\n"
     "  output y[H,V], e[H,V]\n"
     "  S = exp(log_sigmoid(g)) * S[t-1] - sigmoid(b) * k * w * sum[K](normalize[K](p) * S[t-1]) + "
     "k * v\n"
     "  let decayed = sigmoid(g) * T[t-1]\n"
     "  e = v - sum[K](0.5 * k * decayed)\n"
     "  T = decayed + 0.5 * b * k * e\n"
     "  y = sum[K](q * S) / (2 + sum[K](k * k)) + sum[K](p * T) * w\n"
     "}\n"},
    // Two sums at once, one within the other's step.
    {"rank two", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], l[H,K], v[H,V], g[H]\n"
     "  param b[H]\n"
     "  state S[H,K,V]\n"
     "  output y[H,V]\n"
     "  let first = sum[K](k * S[t-1])\n"
     "  let between = S[t-1] - sigmoid(b) * l * (first - v)\n"
     "  S = sigmoid(g) * between - 0.25 * k * sum[K](q * between + l * S[t-1])\n"
     "  y = sum[K](q * S) + first\n"
     "}\n"},
    {"complex matrix", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K] : complex, k[H,K], v[H,V], g[H,K], angle[H,K], phi[H]\n"
     "  state S[H,K,V] : complex, T[H,K,V] : complex\n"
     "  output y[H,V], z[H,V] : complex\n"
     "  S = polar(sigmoid(g), angle) * S[t-1] + k * v\n"
     "  T = 0.9 * exp(complex(0, phi)) * T[t-1] + conj(q) * v - 0.1 * k * sum[K](q * T[t-1])\n"
     "  y = sum[K](re(q * S)) + im(sum[K](k * S[t-1]))\n"
     "  z = sum[K](q * T) * polar(1, phi)\n"
     "}\n"},
    // One number for the matrix, and angles per key, per value, for the whole. Then radii of both
    // signs, two rotations in a product, a reset between them, and the decay of a rank-one update.
    {"rotations", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], g[H], angle[H,K], turn[H,V], phi[H], b[H,K], reset\n"
     "  param C[H,K] : complex, theta[H,K]\n"
     "  state S[H,K,V] : complex, T[H,K,V] : complex, U[H,K,V] : complex\n"
     "  output y[H,V], z[H,V], u[H,V] : complex\n"
     "  S = polar(sigmoid(g), 20 * angle + phi) * S[t-1] + C * k * v\n"
     "  T = where(reset > 0.6, 0, sigmoid(b)) * exp(complex(0, turn)) * T[t-1] + k * v * polar(1, "
     "phi)\n"
     "  U = tanh(b) * polar(g, theta) * polar(1, phi) * U[t-1] + q * v - 0.2 * k * sum[K](C * "
     "U[t-1])\n"
     "  y = re(sum[K](q * S)) + sum[K](im(C * S))\n"
     "  z = im(sum[K](q * T)) + re(sum[K](k * T) * polar(g, phi))\n"
     "  u = sum[K](conj(C) * U)\n"
     "}\n"},
    // Matrix products make and read the states: powers of complex decays that never change, a real one
    // that does, one that is 1.
    {"dense", false, true,
     "recurrence r(H = 3, P = 4, W = 2) {\n"
     "  input x[H], g[P]\n"
     "  param lambda[P], angle[P], B[P,H] : complex, C[W,P] : complex, D[W,H]\n"
     "  state h[P] : complex, u[P], n[P]\n"
     "  output y[W], z[P]\n"
     "  h = polar(exp(-exp(lambda)), angle) * h[t-1] + sum[H](B * x)\n"
     "  u = sigmoid(g) * u[t-1] + sum[H](re(B) * x) * re(h[t-1])\n"
     "  n = n[t-1] + tanh(sum[H](im(B) * x))\n"
     "  y = 2 * re(sum[P](C * h)) + sum[H](D * x)\n"
     "  z = u * n[t-1]\n"
     "}\n"},
    // Decays that are never small. Along keys, with reads before and after the step and a sum in the
    // update. Along values, with a phase; promised.
    {"bounded", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], w[H,K], x[H,V], angle[H,K], p[H,K] in [-3, 0.5]\n"
     "  state S[H,K,V], T[H,K,V] : complex, U[H,K,V]\n"
     "  output y[H,V], z[H,V]\n"
     "  S = exp(-exp(-0.5) * sigmoid(w)) * S[t-1] - k * sum[K](normalize[K](q) * S[t-1]) + k * v\n"
     "  T = polar(1, angle) * exp(-0.2 * sigmoid(x)) * T[t-1] + k * v\n"
     "  U = exp(p) * U[t-1] + q * v\n"
     "  y = sum[K](q * S) + sum[K](k * S[t-1])\n"
     "  z = re(sum[K](q * T)) + sum[K](k * U[t-1])\n"
     "}\n"},
    // A reset by where, decays and reads behind it.
    {"where", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], g[H,K], reset\n"
     "  state S[H,K,V]\n"
     "  output y[H,V]\n"
     "  let before = where(reset > 0.5, 0, sigmoid(g) * S[t-1])\n"
     "  S = before + k * (v - 0.5 * sum[K](k * before)) / (1 + sum[K](k^2))\n"
     "  y = sum[K](q * where(reset > 0, S, 2 * S))\n"
     "}\n"},
    // Earlier values of an input and of lets; one of them follows from a read, another from the lag of
    // a lag.
    {"lagged", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], g[H], z[H] : complex\n"
     "  param w[K], c[V]\n"
     "  state S[H,K,V]\n"
     "  output y[H,V], u[H] : complex, e[H,V]\n"
     "  let mixed = k + w * k[t-1] - 0.5 * k[t-5]\n"
     "  let twice = mixed[t-2] * q\n"
     "  let still = c * 2\n"
     "  S = exp(log_sigmoid(g + g[t-1])) * S[t-1] + mixed * v[t-1] + twice[t-1] * v\n"
     "  let read = sum[K](q[t-3] * S)\n"
     "  y = read - 0.3 * tanh(read[t-2]) + still[t-4]\n"
     "  u = z * z[t-2] + z[t-1]\n"
     "  e = sum[K](k * S[t-1]) * read[t-1]\n"
     "}\n"},
    {"delays", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], g[H,K], z[H] : complex\n"
     "  state S[H,K,V], kprev[H,K], readprev[H,V], zprev[H] : complex, zero[K]\n"
     "  output y[H,V], u[H] : complex\n"
     "  kprev = k\n"
     "  S = sigmoid(g) * S[t-1] + (k + kprev[t-1]) * (v - 0.5 * sum[K](kprev * S[t-1]))\n"
     "  readprev = sum[K](q * S)\n"
     "  zprev = z\n"
     "  zero = 0\n"
     "  y = readprev + readprev[t-1] * sum[K](kprev[t-1] * (S + zero[t-1]))\n"
     "  u = zprev[t-1] * z\n"
     "}\n"},
    {"stabilised", true, true, NULL},
    // The stabiliser of mLSTM with its gradient, as the first operand and as the second.
    {"maximum", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], i[H], f[H]\n"
     "  state C[H,K,V], n[H,K], m[H], l[H]\n"
     "  output y[H,V], z[H]\n"
     "  let log_f = log_sigmoid(f)\n"
     "  m = max(log_f + m[t-1], 3 * i)\n"
     "  let decay = exp(log_f + m[t-1] - m)\n"
     "  let write = exp(3 * i - m)\n"
     "  C = decay * C[t-1] + write * k * v\n"
     "  n = decay * n[t-1] + write * k\n"
     "  y = sum[K](q * C) / max(abs(sum[K](q * n)), exp(-m))\n"
     "  l = max(sum[K](k), l[t-1] - 0.2)\n"
     "  z = l * l[t-1] + m\n"
     "}\n"},
    // Numbers far outside of where exp is finite, forgetting for good, a quotient without a floor.
    {"extreme maximum", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], i[H], f[H], reset\n"
     "  state C[H,K,V], n[H,K], m[H]\n"
     "  output y[H,V]\n"
     "  let log_f = where(reset > 0.7, log(0), log_sigmoid(f))\n"
     "  m = stop_gradient(max(log_f + m[t-1], 800 * i))\n"
     "  let decay = exp(log_f + m[t-1] - m)\n"
     "  let write = exp(800 * i - m)\n"
     "  C = decay * C[t-1] + write * k * v\n"
     "  n = decay * n[t-1] + write * k^2\n"
     "  y = sum[K](q * C) / sum[K](q^2 * n)\n"
     "}\n"},
    // Beside a matrix, states that are used entry by entry: normalisers, gates that remember.
    {"entries", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], g[H,K], x[H], angle[H]\n"
     "  param a[K]\n"
     "  state S[H,K,V], n[H,K], gate[H], turn[H] : complex, flip[K]\n"
     "  output y[H,V], last[H,K], z[H] : complex\n"
     "  gate = 0.9 * gate[t-1] + x\n"
     "  n = sigmoid(g) * n[t-1] + k\n"
     "  turn = polar(0.9, angle) * turn[t-1] + x\n"
     "  flip = where(a > 0.3, 0, -1.2 * a) * flip[t-1] + a\n"
     "  S = sigmoid(gate) * S[t-1] + normalize[K](n[t-1]) * v\n"
     "  y = sum[K](q * S) / (1 + abs(gate[t-1]))\n"
     "  last = n + flip * n[t-1]\n"
     "  z = turn^2 + turn[t-1]\n"
     "}\n"},
    // Quotients, logarithms and roots that zeros would make infinite: on padded rows as well.
    {"singular", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V]\n"
     "  param u[K]\n"
     "  state S[H,K,V], n[H,K]\n"
     "  output y[H,V], z[H,V]\n"
     "  let qq = u^2 * q^2\n"
     "  let kk = abs(u * k)\n"
     "  let unit = kk / sum[K](kk * qq)\n"
     "  S = S[t-1] + unit * v\n"
     "  n = n[t-1] + unit / sqrt(sum[K](kk))\n"
     "  y = sum[K](qq * S) / sum[K](qq * (n + 9))\n"
     "  z = sum[K](log(qq) * S) * rsqrt(qq[K = 0]) + v * sum[K](kk^0.3 * (0.1 + q^-1)^-2)\n"
     "}\n"},
    // One read sums another axis than the other, or more of them; the decay has an axis that is no key
    // of all.
    {"other keys", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input q[H,K], k[H,K], v[H,V], w[H,V], g[H,K], x[H,K,V]\n"
     "  state S[H,K,V], T[H,K,V]\n"
     "  output y[H,K], z[H,V], u[H,K], r[H]\n"
     "  S = 0.9 * S[t-1] + (k - 0.3 * sum[V](v * S[t-1])) * w\n"
     "  y = sum[V](v * S)\n"
     "  z = sum[K](q * S)\n"
     "  T = sigmoid(g) * T[t-1] + k * v\n"
     "  u = sum[V](w * T)\n"
     "  r = sum[K,V](x * T)\n"
     "}\n"},
    // The delta rule with momentum: what the first state has just become is added to the second, which
    // the first one's update reads.
    {"momentum", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input  q[H,K], k[H,K], v[H,V], eta[H], theta[H], alpha[H]\n"
     "  state  M[H,K,V], Z[H,K,V]\n"
     "  output y[H,V]\n"
     "  let kn = normalize[K](k)\n"
     "  Z = sigmoid(eta) * Z[t-1] + sigmoid(theta) * kn * (v - sum[K](kn * M[t-1]))\n"
     "  M = sigmoid(alpha) * M[t-1] + Z\n"
     "  y = sum[K](q * M)\n"
     "}\n"},
    // A chain of three, by the state before the step and by the one after it. It has a reset,
    // increments of each state's own, and reads of all of them.
    {"chain of states", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input  q[H,K], k[H,K], v[H,V], w[H,V], a[H], b[H], c[H], reset\n"
     "  state  A[H,K,V], B[H,K,V], C[H,K,V]\n"
     "  output y[H,V], z[H,V]\n"
     "  A = sigmoid(a) * A[t-1] + k * v\n"
     "  B = exp(where(reset > 0.6, log(0), -0.1)) * B[t-1] + b * A - k * w\n"
     "  C = C[t-1] + tanh(c) * B[t-1] + (0.5 * a * A + q * v) / (2 + c)\n"
     "  y = sum[K](q * C) + sum[K](k * C[t-1])\n"
     "  z = sum[K](q * B) * sum[K](k * A[t-1])\n"
     "}\n"},
    // Two states that read each other by sums alone.
    {"mutual sums", false, true,
     "recurrence r(H, K = 4, V = 3) {\n"
     "  input  q[H,K], k[H,K], v[H,V], a[H], b[H,K]\n"
     "  state  A[H,K,V], B[H,K,V]\n"
     "  output y[H,V]\n"
     "  let of_b = sum[K](k * B[t-1])\n"
     "  A = sigmoid(a) * A[t-1] + k * (v - 0.5 * of_b)\n"
     "  B = sigmoid(b) * B[t-1] + q * (0.3 * sum[K](k * A[t-1]) + 0.2 * of_b)\n"
     "  y = sum[K](q * (A + B))\n"
     "}\n"},
    {"lags", true, false, NULL},
    {"gated unit", true, false,
     "recurrence r(D = 3, E = D) {\n"
     "  input x[D], reset\n"
     "  param U[D,E], W[D,E]\n"
     "  state h[D]\n"
     "  output y[D], s\n"
     "  let before = where(reset > 0.4, 0, h[t-1])\n"
     "  let z = sigmoid(x + sum[E](W * before{D -> E}))\n"
     "  h = (1 - z) * before + z * tanh(x + sum[E](U * (before * z){D -> E}))\n"
     "  y = softmax[D](h) + gelu(h) * silu(x) + clamp(h, -0.2, 0.3) + relu(h)\n"
     "  s = max[D](h) - min[D](x) + sqrt(1 + h[D = 1]^2) + log(2 + x[D = 0]) + max(reset, x[D = "
     "2])\n"
     "}\n"},
    // Branches not taken hold infinities: neither value nor gradient may see them.
    {"branches", true, false, NULL},
    {"parameters", true, false, NULL},
    {"pointwise", false, false,
     "recurrence r(D = 2, N = 3) {\n"
     "  input x[D], z[D,N] : complex\n"
     "  param w[N], b[D]\n"
     "  output y[D], s[N] : complex\n"
     "  y = silu(b * x) * sum[N](w * re(z)) / (x + 3 + b) + log(3 + x)^2\n"
     "  s = z[D = 0] * w\n"
     "}\n"},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static recurrence *analyse_program(fixture *s, int number) {
  const char *text = programs[number].source;
  return fixture_analyse(s, text ? text : kernel_program_source(programs[number].name));
}

static recurrence *analyse_named(fixture *s, const char *name) {
  for (int i = 0; i < PROGRAMS; i++)
    if (strcmp(programs[i].name, name) == 0) return analyse_program(s, i);
  abort();
}

// ---- comparison ------------------------------------------------------------------------------

static double difference(const double *a, const double *b, int64_t count) {
  double scale = 1, worst = 0;
  for (int64_t i = 0; i < count; i++) scale = fmax(scale, fabs(a[i]));
  for (int64_t i = 0; i < count; i++) {
    double d = fabs(a[i] - b[i]) / scale;
    if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
  }
  return worst;
}

static void note(const char *name, const char *what, double d, double *worst, const char **where,
                 arena *a) {
  if (d <= *worst) return;
  *worst = d;
  *where = arena_printf(a, "%s%s", what, name);
}

// The largest difference between two runs, relative to the largest number of a tensor (at least 1).
static double trial_difference(const trial *t, const trial *u, arena *a, const char **where) {
  const typed_body *body = &t->recurrence->body;
  double worst = 0;
  *where = "";
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *tensor = &body->tensors.items[i];
    int64_t n = t->tensor_numbers[i];
#define NOTE(group, what)                                                                     \
  note(tensor->name, what, difference(t->run.group[i].data, u->run.group[i].data, n), &worst, \
       where, a)
    switch (tensor->kind) {
      case TENSOR_OUTPUT: NOTE(tensors, ""); break;
      case TENSOR_STATE:
        NOTE(final_states, "hT.");
        NOTE(d_initial_states, "d.h0.");
        break;
      default: NOTE(d_tensors, "d."); break;
    }
#undef NOTE
  }
  for (int i = 0; i < body->lags.count; i++) {
    int64_t n = t->lag_numbers[i];
    note(body->lags.items[i].name, "lag ",
         difference(t->run.final_lags[i].data, u->run.final_lags[i].data, n), &worst, where, a);
    note(body->lags.items[i].name, "d.lag ",
         difference(t->run.d_initial_lags[i].data, u->run.d_initial_lags[i].data, n), &worst, where,
         a);
  }
  return worst;
}

static void assert_verified(arena *a, const tile_program *p) {
  const char *wrong = tile_verify(a, p);
  if (wrong) fail_msg("%s: %s\n%s", p->name, wrong, tile_print(a, p));
}

static void assert_agrees(const char *name, const recurrence *r, const tile_program *forward,
                          int64_t batch, int64_t time, bool bare) {
  arena *a = arena_new();
  assert_verified(a, forward);
  tile_gradient gradient = tile_differentiate(a, forward);
  assert_verified(a, gradient.backward);
  assert_verified(a, gradient.recompute);
  tile_program *finished = tile_finish(a, forward);
  assert_verified(a, finished);
  trial t = trial_new(a, r, batch, time, NULL, 0, 5), u = trial_new(a, r, batch, time, NULL, 0, 5);
  // Bare: no initial state, no cotangent of the final one.
  for (int i = 0; bare && i < r->body.tensors.count; i++) {
    if (r->body.tensors.items[i].kind != TENSOR_STATE) continue;
    t.run.tensors[i].data = u.run.tensors[i].data = NULL;
    t.run.d_final_states[i].data = u.run.d_final_states[i].data = NULL;
  }
  assert_true(reference_execute(r, &t.run, true));
  assert_true(tile_execute(r, finished, &gradient, &u.run));
  const char *where;
  double error = trial_difference(&t, &u, a, &where);
  if (!(error < 1e-12)) {
    fail_msg("%s, T = %d, chunk %d: %s differs by %g\n%s", name, (int)time, forward->chunk, where,
             error, tile_print(a, gradient.backward));
  }
  arena_free(a);
}

TEST(steps_agree_with_the_reference) {
  static const int64_t times[] = {0, 1, 2, 37};
  for (int i = 0; i < PROGRAMS; i++) {
    if (!programs[i].steps) continue;
    fixture s = fixture_open();
    recurrence *r = analyse_program(&s, i);
    tile_program *forward = chunk_build_step(s.memory, r);
    for (int k = 0; k < 4; k++) {
      assert_agrees(programs[i].name, r, forward, 2, times[k], false);
      assert_agrees(programs[i].name, r, forward, 1, times[k], true);
    }
    fixture_close(&s);
  }
}

TEST(chunks_agree_with_the_reference) {
  static const int64_t times[] = {0, 1, 2, 37};
  static const int lengths[] = {4, 16, 64};
  for (int i = 0; i < PROGRAMS; i++) {
    if (!programs[i].chunks) continue;
    fixture s = fixture_open();
    recurrence *r = analyse_program(&s, i);
    for (int c = 0; c < 3; c++) {
      const char *reason = NULL;
      tile_program *forward = chunk_build_linear_scan(s.memory, r, lengths[c], &reason);
      if (!forward) fail_msg("%s: %s\n%s", programs[i].name, reason, recurrence_print(s.memory, r));
      for (int k = 0; k < 4; k++) {
        assert_agrees(programs[i].name, r, forward, 2, times[k], false);
        assert_agrees(programs[i].name, r, forward, 1, times[k], true);
      }
      // Of most recurrences the host has the same program.
      tile_program *host = chunk_build_for_host(s.memory, r, lengths[c], &reason);
      if (!host) fail_msg("%s on the host: %s", programs[i].name, reason);
      if (strcmp(tile_print(s.memory, host), tile_print(s.memory, forward)) != 0)
        assert_agrees(programs[i].name, r, host, 2, 37, false);
    }
    fixture_close(&s);
  }
}

// Lengths without levels: one step, no power of two, more than levels go to. What needs levels
// refuses them.
TEST(masks_take_any_length) {
  static const struct {
    int length, programs;
  } all[] = {{1, 8}, {3, 8}, {256, 2}};
  for (int c = 0; c < 3; c++) {
    int made = 0;
    for (int i = 0; i < PROGRAMS && made < all[c].programs; i++) {
      if (!programs[i].chunks) continue;
      fixture s = fixture_open();
      recurrence *r = analyse_program(&s, i);
      const char *reason = NULL;
      tile_program *forward = chunk_build_linear_scan(s.memory, r, all[c].length, &reason);
      if (forward) assert_agrees(programs[i].name, r, forward, 1, 7, true);
      made += forward && forward->chunk == all[c].length;
      fixture_close(&s);
    }
    assert_int_equal(made, all[c].programs);
  }
}

static int count_ops(const tile_program *p, tile_op op) {
  int count = 0;
  for (int i = 0; i < p->values.count; i++) count += p->values.items[i].op == op;
  return count;
}

// 16 * 0.6 is an exponent that may stand on a key: segments of 32 steps need no levels, those of 64
// one.
TEST(bounded_decays_need_fewer_levels) {
  static const char *const text =
      "recurrence r(H, K = 4, V = 3) {\n"
      "  input q[H,K], k[H,K], v[H,V], g[H,K] in [-0.6, 0]\n"
      "  state S[H,K,V]\n"
      "  output y[H,V]\n"
      "  S = exp(g) * S[t-1] + k * v\n"
      "  y = sum[K](q * S)\n"
      "}\n";
  fixture s = fixture_open();
  recurrence *r = fixture_analyse(&s, text);
  const char *reason = NULL;
  tile_program *whole = chunk_build_linear_scan(s.memory, r, 32, &reason);
  tile_program *halves = chunk_build_linear_scan(s.memory, r, 64, &reason);
  assert_non_null(whole);
  assert_non_null(halves);
  assert_int_equal(count_ops(whole, TILE_SPLIT), 0);
  // scores, own scores, values, state before, next
  assert_int_equal(count_ops(whole, TILE_DOT), 5);
  assert_int_equal(count_ops(halves, TILE_DOT), 6);
  fixture_close(&s);
}

// Products in f32 take an exponent of 8 * 5 on a key, those of 16 bits do not: the host needs no
// levels for 16 steps.
TEST(the_host_takes_larger_exponents) {
  static const char *const text =
      "recurrence r(H, K = 4, V = 3) {\n"
      "  input q[H,K], k[H,K], v[H,V], g[H,K] in [-5, 0]\n"
      "  state S[H,K,V]\n"
      "  output y[H,V]\n"
      "  S = exp(g) * S[t-1] + k * v\n"
      "  y = sum[K](q * S)\n"
      "}\n";
  fixture s = fixture_open();
  recurrence *r = fixture_analyse(&s, text);
  const char *reason = NULL;
  tile_program *narrow = chunk_build_linear_scan(s.memory, r, 16, &reason);
  tile_program *host = chunk_build_for_host(s.memory, r, 16, &reason);
  assert_non_null(narrow);
  assert_non_null(host);
  assert_true(count_ops(narrow, TILE_SPLIT) > 0);
  assert_int_equal(count_ops(host, TILE_SPLIT), 0);
  assert_int_equal(count_ops(host, TILE_DOT), 5);
  // two for each step, two for the sides of the anchor, one for the chunk
  assert_int_equal(count_ops(host, TILE_EXP), 5);
  fixture_close(&s);
}

TEST(pointwise_programs_agree) {
  fixture s = fixture_open();
  recurrence *r = analyse_named(&s, "pointwise");
  assert_agrees("pointwise", r, chunk_build_pointwise(s.memory, r, 8), 2, 13, false);
  recurrence *with_state = analyse_named(&s, "retention");
  assert_null(chunk_build_pointwise(s.memory, with_state, 8));
  fixture_close(&s);
}

// A program has room for 64 axes: levels that find none left are refused, not begun.
TEST(too_many_axes_are_refused) {
  fixture s = fixture_open();
  const char *header = "", *names = "";
  for (int i = 0; i < 44; i++) {
    header = arena_printf(s.memory, "%sA%d = 1, ", header, i);
    names = arena_printf(s.memory, "%s%sA%d", names, i ? "," : "", i);
  }
  recurrence *r = fixture_analyse(
      &s, arena_printf(
              s.memory,
              "recurrence r(%sK = 4, V = 3) { input q[%s,K], k[K], v[V], g[K] state S[K,V] output "
              "y[V] S = sigmoid(g) * S[t-1] + k * v * sum[%s](mean[K](q)) y = sum[K](k * S) }",
              header, names, names));
  const char *reason = NULL;
  assert_null(chunk_build_linear_scan(s.memory, r, 64, &reason));
  assert_string_equal(reason, "there are too many axes");
  fixture_close(&s);
}

// What has no chunked form here says why, and has its step program.
TEST(other_structures_are_refused) {
  static const struct {
    const char *name, *reason;
  } cases[] = {
      {"lags", "h is not linear: each step needs the one before"},
      {"pointwise", "there is no state"},
      {"gated unit", "h is not linear: each step needs the one before"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture s = fixture_open();
    recurrence *r = analyse_named(&s, cases[i].name);
    const char *reason = NULL;
    assert_null(chunk_build_linear_scan(s.memory, r, 16, &reason));
    assert_string_equal(reason, cases[i].reason);
    fixture_close(&s);
  }
}

// A run whose numbers leave the range of double says nothing about programs.
static bool all_finite(const trial *t) {
  const typed_body *body = &t->recurrence->body;
  for (int i = 0; i < body->tensors.count; i++) {
    const reference_tensor *groups[] = {t->run.tensors, t->run.final_states, t->run.d_tensors,
                                        t->run.d_initial_states};
    for (int g = 0; g < 4; g++) {
      const double *data = groups[g][i].data;
      for (int64_t k = 0; k < t->tensor_numbers[i]; k++)
        if (!(fabs(data[k]) < 1e8)) return false;
    }
  }
  return true;
}

static bool agrees_loosely(const recurrence *r, const tile_program *forward, const trial *expected,
                           uint64_t seed, arena *a, const char **message) {
  tile_gradient gradient = tile_differentiate(a, forward);
  const tile_program *finished = tile_finish(a, forward);
  const tile_program *all[] = {forward, gradient.backward, gradient.recompute, finished};
  for (int i = 0; i < 4; i++) {
    const char *wrong = tile_verify(a, all[i]);
    *message = arena_printf(a, "%s: %s", all[i]->name, wrong ? wrong : "");
    if (wrong) return false;
  }
  trial u = trial_new(a, r, expected->run.batch, expected->run.time, NULL, 0, seed);
  if (!tile_execute(r, finished, &gradient, &u.run)) abort();
  const char *where;
  double error = trial_difference(expected, &u, a, &where);
  *message = arena_printf(a, "chunk %d: %s differs by %g", forward->chunk, where, error);
  // Random programs may be ill-conditioned; a wrong rule is wrong by far more.
  return error < 1e-7;
}

// Programs of each kind that a run draws, twice as many with $REC_FULL.
static uint64_t random_programs(void) { return getenv("REC_FULL") ? 60 : 30; }

static uint64_t first_seed(void) {
  const char *given = getenv("REC_SEED");
  return given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 1000;
}

TEST(random_programs_agree) {
  uint64_t first = first_seed();
  int compared = 0;
  for (uint64_t seed = first; seed < first + random_programs(); seed++) {
    fixture s = fixture_open();
    const char *text = random_program(s.memory, seed, "r", NULL), *message, *reason;
    recurrence *r = fixture_analyse(&s, text);
    trial t = trial_new(s.memory, r, 2, 7, NULL, 0, seed);
    if (!reference_execute(r, &t.run, true)) abort();
    if (all_finite(&t)) {
      compared++;
      bool good = agrees_loosely(r, chunk_build_step(s.memory, r), &t, seed, s.memory, &message);
      tile_program *chunk = chunk_build_linear_scan(s.memory, r, 4, &reason);
      if (!chunk) chunk = chunk_build_pointwise(s.memory, r, 4);
      if (good && chunk) good = agrees_loosely(r, chunk, &t, seed, s.memory, &message);
      if (!good) fail_msg("REC_SEED=%llu: %s\n%s", (unsigned long long)seed, message, text);
    }
    fixture_close(&s);
  }
  assert_true((uint64_t)compared > random_programs() / 2);
}

// ---- random recurrences with scalar decays ---------------------------------------------------

static const char *pick(uint64_t *seed, const char *const *words, int count) {
  return words[(int)random_between(seed, 0, count)];
}

#define PICK(seed, ...)                          \
  pick(seed, (const char *const[]){__VA_ARGS__}, \
       (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)))

static const char *random_keys(uint64_t *seed) {
  return PICK(seed, "k", "k^2", "silu(q)", "u * k", "(k - u)", "k / (2 + q^2)", "normalize[K](k)");
}

static const char *random_scalar(uint64_t *seed) {
  return PICK(seed, "1", "sigmoid(f)", "f / (2 + g^2)", "-a", "softplus(g + a)", "H^-0.5");
}

static const char *random_values(uint64_t *seed) {
  return PICK(seed, "v", "(v - w)", "tanh(w) * v", "c", "sigmoid(v) / (1 + c^2)", "1");
}

static const char *random_decay(uint64_t *seed) {
  return PICK(seed, "", "exp(-softplus(g)) * ", "exp(-exp(a) * softplus(f)) * ",
              "sigmoid(g)^0.5 * ", "exp(log1p(-2^(-5 - index[H]))) * ", "exp(-0.1) * ",
              "exp(where(f > 0.5, log(0), -a^2)) * ");
}

static const char *random_product(arena *a, uint64_t *seed, bool values) {
  const char *scalar = random_scalar(seed), *keys = random_keys(seed);
  return values ? arena_printf(a, "%s * %s * %s", scalar, keys, random_values(seed))
                : arena_printf(a, "%s * %s", scalar, keys);
}

static const char *random_increment(arena *a, uint64_t *seed, bool values) {
  const char *first = random_product(a, seed, values);
  if (random_between(seed, 0, 1) < 0.5) return first;
  return arena_printf(a, "%s - %s", first, random_product(a, seed, values));
}

// One or two states; the increment of the second may use what the first one reads.
static const char *random_scalar_decay(arena *a, uint64_t seed) {
  const char *s = random_increment(a, &seed, true), *n = random_increment(a, &seed, false);
  const char *scale = PICK(&seed, "", "K^-0.5 * ", "sigmoid(f) * ", "u * ");
  const char *second = PICK(&seed, "", "read[V = 1] * ", "(2 + read[V = 0]) * ");
  const char *before = PICK(&seed, "q * S[t-1]", "q * (S[t-1] + u * k * v)", "u * S", "S - S[t-1]");
  const char *text = arena_printf(a,
                                  "recurrence r(H, K = 4, V = 3) {\n"
                                  "  input q[H,K], k[H,K], v[H,V], w[H,V], g[H], f[H]\n"
                                  "  param u[H,K], c[V], a[H]\n"
                                  "  state S[H,K,V], n[H,K]\n"
                                  "  output y[H,V], z[H]\n"
                                  "  S = %sS[t-1] + %s\n"
                                  "  let read = sum[K](%sq * S)\n"
                                  "  n = %sn[t-1] + %s(%s)\n",
                                  random_decay(&seed), s, scale, random_decay(&seed), second, n);
  return arena_printf(
      a,
      "%s  y = read * %s + sum[K](%s) / (3 + w^2)\n"
      "  z = %s(3 + sum[K](u * n)^2) + sum[K](k * n[t-1]) + a * f + c[V = 0] + g * v[V = 2]\n"
      "}\n",
      text, random_values(&seed), before, PICK(&seed, "log", "sqrt", "tanh", "1 / "));
}

TEST(random_scalar_decays_agree) {
  uint64_t first = first_seed();
  for (uint64_t seed = first; seed < first + random_programs(); seed++) {
    fixture s = fixture_open();
    const char *text = random_scalar_decay(s.memory, seed), *message = "", *reason = NULL;
    recurrence *r = fixture_analyse(&s, text);
    trial t = trial_new(s.memory, r, 2, 11, NULL, 0, seed);
    if (!reference_execute(r, &t.run, true)) abort();
    tile_program *chunk = chunk_build_linear_scan(s.memory, r, 4, &reason);
    if (!chunk)
      fail_msg("REC_SEED=%llu: no chunk program: %s\n%s", (unsigned long long)seed, reason, text);
    if (!agrees_loosely(r, chunk, &t, seed, s.memory, &message))
      fail_msg("REC_SEED=%llu: %s\n%s", (unsigned long long)seed, message, text);
    fixture_close(&s);
  }
}

// ---- random mixtures of structures -----------------------------------------------------------

static const char *mixed_keys(uint64_t *seed) {
  return PICK(seed, "k", "k[t-1]", "p[t-1]", "0.3 * n", "(q[t-3] - p)", "silu(q)", "u * k",
              "n[t-1]^2 * 0.1");
}

static const char *mixed_scalar(uint64_t *seed) {
  return PICK(seed, "1", "sigmoid(f)", "exp(i - m)", "f[t-2]", "tanh(m[t-1])", "gate", "0.5");
}

static const char *mixed_values(uint64_t *seed) {
  return PICK(seed, "v", "(v - w[t-1])", "tanh(w)", "c * gate[t-1]", "earlier[t-1]");
}

static const char *one_number_decay(uint64_t *seed) {
  return PICK(seed, "sigmoid(g)", "exp(log_sigmoid(f) + m[t-1] - m)", "exp(-softplus(g[t-1]))",
              "sigmoid(gate)^0.5", "where(f > 0.6, 0, sigmoid(g))", "0.9");
}

static const char *any_decay(uint64_t *seed) {
  return PICK(seed, one_number_decay(seed), "sigmoid(gk)", "tanh(gk[t-1])",
              "sigmoid(g) * exp(-softplus(u))", "(0.5 * f)", "sigmoid(p[t-1])");
}

// T adds S itself, decays along its values, or is fed by what S reads.
static const char *second_state(arena *a, uint64_t *seed, bool coupled) {
  if (coupled) {
    return arena_printf(a, "%s * T[t-1] + %s * S%s", one_number_decay(seed), mixed_scalar(seed),
                        PICK(seed, "", "[t-1]", " + k * w"));
  }
  return arena_printf(a, "%s * T[t-1] + %s * %s", PICK(seed, "sigmoid(w)", any_decay(seed)),
                      mixed_keys(seed), PICK(seed, "read", "read * v", "(w - read[t-2])"));
}

static const char *low_rank_term(arena *a, uint64_t *seed, const char *state) {
  if (random_between(seed, 0, 1) < 0.5) return "";
  return arena_printf(a, " - %s * normalize[K](%s) * 0.3 * sum[K](%s * %s[t-1])",
                      PICK(seed, "1", "sigmoid(f)", "gate"), mixed_keys(seed), mixed_keys(seed),
                      state);
}

static const char *random_mixture(arena *a, uint64_t seed) {
  bool coupled = random_between(&seed, 0, 1) < 0.4;
  const char *decay = coupled ? one_number_decay(&seed) : any_decay(&seed);
  const char *text = arena_printf(
      a,
      "recurrence r(H, K = 4, V = 3) {\n"
      "  input q[H,K], k[H,K], v[H,V], w[H,V], g[H], f[H], i[H], gk[H,K]\n"
      "  param u[H,K], c[V]\n"
      "  state S[H,K,V], T[H,K,V], n[H,K], m[H], p[H,K], gate[H]\n"
      "  output y[H,V], z[H,V], r[H,K]\n"
      "  let earlier = v * w[t-1]\n"
      "  m = %s\n"
      "  gate = sigmoid(f) * gate[t-1] + g\n"
      "  p = k * %s\n"
      "  n = %s * n[t-1] + k * u\n",
      PICK(&seed, "max(log_sigmoid(f) + m[t-1], i)",
           "stop_gradient(max(log_sigmoid(f) + m[t-1], i))", "max(i, m[t-1] - softplus(g))"),
      PICK(&seed, "gate[t-1]", "u", "q[t-2]"), PICK(&seed, "sigmoid(gk)", "sigmoid(g)", "tanh(f)"));
  const char *read = mixed_keys(&seed), *s = mixed_keys(&seed), *values = mixed_values(&seed);
  text = arena_printf(a, "%s  S = %s * S[t-1] + %s * %s * %s%s\n", text, decay, mixed_scalar(&seed),
                      s, values, low_rank_term(a, &seed, "S"));
  return arena_printf(a,
                      "%s  let read = sum[K](%s * S)\n"
                      "  T = %s\n"
                      "  y = read + %s * sum[K](q * T)\n"
                      "  z = sum[K](%s * T[t-1]) / (1 + sum[K](q * n)^2) + 0 * earlier + c * i\n"
                      "  r = n + p[t-1] * gate + gk * m\n"
                      "}\n",
                      text, read, second_state(a, &seed, coupled), mixed_scalar(&seed),
                      mixed_keys(&seed));
}

TEST(random_mixtures_agree) {
  uint64_t first = first_seed();
  int chunks = 0;
  for (uint64_t seed = first; seed < first + random_programs(); seed++) {
    fixture s = fixture_open();
    const char *text = random_mixture(s.memory, seed), *message = "", *reason = NULL;
    recurrence *r = fixture_analyse(&s, text);
    trial t = trial_new(s.memory, r, 2, 11, NULL, 0, seed);
    if (!reference_execute(r, &t.run, true)) abort();
    tile_program *chunk = chunk_build_linear_scan(s.memory, r, 4, &reason);
    chunks += chunk != NULL;
    if (!chunk && getenv("REC_SHOW"))
      fprintf(stderr, "%llu: %s\n%s", (unsigned long long)seed, reason, text);
    if (chunk && all_finite(&t) && !agrees_loosely(r, chunk, &t, seed, s.memory, &message))
      fail_msg("REC_SEED=%llu: %s\n%s", (unsigned long long)seed, message, text);
    fixture_close(&s);
  }
  assert_true((uint64_t)chunks > random_programs() * 3 / 4);
}

// Sequences of different lengths in one tensor, an empty one among them.
TEST(packed_sequences_agree) {
  static const int32_t ends[] = {0, 5, 5, 18, 19};
  static const char *const names[] = {"lags", "scalar decay"};
  for (int i = 0; i < 2; i++) {
    fixture s = fixture_open();
    recurrence *r = analyse_named(&s, names[i]);
    const char *where, *reason;
    tile_program *forward =
        i ? chunk_build_linear_scan(s.memory, r, 8, &reason) : chunk_build_step(s.memory, r);
    tile_gradient gradient = tile_differentiate(s.memory, forward);
    trial t = trial_new(s.memory, r, 1, 19, ends, 4, 3);
    trial u = trial_new(s.memory, r, 1, 19, ends, 4, 3);
    assert_true(reference_execute(r, &t.run, true));
    assert_true(tile_execute(r, forward, &gradient, &u.run));
    double error = trial_difference(&t, &u, s.memory, &where);
    if (!(error < 1e-12)) fail_msg("%s differs by %g", where, error);
    fixture_close(&s);
  }
}
