#include "compiler/base/processors.h"

#include <pthread.h>
#include <sched.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static int taken, long_ones_waiting;

int processors_count(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return count > 0 ? count : 1;
}

void processors_take(processors_turn turn) {
  int count = processors_count();
  pthread_mutex_lock(&lock);
  long_ones_waiting += turn == TURN_LONG;
  while (taken >= count || (turn == TURN_SHORT && long_ones_waiting))
    pthread_cond_wait(&given, &lock);
  long_ones_waiting -= turn == TURN_LONG;
  taken++;
  pthread_mutex_unlock(&lock);
  pthread_cond_broadcast(&given);
}

void processors_give(void) {
  pthread_mutex_lock(&lock);
  taken--;
  pthread_mutex_unlock(&lock);
  pthread_cond_broadcast(&given);
}
