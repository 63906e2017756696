// Intervals: what the analysis says of single formulas, and that no value of a random run lies
// outside.
#include <math.h>

#include "tests/random/program.h"
#include "tests/recurrence/fixture.h"
#include "tests/unit/unit.h"

#define INF INFINITY

// y = EXPRESSION of inputs x (anything), p in [0.5, 2] and n in [-3, 1]. The axes are K = 4, H at
// run time, J of 3 at least.
static const struct {
  const char *expression;
  double low, high;
} ranges[] = {
    {"x", -INF, INF},
    {"p", 0.5, 2},
    {"n + p", -2.5, 3},
    {"n - p", -5, 0.5},
    {"-n * p", -2, 6},
    {"n * n", 0, 9},
    {"n^2 * p", 0, 18},
    {"n^3", -27, 9},
    {"p^-2", 0.25, 4},
    {"1 / p", 0.5, 2},
    {"1 / n", -INF, INF},
    {"1 / (n - 2)", -1, -0.2},
    {"p^1.5", 0.35355339059327379, 2.8284271247461903},
    {"p^x", 0, INF},
    {"2^n", 0.125, 2},
    {"sigmoid(x)", 0, 1},
    {"-5 * sigmoid(x)", -5, 0},
    {"-exp(-0.5) * sigmoid(x)", -0.60653065971263342, 0},
    {"log_sigmoid(x) / 16", -INF, 0},
    {"sigmoid(n)", 0.047425873177566781, 0.73105857863000490},
    {"tanh(n)", -0.99505475368673045, 0.76159415595576489},
    {"exp(-exp(n))", 0.065988035845312537, 0.95143199290045344},
    {"expm1(n)", -0.95021293163213605, 1.7182818284590452},
    {"log(p)", -0.69314718055994531, 0.69314718055994531},
    {"log1p(n^2)", 0, 2.3025850929940457},
    {"softplus(x)", 0, INF},
    {"softplus(n)", 0.048587351573742056, 1.3132616875182228},
    {"silu(x)", -0.27846454276107374, INF},
    {"silu(p)", 0.31122966560092727, 1.7615941559557649},
    {"gelu(n)", -0.16997120747990367, 0.84134474606854293},
    {"relu(n)", 0, 1},
    {"sin(x) + cos(x)", -2, 2},
    {"sqrt(p)", 0.70710678118654752, 1.4142135623730950},
    {"rsqrt(1 + x^2)", 0, 1},
    {"abs(n)", 0, 3},
    {"min(n, p)", -3, 1},
    {"max(n, x)", -3, INF},
    {"clamp(x, 0.5, p)", 0.5, 2},
    {"clamp(n, -1, 4)", -1, 1},
    {"where(x > 0, n, p)", -3, 2},
    {"x < p", 0, 1},
    {"0.1 + 0.9 * sigmoid(x)", 0.1, 1},
    {"1 - 0.5 * sigmoid(x)", 0.5, 1},
    {"-2^(-5 - index[K])[K = 2]", -0.03125, -0.00390625},
    {"index[H][H = 0]", 0, INF},
    {"H", 1, INF},
    {"1 / J", 0, 0.33333333333333333},
    {"-8 / H * index[H][H = 0]", -INF, 0},
    {"sum[K](p * q)", 2, 16},
    {"sum[K](n * q)", -24, 8},
    {"max[K](n * q)", -6, 2},
    {"x[t-1]", -INF, INF},
    {"n[t-1]", -INF, INF},
    {"re(complex(n, x))", -3, 1},
    {"abs(polar(n, x))", 0, 3},
    {"re(exp(complex(n, x)))", -INF, INF},
    {"stop_gradient(n)", -3, 1},
};

TEST(formulas_have_these_ranges) {
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    fixture s = fixture_open();
    recurrence *r = fixture_analyse(
        &s,
        arena_printf(s.memory,
                     "recurrence r(K = 4, H, J) { input x, p in [0.5, 2], n in [-3, 1], u[H,J] "
                     "param q[K] in [1, 2] output y, w[H,K] y = %s w = u[J = 2] * x * p * n * q }",
                     ranges[i].expression));
    double low, high;
    recurrence_bounds(s.memory, r, r->body.tensors.items[5].assigned, &low, &high);
    bool outward = low <= ranges[i].low && high >= ranges[i].high;
    bool tight =
        (low == ranges[i].low || low >= ranges[i].low - 1e-14 * fabs(ranges[i].low) - 1e-300) &&
        (high == ranges[i].high || high <= ranges[i].high + 1e-14 * fabs(ranges[i].high) + 1e-300);
    if (!outward || !tight)
      fail_msg("%s: [%.17g, %.17g], expected [%.17g, %.17g]", ranges[i].expression, low, high,
               ranges[i].low, ranges[i].high);
    fixture_close(&s);
  }
}

// No value of a run lies outside its bounds: each in the place of an output that has its axes.
static int check_values(fixture *s, recurrence *r, int output, uint64_t seed) {
  typed_tensor *y = &r->body.tensors.items[output];
  int bounded = 0;
  for (int id = 0; id < r->body.values.count; id++) {
    const typed_value *v = &r->body.values.items[id];
    double low, high;
    if (v->complex || (v->axes & ~y->axis_set)) continue;
    recurrence_bounds(s->memory, r, id, &low, &high);
    bounded += isfinite(low) || isfinite(high);
    y->assigned = id;
    trial t = trial_new(s->memory, r, 2, 5, NULL, 0, seed);
    assert_true(reference_execute(r, &t.run, false));
    for (int64_t k = 0; k < t.tensor_numbers[output]; k++) {
      double x = t.run.tensors[output].data[k];
      if (x < low || x > high)
        fail_msg("seed %d: %%%d is %.17g, not in [%.17g, %.17g]\n%s", (int)seed, id, x, low, high,
                 recurrence_print(s->memory, r));
    }
  }
  return bounded;
}

TEST(random_values_lie_within) {
  int bounded = 0;
  uint64_t programs = getenv("REC_FULL") ? 300 : 150;
  for (uint64_t seed = 1; seed <= programs; seed++) {
    fixture s = fixture_open();
    recurrence *r = fixture_analyse(&s, random_program(s.memory, seed, "r", NULL));
    for (int i = 0; i < r->body.tensors.count; i++) {
      const typed_tensor *y = &r->body.tensors.items[i];
      if (y->kind == TENSOR_OUTPUT && !y->complex) bounded += check_values(&s, r, i, seed);
    }
    fixture_close(&s);
  }
  assert_true((uint64_t)bounded > 7 * programs);
}
