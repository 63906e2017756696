// The reference interpreter: derivatives of every operation, states, lag buffers, packed sequences,
// checkpoints, kinks.
#include <math.h>

#include "tests/recurrence/fixture.h"
#include "tests/unit/unit.h"

static void assert_gradients(const char *text, int64_t batch, int64_t time) {
  fixture s = fixture_open();
  recurrence *r = fixture_ir(&s, text);
  trial t = trial_new(s.memory, r, batch, time, NULL, 0, 1);
  const char *where;
  double error = trial_gradient_error(&t, s.memory, 40, 7, &where);
  if (!(error < 1e-7)) fail_msg("error %g: %s\n%s", error, where, text);
  fixture_close(&s);
}

// %0 is a real value in (-1, 1), %1 and %2 further ones, %3 positive; %4, %6 complex, %6 away from
// 0.
static const struct {
  value_op op;
  const char *line;
} cases[] = {
    {VALUE_NUMBER, "%7 = number 2"},
    {VALUE_AXIS_SIZE, "%7 = size H"},
    {VALUE_INDEX, "%7 [H] = index H"},
    {VALUE_NEG, "%7 [H] = neg %0"},
    {VALUE_NEG, "%7 [H] complex = neg %4"},
    {VALUE_ADD, "%7 [H] = add %0 %1"},
    {VALUE_ADD, "%7 [H] complex = add %0 %4"},
    {VALUE_SUB, "%7 [H] = sub %0 %1"},
    {VALUE_SUB, "%7 [H] complex = sub %4 %1"},
    {VALUE_MUL, "%7 [H] = mul %0 %1"},
    {VALUE_MUL, "%7 [H] = mul %0 %0"},
    {VALUE_MUL, "%7 [H] complex = mul %4 %6"},
    {VALUE_MUL, "%7 [H] complex = mul %0 %6"},
    {VALUE_DIV, "%7 [H] = div %0 %3"},
    {VALUE_DIV, "%7 [H] complex = div %4 %6"},
    {VALUE_DIV, "%7 [H] complex = div %0 %6"},
    {VALUE_WHOLE_POWER, "%7 [H] = ipow 3 %0"},
    {VALUE_WHOLE_POWER, "%7 [H] = ipow 0 %0"},
    {VALUE_WHOLE_POWER, "%7 [H] = ipow -2 %3"},
    {VALUE_WHOLE_POWER, "%7 [H] complex = ipow 3 %4"},
    {VALUE_WHOLE_POWER, "%7 [H] complex = ipow -1 %6"},
    {VALUE_POWER, "%7 [H] = pow %3 %0"},
    {VALUE_EXP, "%7 [H] = exp %0"},
    {VALUE_EXP, "%7 [H] complex = exp %4"},
    {VALUE_EXPM1, "%7 [H] = expm1 %0"},
    {VALUE_EXPM1, "%7 [H] complex = expm1 %4"},
    {VALUE_LOG, "%7 [H] = log %3"},
    {VALUE_LOG1P, "%7 [H] = log1p %3"},
    {VALUE_SQRT, "%7 [H] = sqrt %3"},
    {VALUE_SQRT, "%7 [H] = sqrt kink %3"},
    {VALUE_RSQRT, "%7 [H] = rsqrt %3"},
    {VALUE_ABS, "%7 [H] = abs %0"},
    {VALUE_SIGMOID, "%7 [H] = sigmoid %0"},
    {VALUE_LOG_SIGMOID, "%7 [H] = log_sigmoid %0"},
    {VALUE_SOFTPLUS, "%7 [H] = softplus %0"},
    {VALUE_SILU, "%7 [H] = silu %0"},
    {VALUE_GELU, "%7 [H] = gelu %0"},
    {VALUE_RELU, "%7 [H] = relu %0"},
    {VALUE_TANH, "%7 [H] = tanh %0"},
    {VALUE_SIN, "%7 [H] = sin %0"},
    {VALUE_COS, "%7 [H] = cos %0"},
    {VALUE_MIN, "%7 [H] = min %0 %1"},
    {VALUE_MAX, "%7 [H] = max %0 %1"},
    {VALUE_CLAMP, "%7 [H] = clamp %0 %1 %3"},
    {VALUE_CLAMP, "%7 [H] = clamp %3 %0 %1"},
    {VALUE_LESS, "%7 [H] = lt %0 %1"},
    {VALUE_LESS_EQUAL, "%7 [H] = le %0 %1"},
    {VALUE_GREATER, "%7 [H] = gt %0 %1"},
    {VALUE_GREATER_EQUAL, "%7 [H] = ge %0 %1"},
    {VALUE_EQUAL, "%7 [H] = eq %0 %1"},
    {VALUE_WHERE, "%7 [H] = where %0 %1 %2"},
    {VALUE_WHERE, "%7 [H] complex = where %0 %1 %4"},
    {VALUE_COMPLEX, "%7 [H] complex = complex %0 %1"},
    {VALUE_POLAR, "%7 [H] complex = polar %0 %1"},
    {VALUE_REAL_PART, "%7 [H] = re %4"},
    {VALUE_IMAGINARY_PART, "%7 [H] = im %4"},
    {VALUE_IMAGINARY_PART, "%7 [H] = im %0"},
    {VALUE_CONJUGATE, "%7 [H] complex = conj %4"},
    {VALUE_CONJUGATE, "%7 [H] = conj %0"},
    {VALUE_COMPLEX_ABS, "%7 [H] = cabs %6"},
    {VALUE_SUM, "%7 = sum[H] %0"},
    {VALUE_SUM, "%7 complex = sum[H] %4"},
    {VALUE_MAX_OVER, "%7 = max_over[H] %0"},
    {VALUE_MIN_OVER, "%7 = min_over[H] %0"},
    {VALUE_RENAME, "%7 [G] = rename[H -> G] %0"},
    {VALUE_RENAME, "%7 [G] complex = rename[H -> G] %4"},
    {VALUE_SLICE, "%7 = slice[H = 2] %0"},
    {VALUE_SLICE, "%7 complex = slice[H = 1] %4"},
};

TEST(every_operation_has_its_derivative) {
  bool seen[VALUE_OP_COUNT] = {[VALUE_INPUT] = true,
                               [VALUE_PARAM] = true,
                               [VALUE_PREVIOUS] = true,
                               [VALUE_LAG] = true,
                               [VALUE_STOP_GRADIENT] = true};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *line = cases[i].line;
    seen[cases[i].op] = true;
    bool complex = strstr(line, "] complex") || strstr(line, "%7 complex");
    const char *axes = strstr(line, "[G] ") ? "[G]" : strstr(line, "%7 [H]") ? "[H]" : "";
    char text[800];
    snprintf(text, sizeof text,
             "recurrence one {\n axis G = 4\n axis H = 4\n input a[H]\n input b[H]\n param c[H]\n"
             " input z[H] : complex\n param w[H] : complex\n output y%s%s\n"
             " %%0 [H] = input a\n %%1 [H] = input b\n %%2 [H] = param c\n %%3 [H] = exp %%1\n"
             " %%4 [H] complex = input z\n %%5 [H] complex = param w\n %%6 [H] complex = exp %%5\n"
             " %s\n y = %%7\n}\n",
             axes, complex ? " : complex" : "", line);
    assert_gradients(text, 2, 2);
  }
  for (int op = 0; op < VALUE_OP_COUNT; op++)
    if (!seen[op]) fail_msg("no case for %s", value_op_text((value_op)op));
}

// A shift register over a let that depends on the state, and a lagged input in an order of its own.
// Several states that read each other, a slice, a rename, a nonlinear update. A complex state, with
// a real value promoted into it.
static const char tangle[] =
    "recurrence tangle {\n"
    "  axis G\n  axis K = 3 summed\n  axis M = 3 summed\n"
    "  input x[K,G]\n  input z[G]\n  param A[K,M]\n"
    "  state S[K,G]\n  state c[G] : complex\n  state d[G]\n"
    "  output y[G]\n  output w[G] : complex\n"
    "  lag x[G,K] depth 3\n  lag e[G,K] depth 2\n"
    "  %0 [G,K] = input x\n  %1 [G] = input z\n  %2 [K,M] = param A\n"
    "  %3 [G,K] = previous S\n  %4 [G] complex = previous c\n  %5 [G] = previous d\n"
    "  %6 [G,K] = lag x 3\n  %7 [G,K] = lag x 1\n  %8 [G,K] = lag e 2\n"
    "  %9 [G,M] = rename[K -> M] %3\n  %10 [G,K,M] = mul %2 %9\n  %11 [G,K] = sum[M] %10\n"
    "  %12 [G,K] = add %11 %6\n  %13 [G,K] = mul %12 %8\n  %14 [G,K] = tanh %13 \"e\"\n"
    "  %15 [G,K] = add %14 %7\n  %16 [G,K] = add %15 %0\n"
    "  %17 [G] = slice[K = 1] %16\n  %18 [G] = sigmoid %1\n  %19 [G] complex = polar %18 %5\n"
    "  %20 [G] complex = mul %19 %4\n  %21 [G] complex = add %20 %17\n  %22 [G] = re %21\n"
    "  %23 [G] = mul %22 %5\n  %24 [G] = sin %23\n  %25 = number 0.5\n"
    "  S = %16\n  c = %21\n  d = %24\n  y = %23\n  w = %22\n  x.lag = %0\n  e.lag = %14\n}\n";

TEST(states_and_lags_have_their_gradients) {
  for (int64_t time = 0; time < 6; time++) assert_gradients(tangle, 2, time);
  assert_gradients(tangle, 0, 3);
}

static void assert_equal_numbers(const double *a, const double *b, int64_t count,
                                 const char *what) {
  for (int64_t i = 0; i < count; i++)
    if (!(fabs(a[i] - b[i]) <= 1e-12 * (1 + fabs(a[i]))))
      fail_msg("%s[%lld]: %.17g and %.17g", what, (long long)i, a[i], b[i]);
}

TEST(packed_sequences_are_apart) {
  static const int32_t offsets[] = {0, 0, 4, 5, 5, 9};
  fixture s = fixture_open();
  recurrence *r = fixture_ir(&s, tangle);
  trial packed = trial_new(s.memory, r, 1, 9, offsets, 5, 3);
  assert_true(reference_execute(r, &packed.run, true));
  double *parameter_gradient = ARENA_ARRAY(s.memory, double, packed.tensor_numbers[2]);
  for (int k = 0; k < 5; k++) {
    trial one = trial_part(&packed, s.memory, k, offsets[k], offsets[k + 1] - offsets[k]);
    assert_true(reference_execute(r, &one.run, true));
    assert_true(trial_part_distance(&packed, &one, k, offsets[k], true) < 1e-12);
    for (int64_t i = 0; i < one.tensor_numbers[2]; i++)
      parameter_gradient[i] += one.run.d_tensors[2].data[i];
  }
  assert_equal_numbers(packed.run.d_tensors[2].data, parameter_gradient, packed.tensor_numbers[2],
                       "d.A");
  fixture_close(&s);
}

// So long a sequence that the states of all its steps are not kept.
TEST(long_sequences_are_run_again_in_stretches) {
  static const char text[] =
      "recurrence long {\n axis K = 4096\n input x\n param a[K]\n state h[K]\n output y\n"
      " %0 = input x\n %1 [K] = param a\n %2 [K] = sigmoid %1\n %3 [K] = previous h\n %4 [K] = mul "
      "%2 %3\n"
      " %5 [K] = add %4 %0\n %6 = slice[K = 7] %5\n h = %5\n y = %6\n}\n";
  fixture s = fixture_open();
  recurrence *r = fixture_ir(&s, text);
  trial t = trial_new(s.memory, r, 1, 5000, NULL, 0, 5);
  assert_true(reference_execute(r, &t.run, true));
  // The gradient of the input at the last steps, by hand.
  double a = 1 / (1 + exp(-t.run.tensors[1].data[7])), sum = 0, late = 0;
  for (int k = 0; k < 4096; k++) sum += t.run.d_final_states[2].data[k];
  double expected = sum + t.run.d_tensors[3].data[4999];
  assert_float_equal(t.run.d_tensors[0].data[4999], expected, 1e-9);
  for (int i = 0; i < 4096; i++)
    late += t.run.d_final_states[2].data[i] / (1 + exp(-t.run.tensors[1].data[i]));
  expected = late + t.run.d_tensors[3].data[4998] + a * t.run.d_tensors[3].data[4999];
  assert_float_equal(t.run.d_tensors[0].data[4998], expected, 1e-9);
  // The initial value of entry 7 reaches the first outputs: d h0 = sum a^(t+1) dy_t + a^T dhT.
  double d = 0, power = 1;
  for (int step = 0; step < 5000; step++) {
    power *= a;
    d += power * t.run.d_tensors[3].data[step];
  }
  assert_float_equal(t.run.d_initial_states[2].data[7], d, 1e-9);
  fixture_close(&s);
}

// Runs y = f(x, ..) at given numbers with cotangent 1 and checks value and gradients.
static void assert_point(const char *line, const double *x, double value, const double *gradient) {
  char text[600];
  snprintf(text, sizeof text,
           "recurrence one {\n axis N = 3\n input a\n input b\n input c\n input v[N]\n output y\n"
           " %%0 = input a\n %%1 = input b\n %%2 = input c\n %%3 [N] = input v\n %s y = %%4\n}\n",
           line);
  fixture s = fixture_open();
  recurrence *r = fixture_ir(&s, text);
  trial t = trial_new(s.memory, r, 1, 1, NULL, 0, 5);
  for (int i = 0; i < 3; i++) t.run.tensors[i].data[0] = t.run.tensors[3].data[i] = x[i];
  t.run.d_tensors[4].data[0] = 1;
  assert_true(reference_execute(r, &t.run, true));
  double y = t.run.tensors[4].data[0];
  if (!(y == value || (isnan(y) && isnan(value))))
    fail_msg("%s is %.17g, expected %.17g", line, y, value);
  for (int i = 0; i < 3; i++) {
    double d = t.run.d_tensors[i].data[0] + t.run.d_tensors[3].data[i];
    if (d != gradient[i] && !(isnan(d) && isnan(gradient[i])))
      fail_msg("%s: gradient %d is %.17g, expected %.17g", line, i, d, gradient[i]);
  }
  fixture_close(&s);
}

#define POINT(line, a, b, c, value, da, db, dc) \
  assert_point(line, (const double[]){a, b, c}, value, (const double[]){da, db, dc})

TEST(kinks_follow_the_rules) {
  POINT("%4 = max %0 %1", 2, 2, 0, 2, 0, 1, 0);
  POINT("%4 = min %0 %1", 2, 2, 0, 2, 0, 1, 0);
  POINT("%4 = max_over[N] %3", 1, 5, 5, 5, 0, 1, 0);
  POINT("%4 = min_over[N] %3", -2, 5, -2, -2, 1, 0, 0);
  POINT("%4 = abs %0", 0, 0, 0, 0, 0, 0, 0);
  POINT("%4 = relu %0", 0, 0, 0, 0, 0, 0, 0);
  POINT("%4 = cabs %0", 0, 0, 0, 0, 0, 0, 0);
  POINT("%4 = sqrt kink %0", 0, 0, 0, 0, 0, 0, 0);
  POINT("%4 = sqrt %0", 0, 0, 0, 0, INFINITY, 0, 0);
  POINT("%4 = clamp %0 %1 %2", 1, 1, 2, 1, 0, 0, 0);
  POINT("%4 = clamp %0 %1 %2", 2, 1, 2, 2, 0, 0, 0);
  POINT("%4 = clamp %0 %1 %2", 0, 1, 2, 1, 0, 1, 0);
  POINT("%4 = clamp %0 %1 %2", 3, 1, 2, 2, 0, 0, 1);
  POINT("%4 = eq %0 %1", 3, 3, 2, 1, 0, 0, 0);
  POINT("%4 = stop_gradient %0", 3, 3, 2, 3, 0, 0, 0);
  POINT("%4 = ipow 0 %0", 0, 0, 0, 1, 0, 0, 0);
  POINT("%4 = pow %0 %1", 0, 1.5, 0, 0, 0, 0, 0);
  POINT("%4 = pow %0 %1", -1, 2, 0, NAN, NAN, NAN, 0);
}

TEST(large_operands_stay_finite) {
  POINT("%4 = sigmoid %0", 800, 0, 0, 1, 0, 0, 0);
  POINT("%4 = sigmoid %0", -800, 0, 0, 0, 0, 0, 0);
  POINT("%4 = softplus %0", 800, 0, 0, 800, 1, 0, 0);
  POINT("%4 = softplus %0", -800, 0, 0, 0, 0, 0, 0);
  POINT("%4 = log_sigmoid %0", -800, 0, 0, -800, 1, 0, 0);
  POINT("%4 = silu %0", 800, 0, 0, 800, 1, 0, 0);
  POINT("%4 = gelu %0", 40, 0, 0, 40, 1, 0, 0);
}

// 1/0, log(-1) and sqrt(0) in the branch that is not taken reach neither value nor gradient.
TEST(the_branch_not_taken_leaks_nothing) {
  static const char text[] =
      "recurrence one {\n input c\n input x\n output y\n"
      " %0 = input c\n %1 = input x\n %2 = log %1\n %3 = div %0 %1\n %4 = sqrt %1\n %5 = mul %2 "
      "%3\n"
      " %6 = mul %5 %4\n %7 = where %0 %6 %1\n y = %7\n}\n";
  fixture s = fixture_open();
  recurrence *r = fixture_ir(&s, text);
  trial t = trial_new(s.memory, r, 1, 1, NULL, 0, 5);
  t.run.tensors[0].data[0] = t.run.tensors[1].data[0] = 0;
  t.run.d_tensors[2].data[0] = 3;
  assert_true(reference_execute(r, &t.run, true));
  assert_true(t.run.tensors[2].data[0] == 0);
  assert_true(t.run.d_tensors[0].data[0] == 0);
  assert_true(t.run.d_tensors[1].data[0] == 3);
  fixture_close(&s);
}
