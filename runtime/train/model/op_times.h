// Seconds that each operation of a model takes, measured or read from a file. Both `rec plan` and
// virtual time calculate with them.
#pragma once

#include "runtime/train/model/execute.h"

// Summaries are of as many tokens, without their results; folds of the states of one sequence
// through one summary. 0: the recurrence has none.
typedef struct op_time {
  double of[RUN_PARTS];
} op_time;

// For one thread. An operation takes its time in proportion to the tokens, but for folds.
typedef struct op_times {
  int64_t tokens;    // of the run that took these times
  int count;         // of the model's operations
  op_time *of;       // by operation
  double sum, step;  // of one weight: adding a gradient, and the step of its optimizer
} op_times;

// {"tokens": 512, "operations": [{"forward_us": 12.5, "backward_us": 20, "summary_us": 4,
// "summary_backward_us": 6,
//                                 "fold_us": 0.5, "fold_backward_us": 0.5}, ..],
//  "weight": {"sum_us": 0.0002, "step_us": 0.001}}
// Summaries and folds may be missing. Names that op_times_describe adds are for people.
rec_status op_times_read(const char *path, const train_model *model, op_times *times);
void op_times_describe(const op_times *times, const trained_model *of, cJSON *object);
void op_times_free(op_times *times);

// Measures `batch` sequences of `segments` segments of `time` tokens, in the fastest of several
// runs.
rec_status op_times_measure(const trained_model *of, const train_block *block, int64_t batch,
                            int64_t time, int segments, op_times *times);

// Seconds of a part of operation `op`, of so much as executor_watch tells.
double op_times_of(const op_times *times, int op, run_part part, double amount);
