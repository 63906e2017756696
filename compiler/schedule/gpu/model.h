// What a kernel costs on a device, by its plan. README.md describes the model.
#pragma once

#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/gpu/barriers.h"
#include "compiler/plan/kernel_plan.h"

// What the warps of a block do in a nest, or in a chunk.
typedef struct gpu_work {
  double instructions;  // of all warps
  double busiest;       // of the warp that has most of them
  int used;             // warps with work; 0: all of the block
  // of shared memory: accesses of a warp, as often as bank conflicts repeat them
  double wavefronts;
  double specials;  // of `instructions`, those of the special function units
  double tensor;    // multiply-adds of tensor cores: mma
  double groups;    // the same of wgmma
  double bytes;     // between the multiprocessor and the second-level cache
  double far;       // accesses one after another that a warp waits for from there
  double barriers;
  // what `instructions` are made of: besides operations and accesses, turns of loops or of the
  // steps of a product, and what each warp or block of a product does once
  double operations, accesses, loops, begins, addresses;
} gpu_work;

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
gpu_work model_work_of_solve(const placed_program *p, const plan_nest *nest);

// vector_work.c: products by threads, and of a matrix of parameters and vectors.
gpu_work model_work_by_threads(const placed_program *p, const plan_nest *nest);

// nest_work.c
// `since`: what the nests before it have touched.
gpu_work model_work_of_nest(arena *scratch, const placed_program *p, const plan_nest *nest,
                            memory_since *since);

// time.c: cycles of a multiprocessor for a step of an instance.
// What limits it: a gpu_unit, or LIMIT_LATENCY.
typedef int gpu_limit;
enum { LIMIT_LATENCY = GPU_UNITS, LIMIT_COUNT };
// In a cycle of a multiprocessor: multiply-adds by mma and by wgmma, bytes of the second-level
// cache and of memory.
typedef struct gpu_speed {
  double products, group_products, cache_bytes, memory_bytes;
} gpu_speed;
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
// Of a nest by itself, with its barrier; what limits it.
double gpu_nest_cycles(const gpu_work *work, const gpu_speed *device, gpu_limit *limit);
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
