// Host: the plans that a kernel carries, one for each clone, and what they say to callers: scratch.
//
//   {ssd_forward} x {v2, v3, v4}   ->   three plans; without masks there is another for single lanes, each may have one for several sequences
#include <string.h>

#include "compiler/plan/kernel_plan.h"

// `lanes`: the lanes of a vector; 0: as the mapping has them.
static kernel_plan *host_kernel_plan(arena *a, const codegen_kernel *described, const kernel *k,
                                     codegen_clone clone, number_type dtype, int lanes) {
  kernel_plan *w = ARENA_NEW(a, kernel_plan);
  *w = kernel_plan_for(a, described, k, clone, dtype);
  if (lanes) w->m.lanes = lanes;
  if (lanes != 1) host_share_between_panels(w, clone);
  host_open_ahead(w);
  double start = pass_clock();
  host_plan_make(w);
  pass_ran(&kernel_stage, KERNEL_PASS_HOST, pass_clock() - start, 0);
  return w;
}

bool host_has_rest(const kernel_plan *w) {
  if (w->m.lane_axis < 0) return false;
  int64_t size = w->k->program->axes.items[w->m.lane_axis].size;
  return size == TILE_RUNTIME_SIZE || size % w->m.lanes || w->k->lane_block % w->m.lanes;
}

// Without masked memory instructions the last lanes go one by one.
static const kernel_plan *plan_of_clone(arena *a, const codegen_kernel *described,
                                        codegen_clone clone, number_type dtype) {
  kernel_plan *w = host_kernel_plan(a, described, described->kernel, clone, dtype, 0);
  if (!clone_targets[clone].masks && host_has_rest(w))
    w->one_lane = host_kernel_plan(a, described, described->kernel, clone, dtype, 1);
  if (described->batched)
    w->batched = host_kernel_plan(a, described, described->batched, clone, dtype, 0);
  return w;
}

// Grows `to` to the larger of both, for any sizes.
static void grow_bytes(arena *a, codegen_bytes *to, codegen_bytes from) {
  if (from.constant > to->constant) to->constant = from.constant;
  if (from.per_instance > to->per_instance) to->per_instance = from.per_instance;
  for (int i = 0; i < from.terms.count; i++) {
    codegen_bytes_term term = from.terms.items[i], *same = codegen_bytes_of(to, term.axes);
    if (same) term.coefficient -= same->coefficient;
    if (term.coefficient > 0) codegen_bytes_add(a, to, term);
  }
}

// Single lanes need no more than a vector of lanes.
static void add_scratch(arena *a, codegen_kernel *described, const kernel_plan *w) {
  grow_bytes(a, &described->scratch, kernel_bytes_of(a, w));
  if (w->batched) grow_bytes(a, &described->scratch, kernel_bytes_of(a, w->batched));
}

static host_plan *new_plan(arena *a, const kernel *k, unsigned clones, number_type dtype) {
  host_plan *made = ARENA_NEW(a, host_plan);
  *made = (host_plan){.dtype = dtype, .described = kernel_describe(a, k)};
  made->described.batched = kernel_batched(a, k, false);
  for (codegen_clone clone = 0; clone < CLONE_COUNT; clone++) {
    if (!(clones >> clone & 1)) continue;
    made->described.symbols[clone] =
        arena_printf(a, "%s%s", k->symbol, clone_targets[clone].suffix);
    made->clones[clone] = plan_of_clone(a, &made->described, clone, dtype);
    add_scratch(a, &made->described, made->clones[clone]);
  }
  return made;
}

static bool has_clones(const host_plan *made, unsigned clones) {
  for (codegen_clone clone = 0; clone < CLONE_COUNT; clone++)
    if (clones >> clone & 1 && !made->clones[clone]) return false;
  return true;
}

const host_plan *host_plan_of(arena *a, const kernel *k, unsigned clones, number_type dtype) {
  if (k->plan && k->plan->dtype == dtype && has_clones(k->plan, clones)) return k->plan;
  return new_plan(a, k, clones, dtype);
}

void host_plan_kernels(arena *a, kernel *kernels, int count, unsigned clones, number_type dtype) {
  for (int i = 0; i < count; i++) {
    int same = 0;
    while (strcmp(kernels[same].symbol, kernels[i].symbol) != 0) same++;
    kernels[i].plan = same < i ? kernels[same].plan : new_plan(a, &kernels[i], clones, dtype);
  }
}
