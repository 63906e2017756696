// Lays out a call on a GPU and starts its kernels (gpu.h).
//
//   workspace:  [chunk-start states] [slice summaries] [copies of results that items add to] [initial states]
//               [scratch of the blocks]
#include <string.h>

#include "compiler/abi/gpu_costs.h"
#include "runtime/support/error.h"
#include "runtime/support/gpu_pass.h"
#include "runtime/support/stage.h"

enum { SCRATCH_ALIGNMENT = 256 };

// ---- the cut ---------------------------------------------------------------------------------

static int64_t turns_of(const gpu_pass *p, int64_t copies) {
  return (copies * p->instances + p->device->multiprocessors - 1) / p->device->multiprocessors;
}

// Batches entries where multiprocessors would have several of them, one after another or side by
// side. Each block then reads the matrices once for all entries of a batch. Packed sequences may
// have any lengths.
static void batch_entries(gpu_pass *p) {
  int64_t sequences = p->kernel->base.sequences;
  p->copies = p->entries;
  if (!sequences || p->call->packed) return;
  int64_t batched = p->entries / sequences, rest = p->entries % sequences;
  if (turns_of(p, batched + rest) * GPU_COST_BATCHED_TIME >= turns_of(p, p->entries) * 100) return;
  p->batched = batched;
  p->copies = batched + rest;
}

int gpu_most_shared_bytes(const rec_table_gpu_kernel *kernel) {
  return (int)larger(kernel->shared_bytes, kernel->batched_shared_bytes);
}

static int64_t scratch_of_block(const gpu_pass *p) {
  const rec_table_count *scratch =
      p->batched ? &p->kernel->batched_scratch : &p->kernel->base.scratch;
  return round_up(call_count(p->call, scratch, 1), SCRATCH_ALIGNMENT);
}

static gpu_pass plan_pass(const call *c, const gpu_device *device,
                          const rec_table_gpu_kernel *kernel, gpu_time_cut cut) {
  const rec_table_kernel *base = &kernel->base;
  const int32_t *grid = table_at(c->table, base->grid_at);
  gpu_pass p = {.call = c, .device = device, .kernel = kernel, .entries = call_entries(c)};
  p.lane_blocks = p.instances = 1;
  p.slices = cut.slices;
  p.slice_steps = cut.slice_steps;
  for (int i = 0; i < base->grid_count; i++) p.instances *= c->axis_size[grid[i]];
  if (base->lane_axis >= 0)
    p.lane_blocks = (c->axis_size[base->lane_axis] + base->lane_block - 1) / base->lane_block;
  p.lane_blocks += kernel->transition_blocks;
  p.instances *= p.lane_blocks;
  if (base->time_splits && !c->packed) {
    int64_t wanted = larger(1, GPU_COST_ITEMS_WANTED / larger(1, p.entries * p.instances));
    p.slice_steps = larger(GPU_COST_SLICE_STEPS, (c->time + wanted - 1) / wanted);
    p.slice_steps = round_up(p.slice_steps, device->code->chunk);
    p.slices = (c->time + p.slice_steps - 1) / p.slice_steps;
  }
  batch_entries(&p);
  p.items = p.copies * p.slices * p.instances;
  int64_t blocks = device->blocks * larger(1, GPU_COST_FULL_BLOCK / kernel->threads);
  p.blocks = smaller(p.items, blocks);
  p.scratch_bytes = scratch_of_block(&p);
  return p;
}

// The most slices for which no multiprocessor has two work items. The longest packed sequence may
// be as long as all sequences together.
static int64_t most_slices(const gpu_pass *whole) {
  const call *c = whole->call;
  int64_t room = whole->device->multiprocessors, items = larger(1, whole->items);
  int64_t slices = room / items;
  if (c->packed)
    slices = smaller(room / larger(1, whole->instances), GPU_COST_EMPTY_ITEMS * room / items);
  return smaller(smaller(slices, c->time / GPU_COST_COMBINED_SLICE_STEPS), GPU_COST_MOST_SLICES);
}

// The time of a call, in hundredths of a step. It adds the steps of a slice, the steps of the
// summaries, times the rounds of their blocks, and the combinations of the last slice. `made`: work
// items of the makers for each slice.
static int64_t time_of_slices(const gpu_pass *whole, int64_t made, int64_t slices) {
  const rec_table_gpu_kernel *k = whole->kernel;
  int64_t room = whole->device->multiprocessors, steps = (whole->call->time + slices - 1) / slices;
  if (slices == 1) return 100 * steps;
  int64_t turns = (made * slices + room - 1) / room;
  return 100 * (steps + k->warm_up_steps) + turns * steps * k->summary_percent +
         100 * (slices - 1) * k->combine_steps;
}

// The number of slices that ends first; 1: slices do not pay.
static int64_t slices_wanted(const gpu_pass *whole, int64_t made) {
  if (whole->call->time_slices) return whole->call->time_slices;
  int64_t best = 1, least = time_of_slices(whole, made, 1) * GPU_COST_SLICES_WORTH / 100;
  for (int64_t slices = 2; slices <= most_slices(whole); slices++) {
    int64_t time = time_of_slices(whole, made, slices);
    if (time < least) least = time, best = slices;
  }
  return best;
}

static gpu_time_cut cut_time(const call *c, const gpu_device *device, int kind,
                             const rec_table_gpu_kernel *kernel) {
  gpu_time_cut cut = {.slices = 1, .slice_steps = c->time};
  if (!kernel->combines || kind == REC_KERNEL_STEP) return cut;
  gpu_time_cut made = {.maker = gpu_kernel_of(device, kind == REC_KERNEL_BACKWARD
                                                          ? REC_KERNEL_SUMMARY_BACK
                                                          : REC_KERNEL_SUMMARY)};
  if (!made.maker->symbol_at) return cut;
  gpu_pass whole = plan_pass(c, device, kernel, cut);
  int64_t wanted = slices_wanted(&whole, plan_pass(c, device, made.maker, cut).items);
  if (wanted < 2) return cut;
  made.slice_steps = round_up((c->time + wanted - 1) / wanted, device->code->chunk);
  made.slices = (c->time + made.slice_steps - 1) / made.slice_steps;
  return made.slice_steps < c->time ? made : cut;
}

// ---- the form --------------------------------------------------------------------------------

// A kernel, and how the runtime cuts its time.
typedef struct gpu_form {
  const rec_table_gpu_kernel *kernel;
  gpu_time_cut cut;
} gpu_form;

static gpu_form cut_form(const call *c, const gpu_device *device, int kind, int place) {
  const rec_table_gpu_kernel *kernel = gpu_kernel_of(device, place);
  return (gpu_form){kernel, cut_time(c, device, kind, kernel)};
}

// The share of its lane block that a block has: a short axis has no more.
static double share_of_lanes(const call *c, const rec_table_kernel *base) {
  if (base->lane_axis < 0) return 1;
  return (double)smaller(c->axis_size[base->lane_axis], base->lane_block) / base->lane_block;
}

// The modelled time of a call, in cycles of 64 steps.
static double form_cycles(const call *c, const gpu_device *device, const gpu_form *form) {
  const rec_table_gpu_kernel *kernel = form->kernel;
  gpu_time_cut whole = {.slices = 1, .slice_steps = c->time};
  gpu_pass p = plan_pass(c, device, kernel, whole);
  double lanes = share_of_lanes(c, &kernel->base);
  if (form->cut.maker) {
    int64_t made = plan_pass(c, device, form->cut.maker, whole).items;
    return lanes * kernel->cycles_alone * (double)time_of_slices(&p, made, form->cut.slices) / 100;
  }
  return lanes * (double)c->time *
         gpu_cost_of_blocks(p.items, device->multiprocessors, kernel->cycles_alone,
                            kernel->cycles_each, kernel->blocks_each);
}

// The kernel of this kind. FORWARD and BACKWARD give way to those for few instances where these end
// first.
static gpu_form form_of(const call *c, const gpu_device *device, int kind) {
  int place = kind == REC_KERNEL_FORWARD ? REC_KERNEL_FORWARD_FEW : REC_KERNEL_BACKWARD_FEW;
  gpu_form usual = cut_form(c, device, kind, kind);
  if (kind != REC_KERNEL_FORWARD && kind != REC_KERNEL_BACKWARD) return usual;
  if (!gpu_kernel_of(device, place)->symbol_at) return usual;
  gpu_form few = cut_form(c, device, kind, place);
  if (device->form != GPU_FORM_BY_TIME) return device->form == GPU_FORM_FEW ? few : usual;
  return form_cycles(c, device, &few) < form_cycles(c, device, &usual) ? few : usual;
}

// Elements of a slice summary, in whole cache lines.
int64_t gpu_summary_stride(const call *c, const rec_table_gpu_kernel *maker) {
  return round_up(call_count(c, &maker->summary, 0), REC_ALIGNMENT / 4);
}

static int64_t summary_bytes(const call *c, const gpu_time_cut *cut) {
  return 4 * call_entries(c) * cut->slices * gpu_summary_stride(c, cut->maker);
}

// Do several instances read an initial state that one of them overwrites? They then read a copy.
static bool is_overwritten(const gpu_pass *p, const rec_table_memory *memory) {
  const rec_table *table = p->call->table;
  for (int i = 0; i < table->memory_count; i++) {
    const rec_table_memory *final = table_memory(table, i);
    if (final->forward_use != REC_WRITE_OPTIONAL || final->copy_from < 0) continue;
    if (table_memory(table, final->copy_from) == memory)
      return call_lacks_grid_axis(p->call, &p->kernel->base, memory);
  }
  return false;
}

static int64_t initial_bytes(const gpu_pass *p, const rec_table_slot *slot) {
  const rec_table_memory *memory = table_memory(p->call->table, slot->memory);
  if (slot->written || !stage_is_state(memory) || !is_overwritten(p, memory)) return 0;
  return round_up(call_total(p->call, memory) * (int64_t)sizeof(float), REC_ALIGNMENT);
}

// Workspace of a launch, as if every result were wanted.
static int64_t pass_bytes(const gpu_pass *p) {
  int64_t bytes = SCRATCH_ALIGNMENT + p->blocks * p->scratch_bytes;
  for (int i = 0; i < p->kernel->base.slot_count; i++) {
    const rec_table_slot *slot = table_slot(p->call->table, &p->kernel->base, i);
    bytes += initial_bytes(p, slot);
    if (gpu_has_copies(p, slot)) bytes += gpu_copies_bytes(p, slot);
  }
  return bytes;
}

gpu_saved gpu_saved_of(const call *c, const gpu_device *device) {
  gpu_saved s = {0};
  if (!gpu_kernel_of(device, REC_KERNEL_BACKWARD)->base.reads_saved) return s;
  int64_t line = REC_ALIGNMENT / (int64_t)sizeof(float), chunk = device->code->chunk;
  int64_t chunks = call_chunks(c, chunk);
  s.chunk_stride = round_up(call_count(c, &c->table->saved, 0), line);
  s.entry_stride = c->packed ? 0 : chunks * s.chunk_stride;
  s.bytes = c->batch * chunks * s.chunk_stride * (int64_t)sizeof(float);
  return s;
}

int64_t gpu_kernel_bytes(const call *c, const gpu_device *device,
                         const rec_table_gpu_kernel *kernel, gpu_time_cut cut) {
  gpu_pass pass = plan_pass(c, device, kernel, cut);
  return pass_bytes(&pass);
}

int64_t gpu_kind_bytes(const call *c, const gpu_device *device, int kind) {
  gpu_form form = form_of(c, device, kind);
  const gpu_time_cut *cut = &form.cut;
  int64_t bytes = gpu_kernel_bytes(c, device, form.kernel, *cut);
  if (!cut->maker) return bytes;
  return larger(bytes, gpu_kernel_bytes(c, device, cut->maker, *cut)) + summary_bytes(c, cut);
}

static int64_t gpu_workspace(const call *c, const gpu_device *device, int kind, bool recompute) {
  if (call_is_empty(c) || !gpu_kernel_of(device, kind)->symbol_at) return 0;
  int64_t bytes = gpu_kind_bytes(c, device, kind), saved = gpu_saved_of(c, device).bytes;
  if (!recompute || saved == 0) return bytes;
  return saved + larger(bytes, gpu_kind_bytes(c, device, REC_KERNEL_STATES));
}

rec_status gpu_sizes_of(const call *call_read, const gpu_device *device, rec_sizes *sizes) {
  call c = *call_read, one = c;
  one.time = smaller(c.time, c.packed ? c.sequences : 1);
  call_flatten(&c, &gpu_kernel_of(device, REC_KERNEL_FORWARD)->base);
  sizes->workspace_step = gpu_workspace(&one, device, REC_KERNEL_STEP, false);
  sizes->saved = gpu_saved_of(&c, device).bytes;
  sizes->workspace_forward = gpu_workspace(&c, device, REC_KERNEL_FORWARD, false);
  sizes->workspace_backward = gpu_workspace(&c, device, REC_KERNEL_BACKWARD, false);
  sizes->workspace_backward_recompute = gpu_workspace(&c, device, REC_KERNEL_BACKWARD, true);
  call_set_workspace(sizes);
  return device->load ? device->load(&c, device) : REC_OK;
}

// ---- one kernel ------------------------------------------------------------------------------

// The bytes of the parameter, and the memory behind its pointers.
typedef struct gpu_parameter {
  _Alignas(rec_gpu_frame) unsigned char bytes[REC_GPU_PARAMETER_BYTES];
  int64_t size;
  simt_region regions[GPU_SLOTS_MAX + 4];
  int region_count;
} gpu_parameter;

static void add_region(gpu_parameter *x, const char *name, void *data, int64_t bytes,
                       bool writable) {
  if (data && bytes > 0) x->regions[x->region_count++] = (simt_region){name, data, bytes, writable};
}

// Bytes from the first element to the end of the last one.
static int64_t extent_bytes(const call *c, const rec_table_memory *memory, rec_slot s) {
  if (call_total(c, memory) == 0) return 0;
  int64_t numbers = call_numbers(c, memory);
  if (memory->token) numbers += (c->batch - 1) * s.batch_stride + (c->time - 1) * s.time_stride;
  if (!memory->token && memory->per_batch) numbers *= call_entries(c);
  return numbers * table_bytes(c->table, memory);
}

static char *take_memory(char **free_memory, int64_t bytes) {
  char *taken = *free_memory;
  *free_memory += bytes;
  return taken;
}

typedef struct pass_run {
  const gpu_pass *pass;
  rec_gpu_summaries summaries;  // slice summaries, if there are several slices
  bool makes_summaries;         // the kernel makes summaries, rather than combining them
  gpu_results results;
  gpu_outside outside;
  char *free_memory;
  gpu_parameter parameter;
  gpu_sums sums;
} pass_run;

static bool is_wanted_result(const pass_run *r, const rec_table_memory *memory) {
  const call *c = r->pass->call;
  return r->results == GPU_ALL ||
         (r->results == GPU_STATES && c->replaced[memory - table_memory(c->table, 0)]);
}

// The address as if there were so many steps in front.
static void *before_steps(const pass_run *r, const rec_table_memory *memory, rec_slot s) {
  int64_t bytes = r->outside.before * s.time_stride * table_bytes(r->pass->call->table, memory);
  return s.data && memory->token ? (void *)((uintptr_t)s.data - (uintptr_t)bytes) : s.data;
}

static rec_status place_gpu_slot(pass_run *r, const rec_table_slot *slot, rec_gpu_slot *placed) {
  const gpu_pass *p = r->pass;
  const call *c = p->call;
  const rec_table_memory *memory = table_memory(c->table, slot->memory);
  const char *name = table_text(c->table, memory->name_at);
  rec_slot s = call_slot(c, memory);
  if (slot->written && !is_wanted_result(r, memory)) s.data = NULL;
  int64_t bytes = extent_bytes(c, memory, s);
  *placed = (rec_gpu_slot){before_steps(r, memory, s), s.batch_stride, s.time_stride, 0};
  if (gpu_has_copies(p, slot)) {
    bytes = gpu_copies_bytes(p, slot);
    rec_status status =
        gpu_place_copies(&r->sums, p, slot, s, take_memory(&r->free_memory, bytes), placed);
    if (status != REC_OK) return status;
  } else if (initial_bytes(p, slot) > 0) {
    char *initial = take_memory(&r->free_memory, initial_bytes(p, slot));
    if (s.data) placed->data = initial;
    rec_status status = s.data ? p->device->copy(c, initial, s.data, bytes) : REC_OK;
    if (status != REC_OK) return status;
  }
  if (c->packed && memory->token) placed->batch_stride = 0;
  bool moved = placed->data == before_steps(r, memory, s);
  add_region(&r->parameter, name, moved ? s.data : placed->data, bytes, slot->written);
  return REC_OK;
}

// Places the slots with copies, or those without: copies lie one after another.
static rec_status place_slots(pass_run *r, int64_t slots_at, bool copies) {
  const gpu_pass *p = r->pass;
  for (int i = 0; i < p->kernel->base.slot_count; i++) {
    const rec_table_slot *slot = table_slot(p->call->table, &p->kernel->base, i);
    rec_gpu_slot placed;
    if (gpu_has_copies(p, slot) != copies) continue;
    rec_status status = place_gpu_slot(r, slot, &placed);
    if (status != REC_OK) return status;
    memcpy(r->parameter.bytes + slots_at + (int64_t)sizeof placed * i, &placed, sizeof placed);
  }
  return REC_OK;
}

static void *saved_before_steps(const pass_run *r, gpu_saved saved) {
  int64_t chunks = r->outside.before / r->pass->device->code->chunk;
  uintptr_t bytes = (uintptr_t)(chunks * saved.chunk_stride * (int64_t)sizeof(float));
  return saved.data ? (void *)((uintptr_t)saved.data - bytes) : NULL;
}

static rec_status fill_parameter(pass_run *r, gpu_saved saved) {
  const gpu_pass *p = r->pass;
  const call *c = p->call;
  const rec_table_kernel *base = &p->kernel->base;
  gpu_parameter *x = &r->parameter;
  // Kernels divide 32-bit integers. A block's next item, beyond the last one, is such a number as
  // well.
  if (p->items > INT32_MAX / 2 || c->time > INT32_MAX)
    return call_fail(c, REC_ERROR_ARGUMENT,
                     "expected at most %d steps and %d blocks of a GPU, found %lld and %lld",
                     INT32_MAX, INT32_MAX / 2, (long long)c->time, (long long)p->items);
  rec_gpu_frame frame = {.entries = p->entries,
                         .time = c->time ? r->outside.before + c->time + r->outside.behind : 0,
                         .cu_seqlens = c->packed ? c->cu_seqlens : NULL,
                         .blocks = p->items,
                         .slices = p->slices,
                         .slice_steps = p->slice_steps,
                         .saved = saved_before_steps(r, saved),
                         .saved_entry_stride = saved.entry_stride,
                         .saved_chunk_stride = saved.chunk_stride,
                         .scratch_stride = p->scratch_bytes,
                         .summaries = r->summaries,
                         .batched_items = p->batched * p->instances};
  int64_t slots_at = (int64_t)sizeof frame + (int64_t)sizeof(int64_t) * c->table->axis_count;
  x->size = slots_at + (int64_t)sizeof(rec_gpu_slot) * base->slot_count;
  if (x->size != p->kernel->parameter_bytes)
    return call_fail(c, REC_ERROR_INTERNAL, "a kernel of %d bytes of parameters, found %lld",
                     p->kernel->parameter_bytes, (long long)x->size);
  rec_status status = place_slots(r, slots_at, true);
  if (status == REC_OK) status = place_slots(r, slots_at, false);
  if (status != REC_OK) return status;
  uintptr_t past = (uintptr_t)r->free_memory % SCRATCH_ALIGNMENT;
  if (past) r->free_memory += SCRATCH_ALIGNMENT - past;
  frame.scratch = r->free_memory;
  memcpy(x->bytes, &frame, sizeof frame);
  memcpy(x->bytes + sizeof frame, c->axis_size, sizeof(int64_t) * (size_t)c->table->axis_count);
  add_region(x, "scratch", frame.scratch, p->blocks * p->scratch_bytes, true);
  add_region(x, "saved", saved.data, saved.bytes, !base->reads_saved);
  add_region(x, "slice summaries", r->summaries.data,
             4 * p->entries * p->slices * r->summaries.stride, r->makes_summaries);
  if (c->packed) add_region(x, "cu_seqlens", (void *)c->cu_seqlens, 4 * (c->sequences + 1), false);
  return REC_OK;
}

rec_status gpu_run_kernel(const call *c, const gpu_device *device, const gpu_kernel_run *run,
                          char *workspace) {
  const rec_table_gpu_kernel *kernel = run->kernel;
  gpu_pass pass = plan_pass(c, device, kernel, run->cut);
  pass_run r = {.pass = &pass,
                .summaries = run->summaries,
                .makes_summaries = kernel == run->cut.maker,
                .results = run->results,
                .outside = run->outside,
                .free_memory = workspace};
  rec_status status = fill_parameter(&r, run->saved);
  if (status != REC_OK) return status;
  gpu_launch launch = {
      .name = table_text(c->table, kernel->symbol_at),
      .kernel = kernel,
      .blocks = pass.blocks,
      .threads = kernel->threads,
      .shared_bytes = pass.batched ? kernel->batched_shared_bytes : kernel->shared_bytes,
      .parameter = r.parameter.bytes,
      .parameter_bytes = r.parameter.size,
      .scratch = r.free_memory,
      .scratch_bytes = pass.scratch_bytes,
      .regions = r.parameter.regions,
      .region_count = r.parameter.region_count};
  status = device->launch(c, &launch);
  return status == REC_OK ? gpu_run_sums(&r.sums, &pass) : status;
}

// Makes the slice summaries, then runs the kernel on the slices. With one slice it runs the kernel
// alone.
rec_status gpu_run_kind(const call *c, const gpu_device *device, int kind, gpu_results results,
                        gpu_saved saved, char *workspace) {
  gpu_form form = form_of(c, device, kind);
  gpu_kernel_run run = {.kernel = form.kernel, .saved = saved, .results = results, .cut = form.cut};
  if (!run.cut.maker) return gpu_run_kernel(c, device, &run, workspace);
  char *summaries = take_memory(&workspace, summary_bytes(c, &run.cut));
  run.summaries = (rec_gpu_summaries){.data = (float *)(void *)summaries,
                                      .stride = gpu_summary_stride(c, run.cut.maker)};
  gpu_kernel_run maker = {
      .kernel = run.cut.maker, .results = GPU_SAVED, .cut = run.cut, .summaries = run.summaries};
  if (maker.kernel->base.reads_saved) maker.saved = saved;
  rec_status status = gpu_run_kernel(c, device, &maker, workspace);
  return status == REC_OK ? gpu_run_kernel(c, device, &run, workspace) : status;
}

// ---- devices ---------------------------------------------------------------------------------

rec_status gpu_device_find(const call *c, int32_t kind, gpu_device *device) {
  if (kind != REC_DEVICE_SIMT && kind != REC_DEVICE_CUDA)
    return call_fail(
        c, REC_ERROR_DEVICE,
        "expected device_kind REC_DEVICE_HOST, REC_DEVICE_CUDA or REC_DEVICE_SIMT, found %d", kind);
  for (int i = 0; i < c->table->memory_count; i++)
    if (table_memory(c->table, i)->promised)
      return call_fail(c, REC_ERROR_UNSUPPORTED,
                       "expected device_kind REC_DEVICE_HOST, which verifies promised ranges (recc "
                       "--check), found %d",
                       kind);
  return kind == REC_DEVICE_CUDA ? gpu_cuda_device(c, device) : gpu_simt_device(c, device);
}

// ---- calls -----------------------------------------------------------------------------------

// Without steps, final states are the initial ones; gradients are zero or what came in.
static rec_status run_without_steps(const call *c, const gpu_device *device, bool backward) {
  rec_status status = REC_OK;
  for (int i = 0; i < c->table->memory_count && status == REC_OK; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    int32_t use = backward ? memory->backward_use : memory->forward_use;
    int64_t bytes = call_total(c, memory) * table_bytes(c->table, memory);
    void *to = call_data(c, memory);
    if ((use != REC_WRITE && use != REC_WRITE_OPTIONAL) || !to || bytes == 0) continue;
    const void *from =
        memory->copy_from >= 0 ? call_data(c, table_memory(c->table, memory->copy_from)) : NULL;
    status = from ? device->copy(c, to, from, bytes) : device->clear(c, to, bytes);
  }
  return status;
}

static rec_status check_made(const call *c, const gpu_device *device, int kind) {
  const rec_table_gpu_kernel *kernel = gpu_kernel_of(device, kind);
  if (kernel->symbol_at) return REC_OK;
  return call_fail(
      c, REC_ERROR_UNSUPPORTED, "not made for GPUs: %s",
      kernel->why_not_at ? table_text(c->table, kernel->why_not_at) : "no such kernel");
}

// Where kernels leave anything unwritten: padding of states, chunks that packed sequences do not
// need. The host does not know their lengths.
static rec_status clear_gpu_saved(const call *c, const gpu_device *device, const gpu_saved *saved) {
  bool whole = saved->chunk_stride == call_count(c, &c->table->saved, 0) && c->saved_sequences == 0;
  return whole || saved->bytes == 0 ? REC_OK : device->clear(c, c->launch->saved, saved->bytes);
}

rec_status gpu_run(const call *call_read, const gpu_device *device, int kind) {
  call c = *call_read;
  const rec_launch *launch = c.launch;
  bool backward = kind == REC_KERNEL_BACKWARD;
  if (kind != REC_KERNEL_STEP) call_flatten(&c, &gpu_kernel_of(device, REC_KERNEL_FORWARD)->base);
  gpu_saved saved = gpu_saved_of(&c, device);
  bool empty = call_is_empty(&c), recompute = backward && saved.bytes > 0 && !launch->saved;
  if (empty && backward) return run_without_steps(&c, device, backward);
  rec_status status = empty ? REC_OK : check_made(&c, device, kind);
  if (status == REC_OK && recompute) status = check_made(&c, device, REC_KERNEL_STATES);
  if (status == REC_OK)
    status = call_check_buffer(&c, "a workspace", launch->workspace, launch->workspace_bytes,
                               gpu_workspace(&c, device, kind, recompute));
  bool writes = gpu_kernel_of(device, kind)->base.writes_saved,
       keeps = saved.bytes > 0 && (writes || (backward && !recompute));
  if (status == REC_OK && keeps && launch->saved)
    status = call_check_buffer(&c, "saved", launch->saved, launch->saved_bytes, saved.bytes);
  if (status == REC_OK && keeps && launch->saved && !backward)
    status = clear_gpu_saved(&c, device, &saved);
  if (status != REC_OK) return status;
  if (empty) return run_without_steps(&c, device, backward);
  char *workspace = launch->workspace;
  if (!recompute) {
    saved.data = launch->saved;
    return gpu_run_kind(&c, device, kind, GPU_ALL, keeps ? saved : (gpu_saved){0}, workspace);
  }
  saved.data = take_memory(&workspace, saved.bytes);
  status = gpu_run_kind(&c, device, REC_KERNEL_STATES, GPU_SAVED, saved, workspace);
  return status == REC_OK ? gpu_run_kind(&c, device, kind, GPU_ALL, saved, workspace) : status;
}
