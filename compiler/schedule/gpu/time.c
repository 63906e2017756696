// The time of a kernel on a device, by the work of its nests.
//
//   a nest of a block    the longest of: its instructions on four schedulers, those of its busiest warp one after another,
//                        its wavefronts, its exponentials, its products, its bytes; and a barrier
//   a block alone        the sum over its nests
//   a multiprocessor     as many blocks as fit: each waits while others work, until one of its units is always busy
#include <math.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/schedule/gpu/model.h"
#include "compiler/schedule/gpu/schedule.h"

// What a block does in a run of its programs.
typedef struct run_time {
  gpu_work all;  // of all nests
  double alone;  // cycles of nests one after another
  double waits;  // of `alone`: for numbers from outside of the multiprocessor
  double share;  // of the chunks, those that run the program
} run_time;

// The nests from a barrier to the next are one piece of work: a warp goes on to the next of them by
// itself. Nests with work for few warps begin at other warps each.
typedef struct interval {
  gpu_work work;  // but for `busiest`
  int warps;
  double of_warp[GPU_BLOCK_THREADS / GPU_WARP_LANES];
} interval;

static void end_interval(run_time *r, interval *x, const gpu_speed *device) {
  for (int i = 0; i < x->warps; i++)
    if (x->of_warp[i] > x->work.busiest) x->work.busiest = x->of_warp[i];
  gpu_work near = x->work;
  near.far = 0;
  double all = gpu_cycles(&x->work, device);
  r->alone += r->share * all;
  r->waits += r->share * (all - gpu_cycles(&near, device));
  gpu_add_work(&r->all, &x->work, r->share);
  *x = (interval){.warps = x->warps};
}

static void add_work(interval *all, const nest_work *x, int begin) {
  int used = x->used && x->used < all->warps ? x->used : all->warps;
  for (int i = 0; i < used; i++) all->of_warp[(begin + i) % all->warps] += x->all.busiest;
  double far = fmax(all->work.far, x->all.far);
  gpu_add_work(&all->work, &x->all, 1);
  all->work.busiest = 0, all->work.far = far;
}

// The copies of a chunk's rows: instructions of all threads, and a wait, unless they come ahead.
static nest_work work_of_rows(const kernel_plan *w, const program_plan *p) {
  enum { PIECE = 16 };
  gpu_work work = {.barriers = 1};
  for (int i = 0; p->program->form == TILE_CHUNK && i < p->program->arguments.count; i++) {
    if (!p->staging_buffers[i].row || !gpu_is_staged(p, i)) continue;
    double bytes = (double)p->staging_buffers[i].row * p->program->chunk;
    bytes *= kernel_stores_narrow(&w->m, tile_argument_place(p->program, i)) ? 2 : 4;
    work.bytes += bytes;
    work.instructions += GPU_COST_ROWS * ((double)w->threads / GPU_WARP_LANES) +
                         GPU_COST_COPY * ceil(bytes / PIECE / GPU_WARP_LANES);
    if (p->staging_buffers[i].ahead.offset < 0) work.far = 1;
  }
  work.busiest = work.instructions * GPU_WARP_LANES / w->threads;
  return (nest_work){.all = work};
}

static void add_program_time(run_time *r, const kernel_plan *w, const program_plan *p,
                             const gpu_speed *device) {
  arena *scratch = arena_new();
  placed_program program = gpu_placed(w, p);
  interval now = {.warps = w->threads / GPU_WARP_LANES};
  nest_work rows = work_of_rows(w, p);
  memory_since *since = plan_memory_since(scratch, p->p);
  vec_each(const plan_nest, nest, p->p->nests) {
    if (nest->region != REGION_BODY) continue;
    nest_work work = gpu_work_of_nest(scratch, &program, nest, since, NULL);
    if (work.all.barriers > 0) end_interval(r, &now, device);
    add_work(&now, &work, nest->threads.begin);
  }
  end_interval(r, &now, device);
  add_work(&now, &rows, 0);
  end_interval(r, &now, device);
  arena_free(scratch);
}

// ---- bytes of a whole kernel -----------------------------------------------------------------

bool gpu_spills(const codegen_gpu_kernel *described) {
  enum { FEW = 64 };  // what rounding adds
  int64_t kept = described->history_bytes + described->spill_bytes + described->sum_bytes;
  return described->base.scratch.constant - kept > FEW;
}

int64_t gpu_tiles(const kernel *k) {
  int axis = k->gpu.value_entries         ? k->gpu.value_axis
             : k->gpu.lanes == LANES_TILE ? k->lane_axis
                                          : -1;
  return axis < 0 ? 1
                  : k->recurrence->body.axes.items[axis].size / k->program->axes.items[axis].size;
}

// Bytes that a chunk of a tile writes and reads for its group: the states before its chunks, the
// cotangents of the tile, all sums.
static double kept_bytes(const codegen_gpu_kernel *described) {
  const kernel *k = described->base.kernel;
  if (k->kind != KERNEL_BACKWARD || k->program->form != TILE_CHUNK) return 0;
  double spilled = (double)described->spill_bytes / (double)gpu_most_value_tiles(k);
  return 2 * ((double)(described->history_bytes + described->sum_bytes) + spilled) *
         k->program->chunk / k->chunk;
}

// Bytes of gradient copies that a step of a block writes and reads, because heads or tiles of other
// blocks share the gradient.
static double copied_bytes(const kernel *k) {
  double numbers = 0;
  if (k->gpu.lanes == LANES_OWN ||
      k->recurrence->body.axes.items[k->lane_axis].size == k->lane_block)
    return 0;
  for (int i = 0; i < k->program->results.count; i++) {
    const tile_place *place = &k->program->results.items[i].place;
    if (place->role != TILE_D_INPUT || axis_in(tile_body_axes(place), k->lane_axis)) continue;
    double all = 1;
    for (int x = 0; x < place->axis_count; x++)
      if (!axis_in(kernel_grid_of(k) & ~kernel_tiled_axes(k), place->axes[x]))
        all *= (double)k->recurrence->body.axes.items[place->axes[x]].size;
    numbers += all;
  }
  return 2 * 4 * numbers / gpu_heads_in_turn(k);
}

// With one instance on a multiprocessor, which has `tiles` blocks.
static double cycles_of_one(const gpu_time *time, double tiles) {
  double rounds = ceil(tiles / (double)time->blocks), one = time->alone * rounds;
  return one > time->cycles ? one : time->cycles;
}

// ---- the time --------------------------------------------------------------------------------

gpu_time gpu_time_of(const gpu_plan *made, codegen_gpu_target target) {
  const kernel_plan *w = made->whole;
  const gpu_machine whole = machine_device_of(target);
  // scratch that the cache does not hold is in memory
  gpu_speed own = gpu_speed_of(&whole), *device = &own;
  double memory = gpu_bytes_in_cycle(&whole, whole.memory_gb);
  if (!gpu_stays_in_cache(&made->described, &whole)) own.cache = memory;
  run_time r = {.share = 1};
  add_program_time(&r, w, &w->main, device);
  if (w->recomputes) {
    // the last chunk of a group needs no states behind it
    if (w->k->program->form == TILE_CHUNK) r.share = 1 - (double)w->k->program->chunk / w->k->chunk;
    add_program_time(&r, w, &w->recompute, device);
  }
  double steps = w->k->program->chunk, tiles = (double)gpu_tiles(w->k);
  // the states of a group come from the cache, copies of gradients from memory
  double copies = copied_bytes(&made->k) * steps / memory,
         bytes = kept_bytes(&made->described) / own.cache + copies;
  r.all.bytes += bytes * own.cache;
  gpu_time time = {.alone = (r.alone + bytes) / steps,
                   .waits = (r.waits + copies) / steps,
                   .blocks = gpu_blocks_at_a_time(&made->described, &whole)};
  double blocks = (double)time.blocks,
         all = gpu_cycles_together(&r.all, device, blocks, time.alone * steps, &time.limit);
  time.cycles = tiles * all / blocks / steps;
  if (w->k->gpu.value_entries) time.alone *= tiles;
  time.cost = (cycles_of_one(&time, w->k->gpu.value_entries ? 1 : tiles) + time.cycles) / 2;
  return time;
}

// A target of this class; if none is asked for, the first that will run the kernels nevertheless.
codegen_gpu_target gpu_target_for(codegen_gpu_options options) {
  device_class wanted = options.warpgroups                    ? CLASS_WARPGROUPS
                        : options.shared_kib >= GPU_LARGE_KIB ? CLASS_LARGE
                                                              : CLASS_SMALL;
  codegen_gpu_target others = GPU_SIMT;
  for (codegen_gpu_target target = 0; target < GPU_SIMT; target++) {
    if (!(options.targets >> target & 1)) continue;
    if (codegen_gpu_class(target) == wanted) return target;
    bool larger = codegen_gpu_class(target) >= wanted;
    if (others == GPU_SIMT && larger) others = target;
  }
  if (others != GPU_SIMT) return others;
  return wanted == CLASS_SMALL ? GPU_SM_80 : wanted == CLASS_LARGE ? GPU_SM_100A : GPU_SM_90A;
}

const char *gpu_limit_text(gpu_limit limit) {
  static const char *const texts[GPU_LIMITS] = {
      [GPU_LIMIT_WARP] = "waits of its warps",
      [GPU_LIMIT_ISSUE] = "instructions",
      [GPU_LIMIT_SHARED] = "shared memory",
      [GPU_LIMIT_TENSOR] = "products",
      [GPU_LIMIT_SPECIAL] = "exponentials and quotients",
      [GPU_LIMIT_CACHE] = "the second-level cache",
  };
  return texts[limit];
}
