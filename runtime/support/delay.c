// Lays out rows of tokens for the kernels of a recurrence without its long lags (delay.h).
//
//   workspace:  [memories that the kernels alone have] [lag buffers that are overwritten in place] [the kernels' own]
#include "runtime/support/delay.h"

#include <stdatomic.h>
#include <string.h>

#include "compiler/abi/gpu_rows.h"
#include "runtime/support/gpu.h"
#include "runtime/support/narrow.h"
#include "runtime/support/stage.h"

enum { ROWS_OF_ITEM = 64, ADDED_AT_ONCE = 256, ROW_LANES = 128 };

// Below this many numbers, waking other threads costs more than they save.
#define ROWS_WORTH_THREADS ((int64_t)1 << 15)

typedef struct delay {
  call *outer, inner;
  bool backward;
  char *free_memory;
  gpu_device device;  // without `launch`: the host
} delay;

static const char *const entry_names[] = {[REC_KERNEL_FORWARD] = "forward",
                                          [REC_KERNEL_STEP] = "step",
                                          [REC_KERNEL_BACKWARD] = "backward"};

static const rec_table_rows *table_rows(const rec_table *table, int index) {
  return (const rec_table_rows *)table_at(table, table->rows_at) + index;
}

static const rec_table_row_source *table_row_source(const rec_table *table,
                                                    const rec_table_rows *rows, int index) {
  return (const rec_table_row_source *)table_at(table, rows->sources_at) + index;
}

static int32_t outer_memory(const rec_table *table, int memory) {
  return ((const int32_t *)table_at(table, table->inner_memories_at))[memory];
}

static bool is_used(const rec_table_memory *memory, bool backward) {
  return (backward ? memory->backward_use : memory->forward_use) != REC_UNUSED;
}

static bool rows_apply(const rec_table_rows *rows, bool backward) {
  switch (rows->when) {
    case REC_ROWS_BEFORE: return true;
    case REC_ROWS_AFTER_FORWARD: return !backward;
    default: return backward;
  }
}

static bool is_after(const rec_table_rows *rows) {
  return rows->when == REC_ROWS_AFTER_FORWARD || rows->when == REC_ROWS_AFTER_BACKWARD;
}

// ---- the inner call --------------------------------------------------------------------------

static void put_field(char *arguments, int32_t field, const void *value) {
  memcpy(arguments + field, value, 8);
}

static void copy_field(char *to, int32_t to_field, const char *from, int32_t from_field) {
  memcpy(to + to_field, from + from_field, 8);
}

// Sizes and sequences: those of the caller.
static void put_inner_sizes(const rec_table *table, const char *from, char *to) {
  const rec_table *inner = table->inner;
  uint64_t size = (uint64_t)inner->arguments_size;
  memset(to, 0, size);
  put_field(to, 0, &size);
  copy_field(to, inner->batch_field, from, table->batch_field);
  copy_field(to, inner->time_field, from, table->time_field);
  copy_field(to, inner->sequences_field, from, table->sequences_field);
  copy_field(to, inner->cu_seqlens_field, from, table->cu_seqlens_field);
  for (int i = 0; i < table->axis_count; i++)
    copy_field(to, table_axis(inner, i)->field, from, table_axis(table, i)->field);
}

static int64_t bytes_of_memory(const call *c, const rec_table_memory *memory) {
  return round_up(call_total(c, memory) * table_bytes(c->table, memory), REC_ALIGNMENT);
}

// Of what the kernels alone have, and of buffers that may be overwritten.
static int64_t own_bytes(const call *outer, const call *inner, bool backward) {
  const rec_table *table = outer->table;
  int64_t bytes = 0;
  for (int i = 0; i < table->inner->memory_count; i++) {
    const rec_table_memory *memory = table_memory(table->inner, i);
    if (outer_memory(table, i) < 0 && is_used(memory, backward))
      bytes += bytes_of_memory(inner, memory);
  }
  for (int i = 0; i < table->rows_count; i++) {
    const rec_table_rows *rows = table_rows(table, i);
    if (rows_apply(rows, backward) && is_after(rows) && rows->rows)
      bytes += bytes_of_memory(outer, table_memory(table, rows->memory));
  }
  return bytes;
}

// Is any result wanted that these rows are part of?
static bool wants_rows(const delay *d, int memory) {
  const rec_table *table = d->outer->table;
  for (int i = 0; i < table->rows_count; i++) {
    const rec_table_rows *rows = table_rows(table, i);
    if (!is_after(rows) || !rows_apply(rows, d->backward)) continue;
    if (!call_data(d->outer, table_memory(table, rows->memory))) continue;
    for (int k = 0; k < rows->source_count; k++) {
      const rec_table_row_source *source = table_row_source(table, rows, k);
      if (source->inner && source->memory == memory) return true;
    }
  }
  return false;
}

// Is there anything that these rows are made of?
static bool has_sources(const delay *d, int memory) {
  const rec_table *table = d->outer->table;
  for (int i = 0; i < table->rows_count; i++) {
    const rec_table_rows *rows = table_rows(table, i);
    if (!rows->inner || rows->memory != memory || is_after(rows)) continue;
    for (int k = 0; k < rows->source_count; k++) {
      const rec_table_row_source *source = table_row_source(table, rows, k);
      if (source->memory < 0 || call_data(d->outer, table_memory(table, source->memory)))
        return true;
    }
  }
  return false;
}

// An optional memory is left out where nobody has use for it.
static bool is_memory_needed(const delay *d, int memory) {
  const rec_table_memory *m = table_memory(d->inner.table, memory);
  int32_t use = d->backward ? m->backward_use : m->forward_use;
  if (use == REC_WRITE_OPTIONAL) return wants_rows(d, memory);
  return use != REC_READ_OPTIONAL || has_sources(d, memory);
}

static void *place_own(delay *d, int64_t bytes) {
  void *taken = d->free_memory;
  d->free_memory += bytes;
  return taken;
}

// Where each memory of the kernels is: the caller's, or in the workspace.
static void put_inner_memories(delay *d, char *arguments) {
  const rec_table *table = d->outer->table;
  for (int i = 0; i < table->inner->memory_count; i++) {
    const rec_table_memory *memory = table_memory(table->inner, i);
    int32_t from = outer_memory(table, i);
    if (from >= 0) {
      const rec_table_memory *own = table_memory(table, from);
      copy_field(arguments, memory->data_field, d->outer->arguments, own->data_field);
      if (!memory->token) continue;
      copy_field(arguments, memory->batch_stride_field, d->outer->arguments,
                 own->batch_stride_field);
      copy_field(arguments, memory->time_stride_field, d->outer->arguments, own->time_stride_field);
    } else if (is_used(memory, d->backward)) {
      void *data = place_own(d, bytes_of_memory(&d->inner, memory));
      if (!is_memory_needed(d, i)) data = NULL;
      put_field(arguments, memory->data_field, &data);
    }
  }
}

// ---- rows ------------------------------------------------------------------------------------

static rec_gpu_row_side side_of(const delay *d, int memory, bool inner, int64_t rows) {
  const call *c = inner ? &d->inner : d->outer;
  const rec_table_memory *m = table_memory(c->table, memory);
  rec_slot s = call_slot(c, m);
  rec_gpu_row_side side = {.data = s.data,
                           .entry_stride = s.batch_stride,
                           .row_stride = s.time_stride,
                           .rows = rows,
                           .stored = m->stored};
  if (rows) side.row_stride = call_numbers(c, m) / rows;
  if (!rows && c->packed) side.entry_stride = 0;
  return side;
}

static rec_gpu_row_side source_side(const delay *d, const rec_table_row_source *source) {
  rec_gpu_row_side side = {.data = d->outer, .rows = source->rows, .stored = REC_ROWS_ONE};
  if (source->memory >= 0) side = side_of(d, source->memory, source->inner, source->rows);
  side.offset = source->offset;
  side.ends = source->ends;
  return side;
}

// From the first number to behind the last one.
static int64_t side_bytes(const rec_gpu_rows *x, const rec_gpu_row_side *side) {
  int64_t rows = side->rows ? side->rows : x->time,
          bytes = side->stored == REC_STORED_NUMBER ? 4 : 2;
  return rows == 0 ? 0
                   : ((x->entries - 1) * side->entry_stride + (rows - 1) * side->row_stride +
                      x->numbers) *
                         bytes;
}

static rec_status launch_rows(delay *d, const rec_gpu_rows *x) {
  simt_region regions[REC_GPU_ROW_SOURCES + 2];
  int count = 0;
  int64_t rows = x->to.rows ? x->to.rows : x->time;
  regions[count++] = (simt_region){"rows", x->to.data, side_bytes(x, &x->to), true};
  for (int64_t i = 0; i < x->count; i++)
    if (x->from[i].data && x->from[i].stored != REC_ROWS_ONE)
      regions[count++] =
          (simt_region){"a source of rows", x->from[i].data, side_bytes(x, &x->from[i]), false};
  if (x->cu_seqlens)
    regions[count++] =
        (simt_region){"cu_seqlens", (void *)x->cu_seqlens, 4 * (x->entries + 1), false};
  int64_t blocks = (rows * x->numbers + REC_GPU_SUM_THREADS - 1) / REC_GPU_SUM_THREADS;
  gpu_launch launch = {.name = "rec_gpu_rows",
                       .simt = d->outer->table->simt_rows,
                       .threads = REC_GPU_SUM_THREADS,
                       .blocks = smaller(blocks, d->device.blocks),
                       .parameter = x,
                       .parameter_bytes = sizeof *x,
                       .regions = regions,
                       .region_count = count};
  return d->device.launch(d->outer, &launch);
}

// On the host: items of some rows of an entry.
typedef struct row_run {
  const rec_gpu_rows *rows;
  int64_t items_of_entry, number_bytes;
  _Atomic int64_t next;
} row_run;

static int64_t bytes_of_side(const row_run *r, const rec_gpu_row_side *side) {
  return side->stored == REC_STORED_NUMBER ? r->number_bytes : 2;
}

static int64_t steps_in_entry(const rec_gpu_rows *x, int64_t entry) {
  return x->cu_seqlens ? x->cu_seqlens[entry + 1] - x->cu_seqlens[entry] : x->time;
}

static char *side_row(const row_run *r, const rec_gpu_row_side *side, int64_t entry, int64_t row) {
  if (!side->rows) row += r->rows->cu_seqlens ? r->rows->cu_seqlens[entry] : 0;
  return (char *)side->data +
         (entry * side->entry_stride + row * side->row_stride) * bytes_of_side(r, side);
}

static void add_numbers(double *to, const void *from, int64_t count, int64_t stored,
                        int64_t number_bytes) {
  if (stored == REC_ROWS_ONE)
    for (int64_t i = 0; i < count; i++) to[i] += 1;
  else if (stored != REC_STORED_NUMBER)
    for (int64_t i = 0; i < count; i++)
      to[i] += rec_widen(((const uint16_t *)from)[i], (int)stored);
  else if (number_bytes == 8)
    for (int64_t i = 0; i < count; i++) to[i] += ((const double *)from)[i];
  else
    for (int64_t i = 0; i < count; i++) to[i] += ((const float *)from)[i];
}

static void store_row_numbers(void *to, const double *from, int64_t count, int64_t stored,
                              int64_t number_bytes) {
  float narrowed[ADDED_AT_ONCE];
  if (stored == REC_STORED_NUMBER && number_bytes == 8) {
    memcpy(to, from, sizeof *from * (size_t)count);
    return;
  }
  float *as_float = stored == REC_STORED_NUMBER ? to : narrowed;
  for (int64_t i = 0; i < count; i++) as_float[i] = (float)from[i];
  if (stored != REC_STORED_NUMBER) rec_narrow(to, narrowed, count, (int)stored);
}

// The row that a source has for row `row` of an entry; NULL: none.
static const char *source_row(const row_run *r, const rec_gpu_row_side *side, int64_t entry,
                              int64_t row) {
  int64_t steps = steps_in_entry(r->rows, entry), from = row + side->offset + side->ends * steps;
  if (!side->data || from < 0 || from >= (side->rows ? side->rows : steps)) return NULL;
  return side->stored == REC_ROWS_ONE ? (const char *)side->data : side_row(r, side, entry, from);
}

static void sum_into_row(const row_run *r, int64_t entry, int64_t row) {
  const rec_gpu_rows *x = r->rows;
  double sums[ADDED_AT_ONCE];
  char *to = side_row(r, &x->to, entry, row);
  for (int64_t first = 0; first < x->numbers; first += ADDED_AT_ONCE) {
    int64_t count = smaller(ADDED_AT_ONCE, x->numbers - first);
    memset(sums, 0, sizeof sums);
    for (int64_t k = 0; k < x->count; k++) {
      const rec_gpu_row_side *side = &x->from[k];
      const char *from = source_row(r, side, entry, row);
      if (from)
        add_numbers(sums, from + first * bytes_of_side(r, side), count, side->stored,
                    r->number_bytes);
    }
    store_row_numbers(to + first * bytes_of_side(r, &x->to), sums, count, x->to.stored,
                      r->number_bytes);
  }
}

// A row that comes of one alone is a copy of it.
static void make_row(const row_run *r, int64_t entry, int64_t row) {
  const rec_gpu_rows *x = r->rows;
  const char *only = NULL;
  int found = 0;
  for (int64_t k = 0; k < x->count; k++) {
    const char *from = source_row(r, &x->from[k], entry, row);
    if (!from) continue;
    only = from;
    found += x->from[k].stored == x->to.stored ? 1 : 2;
  }
  if (found == 1)
    memcpy(side_row(r, &x->to, entry, row), only, (size_t)(x->numbers * bytes_of_side(r, &x->to)));
  else
    sum_into_row(r, entry, row);
}

static void run_items(void *argument, int64_t lane) {
  row_run *r = argument;
  const rec_gpu_rows *x = r->rows;
  (void)lane;
  for (;;) {
    int64_t item = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
    int64_t entry = item / r->items_of_entry, first = item % r->items_of_entry * ROWS_OF_ITEM;
    if (entry >= x->entries) return;
    int64_t rows = x->to.rows ? x->to.rows : steps_in_entry(x, entry);
    for (int64_t row = first; row < smaller(rows, first + ROWS_OF_ITEM); row++)
      make_row(r, entry, row);
  }
}

static rec_status run_rows_on_host(delay *d, const rec_gpu_rows *x) {
  int64_t rows = x->to.rows ? x->to.rows : x->cu_seqlens ? d->outer->longest : x->time;
  row_run r = {.rows = x,
               .items_of_entry = larger(1, (rows + ROWS_OF_ITEM - 1) / ROWS_OF_ITEM),
               .number_bytes = d->outer->table->number_bytes};
  int64_t items = r.items_of_entry * x->entries;
  stage_run_parallel(d->outer, smaller(items, ROW_LANES),
                     rows * x->numbers * x->entries >= ROWS_WORTH_THREADS, run_items, &r);
  return REC_OK;
}

// A buffer that these rows are written over is read from a copy.
static rec_status keep_overwritten(delay *d, rec_gpu_rows *x, int64_t bytes) {
  void *copy = place_own(d, round_up(bytes, REC_ALIGNMENT));
  for (int64_t k = 0; k < x->count; k++) {
    if (x->from[k].data != x->to.data || !x->to.data) continue;
    x->from[k].data = copy;
    if (d->device.copy) return d->device.copy(d->outer, copy, x->to.data, bytes);
    memcpy(copy, x->to.data, (size_t)bytes);
  }
  return REC_OK;
}

static rec_status run_rows(delay *d, const rec_table_rows *rows) {
  const rec_table *table = d->outer->table;
  const call *c = rows->inner ? &d->inner : d->outer;
  const rec_table_memory *memory = table_memory(c->table, rows->memory);
  rec_gpu_rows x = {.entries = call_entries(c),
                    .time = c->time,
                    .cu_seqlens = c->packed ? c->cu_seqlens : NULL,
                    .numbers = call_numbers(c, memory) / (rows->rows ? rows->rows : 1),
                    .to = side_of(d, rows->memory, rows->inner, rows->rows),
                    .count = rows->source_count};
  for (int k = 0; k < rows->source_count; k++)
    x.from[k] = source_side(d, table_row_source(table, rows, k));
  rec_status status = REC_OK;
  if (rows->rows && is_after(rows))
    status = keep_overwritten(d, &x, call_total(c, memory) * table_bytes(c->table, memory));
  if (status != REC_OK || !x.to.data || call_total(c, memory) == 0) return status;
  return d->device.launch ? launch_rows(d, &x) : run_rows_on_host(d, &x);
}

static rec_status run_all_rows(delay *d, bool after) {
  const rec_table *table = d->outer->table;
  rec_status status = REC_OK;
  for (int i = 0; i < table->rows_count && status == REC_OK; i++) {
    const rec_table_rows *rows = table_rows(table, i);
    if (is_after(rows) == after && rows_apply(rows, d->backward)) status = run_rows(d, rows);
  }
  return status;
}

// ---- entry points ----------------------------------------------------------------------------

static int64_t of_step(const call *c) { return smaller(c->time, c->packed ? c->sequences : 1); }

// The kernel that moves rows; the inner table's own are loaded already.
static rec_status load_rows(call *c, const rec_sizes *sizes) {
  int32_t kind = call_device_kind(sizes);
  gpu_device device;
  if (kind == REC_DEVICE_HOST) return REC_OK;
  c->device_number = sizes->device_number;
  rec_status status = gpu_device_find(c, kind, &device);
  return status == REC_OK && device.load ? device.load(c, &device) : status;
}

rec_status delay_sizes_of(const rec_table *table, const void *arguments, rec_sizes *sizes) {
  call outer, inner;
  rec_status status = call_read_size_fields(&outer, table, "sizes", arguments);
  if (status != REC_OK) return status;
  char own[table->inner->arguments_size];
  put_inner_sizes(table, arguments, own);
  status = rec_sizes_entry(table->inner, own, sizes);
  if (status == REC_OK) status = load_rows(&outer, sizes);
  if (status == REC_OK) status = call_read_size_fields(&inner, table->inner, "sizes", own);
  if (status != REC_OK) return status;
  int64_t forward = own_bytes(&outer, &inner, false), backward = own_bytes(&outer, &inner, true);
  call one = outer, one_inner = inner;
  one.time = one_inner.time = of_step(&outer);
  sizes->workspace_step += own_bytes(&one, &one_inner, false);
  sizes->workspace_forward += forward;
  sizes->workspace_backward += backward;
  sizes->workspace_backward_recompute += backward;
  if (sizes->size >= sizeof *sizes) call_without_summaries(&outer, sizes);
  call_set_workspace(sizes);
  return REC_OK;
}

static rec_status check_workspace(const call *c, int kind) {
  const rec_launch *launch = c->launch;
  rec_sizes sizes = {.size = sizeof sizes,
                     .device_kind = launch->device_kind,
                     .device_number = launch->device_number,
                     .time_parts = c->time_slices};
  rec_status status = delay_sizes_of(c->table, c->arguments, &sizes);
  if (status != REC_OK) return status;
  int64_t needed = call_workspace_of(&sizes, kind, launch->saved != NULL);
  return call_check_buffer(c, "a workspace", launch->workspace, launch->workspace_bytes, needed);
}

static rec_status run_inner(const delay *d, int kind, int64_t taken) {
  rec_launch launch = call_launch_behind(d->outer, taken);
  const rec_table *inner = d->inner.table;
  if (kind == REC_KERNEL_FORWARD) return rec_forward_entry(inner, d->inner.arguments, &launch);
  if (kind == REC_KERNEL_STEP) return rec_step_entry(inner, d->inner.arguments, &launch);
  return rec_backward_entry(inner, d->inner.arguments, &launch);
}

rec_status delay_call(const rec_table *table, const void *arguments, const rec_launch *launch,
                      int kind) {
  call c;
  delay d = {.outer = &c, .backward = kind == REC_KERNEL_BACKWARD};
  rec_status status = call_read(&c, table, entry_names[kind], arguments, launch);
  if (status == REC_OK) status = call_check_memories(&c, d.backward);
  if (status == REC_OK && launch->device_kind != REC_DEVICE_HOST)
    status = gpu_device_find(&c, launch->device_kind, &d.device);
  if (status == REC_OK && kind == REC_KERNEL_STEP) status = call_check_steps(&c);
  if (status == REC_OK) status = check_workspace(&c, kind);
  if (status != REC_OK) return status;
  char own[table->inner->arguments_size];
  put_inner_sizes(table, arguments, own);
  status = call_read_size_fields(&d.inner, table->inner, entry_names[kind], own);
  if (status != REC_OK) return status;
  int64_t taken = own_bytes(&c, &d.inner, d.backward);
  d.free_memory = launch->workspace;
  put_inner_memories(&d, own);
  status = run_all_rows(&d, false);
  if (status == REC_OK) status = run_inner(&d, kind, taken);
  return status == REC_OK ? run_all_rows(&d, true) : status;
}
