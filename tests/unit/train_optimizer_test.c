// The steps of optimizers against their formulas in double precision, on the host in every type and
// on the executor; which weights Muon takes.
#include <math.h>

#include "runtime/train/data/random.h"
#include "runtime/train/model/gpu_place.h"
#include "runtime/train/model/optimizer.h"

#include "tests/unit/unit.h"

enum { MOST = 40 * 90, STEPS = 3 };

static const train_block block = {.optimizer = OPTIMIZER_MUON,
                                  .optimizer_own = 0.95,
                                  .beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .epsilon = 1e-8,
                                  .weight_decay = 0.1};
static const double rate = 0.02, scale = 0.7;

static double drawn(int stream, int place) {
  return random_normal(5, (uint64_t)stream, (uint64_t)place);
}

// ---- the formulas -------------------------------------------------------------------------------

// to[h][w] = sum over d of a[h][d] b[d][w]
static void multiply(int h, int w, int depth, const double *a, const double *b, double *to) {
  for (int i = 0; i < h; i++)
    for (int j = 0; j < w; j++) {
      double sum = 0;
      for (int k = 0; k < depth; k++) sum += a[i * depth + k] * b[k * w + j];
      to[i * w + j] = sum;
    }
}

static void transpose(int h, int w, const double *a, double *to) {
  for (int i = 0; i < h; i++)
    for (int j = 0; j < w; j++) to[j * h + i] = a[i * w + j];
}

// x = a x + (b G + c G G) x, G = x x^T: as written in Jordan et al. 2024, of a matrix that is not
// tall.
static void orthogonalize(int h, int w, double *x) {
  static double turned[MOST], gram[MOST], square[MOST], moved[MOST];
  double norm = 0;
  for (int i = 0; i < h * w; i++) norm += x[i] * x[i];
  for (int i = 0; i < h * w; i++) x[i] /= sqrt(norm) + 1e-7;
  for (int step = 0; step < 5; step++) {
    transpose(h, w, x, turned);
    multiply(h, h, w, x, turned, gram);
    multiply(h, h, h, gram, gram, square);
    for (int i = 0; i < h * h; i++) gram[i] = -4.7750 * gram[i] + 2.0315 * square[i];
    multiply(h, w, h, gram, x, moved);
    for (int i = 0; i < h * w; i++) x[i] = 3.4445 * x[i] + moved[i];
  }
}

static void muon(int h, int w, const double *g, double *m, double *p) {
  static double x[MOST], turned[MOST];
  for (int i = 0; i < h * w; i++) {
    m[i] = 0.95 * m[i] + scale * g[i];
    x[i] = scale * g[i] + 0.95 * m[i];
  }
  if (h > w) {
    transpose(h, w, x, turned);
    orthogonalize(w, h, turned);
    transpose(w, h, turned, x);
  } else {
    orthogonalize(h, w, x);
  }
  for (int i = 0; i < h * w; i++)
    p[i] = (1 - rate * 0.1) * p[i] - rate * 0.2 * sqrt(h > w ? h : w) * x[i];
}

static void adamw(int count, int step, const double *g, double *m, double *v, double *p) {
  for (int i = 0; i < count; i++) {
    double d = scale * g[i];
    m[i] = 0.9 * m[i] + 0.1 * d;
    v[i] = 0.95 * v[i] + 0.05 * d * d;
    p[i] = (1 - rate * 0.1) * p[i] -
           rate * m[i] / (1 - pow(0.9, step)) / (sqrt(v[i] / (1 - pow(0.95, step))) + 1e-8);
  }
}

// ---- the same by the library --------------------------------------------------------------------

typedef struct place {
  const compute *c;
  const numeric *n;
  char *memory;  // there: values, gradient, two states, room
  void *here;
} place;

static char *there(const place *p, int64_t numbers) {
  return p->memory + numbers * p->n->element_size;
}

static void send(const place *p, const double *numbers, int count, char *to) {
  for (int i = 0; i < count; i++) p->n->store(p->here, i, numbers[i]);
  assert_int_equal(p->c->ops->upload(p->c, to, p->here, (int64_t)count * p->n->element_size),
                   REC_OK);
}

static void hold(const place *p, const double *expected, int count, const char *from,
                 double rounding) {
  double worst = 0;
  assert_int_equal(p->c->ops->download(p->c, p->here, from, (int64_t)count * p->n->element_size),
                   REC_OK);
  for (int i = 0; i < count; i++) {
    double off = fabs(p->n->load(p->here, i) - expected[i]);
    worst = !(off <= worst) ? off : worst;
  }
  if (!(worst <= rounding)) fail_msg("%g, expected at most %g", worst, rounding);
}

static void steps(const place *at, optimizer_kind kind, int h, int w, double rounding) {
  static double p[MOST], g[MOST], m[MOST], v[MOST];
  int count = h * w;
  stepped_weights stepped = {.values = there(at, 0),
                             .gradient = there(at, MOST),
                             .states = {there(at, 2 * MOST), there(at, 3 * MOST)},
                             .room = there(at, 4 * MOST),
                             .rows = h,
                             .columns = w,
                             .decays = true};
  if (optimizers[kind].room) assert_true(optimizers[kind].room(h, w) <= 4 * MOST);
  for (int i = 0; i < count; i++) p[i] = drawn(1, i), m[i] = v[i] = 0;
  send(at, p, count, stepped.values), send(at, m, count, stepped.states[0]);
  send(at, v, count, stepped.states[1]);
  for (int step = 1; step <= STEPS; step++) {
    for (int i = 0; i < count; i++) g[i] = (double)(float)drawn(1 + step, i);
    send(at, g, count, there(at, MOST));
    const optimizer_step s = {&block, rate, scale, step};
    assert_int_equal(optimizers[kind].step(at->c, &s, &stepped), REC_OK);
    if (kind == OPTIMIZER_MUON)
      muon(h, w, g, m, p);
    else
      adamw(count, step, g, m, v, p);
  }
  hold(at, p, count, stepped.values, rounding);
  hold(at, m, count, stepped.states[0], rounding * 10);
}

static void everywhere(const compute *c, double rounding) {
  static const int sizes[][2] = {{5, 9}, {12, 4}, {8, 8}, {1, 7}, {40, 90}, {67, 3}};
  place at = {.c = c, .n = c->n, .here = calloc(MOST, sizeof(double))};
  assert_non_null(at.here);
  assert_int_equal(c->ops->allocate(c, (int64_t)8 * MOST * c->n->element_size, (void **)&at.memory),
                   REC_OK);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int kind = 0; kind < OPTIMIZERS; kind++)
      steps(&at, (optimizer_kind)kind, sizes[i][0], sizes[i][1], rounding);
  c->ops->release(c, at.memory);
  free(at.here);
}

TEST(the_host_follows_the_formulas) {
  everywhere(&compute_host_f64, 1e-12);
  everywhere(&compute_host_f32, 2e-6);
  everywhere(&compute_host_bf16, 2e-6);
}

TEST(a_gpu_follows_the_formulas) {
  static const rec_dtype types[] = {REC_F32, REC_BF16};
  for (int i = 0; i < 2; i++) {
    gpu_place *gpu;
    assert_int_equal(gpu_place_open(REC_DEVICE_SIMT, 0, types[i], &gpu), REC_OK);
    everywhere(&gpu->base, 2e-6);
    gpu_place_close(gpu);
  }
}

// A first step is a matrix with singular values from 0.6 to 1.3, so its length is near that of
// AdamW's; no gradient, no step.
TEST(a_step_is_as_long_as_adamw) {
  enum { H = 20, W = 50 };
  static double p[H * W], g[H * W], m[H * W], room[4 * MOST];
  stepped_weights w = {
      .values = p, .gradient = g, .states = {m}, .room = room, .rows = H, .columns = W};
  const optimizer_step s = {&block, rate, 1e-9, 1};
  assert_int_equal(optimizers[OPTIMIZER_MUON].step(&compute_host_f64, &s, &w), REC_OK);
  for (int i = 0; i < H * W; i++) assert_true(p[i] == 0);
  for (int i = 0; i < H * W; i++) g[i] = drawn(9, i);
  assert_int_equal(optimizers[OPTIMIZER_MUON].step(&compute_host_f64, &s, &w), REC_OK);
  for (int i = 0; i < H; i++) {
    double square = 0;
    for (int j = 0; j < W; j++) square += p[i * W + j] * p[i * W + j];
    double length = sqrt(square) / (rate * 0.2 * sqrt(W));
    assert_true(length > 0.6 && length < 1.3);
  }
}

// Linear layers but for the head.
TEST(hidden_matrices_are_muons) {
  const model_parameter parameters[] = {
      {.kind = PARAMETER_EMBEDDING, .elements = 50},
      {.kind = PARAMETER_LINEAR, .elements = 30, .part_count = 2},
      {.kind = PARAMETER_BIAS, .elements = 5},
      {.kind = PARAMETER_CONVOLUTION, .elements = 9},
      {.kind = PARAMETER_OWN, .elements = 4},
      {.kind = PARAMETER_LINEAR, .elements = 60, .part_count = 1}};
  const model_use uses[] = {{1, 0}, {5, 0}};
  const int hidden = 2, logits = 3;
  const model_op ops[] = {{.kind = OP_LINEAR, .uses = &uses[0], .out_count = 1, .out = &hidden},
                          {.kind = OP_LINEAR, .uses = &uses[1], .out_count = 1, .out = &logits}};
  const train_model model = {.parameters = parameters,
                             .parameter_count = 6,
                             .ops = ops,
                             .op_count = 2,
                             .logits = logits,
                             .weight_count = 158};
  char text[OPTIMIZER_TEXT];
  for (int i = 0; i < model.parameter_count; i++)
    assert_int_equal(optimizer_of(&model, &block, i), i == 1 ? OPTIMIZER_MUON : OPTIMIZER_ADAMW);
  assert_string_equal(optimizer_text(&model, &block, text),
                      "muon for 2 matrices of 30 weights, adamw for 128");
  const train_block other = {.optimizer = OPTIMIZER_ADAMW};
  assert_string_equal(optimizer_text(&model, &other, text), "adamw");
}
