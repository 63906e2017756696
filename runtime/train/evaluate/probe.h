// One held-out sequence, read once by the whole model. Then single recurrences run on ranges of it,
// from states that the caller sets, with all their other inputs as they were.
#pragma once

#include "runtime/train/evaluate/streams.h"

typedef struct probe {
  const evaluation *e;
  int64_t time;
  executor *x;
  token_id *tokens, *targets;
  void **states;  // where the model's states end, by state; all start at zero
  shard sequence;
} probe;

// The first `time` tokens of the held-out text, or, of the task, the `number`-th of its longest
// sequences that fit. To be closed after a failure, too.
rec_status probe_open(probe *p, const evaluation *e, int64_t time, int number);
void probe_close(probe *p);
// The name of the first state of an operation.
const char *probe_name(const probe *p, int op);

// Memory for calls of one kernel on parts of the sequence.
typedef struct kernel_runs {
  const train_kernel *k;
  const numeric *n;
  kernel_memory whole[MOST_VARIABLES];  // of the model's run
  kernel_memory value[MOST_VARIABLES], gradient[MOST_VARIABLES];
  void *final[MOST_VARIABLES], *d_final[MOST_VARIABLES];
  void *before[MOST_VARIABLES], *output[MOST_VARIABLES], *d_before[MOST_VARIABLES];
  kernel_call call;
} kernel_runs;

// Of the call that is operation `op` of the model. To be closed after a failure, too.
rec_status kernel_runs_open(const probe *p, int op, kernel_runs *r);
void kernel_runs_close(kernel_runs *r);
// Forward over the steps from .. to - 1 from the states in `before`, which are what states start
// from, unless a caller writes others; to `final`.
rec_status kernel_runs_steps(kernel_runs *r, int64_t from, int64_t to);
bool kernel_runs_is_state(const kernel_runs *r, int variable);  // or a lag buffer
void *zeroed_rows(int64_t numbers, const numeric *n);           // numbers of a row; NULL: no memory
