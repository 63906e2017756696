// Where the parts of a segment's summary lie, and whether it is of use.
#include "runtime/support/segment.h"

#include <float.h>
#include <string.h>

// ---- the layout of a call ------------------------------------------------------------------------

static void lay_out_host(segment_layout *l) {
  const rec_table_summary *of = &l->call->table->summaries[l->back];
  l->part_count = of->part_count;
  l->parts_at = of->parts_at;
  l->value_axis = of->value_axis;
  l->instance_axes = of->instance_axes;
}

// Is there a state of the host's summary that the GPU's lacks? The summaries of a GPU's time slices
// leave out cotangents that no step reads (schedule/time_slices.c).
static bool lacks_state(const segment_layout *l) {
  segment_layout host = {.call = l->call, .back = l->back};
  lay_out_host(&host);
  bool lacks = false;
  for (int i = 0; i < host.part_count; i++) {
    const rec_table_part *part = segment_part(&host, i);
    lacks |= segment_is_state(part) && segment_find_part(l, REC_PART_OWN, part->state, -1, 0) < 0;
  }
  return lacks;
}

static void lay_out_gpu(segment_layout *l) {
  const rec_table_gpu_kernel *maker =
      gpu_kernel_of(l->device, l->back ? REC_KERNEL_SUMMARY_BACK : REC_KERNEL_SUMMARY);
  const int32_t *grid = table_at(l->call->table, maker->base.grid_at);
  l->maker = maker;
  l->part_count = maker->part_count;
  l->parts_at = maker->parts_at;
  l->value_axis = maker->value_axis;
  for (int i = 0; i < maker->base.grid_count; i++) l->instance_axes |= UINT64_C(1) << grid[i];
  if (maker->symbol_at)
    l->stride = gpu_summary_stride(l->call, maker);
  else if (!l->why_not)
    l->why_not = "its states mix too many entries for a GPU";
  if (!l->why_not && lacks_state(l)) l->why_not = "no step reads the cotangent of a state";
}

bool segment_has_many_axes(const segment_layout *l) {
  bool many = false;
  for (int i = 0; i < l->part_count; i++) many |= segment_part(l, i)->axis_count > SEGMENT_AXES;
  return many;
}

segment_layout segment_layout_of(const call *c, const gpu_device *device, bool back) {
  const rec_table *table = c->table;
  segment_layout l = {.call = c, .device = device, .back = back};
  l.number_bytes = device ? (int64_t)sizeof(float) : table->number_bytes;
  l.entries = l.instances = c->packed ? 1 : c->batch;
  for (int axis = 0; axis < table->axis_count; axis++)
    if (table->segment_instances >> axis & 1) l.instances *= c->axis_size[axis];
  if (table->summaries[back].why_at) l.why_not = table_text(table, table->summaries[back].why_at);
  device ? lay_out_gpu(&l) : lay_out_host(&l);
  if (segment_has_many_axes(&l)) l.why_not = "a state has too many axes";
  return l;
}

// ---- parts -----------------------------------------------------------------------------------

int64_t segment_pair(const segment_layout *l, const rec_table_part *part) {
  return l->device ? 1 : table_memory(l->call->table, part->memory)->factor;
}

int64_t segment_numbers(const segment_layout *l, const rec_table_part *part) {
  const int32_t *axes = segment_axes(l, part);
  int64_t numbers = 1;
  for (int k = 0; k < part->axis_count; k++) numbers *= l->call->axis_size[axes[k]];
  return numbers;
}

int segment_find_part(const segment_layout *l, int kind, int state, int source, int component) {
  for (int i = 0; i < l->part_count; i++) {
    const rec_table_part *part = segment_part(l, i);
    if (part->kind == kind && part->state == state && part->source == source &&
        part->component == component)
      return i;
  }
  return -1;
}

// ---- memories of the host --------------------------------------------------------------------

int64_t segment_memory_bytes(const segment_layout *l, int memory) {
  int64_t numbers = call_numbers(l->call, table_memory(l->call->table, memory));
  return round_up(l->entries * numbers * l->number_bytes, REC_ALIGNMENT);
}

int64_t segment_memory_at(const segment_layout *l, int memory) {
  int64_t at = REC_SUMMARY_HEAD;
  for (int i = 0; i < l->part_count && segment_part(l, i)->memory != memory; i++)
    if (!segment_part(l, i)->component) at += segment_memory_bytes(l, segment_part(l, i)->memory);
  return at;
}

int64_t segment_blocks(const segment_layout *l) {
  if (l->value_axis < 0) return 0;
  int64_t entries = l->call->axis_size[l->value_axis];
  return (segment_first_column(l, l->part_count) + entries - 1) / entries;
}

int64_t segment_columns_at(const segment_layout *l, int memory, int64_t block) {
  int64_t at = segment_memory_at(l, -1), blocks = segment_blocks(l);
  for (int i = 0; i < l->part_count; i++) {
    const rec_table_part *part = segment_part(l, i);
    if (!part->columns || part->component) continue;
    int64_t bytes = segment_memory_bytes(l, part->memory);
    if (part->memory == memory) return at + block * bytes;
    at += blocks * bytes;
  }
  return at;
}

// ---- places ----------------------------------------------------------------------------------

// Rows of a part, of an instance or of all of them.
static int64_t count_rows(const segment_layout *l, const rec_table_part *part, bool of_instance) {
  const int32_t *axes = segment_axes(l, part);
  int64_t rows = segment_pair(l, part);
  for (int k = 0; k < part->axis_count; k++)
    if (of_instance ? segment_counts_along(l, axes[k]) : axes[k] != l->value_axis)
      rows *= l->call->axis_size[axes[k]];
  return rows;
}

// Pairs of the host are counted with their first part.
int64_t segment_first_column(const segment_layout *l, int index) {
  int64_t first = 0;
  for (int i = 0; i < index; i++) {
    const rec_table_part *part = segment_part(l, i);
    if (part->columns && (l->device || !part->component)) first += count_rows(l, part, true);
  }
  return first;
}

// Numbers of a GPU's summary before a part; behind all parts, before the rows of its matrix.
static int64_t gpu_part_at(const segment_layout *l, int index) {
  int64_t at = 0;
  for (int i = 0; i < index; i++) at += segment_numbers(l, segment_part(l, i));
  return at;
}

static int64_t gpu_rows_at(const segment_layout *l, int index) {
  int64_t at = gpu_part_at(l, l->part_count);
  for (int i = 0; i < index; i++)
    if (segment_part(l, i)->columns)
      at += count_rows(l, segment_part(l, i), false) * l->maker->row_numbers;
  return at;
}

int64_t segment_marks_at(const segment_layout *l) { return gpu_rows_at(l, l->part_count); }

static segment_place host_place(const segment_layout *l, const rec_table_part *part, int64_t at) {
  int64_t pair = segment_pair(l, part);
  return (segment_place){.at = at / l->number_bytes + part->component,
                         .entry_stride = segment_numbers(l, part) * pair,
                         .number_stride = pair,
                         .left_out = -1};
}

segment_place segment_place_of(const segment_layout *l, int index) {
  const rec_table_part *part = segment_part(l, index);
  if (!l->device) return host_place(l, part, segment_memory_at(l, part->memory));
  return (segment_place){
      .at = gpu_part_at(l, index), .entry_stride = l->stride, .number_stride = 1, .left_out = -1};
}

segment_rows segment_rows_of(const segment_layout *l, int index) {
  const rec_table_part *part = segment_part(l, index);
  if (l->device) {
    int64_t width = l->maker->row_numbers;
    return (segment_rows){.place = {gpu_rows_at(l, index), l->stride, width, l->value_axis, 1},
                          .width = width,
                          .column_stride = 1,
                          .blocks = 1,
                          .numbers = count_rows(l, part, false) * width};
  }
  const int32_t *axes = segment_axes(l, part);
  segment_rows rows = {.place = host_place(l, part, segment_columns_at(l, part->memory, 0)),
                       .width = l->call->axis_size[l->value_axis],
                       .blocks = segment_blocks(l),
                       .block_stride = segment_memory_bytes(l, part->memory) / l->number_bytes};
  rows.place.left_out = l->value_axis;
  rows.place.left_out_size = rows.width;
  rows.column_stride = rows.place.number_stride;
  for (int k = part->axis_count - 1; axes[k] != l->value_axis; k--)
    rows.column_stride *= l->call->axis_size[axes[k]];
  return rows;
}

// ---- sizes -----------------------------------------------------------------------------------

int64_t segment_bytes(const segment_layout *l) {
  if (l->why_not) return 0;
  return l->device ? l->entries * l->stride * l->number_bytes : segment_columns_at(l, -1, 0);
}

int64_t segment_state_at(const segment_layout *l, int state) {
  int64_t at = 0;
  for (int i = 0; i < l->part_count; i++) {
    const rec_table_part *part = segment_part(l, i);
    if (!segment_is_state(part)) continue;
    if (part->state == state) break;
    at += segment_memory_bytes(l, part->memory);
  }
  return at;
}

// ---- the guard -------------------------------------------------------------------------------

// A sum of logarithms may be -inf.
#define DEFINE_EXCEEDS(name, number)                                                     \
  static bool name(const void *numbers, int64_t count, double largest, bool logarithm) { \
    const number *x = numbers, limit = (number)largest;                                  \
    bool within = true;                                                                  \
    if (logarithm)                                                                       \
      for (int64_t k = 0; k < count; k++) within &= x[k] <= limit;                       \
    else                                                                                 \
      for (int64_t k = 0; k < count; k++) within &= (x[k] <= limit) & (x[k] >= -limit);  \
    return !within;                                                                      \
  }
DEFINE_EXCEEDS(floats_exceed, float)
DEFINE_EXCEEDS(doubles_exceed, double)

static bool exceeds(const call *c, const char *numbers, int64_t count, double largest,
                    bool logarithm) {
  return (c->table->number_bytes == 8 ? doubles_exceed : floats_exceed)(numbers, count, largest,
                                                                        logarithm);
}

void segment_guard(const segment_layout *l, char *summary, bool out_of_range) {
  const call *c = l->call;
  double finite = c->table->number_bytes == 8 ? DBL_MAX : (double)FLT_MAX;
  for (int i = 0; i < l->part_count; i++) {
    const rec_table_part *part = segment_part(l, i);
    if (part->component) continue;
    double largest = part->kind == REC_PART_FACTOR ? SEGMENT_LARGEST : finite;
    int64_t numbers = l->entries * segment_numbers(l, part) * segment_pair(l, part),
            blocks = part->columns ? segment_blocks(l) : 0;
    out_of_range |= exceeds(c, summary + segment_memory_at(l, part->memory), numbers, largest,
                            part->kind == REC_PART_LOGARITHM);
    for (int64_t b = 0; b < blocks; b++)
      out_of_range |= exceeds(c, summary + segment_columns_at(l, part->memory, b), numbers,
                              SEGMENT_LARGEST, false);
  }
  memset(summary, 0, REC_SUMMARY_HEAD);
  *(int32_t *)(void *)summary = out_of_range;
}

// ---- checks ----------------------------------------------------------------------------------

rec_status segment_check(const segment_layout *l) {
  if (!l->why_not) return REC_OK;
  return call_fail(l->call, REC_ERROR_UNSUPPORTED,
                   "expected a recurrence that has summaries, found that %s", l->why_not);
}

rec_status segment_check_memory(const call *c, const void *summary) {
  if (!summary) return call_fail(c, REC_ERROR_ARGUMENT, "expected a summary, found NULL");
  if ((uintptr_t)summary % REC_ALIGNMENT == 0) return REC_OK;
  return call_fail(c, REC_ERROR_ARGUMENT,
                   "expected a summary aligned to %d bytes, found address %p", REC_ALIGNMENT,
                   summary);
}

rec_status segment_check_operands(const segment_layout *l, const rec_table_kernel *maker) {
  const call *c = l->call;
  rec_status status = REC_OK;
  for (int i = 0; i < maker->slot_count && status == REC_OK; i++) {
    const rec_table_slot *slot = table_slot(c->table, maker, i);
    const rec_table_memory *memory = table_memory(c->table, slot->memory);
    if (!slot->written)
      status = call_check_memory(c, memory, l->back ? memory->backward_use : memory->forward_use);
  }
  return status;
}
