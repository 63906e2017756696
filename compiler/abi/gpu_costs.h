// The figures of gpu_costs.def, by name, the time of a multiprocessor's units, and that of blocks,
// which the schedule and the runtime choose kernels by.
#pragma once

#include <stdint.h>

#define GPU_OPERATION(op, instructions, specials)
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
#undef GPU_OPERATION

// What blocks take of the units of a multiprocessor that they share.
typedef enum gpu_unit {
  GPU_UNIT_ISSUE,
  GPU_UNIT_SHARED,
  GPU_UNIT_SPECIAL,
  GPU_UNIT_TENSOR,
  GPU_UNIT_CACHE,
  GPU_UNITS
} gpu_unit;
typedef struct gpu_use {
  // of warps: instructions, those of shared memory and of special functions
  double instructions, wavefronts, specials;
  double tensor;  // cycles of tensor cores
  double bytes;   // of the second-level cache
} gpu_use;

// Cycles of a unit. `cache`: bytes of the second-level cache in a cycle; 0: without limit.
static inline double gpu_unit_cycles(gpu_unit unit, const gpu_use *use, double cache) {
  switch (unit) {
    case GPU_UNIT_ISSUE: return use->instructions * gpu_cost_issued_each / GPU_COST_SCHEDULERS;
    case GPU_UNIT_SHARED: return use->wavefronts;
    case GPU_UNIT_SPECIAL: return use->specials * GPU_COST_MUFU_CYCLES;
    case GPU_UNIT_TENSOR: return use->tensor;
    default: return cache > 0 ? use->bytes / cache : 0;
  }
}

// The time until so many blocks have ended. One by itself on a multiprocessor takes `alone`. Of as
// many as run beside each other, `resident`, each takes `each`.
static inline double gpu_cost_of_blocks(int64_t blocks, int64_t multiprocessors, double alone,
                                        double each, int64_t resident) {
  int64_t most = (blocks + multiprocessors - 1) / multiprocessors,
          rounds = (most + resident - 1) / resident;
  double waiting = (double)rounds * alone, busy = (double)most * each;
  return waiting > busy ? waiting : busy;
}
