// Logarithms of decays: which decays have one. It keeps its digits near 0 and near 1, and its
// derivative stays finite where the decay rounds to 0.
#include <math.h>

#include "tests/recurrence/fixture.h"
#include "tests/unit/unit.h"

// `decay` in the inputs a, b, the promised p in [0.25, 0.75] and the param c in [0.5, 0.999].
static recurrence *with_decay(fixture *s, const char *lets, const char *decay) {
  return fixture_analyse(
      s, arena_printf(s->memory,
                      "recurrence r(H = 2) { input a, b, p in [0.25, 0.75] param c in [0.5, 0.999] "
                      "state h output y, w %s h = (%s) * h[t-1] + a y = h w = a + b + p + c + H }",
                      lets, decay));
}

typedef struct place {
  double a, b, p, c;
} place;

// What output y is when it is the logarithm of the decay, and its derivative by a.
static double log_at(fixture *s, recurrence *r, place at, double *derivative) {
  int y = 5;
  r->body.tensors.items[y].assigned = r->states.items[0].log_decay;
  trial t = trial_new(s->memory, r, 1, 1, NULL, 0, 1);
  const double numbers[] = {at.a, at.b, at.p, at.c};
  for (int i = 0; i < 4; i++) t.run.tensors[i].data[0] = numbers[i];
  for (int i = 5; i < 7; i++) t.run.d_tensors[i].data[0] = i == y;
  t.run.d_final_states[4].data[0] = 0;
  assert_true(reference_execute(r, &t.run, true));
  *derivative = t.run.d_tensors[0].data[0];
  return t.run.tensors[y].data[0];
}

static const char *const without[] = {
    "a",
    "1 - a",
    "tanh(a)",
    "1 - exp(-a)",
    "a * sigmoid(b)",
    "1 - a * b",
    "1 - exp(-abs(a))",
    "clamp(a, 0, 1)",
    "p - c",
    "1 - 2 * sigmoid(a)",
    "a / b",
    "-sigmoid(a)",
    "1 - p * 1.4",
    "sqrt(a)",
    "relu(a)",
};

TEST(other_decays_stay_products) {
  for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
    fixture s = fixture_open();
    recurrence *r = with_decay(&s, "", without[i]);
    if (r->states.items[0].log_decay != NO_VALUE) fail_msg("%s has a logarithm", without[i]);
    fixture_close(&s);
  }
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double log_sigmoid(double x) { return x > 0 ? -log1p(exp(-x)) : x - log1p(exp(x)); }
// log(1 - exp(g)), g < 0
static double log_rest(double g) { return g < -0.5 ? log1p(-exp(g)) : log(-expm1(g)); }

TEST(logarithms_keep_their_digits) {
  const struct {
    const char *lets, *decay;
    place at;
    double expected;
  } formed[] = {
#define AT(...) \
  {             \
    __VA_ARGS__ \
  }
      {"", "1 - 2^(-5 - 40 * p)", AT(0, 0, 0.75, 1), log1p(-0x1p-35)},
      {"", "(1 - 2^(-5 - index[H]))[H = 1]", AT(0, 0, 0, 1), -0.015748356968139168},
      {"", "1 - exp(-exp(a))", AT(-60, 0, 0.5, 1), -60},
      {"", "1 - exp(-exp(a))", AT(3, 0, 0.5, 1), log1p(-exp(-exp(3)))},
      {"let z = sigmoid(a)", "1 - z", AT(40, 0, 0.5, 1), -40},
      {"let z = sigmoid(a)", "1 - z", AT(-40, 0, 0.5, 1), -exp(-40)},
      {"", "1 / (1 + exp(a))", AT(800, 0, 0.5, 1), -800},
      {"", "2 / (2 + exp(a))", AT(-40, 0, 0.5, 1), -0.5 * exp(-40)},
      {"", "exp(a) / (exp(a) + exp(b))", AT(800, 810, 0.5, 1), -10.000045398899218},
      {"", "exp(a) / (exp(b) + exp(a))", AT(-900, -900, 0.5, 1), -0.6931471805599453},
      {"let f = sigmoid(a) let i = sigmoid(b)", "f / (f + i)", AT(-300, -340, 0.5, 1), -exp(-40)},
      {"let f = sigmoid(a) let i = sigmoid(b)", "f / (f + i)", AT(-840, -800, 0.5, 1), -40},
      {"let f = sigmoid(a) let i = sigmoid(b)", "1 - i / (f + i)", AT(-840, -800, 0.5, 1), -40},
      {"let f = sigmoid(a) let i = exp(b)", "i / (i + f)", AT(-840, -800, 0.5, 1), -exp(-40)},
      {"", "0.01 + 0.99 * sigmoid(a)", AT(-40, 0, 0.5, 1), -4.605170185988091},
      {"", "(1 - 0.01) * sigmoid(a) + 0.01", AT(40, 0, 0.5, 1), -0.99 * exp(-40)},
      {"", "c + (1 - c) * sigmoid(a)", AT(30, 0, 0.5, 0.75), log1p(-0.25 * sigmoid(-30))},
      {"", "(1 - c) * sigmoid(a) + c", AT(-40, 0, 0.5, 0.5), -0.6931471805599453},
      {"let l = sigmoid(b)", "l + (1 - l) * sigmoid(a)", AT(-50, -60, 0.5, 1),
       -50 + log1p(exp(-10))},
      {"let l = sigmoid(b)", "l + (1 - l) * sigmoid(a)", AT(20, 20, 0.5, 1),
       -exp(2 * log_sigmoid(-20))},
      {"", "c", AT(0, 0, 0.5, 0.9), -0.10536051565782628},
      {"", "p^2 * c", AT(0, 0, 0.5, 0.5), -2.0794415416798357},
      {"", "1 - 0.5 * sigmoid(a)", AT(-40, 0, 0.5, 1), -0.5 * exp(-40)},
      {"", "1 - p", AT(0, 0, 0.75, 1), -1.3862943611198906},
      {"", "clamp(sigmoid(a), 0.1, 0.95)", AT(-9, 0, 0.5, 1), -2.302585092994046},
      {"", "max(sigmoid(a), 0.5)", AT(40, 0, 0.5, 1), -exp(-40)},
      {"", "where(b > 0, 0, sigmoid(a))", AT(1, 1, 0.5, 1), -INFINITY},
      {"", "where(b > 0, 0, 1 - exp(-exp(a)))", AT(3, -1, 0.5, 1), log1p(-exp(-exp(3)))},
      {"", "0.875", AT(0, 0, 0, 1), -0.13353139262452263},
      {"", "exp(-softplus(a)) * rsqrt(1 + b^2)", AT(30, 1e3, 0.5, 1),
       log_sigmoid(-30) - 0.5 * log1p(1e6)},
      {"", "0.5 * (1 + exp(-p))", AT(0, 0, 0.25, 1), log(0.5 * (1 + exp(-0.25)))},
  };
  for (size_t i = 0; i < sizeof formed / sizeof *formed; i++) {
    fixture s = fixture_open();
    recurrence *r = with_decay(&s, formed[i].lets, formed[i].decay);
    if (r->states.items[0].log_decay == NO_VALUE) fail_msg("%s has no logarithm", formed[i].decay);
    double derivative, found = log_at(&s, r, formed[i].at, &derivative);
    double expected = formed[i].expected;
    if (!(found == expected || fabs(found - expected) <= 1e-14 * fabs(expected)))
      fail_msg("%s: %.17g, expected %.17g", formed[i].decay, found, expected);
    if (!isfinite(derivative)) fail_msg("%s: derivative %g", formed[i].decay, derivative);
    fixture_close(&s);
  }
}

// Along a line through both ends the logarithm and its derivative follow the exact ones.
static void check_line(const char *decay, double (*exact)(double a), double (*slope)(double a)) {
  fixture s = fixture_open();
  recurrence *r = with_decay(&s, "", decay);
  for (double a = -80; a <= 80; a += 0.37) {
    double derivative, found = log_at(&s, r, (place){a, 0, 0.5, 0.75}, &derivative);
    if (fabs(found - exact(a)) > 1e-14 * fabs(exact(a)) + 1e-300 ||
        fabs(derivative - slope(a)) > 1e-13 * fabs(slope(a)) + 1e-300)
      fail_msg("%s at %g: %g %g, expected %g %g", decay, a, found, derivative, exact(a), slope(a));
  }
  fixture_close(&s);
}

static double double_exponential(double a) { return log_rest(-exp(a)); }
static double double_exponential_slope(double a) { return exp(a) / expm1(exp(a)); }
static double bounded(double a) {
  return sigmoid(a) < 0.25 ? log(0.75 + 0.25 * sigmoid(a)) : log1p(-0.25 * sigmoid(-a));
}
static double bounded_slope(double a) {
  return 0.25 * sigmoid(a) * sigmoid(-a) / (0.75 + 0.25 * sigmoid(a));
}
static double power(double a) { return log_rest(2 * log_sigmoid(a)); }
static double power_slope(double a) { return -2 * sigmoid(-a) / expm1(-2 * log_sigmoid(a)); }

TEST(logarithms_follow_the_exact_ones) {
  check_line("1 - exp(-exp(a))", double_exponential, double_exponential_slope);
  check_line("c + (1 - c) * sigmoid(a)", bounded, bounded_slope);
  check_line("1 - sigmoid(a)^2", power, power_slope);
}

// The decay is 0 in the numbers of the machine, and so is the derivative of its logarithm: not NaN.
TEST(vanishing_decays_have_finite_derivatives) {
  static const char *const decays[] = {"1 - exp(-exp(a))", "1 - sigmoid(a)^2",
                                       "sigmoid(b) + (1 - sigmoid(b)) * sigmoid(a)",
                                       "rsqrt(1 + exp(2 * a))", "softplus(a)"};
  for (size_t i = 0; i < sizeof decays / sizeof *decays; i++) {
    fixture s = fixture_open();
    recurrence *r = with_decay(&s, "", decays[i]);
    assert_true(r->states.items[0].log_decay != NO_VALUE);
    for (double a = -1000; a <= 1000; a += 200) {
      double derivative, found = log_at(&s, r, (place){a, -1000, 0.5, 0.75}, &derivative);
      if (!isfinite(found) || !isfinite(derivative))
        fail_msg("%s at %g: %g %g", decays[i], a, found, derivative);
    }
    fixture_close(&s);
  }
}
