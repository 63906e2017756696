// OpenBLAS takes a buffer for each thread that multiplies, and keeps it. Where the system has no
// memory for one (ulimit -v), it asks for ever. So the buffers are made before the first product,
// if there is room for them.
#include "runtime/train/model/blas.h"

#include <pthread.h>
#include <sys/mman.h>

enum { BUFFER_MIB = 128, MOST_BUFFERS = 128 };

// Of OpenBLAS, which no header of it declares; absent in another BLAS.
extern void *blas_memory_alloc(int purpose) __attribute__((weak));
extern void blas_memory_free(void *buffer) __attribute__((weak));

// Is there room for so many buffers at once?
static bool buffers_fit(int buffers) {
  const size_t size = ((size_t)BUFFER_MIB << 20) + (1 << 20);
  void *taken[MOST_BUFFERS];
  int count = 0;
  for (; count < buffers; count++) {
    taken[count] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (taken[count] == MAP_FAILED) break;
  }
  for (int i = 0; i < count; i++) munmap(taken[i], size);
  return count == buffers;
}

rec_status blas_reserve(int threads) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static int made;
  void *taken[MOST_BUFFERS];
  rec_status status = REC_OK;
  if (!blas_memory_alloc || !blas_memory_free) return REC_OK;
  if (threads > MOST_BUFFERS) threads = MOST_BUFFERS;
  pthread_mutex_lock(&lock);
  if (threads > made && !buffers_fit(threads - made))
    status = rec_fail(REC_ERROR_MEMORY,
                      "expected memory for the matrix products of %d thread%s, %d MiB for each, "
                      "found less; raise the limit (ulimit -v), or take fewer --threads",
                      threads, threads == 1 ? "" : "s", BUFFER_MIB);
  if (threads > made && !status) {
    for (int i = 0; i < threads; i++) taken[i] = blas_memory_alloc(0);
    for (int i = 0; i < threads; i++) blas_memory_free(taken[i]);
    made = threads;
  }
  pthread_mutex_unlock(&lock);
  return status;
}
