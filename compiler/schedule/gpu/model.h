// What a kernel costs on a device, by its plan. README.md describes the model.
#pragma once

#include "compiler/abi/gpu_work.h"
#include "compiler/plan/gpu/barriers.h"
#include "compiler/plan/kernel_plan.h"

// What the warps of a block do in a nest, or in a chunk.
typedef struct nest_work {
  gpu_work all;
  int used;  // warps with work; 0: all of the block
  // what `instructions` are made of: besides operations and accesses, turns of loops or of the
  // steps of a product, and what each warp or block of a product does once
  double operations, accesses, loops, begins, addresses;
} nest_work;

// A load or a store of a warp; bytes: outside of the multiprocessor.
typedef struct warp_access {
  double accesses, wavefronts, bytes;
} warp_access;

// operations.c: instructions of an operation; of these, so many of the special function units.
typedef struct operation_cost {
  double instructions, specials;
} operation_cost;
operation_cost model_cost_of_operation(const placed_program *p, tile_op op);

// solve_work.c
enum { MODEL_LANES = 32 };
// Sizes that are known at run time alone are typical ones.
int64_t model_size_of(const placed_program *p, int axis);
// Points of a nest along these axes.
double model_entries(const placed_program *p, axis_set axes);
// How often the warps of a block go through the body of a nest.
typedef struct model_turns {
  double all, busiest;
} model_turns;
model_turns model_turns_of(const placed_program *p, double points);
nest_work model_work_of_solve(const placed_program *p, const plan_nest *nest);

// vector_work.c: products by threads, and of a matrix of parameters and vectors.
nest_work model_work_by_threads(const placed_program *p, const plan_nest *nest);

// nest_work.c
// `since`: what the nests before it have touched.
nest_work model_work_of_nest(arena *scratch, const placed_program *p, const plan_nest *nest,
                             memory_since *since);

// time.c: cycles of a multiprocessor for a step of an instance.
gpu_speed gpu_speed_of(codegen_gpu_target target);
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
