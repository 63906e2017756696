// Runs a model forward and backward over some sequences: the operations of program.h in order,
// called by one thread. The sequences, their states and the requests of a run lie in the host's
// memory. Parameters and gradients lie in the memory of the place where the model runs (compute.h).
//
// A batch is cut into shards by its sizes alone; each shard is run by one executor, which is reused
// by the shards that follow. So activations take as much memory as there are threads, not as the
// whole batch needs, and nothing depends on their number.
//
// The tokens of a shard may be cut into segments. Each operation runs on all segments in order,
// then the next operation does, and backward in reverse:
//
//   forward    embed 0, embed 1, linear 0, linear 1, ssd 0 -> state -> ssd 1, ..
//   backward   .., ssd 1 -> its gradient -> ssd 0, linear 1, linear 0, ..
//
// Every call has the sizes of one segment, so that ranks which share the segments of a sequence
// compute the bits of one process. All of them call with the same sequences. Each runs the segments
// of its own place in time, and hands states on to the next rank.
#pragma once

#include "runtime/module.h"
#include "runtime/train/model/compute.h"
#include "runtime/train/model/program.h"

// ---- kernels ------------------------------------------------------------------------------------

typedef struct kernel_memory {
  void *data;                         // NULL: absent
  int64_t batch_stride, time_stride;  // of inputs, outputs and their gradients
} kernel_memory;

// One run of a recurrence. The arrays run over the variables of its signature, as those of
// rec_call.
typedef struct kernel_call {
  int64_t batch, time, threads;
  kernel_memory *value, *gradient;
  void **final, **d_final;
  void *workspace, *saved;  // saved: NULL where nothing is kept for backward
  int64_t workspace_bytes, saved_bytes;
  int64_t first_instance, instance_count;  // of a fold, as rec_launch has them
} kernel_call;

// What a kernel needs for so many sequences and steps.
typedef struct kernel_sizes {
  int64_t workspace, saved;
  int64_t summary[2];  // bytes of a summary, forward and backward; 0: there is none
  int64_t instances;   // that a fold may take in blocks
} kernel_sizes;

// Code of a recurrence. `execute_library_kernel` makes one of a compiled library; tests have one
// of the reference interpreter.
typedef struct train_kernel train_kernel;
struct train_kernel {
  const rec_signature *signature;
  const void *code;
  rec_status (*sizes)(const train_kernel *kernel, int64_t batch, int64_t time, kernel_sizes *sizes);
  rec_status (*forward)(const train_kernel *kernel, const kernel_call *call);
  rec_status (*backward)(const train_kernel *kernel, const kernel_call *call);
  rec_status (*step)(const train_kernel *kernel, const kernel_call *call);  // forward for one token
  // What the call's segment does to any states before it (`back`: to any cotangents after it);
  // NULL: no sizes have summaries.
  rec_status (*summary)(const train_kernel *kernel, const kernel_call *call, bool back,
                        void *summary);
  // States, or cotangents, through one summary. *out_of_range, in the memory of the device, says
  // whether it is of no use.
  rec_status (*fold)(const train_kernel *kernel, const kernel_call *call, bool back,
                     const void *summary, int32_t *out_of_range);
  int32_t device;  // REC_DEVICE_HOST, ..
};

enum { MOST_VARIABLES = 256 };

// `device`: REC_DEVICE_HOST, ..
train_kernel execute_library_kernel(const rec_recurrence *recurrence, int32_t device);

// Numbers of one entry of a variable, all of whose axes have sizes; -1: they have none.
int64_t kernel_numbers(const rec_signature *s, int variable);

// Do the kernels fit the operations of the model (numbers of tensors, parameters and states)?
rec_status execute_check(const train_model *model, const train_kernel *kernels);

// The model of a block with code for its kernels.
typedef struct trained_model {
  const train_model *model;
  const train_kernel *kernels;
  const compute *where;  // it runs
  const numeric *n;      // its numbers in the host's memory
  rec_dtype dtype;       // of weights and states
} trained_model;

// The name of the first weight with a number that is not finite; NULL: there is none.
const char *trained_bad_weight(const trained_model *of, const void *weights);

// Bytes of a block of all its parameters.
static inline int64_t trained_bytes(const trained_model *of) {
  return of->model->parameter_elements * of->n->element_size;
}

// ---- executors ----------------------------------------------------------------------------------

typedef struct executor executor;

struct ranks;  // runtime/ranks/ranks.h

// What an executor is for: at most `batch` sequences of `time` tokens.
typedef struct executor_form {
  int64_t batch, time;
  int64_t segment;  // tokens of a segment; 0: all are one. The last one may be shorter
  bool backward;    // gradients are wanted
  bool chain;       // states pass by a chain of summaries where kernels have them (chain.h)
  // whose places in time share the segments in equal numbers; NULL: this process has all of them
  struct ranks *line;
  // Of this form. Its operations never run while those of this one do, so that they share the
  // memory of one operation at work. It lives longer. NULL: none
  executor *beside;
} executor_form;

rec_status executor_new(const trained_model *of, const executor_form *form, executor **made);
void executor_free(executor *x);            // NULL is allowed
int64_t executor_bytes(const executor *x);  // that it takes
// The same without making one, at a place in time, of so many that share the segments in equal
// numbers.
typedef struct executor_bytes_needed {
  int64_t whole, beside;  // beside: of one that has another beside it
} executor_bytes_needed;
rec_status executor_need(const trained_model *of, const executor_form *form, int place, int places,
                         executor_bytes_needed *bytes);

// What an operation has computed. The loss is told of as forward alone.
typedef enum run_part {
  RAN_FORWARD,
  RAN_BACKWARD,
  RAN_SUMMARY,
  RAN_SUMMARY_BACKWARD,
  RAN_FOLD,
  RAN_FOLD_BACKWARD,
  RUN_PARTS
} run_part;

// Told of the operations of each run: `ran` after a part of operation `op` of the model. `amount`:
// tokens; of a fold, sequences, of which a block of instances is a share.
typedef struct executor_watch {
  void (*ran)(void *context, int op, run_part part, double amount);
  void *context;
} executor_watch;

void executor_watch_by(executor *x, executor_watch watch);

// How many of `all` segments a place in time has, and which is the first; the last places may have
// fewer, or none.
int segments_of_place(const struct ranks *line, int all, int place);
int segments_before_place(const struct ranks *line, int all, int place);

// The sequences of one run. Of ranks that share them, the first in time alone reads `before`, and
// writes `after` and `d_before`.
typedef struct shard {
  int64_t batch, time, threads;
  const token_id *tokens, *targets;  // [batch][time]
  void *const *before;               // by state: [batch][elements], or NULL for zero
  void *const *after;                // by state: written, or NULL
  const float *weights;              // of the targets, [batch][time]; NULL: 1
  // by state: written by backward, or NULL; all NULL where `before` is
  void *const *d_before;
  int64_t step;  // for messages to people
  int number;    // tells apart shards that ranks run at the same time
} shard;

// Forward alone, one token by the single-step forms: the logits after the last token of each
// sequence, [batch][vocabulary]. `targets` are not read.
rec_status executor_logits(executor *x, const void *parameters, const shard *s, double *logits);

// Forward alone: hits[batch][time] become 1 where the target is the likeliest token, else 0.
rec_status executor_hits(executor *x, const void *parameters, const shard *s, uint8_t *hits);

// Forward alone, what every operation reads and writes kept until the next run; then the memory of
// a call's variables: inputs, outputs and parameters.
rec_status executor_forward(executor *x, const void *parameters, const shard *s);
void executor_values(executor *x, const void *parameters, const shard *s, int op,
                     kernel_memory value[MOST_VARIABLES]);

// Forward, and the loss of each segment of this rank: the sum over its tokens in nats. `losses`:
// each token's own, or NULL. With gradients != NULL the backward pass of the sum follows; it
// overwrites a block of gradients for each segment. That of the whole is the sum of all.
rec_status executor_run(executor *x, const void *parameters, const shard *s, void *const *gradients,
                        double *loss, float *losses);

// The same in parts: the operations forward, with the loss after the last; then the backward pass.
// Between them other executors may run. `parameters`, `loss` and what the shard points at stay.
typedef struct op_range {
  int first, end;
} op_range;

// Of the operations, those whose states come from GPU to GPU, or go so, in messages of their own.
// Those of the others come and go with the cotangents of another shard (runtime/train/turns.h).
// Through the memory of the hosts all come and go by themselves.
typedef struct forward_part {
  op_range operations, takes, gives;
} forward_part;

// States that come from GPU to GPU, or go so, with the last cotangents of a shard. They are those
// of two other shards at most, or of the next one that this executor runs.
typedef struct joined_states {
  executor *x;
  int64_t batch;
  op_range operations;
} joined_states;

enum { JOINED_SHARDS = 2 };

typedef struct backward_part {
  joined_states takes[JOINED_SHARDS], gives[JOINED_SHARDS];
} backward_part;

rec_status executor_run_forward(executor *x, const void *parameters, const shard *s, double scale,
                                double *loss, const forward_part *part);
rec_status executor_run_backward(executor *x, void *const *gradients, const backward_part *part);

// Runs again and looks at the results of each operation. Writes the first number that is not
// finite, as text of at most `size` bytes; "" if all are finite. Returns its place in the order of
// operations, so that ranks can tell who found the first.
enum { NOTHING_FOUND = 0x7fffffff };
int executor_blame(executor *x, const void *parameters, const shard *s, double scale,
                   void *const *gradients, char *text, size_t size);
