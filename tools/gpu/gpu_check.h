/* rec-gpu-check: what a machine with a GPU and nothing else runs. Every finding is one line of JSON on standard output. */
#ifndef REC_GPU_CHECK_H
#define REC_GPU_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/support/cuda_driver.h"

/* A GPU in use: its context is current. */
typedef struct gpu {
  const cuda_driver *driver;
  cuda_context context;
  int multiprocessors;
} gpu;

/* False after a line that says why there is none. */
bool gpu_open(gpu *g);
/* A kernel of PTX; false after a message. */
bool gpu_kernel(const gpu *g, const char *ptx, const char *name, cuda_function *function);
/* False after the driver's message. */
bool gpu_good(const gpu *g, cuda_result result, const char *call);
double seconds_now(void);

/* Each returns how many failed. */
int check_device(const gpu *g);
int check_ops(const gpu *g);
int check_library(const char *path);
int measure_machine(const gpu *g);
int measure_shapes(const gpu *g, const char *folder, const char *shapes);

#endif
