// What derived backward programs cost, and the rules that keep chunk programs stable.
#include <math.h>

#include "compiler/chunk/chunk.h"
#include "tests/recurrence/fixture.h"
#include "tests/unit/unit.h"

// ---- matrix products -------------------------------------------------------------------------

#define MAMBA2(G, R, P, N)                                     \
  "recurrence ssd(G = " #G ", R = " #R ", P = " #P ", N = " #N \
  ") {\n"                                                      \
  "  input x[G,R,P], dt[G,R], B[G,N], C[G,N]\n"                \
  "  param A_log[G,R], dt_bias[G,R], D[G,R]\n"                 \
  "  state h[G,R,P,N]\n"                                       \
  "  output y[G,R,P]\n"                                        \
  "  let delta = softplus(dt + dt_bias)\n"                     \
  "  h = exp(-exp(A_log) * delta) * h[t-1] + delta * B * x\n"  \
  "  y = sum[N](C * h) + D * x\n"                              \
  "}\n"

#define LINEAR_ATTENTION(K, V)                      \
  "recurrence linear_attention(K = " #K ", V = " #V \
  ") {\n"                                           \
  "  input q[K], k[K], v[V]\n"                      \
  "  state S[K,V]\n"                                \
  "  output y[V]\n"                                 \
  "  S = S[t-1] + k * v\n"                          \
  "  y = K^-0.5 * sum[K](q * S)\n"                  \
  "}\n"

#define NORMALISED(K, V)                             \
  "recurrence normalised(K = " #K ", V = " #V        \
  ") {\n"                                            \
  "  input q[K], k[K], v[V]\n"                       \
  "  state S[K,V], z[K]\n"                           \
  "  output y[V]\n"                                  \
  "  S = 0.5 * S[t-1] + k * v\n"                     \
  "  z = 0.5 * z[t-1] + k\n"                         \
  "  y = sum[K](q * S) / (1 + abs(sum[K](q * z)))\n" \
  "}\n"

// MFLOP of matrix products in a chunk of 64 steps and for each head, the whole square of each mask
// counted. The backward figures are those of the best formulas known, written by hand.
static const struct {
  const char *source;
  int heads;
  double forward, backward;
  int forward_dots, backward_dots;
} costs[] = {
    {LINEAR_ATTENTION(64, 64), 1, 2.10, 4.72, 4, 9},
    {LINEAR_ATTENTION(128, 128), 1, 6.29, 13.63, 4, 9},
    {NORMALISED(128, 128), 1, 6.32, 13.66, 6, 11},
    {MAMBA2(1, 1, 64, 64), 1, 2.10, 4.72, 4, 9},
    {MAMBA2(1, 1, 128, 128), 1, 6.29, 13.63, 4, 9},
    {MAMBA2(1, 1, 64, 128), 1, 3.67, 8.39, 4, 9},
    {MAMBA2(1, 4, 64, 128), 4, 2.88, 6.03, 4, 9},
};

static double dots_of(arena *a, const tile_program *p, const recurrence *r, int *count) {
  int64_t *sizes = ARENA_ARRAY(a, int64_t, r->body.axes.count);
  for (int i = 0; i < r->body.axes.count; i++) sizes[i] = r->body.axes.items[i].size;
  double cost = 0;
  *count = 0;
  for (int i = 0; i < p->values.count; i++) {
    if (p->values.items[i].op != TILE_DOT) continue;
    cost += tile_value_cost(p, i, sizes);
    ++*count;
  }
  return cost * 1e-6;
}

TEST(derived_backwards_cost_what_written_ones_do) {
  for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
    fixture s = fixture_open();
    recurrence *r = fixture_analyse(&s, costs[i].source);
    const char *reason = NULL;
    tile_program *forward = chunk_build_linear_scan(s.memory, r, 64, &reason);
    if (!forward) fail_msg("%s", reason);
    tile_gradient gradient = tile_differentiate(s.memory, forward);
    int there, back;
    double cost = dots_of(s.memory, forward, r, &there) / costs[i].heads;
    double cost_back = dots_of(s.memory, gradient.backward, r, &back) / costs[i].heads;
    if (fabs(cost / costs[i].forward - 1) > 0.01 || there != costs[i].forward_dots)
      fail_msg("case %zu: forward %g MFLOP, %d products", i, cost, there);
    if (fabs(cost_back / costs[i].backward - 1) > 0.01 || back != costs[i].backward_dots)
      fail_msg("case %zu: backward %g MFLOP, %d products", i, cost_back, back);
    fixture_close(&s);
  }
}

// ---- spellings -------------------------------------------------------------------------------

#define MODES(READ)                                     \
  "recurrence modes(N = 8, W = 6) {\n"                  \
  "  input x[N], g[W]\n"                                \
  "  param nu[N], C_re[W,N], C_im[W,N], E[W,N], F[N]\n" \
  "  state h[N] : complex\n"                            \
  "  output y[W], z[W]\n"                               \
  "  z = g * sum[N](C_re * C_im * E * F)\n"             \
  "  h = polar(exp(-exp(nu)), nu) * h[t-1] + x\n"       \
  "  y = " READ                                         \
  "\n"                                                  \
  "}\n"

// Two ways to write one recurrence. The second is what the first becomes.
static const char *const spellings[][2] = {
    {MODES("re(sum[N](complex(C_re, C_im) * h))"),
     MODES("sum[N](C_re * re(h)) - sum[N](C_im * im(h))")},
    {MODES("sum[N](C_re * re(h) + E * x)"), MODES("sum[N](C_re * re(h)) + sum[N](E * x)")},
    {MODES("sum[N](x * (C_re * re(h) - E * im(h)))"),
     MODES("sum[N](x * C_re * re(h)) - sum[N](x * E * im(h))")},
    {MODES("sum[N](g * x * F - C_im * im(h) + F * x)"),
     MODES("sum[N](g * x * F + F * x) - sum[N](C_im * im(h))")},
};

static tile_program *chunks_of(fixture *s, const char *text) {
  const char *reason = NULL;
  tile_program *p = chunk_build_linear_scan(s->memory, fixture_analyse(s, text), 16, &reason);
  if (!p) fail_msg("%s", reason);
  return p;
}

static void count_operations(const tile_program *p, int counts[TILE_OP_COUNT]) {
  for (int i = 0; i < p->values.count; i++) counts[p->values.items[i].op]++;
}

TEST(spellings_cost_the_same) {
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    fixture s = fixture_open();
    int counts[2][TILE_OP_COUNT] = {{0}};
    tile_program *p[2];
    for (int k = 0; k < 2; k++) count_operations(p[k] = chunks_of(&s, spellings[i][k]), counts[k]);
    if (memcmp(counts[0], counts[1], sizeof counts[0]) != 0)
      fail_msg("pair %zu:\n%s\n%s", i, tile_print(s.memory, p[0]), tile_print(s.memory, p[1]));
    fixture_close(&s);
  }
}

// Elementwise work on the state of Mamba-1: operations on [D,N] in the body, the exponential
// counted as one.
TEST(the_backward_of_an_elementwise_step_is_short) {
  fixture s = fixture_open();
  recurrence *r = fixture_analyse(&s,
                                  "recurrence selective_scan(D, N = 16) {\n"
                                  "  input x[D], dt[D], B[N], C[N]\n"
                                  "  param A_log[D,N], bias[D], skip[D]\n"
                                  "  state h[D,N]\n"
                                  "  output y[D]\n"
                                  "  let delta = softplus(dt + bias)\n"
                                  "  h = exp(-exp(A_log) * delta) * h[t-1] + delta * B * x\n"
                                  "  y = sum[N](C * h) + skip * x\n"
                                  "}\n");
  tile_program *forward = chunk_build_step(s.memory, r);
  tile_gradient gradient = tile_differentiate(s.memory, forward);
  const tile_program *programs[] = {forward, gradient.backward, gradient.recompute};
  int most[] = {7, 17, 5};
  for (int k = 0; k < 3; k++) {
    const tile_program *p = programs[k];
    tile_section *sections = tile_sections(s.memory, p);
    int wide = 0;
    for (int i = 0; i < p->values.count; i++) {
      const tile_value *v = &p->values.items[i];
      axis_set all = v->axes | v->over;
      wide += sections[i] != TILE_PROLOGUE && tile_arity(v->op) > 0 && all == 3 &&
              (sections[i] == TILE_BODY || v->op == TILE_ACCUMULATE);
    }
    if (wide > most[k]) fail_msg("%s: %d\n%s", p->name, wide, tile_print(s.memory, p));
  }
  fixture_close(&s);
}

// Powers are products of shared squares: taken apart, they would have as many factors as the
// exponent says.
TEST(high_powers_stay_short) {
  fixture s = fixture_open();
  recurrence *r = fixture_analyse(&s,
                                  "recurrence r(D) {\n"
                                  "  input x[D]\n"
                                  "  state h[D]\n"
                                  "  output y[D]\n"
                                  "  h = x^40 * h[t-1] + x^1000000007\n"
                                  "  y = h^17\n"
                                  "}\n");
  tile_program *forward = chunk_build_step(s.memory, r);
  tile_gradient gradient = tile_differentiate(s.memory, forward);
  assert_null(tile_verify(s.memory, forward));
  assert_null(tile_verify(s.memory, gradient.backward));
  assert_true(forward->values.count < 100);
  assert_true(gradient.backward->values.count < 500);
  fixture_close(&s);
}

TEST(high_powers_in_chunks_end) {
  fixture s = fixture_open();
  recurrence *r = fixture_analyse(&s,
                                  "recurrence r(K = 4, V = 3) {\n"
                                  "  input q[K], k[K], v[V]\n"
                                  "  state S[K,V]\n"
                                  "  output y[V]\n"
                                  "  S = S[t-1] + k^1000000007 * v\n"
                                  "  y = sum[K](q^1000000007 * S) * v^999\n"
                                  "}\n");
  const char *reason = NULL;
  tile_program *forward = chunk_build_linear_scan(s.memory, r, 16, &reason);
  if (!forward) fail_msg("%s", reason);
  assert_null(tile_verify(s.memory, tile_differentiate(s.memory, forward).backward));
  fixture_close(&s);
}

// ---- rules -----------------------------------------------------------------------------------

static const char gated[] =
    "recurrence r(H, K = 4, V = 3) {\n"
    "  input q[H,K], k[H,K], v[H,V], w[H,V], g[H], reset\n"
    "  param u[H,K], scale[V]\n"
    "  state S[H,K,V], n[H,K]\n"
    "  output y[H,V], z[H,V]\n"
    "  let a = exp(where(reset > 0.5, log(0), log_sigmoid(g)))\n"
    "  y = sum[K](q * (S[t-1] + u * k * v)) * scale\n"
    "  S = a * S[t-1] + k * (v - w) + sigmoid(g) * u * w / g\n"
    "  n = a * n[t-1] + k / norm[K](k)\n"
    "  z = sum[K](q * scale * S - k * S[t-1]) / sum[K](q * n) + log(v)\n"
    "}\n";

static const char scanned[] =
    "recurrence r(H, K = 4) {\n"
    "  input x[H,K], g[H,K]\n"
    "  state h[H,K]\n"
    "  output y[H,K]\n"
    "  h = exp(-1 / softplus(g)) * h[t-1] + x / g\n"
    "  y = tanh(h)\n"
    "}\n";

static bool is_sum_along_time(tile_op op) { return op == TILE_PREFIX || op == TILE_SEGMENT; }

// Sums along time that a value is a sum or difference of.
static void collect_sums(const tile_program *p, tile_id id, bool *sums) {
  const tile_value *v = &p->values.items[id];
  if (is_sum_along_time(v->op)) {
    sums[id] = true;
    return;
  }
  for (int k = 0; k < tile_arity(v->op); k++) collect_sums(p, v->args[k], sums);
}

// Every exponent is a one-sided sum towards a reference: none is put together from two of them.
static const char *exponent_rule(arena *a, const tile_program *p) {
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    if (v->op != TILE_EXP && v->op != TILE_EXP2 && v->op != TILE_EXPM1) continue;
    bool *sums = ARENA_ARRAY(a, bool, p->values.count);
    collect_sums(p, v->args[0], sums);
    int count = 0;
    for (int k = 0; k < i; k++) count += sums[k];
    if (count > 1) return arena_printf(a, "%%%d has an exponent of %d sums along time", i, count);
  }
  return NULL;
}

static bool joins_steps(const tile_program *p, const tile_value *v) {
  axis_set time = axis_bit(p->time_axis) | axis_bit(p->pair_axis);
  if (v->op == TILE_SUM || v->op == TILE_DOT) return v->over & time;
  return tile_is_running(v->op) || tile_is_scan(v->op) || v->op == TILE_SEGMENT ||
         v->op == TILE_SEGMENT_ADJOINT || v->op == TILE_ACCUMULATE;
}

// Could the operand be 0 on a padded row?
static bool may_vanish(const tile_program *p, const tile_value *v) {
  if (v->op != TILE_DIV && v->op != TILE_LOG && v->op != TILE_RSQRT) return false;
  tile_id x = v->args[v->op == TILE_DIV ? 1 : 0];
  return !tile_padding_is_1(p, x) && !tile_is_positive(p, x);
}

// A quotient may be no number on a padded row. Its divisor is 1 there, or a mask stands between it
// and every operation that joins steps.
static const char *quotient_rule(arena *a, const tile_program *p) {
  bool *exposed = ARENA_ARRAY(a, bool, p->values.count);
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    if (!axis_in(v->axes, p->time_axis) && !joins_steps(p, v)) continue;
    bool risky = may_vanish(p, v);
    for (int k = 0; k < tile_arity(v->op); k++) risky |= exposed[v->args[k]];
    if (v->op == TILE_SELECT) {
      tile_op question = p->values.items[v->args[0]].op;
      if (question == TILE_VALID || question == TILE_EQUAL) risky = false;
    }
    if (risky && joins_steps(p, v)) {
      return arena_printf(a, "%%%d (%s) joins steps of an unmasked quotient", i,
                          tile_op_text(v->op));
    }
    exposed[i] = risky;
  }
  return NULL;
}

static void assert_rules(fixture *s, const tile_program *p) {
  const char *wrong = exponent_rule(s->memory, p);
  if (!wrong) wrong = quotient_rule(s->memory, p);
  if (wrong) fail_msg("%s: %s\n%s", p->name, wrong, tile_print(s->memory, p));
}

TEST(chunk_programs_keep_the_rules) {
  static const char *const programs[] = {gated, MAMBA2(2, 2, 3, 4), LINEAR_ATTENTION(4, 3),
                                         scanned};
  for (int i = 0; i < 8; i++) {
    fixture s = fixture_open();
    recurrence *r = fixture_analyse(&s, programs[i / 2]);
    const char *reason = NULL;
    tile_program *forward = i % 2 ? chunk_build_for_host(s.memory, r, 16, &reason)
                                  : chunk_build_linear_scan(s.memory, r, 16, &reason);
    if (!forward) fail_msg("%s", reason);
    assert_rules(&s, forward);
    assert_rules(&s, tile_finish(s.memory, forward));
    assert_rules(&s, tile_differentiate(s.memory, forward).backward);
    fixture_close(&s);
  }
}

// The rules see what they are for.
TEST(the_rules_see_violations) {
  fixture s = fixture_open();
  recurrence *r = fixture_analyse(&s, LINEAR_ATTENTION(4, 3));
  tile_program *p = tile_program_new(s.memory, "p", &r->body, TILE_CHUNK, 8);
  tile_id x = tile_argument(p, tile_tensor_place(TILE_INPUT, &r->body, 0, 0));
  tile_id inclusive = tile_indexed(p, TILE_PREFIX, x, 0, 0);
  tile_id exclusive = tile_indexed(p, TILE_PREFIX, x, 1, 0);
  assert_null(exponent_rule(s.memory, p));
  tile_unary(p, TILE_EXP, tile_binary(p, TILE_SUB, inclusive, exclusive));
  assert_non_null(exponent_rule(s.memory, p));
  tile_id quotient = tile_binary(p, TILE_DIV, x, tile_unary(p, TILE_ABS, x));
  assert_null(quotient_rule(s.memory, p));
  tile_reduce(p, TILE_SUM, quotient, axis_bit(p->time_axis));
  assert_non_null(quotient_rule(s.memory, p));
  fixture_close(&s);
}

// ---- axes that are not cut -------------------------------------------------------------------

// The state n lacks V, so its share of a gradient that is partial over V is counted for the first
// entry of V alone. A kernel that does not cut V needs no such question; one that does keeps it.
TEST(whole_axes_need_no_first_entry) {
  fixture s = fixture_open();
  recurrence *r = fixture_analyse(&s, gated);
  const char *reason = NULL;
  tile_program *forward = chunk_build_linear_scan(s.memory, r, 16, &reason);
  if (!forward) fail_msg("%s", reason);
  tile_program *backward = tile_differentiate(s.memory, forward).backward;
  int axis = 2;  // V of [H, K, V]
  assert_string_equal(r->body.axes.items[axis].name, "V");
  axis_set cut[] = {0, axis_bit(axis)};
  int questions[2] = {0, 0};
  for (int n = 0; n < 2; n++) {
    tile_program *p = tile_uncut(s.memory, backward, cut[n]);
    assert_int_equal(p->arguments.count, backward->arguments.count);
    assert_int_equal(p->results.count, backward->results.count);
    vec_each(const tile_value, v, p->values) {
      questions[n] += v->op == TILE_INDEX && v->index == axis;
    }
  }
  assert_int_equal(questions[0], 0);
  assert_int_equal(questions[1], 1);
  fixture_close(&s);
}
