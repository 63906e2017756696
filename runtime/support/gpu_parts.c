// Where the parts of a segment's summary lie on a GPU.
#include "runtime/support/gpu_parts.h"

gpu_parts gpu_parts_of(const call *c, const gpu_device *device, bool back) {
  gpu_parts p = {.call = c, .device = device, .back = back, .entries = c->packed ? 1 : c->batch};
  p.maker = gpu_kernel_of(device, back ? REC_KERNEL_SUMMARY_BACK : REC_KERNEL_SUMMARY);
  if (p.maker->symbol_at && !c->table->summaries[back].why_at)
    p.stride = gpu_summary_stride(c, p.maker);
  return p;
}

int64_t gpu_part_numbers(const gpu_parts *p, const rec_table_gpu_part *part) {
  const int32_t *axes = gpu_part_axes(p, part);
  int64_t numbers = 1;
  for (int k = 0; k < part->axis_count; k++) numbers *= p->call->axis_size[axes[k]];
  return numbers;
}

bool gpu_parts_have_instances_along(const gpu_parts *p, int axis) {
  const int32_t *grid = table_at(p->call->table, p->maker->base.grid_at);
  for (int i = 0; i < p->maker->base.grid_count; i++)
    if (grid[i] == axis) return true;
  return false;
}

static int64_t rows_of(const gpu_parts *p, const rec_table_gpu_part *part, bool of_instance) {
  const int32_t *axes = gpu_part_axes(p, part);
  int64_t rows = 1;
  for (int k = 0; k < part->axis_count; k++) {
    if (axes[k] == p->maker->value_axis ||
        (of_instance && gpu_parts_have_instances_along(p, axes[k])))
      continue;
    rows *= p->call->axis_size[axes[k]];
  }
  return rows;
}

int64_t gpu_part_rows(const gpu_parts *p, const rec_table_gpu_part *part) {
  return rows_of(p, part, false);
}

int64_t gpu_part_at(const gpu_parts *p, int index) {
  int64_t at = 0;
  for (int i = 0; i < index; i++) at += gpu_part_numbers(p, gpu_part(p, i));
  return at;
}

int64_t gpu_rows_at(const gpu_parts *p, int index) {
  int64_t at = gpu_part_at(p, p->maker->part_count);
  for (int i = 0; i < index; i++)
    if (gpu_part(p, i)->columns) at += gpu_part_rows(p, gpu_part(p, i)) * p->maker->row_numbers;
  return at;
}

int64_t gpu_marks_at(const gpu_parts *p) { return gpu_rows_at(p, p->maker->part_count); }

int64_t gpu_first_column(const gpu_parts *p, int index) {
  int64_t first = 0;
  for (int i = 0; i < index; i++)
    if (gpu_part(p, i)->columns) first += rows_of(p, gpu_part(p, i), true);
  return first;
}

int gpu_find_part(const gpu_parts *p, int kind, int state, int source, int component) {
  for (int i = 0; i < p->maker->part_count; i++) {
    const rec_table_gpu_part *part = gpu_part(p, i);
    if (part->kind == kind && part->state == state && part->source == source &&
        part->component == component)
      return i;
  }
  return -1;
}

const rec_table_memory *gpu_state_after(const gpu_parts *p, int state) {
  const rec_table *table = p->call->table;
  for (int i = 0; i < table->memory_count; i++)
    if (table_memory(table, i)->copy_from == state) return table_memory(table, i);
  return NULL;
}

static int64_t state_bytes_of(const gpu_parts *p, const rec_table_gpu_part *part) {
  int64_t numbers = call_numbers(p->call, gpu_state_after(p, part->state));
  return round_up(p->entries * numbers * (int64_t)sizeof(float), REC_ALIGNMENT);
}

int64_t gpu_state_at(const gpu_parts *p, int state) {
  int64_t at = 0;
  for (int i = 0; i < p->maker->part_count; i++) {
    const rec_table_gpu_part *part = gpu_part(p, i);
    if (part->kind != REC_PART_OWN || part->component) continue;
    if (part->state == state) break;
    at += state_bytes_of(p, part);
  }
  return at;
}

int64_t gpu_parts_instances(const gpu_parts *p) {
  int64_t instances = p->entries;
  for (int axis = 0; axis < p->call->table->axis_count; axis++)
    if (p->call->table->segment_instances >> axis & 1) instances *= p->call->axis_size[axis];
  return instances;
}
