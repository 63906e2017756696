// The linear products of numeric.c where rows have the type of the weights: REAL, BLAS(name) for
// the library's functions, and OF(name) for the names. Included once for each.

static int64_t OF(linear_room)(int64_t in, int64_t out) {
  (void)in, (void)out;
  return 0;
}

// A product of matrices copies the whole weight first, which takes longer than its product with a
// few rows.
typedef struct OF(few) {
  rows x, y;
  const REAL *weight;
  bool add;  // to what stands in y
} OF(few);

#define VECTOR 16
#define COLUMNS FEW_COLUMNS_V2
#define FEATURES
#define CLONE(name) OF(name##_v2)
#include "runtime/train/model/numeric_few.h"
#if defined(__x86_64__)
#define VECTOR 32
#define COLUMNS 3
#define FEATURES __attribute__((target("avx2")))
#define CLONE(name) OF(name##_v3)
#include "runtime/train/model/numeric_few.h"
#define VECTOR 64
#define COLUMNS 4
#define FEATURES __attribute__((target("avx512f")))
#define CLONE(name) OF(name##_v4)
#include "runtime/train/model/numeric_few.h"
#endif

static void OF(linear_few)(rows x, const REAL *weight, bool add, rows y) {
  void (*run)(const OF(few) *) = OF(few_v2);
#if defined(__x86_64__)
  int clone;
  if (!rec_cpu_clone(&clone) && clone) run = clone == 1 ? OF(few_v3) : OF(few_v4);
#endif
  run(&(OF(few)){x, y, weight, add});
}

static void OF(linear)(rows x, const void *weight, const void *bias, rows y, void *room) {
  (void)room;
  if (!x.count) return;
  const REAL *b = bias;
  if (b)
    for (int64_t i = 0; i < y.count; i++)
      memcpy((REAL *)y.data + i * y.stride, b, (size_t)y.width * sizeof(REAL));
  if (x.count <= FEW_ROWS) {
    OF(linear_few)(x, weight, b, y);
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
