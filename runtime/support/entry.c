// The entry points: check, lay out the workspace, run the stages.
//
//   forward:  FORWARD                                 (writes chunk-start states into `saved` if there is one)
//   step:     STEP
//   backward: BACKWARD, from `saved`; without it STATES first, into the workspace
//
// A long sequence that is a single instance is cut in time (split.c). A backward whose tasks add to
// the same gradients goes window after window (window.c). Packed sequences are batch entries of
// different lengths. Those without steps are handed through at the end. Long ones that nothing else
// shares out run by themselves (alone.c).
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "runtime/support/alone.h"
#include "runtime/support/begin.h"
#include "runtime/support/delay.h"
#include "runtime/support/error.h"
#include "runtime/support/gpu.h"
#include "runtime/support/promise.h"
#include "runtime/support/segment.h"
#include "runtime/support/window.h"

// What a call needs beside its kernels' stages.
typedef struct needs {
  // bytes: pointers, and copies of initial states that are overwritten in place
  int64_t replaced;
  int64_t saved, chunk_numbers, chunks;  // call_room
} needs;

static int64_t replaced_bytes(const call *c, const rec_table_kernel *kernel) {
  int64_t bytes = stage_pointers_bytes(c);
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *final = table_memory(c->table, i);
    if (final->forward_use != REC_WRITE_OPTIONAL || final->copy_from < 0) continue;
    if (call_lacks_grid_axis(c, kernel, final))
      bytes += round_up(call_total(c, final) * c->table->number_bytes, REC_ALIGNMENT);
  }
  return bytes;
}

// How the kernels' work is cut.
static void plan_call(call *c) {
  call_flatten(c, kernel_of_call(c, REC_KERNEL_FORWARD));
  split_plan(c);
  alone_plan(c);
}

static needs entry_needs(const call *c, int kind) {
  needs n = {0};
  if (kind != REC_KERNEL_BACKWARD) n.replaced = replaced_bytes(c, kernel_of_call(c, kind));
  if (!kernel_of_call(c, REC_KERNEL_BACKWARD)->reads_saved) return n;
  call_room saved = call_saved_room(c);
  n.saved = saved.bytes, n.chunk_numbers = saved.chunk_numbers, n.chunks = saved.chunks;
  return n;
}

static int64_t workspace_of(const call *c, int kind, bool recompute) {
  if (call_is_empty(c)) return 0;
  needs n = entry_needs(c, kind);
  if (c->slices) {
    bool backward = kind == REC_KERNEL_BACKWARD;
    return (recompute ? n.saved : 0) + split_bytes(c, backward);
  }
  int64_t steps = kind == REC_KERNEL_BACKWARD ? window_steps(c) : 0;
  int64_t stage =
      n.replaced + (steps ? window_bytes(c, steps) : stage_bytes(c, kernel_of_call(c, kind)));
  if (kind != REC_KERNEL_STEP)
    stage = larger(stage, n.replaced + alone_bytes(c, kind == REC_KERNEL_BACKWARD));
  if (!recompute || n.saved == 0) return stage;
  return n.saved + larger(stage, stage_bytes(c, kernel_of_call(c, REC_KERNEL_STATES)));
}

// Promises about states are verified before the call itself, with the same workspace.
static int64_t workspace_of_forward(const call *c, int kind) {
  if (call_is_empty(c)) return 0;
  return larger(workspace_of(c, kind, false), promise_bytes(c));
}

static void host_sizes(call *c, rec_sizes *sizes) {
  call one = *c;
  one.time = smaller(c->time, c->packed ? c->sequences : 1);
  sizes->workspace_step = workspace_of_forward(&one, REC_KERNEL_STEP);
  plan_call(c);
  sizes->saved = entry_needs(c, REC_KERNEL_BACKWARD).saved;
  sizes->workspace_forward = workspace_of_forward(c, REC_KERNEL_FORWARD);
  sizes->workspace_backward = workspace_of(c, REC_KERNEL_BACKWARD, false);
  sizes->workspace_backward_recompute = workspace_of(c, REC_KERNEL_BACKWARD, true);
  call_set_workspace(sizes);
}

// A `call` as it was read. `device` NULL: the host.
static void segment_sizes(const call *call_read, const gpu_device *device, rec_sizes *sizes) {
  call c = *call_read;
  if (device) call_flatten(&c, &gpu_kernel_of(device, REC_KERNEL_FORWARD)->base);
  int64_t (*workspace)(const segment_layout *, bool) =
      device ? gpu_segment_workspace : segment_workspace;
  segment_layout l = segment_layout_of(&c, device, false),
                 back = segment_layout_of(&c, device, true);
  sizes->summary = segment_bytes(&l);
  sizes->summary_backward = segment_bytes(&back);
  sizes->workspace_summary = workspace(&l, false);
  sizes->workspace_summary_backward = workspace(&back, false);
  sizes->workspace_summary_backward_recompute = workspace(&back, true);
  sizes->workspace_fold = larger(fold_workspace(&l), fold_workspace(&back));
  sizes->segment_multiple = c.table->segment_multiple;
  sizes->instances = l.why_not ? 0 : l.instances;
}

static rec_status sizes_of(const rec_table *table, const void *arguments, rec_sizes *sizes) {
  if (table->inner) return delay_sizes_of(table, arguments, sizes);
  call c;
  rec_status status = call_read_size_fields(&c, table, "sizes", arguments);
  if (status != REC_OK) return status;
  if (!sizes) return call_fail(&c, REC_ERROR_ARGUMENT, "expected a rec_sizes, found NULL");
  const size_t least = offsetof(rec_sizes, device_kind);
  if (sizes->size < least)
    return call_fail(&c, REC_ERROR_ABI,
                     "expected a rec_sizes of at least %zu bytes, found size = %llu; set it to "
                     "sizeof(rec_sizes)",
                     least, (unsigned long long)sizes->size);
  int32_t kind = call_device_kind(sizes);
  if (kind == REC_DEVICE_HOST) {
    if (sizes->size >= sizeof *sizes) segment_sizes(&c, NULL, sizes);
    host_sizes(&c, sizes);
    return REC_OK;
  }
  gpu_device device;
  c.device_number = sizes->device_number;
  if (sizes->size >= offsetof(rec_sizes, summary)) c.time_slices = larger(0, sizes->time_parts);
  status = gpu_device_find(&c, kind, &device);
  if (status == REC_OK && sizes->size >= sizeof *sizes) segment_sizes(&c, &device, sizes);
  return status == REC_OK ? gpu_sizes_of(&c, &device, sizes) : status;
}

int rec_sizes_entry(const rec_table *table, const void *arguments, rec_sizes *sizes) {
  rec_status status = sizes_of(table, arguments, sizes);
  return status == REC_OK && table->begin_count ? begin_add_room(table, arguments, sizes) : status;
}

// ---- calls -----------------------------------------------------------------------------------

// Numbers `first` to `first + count` of a result that no step writes: final states are the initial
// ones, gradients are zero or what came in.
static void copy_or_zero(const call *c, const rec_table_memory *memory, int64_t first,
                         int64_t count) {
  size_t at = (size_t)(first * table_bytes(c->table, memory)),
         bytes = (size_t)(count * table_bytes(c->table, memory));
  char *data = call_data(c, memory);
  if (!data || bytes == 0) return;
  const char *from =
      memory->copy_from >= 0 ? call_data(c, table_memory(c->table, memory->copy_from)) : NULL;
  if (from)
    memmove(data + at, from + at, bytes);
  else
    memset(data + at, 0, bytes);
}

static bool is_result_memory(const rec_table_memory *memory, bool backward) {
  int32_t use = backward ? memory->backward_use : memory->forward_use;
  return use == REC_WRITE || use == REC_WRITE_OPTIONAL;
}

// A call without steps or batch entries.
static void run_empty(const call *c, bool backward) {
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    if (is_result_memory(memory, backward)) copy_or_zero(c, memory, 0, call_total(c, memory));
  }
}

// Packed sequences without steps among others.
static void run_empty_sequences(const call *c, bool backward) {
  for (int i = 0; c->packed && i < c->table->memory_count; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    if (!is_result_memory(memory, backward) || !stage_is_state(memory)) continue;
    int64_t numbers = call_numbers(c, memory);
    for (int64_t s = 0; s < c->sequences; s++)
      if (c->cu_seqlens[s] == c->cu_seqlens[s + 1]) copy_or_zero(c, memory, s * numbers, numbers);
  }
}

// Gives instances a copy of each initial state that they share and that the call overwrites.
static void replace_states(call *c, const rec_table_kernel *kernel, char *workspace) {
  void **replaced = stage_replace_nothing(c, workspace);
  workspace += stage_pointers_bytes(c);
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *final = table_memory(c->table, i);
    if (final->forward_use != REC_WRITE_OPTIONAL || final->copy_from < 0) continue;
    const void *initial = call_data(c, table_memory(c->table, final->copy_from));
    if (!initial || initial != call_data(c, final) || !call_lacks_grid_axis(c, kernel, final))
      continue;
    int64_t bytes = call_total(c, final) * c->table->number_bytes;
    memcpy(workspace, initial, (size_t)bytes);
    replaced[final->copy_from] = workspace;
    workspace += round_up(bytes, REC_ALIGNMENT);
  }
}

// Runs what was checked: FORWARD and STEP differ in their kernel.
static void run_forward_kernels(call *c, int kind, stage_saved saved, char *workspace) {
  if (c->slices) {
    split_forward_call(c, saved, workspace);
    return;
  }
  const rec_table_kernel *kernel = kernel_of_call(c, kind);
  replace_states(c, kernel, workspace);
  stage_run(c, kernel, saved, STAGE_ALL, NULL, workspace + entry_needs(c, kind).replaced);
}

static void run_sequence_forward(call *one, stage_saved saved, bool recompute, char *workspace) {
  (void)recompute;
  run_forward_kernels(one, REC_KERNEL_FORWARD, saved, workspace);
}

static void run_backward_kernels(call *c, stage_saved saved, bool recompute, char *workspace) {
  if (c->slices) {
    split_backward_call(c, saved, recompute, workspace);
    return;
  }
  if (recompute)
    stage_run(c, kernel_of_call(c, REC_KERNEL_STATES), saved, STAGE_SAVED, NULL, workspace);
  int64_t steps = window_steps(c);
  if (steps)
    window_run(c, steps, saved, workspace);
  else
    stage_run(c, kernel_of_call(c, REC_KERNEL_BACKWARD), saved, STAGE_ALL, NULL, workspace);
}

static rec_status run_on_gpu(const call *c, int kind) {
  gpu_device device;
  rec_status status = gpu_device_find(c, c->launch->device_kind, &device);
  if (status == REC_OK && kind == REC_KERNEL_STEP) status = call_check_steps(c);
  if (status == REC_OK) status = call_check_memories(c, kind == REC_KERNEL_BACKWARD);
  return status == REC_OK ? gpu_run(c, &device, kind) : status;
}

// Clears the rows of `chunks` saved chunks that the kernels leave unwritten. They lie after the
// last step, in the padding of each chunk, and in whole chunks at the end. The chunks begin with
// those of so many steps.
static void clear_chunks(const call *c, const needs *n, char *saved, int64_t steps,
                         int64_t chunks) {
  int64_t bytes = c->table->number_bytes, stride = n->chunk_numbers * bytes,
          chunk = c->table->chunk;
  int64_t kept = call_count(c, &c->table->kept, 0) * bytes,
          written = kept + call_count(c, &c->table->saved, 0) * bytes;
  int64_t used = (steps + chunk - 1) / chunk;
  if (steps % chunk) memset(saved + (used - 1) * stride, 0, (size_t)kept);
  for (int64_t i = 0; i < used && written < stride; i++)
    memset(saved + i * stride + written, 0, (size_t)(stride - written));
  memset(saved + used * stride, 0, (size_t)((chunks - used) * stride));
}

// Lanes share batch entries, or packed sequences.
typedef struct clearing {
  const call *call;
  const needs *needs;
  char *saved;
  int64_t items;
  _Atomic int64_t next;
} clearing;

static void clear_item(const clearing *x, int64_t item) {
  const call *c = x->call;
  int64_t first = item * x->needs->chunks, last = first + x->needs->chunks,
          steps = call_is_empty(c) ? 0 : c->time;
  if (c->packed && !call_is_empty(c)) {
    first = call_chunks_before(c, item);
    last = item + 1 < c->sequences ? call_chunks_before(c, item + 1) : x->needs->chunks;
    steps = (int64_t)c->cu_seqlens[item + 1] - c->cu_seqlens[item];
  }
  clear_chunks(c, x->needs, x->saved + first * x->needs->chunk_numbers * c->table->number_bytes,
               steps, last - first);
}

static void clear_lane(void *argument, int64_t lane) {
  clearing *x = argument;
  (void)lane;
  for (;;) {
    int64_t item = atomic_fetch_add_explicit(&x->next, 1, memory_order_relaxed);
    if (item >= x->items) return;
    clear_item(x, item);
  }
}

// The caller finds the same bytes in `saved` whatever was there before.
static void clear_saved(const call *c, const needs *n, char *saved) {
  enum { LANES = 16, WORTH_THREADS = 1 << 20 };
  clearing x = {.call = c,
                .needs = n,
                .saved = saved,
                .items = c->packed && !call_is_empty(c) ? c->sequences : c->batch};
  stage_run_parallel(c, smaller(x.items, LANES), c->packed && n->saved > WORTH_THREADS, clear_lane,
                     &x);
}

// Where a forward leaves the states for the backward, if the caller wants them.
static rec_status open_saved(const call *c, int kind, const needs *n, stage_saved *saved) {
  const rec_launch *launch = c->launch;
  *saved = (stage_saved){0};
  if (!kernel_of_call(c, kind)->writes_saved || !launch->saved || n->saved == 0) return REC_OK;
  rec_status status = call_check_buffer(c, "saved", launch->saved, launch->saved_bytes, n->saved);
  if (status != REC_OK) return status;
  *saved = (stage_saved){launch->saved, n->chunks * n->chunk_numbers, n->chunk_numbers};
  clear_saved(c, n, launch->saved);
  return REC_OK;
}

static int run_forward_entry(const rec_table *table, const void *arguments,
                             const rec_launch *launch, int kind) {
  const char *entry = kind == REC_KERNEL_STEP ? "step" : "forward";
  call c;
  rec_status status = call_read(&c, table, entry, arguments, launch);
  if (status == REC_OK) status = call_check_instances(&c);
  if (status == REC_OK && launch->device_kind != REC_DEVICE_HOST) return run_on_gpu(&c, kind);
  if (status == REC_OK && kind == REC_KERNEL_STEP) status = call_check_steps(&c);
  if (status == REC_OK) status = call_check_memories(&c, false);
  if (status == REC_OK) status = promise_check_operands(&c, false);
  if (status == REC_OK) status = call_choose_clone(&c, kernel_of_call(&c, kind));
  if (status != REC_OK) return status;
  const call whole = c;  // with the sequences as the caller counts them
  if (kind == REC_KERNEL_FORWARD) plan_call(&c);
  needs n = entry_needs(&c, kind);
  stage_saved saved;
  status = call_check_buffer(&c, "a workspace", launch->workspace, launch->workspace_bytes,
                             workspace_of_forward(&c, kind));
  if (status == REC_OK) status = open_saved(&c, kind, &n, &saved);
  if (status != REC_OK) return status;
  if (call_is_empty(&c)) {
    run_empty(&c, false);
    return REC_OK;
  }
  status = promise_check_states(&whole, launch->workspace);
  if (status != REC_OK) return status;
  run_forward_kernels(&c, kind, saved, launch->workspace);
  run_empty_sequences(&c, false);
  c.replaced = NULL;  // the workspace is used again
  if (c.alone) alone_forward_calls(&c, saved, launch->workspace, run_sequence_forward);
  return promise_check_outputs(&whole);
}

static int run_backward_entry(const rec_table *table, const void *arguments,
                              const rec_launch *launch) {
  call c;
  rec_status status = call_read(&c, table, "backward", arguments, launch);
  if (status == REC_OK) status = call_check_instances(&c);
  if (status == REC_OK && launch->device_kind != REC_DEVICE_HOST)
    return run_on_gpu(&c, REC_KERNEL_BACKWARD);
  if (status == REC_OK) status = call_check_memories(&c, true);
  if (status == REC_OK) status = promise_check_operands(&c, true);
  if (status != REC_OK) return status;
  if (call_is_empty(&c)) {
    run_empty(&c, true);
    return REC_OK;
  }
  status = call_choose_clone(&c, kernel_of_call(&c, REC_KERNEL_BACKWARD));
  if (status != REC_OK) return status;
  plan_call(&c);
  needs n = entry_needs(&c, REC_KERNEL_BACKWARD);
  bool recompute = n.saved > 0 && !launch->saved;
  if (n.saved > 0 && launch->saved) {
    status = call_check_buffer(&c, "saved", launch->saved, launch->saved_bytes, n.saved);
    if (status != REC_OK) return status;
  }
  status = call_check_buffer(&c, "a workspace", launch->workspace, launch->workspace_bytes,
                             workspace_of(&c, REC_KERNEL_BACKWARD, recompute));
  if (status != REC_OK) return status;
  stage_saved saved = {launch->saved, n.chunks * n.chunk_numbers, n.chunk_numbers};
  char *workspace = launch->workspace;
  if (recompute) {
    saved.data = workspace;
    workspace += n.saved;
  }
  run_backward_kernels(&c, saved, recompute, workspace);
  run_empty_sequences(&c, true);
  if (c.alone) alone_backward_calls(&c, saved, recompute, workspace, run_backward_kernels);
  return REC_OK;
}

// ---- entry points ----------------------------------------------------------------------------

// What an entry point is given beside the table.
typedef struct operands {
  const void *arguments;
  const rec_launch *launch;
  const rec_segments *segments;  // FOLD
  void *summary;                 // SUMMARY, SUMMARY_BACKWARD
} operands;

// A call whose states are all given.
static int run_given(const rec_table *table, begin_entry entry, operands of) {
  int kind = entry == BEGIN_FORWARD ? REC_KERNEL_FORWARD
             : entry == BEGIN_STEP  ? REC_KERNEL_STEP
                                    : REC_KERNEL_BACKWARD;
  bool back = entry == BEGIN_SUMMARY_BACKWARD;
  if (entry == BEGIN_FOLD) return fold_segments(table, of.arguments, of.launch, of.segments);
  if (entry == BEGIN_SUMMARY || back)
    return summarise_segment(table, of.arguments, of.launch, back, of.summary);
  if (table->inner) return delay_call(table, of.arguments, of.launch, kind);
  return entry == BEGIN_BACKWARD ? run_backward_entry(table, of.arguments, of.launch)
                                 : run_forward_entry(table, of.arguments, of.launch, kind);
}

static int run_entry(const rec_table *table, begin_entry entry, operands of) {
  if (!begin_is_due(table, of.arguments)) return run_given(table, entry, of);
  begun b = {.entry = entry};
  char own[table->arguments_size];
  rec_status status = begin_read(&b, table, of.arguments, of.launch);
  rec_sizes sizes = {.size = sizeof sizes};
  if (status != REC_OK) return status;
  sizes.device_kind = of.launch->device_kind;
  sizes.device_number = of.launch->device_number;
  sizes.time_parts = b.call.time_slices;
  status = (rec_status)rec_sizes_entry(table, of.arguments, &sizes);
  if (status == REC_OK) status = begin_states(&b, &sizes, own);
  if (status == REC_OK)
    status =
        (rec_status)run_given(table, entry, (operands){own, &b.launch, of.segments, of.summary});
  return status == REC_OK ? begin_end(&b) : status;
}

int rec_forward_entry(const rec_table *table, const void *arguments, const rec_launch *launch) {
  return run_entry(table, BEGIN_FORWARD, (operands){arguments, launch, NULL, NULL});
}

int rec_step_entry(const rec_table *table, const void *arguments, const rec_launch *launch) {
  return run_entry(table, BEGIN_STEP, (operands){arguments, launch, NULL, NULL});
}

int rec_backward_entry(const rec_table *table, const void *arguments, const rec_launch *launch) {
  return run_entry(table, BEGIN_BACKWARD, (operands){arguments, launch, NULL, NULL});
}

int rec_summary_entry(const rec_table *table, const void *arguments, const rec_launch *launch,
                      void *summary) {
  return run_entry(table, BEGIN_SUMMARY, (operands){arguments, launch, NULL, summary});
}

int rec_summary_backward_entry(const rec_table *table, const void *arguments,
                               const rec_launch *launch, void *summary) {
  return run_entry(table, BEGIN_SUMMARY_BACKWARD, (operands){arguments, launch, NULL, summary});
}

// Backward there are cotangents in place of states.
int rec_fold_entry(const rec_table *table, const void *arguments, const rec_launch *launch,
                   const rec_segments *segments) {
  bool forward = segments && segments->size >= sizeof *segments && !segments->backward;
  operands of = {arguments, launch, segments, NULL};
  return forward ? run_entry(table, BEGIN_FOLD, of) : run_given(table, BEGIN_FOLD, of);
}
