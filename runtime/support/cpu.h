// Which clone of a kernel this processor runs, and how many processors this process may use.
#ifndef REC_SUPPORT_CPU_H
#define REC_SUPPORT_CPU_H

#include "runtime/shared/launch.h"

// The best clone the processor supports (0: v2, 1: v3, 2: v4), or the one that REC_CPU=v2|v3|v4
// asks for.
rec_status rec_cpu_clone(int *clone);

// Threads for a launch that asked for `wanted` (0: REC_NUM_THREADS, or else the processors of this
// process).
rec_status rec_cpu_threads(int64_t wanted, int64_t *threads);

// From here on this thread treats denormal numbers as 0, as operands and results. Products of strong decays make many, and
// arithmetic with them is a hundred times slower. Returns what rec_cpu_restore ends it with.
unsigned rec_cpu_flush_denormals(void);
void rec_cpu_restore(unsigned before);

#endif
