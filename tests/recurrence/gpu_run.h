// GPU kernels compiled for the executor and run on the tensors of a trial, without the runtime.
#pragma once

#include "compiler/abi/simt.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"
#include "tests/recurrence/fixture.h"

typedef struct gpu_library {
  void *handle;
  codegen_gpu_object *object;
  number_type dtype;
} gpu_library;

// Compiles, links and loads the kernels; ends the test with a message if that fails.
gpu_library gpu_library_load(arena *a, const recurrence_kernels *kernels,
                             codegen_gpu_options options);

// One trial on the executor: tensors are read from and written to `t`.
typedef struct gpu_launch {
  arena *a;
  const gpu_library *lib;
  trial *t;
  const int32_t *cu_seqlens;
  bool bare;   // without initial states and without cotangents of final ones
  int blocks;  // of the grid
  int shift;   // tensors begin so many numbers behind a multiple of 16 bytes
  uint64_t seed;
  int64_t saved_elements;
  void *saved;
  simt_counts counts;
} gpu_launch;

gpu_launch gpu_launch_new(arena *a, const gpu_library *lib, trial *t, bool bare);
void gpu_launch_forget_saved(gpu_launch *l);
// Runs the kernel and sums what it left in copies; a fault ends the test with its message.
void gpu_launch_kernel(gpu_launch *l, kernel_kind kind);
