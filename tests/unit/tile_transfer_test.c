// What a part of time leaves of a state: the factors that tile_transfer finds, and why there are
// none elsewhere.
#include "compiler/chunk/chunk.h"
#include "tests/recurrence/fixture.h"
#include "tests/unit/unit.h"

typedef struct found {
  fixture f;
  tile_program *program;  // with factors; NULL: there are none
  int columns;            // the axis of those without a factor, or -1
  const char *why;
} found;

// The program of a step, or with `chunk` of so many, of the host's form if it is negative; `states`
// says which way it goes.
static found transfer_of(const char *text, int chunk, tile_role states) {
  found x = {.f = fixture_open()};
  recurrence *r = fixture_analyse(&x.f, text);
  const char *reason = NULL;
  tile_program *p = chunk < 0 ? chunk_build_for_host(x.f.memory, r, -chunk, &reason)
                    : chunk   ? chunk_build_linear_scan(x.f.memory, r, chunk, &reason)
                              : chunk_build_step(x.f.memory, r);
  assert_non_null(p);
  if (states == TILE_D_STATE) p = tile_backward(x.f.memory, p);
  x.program = tile_transfer(x.f.memory, p, states, false, p->grid, &x.columns, &x.why);
  if (x.program) assert_null(tile_verify(x.f.memory, x.program));
  return x;
}

// "h[D]; S[H,K]"
static const char *factors_of(const found *x) {
  const char *text = "";
  for (int i = 0; i < x->program->results.count; i++) {
    const tile_place *place = &x->program->results.items[i].place;
    if (!place->transfer) continue;
    text = arena_printf(x->f.memory, "%s%s%s[", text, *text ? "; " : "", place->name);
    for (int k = 0; k < place->axis_count; k++)
      text = arena_printf(x->f.memory, "%s%s%s", text, k ? "," : "",
                          x->program->axes.items[place->axes[k]].name);
    text = arena_printf(x->f.memory, "%s]", text);
  }
  return text;
}

static void expect_factors(const char *text, const char *factors) {
  for (int chunk = -16; chunk <= 16; chunk += 16) {
    for (int back = 0; back < 2; back++) {
      found x = transfer_of(text, chunk, back ? TILE_D_STATE : TILE_NEXT_STATE);
      if (!x.program) fail_msg("chunk %d: %s", chunk, x.why);
      assert_string_equal(factors_of(&x), factors);
      fixture_close(&x.f);
    }
  }
}

static void expect_none(const char *text, tile_role states, const char *why) {
  found x = transfer_of(text, 0, states);
  assert_null(x.program);
  assert_string_equal(x.why, why);
  fixture_close(&x.f);
}

// With states of matrices, and of channels.
#define MATRIX(update)                                     \
  "recurrence test(H = 2, K = 8, V = 8) {\n"               \
  "  input q[H,K], k[H,K], v[H,V], g[H], a[H,K], b[H,V]\n" \
  "  state S[H,K,V]\n  output y[H,V]\n" update "  y = sum[K](q * S) + g * b * sum[K](a)\n}\n"
#define CHANNELS(rest) \
  "recurrence test(K = 8) {\n  input x[K]\n  state h[K]\n  output y[K]\n" rest "}\n"

// A factor has the axes of the decay, in either direction, step by step and in chunks.
TEST(test_axes) {
  expect_factors(MATRIX("  S = S[t-1] + k * v\n"), "S[]");
  expect_factors(MATRIX("  S = sigmoid(g) * S[t-1] + k * v\n"), "S[H]");
  expect_factors(MATRIX("  S = sigmoid(a) * S[t-1] + k * v\n"), "S[H,K]");
  expect_factors(MATRIX("  S = exp(-exp(a)) * sigmoid(b) * S[t-1] + k * v\n"), "S[H,K,V]");
}

// Both parts of a complex number: their factors are the parts of one.
TEST(test_complex) {
  expect_factors(
      "recurrence test(H = 2, K = 8) {\n"
      "  input x[H,K], g[H,K], w[H,K]\n  state h[H,K] : complex\n  output y[H]\n"
      "  h = polar(sigmoid(g), w) * h[t-1] + x\n  y = sum[K](re(h))\n}\n",
      "h[H,K]; h[H,K]");
}

static void expect_columns(const char *text, const char *axis) {
  for (int chunk = 0; chunk <= 16; chunk += 16) {
    for (int back = 0; back < 2; back++) {
      found x = transfer_of(text, chunk, back ? TILE_D_STATE : TILE_NEXT_STATE);
      if (!x.program) fail_msg("chunk %d: %s", chunk, x.why);
      assert_true(x.columns >= 0);
      assert_string_equal(x.program->axes.items[x.columns].name, axis);
      fixture_close(&x.f);
    }
  }
}

// States that mix their entries, the same way in each column; what is written has the axis, and is
// 0 without it.
TEST(test_columns) {
  expect_columns(MATRIX("  let e = v - sum[K](k * S[t-1])\n  S = S[t-1] + k * e\n"), "V");
  expect_columns(
      MATRIX("  let e = sum[K](a * S[t-1])\n  S = sigmoid(g) * S[t-1] + k * e + a * tanh(v)\n"),
      "V");
  expect_none(MATRIX("  let e = v - sum[K](k * S[t-1])\n  S = S[t-1] + k * e + a\n"),
              TILE_NEXT_STATE, "entries of S are made of others, and not alike in columns");
  expect_none(MATRIX("  let e = sigmoid(v) - sum[K](k * S[t-1])\n  S = S[t-1] + k * e\n"),
              TILE_NEXT_STATE, "entries of S are made of others, and not alike in columns");
  expect_none(MATRIX("  let e = v * sum[K](k * S[t-1])\n  S = S[t-1] + k * e\n"), TILE_NEXT_STATE,
              "entries of S are made of others, and not alike in columns");
}

static int results_of(const tile_program *p, const char *name) {
  int count = 0;
  for (int i = 0; i < p->results.count; i++)
    count += strcmp(p->results.items[i].place.name, name) == 0;
  return count;
}

// States that are made of each other, entry by entry: a factor for each pair that a path leads
// between, at most four states.
TEST(test_pairs) {
  static const char chain[] =
      "recurrence test(D = 8) {\n  input f[D], x[D]\n  state a[D], b[D], c[D]\n  output y[D]\n"
      "  a = sigmoid(f) * a[t-1] + x\n  b = 0.5 * b[t-1] + f * a[t-1]\n  c = f * c[t-1] + x * "
      "b[t-1]\n"
      "  y = c\n}\n";
  for (int back = 0; back < 2; back++) {
    found x = transfer_of(chain, 0, back ? TILE_D_STATE : TILE_NEXT_STATE);
    assert_non_null(x.program);
    assert_int_equal(results_of(x.program, back ? "c" : "a"), 2);
    assert_int_equal(results_of(x.program, "b"), 3);
    assert_int_equal(results_of(x.program, back ? "a" : "c"), 4);
    fixture_close(&x.f);
  }
  expect_none(
      "recurrence test(D = 8) {\n  input f[D], x[D]\n  state a[D], b[D], c[D], d[D], e[D]\n  "
      "output y[D]\n"
      "  a = f * a[t-1] + x\n  b = f * b[t-1] + a[t-1]\n  c = f * c[t-1] + b[t-1]\n"
      "  d = f * d[t-1] + c[t-1]\n  e = f * e[t-1] + d[t-1]\n  y = e\n}\n",
      TILE_NEXT_STATE, "b is made of other states");
}

// A cotangent that nothing is made of stays where it is, whatever it is made of.
TEST(test_unread) {
  found x = transfer_of(CHANNELS("  h = 0.5 * h[t-1] + x\n  y = h\n"), 0, TILE_D_STATE);
  assert_int_equal(results_of(x.program, "h"), 2);
  fixture_close(&x.f);
  x = transfer_of(
      "recurrence test(D = 8) {\n  input z[D], x[D]\n  state m[D], a[D]\n  output y[D]\n"
      "  m = stop_gradient(max(m[t-1] - 1, z))\n  a = exp(m[t-1] - 1 - m) * a[t-1] + x\n  y = "
      "a\n}\n",
      0, TILE_D_STATE);
  assert_non_null(x.program);
  assert_int_equal(results_of(x.program, "m"), 0);
  assert_int_equal(results_of(x.program, "a"), 2);
  fixture_close(&x.f);
}

TEST(test_none) {
  expect_none(MATRIX("  let e = v - sum[K](k * S[t-1])\n  S = sigmoid(b) * S[t-1] + k * e\n"),
              TILE_NEXT_STATE, "entries of S are made of others, and not alike in columns");
  expect_none(CHANNELS("  h = tanh(h[t-1]) + x\n  y = h\n"), TILE_NEXT_STATE,
              "h is not linear in itself");
  expect_none(CHANNELS("  h = 0.5 * h[t-1] + x[t-1]\n  y = h\n"), TILE_NEXT_STATE,
              "earlier steps are states, too");
}

// Earlier steps: tokens make them, in chunks that hold enough of them; a chunk makes their
// cotangents.
TEST(test_earlier_steps) {
  const char *text = CHANNELS("  h = 0.5 * h[t-1] + x[t-1] * x\n  y = h\n");
  found x = transfer_of(text, 16, TILE_NEXT_STATE);
  assert_non_null(x.program);
  assert_string_equal(factors_of(&x), "h[]");
  fixture_close(&x.f);
  x = transfer_of(text, 16, TILE_D_STATE);
  assert_non_null(x.program);
  assert_string_equal(factors_of(&x), "h[]");
  for (int i = 0; i < x.program->results.count; i++)
    assert_true(x.program->results.items[i].place.lag < 0);
  fixture_close(&x.f);
  x = transfer_of(text, 0, TILE_D_STATE);
  assert_null(x.program);
  assert_string_equal(x.why, "earlier steps are states, too");
  fixture_close(&x.f);
  x = transfer_of(CHANNELS("  h = 0.5 * h[t-1] + x\n  let r = 2 * h\n  y = r + r[t-1]\n"), 16,
                  TILE_NEXT_STATE);
  assert_null(x.program);
  assert_string_equal(x.why, "earlier steps are states, too");
  fixture_close(&x.f);
}

static bool reads_state(const tile_program *p) {
  for (int i = 0; i < p->arguments.count; i++)
    if (p->arguments.items[i].role == TILE_STATE) return true;
  return false;
}

// Backward, states before are known: cotangents may be made of them, but not the matrix of all
// columns.
TEST(test_states_before) {
  const char *text = CHANNELS("  h = 0.5 * h[t-1] + x\n  y = tanh(h)\n");
  expect_factors(text, "h[]");
  found x = transfer_of(text, 0, TILE_D_STATE);
  assert_true(reads_state(x.program));
  fixture_close(&x.f);
  expect_none(MATRIX("  let e = v + sum[K](k * tanh(S[t-1]))\n  S = S[t-1] + k * e\n"),
              TILE_D_STATE, "entries of S are made of others, and not alike in columns");
}

// The factor of a step is the gate times the factor so far.
TEST(test_step) {
  found x = transfer_of(
      "recurrence test(D = 1) {\n  input x[D], g[D]\n  state h[D]\n  output y[D]\n"
      "  h = sigmoid(g) * h[t-1] + x\n  y = h\n}\n",
      0, TILE_NEXT_STATE);
  assert_non_null(x.program);
  assert_int_equal(x.program->results.count, 2);
  const tile_value *made = &x.program->values.items[x.program->results.items[1].value];
  assert_int_equal(made->op, TILE_MUL);
  bool gate = false, factor = false;
  for (int k = 0; k < 2; k++) {
    const tile_value *v = &x.program->values.items[made->args[k]];
    gate = gate || v->op == TILE_SIGMOID;
    factor = factor || (v->op == TILE_ARGUMENT && x.program->arguments.items[v->index].transfer);
  }
  assert_true(gate && factor);
  fixture_close(&x.f);
}
