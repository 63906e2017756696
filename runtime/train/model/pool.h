// Threads that share a list of tasks. Tasks are whole pieces of work (a shard of the batch, a block
// of parameters), each with results of its own, so which thread takes which task never shows in a
// result.
#ifndef REC_TRAIN_POOL_H
#define REC_TRAIN_POOL_H

#include "runtime/rec.h"

typedef struct train_pool train_pool;

// `threads` counts the caller; 1 makes no thread. NULL: out of memory or threads.
train_pool *train_pool_new(int threads);
void train_pool_free(train_pool *pool);  // NULL is allowed
int train_pool_threads(const train_pool *pool);
// Makes room for `count` tasks that multiply by BLAS.
rec_status train_pool_reserve(const train_pool *pool, int count);

// Runs task(context, 0 .. count - 1, worker), each once; returns when all are done. `worker` is
// below train_pool_threads and below `count`. Not to be called from inside a task.
void train_pool_run(train_pool *pool, int count, void (*task)(void *context, int number, int worker), void *context);

#endif
