// What a kernel costs on a device, by its plan. README.md describes the model.
#ifndef REC_SCHEDULE_GPU_MODEL_H
#define REC_SCHEDULE_GPU_MODEL_H

#include "compiler/plan/gpu/barriers.h"
#include "compiler/plan/kernel_plan.h"

// What the warps of a block do in a nest, or in a chunk.
typedef struct gpu_work {
  double instructions;  // of all warps
  double busiest;       // of the warp that has most of them
  double wavefronts;    // of shared memory: accesses of a warp, as often as bank conflicts repeat them
  double specials;      // of `instructions`, those of the special function units
  double tensor;        // multiply-adds of tensor cores: mma
  double groups;        // the same of wgmma
  double bytes;         // between the multiprocessor and the second-level cache
  double far;           // accesses one after another that a warp waits for from there
  double barriers;
  // `instructions` of a nest of points are operations, accesses with their addresses, turns of loops, and of the nest
  double operations, accesses, loops, turns;
} gpu_work;

// accesses.c: the lanes of a warp at one turn of a nest, and where they read and write.
enum { MODEL_LANES = 32, MODEL_NEXT = MODEL_LANES, MODEL_PLACES };
typedef struct lane_indices {
  int32_t at[MODEL_PLACES];  // of each lane; the last: of lane 0, one step further along the vector axis
  axis_set by;               // axes of the nest that it moves with
} lane_indices;
typedef struct warp_place {
  const lane_indices *index[PLAN_MAX_AXES];  // NULL: 0 in all lanes
  int active;                                // lanes with a point
} warp_place;
// Memory of a value or an argument.
typedef struct model_memory {
  bool known, shared;
  int bytes;  // of a number
  number_type stored;
  plan_layout layout;
  int64_t width, tile;  // wgmma's layout: numbers of a row, and of a tile of columns; 0: rows one after another
  int64_t stride[PLAN_MAX_AXES];
} model_memory;
// A load or a store of a warp, `numbers` neighbours by each lane.
typedef struct warp_access {
  double accesses, wavefronts, bytes;  // bytes: outside of the multiprocessor
} warp_access;
typedef struct model_program {
  arena *scratch;
  const kernel_plan *w;
  const program_plan *of;
} model_program;
// Sizes that are known at run time alone are typical ones.
int64_t model_size_of(const model_program *p, int axis);
model_memory model_memory_of(const model_program *p, tile_id id);
model_memory model_memory_of_buffer(const model_program *p, int buffer);
warp_access model_access(const model_memory *m, const warp_place *at, int numbers);
// Goes below the index maps over a value: `at` becomes the place there. The places that maps make lie in `made`.
enum { MODEL_MOST_MAPS = 24 };
typedef struct model_maps {
  lane_indices made[MODEL_MOST_MAPS];
  int count;
} model_maps;
tile_id model_below_maps(const model_program *p, tile_id id, warp_place *at, model_maps *maps);

// operations.c: instructions of an operation; of these, so many of the special function units.
typedef struct operation_cost {
  double instructions, specials;
} operation_cost;
operation_cost model_cost_of_operation(const model_program *p, tile_op op);

// solve_work.c: points of a nest along these axes.
double model_entries(const model_program *p, axis_set axes);
// How often the warps of a block go through the body of a nest.
typedef struct model_turns {
  double all, busiest;
} model_turns;
model_turns model_turns_of(const model_program *p, double points);
gpu_work model_work_of_solve(const model_program *p, const plan_nest *nest);

// nest_work.c
// `since`: what the nests before it have touched.
gpu_work model_work_of_nest(const model_program *p, const plan_nest *nest, memory_since *since);

// time.c: cycles of a multiprocessor for a step of an instance.
typedef enum gpu_limit {
  LIMIT_LATENCY,
  LIMIT_ISSUE,
  LIMIT_SHARED,
  LIMIT_TENSOR,
  LIMIT_SPECIAL,
  LIMIT_CACHE,
  LIMIT_COUNT
} gpu_limit;
// In a cycle of a multiprocessor: multiply-adds by mma and by wgmma, bytes of the second-level cache and of memory.
typedef struct gpu_speed {
  double products, group_products, cache_bytes, memory_bytes;
} gpu_speed;
gpu_speed gpu_speed_of(codegen_gpu_target target);
typedef struct gpu_time {
  double cycles;  // with as many blocks as a multiprocessor runs at a time
  double alone;   // of one block, by itself on a multiprocessor
  double waits;   // of `alone`: for numbers from outside of the multiprocessor
  double cost;    // by which kernels are compared: the mean of calls with an instance for each multiprocessor, and with many
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
char *gpu_model_text(arena *a, const kernel *const *kernels, int count, codegen_gpu_options options);

#endif
