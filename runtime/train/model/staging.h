// The sequences of a run, brought to where the model runs, in the order in which it reads them:
// segment after segment. Without segments they are there already on the host.
#pragma once

#include "runtime/train/model/execute.h"

// What there is for each token: the first three are read, the others are what a run says of it.
typedef enum staged_row {
  ROW_TOKENS,
  ROW_TARGETS,
  ROW_WEIGHTS,
  ROW_LOSSES,
  ROW_HITS,
  ROWS
} staged_row;

typedef struct staging {
  const compute *c;
  const train_model *model;
  executor_form form;
  // the tokens of each sequence that run here: the first, and how many at most
  int64_t from, time;
  void *cut[ROWS];                     // in the host's memory; NULL without segments
  void *there[ROWS];                   // where the model runs, but not on the host, as what follows
  char *states;                        // before, after, d_before: blocks of `batch` sequences
  void **before, **after, **d_before;  // by state
} staging;

// `form`: with the tokens of a segment; `time` tokens from `from` on run here. To be closed after a
// failure, too.
rec_status staging_open(const compute *c, const train_model *model, const executor_form *form,
                        int64_t from, int64_t time, staging *s);
void staging_close(staging *s);

// What this place runs of the sequences.
typedef struct staged_ends {
  bool first, last;  // has it their first and last tokens?
} staged_ends;

// `there`: the tokens that run here, in the memory of the place, and the states that they start
// from.
rec_status staging_enter(const staging *s, const shard *here, staged_ends ends, shard *there);
// What a run has written into `there`. Of several ranks the last one sends what it ends with.
rec_status staging_leave(const staging *s, const shard *here, staged_ends ends, const shard *there);

// Where a run writes what the caller wants at `here`, and how it comes there, in the order of the
// caller. On the host both may be NULL.
void *staging_row(const staging *s, staged_row row, void *here);
rec_status staging_take(const staging *s, staged_row row, const shard *here, const shard *there,
                        void *wanted);
