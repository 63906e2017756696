// GPU: the plan of a kernel, and what callers must know of it: threads, shared memory, parameters,
// scratch.
#include "compiler/plan/kernel_plan.h"

static int64_t parameter_bytes(const codegen_gpu_kernel *g) {
  return (int64_t)sizeof(rec_gpu_frame) + 8 * g->base.kernel->recurrence->body.axes.count +
         (int64_t)sizeof(rec_gpu_slot) * g->base.slots.count;
}

static kernel_plan *gpu_kernel_plan(arena *a, const codegen_kernel *described, const kernel *k,
                                    codegen_gpu_options options) {
  kernel_plan *w = ARENA_NEW(a, kernel_plan);
  *w = kernel_plan_for(a, described, k, CLONE_GPU, options.dtype);
  w->m.tf32 = options.tf32;
  w->m.threads = k->gpu.threads ? k->gpu.threads : GPU_BLOCK_THREADS;
  w->threads = w->m.kind == MAP_BLOCK ? w->m.threads : k->lane_block;
  w->m.shared_kib = k->gpu.shared_kib ? k->gpu.shared_kib : GPU_SMALL_KIB;
  if (k->gpu.beside_kib) w->m.shared_kib = k->gpu.beside_kib;
  w->shared_limit = w->m.shared_kib * 1024 / 4;
  double start = pass_clock();
  bool of_block = w->m.kind == MAP_BLOCK;
  gpu_plan_make(w);
  if (of_block) kernel_verify_places(w);
  pass_ran(&kernel_stage, KERNEL_PASS_GPU, pass_clock() - start, of_block);
  return w;
}

// A kernel with time slices has no batched form.
static const kernel *batched_form_of(arena *a, const codegen_kernel *described) {
  const kernel *k = described->kernel;
  bool whole = !k->summary && !gpu_makes_summaries(k) && !described->time_splits;
  return whole ? kernel_batched(a, k, true) : NULL;
}

static kernel_plan *whole_plan(arena *a, const codegen_kernel *described,
                               codegen_gpu_options options) {
  kernel_plan *w = gpu_kernel_plan(a, described, described->kernel, options);
  const kernel *several = batched_form_of(a, described);
  if (several) w->batched = gpu_kernel_plan(a, described, several, options);
  return w;
}

// Adds up the products of all programs of the kernel.
static void count_products(const kernel_plan *w, codegen_gpu_kernel *g) {
  const plan *plans[] = {w->main.p, w->recomputes ? w->recompute.p : NULL};
  for (int i = 0; i < 2; i++) {
    if (!plans[i]) continue;
    g->wgmma_products += plans[i]->wgmma_products;
    g->products += plans[i]->products;
  }
}

static int count_body_nests(const program_plan *p) {
  int count = 0;
  for (int n = 0; p->p && n < p->p->nests.count; n++)
    count += p->p->nests.items[n].region == REGION_BODY;
  return count;
}

static codegen_bytes kernel_scratch(const kernel_plan *w) {
  return w->shared_numbers || w->sized.count ? kernel_bytes_of(w->a, w) : (codegen_bytes){0};
}

// A block may take batched and single items, so it has room for either.
static void add_batched(arena *a, const kernel_plan *w, codegen_gpu_kernel *g) {
  if (!w->batched) return;
  int64_t words =
      w->batched->shared_words > w->shared_words ? w->batched->shared_words : w->shared_words;
  codegen_bytes alone = kernel_scratch(w);
  g->sequences = w->batched->k->sequences;
  g->batched_shared_bytes = (int)(4 * words);
  g->batched = kernel_scratch(w->batched);
  if (alone.constant > g->batched.constant) g->batched.constant = alone.constant;
  for (int i = 0; i < alone.terms.count; i++)
    codegen_bytes_add(a, &g->batched, alone.terms.items[i]);
}

static void add_resources(const kernel_plan *w, codegen_gpu_kernel *g) {
  g->base.scratch = kernel_scratch(w);
  g->shared_bytes = (int)(4 * w->shared_words);
}

static codegen_gpu_kernel described_by(arena *a, const kernel *k, const kernel_plan *w) {
  codegen_gpu_kernel g = {.base = *w->described,
                          .threads = w->threads,
                          .history_bytes = 4 * w->history,
                          .spill_bytes = 4 * w->spill_elements,
                          .sum_bytes = 4 * w->tile_sums,
                          .summary = gpu_summary_numbers(a, k),
                          .transition_blocks = gpu_transition_blocks(k),
                          .nests = count_body_nests(&w->main) + count_body_nests(&w->recompute)};
  add_resources(w, &g);
  add_batched(a, w, &g);
  g.parameter_bytes = (int)parameter_bytes(&g);
  count_products(w, &g);
  if (g.parameter_bytes > REC_GPU_PARAMETER_BYTES)
    g.why_not = "its tensors and axes take more than 4000 bytes of parameters";
  return g;
}

// ---- plans that kernels carry ----

gpu_plan *gpu_plan_new(const kernel *k, codegen_gpu_options options) {
  arena *memory = arena_new();
  gpu_plan *made = ARENA_NEW(memory, gpu_plan);
  *made = (gpu_plan){.memory = memory, .users = 1, .k = *k, .options = options};
  made->k.gpu.plan = NULL;
  made->slots = kernel_describe(memory, &made->k);
  made->whole = whole_plan(memory, &made->slots, options);
  made->described = described_by(memory, &made->k, made->whole);
  return made;
}

gpu_plan *gpu_plan_share(gpu_plan *made) {
  made->users++;
  return made;
}

static void keep_plan_memory(arena *a, gpu_plan *made) {
  if (made->memory) arena_adopt(a, made->memory);
  made->memory = NULL;
}

void gpu_plan_kernels(arena *a, kernel *kernels, int count, codegen_gpu_options options) {
  for (int i = 0; i < count; i++) {
    if (!kernels[i].gpu.plan) kernels[i].gpu.plan = gpu_plan_new(&kernels[i], options);
    keep_plan_memory(a, kernels[i].gpu.plan);
  }
}

void gpu_plan_free(gpu_plan *made) {
  if (--made->users == 0) arena_free(made->memory);
}

const gpu_plan *gpu_plan_of(arena *a, const kernel *k, codegen_gpu_options options) {
  if (k->gpu.plan && k->gpu.plan->options.dtype == options.dtype &&
      k->gpu.plan->options.tf32 == options.tf32)
    return k->gpu.plan;
  gpu_plan *made = gpu_plan_new(k, options);
  keep_plan_memory(a, made);
  return made;
}

// Kernels of a model have a point in their names (LM.pointwise1), which a name of PTX cannot have.
// The library has LM_pointwise1, too.
static const char *ptx_symbol(arena *a, const char *symbol) {
  char *made = arena_printf(a, "%s_gpu", symbol);
  for (char *at = made; *at; at++)
    if (*at == '.') *at = '_';
  return made;
}

codegen_gpu_kernel codegen_gpu_describe(arena *a, const kernel *k, codegen_gpu_options options) {
  const gpu_plan *made = gpu_plan_of(a, k, options);
  codegen_gpu_kernel g = made->described;
  g.plan = made;
  g.base = kernel_describe(a, k);  // kernels that share a plan differ in kind
  g.base.scratch = made->described.base.scratch;
  if (!g.why_not) g.symbol = ptx_symbol(a, k->symbol);
  return g;
}
