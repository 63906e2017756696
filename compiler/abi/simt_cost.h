// What GPU code costs, counted while the executor runs it (runtime/support/simt/cost.c). Code that `recc
// --count` has made says in segments what it consists of, and in places what it is for.
//
//   segment 17: 3 fp32, 2 int, 1 lds        a run of instructions without barrier or branch, as PTX has them
//   place 4: gla.rec:12, "3 body points .." a nest, or what stands around nests
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "compiler/abi/gpu_work.h"

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

// The model has the time twice: for warps whose instructions wait little, and much (gpu_costs.def,
// swift and slow).
enum { SIMT_PACES = 2 };

// Sums over blocks; all members are doubles.
typedef struct simt_place_cost {
  gpu_work work;                      // `instructions`: that are issued; `barriers`: that end here
  double instructions[SIMT_CLASSES];  // of warps
  double lanes;                       // active, summed over issued instructions
  // cycles of the last pace, times the part of the block's threads at work
  double worked;
  double least_wavefronts, least_sectors;
  // bound: cycles of the first pace, by what limits them
  double cycles[SIMT_PACES], bound[GPU_LIMITS];
} simt_place_cost;

static inline void simt_add_place_cost(simt_place_cost *to, const simt_place_cost *x,
                                       double factor) {
  double *sums = (double *)to;
  const double *numbers = (const double *)x;
  for (size_t i = 0; i < sizeof *x / sizeof *numbers; i++) sums[i] += factor * numbers[i];
}

// A kernel that was started.
typedef struct simt_kernel {
  const char *name;
  int64_t launches, items, blocks;  // sums over its launches: work items, thread blocks
  int32_t threads, shared_bytes;
} simt_kernel;

enum { SIMT_MOST_KERNELS = 16 };

typedef struct simt_cost {
  gpu_speed speed;  // set by the caller (gpu_speed_of)
  simt_kernel kernels[SIMT_MOST_KERNELS];
  int32_t kernel_count, count, room;
  const simt_place **places;  // by number; NULL: never run
  simt_place_cost *costs;     // by number; both are freed by the caller
} simt_cost;
