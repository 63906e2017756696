#include "runtime/machine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/clock.h"
#include "runtime/support/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

double rec_seconds(int threads) {
  return clock_seconds(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC);
}

rec_status rec_machine_threads(int64_t wanted, int *threads) {
  int64_t number;
  rec_status status = rec_cpu_threads(wanted, &number);
  if (status) return status;
  *threads = number < REC_MOST_THREADS ? (int)number : REC_MOST_THREADS;
  return REC_OK;
}

// ---- Multiply-adds ---------------------------------------------------------------------------

// Twelve independent chains: two units of latency four to six, never waiting. Results are returned
// so that nothing is optimised away. Each kernel does `count` rounds of its chains and tells the
// operations of one round.
enum { CHAINS = 12 };

typedef struct fma_kernel {
  float (*run)(int64_t count);
  int bits;
} fma_kernel;

#if defined(__x86_64__)
#define FMA(bits, features, vector, intrinsic)                                         \
  __attribute__((target(features))) static float fma_##bits(int64_t count) {           \
    vector a[CHAINS], x = intrinsic##_set1_ps(0.999f), y = intrinsic##_set1_ps(1e-3f); \
    for (int i = 0; i < CHAINS; i++) a[i] = intrinsic##_set1_ps((float)i);             \
    for (int64_t k = 0; k < count; k++) {                                              \
      _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) a[i] =                 \
          intrinsic##_fmadd_ps(a[i], x, y);                                            \
    }                                                                                  \
    for (int i = 1; i < CHAINS; i++) a[0] = intrinsic##_add_ps(a[0], a[i]);            \
    return intrinsic##_cvtss_f32(a[0]);                                                \
  }
FMA(512, "avx512f", __m512, _mm512)
FMA(256, "avx2,fma", __m256, _mm256)
#endif

typedef float vector4 __attribute__((vector_size(16)));

// Without a fused instruction: a product and a sum.
static float fma_128(int64_t count) {
  vector4 a[CHAINS], x = {0.999f, 0.999f, 0.999f, 0.999f}, y = {1e-3f, 1e-3f, 1e-3f, 1e-3f};
  for (int i = 0; i < CHAINS; i++) a[i] = (vector4){(float)i, 1, 2, 3};
  for (int64_t k = 0; k < count; k++) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) a[i] = a[i] * x + y;
  }
  for (int i = 1; i < CHAINS; i++) a[0] += a[i];
  return a[0][0];
}

// Of the clone that kernels run: REC_CPU asks for a lesser one, and then that one's peak is meant.
static fma_kernel kernel_of_clone(void) {
#if defined(__x86_64__)
  int clone;
  if (rec_cpu_clone(&clone)) clone = 0;
  if (clone >= 2) return (fma_kernel){fma_512, 512};
  if (clone == 1) return (fma_kernel){fma_256, 256};
#endif
  return (fma_kernel){fma_128, 128};
}

int rec_machine_vector_bits(void) { return kernel_of_clone().bits; }

// ---- Threads ---------------------------------------------------------------------------------

// One worker: how much it did in how long.
typedef struct worker {
  int threads;
  double seconds, done, sum;
  const uint64_t *memory;
  int64_t words;
} worker;

static void *count_fma(void *argument) {
  worker *w = argument;
  fma_kernel kernel = kernel_of_clone();
  double begin = rec_seconds(w->threads), end = begin;
  int64_t rounds = 0;
  while (end - begin < w->seconds) {
    w->sum += (double)kernel.run(4096);
    rounds += 4096;
    end = rec_seconds(w->threads);
  }
  w->done = (double)rounds * CHAINS * (kernel.bits / 32) * 2 / (end - begin);
  return NULL;
}

typedef uint64_t vector_of_words __attribute__((vector_size(64), may_alias));

static void *read_worker_memory(void *argument) {
  worker *w = argument;
  const vector_of_words *at = (const vector_of_words *)w->memory;
  vector_of_words sums[4] = {{0}};
  double begin = rec_seconds(w->threads);
  for (int64_t i = 0; i + 4 <= w->words / 8; i += 4)
    for (int k = 0; k < 4; k++) sums[k] += at[i + k];
  w->done = (double)w->words * 8 / (rec_seconds(w->threads) - begin);
  sums[0] += sums[1] + sums[2] + sums[3];
  w->sum = (double)sums[0][0];
  return NULL;
}

// Runs the workers at the same time and adds what they did per second.
static double run_workers(worker *workers, int count, void *(*function)(void *)) {
  pthread_t *threads = malloc((size_t)count * sizeof *threads);
  if (!threads) return 0;
  int started = 0;
  while (started + 1 < count &&
         pthread_create(&threads[started], NULL, function, &workers[started + 1]) == 0)
    started++;
  function(&workers[0]);
  double sum = workers[0].done;
  for (int i = 0; i < started; i++) {
    pthread_join(threads[i], NULL);
    sum += workers[i + 1].done;
  }
  free(threads);
  return sum;
}

double rec_machine_peak(int threads, double seconds) {
  worker *workers = calloc((size_t)threads, sizeof *workers);
  if (!workers) return 0;
  for (int i = 0; i < threads; i++) workers[i] = (worker){.threads = threads, .seconds = seconds};
  double peak = run_workers(workers, threads, count_fma);
  free(workers);
  return peak;
}

double rec_machine_bandwidth(int threads) {
  const int64_t words = (int64_t)32 << 20;  // 256 MiB: beyond every cache
  worker *workers = calloc((size_t)threads, sizeof *workers);
  uint64_t *memory = aligned_alloc(64, (size_t)words * 8);
  double best = 0;
  if (workers && memory) {
    memset(memory, 1, (size_t)words * 8);
    for (int i = 0; i < threads; i++) {
      workers[i].threads = threads;
      workers[i].words = words / threads / 32 * 32;
      workers[i].memory = memory + i * workers[i].words;
    }
    for (int round = 0; round < 5; round++) {
      double rate = run_workers(workers, threads, read_worker_memory);
      if (rate > best) best = rate;
    }
  }
  free(memory);
  free(workers);
  return best;
}
