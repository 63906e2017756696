// A libcublas for tests: matrix products on the host, where the driver of the tests has its memory.
// They are summed in double and rounded once. A line for each call goes into the file $CUDA_LOG;
// $CUBLAS_FAIL makes cublasCreate answer 1.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/model/cublas.h"

#define EXPORT __attribute__((visibility("default")))
#define PROTOTYPE(name, symbol, parameters) EXPORT cublas_result symbol parameters;
CUBLAS_FUNCTIONS(PROTOTYPE)

enum { NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

static int handle_of_all;

EXPORT cublas_result cublasCreate_v2(void **handle) {
  *handle = &handle_of_all;
  return getenv("CUBLAS_FAIL") ? NOT_INITIALIZED : 0;
}

EXPORT cublas_result cublasDestroy_v2(void *handle) {
  return handle == &handle_of_all ? 0 : NOT_INITIALIZED;
}

static float wide(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

static uint16_t narrow(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double number_at(const void *matrix, int type, int64_t place) {
  return (double)(type == CUDA_TYPE_F32 ? ((const float *)matrix)[place]
                                        : wide(((const uint16_t *)matrix)[place]));
}

EXPORT cublas_result cublasGemmEx(void *handle, int a_operation, int b_operation, int m, int n,
                                  int k, const void *alpha, const void *a, int a_type, int a_stride,
                                  const void *b, int b_type, int b_stride, const void *beta,
                                  void *c, int c_type, int c_stride, int compute, int algorithm) {
  const char *path = getenv("CUDA_LOG");
  FILE *log = path ? fopen(path, "a") : NULL;
  if (log) {
    fprintf(log, "cublasGemmEx %c%c types %d %d %d\n", "NT"[a_operation], "NT"[b_operation], a_type,
            b_type, c_type);
    fclose(log);
  }
  // The combinations of types that cuBLAS has for products in f32, and the least strides.
  if (compute != CUBLAS_COMPUTE_F32 || algorithm != CUBLAS_ANY_ALGORITHM || a_type != b_type ||
      (a_type == CUDA_TYPE_F32 && c_type != CUDA_TYPE_F32))
    return NOT_SUPPORTED;
  if (handle != &handle_of_all || a_stride < (a_operation ? k : m) ||
      b_stride < (b_operation ? n : k) || c_stride < m)
    return INVALID_VALUE;
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < m; i++) {
      double sum = 0, factor = (double)*(const float *)beta;
      for (int64_t l = 0; l < k; l++)
        sum += number_at(a, a_type, a_operation ? i * a_stride + l : l * a_stride + i) *
               number_at(b, b_type, b_operation ? l * b_stride + j : j * b_stride + l);
      sum *= (double)*(const float *)alpha;
      if (factor != 0) sum += factor * number_at(c, c_type, j * c_stride + i);
      if (c_type == CUDA_TYPE_F32)
        ((float *)c)[j * c_stride + i] = (float)sum;
      else
        ((uint16_t *)c)[j * c_stride + i] = narrow((float)sum);
    }
  return 0;
}
