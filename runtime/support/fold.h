// Joins segments of time: states with a summary, and two summaries. fold.c decides what is combined
// in which order; fold_step.c takes a step (compiler/abi/fold.h) on the host, a launch on a GPU.
#pragma once

#include "runtime/support/segment.h"

typedef struct folding {
  const segment_layout *layout;
  const char *summary;    // of the later segment
  const char *before;     // combine: the summary of the earlier one; NULL: states
  char *from, *to;        // states before and after
  char *both;             // combine: the summary that is made
  const void *zeros;      // REC_ALIGNMENT bytes
  int64_t first, last;    // the instances that are wanted
  int32_t *out_of_range;  // NULL: not wanted
  rec_fold step;
  rec_status status;
} folding;

// Folds of all instances. `zeros`: of a GPU's memory, which this clears.
folding fold_open(const segment_layout *l, void *zeros);

// The caller's states before all segments to f->from, zero where there are none; f->from to the
// caller's states after them.
void fold_read_states(folding *f);
void fold_write_states(folding *f);
// Copies memory of either; `from` NULL: zeros.
void fold_copy(folding *f, void *to, const void *from, int64_t bytes);

// The states f->to after a segment, from f->from before it.
void fold_states(folding *f);
// The summary f->both of two segments, from those of each.
void fold_summaries(folding *f);
// Of a GPU: a part of the summary f->both that is a state, as another call has left it. Without a
// state: a sum of logarithms where nothing of the states before is left.
void fold_given(folding *f, int part, const void *state);
// Sets f->out_of_range if a summary is.
void fold_note_out_of_range(folding *f, const void *summary);

// fold_step.c
void fold_step_run(const rec_fold *step, int64_t number_bytes);
