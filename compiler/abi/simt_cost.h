// What GPU code costs, counted while the executor runs it (runtime/support/simt/cost.c). Code that `recc
// --count` has made says in segments what it consists of, and in places what it is for.
//
//   segment 17: 3 fp32, 2 int, 1 lds        a run of instructions without barrier or branch, as PTX has them
//   place 4: gla.rec:12, "3 body points .." a nest, or what stands around nests
#pragma once

#include <stdint.h>

#include "compiler/abi/gpu_costs.h"

typedef enum simt_class {
#define SIMT_CLASS(id, column, what) SIMT_##id,
#include "compiler/abi/simt_classes.def"
#undef SIMT_CLASS
  SIMT_CLASSES
} simt_class;

// Constants of the code that is counted.
typedef struct simt_segment {
  int32_t number;
  int32_t issued;  // instructions that take a turn of the scheduler
  int32_t counts[SIMT_CLASSES];
} simt_segment;

typedef struct simt_place {
  int32_t number, line;
  const char *kernel, *file, *text;
} simt_place;

// What bounds the time between two barriers: a gpu_unit, or the busiest warp, whose instructions
// wait for each other.
enum { BOUND_WARP = GPU_UNITS, BOUND_COUNT };

// The model has the time twice: for warps whose instructions wait little, and much (gpu_costs.def,
// swift and slow).
enum { SIMT_PACES = 2 };

// Sums over blocks; all members are doubles.
typedef struct simt_place_cost {
  double instructions[SIMT_CLASSES], issued;  // of warps
  double lanes;                               // active, summed over issued instructions
  double busiest;                             // issued by the busiest warp of each interval
  // cycles of the last pace, times the part of the block's threads at work
  double worked;
  double wavefronts, least_wavefronts;  // of shared memory
  double sectors, least_sectors;        // of global memory
  double tensor;                        // cycles of the tensor cores
  double intervals;                     // that end here: barriers of the block
  // bound: cycles of the first pace, by what bounds them
  double cycles[SIMT_PACES], bound[BOUND_COUNT];
} simt_place_cost;

// A kernel that was started.
typedef struct simt_kernel {
  const char *name;
  int64_t launches, items, blocks;  // sums over its launches: work items, thread blocks
  int32_t threads, shared_bytes;
} simt_kernel;

enum { SIMT_MOST_KERNELS = 16 };

typedef struct simt_cost {
  // Of a multiprocessor in a cycle, set by the caller (gpu_model_rates): multiply-adds of tensor
  // cores, wgmma 0: as mma; bytes of the second-level cache, 0: without limit.
  double mma, wgmma, cache;
  simt_kernel kernels[SIMT_MOST_KERNELS];
  int32_t kernel_count, count, room;
  const simt_place **places;  // by number; NULL: never run
  simt_place_cost *costs;     // by number; both are freed by the caller
} simt_cost;
