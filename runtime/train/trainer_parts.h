// Inside the trainer: what trainer.c, batch.c and initial_states.c share.
#ifndef REC_TRAIN_TRAINER_PARTS_H
#define REC_TRAIN_TRAINER_PARTS_H

#include "runtime/train/model/optimizer.h"
#include "runtime/train/model/pool.h"
#include "runtime/train/trainer.h"

// What one task sums and steps: a matrix, or some numbers of a parameter.
typedef struct piece {
  int64_t place, count;
  int parameter;
  int64_t first;  // its place in the parameter
  int64_t rows, columns;
  optimizer_kind optimizer;
  bool decays;
} piece;

// What one sequence starts from in one state.
typedef struct drawn_start {
  intervention_kind kind;
  double number;  // of a state_choice, at this step
} drawn_start;

typedef struct trainer_internals {
  rec_blocks memory;             // of all lists
  executor **executors;          // by worker
  char *weights, *moments;       // where the model is trained; the trainer's own on the host
  char *gradients;               // there: a block for each shard of a part, and one for the sum
  void *learned;                 // of a device, on the host: a parameter's gradient
  char *before;                  // initial states of the batch
  void **before_of, **after_of;  // by shard and state
  uint16_t *tokens, *targets;
  double *losses;         // by shard
  float *target_weights;  // as tokens; NULL: 1
  double *weight_sums;    // of the targets, by shard
  double weight_sum;      // of the batch
  uint16_t *answers;      // a task's sequences with answers alone: tokens, then targets, or NULL
  int64_t answer_room;    // of the tokens
  piece *pieces;
  double *squares;  // by piece
  int piece_count;
  drawn_start *drawn;       // by state and sequence
  double *fit_room;         // for the statistics of fitted noise on their way
  double *squares_of;       // by state
  void *measured;           // the states whose squares are being summed
  bool learns;              // some sequences start from weights
  char *d_before;           // by worker: gradients of the initial states of a shard
  void **d_before_of;       // by worker and state
  uint64_t windows, draws;  // random streams
  uint64_t *noise;          // random streams by state
  int threads_inside;       // of a shard's kernels
  int part, part_shards;    // of the batch: which one runs, shards in each
  const train_data *data;
  optimizer_step step;
  void **step_rooms;  // by worker, where the model is trained; NULL: the optimizer needs none
} trainer_internals;

// Shard s has the sequences from this of s to this of s + 1.
int64_t trainer_first_sequence(const trainer *t, int number);

uint64_t trainer_stream(const char *what, const train_block *block);
// Zeroed numbers of the weights' type, for free(), and a list that lives as long as the trainer. NULL where there is no memory,
// which trainer_internals.memory then says.
void *trainer_zeroed(trainer *t, int64_t count);
void *trainer_list(trainer *t, int64_t count, size_t size);
// A parameter in a block of all.
char *trainer_parameter(const trainer *t, void *block, int parameter);

// ---- batch.c ------------------------------------------------------------------------------------

// The windows of the batch and what their targets weigh.
void batch_fill(trainer *t);

// ---- initial_states.c ---------------------------------------------------------------------------

void initial_states_new(trainer *t);
// Makes the initial states and points every shard at those of its sequences.
void initial_states_fill(trainer *t, step_report *report);
// After the batch: what it ended with.
void initial_states_done(trainer *t, step_report *report);

#endif
