// The figures of gpu_costs.def, by name, and the time of blocks, by which the schedule and the runtime
// choose kernels.
#pragma once

#include <stdint.h>

#define GPU_FACTOR(name, value, unit, what, source)
enum {
#define GPU_COUNT(name, value, unit, what, source) GPU_COST_##name = (value),
#include "compiler/abi/gpu_costs.def"
#undef GPU_COUNT
};
#undef GPU_FACTOR

#define GPU_COUNT(name, value, unit, what, source)
#define GPU_FACTOR(name, value, unit, what, source) static const double gpu_cost_##name = (value);
#include "compiler/abi/gpu_costs.def"
#undef GPU_FACTOR
#undef GPU_COUNT

// The time until so many blocks have ended. One by itself on a multiprocessor takes `alone`. Of as
// many as run beside each other, `resident`, each takes `each`.
static inline double gpu_cost_of_blocks(int64_t blocks, int64_t multiprocessors, double alone,
                                        double each, int64_t resident) {
  int64_t most = (blocks + multiprocessors - 1) / multiprocessors,
          rounds = (most + resident - 1) / resident;
  double waiting = (double)rounds * alone, busy = (double)most * each;
  return waiting > busy ? waiting : busy;
}
