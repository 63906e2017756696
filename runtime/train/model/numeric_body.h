// The body of numeric.c for one pair of types: REAL for weights, TOKEN for rows. WIDE and NARROW
// convert between them; OF(name) makes the names. Included once for each, after its linear
// products.

static void OF(embed)(const token_id *tokens, const void *table, rows y) {
  for (int64_t i = 0; i < y.count; i++) {
    TOKEN *to = (TOKEN *)y.data + i * y.stride;
    const REAL *from = (const REAL *)table + tokens[i] * y.width;
    for (int64_t j = 0; j < y.width; j++) to[j] = NARROW(from[j]);
  }
}

static void OF(embed_backward)(const token_id *tokens, rows dy, void *d_table) {
  for (int64_t i = 0; i < dy.count; i++) {
    const TOKEN *from = (const TOKEN *)dy.data + i * dy.stride;
    REAL *to = (REAL *)d_table + tokens[i] * dy.width;
    for (int64_t j = 0; j < dy.width; j++) to[j] += WIDE(from[j]);
  }
}

// One row: writes exp(x - max) into `terms` and returns their sum.
static double OF(exponentials)(const TOKEN *x, int64_t width, REAL max, REAL *terms) {
  double sum = 0;
  for (int64_t j = 0; j < width; j++) sum += terms[j] = EXP(WIDE(x[j]) - max);
  return sum;
}

static double OF(cross_entropy)(rows logits, const token_id *targets, const float *weights,
                                double scale, rows d_logits, float *losses, void *row) {
  double total = 0;
  REAL *terms = row;
  for (int64_t i = 0; i < logits.count; i++) {
    const TOKEN *x = (const TOKEN *)logits.data + i * logits.stride;
    double weight = targets[i] == NO_TARGET ? 0 : weights ? (double)weights[i] : 1;
    bool counts = weight > 0;
    REAL max = WIDE(x[0]), at_target = counts ? WIDE(x[targets[i]]) : 0;
    for (int64_t j = 1; j < logits.width; j++) max = WIDE(x[j]) > max ? WIDE(x[j]) : max;
    double sum = OF(exponentials)(x, logits.width, max, terms);
    double loss = counts ? weight * (log(sum) + (double)max - (double)at_target) : 0;
    total += loss;
    if (losses) losses[i] = (float)loss;
    if (!d_logits.data) continue;
    TOKEN *dx = (TOKEN *)d_logits.data + i * d_logits.stride;
    REAL factor = counts ? (REAL)(weight * scale / sum) : 0;
    for (int64_t j = 0; j < logits.width; j++) terms[j] *= factor;
    if (counts) terms[targets[i]] -= (REAL)(weight * scale);
    for (int64_t j = 0; j < logits.width; j++) dx[j] = NARROW(terms[j]);
  }
  return total;
}

static void OF(hits)(rows logits, const token_id *targets, uint8_t *hits) {
  for (int64_t i = 0; i < logits.count; i++) {
    const TOKEN *x = (const TOKEN *)logits.data + i * logits.stride;
    int64_t best = 0;
    for (int64_t j = 1; j < logits.width; j++) best = WIDE(x[j]) > WIDE(x[best]) ? j : best;
    hits[i] = targets[i] == best;
  }
}

static void OF(add)(rows to, rows from) {
  for (int64_t i = 0; i < to.count; i++) {
    TOKEN *restrict y = (TOKEN *)to.data + i * to.stride;
    const TOKEN *restrict x = (const TOKEN *)from.data + i * from.stride;
    for (int64_t j = 0; j < to.width; j++) y[j] = NARROW(WIDE(y[j]) + WIDE(x[j]));
  }
}

static void OF(zero)(rows to) {
  for (int64_t i = 0; i < to.count; i++)
    memset((TOKEN *)to.data + i * to.stride, 0, (size_t)to.width * sizeof(TOKEN));
}

static double OF(row_squares)(rows x) {
  double sum = 0;
  for (int64_t i = 0; i < x.count; i++) {
    const TOKEN *row = (const TOKEN *)x.data + i * x.stride;
    for (int64_t j = 0; j < x.width; j++) sum += (double)WIDE(row[j]) * (double)WIDE(row[j]);
  }
  return sum;
}

static void OF(store_token)(void *row, int64_t position, double value) {
  ((TOKEN *)row)[position] = NARROW((REAL)value);
}

static double OF(load_token)(const void *row, int64_t position) {
  return (double)WIDE(((const TOKEN *)row)[position]);
}

static void OF(sum_into)(void *to, const void *from, int64_t count) {
  REAL *restrict y = to;
  const REAL *restrict x = from;
  for (int64_t i = 0; i < count; i++) y[i] += x[i];
}

// Eight partial sums: no addition waits for the one before it.
static double OF(square_sum)(const void *values, int64_t count) {
  enum { SUMS = 8 };
  const REAL *x = values;
  double sums[SUMS] = {0};
  for (int64_t i = 0; i < count / SUMS * SUMS; i += SUMS)
    for (int k = 0; k < SUMS; k++) sums[k] += (double)x[i + k] * (double)x[i + k];
  for (int64_t i = count / SUMS * SUMS; i < count; i++)
    sums[i % SUMS] += (double)x[i] * (double)x[i];
  for (int k = SUMS / 2; k; k /= 2)
    for (int i = 0; i < k; i++) sums[i] += sums[i + k];
  return sums[0];
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

static void OF(product)(int64_t height, int64_t width, int64_t depth, const void *a,
                        int64_t a_stride, bool a_transposed, const void *b, int64_t b_stride,
                        bool b_transposed, void *to) {
  BLAS(gemm)(CblasRowMajor, turned(a_transposed), turned(b_transposed), (int)height, (int)width,
             (int)depth, 1, a, (int)a_stride, b, (int)b_stride, 0, to, (int)width);
}

// `from` may be `to`.
static void OF(combine)(void *to, double alpha, const void *from, double beta, int64_t count) {
  REAL *y = to;
  const REAL *x = from;
  REAL a = (REAL)alpha, b = (REAL)beta;
  for (int64_t i = 0; i < count; i++) y[i] = a * y[i] + b * x[i];
}

static void OF(store)(void *to, int64_t position, double value) {
  ((REAL *)to)[position] = (REAL)value;
}

static double OF(load)(const void *from, int64_t position) {
  return (double)((const REAL *)from)[position];
}

const numeric OF(numeric) = {
    sizeof(REAL),   sizeof(TOKEN),      OF(linear_room),   OF(linear),     OF(linear_backward),
    OF(embed),      OF(embed_backward), OF(cross_entropy), OF(hits),       OF(add),
    OF(zero),       OF(row_squares),    OF(store_token),   OF(load_token), OF(sum_into),
    OF(square_sum), OF(adamw),          OF(product),       OF(combine),    OF(store),
    OF(load),
};
