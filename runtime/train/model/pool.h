// Threads that share a list of tasks. Tasks are whole pieces of work (a shard of the batch, a block
// of parameters), each with results of its own. No result therefore depends on which thread takes
// which task.
#pragma once

#include "runtime/rec.h"

typedef rec_status train_pool_task(void *context, int number, int worker);

// Runs task(context, 0 .. count - 1, worker), each once, on at most `threads` threads, the caller's
// among them. Returns when all are done, with the failure of one of them. `worker` is below
// `threads` and below `count`.
rec_status train_pool_run(int threads, int count, train_pool_task *task, void *context);
