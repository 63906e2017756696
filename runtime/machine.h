// What this machine can do at most: the yardstick of `rec bench`.
#pragma once

#include "runtime/rec.h"

// Multiply-adds of float, two operations each, in operations per second; all `threads` busy for
// about `seconds`.
double rec_machine_peak(int threads, double seconds);
// Bytes per second read from memory by `threads`; 0 if there is no memory to measure with.
double rec_machine_bandwidth(int threads);
// Threads for work that asked for `wanted`; 0: the environment's REC_NUM_THREADS, or else the
// processors of this process.
enum { REC_MOST_THREADS = 1024 };
rec_status rec_machine_threads(int64_t wanted, int *threads);
int rec_machine_vector_bits(void);  // of the instructions that rec_machine_peak uses
// Seconds of a clock that only runs forward. A single thread is timed by its processor time, so
// that other programs on the machine do not count. Several threads are timed by the clock on the
// wall.
double rec_seconds(int threads);
