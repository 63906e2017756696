// Each thread takes the next task until there is none.
#include "runtime/train/model/pool.h"

#include <stdatomic.h>
#include <stdio.h>

#include "runtime/internal.h"
#include "runtime/support/pool.h"

typedef struct task_list {
  train_pool_task *task;
  void *context;
  int count;
  atomic_int next, failed;  // failed: the rec_status of the task that failed first
  char message[1024];
} task_list;

static void take_tasks(void *argument, int64_t worker) {
  task_list *list = argument;
  for (int number; (number = atomic_fetch_add(&list->next, 1)) < list->count;) {
    int status = (int)list->task(list->context, number, (int)worker), good = REC_OK;
    if (status && atomic_compare_exchange_strong(&list->failed, &good, status))
      snprintf(list->message, sizeof list->message, "%s", rec_message());
  }
}

rec_status train_pool_run(int threads, int count, train_pool_task *task, void *context) {
  task_list list = {.task = task, .context = context, .count = count};
  rec_pool_run(threads, count, take_tasks, &list);
  return list.failed ? rec_fail((rec_status)list.failed, "%s", list.message) : REC_OK;
}
