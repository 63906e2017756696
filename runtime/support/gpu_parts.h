// Where the parts of a segment's summary lie on a GPU (rec_table_gpu_part): the summary of a time
// slice that has all of its steps.
//
//   [entry] | part | part | .. | rows of the matrix of the first state that has them | of the next | marks of overflow |
#pragma once

#include "compiler/abi/gpu_fold.h"
#include "runtime/support/gpu_pass.h"

// Axes of a part, at most. rec_gpu_fold has two more: that of the entries, and that of the columns
// of a matrix.
enum { GPU_PARTS_AXES = REC_GPU_FOLD_AXES - 2 };

// A mark is above 0 where a transfer has an element above this, or one that is not finite.
#define GPU_PARTS_LARGEST 1024

// The summaries of a call, forward or backward.
typedef struct gpu_parts {
  const call *call;
  const gpu_device *device;
  const rec_table_gpu_kernel *maker;
  bool back;
  int64_t entries, stride;  // numbers between the summaries of two entries
} gpu_parts;

// A recurrence without summaries has a stride of 0.
gpu_parts gpu_parts_of(const call *call, const gpu_device *device, bool back);
static inline int64_t gpu_parts_bytes(const gpu_parts *p) {
  return (int64_t)sizeof(float) * p->entries * p->stride;
}

static inline const rec_table_gpu_part *gpu_part(const gpu_parts *p, int index) {
  return (const rec_table_gpu_part *)table_at(p->call->table, p->maker->parts_at) + index;
}
static inline const int32_t *gpu_part_axes(const gpu_parts *p, const rec_table_gpu_part *part) {
  return table_at(p->call->table, part->axes_at);
}
// Numbers of an entry; rows of the matrix that it has, of all instances.
int64_t gpu_part_numbers(const gpu_parts *p, const rec_table_gpu_part *part);
int64_t gpu_part_rows(const gpu_parts *p, const rec_table_gpu_part *part);
bool gpu_parts_have_instances_along(const gpu_parts *p, int axis);
// From the start of an entry's summary on: a part, its rows in the matrix, the marks.
int64_t gpu_part_at(const gpu_parts *p, int index);
int64_t gpu_rows_at(const gpu_parts *p, int index);
int64_t gpu_marks_at(const gpu_parts *p);
// The first column of a part in the matrix.
int64_t gpu_first_column(const gpu_parts *p, int index);
// The part of that kind of a state, or of `source` in it; -1: there is none.
int gpu_find_part(const gpu_parts *p, int kind, int state, int source, int component);
// The memory that the state after the segment is written to.
const rec_table_memory *gpu_state_after(const gpu_parts *p, int state);
// All such states one behind the other: where one begins, and the bytes of all.
int64_t gpu_state_at(const gpu_parts *p, int state);
static inline int64_t gpu_states_bytes(const gpu_parts *p) { return gpu_state_at(p, -1); }
// Instances of rec_launch.first_instance.
int64_t gpu_parts_instances(const gpu_parts *p);

// Refuses calls of recurrences that have no summary.
rec_status gpu_check_made(const gpu_parts *p);

// gpu_fold.c: the part of a summary that is a state, as another call has left it. Without a state:
// a sum of logarithms where nothing of the states before is left.
rec_status gpu_fold_given(const gpu_parts *p, float *summary, int part, const float *state);
int64_t gpu_fold_workspace(const gpu_parts *p);
