// Time that a stage takes.
#pragma once

#include <time.h>

// Seconds of a clock: CLOCK_MONOTONIC, or processor time by CLOCK_PROCESS_CPUTIME_ID.
static inline double clock_seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
