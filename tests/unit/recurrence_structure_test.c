// Linearity: the class, the axes and the strata of published recurrences and of corner cases, told
// by the report.
#include "tests/recurrence/fixture.h"
#include "tests/unit/unit.h"

static const struct {
  const char *source, *report;
} cases[] = {
    // scalar decay
    {"recurrence retnet(H, K = 4, V) {\n"
     "input q[H,K], k[H,K], v[H,V] state S[H,K,V] output y[H,V]\n"
     "S = (1 - 2^(-5 - index[H])) * S[t-1] + k * v\n"
     "y = sum[K](q * S) }",
     "recurrence retnet: 1 state\n"
     "  state S[H,K,V]: linear, scalar decay kept as a logarithm, keys [K], values [V]\n"},
    {"recurrence ssd(G, R, P, N = 4) {\n"
     "input x[G,R,P], dt[G,R], B[G,N], C[G,N] param A[G,R] state h[G,R,P,N] output y[G,R,P]\n"
     "h = exp(-exp(A) * dt) * h[t-1] + dt * B * x\n"
     "y = sum[N](C * h) + x }",
     "recurrence ssd: 1 state\n"
     "  state h[G,R,P,N]: linear, scalar decay kept as a logarithm, keys [N], values [P]\n"},
    {"recurrence reset(H, K = 4, V) {\n"
     "input r[H], q[H,K], k[H,K], v[H,V], f[H] state S[H,K,V], n[H,K] output y[H,V]\n"
     "S = where(r, 0, sigmoid(f) * S[t-1]) + k * v\n"
     "n = where(r, 0, sigmoid(f) * n[t-1]) + k\n"
     "y = sum[K](q * S) / max(abs(sum[K](q * n)), 1) }",
     "recurrence reset: 2 states\n"
     "  state S[H,K,V]: linear, scalar decay kept as a logarithm, keys [K], values [V]\n"
     "  state n[H,K]: linear, scalar decay kept as a logarithm, keys [K]\n"},
    // per axis
    {"recurrence two_sided(H, K = 4, V) {\n"
     "input q[H,K], k[H,K], v[H,V], a[H,K], b[H,V] state S[H,K,V] output y[H,V]\n"
     "S = sigmoid(a) * exp(-exp(b)) * S[t-1] + k * v\n"
     "y = sum[K](q * S) }",
     "recurrence two_sided: 1 state\n"
     "  state S[H,K,V]: linear, decay per axis kept as a logarithm, keys [K], values [V]\n"
     "    because 'sigmoid(a) * exp(-exp(b))' at 3:5 has the axes K,V, which reads sum over and an "
     "outer product makes\n"},
    {"recurrence gateloop(H, K = 4, V) {\n"
     "input q[H,K], k[H,K], v[H,V], m[H,K], phase[H,K] state S[H,K,V] : complex output y[H,V]\n"
     "S = polar(sigmoid(m), phase) * S[t-1] + k * v\n"
     "y = re(sum[K](q * S)) }",
     "recurrence gateloop: 1 state\n"
     "  state S[H,K,V]: linear, decay per axis kept as a logarithm, keys [K], values [V]\n"
     "    because 'polar(sigmoid(m), phase)' at 3:5 has the axis K, which reads sum over\n"},
    // element by element
    {"recurrence longhorn(D, N = 4) {\n"
     "input x[D], b[D], k[N], q[N] state h[D,N] output y[D]\n"
     "let e = b / (1 + b * sum[N](k^2))\n"
     "h = (1 - e * k^2) * h[t-1] + e * k * x\n"
     "y = sum[N](q * h) }",
     "recurrence longhorn: 1 state\n"
     "  state h[D,N]: linear, element by element, decay kept as products\n"
     "    because '1 - e * k^2' at 4:6 mixes the axis N with the axis D\n"},
    {"recurrence total(D) { input x[D] state h[D] output y[D] h = h[t-1] + x y = h }",
     "recurrence total: 1 state\n"
     "  state h[D]: linear, element by element, decay 1\n"},
    // low rank
    {"recurrence delta(H, K = 4, V) {\n"
     "input q[H,K], k[H,K], v[H,V], b[H] state S[H,K,V] output y[H,V]\n"
     "let e = v - sum[K](k * S[t-1])\n"
     "S = S[t-1] + b * k * e\n"
     "y = sum[K](q * S) }",
     "recurrence delta: 1 state\n"
     "  state S[H,K,V]: linear, decay 1 plus a low-rank term, keys [K], values [V]\n"
     "    because 'sum[K](k * S[t-1])' at 3:13 sums S[t-1] into its own update: a low-rank term\n"},
    {"recurrence product(H, K = 4, V, M = 3) {\n"
     "input q[H,K], k[H,M,K], v[H,M,V], b[H,M], g[H] state S[H,K,V] output y[H,V]\n"
     "S = fold[M](s = exp(-exp(g)) * S[t-1], s + b * k * (v - sum[K](k * s)))\n"
     "y = sum[K](q * S) }",
     "recurrence product: 1 state\n"
     "  state S[H,K,V]: linear, decay kept as a logarithm plus a low-rank term, keys [K], values "
     "[V]\n"
     "    because 'sum[K](k * s)' at 3:57 sums S[t-1] into its own update: a low-rank term\n"},
    // several states
    {"recurrence mlstm(H, K = 4, V) {\n"
     "input q[H,K], k[H,K], v[H,V], f[H], i[H] state C[H,K,V], n[H,K], m[H] output y[H,V]\n"
     "m = stop_gradient(max(log_sigmoid(f) + m[t-1], i))\n"
     "let a = exp(log_sigmoid(f) + m[t-1] - m)\n"
     "C = a * C[t-1] + exp(i - m) * k * v\n"
     "n = a * n[t-1] + exp(i - m) * k\n"
     "y = sum[K](q * C) / max(abs(sum[K](q * n)), exp(-m)) }",
     "recurrence mlstm: 3 states\n"
     "  state C[H,K,V] (stratum 1): linear, scalar decay kept as a logarithm, keys [K], values "
     "[V]\n"
     "  state n[H,K] (stratum 1): linear, scalar decay kept as a logarithm, keys [K]\n"
     "  state m[H] (stratum 0): the maximum of a shifted state and a value\n"},
    {"recurrence shift(H, K = 4, V) {\n"
     "input q[H,K], k[H,K], v[H,V], a[H] state p[H,K], S[H,K,V] output y[H,V]\n"
     "p = k\n"
     "S = sigmoid(a) * S[t-1] + p[t-1] * v\n"
     "y = sum[K](q * S) }",
     "recurrence shift: 2 states\n"
     "  state p[H,K] (stratum 0): a delay: the value of the step before\n"
     "  state S[H,K,V] (stratum 1): linear, scalar decay kept as a logarithm, keys [K], values "
     "[V]\n"},
    {"recurrence rotation(D) {\n"
     "input x[D] state a[D], b[D] output y[D]\n"
     "a = b[t-1] + x\n"
     "b = 0.5 * a[t-1] - x\n"
     "y = a * b }",
     "recurrence rotation: 2 states\n"
     "  state a[D]: linear, but neither diagonal nor of low rank by itself\n"
     "    because it is coupled with b\n"
     "  state b[D]: linear, but neither diagonal nor of low rank by itself\n"
     "    because it is coupled with a\n"},
    {"recurrence echo(D) {\n"
     "input x[D] state h[D] output y[D]\n"
     "let e = tanh(h[t-1])\n"
     "h = 0.5 * h[t-1] + e[t-2] + x\n"
     "y = h }",
     "recurrence echo: 1 state\n"
     "  state h[D]: not linear: a sequential loop with exact backward through time\n"
     "    because 'e' at 3:9 reads coupled states (e.lag among them)\n"},
    // entries that move on, however that is written, and the most of them
    {"recurrence moving(H, N = 16, M = N) {\n"
     "input x[H] param w[N] state W[H,N] output y[H]\n"
     "W = where(index[N] == 0, x, sum[M](where(index[M] == index[N] - 1, W[t-1]{N -> M}, 0)))\n"
     "y = sum[N](w * W) }",
     "recurrence moving: 1 state\n"
     "  state W[H,N]: a shift register along N: the values of earlier steps\n"},
    {"recurrence moving_down(H, N = 3, M = N) {\n"
     "input x[H] state W[H,N] : complex output y[H,N]\n"
     "W = (index[N] == 2) * complex(x, 1) + sum[M]((index[M] == index[N] + 1) * W[t-1]{N -> M})\n"
     "y = re(W) * max[N](im(W[t-1])) }",
     "recurrence moving_down: 1 state\n"
     "  state W[H,N]: a shift register along N: the values of earlier steps\n"},
    {"recurrence pairs(H, K = 2, N = 4) {\n"
     "input x[H,K], z[H] state S[H,K], W[H,K,N] output y[H]\n"
     "S = sigmoid(z) * S[t-1] + x\n"
     "W = where(index[N] >= 2, where(index[N] == 3, S, z), where(index[N] == 1, W[t-1][N = 3], "
     "W[t-1][N = 2]))\n"
     "y = sum[K,N](x * exp(W[t-1])) }",
     "recurrence pairs: 2 states\n"
     "  state S[H,K] (stratum 0): linear, element by element, decay kept as a logarithm\n"
     "  state W[H,K,N] (stratum 1): a shift register along N: the values of earlier steps\n"},
    // affine in another way, and not at all
    {"recurrence fading(H, N = 3, M = N) {\n"
     "input x[H] state W[H,N] output y[H,N]\n"
     "W = where(index[N] == 0, x, sum[M](where(index[M] == index[N] - 1, 0.5 * W[t-1]{N -> M}, "
     "0)))\n"
     "y = W }",
     "recurrence fading: 1 state\n"
     "  state W[H,N]: linear, but neither diagonal nor of low rank by itself\n"
     "    because 'W[t-1]{N -> M}' at 3:74 moves the state to another axis: a dense transition\n"},
    {"recurrence ring(H, N = 3, M = N) {\n"
     "input x[H] state W[H,N] output y[H,N]\n"
     "W = sum[M](where(index[M] == where(index[N] == 0, N - 1, index[N] - 1), W[t-1]{N -> M}, 0))\n"
     "y = x * W }",
     "recurrence ring: 1 state\n"
     "  state W[H,N]: linear, but neither diagonal nor of low rank by itself\n"
     "    because 'W[t-1]{N -> M}' at 3:73 moves the state to another axis: a dense transition\n"},
    {"recurrence dense(H, N = 3, M = N) {\n"
     "input x[H,N] param A[N,M] state h[H,N] output y[H,N]\n"
     "h = sum[M](A * h[t-1]{N -> M}) + x\n"
     "y = h }",
     "recurrence dense: 1 state\n"
     "  state h[H,N]: linear, but neither diagonal nor of low rank by itself\n"
     "    because 'h[t-1]{N -> M}' at 3:16 moves the state to another axis: a dense transition\n"},
    {"recurrence gru(D = 4, E = D) {\n"
     "input z[D], r[D], x[D] param U[D,E] state h[D] output y[D]\n"
     "let s = sigmoid(z)\n"
     "let c = tanh(x + sum[E](U * (sigmoid(r) * h[t-1]){D -> E}))\n"
     "h = (1 - s) * h[t-1] + s * c\n"
     "y = h }",
     "recurrence gru: 1 state\n"
     "  state h[D]: not linear: a sequential loop with exact backward through time\n"
     "    because 'c' at 4:9 reads h[t-1]\n"},
    {"recurrence logistic(D) {\n"
     "input x[D] state h[D] output y[D]\n"
     "h = x * h[t-1] * (1 - h[t-1])\n"
     "y = h }",
     "recurrence logistic: 1 state\n"
     "  state h[D]: not linear: a sequential loop with exact backward through time\n"
     "    because 'h' at 3:5 multiplies two values that read h[t-1]\n"},
    {"recurrence memoryless(D) { input x[D] output y[D] y = exp(x) }",
     "recurrence memoryless: 0 states\n"},
};

TEST(reports_say_what_was_found) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture s = fixture_open();
    recurrence *r = fixture_analyse(&s, cases[i].source);
    const char *wrong = recurrence_verify(s.memory, r);
    if (wrong) fail_msg("%s: %s", r->body.name, wrong);
    assert_string_equal(recurrence_report(s.memory, s.sources, r), cases[i].report);
    fixture_close(&s);
  }
}

// The printed form of an analysed recurrence reads back, and analysing it again finds the same.
TEST(analysis_of_its_own_result_changes_nothing) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture s = fixture_open();
    char *text = recurrence_print(s.memory, fixture_analyse(&s, cases[i].source));
    recurrence *again = fixture_ir(&s, text);
    assert_string_equal(recurrence_print(s.memory, again), text);
    assert_string_equal(recurrence_print(s.memory, recurrence_analyse(s.memory, &again->body)),
                        text);
    fixture_close(&s);
  }
}

// decay * state[t-1] + increment, where the structure says so, is the very update.
TEST(parts_add_up_to_the_update) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture s = fixture_open();
    recurrence *r = fixture_analyse(&s, cases[i].source);
    recurrence *parts = fixture_from_parts(&s, r);
    for (uint64_t seed = 1; seed < 4; seed++) {
      double difference = fixture_difference(&s, r, parts, seed);
      if (!(difference < 1e-12)) fail_msg("%s: differs by %g", r->body.name, difference);
    }
    fixture_close(&s);
  }
}

// Analysis writes values anew, and none of them means something else.
TEST(analysis_keeps_what_a_body_means) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture s = fixture_open();
    const typed_body *body = fixture_source(&s, cases[i].source);
    recurrence *r = recurrence_analyse(s.memory, body);
    double difference = fixture_difference(&s, fixture_raw(&s, body), r, i + 1);
    if (!(difference < 1e-10)) fail_msg("%s: differs by %g", body->name, difference);
    fixture_close(&s);
  }
}

// Values that are used again and again make no tree of exponential size.
TEST(repeated_squares_are_analysed_at_once) {
  fixture s = fixture_open();
  const char *lets = "let a0 = sigmoid(x) let b0 = k * v ";
  for (int i = 1; i < 60; i++) {
    lets = arena_printf(s.memory, "%s let a%d = a%d * a%d let b%d = b%d * b%d ", lets, i, i - 1,
                        i - 1, i, i - 1, i - 1);
  }
  const char *frame =
      "recurrence r(K = 3, V = 4) { input x[K,V], q[K], k[K], v[V] state S[K,V] output y[V] %s S = "
      "a59 * S[t-1] + b59 y = sum[K](q * S) }";
  recurrence *r = fixture_analyse(&s, arena_printf(s.memory, frame, lets));
  assert_int_equal(r->states.items[0].class, STATE_ELEMENTWISE);
  assert_true(r->states.items[0].log_decay != NO_VALUE);
  fixture_close(&s);
}
