// Matrix products by cuBLAS, opened at run time; nothing here needs CUDA to be installed.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/rec.h"

typedef int cublas_result;  // 0: done

// F(name here, name in libcublas, parameters). Matrices lie column by column.
#define CUBLAS_FUNCTIONS(F)                                                                  \
  F(create, cublasCreate_v2, (void **handle))                                                \
  F(destroy, cublasDestroy_v2, (void *handle))                                               \
  F(gemm, cublasGemmEx,                                                                      \
    (void *handle, int a_operation, int b_operation, int m, int n, int k, const void *alpha, \
     const void *a, int a_type, int a_stride, const void *b, int b_type, int b_stride,       \
     const void *beta, void *c, int c_type, int c_stride, int compute, int algorithm))

enum { CUBLAS_PLAIN = 0, CUBLAS_TRANSPOSED = 1 };
enum { CUDA_TYPE_F32 = 0, CUDA_TYPE_BF16 = 14 };
enum { CUBLAS_COMPUTE_F32 = 68, CUBLAS_ANY_ALGORITHM = -1 };

typedef struct cublas {
  bool opened;
  char why_not[200];
  void *handle;
} cublas;

// A factor, and the product.
typedef struct cublas_matrix {
  const void *data;
  int64_t stride;  // numbers between columns
  int type;
  bool transposed;
} cublas_matrix;

// In the current context; it may stay closed.
void cublas_open(cublas *b);
void cublas_close(cublas *b);

// c[m][n] = (c +) a[m][k] b[k][n], summed in f32, on the stream NULL.
rec_status cublas_product(const cublas *b, int64_t m, int64_t n, int64_t k, cublas_matrix x,
                          cublas_matrix y, cublas_matrix c, bool add);
