// Summaries of segments of time (rec_table_part, rec_segments): where their parts lie.
//
//   host   | head: out of range | part | part | .. | columns of the first state that has them, block by block | of the next |
//   GPU    [entry] | part | part | .. | rows of the matrix of the first state that has them | of the next | marks of overflow |
//
// A part of the host has all entries, one behind the other, and complex numbers as pairs. The
// summary of a GPU is that of a time slice which has all of its steps.
#pragma once

#include "compiler/abi/fold.h"
#include "compiler/abi/segment.h"
#include "runtime/support/gpu_pass.h"
#include "runtime/support/stage.h"

// Axes of a part, at most. A step of a fold has three more: the entries, and blocks of columns.
enum { SEGMENT_AXES = REC_FOLD_AXES - 3 };

// The summaries of a call, forward or backward.
typedef struct segment_layout {
  const call *call;
  const gpu_device *device;           // NULL: the host
  const rec_table_gpu_kernel *maker;  // of a GPU
  bool back;
  const char *why_not;  // why there is no summary; NULL: there is one
  int part_count, parts_at;
  int value_axis;          // of matrices; -1: there are none
  uint64_t instance_axes;  // in which matrices differ
  // Entries of a batch have a summary each; packed sequences have one together.
  int64_t entries;
  int64_t instances;  // those of rec_launch.first_instance, of all entries
  int64_t number_bytes;
  int64_t stride;  // of a GPU: numbers between the summaries of two entries
} segment_layout;

segment_layout segment_layout_of(const call *call, const gpu_device *device, bool back);
// More than a step of a fold has.
bool segment_has_many_axes(const segment_layout *l);

static inline const rec_table_part *segment_part(const segment_layout *l, int index) {
  return (const rec_table_part *)table_at(l->call->table, l->parts_at) + index;
}
static inline const int32_t *segment_axes(const segment_layout *l, const rec_table_part *part) {
  return table_at(l->call->table, part->axes_at);
}
// Is it a state? The imaginary part of one lies with the real part.
static inline bool segment_is_state(const rec_table_part *part) {
  return part->kind == REC_PART_OWN && !part->component;
}
// Numbers between those of a part: 2 where complex numbers are pairs.
int64_t segment_pair(const segment_layout *l, const rec_table_part *part);
// Numbers of an entry.
int64_t segment_numbers(const segment_layout *l, const rec_table_part *part);
// The part of that kind of a state, or of `source` in it; -1: there is none.
int segment_find_part(const segment_layout *l, int kind, int state, int source, int component);

// Where a part lies in a summary, or the rows of its matrix: in numbers.
typedef struct segment_place {
  int64_t at, entry_stride, number_stride;
  int left_out;  // an axis that has one entry there, in room for so many; -1: none
  int64_t left_out_size;
} segment_place;
segment_place segment_place_of(const segment_layout *l, int index);

// The rows of a state's matrix, by all of its axes but value_axis. Columns lie in blocks of `width`.
typedef struct segment_rows {
  segment_place place;
  int64_t width, column_stride, blocks, block_stride;
  int64_t numbers;  // of an entry of a GPU
} segment_rows;
segment_rows segment_rows_of(const segment_layout *l, int index);
// Is it an axis along which rows and columns of an instance are counted?
static inline bool segment_counts_along(const segment_layout *l, int axis) {
  return axis != l->value_axis && !(l->instance_axes >> axis & 1);
}
// The first column of a part in the matrix of an instance.
int64_t segment_first_column(const segment_layout *l, int index);
// Of the host, in bytes: a memory; where it begins, or -1: where all of them end; a block of its
// columns.
int64_t segment_memory_bytes(const segment_layout *l, int memory);
int64_t segment_memory_at(const segment_layout *l, int memory);
int64_t segment_columns_at(const segment_layout *l, int memory, int64_t block);
// Blocks of columns of the host.
int64_t segment_blocks(const segment_layout *l);
// Of a GPU, from the start of an entry's summary on.
int64_t segment_marks_at(const segment_layout *l);

// Bytes of a summary; 0: there is none.
int64_t segment_bytes(const segment_layout *l);
// States, one behind the other: where that of a memory begins (the state before), and the bytes of
// all.
int64_t segment_state_at(const segment_layout *l, int state);
static inline int64_t segment_states_bytes(const segment_layout *l) {
  return segment_state_at(l, -1);
}

// Of the host: writes the head, whether something is out of range, which another summary may be.
void segment_guard(const segment_layout *l, char *summary, bool out_of_range);
static inline bool segment_is_out_of_range(const void *summary) {
  return *(const int32_t *)summary != 0;
}

// Refuses calls of recurrences that have no summary.
rec_status segment_check(const segment_layout *l);
// Checks a summary of the caller.
rec_status segment_check_memory(const call *c, const void *summary);
// What the kernel that makes summaries reads.
rec_status segment_check_operands(const segment_layout *l, const rec_table_kernel *maker);

// summary.c, gpu_segment.c, fold_calls.c: the calls, whose states before the segment are all given.
rec_status summarise_segment(const rec_table *table, const void *arguments,
                             const rec_launch *launch, bool back, void *summary);
rec_status gpu_summarise_segment(const call *call, bool back, void *summary);
rec_status fold_segments(const rec_table *table, const void *arguments, const rec_launch *launch,
                         const rec_segments *segments);
// Sizes that NAME_sizes tells. On the host rec_sizes.workspace is enough for these calls, too.
int64_t segment_workspace(const segment_layout *l, bool recompute);
int64_t gpu_segment_workspace(const segment_layout *l, bool recompute);
int64_t fold_workspace(const segment_layout *l);
