// What a kernel costs on a device, by its plan. README.md describes the model.
#pragma once

#include "compiler/plan/gpu/nest_work.h"

// time.c: cycles of a multiprocessor for a step of an instance.
typedef struct gpu_time {
  double cycles;  // with as many blocks as a multiprocessor runs at a time
  double alone;   // of one block, by itself on a multiprocessor
  // of `alone`: for numbers from outside of the multiprocessor, and for copies of gradients
  double waits;
  // by which kernels are compared: the mean of calls with an instance for each multiprocessor, and
  // with many
  double cost;
  int64_t blocks;
  gpu_limit limit;
} gpu_time;
gpu_time gpu_time_of(const gpu_plan *made, codegen_gpu_target target);
// Do buffers of the kernel lie in scratch?
bool gpu_spills(const codegen_gpu_kernel *described);
// Value-axis tiles that an axis is cut into.
int64_t gpu_tiles(const kernel *k);
const char *gpu_limit_text(gpu_limit limit);
// The target whose kernels are chosen with these options.
codegen_gpu_target gpu_target_for(codegen_gpu_options options);

// model_text.c
char *gpu_model_text(arena *a, const kernel *const *kernels, int count,
                     codegen_gpu_options options);
