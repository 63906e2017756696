// Opens libcublas by the list of functions in cublas.h.
#include "runtime/train/model/cublas.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

#include "runtime/internal.h"

static struct {
#define MEMBER(name, symbol, parameters) cublas_result(*name) parameters;
  CUBLAS_FUNCTIONS(MEMBER)
#undef MEMBER
} functions;

static const struct {
  const char *symbol;
  void *place;
} rows[] = {
#define ROW(name, symbol, parameters) {#symbol, &functions.name},
    CUBLAS_FUNCTIONS(ROW)
#undef ROW
};

static bool found;
static char why_not[sizeof((cublas *)0)->why_not];

// It stays open: its kernels may run until the process ends.
static void open_cublas_library(void) {
  static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};
  void *library = NULL;
  for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  found = library != NULL;
  if (!found) snprintf(why_not, sizeof why_not, "%s", dlerror());
  for (size_t i = 0; found && i < sizeof rows / sizeof *rows; i++) {
    found = (*(void **)rows[i].place = dlsym(library, rows[i].symbol)) != NULL;
    if (!found) snprintf(why_not, sizeof why_not, "it lacks %s", rows[i].symbol);
  }
}

static rec_status check_cublas(cublas_result result, const char *call) {
  if (result == 0) return REC_OK;
  return rec_fail(REC_ERROR_DEVICE, "%s: cuBLAS answers %d", call, result);
}

void cublas_open(cublas *b) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_cublas_library);
  *b = (cublas){0};
  int result = found ? functions.create(&b->handle) : 1;
  b->opened = result == 0;
  if (!found)
    snprintf(b->why_not, sizeof b->why_not, "%s", why_not);
  else if (result)
    snprintf(b->why_not, sizeof b->why_not, "cublasCreate answers %d", result);
}

void cublas_close(cublas *b) {
  if (b->opened) functions.destroy(b->handle);
  b->opened = false;
}

rec_status cublas_product(const cublas *b, int64_t m, int64_t n, int64_t k, cublas_matrix x,
                          cublas_matrix y, cublas_matrix c, bool add) {
  const float one = 1, before = add ? 1 : 0;
  const int64_t sizes[] = {m, n, k, x.stride, y.stride, c.stride};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i] > INT_MAX)
      return rec_fail(REC_ERROR_UNSUPPORTED,
                      "expected a matrix product of at most %d numbers a side, found %lld", INT_MAX,
                      (long long)sizes[i]);
  return check_cublas(
      functions.gemm(b->handle, x.transposed ? CUBLAS_TRANSPOSED : CUBLAS_PLAIN,
                     y.transposed ? CUBLAS_TRANSPOSED : CUBLAS_PLAIN, (int)m, (int)n, (int)k, &one,
                     x.data, x.type, (int)x.stride, y.data, y.type, (int)y.stride, &before,
                     (void *)(uintptr_t)c.data, c.type, (int)c.stride, CUBLAS_COMPUTE_F32,
                     CUBLAS_ANY_ALGORITHM),
      "cublasGemmEx");
}
