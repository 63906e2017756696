// The GPUs that the model has in mind, one for each target (gpu_targets.def).
#pragma once

#include "compiler/abi/gpu_work.h"

typedef struct gpu_machine {
  const char *target, *name;
  // of the class whose kernels the executor runs for it: rec_simt_options, device_number
  int number;
  int64_t multiprocessors;
  int64_t shared_kib;  // that a multiprocessor has for all its blocks
  int64_t cache_mib;   // the second-level cache
  // multiply-adds in a cycle of a multiprocessor by mma and by wgmma; GB/s of that cache and of memory
  double mhz, cache_gb, mma, wgmma, memory_gb;
} gpu_machine;

// By the row of the target.
gpu_machine gpu_machine_at(int row);
// The row of a target; -1: the table has no such target.
int gpu_machine_row(const char *target);
// Bytes that a multiprocessor gets in a cycle where all of them together get so many GB/s; what a
// multiprocessor does in a cycle.
double gpu_bytes_in_cycle(const gpu_machine *device, double gb);
gpu_speed gpu_speed_of(const gpu_machine *device);
