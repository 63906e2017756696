// The workers sleep on a condition between two calls; tasks are handed out by an atomic counter.
#include "runtime/train/model/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "runtime/train/model/blas.h"

struct train_pool {
  int threads;
  pthread_t *workers;  // threads - 1
  int started;
  pthread_mutex_t mutex;
  pthread_cond_t work, done;
  unsigned generation;  // one per run
  int busy;
  bool stop;
  int count;
  atomic_int next;
  void (*task)(void *context, int number, int worker);
  void *context;
};

typedef struct worker_start {
  train_pool *pool;
  int worker;
} worker_start;

// A worker beyond the number of tasks takes none, however fast it wakes: what tasks keep by worker
// has room for as many workers as there are tasks.
static void take_tasks(train_pool *pool, int worker) {
  if (worker >= pool->count) return;
  for (int number; (number = atomic_fetch_add(&pool->next, 1)) < pool->count;) pool->task(pool->context, number, worker);
}

static void *worker_main(void *argument) {
  worker_start start = *(worker_start *)argument;
  free(argument);
  train_pool *pool = start.pool;
  unsigned seen = 0;
  for (;;) {
    pthread_mutex_lock(&pool->mutex);
    while (!pool->stop && pool->generation == seen) pthread_cond_wait(&pool->work, &pool->mutex);
    seen = pool->generation;
    bool stop = pool->stop;
    pthread_mutex_unlock(&pool->mutex);
    if (stop) return NULL;
    take_tasks(pool, start.worker);
    pthread_mutex_lock(&pool->mutex);
    if (--pool->busy == 0) pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->mutex);
  }
}

train_pool *train_pool_new(int threads) {
  train_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return NULL;
  pool->threads = threads < 1 ? 1 : threads;
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->work, NULL);
  pthread_cond_init(&pool->done, NULL);
  pool->workers = calloc((size_t)pool->threads, sizeof *pool->workers);
  bool good = pool->workers != NULL;
  for (int i = 0; good && i + 1 < pool->threads; i++) {
    worker_start *start = malloc(sizeof *start);
    if (start) *start = (worker_start){pool, i + 1};
    good = start && pthread_create(&pool->workers[i], NULL, worker_main, start) == 0;
    if (good)
      pool->started++;
    else
      free(start);
  }
  if (good) return pool;
  train_pool_free(pool);
  return NULL;
}

void train_pool_free(train_pool *pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->mutex);
  pool->stop = true;
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->mutex);
  for (int i = 0; i < pool->started; i++) pthread_join(pool->workers[i], NULL);
  pthread_cond_destroy(&pool->done);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->mutex);
  free(pool->workers);
  free(pool);
}

int train_pool_threads(const train_pool *pool) { return pool->threads; }

rec_status train_pool_reserve(const train_pool *pool, int count) {
  return blas_reserve(pool->threads < count ? pool->threads : count);
}

void train_pool_run(train_pool *pool, int count, void (*task)(void *context, int number, int worker), void *context) {
  if (pool->threads == 1 || count <= 1) {
    for (int number = 0; number < count; number++) task(context, number, 0);
    return;
  }
  pthread_mutex_lock(&pool->mutex);
  pool->task = task, pool->context = context, pool->count = count;
  atomic_store(&pool->next, 0);
  pool->busy = pool->threads - 1;
  pool->generation++;
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->mutex);
  take_tasks(pool, 0);
  pthread_mutex_lock(&pool->mutex);
  while (pool->busy) pthread_cond_wait(&pool->done, &pool->mutex);
  pthread_mutex_unlock(&pool->mutex);
}
