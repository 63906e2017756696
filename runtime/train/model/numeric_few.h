// The product of numeric_linear.h for few rows, in vectors of VECTOR bytes: the weights are read
// once from memory, in their order. FEATURES are those of the processor, CLONE(name) makes the
// names. COLUMNS are the columns of y whose sums the registers hold for FEW_INPUTS rows. Included
// once for each kind of processor.
//
// Sums are in FEW_LANES bytes of lanes and have one order. So a row has the same sums on every
// kind, and whatever rows stand beside it.

#define EACH(i, count) _Pragma("GCC unroll 4") for (int i = 0; i < (count); i++)

typedef REAL CLONE(vector) __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));
typedef REAL CLONE(quarter)
    __attribute__((vector_size(FEW_LANES / 4), aligned(sizeof(REAL)), may_alias));

// Some columns of y for some rows, from as many rows of weights.
FEATURES static inline __attribute__((always_inline)) void CLONE(few_block)(
    const OF(few) * f, int64_t column, const int columns, int64_t row, const int inputs) {
  enum { LANES = FEW_LANES / sizeof(REAL), PARTS = FEW_LANES / VECTOR, PAIRS = LANES / 8 };
  const int64_t width = f->x.width, whole = width / LANES * LANES;
  const REAL *w = f->weight + column * width, *x = (const REAL *)f->x.data + row * f->x.stride;
  REAL *y = (REAL *)f->y.data + row * f->y.stride + column;
  CLONE(vector) lanes[COLUMNS][FEW_INPUTS][PARTS] = {{{{0}}}};
  for (int64_t k = 0; k < whole; k += LANES) {
    EACH(c, columns) __builtin_prefetch((const char *)(w + c * width + k) + FEW_AHEAD);
    EACH(p, PARTS) {
      CLONE(vector) in[FEW_INPUTS];
      EACH(i, inputs) in[i] = ((const CLONE(vector) *)(x + i * f->x.stride + k))[p];
      EACH(c, columns) {
        const CLONE(vector) v = ((const CLONE(vector) *)(w + c * width + k))[p];
        EACH(i, inputs) lanes[c][i][p] += v * in[i];
      }
    }
  }
  EACH(c, columns) EACH(i, inputs) {
    const CLONE(quarter) *l = (const CLONE(quarter) *)lanes[c][i];
    const CLONE(quarter) q = (l[0] + l[2]) + (l[1] + l[3]);
    REAL sum = q[0] + q[PAIRS], *to = y + i * f->y.stride + c;
    for (int p = 1; p < PAIRS; p++) sum += q[p] + q[PAIRS + p];
    for (int64_t k = whole; k < width; k++) sum += w[c * width + k] * x[i * f->x.stride + k];
    *to = f->add ? *to + sum : sum;
  }
}

// All rows of some columns. The weights of these stay in the first-level cache.
FEATURES static inline __attribute__((always_inline)) void CLONE(few_columns)(const OF(few) * f,
                                                                              int64_t column,
                                                                              const int columns) {
  int64_t row = 0;
  for (; row + FEW_INPUTS <= f->x.count; row += FEW_INPUTS)
    CLONE(few_block)(f, column, columns, row, FEW_INPUTS);
  for (; row < f->x.count; row++) CLONE(few_block)(f, column, columns, row, 1);
}

// A lone row takes one column after another: memory is read in its order.
FEATURES static void CLONE(few)(const OF(few) * f) {
  int64_t column = 0;
  if (f->x.count > 1)
    for (; column + COLUMNS <= f->y.width; column += COLUMNS)
      CLONE(few_columns)(f, column, COLUMNS);
  for (; column < f->y.width; column++) CLONE(few_columns)(f, column, 1);
}

#undef EACH
#undef COLUMNS
#undef VECTOR
#undef FEATURES
#undef CLONE
