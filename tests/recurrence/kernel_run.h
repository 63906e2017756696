// Kernels compiled for this machine and run on the tensors of a trial, without the runtime.
#pragma once

#include "compiler/schedule/schedule.h"
#include "tests/recurrence/load.h"

typedef struct library {
  void *handle;
  codegen_object *object;
} library;

// Compiles, links and loads the kernels; ends the test with a message if that fails.
library kernel_library(arena *a, const recurrence_kernels *kernels, codegen_options options);

// One trial on one clone: tensors are read from and written to `t`.
typedef struct launch {
  arena *a;
  const library *lib;
  codegen_clone clone;
  trial *t;
  bool f64, bare;  // bare: without initial states and without cotangents of final ones
  int64_t saved_elements;
  void *saved;
} launch;

launch launch_new(arena *a, const library *lib, codegen_clone clone, trial *t, bool f64, bool bare);
// Saved states are overwritten with zeros.
void launch_forget_saved(launch *l);
void launch_kernel(launch *l, kernel_kind kind);

// Fails with `what` if tensors, gradients or states of the trials differ by more than `allowed`.
// The difference is relative to the largest number of each, or to 1.
void assert_equal_runs(trial *t, trial *u, double allowed, const char *what);
