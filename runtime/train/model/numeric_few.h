// The product of numeric_linear.h for few rows, in vectors of VECTOR bytes: the weights are read
// once from memory, in their order. FEATURES are those of the processor, CLONE(name) makes the
// names. Included once for each kind of processor.
//
// Sums are in FEW_LANES bytes of lanes and have one order. So a row has the same sums on every
// kind, and whatever rows stand beside it.

typedef REAL CLONE(vector) __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));
typedef REAL CLONE(quarter)
    __attribute__((vector_size(FEW_LANES / 4), aligned(sizeof(REAL)), may_alias));

// Column `column` of y for some rows, from one row of weights.
FEATURES static inline __attribute__((always_inline)) void CLONE(few_column)(const OF(few) * f,
                                                                             int64_t column,
                                                                             int64_t first,
                                                                             const int inputs) {
  enum { LANES = FEW_LANES / sizeof(REAL), PARTS = FEW_LANES / VECTOR, PAIRS = LANES / 8 };
  const int64_t width = f->x.width, whole = width / LANES * LANES;
  const REAL *w = f->weight + column * width, *x = (const REAL *)f->x.data + first * f->x.stride;
  REAL *y = (REAL *)f->y.data + first * f->y.stride + column, sums[FEW_INPUTS];
  CLONE(vector) lanes[FEW_INPUTS][PARTS] = {{{0}}};
  for (int64_t k = 0; k < whole; k += LANES) {
    __builtin_prefetch((const char *)(w + k) + FEW_AHEAD);
    for (int p = 0; p < PARTS; p++) {
      const CLONE(vector) v = ((const CLONE(vector) *)(w + k))[p];
      for (int i = 0; i < inputs; i++)
        lanes[i][p] += v * ((const CLONE(vector) *)(x + i * f->x.stride + k))[p];
    }
  }
  _Pragma("GCC unroll 4") for (int i = 0; i < inputs; i++) {
    const CLONE(quarter) *l = (const CLONE(quarter) *)lanes[i], q = (l[0] + l[2]) + (l[1] + l[3]);
    sums[i] = q[0] + q[PAIRS];
    for (int p = 1; p < PAIRS; p++) sums[i] += q[p] + q[PAIRS + p];
  }
  for (int64_t k = whole; k < width; k++)
    for (int i = 0; i < inputs; i++) sums[i] += w[k] * x[i * f->x.stride + k];
  for (int i = 0; i < inputs; i++, y += f->y.stride) *y = f->add ? *y + sums[i] : sums[i];
}

FEATURES static void CLONE(few)(const OF(few) * f) {
  for (int64_t column = 0; column < f->y.width; column++)
    for (int64_t first = 0; first < f->x.count; first += FEW_INPUTS) switch (f->x.count - first) {
        case 1: CLONE(few_column)(f, column, first, 1); break;
        case 2: CLONE(few_column)(f, column, first, 2); break;
        case 3: CLONE(few_column)(f, column, first, 3); break;
        default: CLONE(few_column)(f, column, first, FEW_INPUTS);
      }
}

#undef VECTOR
#undef FEATURES
#undef CLONE
