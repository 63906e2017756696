// Inside the executor: what execute.c, execute_memory.c and execute_blame.c share.
#pragma once

#include "runtime/train/model/seams.h"
#include "runtime/train/model/staging.h"

// What an operation sees of one segment of a run.
typedef struct run {
  executor *x;
  const shard *s;  // in the memory of the place, segment after segment
  const char *parameters;
  bool backward;           // gradients are wanted
  void *const *gradients;  // by segment, in the backward pass
  bool by_step;            // recurrences run in their single-step form
  // the states after the segment, or the cotangents before it, are known: the kernel leaves none
  bool inside;
  int count;             // of segments
  int segment;           // the one at hand
  int64_t time, tokens;  // of it
  int64_t first;         // tokens of the segments before it
} run;

struct executor {
  const train_model *model;
  const train_kernel *kernels;
  const compute *c;
  executor_form form;        // with the tokens of a segment
  int segments;              // of this place, at most
  int64_t from, time;        // its tokens: the first, and how many at most
  char *activations;         // segment after segment
  int64_t activation_bytes;  // of a segment
  void **saved;              // by operation and segment
  int64_t *saved_bytes;      // by operation
  void *workspace;
  int64_t workspace_bytes, bytes;  // bytes: of all that follows from the sizes of the batch
  void *scratch;                   // a parameter's gradient on its way to being added
  void *room;                      // of linear products
  void *row;                       // of logits, on the host, as weights
  seam_cut *cuts;                  // by state; of operations that go by a chain
  char *summaries;                 // of one operation, by segment in the order of the pass
  int64_t summary_bytes;           // of each
  bool *usable;                    // is the summary within range?
  int32_t *out_of_range;           // where the model runs: what a fold says of a summary
  staging staged;
  seams ends;
  executor_watch watch;  // ran: NULL where nobody asks
  run under_way;         // between its forward pass and its backward pass
  shard here, there;     // of that run
};

// Begins a run over the sequences of the host; *there are those of this place in time, in the
// memory of the place. Without any tokens for it the run has no segments.
rec_status run_begin(run *r, const shard *here, shard *there);
rec_status run_end(const run *r, const shard *here, rec_status status);
// Goes to a segment.
void run_enter(run *r, int segment);

// An operation on all segments of this place, with the states that pass between them.
rec_status run_forward(run *r, int number);
rec_status run_backward(run *r, const model_step *step);
// The same by a chain of summaries; `step` NULL: forward. execute_chain.c
rec_status run_chain(run *r, int op, const model_step *step);

// On the segment at hand.
rec_status run_loss(const run *r, double scale, double *loss, float *losses);
rec_status run_clear_gradients(const run *r);
rows run_rows(const run *r, int tensor);
rows run_optional_rows(const run *r, int tensor);  // no data for NO_TENSOR
// The kernel of an operation, its backward where there is a step; what it does to states, and
// whether that is within range; and the states of some instances through that.
typedef struct run_block {
  int64_t first, end;  // instances
} run_block;
rec_status run_call(const run *r, int op, const model_step *step);
rec_status run_summary(const run *r, int op, const model_step *step, void *summary);
rec_status run_check_summary(const run *r, int op, const model_step *step, const void *summary,
                             bool *usable);
rec_status run_fold(const run *r, int op, const model_step *step, const void *summary,
                    run_block block);
