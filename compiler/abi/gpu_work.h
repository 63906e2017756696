// What the warps of a block do between two barriers, and the cycles of a multiprocessor that it takes.
// The compiler counts a nest by its plan (plan/gpu), the executor what has run.
#pragma once

#include "compiler/abi/gpu_costs.h"

// What limits them: a unit that all warps share, or the busiest warp, whose instructions wait for each
// other.
typedef enum gpu_limit {
  GPU_LIMIT_ISSUE,
  GPU_LIMIT_SHARED,
  GPU_LIMIT_SPECIAL,
  GPU_LIMIT_TENSOR,
  GPU_LIMIT_CACHE,
  GPU_UNITS,
  GPU_LIMIT_WARP = GPU_UNITS,
  GPU_LIMITS
} gpu_limit;

// Sums over warps, but for `busiest` and `far`. All members are doubles.
typedef struct gpu_work {
  double instructions;
  double busiest;         // instructions of the warp that has most of them
  double wavefronts;      // of shared memory: accesses, as often as bank conflicts repeat them
  double specials;        // of `instructions`, those of the special function units
  double tensor, groups;  // multiply-adds of tensor cores: by mma, by wgmma
  double bytes;           // between the multiprocessor and the second-level cache
  double far;             // accesses one after another that a warp waits for from there
  double barriers;
} gpu_work;

static inline void gpu_add_work(gpu_work *to, const gpu_work *x, double factor) {
  to->instructions += factor * x->instructions;
  to->busiest += factor * x->busiest;
  to->wavefronts += factor * x->wavefronts;
  to->specials += factor * x->specials;
  to->tensor += factor * x->tensor;
  to->groups += factor * x->groups;
  to->bytes += factor * x->bytes;
  to->far += factor * x->far;
  to->barriers += factor * x->barriers;
}

// In a cycle of a multiprocessor: multiply-adds by mma and by wgmma, 0: as by mma; bytes of the
// second-level cache, 0: without limit.
typedef struct gpu_speed {
  double mma, wgmma, cache;
} gpu_speed;

static inline double gpu_tensor_cycles(const gpu_work *x, const gpu_speed *speed) {
  double mma = speed->mma / gpu_cost_mma_slack,
         wgmma = speed->wgmma > 0 ? speed->wgmma / gpu_cost_wgmma_slack : mma;
  return x->tensor + x->groups > 0 ? x->tensor / mma + x->groups / wgmma : 0;
}

// Cycles of one of the limits. `pace`: from an instruction of a warp to its next.
static inline double gpu_limit_cycles(gpu_limit limit, const gpu_work *x, const gpu_speed *speed,
                                      double pace) {
  switch (limit) {
    case GPU_LIMIT_ISSUE: return x->instructions * gpu_cost_issued_each / GPU_COST_SCHEDULERS;
    case GPU_LIMIT_SHARED: return x->wavefronts;
    case GPU_LIMIT_SPECIAL: return x->specials * GPU_COST_MUFU_CYCLES;
    case GPU_LIMIT_TENSOR: return gpu_tensor_cycles(x, speed);
    case GPU_LIMIT_CACHE: return speed->cache > 0 ? x->bytes / speed->cache : 0;
    default: return x->busiest * pace + x->far * GPU_COST_FAR;
  }
}

// The limit that takes longest.
static inline gpu_limit gpu_longest(const gpu_work *x, const gpu_speed *speed, double pace) {
  gpu_limit most = GPU_LIMIT_WARP;
  for (gpu_limit i = 0; i < GPU_LIMITS; i++)
    if (gpu_limit_cycles(i, x, speed, pace) > gpu_limit_cycles(most, x, speed, pace)) most = i;
  return most;
}

// Cycles of so many blocks side by side, of which each takes `alone` by itself, and does `x`. GPU_LIMIT_WARP: they
// wait for their own instructions and barriers.
static inline double gpu_cycles_together(const gpu_work *x, const gpu_speed *speed, double blocks,
                                         double alone, gpu_limit *limit) {
  double most = alone;
  *limit = GPU_LIMIT_WARP;
  for (gpu_limit unit = 0; unit < GPU_UNITS; unit++) {
    double cycles = blocks * gpu_limit_cycles(unit, x, speed, 0);
    if (cycles > most) most = cycles, *limit = unit;
  }
  return most;
}

// Of a block between two barriers, with these.
static inline double gpu_cycles(const gpu_work *x, const gpu_speed *speed) {
  gpu_limit most = gpu_longest(x, speed, gpu_cost_latency);
  return gpu_limit_cycles(most, x, speed, gpu_cost_latency) + x->barriers * GPU_COST_BARRIER_CYCLES;
}

// Cycles that all limits together grow by: of work that is one of many parts, none of which is the one
// that limits them.
static inline double gpu_cycles_added(const gpu_work *x) {
  const gpu_speed speed = {0};
  double cycles = 0;
  for (gpu_limit i = 0; i < GPU_LIMITS; i++)
    cycles += gpu_limit_cycles(i, x, &speed, gpu_cost_latency);
  return cycles;
}
