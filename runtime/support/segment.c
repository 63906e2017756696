// Where the parts of a summary lie, and whether it is of use.
#include "runtime/support/segment.h"

#include <float.h>
#include <math.h>
#include <string.h>

int64_t segment_numbers(const call *c, int memory) {
  return segment_entries(c) * call_numbers(c, table_memory(c->table, memory));
}

int64_t segment_memory_bytes(const call *c, int memory) {
  return round_up(segment_numbers(c, memory) * c->table->number_bytes, REC_ALIGNMENT);
}

// Rows that a state has in a matrix.
static int64_t segment_rows(const call *c, const rec_table_summary *of, int memory) {
  const rec_table_memory *m = table_memory(c->table, memory);
  const int32_t *axes = table_at(c->table, m->axes_at);
  int64_t rows = m->factor;
  for (int k = 0; k < m->axis_count; k++)
    if (axes[k] != of->value_axis && !(of->instance_axes >> axes[k] & 1))
      rows *= c->axis_size[axes[k]];
  return rows;
}

int64_t segment_first_column(const call *c, const rec_table_summary *of, int part) {
  int64_t columns = 0;
  for (int i = 0; i < part; i++)
    if (segment_part(c, of, i)->columns)
      columns += segment_rows(c, of, segment_part(c, of, i)->memory);
  return columns;
}

int64_t segment_blocks(const call *c, const rec_table_summary *of) {
  if (of->value_axis < 0) return 0;
  int64_t columns = segment_first_column(c, of, of->part_count),
          entries = c->axis_size[of->value_axis];
  return (columns + entries - 1) / entries;
}

int64_t segment_part_at(const call *c, const rec_table_summary *of, int part) {
  int64_t at = REC_SUMMARY_HEAD;
  for (int i = 0; i < part; i++) at += segment_memory_bytes(c, segment_part(c, of, i)->memory);
  return at;
}

int64_t segment_columns_at(const call *c, const rec_table_summary *of, int part, int64_t block) {
  int64_t at = segment_part_at(c, of, of->part_count), blocks = segment_blocks(c, of);
  for (int i = 0; i < part; i++)
    if (segment_part(c, of, i)->columns)
      at += blocks * segment_memory_bytes(c, segment_part(c, of, i)->memory);
  return part < of->part_count
             ? at + block * segment_memory_bytes(c, segment_part(c, of, part)->memory)
             : at;
}

int64_t segment_bytes(const call *c, bool back) {
  const rec_table_summary *of = segment_of(c, back);
  return of->why_at ? 0 : segment_columns_at(c, of, of->part_count, 0);
}

int64_t segment_states_bytes(const call *c, bool back) {
  const rec_table_summary *of = segment_of(c, back);
  int64_t bytes = 0;
  for (int i = 0; i < of->part_count; i++)
    if (segment_part(c, of, i)->kind == REC_PART_OWN)
      bytes += segment_memory_bytes(c, segment_part(c, of, i)->memory);
  return bytes;
}

int segment_own_part(const call *c, const rec_table_summary *of, int state) {
  for (int i = 0; i < of->part_count; i++) {
    const rec_table_part *part = segment_part(c, of, i);
    if (part->kind == REC_PART_OWN && part->state == state) return i;
  }
  return -1;
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

void segment_guard(const call *c, bool back, char *summary, bool out_of_range) {
  const rec_table_summary *of = segment_of(c, back);
  double finite = c->table->number_bytes == 8 ? DBL_MAX : (double)FLT_MAX;
  for (int i = 0; i < of->part_count; i++) {
    const rec_table_part *part = segment_part(c, of, i);
    double largest = part->kind == REC_PART_FACTOR ? SEGMENT_LARGEST : finite;
    int64_t numbers = segment_numbers(c, part->memory),
            blocks = part->columns ? segment_blocks(c, of) : 0;
    out_of_range |= exceeds(c, summary + segment_part_at(c, of, i), numbers, largest,
                            part->kind == REC_PART_LOGARITHM);
    for (int64_t b = 0; b < blocks; b++)
      out_of_range |=
          exceeds(c, summary + segment_columns_at(c, of, i, b), numbers, SEGMENT_LARGEST, false);
  }
  memset(summary, 0, REC_SUMMARY_HEAD);
  *(int32_t *)(void *)summary = out_of_range;
}

// ---- calls -----------------------------------------------------------------------------------

rec_status segment_check(const call *c, bool back) {
  const rec_table_summary *of = segment_of(c, back);
  if (!of->why_at) return REC_OK;
  return call_fail(c, REC_ERROR_UNSUPPORTED,
                   "expected a recurrence that has summaries, found that %s",
                   table_text(c->table, of->why_at));
}

rec_status segment_check_memory(const call *c, const void *summary) {
  if (!summary) return call_fail(c, REC_ERROR_ARGUMENT, "expected a summary, found NULL");
  if ((uintptr_t)summary % REC_ALIGNMENT == 0) return REC_OK;
  return call_fail(c, REC_ERROR_ARGUMENT,
                   "expected a summary aligned to %d bytes, found address %p", REC_ALIGNMENT,
                   summary);
}
