// The linear products of numeric.c where rows have the type of the weights: REAL, BLAS(name) for the
// library's functions, and OF(name) for the names. Included once for each.

static int64_t OF(linear_room)(int64_t in, int64_t out) {
  (void)in, (void)out;
  return 0;
}

static void OF(linear)(rows x, const void *weight, const void *bias, rows y, void *room) {
  (void)room;
  if (!x.count) return;
  const REAL *b = bias;
  if (b)
    for (int64_t i = 0; i < y.count; i++) memcpy((REAL *)y.data + i * y.stride, b, (size_t)y.width * sizeof(REAL));
  BLAS(gemm)(CblasRowMajor, CblasNoTrans, CblasTrans, (int)x.count, (int)y.width, (int)x.width, 1, x.data, (int)x.stride,
             weight, (int)x.width, b ? 1 : 0, y.data, (int)y.stride);
}

static void OF(linear_backward)(rows x, const void *weight, rows dy, rows dx, bool add_to_dx, void *d_weight, void *d_bias,
                                void *room) {
  (void)room;
  if (!x.count) return;
  if (dx.data)
    BLAS(gemm)(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)x.count, (int)x.width, (int)dy.width, 1, dy.data, (int)dy.stride,
               weight, (int)x.width, add_to_dx ? 1 : 0, dx.data, (int)dx.stride);
  BLAS(gemm)(CblasRowMajor, CblasTrans, CblasNoTrans, (int)dy.width, (int)x.width, (int)x.count, 1, dy.data, (int)dy.stride,
             x.data, (int)x.stride, 1, d_weight, (int)x.width);
  REAL *db = d_bias;
  for (int64_t i = 0; db && i < dy.count; i++) {
    const REAL *row = (const REAL *)dy.data + i * dy.stride;
    for (int64_t j = 0; j < dy.width; j++) db[j] += row[j];
  }
}
