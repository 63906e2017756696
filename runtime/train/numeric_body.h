// The body of numeric.c for one element type: REAL, and OF(name) for the names. Included once for
// each.

static void OF(linear)(rows x, const void *weight, const void *bias, rows y) {
  if (!x.count) return;
  const REAL *b = bias;
  if (b)
    for (int64_t i = 0; i < y.count; i++)
      memcpy((REAL *)y.data + i * y.stride, b, (size_t)y.width * sizeof(REAL));
  BLAS(gemm)
  (CblasRowMajor, CblasNoTrans, CblasTrans, (int)x.count, (int)y.width, (int)x.width, 1, x.data,
   (int)x.stride, weight, (int)x.width, b ? 1 : 0, y.data, (int)y.stride);
}

static void OF(linear_backward)(rows x, const void *weight, rows dy, rows dx, bool add_to_dx,
                                void *d_weight, void *d_bias) {
  if (!x.count) return;
  if (dx.data) BLAS(gemm)
  (CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)x.count, (int)x.width, (int)dy.width, 1, dy.data,
   (int)dy.stride, weight, (int)x.width, add_to_dx ? 1 : 0, dx.data, (int)dx.stride);
  BLAS(gemm)
  (CblasRowMajor, CblasTrans, CblasNoTrans, (int)dy.width, (int)x.width, (int)x.count, 1, dy.data,
   (int)dy.stride, x.data, (int)x.stride, 1, d_weight, (int)x.width);
  REAL *db = d_bias;
  for (int64_t i = 0; db && i < dy.count; i++) {
    const REAL *row = (const REAL *)dy.data + i * dy.stride;
    for (int64_t j = 0; j < dy.width; j++) db[j] += row[j];
  }
}

static void OF(embed)(const uint16_t *tokens, const void *table, rows y) {
  for (int64_t i = 0; i < y.count; i++)
    memcpy((REAL *)y.data + i * y.stride, (const REAL *)table + tokens[i] * y.width,
           (size_t)y.width * sizeof(REAL));
}

static void OF(embed_backward)(const uint16_t *tokens, rows dy, void *d_table) {
  for (int64_t i = 0; i < dy.count; i++) {
    const REAL *from = (const REAL *)dy.data + i * dy.stride;
    REAL *to = (REAL *)d_table + tokens[i] * dy.width;
    for (int64_t j = 0; j < dy.width; j++) to[j] += from[j];
  }
}

// One row: writes exp(x - max) into `terms` (may be x itself) and returns their sum.
static double OF(exponentials)(const REAL *x, int64_t width, REAL max, REAL *terms) {
  double sum = 0;
  for (int64_t j = 0; j < width; j++) sum += terms[j] = EXP(x[j] - max);
  return sum;
}

static double OF(cross_entropy)(rows logits, const uint16_t *targets, const float *weights,
                                double scale, rows d_logits, float *losses) {
  double total = 0;
  REAL scratch[MAX_SYMBOLS];
  for (int64_t i = 0; i < logits.count; i++) {
    const REAL *x = (const REAL *)logits.data + i * logits.stride;
    REAL *dx = d_logits.data ? (REAL *)d_logits.data + i * d_logits.stride : scratch;
    double weight = targets[i] == NO_TARGET ? 0 : weights ? (double)weights[i] : 1;
    bool counts = weight > 0;
    REAL max = x[0], at_target = counts ? x[targets[i]] : 0;
    for (int64_t j = 1; j < logits.width; j++) max = x[j] > max ? x[j] : max;
    double sum = OF(exponentials)(x, logits.width, max, dx);
    double loss = counts ? weight * (log(sum) + (double)max - (double)at_target) : 0;
    total += loss;
    if (losses) losses[i] = (float)loss;
    if (!d_logits.data) continue;
    REAL factor = counts ? (REAL)(weight * scale / sum) : 0;
    for (int64_t j = 0; j < logits.width; j++) dx[j] *= factor;
    if (counts) dx[targets[i]] -= (REAL)(weight * scale);
  }
  return total;
}

static void OF(hits)(rows logits, const uint16_t *targets, uint8_t *hits) {
  for (int64_t i = 0; i < logits.count; i++) {
    const REAL *x = (const REAL *)logits.data + i * logits.stride;
    int64_t best = 0;
    for (int64_t j = 1; j < logits.width; j++) best = x[j] > x[best] ? j : best;
    hits[i] = targets[i] == best;
  }
}

static void OF(add)(rows to, rows from) {
  for (int64_t i = 0; i < to.count; i++) {
    REAL *restrict y = (REAL *)to.data + i * to.stride;
    const REAL *restrict x = (const REAL *)from.data + i * from.stride;
    for (int64_t j = 0; j < to.width; j++) y[j] += x[j];
  }
}

static void OF(zero)(rows to) {
  for (int64_t i = 0; i < to.count; i++)
    memset((REAL *)to.data + i * to.stride, 0, (size_t)to.width * sizeof(REAL));
}

static void OF(sum_into)(void *to, const void *from, int64_t count) {
  REAL *restrict y = to;
  const REAL *restrict x = from;
  for (int64_t i = 0; i < count; i++) y[i] += x[i];
}

static double OF(square_sum)(const void *values, int64_t count) {
  const REAL *x = values;
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (double)x[i] * (double)x[i];
  return sum;
}

// Loshchilov & Hutter: the decay acts on the weight itself, beside the gradient's step.
static void OF(adamw)(void *values, const void *gradient, void *moment1, void *moment2,
                      int64_t count, const adamw_step *step) {
  REAL *restrict p = values, *restrict m = moment1, *restrict v = moment2;
  const REAL *restrict g = gradient;
  REAL b1 = (REAL)step->beta1, b2 = (REAL)step->beta2, scale = (REAL)step->gradient_scale;
  REAL rate = (REAL)(step->rate / step->correction1), epsilon = (REAL)step->epsilon;
  REAL spread = (REAL)(1 / step->correction2), shrink = (REAL)(1 - step->rate * step->decay);
  for (int64_t i = 0; i < count; i++) {
    REAL d = g[i] * scale;
    m[i] = b1 * m[i] + (1 - b1) * d;
    v[i] = b2 * v[i] + (1 - b2) * d * d;
    p[i] = shrink * p[i] - rate * m[i] / (SQRT(v[i] * spread) + epsilon);
  }
}

static void OF(store)(void *to, int64_t position, double value) {
  ((REAL *)to)[position] = (REAL)value;
}

static double OF(load)(const void *from, int64_t position) {
  return (double)((const REAL *)from)[position];
}

const numeric OF(numeric) = {
    sizeof(REAL),
    OF(linear),
    OF(linear_backward),
    OF(embed),
    OF(embed_backward),
    OF(cross_entropy),
    OF(hits),
    OF(add),
    OF(zero),
    OF(sum_into),
    OF(square_sum),
    OF(adamw),
    OF(store),
    OF(load),
};
