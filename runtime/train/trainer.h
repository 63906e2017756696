// A model in training: its weights, their gradients and moments (what optimizers keep for each
// weight), the states carried between batches, and one step.
#pragma once

#include <signal.h>

#include "runtime/ranks/ranks.h"
#include "runtime/train/data/data.h"
#include "runtime/train/model/execute.h"
#include "runtime/train/noise.h"

typedef struct trainer_memory {
  int64_t weights, gradients, moments, activations, states, data;  // bytes
  int64_t spared;  // that the activations would take more in the type of the weights
} trainer_memory;

typedef struct trainer {
  trained_model of;
  const train_block *block;
  ranks *ranks;                          // that share the batch; NULL: this process is alone
  int threads;                           // that share its tasks; on a device the caller alone
  int64_t most_under_way;                // shards of a lane; 0: MOST_UNDER_WAY
  const volatile sig_atomic_t *stop;     // not 0: somebody wants the end; NULL: nobody can
  int64_t step;                          // steps done
  void *weights, *moments;               // in the host's memory; of trainer_fetch
  int64_t moment_elements, *moments_of;  // by parameter: where the states of its optimizer begin
  // states after the last batch; NULL: every sequence of the block starts at 0
  void *carried;
  bool carried_valid;    // there was a last batch
  noise_groups *groups;  // by state: of fitted noise, with its means and variances
  int64_t group_count;   // of all states
  double *fitted;        // by state: means of its groups, then variances
  bool *fitted_valid;    // by state
  // by state and row: tokens that a carried state has behind it
  double *age;
  int layer_count;                     // those that have states
  int *layer_of;                       // by state
  double *norms_before, *norms_after;  // by layer, of the last step
  // that the tokens stand for, as train_data has them; NULL: none
  const char *characters;
  // what it is trained with, as identity.h has it; NULL: nobody asks
  const char *identity;
  trainer_memory memory;
  struct trainer_internals *in;
} trainer;

typedef struct step_report {
  double loss;           // nats a target, before the step
  double gradient_norm;  // before clipping
  double rate;
  double drawn[INTERVENTION_KINDS];  // share of the sequences that started so
  double norm_before, norm_after;    // of a sequence's states, root of the mean of the squares
  double age, oldest;                // tokens behind the carried states: mean and most
} step_report;

// What decides no bits.
typedef struct trainer_settings {
  int threads;
  // shards of each thread that a rank has begun and not ended, at most (turns.h); 0: MOST_UNDER_WAY
  int64_t under_way;
  ranks *ranks;                       // NULL: this process is alone
  const volatile sig_atomic_t *stop;  // not 0: the step is given up between two shards; NULL: never
} trainer_settings;

rec_status trainer_new(trained_model of, const train_block *block, const trainer_settings *settings,
                       trainer **made);
void trainer_free(trainer *t);  // NULL is allowed

// Brings weights and moments from the host's memory to where the model is trained, and back. On the
// host they are there.
rec_status trainer_place(trainer *t);
rec_status trainer_fetch(trainer *t);

// The status of a step that was given up: weights and states are those before it. Time ranks, which
// wait for each other, end it.
#define TRAINER_STOPPED ((rec_status) - 1)
rec_status trainer_step(trainer *t, const train_data *data, step_report *report);

// The part of a parameter that is stepped here, and where a state of its optimizer lies for it in
// the moments.
typedef struct moment_part {
  int64_t first, count, place;
} moment_part;

moment_part trainer_moment(const trainer *t, int parameter, int number);
// The sequences of the batch that this process has.
typedef struct trainer_rows {
  int64_t first, count;
} trainer_rows;

trainer_rows trainer_own_rows(const trainer *t);
int64_t trainer_bytes(const trainer_memory *memory);
