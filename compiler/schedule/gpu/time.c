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

gpu_speed gpu_speed_of(codegen_gpu_target target) {
  enum { MHZ_OF_GHZ = 1000 };
  const machine_rates *r = machine_rates_of(target);
  double per = MHZ_OF_GHZ / r->mhz / (double)machine_device_of(target)->multiprocessors;
  return (gpu_speed){.products = r->mma / gpu_cost_mma_slack,
                     .group_products = r->wgmma > 0 ? r->wgmma / gpu_cost_wgmma_slack
                                                    : r->mma / gpu_cost_mma_slack,
                     .cache_bytes = r->cache_gb * per,
                     .memory_bytes = r->memory_gb * per};
}

// Cycles of the parts of a multiprocessor that all its blocks share.
typedef struct unit_cycles {
  double of[LIMIT_COUNT];
} unit_cycles;

static unit_cycles units_of(const gpu_work *work, const gpu_speed *d) {
  unit_cycles x = {0};
  x.of[LIMIT_LATENCY] = work->busiest * gpu_cost_latency + work->far * GPU_COST_FAR;
  const gpu_use use = {.instructions = work->instructions,
                       .wavefronts = work->wavefronts,
                       .specials = work->specials,
                       .tensor = work->tensor / d->products + work->groups / d->group_products,
                       .bytes = work->bytes};
  for (gpu_unit unit = 0; unit < GPU_UNITS; unit++)
    x.of[unit] = gpu_unit_cycles(unit, &use, d->cache_bytes);
  return x;
}

static gpu_limit longest(const unit_cycles *x) {
  gpu_limit most = LIMIT_LATENCY;
  for (gpu_limit i = 0; i < LIMIT_COUNT; i++)
    if (x->of[i] > x->of[most]) most = i;
  return most;
}

// What a block does in a run of its programs.
typedef struct run_time {
  unit_cycles all;  // of all nests
  double alone;     // of nests one after another
  double waits;     // of `alone`: for numbers from outside of the multiprocessor
  double share;     // of the chunks, those that run the program
} run_time;

double gpu_nest_cycles(const gpu_work *work, const gpu_speed *device, gpu_limit *limit) {
  unit_cycles x = units_of(work, device);
  *limit = longest(&x);
  return x.of[*limit] + work->barriers * GPU_COST_BARRIER_CYCLES;
}

// The nests from a barrier to the next are one piece of work: a warp goes on to the next of them by
// itself. Nests with work for few warps begin at other warps each.
typedef struct interval {
  gpu_work work;  // but for `busiest`
  int warps;
  double of_warp[GPU_BLOCK_THREADS / MODEL_LANES];
} interval;

static void end_interval(run_time *r, interval *x, const gpu_speed *device) {
  gpu_limit limit;
  for (int i = 0; i < x->warps; i++)
    if (x->of_warp[i] > x->work.busiest) x->work.busiest = x->of_warp[i];
  gpu_work near = x->work;
  unit_cycles units = units_of(&x->work, device);
  near.far = 0;
  double all = gpu_nest_cycles(&x->work, device, &limit);
  r->alone += r->share * all;
  r->waits += r->share * (all - gpu_nest_cycles(&near, device, &limit));
  for (gpu_limit i = 0; i < LIMIT_COUNT; i++) r->all.of[i] += r->share * units.of[i];
  *x = (interval){.warps = x->warps};
}

static void add_work(interval *all, const gpu_work *x, int begin) {
  int used = x->used && x->used < all->warps ? x->used : all->warps;
  for (int i = 0; i < used; i++) all->of_warp[(begin + i) % all->warps] += x->busiest;
  all->work.instructions += x->instructions;
  all->work.wavefronts += x->wavefronts;
  all->work.specials += x->specials;
  all->work.tensor += x->tensor;
  all->work.groups += x->groups;
  all->work.bytes += x->bytes;
  all->work.barriers += x->barriers;
  if (x->far > all->work.far) all->work.far = x->far;
}

// The copies of a chunk's rows: instructions of all threads, and a wait, unless they come ahead.
static gpu_work work_of_rows(const kernel_plan *w, const program_plan *p) {
  enum { PIECE = 16 };
  gpu_work work = {.barriers = 1};
  for (int i = 0; p->program->form == TILE_CHUNK && i < p->program->arguments.count; i++) {
    if (!p->staging_buffers[i].row || !gpu_is_staged(p, i)) continue;
    double bytes = (double)p->staging_buffers[i].row * p->program->chunk;
    bytes *= kernel_stores_narrow(&w->m, tile_argument_place(p->program, i)) ? 2 : 4;
    work.bytes += bytes;
    work.instructions += GPU_COST_ROWS * ((double)w->threads / MODEL_LANES) +
                         GPU_COST_COPY * ceil(bytes / PIECE / MODEL_LANES);
    if (p->staging_buffers[i].ahead.offset < 0) work.far = 1;
  }
  work.busiest = work.instructions * MODEL_LANES / w->threads;
  return work;
}

static void add_program(run_time *r, const kernel_plan *w, const program_plan *p,
                        const gpu_speed *device) {
  arena *scratch = arena_new();
  placed_program program = {w, p};
  interval now = {.warps = w->threads / MODEL_LANES};
  gpu_work rows = work_of_rows(w, p);
  memory_since *since = plan_memory_since(scratch, p->p);
  for (int n = 0; n < p->p->nests.count; n++) {
    const plan_nest *nest = &p->p->nests.items[n];
    if (nest->region != REGION_BODY) continue;
    gpu_work work = model_work_of_nest(scratch, &program, nest, since);
    if (work.barriers > 0) end_interval(r, &now, device);
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

// What a block computes one after another: tiles of the value axis, heads.
static int64_t tiles_of_block(const kernel *k) {
  return (k->gpu.value_entries ? gpu_tiles(k) : 1) *
         (k->gpu.lanes == LANES_IN_TURN ? k->lane_block : 1);
}

// Bytes that a chunk of a tile writes and reads for its group: the states before its chunks, the
// cotangents of the tile, all sums.
static double kept_bytes(const codegen_gpu_kernel *described) {
  const kernel *k = described->base.kernel;
  if (k->kind != KERNEL_BACKWARD || k->program->form != TILE_CHUNK) return 0;
  double spilled = (double)described->spill_bytes / (double)tiles_of_block(k);
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
    if (place->role != TILE_D_INPUT || axis_in(kernel_axes_of_place(place), k->lane_axis)) continue;
    double all = 1;
    for (int x = 0; x < place->axis_count; x++)
      if (!axis_in(kernel_grid_of(k) & ~kernel_tiled_axes(k), place->axes[x]))
        all *= (double)k->recurrence->body.axes.items[place->axes[x]].size;
    numbers += all;
  }
  return 2 * 4 * numbers / (k->gpu.lanes == LANES_IN_TURN ? k->lane_block : 1);
}

// The states of a group come from the cache, copies of gradients from memory.
static double cycles_of_states(const gpu_plan *made, const gpu_speed *d) {
  return kept_bytes(&made->described) / d->cache_bytes;
}

static double cycles_of_copies(const gpu_plan *made, const gpu_speed *d) {
  return copied_bytes(&made->k) * made->k.program->chunk / d->memory_bytes;
}

// With one instance on a multiprocessor, which has `tiles` blocks.
static double cycles_of_one(const gpu_time *time, double tiles) {
  double rounds = ceil(tiles / (double)time->blocks), one = time->alone * rounds;
  return one > time->cycles ? one : time->cycles;
}

// ---- the time --------------------------------------------------------------------------------

gpu_time gpu_time_of(const gpu_plan *made, codegen_gpu_target target) {
  const kernel_plan *w = made->whole;
  const machine_device *whole = machine_device_of(target);
  // scratch that the cache does not hold is in memory
  gpu_speed own = gpu_speed_of(target), *device = &own;
  if (!gpu_stays_in_cache(&made->described, whole)) own.cache_bytes = own.memory_bytes;
  run_time r = {.share = 1};
  add_program(&r, w, &w->main, device);
  if (w->recomputes) {
    // the last chunk of a group needs no states behind it
    if (w->k->program->form == TILE_CHUNK) r.share = 1 - (double)w->k->program->chunk / w->k->chunk;
    add_program(&r, w, &w->recompute, device);
  }
  double copies = cycles_of_copies(made, device), bytes = cycles_of_states(made, device) + copies;
  double steps = w->k->program->chunk, tiles = (double)gpu_tiles(w->k);
  r.all.of[GPU_UNIT_CACHE] += bytes;
  gpu_time time = {.alone = (r.alone + bytes) / steps,
                   .waits = (r.waits + copies) / steps,
                   .blocks = gpu_blocks_at_a_time(&made->described, whole)};
  r.all.of[LIMIT_LATENCY] = time.alone * steps / (double)time.blocks;
  time.limit = longest(&r.all);
  time.cycles = tiles * r.all.of[time.limit] / steps;
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
  static const char *const texts[LIMIT_COUNT] = {
      [LIMIT_LATENCY] = "waits of its warps",
      [GPU_UNIT_ISSUE] = "instructions",
      [GPU_UNIT_SHARED] = "shared memory",
      [GPU_UNIT_TENSOR] = "products",
      [GPU_UNIT_SPECIAL] = "exponentials and quotients",
      [GPU_UNIT_CACHE] = "the second-level cache",
  };
  return texts[limit];
}
