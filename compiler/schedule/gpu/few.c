// Kernels for calls with few instances: blocks with all the memory to themselves, or with fewer
// columns of the states.
//
//   gla forward, 8 instances on 132 multiprocessors: 8 blocks of 128 columns .. 16 blocks of 64
#include <math.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/schedule/gpu/instances.h"
#include "compiler/schedule/gpu/schedule.h"

// The axis whose tiles may be blocks of their own; -1: there is none.
static int axis_of_tiles(const kernel *k) {
  if (k->kind == KERNEL_BACKWARD && !gpu_may_have_tiles(k)) return -1;
  if (k->gpu.lanes == LANES_TILE) return k->lane_axis;
  if (k->lane_axis >= 0) return -1;
  return k->gpu.value_entries ? k->gpu.value_axis : gpu_value_axis(k);
}

static void forget_cut(const kernel *cut, const kernel *whole) {
  if (cut->gpu.plan != whole->gpu.plan) gpu_plan_free(cut->gpu.plan);
}

enum { MOST_TILES = 4 };  // of an instance that are blocks of their own

static int64_t tiles_apart(const kernel *k) {
  return k->gpu.lanes == LANES_TILE ? gpu_tiles(k) : 1;
}

// What a kernel saves of three calls, with an instance for every multiprocessor, for every second
// and for every fourth. Calls whose blocks have no multiprocessors of their own run the usual
// kernel.
static int64_t saved_by(const kernel *k, const kernel *usual) {
  int64_t each = usual->gpu.cycles_alone - k->gpu.cycles_alone, calls = 0;
  for (int64_t tiles = tiles_apart(k); tiles <= MOST_TILES; tiles *= 2) calls++;
  return each * calls;
}

// The same with as many columns in a block as save most.
static kernel with_fewer_columns(arena *a, const kernel *whole, const kernel *usual,
                                 codegen_gpu_options options) {
  int axis = axis_of_tiles(whole);
  int64_t size = axis < 0 ? 0 : whole->program->axes.items[axis].size;
  kernel best = *whole;
  for (int64_t entries = whole->gpu.value_entries ? size : size / 2;
       entries >= GPU_COST_FEWEST_ENTRIES; entries /= 2) {
    kernel cut = gpu_cut_into_instances(a, whole, axis, (int)entries);
    if (size % entries != 0 || tiles_apart(&cut) > MOST_TILES) break;
    cut.gpu.plan = gpu_plan_new(&cut, options);
    gpu_time time = gpu_time_of(cut.gpu.plan, gpu_target_for(options));
    gpu_set_times(&cut, &time);
    bool better = saved_by(&cut, usual) > saved_by(&best, usual);
    forget_cut(better ? &best : &cut, whole);
    if (better) best = cut;
  }
  return best;
}

// What slices cost, in steps of this kernel in place of the usual one.
static void weigh_slices_of(kernel *few, const kernel *usual) {
  enum { STEPS = 64 };
  double steps = (double)usual->gpu.cycles_alone / few->gpu.cycles_alone;
  if (few->summary)
    few->gpu.combine_steps = (int)ceil(STEPS * gpu_cost_of_combining(few) / few->gpu.cycles_alone);
  few->gpu.summary_percent = (int)ceil(usual->gpu.summary_percent * steps);
}

void gpu_add_few(arena *a, recurrence_kernels *kernels, kernel_kind kind,
                 codegen_gpu_options options) {
  kernel *usual = schedule_kernel(kernels, kind);
  const kernel *alone = &kernels->alone[kind == KERNEL_BACKWARD];
  if (usual->program->form != TILE_CHUNK) return;
  gpu_time time = gpu_time_of(usual->gpu.plan, gpu_target_for(options));
  gpu_set_times(usual, &time);
  kernel few = with_fewer_columns(a, alone, usual, options);
  double three_calls = 3.0 * usual->gpu.cycles_alone;
  if (three_calls - (double)saved_by(&few, usual) > gpu_cost_few_worth * three_calls) {
    forget_cut(&few, alone);
    return;
  }
  few.gpu.few = true;
  few.symbol = arena_printf(a, "%s_few", usual->symbol);
  weigh_slices_of(&few, usual);
  gpu_plan_kernels(a, &few, 1, options);
  vec_push(a, &kernels->kernels, few);
}
