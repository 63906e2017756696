// Summaries of segments of time on the host (rec_table_summary, rec_segments).
//
//   | head: out of range | part | part | .. | columns of the first state that has them, block by block | of the next |
#pragma once

#include "compiler/abi/segment.h"
#include "runtime/support/stage.h"

static inline const rec_table_summary *segment_of(const call *c, bool back) {
  return &c->table->summaries[back];
}
static inline const rec_table_part *segment_part(const call *c, const rec_table_summary *of,
                                                 int index) {
  return (const rec_table_part *)table_at(c->table, of->parts_at) + index;
}

// Entries of a batch have a summary each; packed sequences have one together.
static inline int64_t segment_entries(const call *c) { return c->packed ? 1 : c->batch; }
// Numbers of a memory of states or of a part, all entries.
int64_t segment_numbers(const call *c, int memory);
int64_t segment_memory_bytes(const call *c, int memory);

// Blocks of columns. 0: no state has any.
int64_t segment_blocks(const call *c, const rec_table_summary *of);
// The column of the matrix of the first entry of an instance of this part: the states before it
// have so many.
int64_t segment_first_column(const call *c, const rec_table_summary *of, int part);

// Where a part begins in a summary; the columns of an OWN part.
int64_t segment_part_at(const call *c, const rec_table_summary *of, int part);
int64_t segment_columns_at(const call *c, const rec_table_summary *of, int part, int64_t block);

// Bytes of a summary; 0: there is none.
int64_t segment_bytes(const call *c, bool back);
// Bytes of the states alone, each at a multiple of REC_ALIGNMENT.
int64_t segment_states_bytes(const call *c, bool back);

// Writes the head: whether something is out of range, which another summary may be already.
void segment_guard(const call *c, bool back, char *summary, bool out_of_range);
static inline bool segment_is_out_of_range(const void *summary) {
  return *(const int32_t *)summary != 0;
}

// The part of a state, by the memory of the state before; -1: it has none.
int segment_own_part(const call *c, const rec_table_summary *of, int state);

// A fold of one segment. States lie as in a summary: as its parts, or as a block of its columns.
typedef struct fold {
  const call *call;
  const rec_table_summary *of;
  const char *summary;
  const char *before;
  char *after;
  int64_t block;        // of columns; -1: parts
  int64_t first, last;  // instances
  int64_t all;          // instances of the call
} fold;
void fold_segment(const fold *f);
// `before` is the summary of the earlier segment, `after` that of both.
void fold_summaries(fold *f);

// fold.c, in states that lie as in a summary: the caller's before a segment, backward the cotangents
// behind it, zero where there are none; states through a summary.
void segment_states_before(const call *c, bool back, char *states);
void segment_states_after(const call *c, bool back, const char *summary, const char *before,
                          char *after);

// Refuses calls of recurrences that have no summary.
rec_status segment_check(const call *c, bool back);
// Checks a summary of the caller.
rec_status segment_check_memory(const call *c, const void *summary);

// summary.c, fold_calls.c: the calls, whose states before the segment are all given.
rec_status summarise_segment(const rec_table *table, const void *arguments,
                             const rec_launch *launch, bool back, void *summary);
rec_status fold_segments(const rec_table *table, const void *arguments, const rec_launch *launch,
                         const rec_segments *segments);
// Sizes that NAME_sizes tells; rec_sizes.workspace is enough for these calls,
// too.
int64_t segment_workspace(const call *c, bool back, bool recompute);
int64_t fold_workspace(const call *c);
int64_t segment_instances(const call *c);
// The instances that a fold is asked for, of all.
rec_status segment_find_instances(const call *c, int64_t all, int64_t *first, int64_t *last);
