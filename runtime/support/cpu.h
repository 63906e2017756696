// Which clone of a kernel this processor runs, and how many processors this process may use.
#pragma once

#include "compiler/abi/launch.h"

// The best clone the processor supports, or the one that REC_CPU asks for. x86-64: v2 is 0, v3 1,
// v4 2, v4 with AVX512_BF16 3; aarch64: neon is 0.
rec_status rec_cpu_clone(int *clone);

// Threads for a launch that asked for `wanted` (0: REC_NUM_THREADS, or else the processors of this
// process).
rec_status rec_cpu_threads(int64_t wanted, int64_t *threads);

// From here on this thread treats denormal numbers as 0, as operands and results. Products of
// strong decays make many, and arithmetic with them is a hundred times slower. Returns what
// rec_cpu_restore ends it with.
unsigned rec_cpu_flush_denormals(void);
void rec_cpu_restore(unsigned before);
