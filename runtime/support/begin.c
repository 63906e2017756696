// Lays out what states start from, and hands their gradients to parameters (begin.h).
//
//   workspace:  [h0 of each state that starts] [backward: d.h0 of those that start from a parameter] [the call's own]
#include "runtime/support/begin.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "compiler/abi/spread.h"
#include "runtime/support/gpu.h"
#include "runtime/support/stage.h"

static const char *const begin_names[] = {[BEGIN_FORWARD] = "forward",
                                          [BEGIN_STEP] = "step",
                                          [BEGIN_BACKWARD] = "backward",
                                          [BEGIN_SUMMARY] = "summary",
                                          [BEGIN_SUMMARY_BACKWARD] = "summary_backward",
                                          [BEGIN_FOLD] = "fold"};

static const rec_table_begin *table_begin(const rec_table *table, int index) {
  return (const rec_table_begin *)table_at(table, table->begins_at) + index;
}

static void *begin_pointer(const char *arguments, const rec_table_memory *memory) {
  void *pointer;
  memcpy(&pointer, arguments + memory->data_field, sizeof pointer);
  return pointer;
}

static void begin_put(char *arguments, const rec_table_memory *memory, void *pointer) {
  memcpy(arguments + memory->data_field, &pointer, sizeof pointer);
}

// A struct that is too small is refused by the call itself.
bool begin_is_due(const rec_table *table, const void *arguments) {
  uint64_t size;
  if (!table->begin_count || !arguments) return false;
  memcpy(&size, arguments, sizeof size);
  if (size < (uint64_t)table->arguments_size) return false;
  for (int i = 0; i < table->begin_count; i++)
    if (!begin_pointer(arguments, table_memory(table, table_begin(table, i)->before))) return true;
  return false;
}

// ---- room --------------------------------------------------------------------------------------

// At least one line, so that no start is NULL.
static int64_t begin_bytes(const call *c, const rec_table_begin *b) {
  const rec_table_memory *before = table_memory(c->table, b->before);
  return larger(REC_ALIGNMENT,
                round_up(call_total(c, before) * table_bytes(c->table, before), REC_ALIGNMENT));
}

static int64_t begin_room(const call *c, bool backward) {
  int64_t bytes = 0;
  for (int i = 0; i < c->table->begin_count; i++) {
    const rec_table_begin *b = table_begin(c->table, i);
    bytes += begin_bytes(c, b) * (backward && b->parameter >= 0 ? 2 : 1);
  }
  return bytes;
}

rec_status begin_add_room(const rec_table *table, const void *arguments, rec_sizes *sizes) {
  call c;
  rec_status status = call_read_size_fields(&c, table, "sizes", arguments);
  if (status != REC_OK) return status;
  int64_t forward = begin_room(&c, false), backward = begin_room(&c, true);
  sizes->workspace_forward += forward;
  sizes->workspace_step += forward;
  sizes->workspace_backward += backward;
  sizes->workspace_backward_recompute += backward;
  if (sizes->size >= sizeof *sizes && sizes->summary) {
    sizes->workspace_summary += forward;
    sizes->workspace_summary_backward += forward;
    sizes->workspace_summary_backward_recompute += forward;
    sizes->workspace_fold += forward;
  }
  call_set_workspace(sizes);
  return REC_OK;
}

static int64_t begin_needs(const rec_sizes *sizes, begin_entry entry, bool saved) {
  switch (entry) {
    case BEGIN_FORWARD: return call_workspace_of(sizes, REC_KERNEL_FORWARD, saved);
    case BEGIN_STEP: return call_workspace_of(sizes, REC_KERNEL_STEP, saved);
    case BEGIN_BACKWARD: return call_workspace_of(sizes, REC_KERNEL_BACKWARD, saved);
    case BEGIN_SUMMARY: return sizes->workspace_summary;
    case BEGIN_SUMMARY_BACKWARD:
      return saved ? sizes->workspace_summary_backward
                   : sizes->workspace_summary_backward_recompute;
    default: return sizes->workspace_fold;
  }
}

static rec_status begin_check_workspace(const begun *b, const rec_sizes *sizes) {
  const rec_launch *launch = b->call.launch;
  int64_t needed = larger(begin_needs(sizes, b->entry, launch->saved != NULL),
                          begin_room(&b->call, b->entry == BEGIN_BACKWARD));
  return call_check_buffer(&b->call, "a workspace", launch->workspace, launch->workspace_bytes,
                           needed);
}

// ---- numbers -----------------------------------------------------------------------------------

static void spread_axis(rec_spread_axes *to, int64_t size, int64_t stride) {
  if (to->count == 0) to->numbers = 1;
  to->axes[to->count++] = (rec_spread_axis){size, stride};
  to->numbers *= size;
}

// Numbers between the entries of a memory along an axis; 0: it lacks the axis.
static int64_t spread_stride(const call *c, const rec_table_memory *memory, int32_t axis) {
  const int32_t *axes = table_at(c->table, memory->axes_at);
  int64_t stride = memory->factor;
  for (int k = memory->axis_count - 1; k >= 0; k--) {
    if (axes[k] == axis) return stride;
    stride *= c->axis_size[axes[k]];
  }
  return 0;
}

// The axes of `of` as strides of `in`, and the parts of complex numbers.
static void spread_axes(const call *c, rec_spread_axes *to, const rec_table_memory *of,
                        const rec_table_memory *in) {
  const int32_t *axes = table_at(c->table, of->axes_at);
  for (int k = 0; k < of->axis_count; k++)
    spread_axis(to, c->axis_size[axes[k]], spread_stride(c, in, axes[k]));
  spread_axis(to, of->factor, 1);
}

static int64_t spread_place(const rec_spread_axes *axes, int64_t index) {
  int64_t place = 0;
  for (int64_t k = axes->count - 1; k >= 0; k--) {
    place += index % axes->axes[k].size * axes->axes[k].stride;
    index /= axes->axes[k].size;
  }
  return place;
}

#define DEFINE_SPREAD(name, real)                                                                  \
  static void name(const rec_spread *x, int64_t i) {                                               \
    const real *from = x->from;                                                                    \
    double sum = 0;                                                                                \
    int64_t at = from ? spread_place(&x->outer, i) : 0;                                            \
    if (!from)                                                                                     \
      sum = x->number[i % x->parts];                                                               \
    else if (x->inner.count == 1)                                                                  \
      for (int64_t j = 0; j < x->inner.numbers; j++)                                               \
        sum += from[at + j * x->inner.axes[0].stride];                                             \
    else                                                                                           \
      for (int64_t j = 0; j < x->inner.numbers; j++) sum += from[at + spread_place(&x->inner, j)]; \
    if (x->adds) sum += ((const real *)x->to)[i];                                                  \
    ((real *)x->to)[i] = (real)sum;                                                                \
  }
DEFINE_SPREAD(spread_float, float)
DEFINE_SPREAD(spread_double, double)

// On the host, lanes share the numbers, some at a time.
typedef struct spread_run {
  const rec_spread *spread;
  int64_t number_bytes, at_once;
  _Atomic int64_t next;
} spread_run;

static void spread_lane(void *argument, int64_t lane) {
  spread_run *r = argument;
  int64_t all = r->spread->outer.numbers;
  (void)lane;
  for (;;) {
    int64_t first = atomic_fetch_add_explicit(&r->next, r->at_once, memory_order_relaxed);
    if (first >= all) return;
    for (int64_t i = first; i < smaller(all, first + r->at_once); i++)
      (r->number_bytes == 8 ? spread_double : spread_float)(r->spread, i);
  }
}

static rec_status launch_spread(const begun *b, const rec_spread *x, int64_t from_numbers) {
  simt_region regions[2] = {
      {"what a state starts from", x->to, x->outer.numbers * (int64_t)sizeof(float), true},
      {"a start", (void *)x->from, from_numbers * (int64_t)sizeof(float), false}};
  int64_t blocks = (x->outer.numbers + REC_GPU_SUM_THREADS - 1) / REC_GPU_SUM_THREADS;
  gpu_launch launch = {.name = "rec_gpu_spread",
                       .simt = b->call.table->simt_spread,
                       .threads = REC_GPU_SUM_THREADS,
                       .blocks = smaller(blocks, b->device.blocks),
                       .parameter = x,
                       .parameter_bytes = sizeof *x,
                       .regions = regions,
                       .region_count = x->from ? 2 : 1};
  return b->device.launch(&b->call, &launch);
}

static rec_status run_spread(const begun *b, const rec_spread *x, int64_t from_numbers) {
  enum { LANES = 64, MOST_AT_ONCE = 4096, WORTH_THREADS = 1 << 15 };
  if (x->outer.numbers == 0) return REC_OK;
  if (b->device.launch) return launch_spread(b, x, from_numbers);
  spread_run r = {.spread = x, .number_bytes = b->call.table->number_bytes};
  r.at_once = smaller(MOST_AT_ONCE, x->outer.numbers / LANES + 1);
  stage_run_parallel(&b->call, LANES, x->outer.numbers * x->inner.numbers >= WORTH_THREADS,
                     spread_lane, &r);
  return REC_OK;
}

// ---- states ------------------------------------------------------------------------------------

static void *begin_place(begun *b, const rec_table_begin *of) {
  void *taken = b->free_memory;
  b->free_memory += begin_bytes(&b->call, of);
  return taken;
}

static rec_status begin_fill(begun *b, const rec_table_begin *of, void *to) {
  const call *c = &b->call;
  const rec_table_memory *before = table_memory(c->table, of->before);
  rec_spread x = {.to = to, .parts = before->factor, .number = {of->number[0], of->number[1]}};
  int64_t numbers = 0;
  spread_axis(&x.outer, call_entries(c), 0);
  spread_axis(&x.inner, 1, 0);
  if (of->parameter >= 0) {
    const rec_table_memory *parameter = table_memory(c->table, of->parameter);
    x.from = call_data(c, parameter);
    numbers = call_total(c, parameter);
    spread_axes(c, &x.outer, before, parameter);
  } else {
    spread_axis(&x.outer, call_numbers(c, before), 0);
  }
  return run_spread(b, &x, numbers);
}

// Lays out the states that the call is not given. Where the gradient of a parameter is wanted, the
// state that starts from it gets room for its own gradient, too.
static rec_status begin_lay_out(begun *b) {
  const rec_table *table = b->call.table;
  rec_status status = REC_OK;
  for (int i = 0; i < table->begin_count && status == REC_OK; i++) {
    const rec_table_begin *of = table_begin(table, i);
    const rec_table_memory *before = table_memory(table, of->before);
    if (call_data(&b->call, before)) continue;
    void *own = begin_place(b, of);
    begin_put(b->arguments, before, own);
    status = begin_fill(b, of, own);
    if (b->entry != BEGIN_BACKWARD || of->parameter < 0 ||
        !call_data(&b->call, table_memory(table, of->d_parameter)))
      continue;
    const rec_table_memory *d_before = table_memory(table, of->d_before);
    if (!call_data(&b->call, d_before)) begin_put(b->arguments, d_before, begin_place(b, of));
  }
  return status;
}

static rec_status begin_gradient(const begun *b, const rec_table_begin *of) {
  const call *c = &b->call;
  const rec_table_memory *d_before = table_memory(c->table, of->d_before),
                         *d_to = table_memory(c->table, of->d_parameter);
  const int32_t *axes = table_at(c->table, d_before->axes_at);
  rec_spread x = {.to = call_data(c, d_to),
                  .from = begin_pointer(b->arguments, d_before),
                  .parts = d_to->factor,
                  .adds = 1};
  if (!x.to || call_data(c, table_memory(c->table, of->before))) return REC_OK;
  spread_axes(c, &x.outer, d_to, d_before);
  spread_axis(&x.inner, call_entries(c), call_numbers(c, d_before));
  for (int k = 0; k < d_before->axis_count; k++)
    if (!call_has_axis(c, d_to, axes[k]))
      spread_axis(&x.inner, c->axis_size[axes[k]], spread_stride(c, d_before, axes[k]));
  return run_spread(b, &x, call_total(c, d_before));
}

rec_status begin_end(const begun *b) {
  rec_status status = REC_OK;
  bool backward = b->entry == BEGIN_BACKWARD;
  for (int i = 0; backward && i < b->call.table->begin_count && status == REC_OK; i++) {
    const rec_table_begin *of = table_begin(b->call.table, i);
    if (of->parameter >= 0) status = begin_gradient(b, of);
  }
  return status;
}

// ---- calls -------------------------------------------------------------------------------------

// Parameters that states start from.
static rec_status begin_check_operands(const call *c) {
  rec_status status = REC_OK;
  for (int i = 0; i < c->table->begin_count && status == REC_OK; i++) {
    const rec_table_begin *of = table_begin(c->table, i);
    if (of->parameter >= 0)
      status = call_check_memory(c, table_memory(c->table, of->parameter), REC_READ);
  }
  return status;
}

rec_status begin_read(begun *b, const rec_table *table, const void *arguments,
                      const rec_launch *launch) {
  call *c = &b->call;
  rec_status status = call_read(c, table, begin_names[b->entry], arguments, launch);
  if (status == REC_OK) status = begin_check_operands(c);
  if (status == REC_OK && launch->device_kind != REC_DEVICE_HOST)
    status = gpu_device_find(c, launch->device_kind, &b->device);
  return status;
}

rec_status begin_states(begun *b, const rec_sizes *sizes, char *own) {
  const call *c = &b->call;
  rec_status status = begin_check_workspace(b, sizes);
  if (status != REC_OK) return status;
  memcpy(own, c->arguments, (size_t)c->table->arguments_size);
  b->arguments = own;
  b->free_memory = c->launch->workspace;
  status = begin_lay_out(b);
  b->launch = call_launch_behind(c, b->free_memory - (char *)c->launch->workspace);
  return status;
}
