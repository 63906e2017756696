// The linear products of numeric.c where rows have the type of the weights: REAL, BLAS(name) for
// the library's functions, and OF(name) for the names. Included once for each.

static int64_t OF(linear_room)(int64_t in, int64_t out) {
  (void)in, (void)out;
  return 0;
}

// Rows of weights that make up a block.
static int64_t OF(rows_of_block)(int64_t in, int64_t left) {
  int64_t block = FEW_ROWS_BLOCK / (in * (int64_t)sizeof(REAL));
  if (block < 1) block = 1;
  return left < block ? left : block;
}

// A product of matrices copies the whole weight first, which takes longer than its product with a
// few rows. Rows by themselves read the weight once from memory, block by block.
static void OF(linear_few)(rows x, const REAL *weight, REAL beta, rows y) {
  for (int64_t first = 0, count; first < y.width; first += count) {
    count = OF(rows_of_block)(x.width, y.width - first);
    for (int64_t i = 0; i < x.count; i++)
      BLAS(gemv)(CblasRowMajor, CblasNoTrans, (int)count, (int)x.width, 1, weight + first * x.width,
                 (int)x.width, (const REAL *)x.data + i * x.stride, 1, beta,
                 (REAL *)y.data + i * y.stride + first, 1);
  }
}

static void OF(linear)(rows x, const void *weight, const void *bias, rows y, void *room) {
  (void)room;
  if (!x.count) return;
  const REAL *b = bias;
  if (b)
    for (int64_t i = 0; i < y.count; i++)
      memcpy((REAL *)y.data + i * y.stride, b, (size_t)y.width * sizeof(REAL));
  if (x.count <= FEW_ROWS) {
    OF(linear_few)(x, weight, b ? 1 : 0, y);
    return;
  }
  BLAS(gemm)(CblasRowMajor, CblasNoTrans, CblasTrans, (int)x.count, (int)y.width, (int)x.width, 1,
             x.data, (int)x.stride, weight, (int)x.width, b ? 1 : 0, y.data, (int)y.stride);
}

static void OF(linear_backward)(rows x, const void *weight, rows dy, rows dx, bool add_to_dx,
                                void *d_weight, void *d_bias, void *room) {
  (void)room;
  if (!x.count) return;
  if (dx.data)
    BLAS(gemm)(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)x.count, (int)x.width, (int)dy.width,
               1, dy.data, (int)dy.stride, weight, (int)x.width, add_to_dx ? 1 : 0, dx.data,
               (int)dx.stride);
  BLAS(gemm)(CblasRowMajor, CblasTrans, CblasNoTrans, (int)dy.width, (int)x.width, (int)x.count, 1,
             dy.data, (int)dy.stride, x.data, (int)x.stride, 1, d_weight, (int)x.width);
  REAL *db = d_bias;
  for (int64_t i = 0; db && i < dy.count; i++) {
    const REAL *row = (const REAL *)dy.data + i * dy.stride;
    for (int64_t j = 0; j < dy.width; j++) db[j] += row[j];
  }
}
