// What the measurements of an evaluate block share. Streams are evenly spaced over the held-out
// text, and read from a zero state on, window after window with the state carried.
//
// Ranks share the streams, and those of one sequence the segments of each window. Rank 0 has all
// sums in the end, and speaks for all. What takes little runs on rank 0 alone.
#pragma once

#include "runtime/ranks/ranks.h"
#include "runtime/train/model/carried.h"
#include "runtime/train/model/pool.h"
#include "runtime/train/report/whole_file.h"
#include "runtime/train/session.h"

enum { STREAMS_OF_A_TASK = 16 };

static inline int64_t between(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

typedef struct evaluation evaluation;

// Some streams, all at one position.
typedef struct stream_run {
  rec_blocks memory;  // of all lists
  executor *x;
  int task;
  int64_t first, streams, position;
  int64_t start;  // the position of the zero or learned state
  carried_states states;
  token_id *tokens, *targets;
  float *losses;  // of the last window: [streams][length]; 0 in the segments of other ranks
  double *segment_losses;
  // NULL, or wanted in place of the losses: after the last token, [streams][vocabulary]
  double *logits;
} stream_run;

// All streams once. A task reads its streams up to `until` and leaves `width` sums.
typedef struct pass {
  int64_t streams, until, width;
  rec_status (*read)(const evaluation *e, stream_run *r, double *sums);
  int what;                    // for `read`
  bool whole;                  // `read` needs whole windows: no other rank shares them
  int64_t window;              // from here on set by evaluation_pass
  int task_count, first_task;  // first_task: of this rank
  double *sums;                // [task][width]
} pass;

struct evaluation {
  session *s;
  ranks *ranks;
  trained_model of;
  const train_block *block;
  bool learned;  // streams start from the learned states, not from zero
  train_data data;
  void *weights, *there;  // there: where the model runs
  pass *now;
};

// Tasks of a measurement, side by side; each may multiply by BLAS.
rec_status evaluation_run(const evaluation *e, int count, train_pool_task *task, void *context);

// Reads one window more, which ends at `end` at the latest. *length: its tokens.
rec_status streams_read(const evaluation *e, stream_run *r, int64_t end, int64_t *length);
// Runs the tasks of a pass and adds their sums, in the order of the tasks, to `total`, at rank 0.
// All ranks come here.
rec_status evaluation_pass(evaluation *e, pass p, double *total);
// The end of a table that becomes RUNS/NAME/FILE of an evaluate block, unless `status` is a
// failure, which is then returned.
rec_status evaluation_save(const evaluation *e, const evaluate_block *b, made_text *table,
                           rec_status status, const char *file);
