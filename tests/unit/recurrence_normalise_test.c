// Normalisation: every rewrite, that it changes no value at ordinary points, and what it is for at
// extreme ones.
#include <math.h>

#include "tests/recurrence/fixture.h"
#include "tests/unit/unit.h"

// y = EXPRESSION of the real inputs a, b[K] and v[V]; the values that remain, one operation each,
// leaves left out.
static const struct {
  const char *expression, *operations;
} rewrites[] = {
    {"sigmoid(a)^3", "log_sigmoid mul exp"},
    {"sigmoid(a)^(1/16)", "log_sigmoid mul exp"},
    {"sigmoid(a)^-2", "log_sigmoid mul exp"},
    {"sigmoid(a)^tanh(b)", "tanh log_sigmoid mul exp"},
    {"(sigmoid(a) * sigmoid(b))^2", "log_sigmoid log_sigmoid add mul exp"},
    {"exp(a)^2", "mul exp"},
    {"sqrt(sigmoid(a))", "log_sigmoid mul exp"},
    {"rsqrt(exp(a))", "mul exp"},
    {"2^a", "mul exp"},
    {"exp(a) * exp(b)", "add exp"},
    {"exp(a) * b * exp(b)", "add exp mul"},
    {"sigmoid(a) * b * exp(b)", "log_sigmoid add exp mul"},
    {"exp(b) * exp(v)", "exp exp mul"},
    {"sigmoid(a) * sigmoid(b)", "sigmoid sigmoid mul"},
    {"1 - sigmoid(a)", "neg sigmoid"},
    {"1 - sigmoid(-a)", "sigmoid"},
    {"sigmoid(a) - 1", "neg sigmoid neg"},
    {"1 - exp(-exp(a))", "exp neg expm1 neg"},
    {"1 - sigmoid(a)^2", "log_sigmoid mul expm1 neg"},
    {"1 - sigmoid(a) * sigmoid(b)", "log_sigmoid log_sigmoid add expm1 neg"},
    {"1 - (0.1 + 0.9 * sigmoid(a))", "neg sigmoid mul"},
    {"1 - (b + (1 - b) * sigmoid(a))", "sub neg sigmoid mul"},
    {"1 - (1 - b)", ""},
    {"sqrt(1 - exp(a)^2)", "mul expm1 neg sqrt"},
    {"exp(a) - 1", "expm1"},
    {"-1 + exp(a)", "expm1"},
    {"1 - (1 - exp(a))", "exp"},
    {"re(exp(complex(a, b)) - 1)", "complex expm1 re"},
    {"re(1 - exp(complex(a, b)))", "complex expm1 neg re"},
    {"re(exp(complex(a, b))^3)", "complex mul exp re"},
    {"re(exp(complex(a, b)) * exp(complex(b, a)))", "complex complex add exp re"},
    {"log(sigmoid(a))", "log_sigmoid"},
    {"log(exp(a))", ""},
    {"log(1 + a)", "log1p"},
    {"log(1 - a)", "neg log1p"},
    {"log(1 + exp(a))", "softplus"},
    {"-softplus(-a)", "log_sigmoid"},
    {"exp(log_sigmoid(a))", "sigmoid"},
    {"1 / (1 + exp(-a))", "sigmoid"},
    {"exp(a) / (1 + exp(a))", "sigmoid"},
    {"log(1 - sigmoid(a))", "neg log_sigmoid"},
    {"exp(a) / exp(b)", "exp exp div"},
    {"-(-a)", ""},
    {"a - -b", "add"},
    {"-(a - b)", "sub"},
    {"1 * a + 0", ""},
    {"0 * a", "mul"},
    {"2 * 3 * a + K * 0", "mul"},
    {"tanh(a) * tanh(a) + tanh(a)", "tanh mul add"},
    {"tanh(a * b) + tanh(b * a)", "mul tanh mul"},
    {"(b * v)^2", "ipow ipow mul"},
    {"abs(b * v) + stop_gradient(b * v)", "abs abs mul stop_gradient stop_gradient mul add"},
    {"sqrt(exp(b) * exp(v))", "mul exp mul exp mul"},
    {"a / (b * v)", "div div mul mul"},
    {"where(a > 0, b * v, 0)", "gt where where mul"},
    {"where(b > 0, b * v, 0)", "gt where max_over where mul"},
    {"where(b > 0, 0, v)", "gt where min_over where mul"},
    {"where((b > 0) * (v > 0), 1, 0)", "gt gt where where max_over where mul"},
    {"where(a > 0, a * v, b * v)", "gt where mul"},
    {"where(a > 0, b * v, exp(b) * v^2)", "gt exp ipow where where mul"},
    {"where(b > 0, v, a * v)", "gt where mul"},
    {"where(a > 0, b * v, a + v * tanh(b))", "gt tanh where mul where add"},
    {"re(conj(polar(a, v)) * polar(1, b))", "neg polar polar mul re"},
    {"re(complex(b * v, a * v))", "complex mul re"},
    {"im(complex(b * re(polar(a, v)), b * im(polar(a, v))))", "polar mul im"},
    {"re(complex(a * cos(v), a * sin(v)))", "polar mul re"},
};

static const char *source_of(fixture *s, const char *expression) {
  return arena_printf(s->memory,
                      "recurrence r(K = 2, V = 3) { input a, b[K], v[V] output y[K,V], w let g = "
                      "%s  y = max(max(g, v), b)  w = a }",
                      expression);
}

static char *operations_of(fixture *s, const recurrence *r) {
  char *text = arena_strdup(s->memory, "");
  vec_each(const typed_value, v, r->body.values) {
    if (value_arity(v->op) == 0 || v->op == VALUE_MAX) continue;
    text = arena_printf(s->memory, "%s%s%s", text, *text ? " " : "", value_op_text(v->op));
  }
  return text;
}

TEST(rewrites_give_these_operations) {
  for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; i++) {
    fixture s = fixture_open();
    recurrence *r = fixture_analyse(&s, source_of(&s, rewrites[i].expression));
    char *operations = operations_of(&s, r);
    if (strcmp(operations, rewrites[i].operations) != 0) {
      fail_msg("%s: expected %s, found %s", rewrites[i].expression, rewrites[i].operations,
               operations);
    }
    fixture_close(&s);
  }
}

TEST(rewrites_change_no_value) {
  for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; i++) {
    fixture s = fixture_open();
    const typed_body *body = fixture_source(&s, source_of(&s, rewrites[i].expression));
    recurrence *normalised = recurrence_analyse(s.memory, body);
    double difference = fixture_difference(&s, fixture_raw(&s, body), normalised, i);
    if (!(difference < 1e-13)) fail_msg("%s differs by %g", rewrites[i].expression, difference);
    fixture_close(&s);
  }
}

// A mask leaves rows of an outer product out, in which a key is infinite. The second step has no
// row, and its values are NaN. Nothing of them reaches outputs and gradients.
TEST(masks_of_axes_leak_nothing) {
  fixture s = fixture_open();
  recurrence *r = fixture_analyse(
      &s,
      "recurrence r(K = 2, V = 3) { input c[K], b[K], v[V] state S[K,V] output y[V] "
      "S = 0.5 * S[t-1] + where(c > 0, exp(b) * v, 0) + where(c > 0, v, 0) y = sum[K](S) }");
  trial t = trial_new(s.memory, r, 1, 2, NULL, 0, 1);
  double *c = t.run.tensors[0].data, *b = t.run.tensors[1].data, *v = t.run.tensors[2].data;
  c[0] = 1, c[1] = c[2] = c[3] = -1;
  b[1] = b[2] = INFINITY;
  v[3] = v[4] = v[5] = NAN;
  assert_true(reference_execute(r, &t.run, true));
  for (int i = 0; i < 6; i++) assert_true(isfinite(t.run.tensors[4].data[i]));
  for (int i = 0; i < 6; i++) assert_true(isfinite(t.run.d_tensors[2].data[i]));
  for (int i = 0; i < 4; i++) assert_true(isfinite(t.run.d_tensors[1].data[i]));
  fixture_close(&s);
}

// y and its derivatives at a point, raw or normalised.
typedef struct point {
  double y, da, db;
} point;

static point evaluate(fixture *s, recurrence *r, double a, double b) {
  trial t = trial_new(s->memory, r, 1, 1, NULL, 0, 1);
  t.run.tensors[0].data[0] = a;
  t.run.tensors[1].data[0] = b;
  t.run.d_tensors[2].data[0] = 1;
  assert_true(reference_execute(r, &t.run, true));
  return (point){t.run.tensors[2].data[0], t.run.d_tensors[0].data[0], t.run.d_tensors[1].data[0]};
}

static bool near(double x, double expected) { return fabs(x - expected) <= 1e-14 * fabs(expected); }

static bool same_point(point p, point expected) {
  return near(p.y, expected.y) && near(p.da, expected.da) && near(p.db, expected.db);
}

// Points at which the formula as written overflows or loses digits (`lets`: written with lets in
// between).
static const struct {
  const char *lets, *expression;
  double a, b;
  point expected;
} extremes[] = {
    {"", "exp(a) * exp(b)", 800, -799, {2.718281828459045, 2.718281828459045, 2.718281828459045}},
    {"let e = exp(a) let f = b * e", "f * exp(-a)", 800, 3, {3, 0, 1}},
    {"", "log(sigmoid(a)) + b", -800, 0, {-800, 1, 1}},
    {"let s = sigmoid(a)", "log(s) + b", -800, 0, {-800, 1, 1}},
    {"", "log(1 + exp(a)) + b", 800, 0, {800, 1, 1}},
    {"", "1 - sigmoid(a) + b", 45, 0, {2.8625185805493935e-20, -2.8625185805493935e-20, 1}},
    {"let s = sigmoid(a)",
     "1 - s + b",
     45,
     0,
     {2.8625185805493935e-20, -2.8625185805493935e-20, 1}},
    {"", "log(1 - sigmoid(a)) + b", 800, 0, {-800, -1, 1}},
    {"", "(1 - exp(a)) * b", -1e-20, 1, {1e-20, -1, 1e-20}},
    {"", "(exp(a) - 1) * b", 1e-20, 1, {1e-20, 1, 1e-20}},
    {"",
     "im(exp(complex(0, a)) - 1) * b + re(exp(complex(a, 0)) - 1)",
     1e-20,
     1,
     {2e-20, 2, 1e-20}},
    {"", "sigmoid(a)^-1 * exp(b)", -800, -800, {1, -1, 1}},
    {"", "sigmoid(a)^(1/16) + b", -1600, 0, {3.720075976020836e-44, 2.3250474850130225e-45, 1}},
    {"", "exp(a) / (1 + exp(a)) + b", 800, 0, {1, 0, 1}},
    {"", "log(1 - a) + b", 1e-20, 0, {-1e-20, -1, 1}},
};

TEST(extreme_points_keep_their_digits) {
  for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++) {
    fixture s = fixture_open();
    const typed_body *body =
        fixture_source(&s, arena_printf(s.memory, "recurrence r { input a, b output y %s y = %s }",
                                        extremes[i].lets, extremes[i].expression));
    point raw = evaluate(&s, fixture_raw(&s, body), extremes[i].a, extremes[i].b);
    point stable = evaluate(&s, recurrence_analyse(s.memory, body), extremes[i].a, extremes[i].b);
    if (!same_point(stable, extremes[i].expected)) {
      fail_msg("%s: y %.17g, da %.17g, db %.17g", extremes[i].expression, stable.y, stable.da,
               stable.db);
    }
    if (same_point(raw, extremes[i].expected))
      fail_msg("%s: needs no rewriting", extremes[i].expression);
    fixture_close(&s);
  }
}
