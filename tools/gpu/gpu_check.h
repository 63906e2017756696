// rec-gpu-check: what a machine with a GPU and nothing else runs. Every finding is one line of JSON on standard output.
#ifndef REC_GPU_CHECK_H
#define REC_GPU_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/support/cuda_driver.h"

// A GPU in use: its context is current.
typedef struct gpu {
  const cuda_driver *driver;
  cuda_context context;
  int multiprocessors, capability;  // 90: 9.0
} gpu;

// A row of the table of abstract operations, and its kernel for the executor.
typedef struct gpu_operation {
  const char *name, *result, *arguments;
  void (*body)(const void *parameter);
} gpu_operation;

// False after a line that says why there is none.
bool gpu_open(gpu *g);
// A module of PTX, a kernel of it, and the two together; false after a message.
bool gpu_module(const gpu *g, const char *ptx, cuda_module *module);
bool gpu_function(const gpu *g, cuda_module module, const char *name, cuda_function *function);
bool gpu_kernel(const gpu *g, const char *ptx, const char *name, cuda_function *function);
// False after the driver's message.
bool gpu_good(const gpu *g, cuda_result result, const char *call);
double seconds_now(void);

// Both bodies of an operation that four warps or an mbarrier are needed for: the largest difference, or infinity after a message.
bool is_group_operation(const gpu_operation *o);
double compare_group_operation(const gpu *g, const gpu_operation *o, cuda_function function);

// Each returns how many failed.
int check_device(const gpu *g);
int check_ops(const gpu *g, int count, char **names);  // no names: all
int check_library(const char *path);
int measure_machine(const gpu *g, bool print);
int measure_shapes(const gpu *g, const char *folder, const char *shapes);
void print_op_names(void);

#endif
