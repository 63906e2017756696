// Chunk lengths, value-axis tiles, threads and time slices of GPU kernels. The shared memory of a thread block decides.
//
//   gla forward, K = V = 128, bf16: 64 steps, all of V: 160 KiB of scratch .. 32 steps, 64 of V: all in shared memory
//
// Columns of a state along the value axis are independent. Each instance may have a tile of them; the values that tiles share
// are computed in each.
#include "compiler/schedule/gpu/schedule.h"

#include <math.h>
#include <string.h>

#include "compiler/plan/kernel_plan.h"
#include "compiler/schedule/cost.h"
#include "compiler/schedule/programs.h"
#include "runtime/shared/gpu_costs.h"

// ---- tiles of the value axis ----

static const tile_program *with_tile_of(arena *a, const tile_program *program, int axis, int entries) {
  if (!program) return NULL;
  program_work w = {.from = program, .axis = axis, .entries = entries};
  program_run(a, PROGRAM_TILE, &w);
  return w.made;
}

// The longest axis of known size that is a tile of the kernel and may be cut; -1: there is none.
static int value_axis(const kernel *k) {
  int best = -1;
  axis_set cut = k->cut;
  for (int i = 0; i < k->grid_count; i++) cut &= ~axis_bit(k->grid_axes[i]);
  for (int axis = 0; axis < k->recurrence->body.axes.count; axis++) {
    int64_t size = k->program->axes.items[axis].size;
    if (!axis_in(cut, axis) || size == TILE_RUNTIME_SIZE) continue;
    if (best < 0 || size > k->program->axes.items[best].size) best = axis;
  }
  return best;
}

// Instances with `entries` of the axis each.
static kernel cut_into_instances(arena *a, const kernel *whole, int axis, int entries) {
  kernel k = *whole;
  k.program = with_tile_of(a, whole->program, axis, entries);
  k.recompute = with_tile_of(a, whole->recompute, axis, entries);
  k.lane_axis = axis;
  k.lane_block = entries;
  k.gpu.lanes = LANES_TILE;
  return k;
}

// ---- value-axis tiles one after another ----

// An instance that computes the tiles of the axis one after another, in every group of chunks.
static kernel cut_into_tiles(arena *a, const kernel *whole, int axis, int entries) {
  kernel k = *whole;
  k.program = with_tile_of(a, whole->program, axis, entries);
  k.recompute = with_tile_of(a, whole->recompute, axis, entries);
  k.gpu.value_axis = axis;
  k.gpu.value_entries = entries;
  return k;
}

static bool lacks(const tile_place *place, int axis) {
  for (int x = 0; x < place->axis_count; x++)
    if (place->axes[x] == axis) return false;
  return true;
}

// Do instances along this axis share tokens, whose gradients they would add up? No state may lack the axis.
static bool has_shared_gradients(const tile_program *p, int axis) {
  bool shared = false;
  for (int i = 0; i < p->results.count; i++) {
    const tile_place *place = &p->results.items[i].place;
    if (!lacks(place, axis)) continue;
    if (place->role == TILE_D_STATE) return false;
    shared = shared || (place->role == TILE_D_INPUT && place->axis_count);
  }
  return shared;
}

// Heads that share keys: each head would write a copy of the keys' gradients, to be read and added up. An instance of a few
// heads makes fewer copies. It also makes fewer blocks, and the cotangents of its heads lie in its scratch.
static kernel share_gradients(const kernel *whole, int heads) {
  kernel k = *whole;
  for (int i = k.grid_count - 1; i >= 0; i--) {
    int axis = k.grid_axes[i];
    int64_t size = k.program->axes.items[axis].size;
    if (size == 1 || !has_shared_gradients(k.program, axis)) continue;
    memmove(&k.grid_axes[i], &k.grid_axes[i + 1], (size_t)(k.grid_count - 1 - i) * sizeof(int));
    k.grid_count--;
    k.lane_axis = axis;
    k.lane_block = size != TILE_RUNTIME_SIZE && size < heads ? (int)size : heads;
    k.gpu.lanes = LANES_IN_TURN;
    break;
  }
  return k;
}

// ---- the choice ----

// Bytes of scratch that a block writes and reads for every chunk: all but the states and sums of a group.
static double scratch_traffic(const codegen_gpu_kernel *described) {
  int64_t kept = described->history_bytes + described->spill_bytes + described->sum_bytes;
  int64_t bytes = described->base.scratch.constant - kept;
  return bytes > 64 ? (double)bytes : 0;
}

static int64_t tiles_of(const kernel *k) {
  int axis = k->gpu.value_entries ? k->gpu.value_axis : k->gpu.lanes == LANES_TILE ? k->lane_axis : -1;
  return axis < 0 ? 1 : k->recurrence->body.axes.items[axis].size / k->program->axes.items[axis].size;
}

static int64_t tiles_of_instance(const kernel *k) { return tiles_of(k) * (k->gpu.lanes == LANES_IN_TURN ? k->lane_block : 1); }

// Bytes that a chunk of a tile writes and reads for its group: the states before its chunks, the cotangents of the tile, all
// sums.
static double kept_bytes(const codegen_gpu_kernel *described) {
  const kernel *k = described->base.kernel;
  if (k->kind != KERNEL_BACKWARD || k->program->form != TILE_CHUNK) return 0;
  double spilled = (double)described->spill_bytes / (double)tiles_of_instance(k);
  return 2 * ((double)(described->history_bytes + described->sum_bytes) + spilled) * k->program->chunk / k->chunk;
}

// Bytes of gradient copies that a step of a head writes and reads, because heads of other instances share the gradient.
static double copied_bytes(const kernel *k) {
  double numbers = 0;
  if (k->gpu.lanes != LANES_IN_TURN || k->program->axes.items[k->lane_axis].size == k->lane_block) return 0;
  for (int i = 0; i < k->program->results.count; i++) {
    const tile_place *place = &k->program->results.items[i].place;
    if (place->role != TILE_D_INPUT || !lacks(place, k->lane_axis)) continue;
    double all = 1;
    for (int x = 0; x < place->axis_count; x++)
      if (!axis_in(kernel_grid_of(k) & ~kernel_tiled_axes(k), place->axes[x]))
        all *= (double)k->recurrence->body.axes.items[place->axes[x]].size;
    numbers += all;
  }
  return 2 * 4 * numbers / k->lane_block;
}

enum { OF_MEMORY = GPU_COST_MEMORY_BYTE * COST_USUAL_SIZE };

typedef struct estimate {
  double cost, scratch;
  gpu_plan *plan;
} estimate;

// The program of one block. The figures of the model were fitted with one run-time axis of heads; heads along several axes
// count as many.
static const tile_program *of_block(arena *a, const kernel *k, const tile_program *program) {
  axis_set cut = 0;
  if (kernel_has_own_lanes(k)) return program;
  for (int i = 0; i < program->values.count; i++)
    if (program->values.items[i].op == TILE_DOT) cut |= program->values.items[i].axes;
  cut &= kernel_grid_of(k) & ~kernel_tiled_axes(k);
  tile_program *p = ARENA_NEW(a, tile_program);
  *p = *program;
  p->axes.items = ARENA_ARRAY(a, tile_axis, program->axes.count);
  memcpy(p->axes.items, program->axes.items, (size_t)program->axes.count * sizeof(tile_axis));
  int largest = -1;
  for (int axis = 0; axis < p->axes.count; axis++) {
    axis_set one = axis_bit(axis);
    if (!(cut & one)) continue;
    bool larger = largest < 0 || cost_elements(program, one) > cost_elements(program, axis_bit(largest));
    if (largest >= 0) p->axes.items[larger ? largest : axis].size = 1;
    if (larger) largest = axis;
  }
  return p;
}

static double cost_of_products(arena *a, const tile_program *program) {
  const double *costs = cost_of_values(a, program);
  double cost = 0;
  for (int i = 0; i < program->values.count; i++)
    if (program->values.items[i].op == TILE_DOT) cost += costs[i];
  return cost;
}

// The cost of a step, in multiply-adds (gpu_costs.def): the work of all tiles, bytes to and from scratch, and a barrier for
// each nest. Threads of several nests read each byte of scratch. The states of a group come from the second-level cache. Where
// the cache does not hold them, they come from memory, and all blocks wait.
static estimate cost_of(arena *a, const kernel *k, codegen_gpu_options options) {
  estimate x = {.plan = gpu_plan_new(k, options)};
  const codegen_gpu_kernel *described = &x.plan->described;
  x.scratch = scratch_traffic(described);
  const tile_program *program = of_block(a, k, k->program);
  double tiles = (double)tiles_of(k), work = cost_of_run(a, program) * program->chunk;
  work -= described->bulk_gain;
  work -= gpu_cost_wgmma_spares * described->wgmma_share * cost_of_products(a, program);
  work += GPU_COST_CACHE_BYTE * GPU_COST_SCRATCH_READS * x.scratch + (double)GPU_COST_NEST * described->nests;
  work += (gpu_stays_in_cache(k, described) ? GPU_COST_CACHE_BYTE : OF_MEMORY) * kept_bytes(described);
  x.cost = work * tiles / k->program->chunk;
  return x;
}

// Are the states of its chunks recomputed, a group of chunks at a time (gpu_groups_back)?
static bool may_have_tiles(const kernel *k) {
  return k->program->form == TILE_CHUNK && k->recompute && tile_takes(k->program, 1u << TILE_STATE);
}

static int64_t size_of(const kernel *k, int axis) { return k->program->axes.items[axis].size; }

static void forget_plan(kernel *k) {
  if (k->gpu.plan) gpu_plan_free(k->gpu.plan);
  k->gpu.plan = NULL;
}

// The kernel with the tile of the axis that costs least; axis -1: no axis may be cut. *cost: of a step.
static kernel with_entries(arena *a, const kernel *first, int axis, codegen_gpu_options options, double *cost) {
  kernel best = *first;
  estimate least = cost_of(a, first, options);
  int64_t size = axis < 0 ? 0 : size_of(first, axis);
  for (int64_t entries = size / 2; least.scratch > 0; entries /= 2) {
    if (entries < GPU_COST_FEWEST_ENTRIES || size % entries != 0) break;
    kernel cut = first->kind == KERNEL_BACKWARD ? cut_into_tiles(a, first, axis, (int)entries)
                                                : cut_into_instances(a, first, axis, (int)entries);
    estimate other = cost_of(a, &cut, options);
    bool better = other.cost < least.cost;
    gpu_plan_free(better ? least.plan : other.plan);
    if (!better) continue;
    best = cut;
    least = other;
  }
  *cost = least.cost;
  best.gpu.plan = least.plan;
  return best;
}

// The kernel with the cheapest tile; where heads share gradients, with so many heads in an instance. *cost: of a step.
static kernel fitted(arena *a, const kernel *whole, int heads, codegen_gpu_options options, double *cost) {
  bool back = whole->kind == KERNEL_BACKWARD;
  bool columns = gpu_makes_summaries(whole) && whole->transition_size && whole->lane_axis < 0;
  int axis = columns ? whole->value_axis : value_axis(whole);
  if (whole->lane_axis >= 0 || (back && !may_have_tiles(whole))) axis = -1;
  kernel first = back && may_have_tiles(whole) ? share_gradients(whole, heads) : *whole;
  if (columns) first = cut_into_instances(a, whole, axis, (int)size_of(whole, axis));
  return with_entries(a, &first, axis, options, cost);
}

static recurrence_kernels *schedule_for_room(arena *a, const recurrence *r, schedule_options schedule,
                                             codegen_gpu_options options) {
  schedule.gpu = true;
  recurrence_kernels *kernels = schedule_recurrence(a, r, schedule);
  for (int i = 0; i < kernels->kernels.count; i++) {
    kernels->kernels.items[i].gpu.shared_kib = options.shared_kib;
    kernels->kernels.items[i].gpu.warpgroups = options.warpgroups;
  }
  return kernels;
}

// The first kernel before number `index` with the same symbol, and so the same function; -1: there is none.
static int fitted_already(const recurrence_kernels *kernels, int index) {
  for (int i = 0; i < index; i++) {
    if (strcmp(kernels->kernels.items[i].symbol, kernels->kernels.items[index].symbol) == 0) return i;
  }
  return -1;
}

// ---- time slices ----

// The cost of one of the blocks that share an instance.
static double block_cost(const kernel *k, double cost) {
  return k->gpu.lanes == LANES_TILE ? cost / (double)tiles_of(k) : cost;
}

// Entries of an axis that a block computes at a time.
static double entries_of(const kernel *k, int axis) {
  if (axis == k->lane_axis && k->gpu.lanes == LANES_OWN) return k->lane_block;
  int64_t size = k->program->axes.items[axis].size;
  return size == TILE_RUNTIME_SIZE || axis_in(kernel_grid_of(k) & ~kernel_tiled_axes(k), axis) ? 1 : (double)size;
}

static double state_numbers(const kernel *k) {
  double all = 0;
  for (int i = 0; i < k->summary->results.count; i++) {
    const tile_place *place = &k->summary->results.items[i].place;
    double numbers = place->transfer ? 0 : place->relative ? 2 : 1;  // the state and its exponential
    for (int x = 0; x < place->axis_count; x++) numbers *= entries_of(k, place->axes[x]);
    all += numbers;
  }
  return all;
}

// The cost of combining one summary: a block reads states and factors, or multiplies by a transition matrix in f32.
static double cost_of_combining(const kernel *k) {
  double numbers = state_numbers(k), tiles = k->gpu.value_entries ? (double)tiles_of(k) : 1;
  double product = k->transition_size ? k->transition_size * (double)k->transition_size * entries_of(k, k->value_axis) : 0;
  return tiles * (GPU_COST_COMBINE + GPU_COST_COMBINE_ELEMENT * numbers + GPU_COST_COMBINE_PRODUCT * product);
}

// The two figures by which the runtime chooses the number of time slices.
static void weigh_slices(arena *a, recurrence_kernels *kernels, const double *costs) {
  for (int i = 0; i < kernels->kernels.count; i++) {
    kernel *k = &kernels->kernels.items[i];
    kernel_kind maker = k->kind == KERNEL_BACKWARD ? KERNEL_SUMMARY_BACK : KERNEL_SUMMARY;
    if (!k->summary || k->kind == KERNEL_STEP) continue;
    double own = block_cost(k, costs[i]);
    k->gpu.combine_steps = (int)ceil(cost_of_combining(k) / own);
    for (int m = 0; m < kernels->kernels.count; m++) {
      const kernel *other = &kernels->kernels.items[m];
      if (other->kind != maker) continue;
      double again = other->recompute ? block_cost(k, cost_of_run(a, of_block(a, other, other->recompute))) : 0;
      k->gpu.summary_percent = (int)ceil(100 * (block_cost(other, costs[m]) + again) / (own + again));
    }
  }
}

// ---- candidates ----

// The kernels of a chunk length: as they were scheduled, and with their tiles chosen.
typedef struct candidate {
  const recurrence_kernels *whole;
  recurrence_kernels *kernels;
  double *costs;  // by kernel: of a step
} candidate;

enum { LENGTHS = 3 };  // of chunks: GPU_COST_LONGEST_CHUNK, .. GPU_COST_SHORTEST_CHUNK

typedef struct candidates {
  candidate items[LENGTHS];
  int count;
} candidates;

static recurrence_kernels *copy_of(arena *a, const recurrence_kernels *kernels) {
  recurrence_kernels *copy = ARENA_NEW(a, recurrence_kernels);
  *copy = *kernels;
  copy->kernels.items = ARENA_ARRAY(a, kernel, kernels->kernels.count);
  memcpy(copy->kernels.items, kernels->kernels.items, (size_t)kernels->kernels.count * sizeof(kernel));
  return copy;
}

// Another kernel of the same function, with its plan.
static void take_function(kernel *k, const kernel *same) {
  kernel_kind kind = k->kind;
  *k = *same;
  k->kind = kind;
  gpu_plan_share(k->gpu.plan);
}

// The number of the kernel of another candidate that has been chosen already: a single step is the same for all chunk lengths,
// and only backward depends on the heads in a block. -1: there is none.
static int found_in(const candidate *other, const candidate *x, kernel_kind kind) {
  bool same_length = other->whole == x->whole, same_distance = other->whole->chunk == x->whole->chunk;
  bool same = same_length ? kind != KERNEL_BACKWARD : same_distance && kind == KERNEL_STEP;
  const kernel *found = same ? schedule_kernel(other->kernels, kind) : NULL;
  return found ? (int)(found - other->kernels->kernels.items) : -1;
}

// Takes a kernel that has been chosen before, in this candidate or another one.
static bool take_chosen(const candidate *x, const candidate *other, int index) {
  kernel *k = &x->kernels->kernels.items[index];
  const candidate *from = x;
  int same = fitted_already(x->kernels, index);
  if (same < 0 && other) same = found_in(other, x, k->kind), from = other;
  if (same < 0) return false;
  take_function(k, &from->kernels->kernels.items[same]);
  x->costs[index] = from->costs[same];
  return true;
}

// Chooses the tiles of all kernels that another candidate, if it is not NULL, has not.
static candidate fit_all(arena *a, const recurrence_kernels *whole, const candidate *other, int heads,
                         codegen_gpu_options options) {
  recurrence_kernels *kernels = copy_of(a, whole);
  candidate x = {whole, kernels, ARENA_ARRAY(a, double, whole->kernels.count)};
  for (int i = 0; i < kernels->kernels.count; i++) {
    kernel *k = &kernels->kernels.items[i];
    if (!take_chosen(&x, other, i)) *k = fitted(a, k, heads, options, &x.costs[i]);
    if (fitted_already(kernels, i) >= 0) continue;
    if (k->kind == KERNEL_FORWARD) kernels->gpu_forward = x.costs[i];
    if (k->kind == KERNEL_FORWARD || k->kind == KERNEL_BACKWARD) kernels->gpu_cost += x.costs[i] + OF_MEMORY * copied_bytes(k);
  }
  weigh_slices(a, kernels, x.costs);
  return x;
}

// ---- threads ----

// Warps that run on a multiprocessor at a time, of all its blocks.
static double resident_warps(const kernel *k, const codegen_gpu_kernel *described) {
  return (double)(gpu_blocks_at_a_time(k, described) * described->threads) / 32;
}

// The cost of a chunk that depends on the threads of a block. Fewer warps read fewer bytes of shared memory for products, but
// hide less of each other's waiting.
static double cost_of_threads(const kernel *k, const codegen_gpu_kernel *described) {
  double waiting = sqrt(gpu_cost_usual_warps / resident_warps(k, described));
  return gpu_cost_operand_byte * described->operand_bytes + GPU_COST_NEST * waiting * described->nests;
}

static bool is_better(const kernel *few, const kernel *many) {
  const codegen_gpu_kernel *some = &few->gpu.plan->described, *all = &many->gpu.plan->described;
  if (scratch_traffic(some) > scratch_traffic(all)) return false;
  if (!gpu_stays_in_cache(few, some) && gpu_stays_in_cache(many, all)) return false;
  return cost_of_threads(few, some) < cost_of_threads(many, all);
}

// Halves the threads where that is cheaper: each warp then owns twice the columns of a product, and reads rows less often.
static void choose_threads(kernel *k, codegen_gpu_options options) {
  if (k->program->form != TILE_CHUNK || k->gpu.plan->described.threads != GPU_BLOCK_THREADS) return;
  kernel few = *k;
  few.gpu.threads = GPU_BLOCK_THREADS / 2;
  few.gpu.plan = gpu_plan_new(&few, options);
  bool better = is_better(&few, k);
  forget_plan(better ? k : &few);
  if (better) *k = few;
}

// Of another kernel of the same function.
static void take_threads(kernel *k, const kernel *same) {
  forget_plan(k);
  k->gpu.threads = same->gpu.threads;
  k->gpu.plan = gpu_plan_share(same->gpu.plan);
}

static void choose_all_threads(recurrence_kernels *kernels, codegen_gpu_options options) {
  for (int i = 0; i < kernels->kernels.count; i++) {
    kernel *k = &kernels->kernels.items[i];
    int same = fitted_already(kernels, i);
    if (same < 0) choose_threads(k, options);
    if (same >= 0) take_threads(k, &kernels->kernels.items[same]);
  }
}

// ---- lengths of chunks ----

static bool keeps_values(const recurrence_kernels *kernels) {
  return tile_takes(schedule_kernel(kernels, KERNEL_BACKWARD)->program, 1u << TILE_STASH);
}

static bool is_of_backward(kernel_kind kind) { return kind == KERNEL_BACKWARD || kind == KERNEL_SUMMARY_BACK; }

// May the forward of one chunk length go with the backward of another? They meet in the saved states, which must lie equally
// far apart.
static bool may_go_together(const recurrence_kernels *forward, const recurrence_kernels *back) {
  if (forward == back) return true;
  bool same = forward->chunk == back->chunk && !forward->whole[0] == !back->whole[0];
  for (int i = 0; i < back->kernels.count; i++) same = same && schedule_kernel(forward, back->kernels.items[i].kind);
  return same && !keeps_values(forward) && !keeps_values(back);
}

// The kernels whose FORWARD goes with this BACKWARD: its own, or those with other chunks where they are clearly cheaper.
static const recurrence_kernels *forward_for(const recurrence_kernels *back, const candidates *all) {
  const recurrence_kernels *best = back;
  for (int i = 0; i < all->count; i++) {
    const recurrence_kernels *other = all->items[i].kernels;
    bool cheaper = other->gpu_forward < best->gpu_forward && other->gpu_forward < gpu_cost_worth * back->gpu_forward;
    if (cheaper && may_go_together(other, back)) best = other;
  }
  return best;
}

static double cost_with(const recurrence_kernels *forward, const recurrence_kernels *back) {
  return back->gpu_cost - back->gpu_forward + forward->gpu_forward;
}

static recurrence_kernels *joined(arena *a, const recurrence_kernels *forward, const recurrence_kernels *back) {
  recurrence_kernels *kernels = copy_of(a, back);
  kernels->gpu_cost = cost_with(forward, back);
  kernels->gpu_forward = forward->gpu_forward;
  for (int i = 0; i < kernels->kernels.count; i++) {
    kernel *k = &kernels->kernels.items[i];
    if (!is_of_backward(k->kind)) *k = *schedule_kernel(forward, k->kind);
    gpu_plan_share(k->gpu.plan);
  }
  return kernels;
}

static recurrence_kernels *best_of(arena *a, const candidates *all) {
  const recurrence_kernels *best = NULL, *forward = NULL;
  for (int i = 0; i < all->count; i++) {
    const recurrence_kernels *back = all->items[i].kernels, *own = forward_for(back, all);
    if (best && cost_with(own, back) >= cost_with(forward, best)) continue;
    best = back;
    forward = own;
  }
  return joined(a, forward, best);
}

static void forget_plans(recurrence_kernels *kernels) {
  for (int i = 0; i < kernels->kernels.count; i++) forget_plan(&kernels->kernels.items[i]);
}

static void forget_candidates(candidates *all) {
  for (int i = 0; i < all->count; i++) forget_plans(all->items[i].kernels);
}

static void add_candidate(arena *a, candidates *all, const recurrence_kernels *whole, codegen_gpu_options options) {
  const candidate *first = all->count ? &all->items[0] : NULL;
  all->items[all->count] = fit_all(a, whole, first, GPU_COST_SHARING_HEADS, options);
  all->count++;
}

// One candidate for each chunk length, or one of single steps.
static candidates of_lengths(arena *a, const recurrence *r, schedule_options schedule, codegen_gpu_options options) {
  candidates all = {.count = 0};
  for (int chunk = GPU_COST_LONGEST_CHUNK; chunk >= GPU_COST_SHORTEST_CHUNK && !schedule.chunk; chunk /= 2) {
    schedule_options with = schedule;
    with.chunk = chunk;
    const recurrence_kernels *whole = schedule_for_room(a, r, with, options);
    if (strcmp(whole->form, "chunk") != 0) break;
    add_candidate(a, &all, whole, options);
  }
  if (!all.count) add_candidate(a, &all, schedule_for_room(a, r, schedule, options), options);
  return all;
}

// The same with fewer heads in a block.
static candidates of_fewer_heads(arena *a, const candidates *all, codegen_gpu_options options) {
  candidates few = {.count = all->count};
  for (int i = 0; i < few.count; i++)
    few.items[i] = fit_all(a, all->items[i].whole, &all->items[i], GPU_COST_SHARING_HEADS / 2, options);
  return few;
}

// Do heads share a block whose scratch does not stay in the cache?
static bool has_heads_in_memory(const recurrence_kernels *kernels) {
  const kernel *k = schedule_kernel(kernels, KERNEL_BACKWARD);
  return k->gpu.lanes == LANES_IN_TURN && !gpu_stays_in_cache(k, &k->gpu.plan->described);
}

recurrence_kernels *codegen_gpu_schedule(arena *a, const recurrence *r, schedule_options schedule,
                                         codegen_gpu_options options) {
  candidates all = of_lengths(a, r, schedule, options), few = {.count = 0};
  recurrence_kernels *best = best_of(a, &all);
  if (has_heads_in_memory(best)) {
    few = of_fewer_heads(a, &all, options);
    recurrence_kernels *other = best_of(a, &few);
    bool better = other->gpu_cost < best->gpu_cost;
    forget_plans(better ? best : other);
    if (better) best = other;
  }
  forget_candidates(&all);
  forget_candidates(&few);
  choose_all_threads(best, options);
  gpu_plan_kernels(a, best->kernels.items, best->kernels.count, options);
  return best;
}
