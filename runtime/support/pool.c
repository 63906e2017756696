// A pool of threads: created at the first launch that wants more than one, asleep between launches.
//
// Launches of several threads share the pool. Each puts its job into a list, and the workers take
// lanes from the front of the list. Every caller works on its own job, so no launch waits for
// another one to end. A worker waits on a condition variable, never in a loop. After fork() the
// child has the memory of the pool but none of its threads. It recognises that by the process
// number and makes a pool of its own. It leaves the old pool, whose lock may be held, untouched.
#include "runtime/support/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct job {
  rec_task lane;
  void *argument;
  int64_t lanes, begun;  // lanes that may run, lanes taken
  int64_t running;       // by workers, not by the caller
  int64_t helpers;       // workers that may still join: the launch's thread count limits them
  pthread_cond_t *done;
  struct job *next;
} job;

typedef struct pool {
  pid_t process;
  pthread_mutex_t lock;
  pthread_cond_t work;  // a job was added
  job *jobs;
  int64_t workers;
} pool;

enum { WORKERS_MAX = 1023 };

static _Atomic(pool *) current;

static job *joinable_job(pool *p) {
  for (job *j = p->jobs; j; j = j->next)
    if (j->begun < j->lanes && j->helpers > 0) return j;
  return NULL;
}

static void *worker(void *pointer) {
  pool *p = pointer;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    job *j = joinable_job(p);
    if (!j) {
      pthread_cond_wait(&p->work, &p->lock);
      continue;
    }
    j->helpers--;
    j->running++;
    int64_t index = j->begun++;
    pthread_mutex_unlock(&p->lock);
    j->lane(j->argument, index);
    pthread_mutex_lock(&p->lock);
    if (--j->running == 0) pthread_cond_signal(j->done);
  }
  return NULL;
}

// The pool of this process, NULL if memory is short.
static pool *own_pool(void) {
  pool *old = atomic_load_explicit(&current, memory_order_acquire);
  pid_t process = getpid();
  if (old && old->process == process) return old;
  pool *fresh = calloc(1, sizeof *fresh);
  if (!fresh) return NULL;
  fresh->process = process;
  pthread_mutex_init(&fresh->lock, NULL);
  pthread_cond_init(&fresh->work, NULL);
  if (atomic_compare_exchange_strong(&current, &old, fresh)) return fresh;
  free(fresh);  // another thread was first
  return old;
}

// Starts workers until there are `wanted`; fewer if the system refuses. Called with the lock held.
static void grow_pool(pool *p, int64_t wanted) {
  if (p->workers >= wanted) return;
  // Workers block the signals of the program, except for those of a fault in the worker itself.
  sigset_t all, before;
  sigfillset(&all);
  static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&all, own[i]);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  while (p->workers < wanted) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, worker, p) != 0) break;
    p->workers++;
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void remove_job(pool *p, job *gone) {
  job **link = &p->jobs;
  while (*link != gone) link = &(*link)->next;
  *link = gone->next;
}

void rec_pool_run(int64_t threads, int64_t lanes, rec_task lane, void *argument) {
  int64_t helpers = (threads < lanes ? threads : lanes) - 1;
  if (helpers > WORKERS_MAX) helpers = WORKERS_MAX;
  pool *p = helpers > 0 ? own_pool() : NULL;
  if (!p) {
    lane(argument, 0);
    return;
  }
  pthread_cond_t done = PTHREAD_COND_INITIALIZER;
  job mine = {.lane = lane,
              .argument = argument,
              .lanes = lanes,
              .begun = 1,
              .helpers = helpers,
              .done = &done};
  pthread_mutex_lock(&p->lock);
  grow_pool(p, helpers);
  mine.next = p->jobs;
  p->jobs = &mine;
  if (helpers >= p->workers)
    pthread_cond_broadcast(&p->work);
  else
    for (int64_t i = 0; i < helpers; i++) pthread_cond_signal(&p->work);
  pthread_mutex_unlock(&p->lock);
  lane(argument, 0);
  pthread_mutex_lock(&p->lock);
  remove_job(p, &mine);
  while (mine.running > 0) pthread_cond_wait(&done, &p->lock);
  pthread_mutex_unlock(&p->lock);
  pthread_cond_destroy(&done);
}
