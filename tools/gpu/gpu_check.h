// rec-gpu-check: what a machine with a GPU and nothing else runs. Every finding is one line of JSON
// on standard output.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/support/cuda_driver.h"
#include "tests/runtime/problem.h"

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
// The text of gpu_ops, gpu_ops_sm_90a, machine or micro; NULL: no such module.
const char *gpu_ptx(const char *name);
// A module: the file cubins/NAME.cubin where there is one, else its PTX. Then a kernel of it. False
// after a message.
bool gpu_module(const gpu *g, const char *name, cuda_module *module);
bool gpu_function(const gpu *g, cuda_module module, const char *name, cuda_function *function);
// False after the driver's message.
bool gpu_good(const gpu *g, cuda_result result, const char *call);
// Of one call, the median of some rounds; 0 after a call that failed.
typedef bool timed_call(void *data);
double seconds_of(const gpu *g, timed_call *call, void *data);
double median_of(double *figures, int count);

// The kernel of an operation in one block, by both of its bodies. The GPU begins with what is in
// by_gpu.
typedef struct operation_run {
  const gpu_operation *operation;
  int threads, shared_bytes;
  const void *in;
  void *by_gpu, *by_simt;
  size_t in_bytes, out_bytes;
} operation_run;
// `memory`: the GPU's, for what is read and what is written. False after a message.
bool run_operation(const gpu *g, cuda_function function, cuda_pointer memory,
                   const operation_run *run);

// Both bodies of an operation that four warps are needed for: the largest difference, or infinity
// after a message.
bool is_group_operation(const gpu_operation *o);
double compare_group_operation(const gpu *g, const gpu_operation *o, cuda_function function);

// Each returns how many failed.
int check_device(const gpu *g);
int check_ops(const gpu *g, int count, char **names);  // no names: all
int check_library(const char *path);
int measure_machine(const gpu *g);
int measure_micros(const gpu *g);
// `once`: one call of each pass, not timed and not checked.
int measure_shapes(const gpu *g, const char *folder, const char *shapes, bool once);
// The first shape of the file is timed in turn with the others, whose labels say what their
// libraries are made without.
int measure_passes(const gpu *g, const char *folder, const char *shapes);
void print_op_names(void);
char *micro_ptx(void);

// Numbers in the domains of the recurrence's case (tests/runtime/grid_cases.h).
void draw_in_domains(const rec_recurrence *recurrence, problem *p, uint64_t seed);
double in_domain_of(const rec_recurrence *recurrence, const char *variable, double x);
// The largest error of a call on the GPU against the host, and how large rounding to the tokens'
// type may make it; infinity with a message in `where` if one of them did not run.
double error_of_call(const rec_recurrence *recurrence, const problem *inputs,
                     rec_run_options options, char *where, size_t size);
double least_tolerance(const rec_recurrence *recurrence);
// How far the host's results move where each input is smaller by at most one rounding to the
// tokens' type. The interpreter, which says the same, takes too long for large shapes.
double movement_on_host(const rec_recurrence *recurrence, const problem *inputs,
                        rec_run_options options);
// Prints how long a first call on the GPU takes, which loads all kernels of the recurrence. Frees
// the problem, of one step.
void time_loading(const rec_recurrence *recurrence, const char *path, problem *one);
// A line of JSON with the members that come first.
void print_check(const char *members, bool passed, double error, double tolerance,
                 const char *where);
