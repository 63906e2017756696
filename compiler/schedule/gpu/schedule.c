// Chunk lengths, value-axis tiles, threads and time slices of GPU kernels. The shared memory of a
// thread block decides.
//
//   gla forward, K = V = 128, bf16: 64 steps, all of V: 160 KiB of scratch .. 32 steps, 64 of V: all in shared memory
#include "compiler/schedule/gpu/schedule.h"

#include <math.h>
#include <string.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/schedule/gpu/instances.h"
#include "compiler/schedule/gpu/model.h"
#include "compiler/schedule/programs.h"

// ---- the choice ----

typedef struct estimate {
  gpu_time time;
  bool spills;  // some buffers lie in scratch
  gpu_plan *plan;
} estimate;

// The time of the kernel as it is.
static estimate estimate_of(const kernel *k, codegen_gpu_options options) {
  estimate x = {.plan = gpu_plan_new(k, options)};
  x.time = gpu_time_of(x.plan, gpu_target_for(options));
  x.spills = gpu_spills(&x.plan->described);
  return x;
}

static int64_t kernel_axis_size(const kernel *k, int axis) {
  return k->program->axes.items[axis].size;
}

static void forget_plan(kernel *k) {
  if (k->gpu.plan) gpu_plan_free(k->gpu.plan);
  k->gpu.plan = NULL;
}

// Keeps the other form, if it costs less than `share` of this one, and the plan of one of them.
static void keep_below(double share, kernel *best, estimate *least, const kernel *other,
                       const estimate *x) {
  bool better = x->time.cost < share * least->time.cost;
  gpu_plan_free(better ? least->plan : x->plan);
  if (!better) return;
  *best = *other;
  *least = *x;
}

static void take_cheaper(kernel *best, estimate *least, const kernel *other,
                         codegen_gpu_options options) {
  estimate x = estimate_of(other, options);
  keep_below(1, best, least, other, &x);
}

// Half as many threads: each warp then owns twice the columns of a product, and reads its rows less
// often. Single steps have work for few threads between most barriers: there they may cost a little
// more. Where buffers lie in scratch all threads wait for them together: half as many would wait
// twice as long, and what a thread waits for takes registers.
static void try_few_threads(kernel *best, estimate *least, codegen_gpu_options options) {
  kernel few = *best;
  bool steps = best->program->form == TILE_STEP;
  if (choice_is_left_out(best->without, CHOICE_FEWER_THREADS)) return;
  if (best->kind == KERNEL_STEP || least->plan->described.threads != GPU_BLOCK_THREADS ||
      (least->spills && !steps))
    return;
  few.gpu.threads = GPU_BLOCK_THREADS / 2;
  estimate x = estimate_of(&few, options);
  keep_below(steps ? 1 / gpu_cost_threads_worth : 1, best, least, &few, &x);
}

// Goes on from `first` to tiles of half as many entries for as long as buffers spill; axis -1: no
// axis may be cut.
static void try_tiles(arena *a, const kernel *first, int axis, kernel *best, estimate *least,
                      codegen_gpu_options options) {
  int64_t size = axis < 0 ? 0 : kernel_axis_size(first, axis);
  bool goes_on = least->spills && !choice_is_left_out(first->without, CHOICE_VALUE_TILES);
  for (int64_t entries = size / 2; goes_on; entries /= 2) {
    if (entries < GPU_COST_FEWEST_ENTRIES || size % entries != 0) break;
    kernel cut = first->kind == KERNEL_BACKWARD
                     ? gpu_cut_into_tiles(a, first, axis, (int)entries)
                     : gpu_cut_into_instances(a, first, axis, (int)entries);
    take_cheaper(best, least, &cut, options);
    goes_on = least->spills;
  }
}

// So little shared memory for each block that `blocks` of them run on a multiprocessor at a time,
// where their threads let them.
static void try_beside(arena *a, const kernel *first, int axis, int blocks, kernel *best,
                       estimate *least, codegen_gpu_options options) {
  int64_t resident =
      first->kind == KERNEL_BACKWARD ? GPU_COST_RESIDENT_THREADS_BACK : GPU_COST_RESIDENT_THREADS;
  int64_t kib = machine_device_of(gpu_target_for(options)).shared_kib / blocks - GPU_SYSTEM_KIB;
  if (least->time.blocks >= blocks ||
      kib >= (first->gpu.shared_kib ? first->gpu.shared_kib : GPU_SMALL_KIB))
    return;
  for (int threads = GPU_COST_BLOCK_THREADS; threads >= GPU_COST_BLOCK_THREADS / 2; threads /= 2) {
    if (threads * blocks > resident) continue;
    kernel small = *first, own;
    small.gpu.threads = threads;
    small.gpu.beside_kib = (int)kib;
    own = small;
    estimate x = estimate_of(&own, options);
    try_tiles(a, &small, axis, &own, &x, options);
    keep_below(1, best, least, &own, &x);
  }
}

// Only kernels that all calls run are planned with less memory. Those that spill with all of it
// would spill more.
static bool may_run_beside(const kernel *k, const estimate *x) {
  if (choice_is_left_out(k->without, CHOICE_BLOCKS_BESIDE)) return false;
  return k->program->form == TILE_CHUNK &&
         (k->kind == KERNEL_FORWARD || k->kind == KERNEL_BACKWARD) && !x->spills;
}

// A kernel as it was chosen, and its time.
typedef struct timed_kernel {
  kernel k;
  gpu_time time;
} timed_kernel;

// The kernel that costs least, and the one that costs least with all the memory to itself.
typedef struct fitted_kernel {
  timed_kernel usual, alone;
} fitted_kernel;

static timed_kernel with_plan(const kernel *k, const estimate *x) {
  timed_kernel timed = {*k, x->time};
  timed.k.gpu.plan = x->plan;
  return timed;
}

// The kernel with the tile of the axis, the threads and the shared memory that cost least; axis -1:
// no axis may be cut.
static fitted_kernel with_entries(arena *a, const kernel *first, int axis,
                                  codegen_gpu_options options) {
  enum { MOST_BESIDE = 3 };
  kernel best = *first;
  estimate least = estimate_of(first, options);
  try_tiles(a, first, axis, &best, &least, options);
  try_few_threads(&best, &least, options);
  fitted_kernel found = {.alone = with_plan(&best, &least)};
  gpu_plan_share(least.plan);
  bool goes_on = may_run_beside(&best, &least);
  for (int blocks = 2; goes_on && blocks <= MOST_BESIDE; blocks++)
    try_beside(a, first, axis, blocks, &best, &least, options);
  found.usual = with_plan(&best, &least);
  return found;
}

// The kernel with the cheapest tile; where heads share gradients, with so many heads in an
// instance.
static fitted_kernel fitted(arena *a, const kernel *whole, int heads, codegen_gpu_options options) {
  bool back = whole->kind == KERNEL_BACKWARD;
  bool columns = gpu_makes_summaries(whole) && whole->transition_size && whole->lane_axis < 0;
  int axis = columns ? whole->value_axis : gpu_value_axis(whole);
  if (whole->lane_axis >= 0 || (back && !gpu_may_have_tiles(whole))) axis = -1;
  kernel first = back && gpu_may_have_tiles(whole) ? gpu_share_gradients(whole, heads) : *whole;
  if (columns) first = gpu_cut_into_instances(a, whole, axis, (int)kernel_axis_size(whole, axis));
  return with_entries(a, &first, axis, options);
}

static recurrence_kernels *schedule_for_room(arena *a, const recurrence *r,
                                             schedule_options schedule,
                                             codegen_gpu_options options) {
  schedule.gpu = true;
  recurrence_kernels *kernels = schedule_recurrence(a, r, schedule);
  for (int i = 0; i < kernels->kernels.count; i++) {
    kernels->kernels.items[i].gpu.shared_kib = options.shared_kib;
    kernels->kernels.items[i].gpu.warpgroups = options.warpgroups;
  }
  return kernels;
}

// The first kernel before number `index` with the same symbol, and so the same function; -1: there
// is none.
static int fitted_already(const recurrence_kernels *kernels, int index) {
  for (int i = 0; i < index; i++)
    if (strcmp(kernels->kernels.items[i].symbol, kernels->kernels.items[index].symbol) == 0)
      return i;
  return -1;
}

// ---- time slices ----

// The two figures by which the runtime chooses the number of time slices. Blocks are few then: each
// has a multiprocessor.
static void weigh_slices(recurrence_kernels *kernels, const fitted_kernel *fitted) {
  for (int i = 0; i < kernels->kernels.count; i++) {
    kernel *k = &kernels->kernels.items[i];
    kernel_kind maker = k->kind == KERNEL_BACKWARD ? KERNEL_SUMMARY_BACK : KERNEL_SUMMARY;
    if (!k->summary || k->kind == KERNEL_STEP) continue;
    double alone = fitted[i].usual.time.alone;
    k->gpu.combine_steps = (int)ceil(gpu_cost_of_combining(k) / alone);
    for (int m = 0; m < kernels->kernels.count; m++)
      if (kernels->kernels.items[m].kind == maker)
        k->gpu.summary_percent = (int)ceil(100 * fitted[m].usual.time.alone / alone);
  }
}

void gpu_set_times(kernel *k, const gpu_time *time) {
  enum { STEPS = 64 };
  double heads = STEPS * gpu_heads_in_turn(k),
         blocks = k->gpu.lanes == LANES_TILE ? (double)gpu_tiles(k) : 1;
  k->gpu.cycles_alone = (int)ceil(heads * time->alone);
  k->gpu.cycles_each = (int)ceil(heads * time->cycles / blocks);
  k->gpu.blocks_each = (int)time->blocks;
}

// ---- candidates ----

// The kernels of a chunk length: as they were scheduled, and with their tiles chosen.
typedef struct candidate {
  const recurrence_kernels *whole;
  recurrence_kernels *kernels;
  fitted_kernel *fitted;  // by kernel
} candidate;

enum { LENGTHS = 3 };  // of chunks: GPU_COST_LONGEST_CHUNK, .. GPU_COST_SHORTEST_CHUNK

typedef struct candidates {
  candidate items[LENGTHS];
  int count;
} candidates;

static recurrence_kernels *kernels_copy(arena *a, const recurrence_kernels *kernels) {
  recurrence_kernels *copy = ARENA_NEW(a, recurrence_kernels);
  *copy = *kernels;
  vec_keep(a, &copy->kernels);
  return copy;
}

// The copy of a kernel shares its function and its plan.
static void share_function(kernel *copy, kernel_kind kind) {
  copy->kind = kind;
  gpu_plan_share(copy->gpu.plan);
}

// The number of the kernel of another candidate that has been chosen already: a single step is the
// same for all chunk lengths, and only backward depends on the heads in a block. -1: there is none.
static int found_in(const candidate *other, const candidate *x, kernel_kind kind) {
  bool same_length = other->whole == x->whole,
       same_distance = other->whole->chunk == x->whole->chunk;
  bool same = same_length ? kind != KERNEL_BACKWARD : same_distance && kind == KERNEL_STEP;
  const kernel *found = same ? schedule_kernel(other->kernels, kind) : NULL;
  return found ? (int)(found - other->kernels->kernels.items) : -1;
}

// Takes a kernel that has been chosen before, in this candidate or another one.
static bool take_chosen(const candidate *x, const candidate *other, int index) {
  kernel_kind kind = x->kernels->kernels.items[index].kind;
  const candidate *from = x;
  int same = fitted_already(x->kernels, index);
  if (same < 0 && other) same = found_in(other, x, kind), from = other;
  if (same < 0) return false;
  fitted_kernel *own = &x->fitted[index];
  *own = from->fitted[same];
  share_function(&own->usual.k, kind);
  share_function(&own->alone.k, kind);
  return true;
}

// Chooses the tiles of all kernels that another candidate, if it is not NULL, has not.
static candidate fit_all_tiles(arena *a, const recurrence_kernels *whole, const candidate *other,
                               int heads, codegen_gpu_options options) {
  recurrence_kernels *kernels = kernels_copy(a, whole);
  candidate x = {whole, kernels, ARENA_ARRAY(a, fitted_kernel, whole->kernels.count)};
  for (int i = 0; i < kernels->kernels.count; i++) {
    kernel *k = &kernels->kernels.items[i];
    if (!take_chosen(&x, other, i)) x.fitted[i] = fitted(a, k, heads, options);
    *k = x.fitted[i].usual.k;
    double cost = x.fitted[i].usual.time.cost;
    if (fitted_already(kernels, i) >= 0) continue;
    if (k->kind == KERNEL_FORWARD) kernels->gpu_forward = cost;
    if (k->kind == KERNEL_FORWARD || k->kind == KERNEL_BACKWARD) kernels->gpu_cost += cost;
  }
  weigh_slices(kernels, x.fitted);
  return x;
}

// ---- lengths of chunks ----

static bool keeps_stashes(const recurrence_kernels *kernels) {
  return tile_takes(schedule_kernel(kernels, KERNEL_BACKWARD)->program, 1u << TILE_STASH);
}

bool gpu_may_go_together(const recurrence_kernels *forward, const recurrence_kernels *back) {
  if (forward == back) return true;
  bool same = forward->chunk == back->chunk && !forward->whole[0] == !back->whole[0];
  for (int i = 0; i < back->kernels.count; i++)
    same = same && schedule_kernel(forward, back->kernels.items[i].kind);
  return same && !keeps_stashes(forward) && !keeps_stashes(back);
}

// The kernels whose FORWARD goes with this BACKWARD: its own, or those with other chunks where they
// are clearly cheaper, the longer ones first.
static const recurrence_kernels *forward_for(const recurrence_kernels *back,
                                             const candidates *all) {
  const recurrence_kernels *best = back;
  if (choice_is_left_out(back->kernels.items[0].without, CHOICE_LENGTHS_APART)) return back;
  for (int i = 0; i < all->count; i++) {
    const recurrence_kernels *other = all->items[i].kernels;
    if (other->gpu_forward < gpu_cost_worth * best->gpu_forward && gpu_may_go_together(other, back))
      best = other;
  }
  return best;
}

static double cost_with(const recurrence_kernels *forward, const recurrence_kernels *back) {
  return back->gpu_cost - back->gpu_forward + forward->gpu_forward;
}

static recurrence_kernels *joined_kernels(arena *a, const recurrence_kernels *forward,
                                          const recurrence_kernels *back) {
  recurrence_kernels *kernels = kernels_copy(a, back);
  kernels->gpu_cost = cost_with(forward, back);
  kernels->gpu_forward = forward->gpu_forward;
  vec_each(kernel, k, kernels->kernels) {
    if (!kernel_goes_back(k->kind)) *k = *schedule_kernel(forward, k->kind);
    gpu_plan_share(k->gpu.plan);
  }
  return kernels;
}

// ---- kernels that cost least with all the memory to themselves ----

// Are summaries of time slices for one of the kernels also for the other?
static bool has_same_slices(const kernel *x, const kernel *y) {
  const tile_program *p = x->summary, *q = y->summary;
  if (!p || !q) return p == q;
  bool same = x->transition_size == y->transition_size && x->value_axis == y->value_axis &&
              x->warms_up == y->warms_up && p->results.count == q->results.count;
  for (int i = 0; same && i < p->results.count; i++) {
    const tile_place *of = &p->results.items[i].place, *other = &q->results.items[i].place;
    same = plan_same_state(of, other) && of->relative == other->relative;
  }
  return same;
}

// The kernel of this kind that ends first by itself, of all chunk lengths that go together with the
// chosen kernels.
static kernel fastest_alone(const candidates *all, const recurrence_kernels *forward,
                            const recurrence_kernels *back, kernel_kind kind) {
  const kernel *usual = schedule_kernel(kind == KERNEL_BACKWARD ? back : forward, kind);
  const timed_kernel *best = NULL;
  for (int i = 0; i < all->count; i++) {
    const recurrence_kernels *own = all->items[i].kernels;
    const kernel *k = schedule_kernel(own, kind);
    const timed_kernel *alone = &all->items[i].fitted[k - own->kernels.items].alone;
    bool together = kind == KERNEL_BACKWARD ? gpu_may_go_together(forward, own)
                                            : gpu_may_go_together(own, back);
    if (together && has_same_slices(k, usual) && (!best || alone->time.alone < best->time.alone))
      best = alone;
  }
  kernel k = best->k;
  gpu_set_times(&k, &best->time);
  gpu_plan_share(k.gpu.plan);
  return k;
}

static recurrence_kernels *best_candidate(arena *a, const candidates *all) {
  const recurrence_kernels *best = NULL, *forward = NULL;
  for (int i = 0; i < all->count; i++) {
    const recurrence_kernels *back = all->items[i].kernels, *own = forward_for(back, all);
    if (best && cost_with(own, back) >= cost_with(forward, best)) continue;
    best = back;
    forward = own;
  }
  recurrence_kernels *kernels = joined_kernels(a, forward, best);
  for (int back = 0; back < 2; back++)
    kernels->alone[back] =
        fastest_alone(all, forward, best, back ? KERNEL_BACKWARD : KERNEL_FORWARD);
  return kernels;
}

static void forget_plans(recurrence_kernels *kernels) {
  for (int i = 0; i < kernels->kernels.count; i++) forget_plan(&kernels->kernels.items[i]);
  for (int back = 0; back < 2; back++) forget_plan(&kernels->alone[back]);
}

static void forget_candidates(candidates *all) {
  vec_each(const candidate, x, *all) {
    for (int k = 0; k < x->kernels->kernels.count; k++) {
      forget_plan(&x->fitted[k].usual.k);
      forget_plan(&x->fitted[k].alone.k);
    }
  }
}

static void add_candidate(arena *a, candidates *all, const recurrence_kernels *whole,
                          codegen_gpu_options options) {
  const candidate *first = all->count ? &all->items[0] : NULL;
  all->items[all->count] = fit_all_tiles(a, whole, first, GPU_COST_SHARING_HEADS, options);
  all->count++;
}

// One candidate for each chunk length, or one of single steps.
static candidates of_lengths(arena *a, const recurrence *r, schedule_options schedule,
                             codegen_gpu_options options) {
  candidates all = {.count = 0};
  for (int chunk = GPU_COST_LONGEST_CHUNK; chunk >= GPU_COST_SHORTEST_CHUNK && !schedule.chunk;
       chunk /= 2) {
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
    few.items[i] =
        fit_all_tiles(a, all->items[i].whole, &all->items[i], GPU_COST_SHARING_HEADS / 2, options);
  return few;
}

// Do heads share a block whose scratch does not stay in the cache?
static bool has_heads_in_memory(const recurrence_kernels *kernels, codegen_gpu_options options) {
  const gpu_machine device = machine_device_of(gpu_target_for(options));
  const kernel *k = schedule_kernel(kernels, KERNEL_BACKWARD);
  return k->gpu.lanes == LANES_IN_TURN && !gpu_stays_in_cache(&k->gpu.plan->described, &device);
}

// The kernels that cost least: of chunks, or of single steps where there are none.
static recurrence_kernels *of_form(arena *a, const recurrence *r, schedule_options schedule,
                                   codegen_gpu_options options) {
  candidates all = of_lengths(a, r, schedule, options), few = {.count = 0};
  recurrence_kernels *best = best_candidate(a, &all);
  if (has_heads_in_memory(best, options)) {
    few = of_fewer_heads(a, &all, options);
    recurrence_kernels *other = best_candidate(a, &few);
    bool better = other->gpu_cost < best->gpu_cost;
    forget_plans(better ? best : other);
    if (better) best = other;
  }
  forget_candidates(&all);
  forget_candidates(&few);
  return best;
}

// Entries of an axis of the recurrence that a block has.
static double entries_of_block(const kernel *k, int axis) {
  int64_t size = k->recurrence->body.axes.items[axis].size;
  if (axis == k->lane_axis && k->gpu.lanes == LANES_OWN)
    return size == TYPED_RUNTIME_SIZE || size > k->lane_block ? k->lane_block : (double)size;
  return axis_in(kernel_instances(k), axis) || size == TYPED_RUNTIME_SIZE ? 1 : (double)size;
}

// The time of an entry: threads that have an entry each may have more of an axis in a block than
// chunks, or less.
static double cost_of_entry(const recurrence_kernels *kernels) {
  const kernel *k = schedule_kernel(kernels, KERNEL_FORWARD);
  double entries = 1;
  for (int axis = 0; axis < k->recurrence->body.axes.count; axis++)
    if (axis_in(schedule_tensor_axes(&k->recurrence->body), axis))
      entries *= entries_of_block(k, axis);
  return kernels->gpu_cost / entries;
}

// The form whose entries take less time. Steps are not looked at where chunks do less work.
recurrence_kernels *codegen_gpu_schedule(arena *a, const recurrence *r, schedule_options schedule,
                                         codegen_gpu_options options) {
  recurrence_kernels *best = of_form(a, r, schedule, options);
  bool chunks = strcmp(best->form, "chunk") == 0;
  if (chunks && schedule.form == FORM_CHOSEN && best->of_steps > 1) {
    schedule.form = FORM_STEP;
    recurrence_kernels *steps = of_form(a, r, schedule, options);
    bool better = cost_of_entry(steps) < cost_of_entry(best);
    forget_plans(better ? best : steps);
    if (better) best = steps;
  }
  gpu_plan_kernels(a, best->kernels.items, best->kernels.count, options);
  gpu_plan_kernels(a, best->alone, 2, options);
  return best;
}
