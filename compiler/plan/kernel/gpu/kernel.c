// GPU: the plan of a kernel, and what callers must know of it: threads, shared memory, parameters, scratch.
#include "compiler/plan/kernel_plan.h"

static int64_t parameter_bytes(const codegen_gpu_kernel *g) {
  if (g->maps.count) return g->maps_at + (int64_t)sizeof(rec_gpu_map) * g->maps.count;
  return (int64_t)sizeof(rec_gpu_frame) + 8 * g->base.kernel->recurrence->body.axes.count +
         (int64_t)sizeof(rec_gpu_slot) * g->base.slots.count;
}

// The second one has all slots, those of the first in front.
static void unite_slots(arena *a, codegen_kernel *first, codegen_kernel *second) {
  for (int i = 0; i < second->slots.count; i++) {
    const codegen_slot *slot = &second->slots.items[i];
    if (kernel_find_slot(first, slot->role, slot->tensor, slot->lag) < 0) vec_push(a, &first->slots, *slot);
  }
  second->slots = first->slots;
}

// `first`: the plan of the other kernel of the function, if the function has two; else NULL.
static kernel_plan plan_of(arena *a, const codegen_kernel *k, const kernel_plan *first, codegen_gpu_options options) {
  kernel_plan w = kernel_plan_for(a, k, k->kernel->symbol, CLONE_GPU, options.dtype);
  if (first) w.maps.items = first->maps.items, w.maps.count = first->maps.count, w.maps.capacity = first->maps.capacity;
  w.m.tf32 = options.tf32;
  w.m.threads = k->kernel->threads ? k->kernel->threads : GPU_BLOCK_THREADS;
  w.threads = w.m.kind == MAP_BLOCK ? w.m.threads : k->kernel->lane_block;
  w.m.shared_kib = k->kernel->shared_kib ? k->kernel->shared_kib : GPU_SMALL_KIB;
  w.chip_limit = w.m.shared_kib * 1024 / 4;
  kernel_plan_make(&w);
  if (w.m.kind == MAP_BLOCK) kernel_verify_places(&w);
  return w;
}

gpu_bodies *gpu_bodies_of(arena *a, const kernel *k, codegen_gpu_options options) {
  gpu_bodies *x = ARENA_NEW(a, gpu_bodies);
  bool last = k->kind == KERNEL_PART_BACK && k->beside;
  x->count = k->beside ? 2 : 1;
  x->described[0] = kernel_describe(a, last ? k->beside : k);
  if (k->beside) {
    x->described[1] = kernel_describe(a, last ? k : k->beside);
    unite_slots(a, &x->described[0], &x->described[1]);
  }
  for (int i = 0; i < x->count; i++) x->plans[i] = plan_of(a, &x->described[i], i ? &x->plans[0] : NULL, options);
  return x;
}

// Of what all parts of the kernel multiply.
static void count_products(const kernel_plan *w, codegen_gpu_kernel *g) {
  const plan *plans[] = {w->main.p, w->recomputes ? w->recompute.p : NULL};
  double group = 0, all = 0;
  for (int i = 0; i < 2; i++) {
    if (!plans[i]) continue;
    g->group_products += plans[i]->group_products;
    g->products += plans[i]->products;
    g->left += plans[i]->left;
    g->operand_bytes += plans[i]->operand_bytes;
    group += plans[i]->group_work;
    all += plans[i]->all_work;
  }
  g->group_share = all > 0 ? group / all : 0;
}

// What is copied for a chunk, and what of it may come in bulk.
static void count_rows(const kernel_plan *w, codegen_gpu_kernel *g) {
  const program_plan *parts[] = {&w->main, w->recomputes ? &w->recompute : NULL};
  g->bulk_gain = w->bulk_gain;
  for (int i = 0; i < 2 && w->maps.count; i++) {
    for (int n = 0; parts[i] && n < parts[i]->program->arguments.count; n++) {
      g->rows += gpu_is_staged(parts[i], n);
      g->bulk_rows += gpu_is_bulk(parts[i], n);
    }
  }
}

static int nests_of(const program_plan *p) {
  int count = 0;
  for (int n = 0; p->p && n < p->p->nests.count; n++) count += p->p->nests.items[n].region == REGION_BODY;
  return count;
}

// Enough for each of them.
static void add_resources(arena *a, const kernel_plan *w, codegen_gpu_kernel *g) {
  codegen_bytes scratch = w->shared_numbers || w->sized.count ? kernel_bytes_of(w) : (codegen_bytes){0};
  if (4 * w->on_chip > g->shared_bytes) g->shared_bytes = (int)(4 * w->on_chip);
  if (scratch.constant > g->base.scratch.constant) g->base.scratch.constant = scratch.constant;
  for (int i = 0; i < scratch.terms.count; i++) codegen_bytes_add(a, &g->base.scratch, scratch.terms.items[i]);
  g->maps.items = w->maps.items;
  g->maps.count = w->maps.count;
  if (w->maps_at) g->maps_at = (int)w->maps_at;
}

// Of the two kernels of a function, which is this one.
int gpu_number_of(const gpu_bodies *x, const kernel *k) { return x->plans[0].k->kind == k->kind ? 0 : 1; }

// The schedule describes hundreds of kernels: what `g` says is kept, their plans are not.
static codegen_gpu_kernel described_in(arena *a, const kernel *k, codegen_gpu_options options) {
  gpu_bodies *x = gpu_bodies_of(a, k, options);
  int own = gpu_number_of(x, k);
  const kernel_plan *w = &x->plans[own];
  codegen_gpu_kernel g = {.base = x->described[own]};
  g.base.scratch = (codegen_bytes){0};
  for (int i = 0; i < x->count; i++) add_resources(a, &x->plans[i], &g);
  g.parameter_bytes = (int)parameter_bytes(&g);
  count_rows(w, &g);
  g.threads = w->threads;
  g.history_bytes = 4 * w->history;
  g.home_bytes = 4 * w->homes;
  g.sum_bytes = 4 * w->group_sums;
  g.ends = gpu_ends_numbers(a, k);
  g.column_blocks = gpu_column_blocks(k);
  g.is_second = own;
  g.nests = nests_of(&w->main) + nests_of(&w->recompute);
  count_products(w, &g);
  if (g.parameter_bytes > REC_GPU_PARAMETER_BYTES) {
    g.why_not = "its tensors and axes take more than 4000 bytes of parameters";
  } else {
    g.symbol = arena_printf(a, "%s_gpu", k->symbol);
  }
  return g;
}

codegen_gpu_kernel codegen_gpu_describe(arena *a, const kernel *k, codegen_gpu_options options) {
  arena *plans = arena_new();
  codegen_gpu_kernel g = described_in(plans, k, options);
  vec_keep(a, &g.base.slots);
  vec_keep(a, &g.base.scratch.terms);
  vec_keep(a, &g.base.kept.terms);
  vec_keep(a, &g.maps);
  vec_keep(a, &g.ends.terms);
  if (g.symbol) g.symbol = arena_strdup(a, g.symbol);
  arena_free(plans);
  return g;
}
