// Inside the trainer: what its files share.
#pragma once

#include "runtime/train/model/leaves.h"
#include "runtime/train/model/op_times.h"
#include "runtime/train/model/optimizer.h"
#include "runtime/train/model/pool.h"
#include "runtime/train/piece_list.h"
#include "runtime/train/trainer.h"
#include "runtime/train/turns.h"

// What one sequence starts from in one state.
typedef struct drawn_start {
  intervention_kind kind;
  double number;  // of a state_choice, at this step
} drawn_start;

// What a trainer works with, by the file that makes and fills it.
//
// trainer.c: the part of the batch that this process has.
typedef struct process_share {
  leaves all;
  // the shards that run here; lists by shard begin with the first of them
  leaf_range own;
  // the sequences of these shards; lists by row begin with the first of them
  int64_t first_sequence, rows;
  int segments, first_segment;  // that run here
} process_share;

// batch.c: the windows of a batch. From trainer_step's data they go to the shards
// (gradients_shard), whose executors read them.
typedef struct batch_windows {
  uint64_t windows;  // the random stream that draws the windows
  token_id *tokens, *targets;
  float *target_weights;  // as tokens; NULL: 1
  double *weight_sums;    // of the targets, by shard
  double weight_sum;      // of the batch
  token_id *answers;      // a task's sequences with answers alone: tokens, then targets, or NULL
  int64_t answer_room;    // of the tokens
} batch_windows;

// initial_states.c: what the sequences of a batch start from, and what they end with.
typedef struct batch_starts {
  char *before;                  // initial states of the batch
  void *after;                   // states that it ends with; trainer.carried once the step is done
  void **before_of, **after_of;  // by shard and state
  drawn_start *drawn;            // by state and row
  double *fitted_before;         // trainer.fitted before the step
  bool *fitted_valid_before;     // the same of trainer.fitted_valid
  double *fit_means;             // of fitted noise, by group of all states: their sums, then they
  double *fit_squares;           // the same for variances
  double *fit_room;              // for these sums
  double *squares_of;            // by shard and layer
  void *measured;                // the states whose squares are being summed
  uint64_t draws, *noise;        // random streams, those of noise by state
  bool learns;                   // some initial states that are made here come of weights
  char *d_before;                // by lane: gradients of the initial states of a shard
  void **d_before_of;            // by lane and state
  void *learned;                 // of a device, on the host: a parameter's gradient
} batch_starts;

// gradients.c: the run of all shards.
typedef struct gradient_run {
  int lanes;             // shards that run side by side: by lane, each has those of every so many
  int under_way;         // shards of a lane that have run forward and not yet backward, at most
  turns *turns;          // by lane: which passes come next
  executor **executors;  // by lane, for each shard under way
  int threads_inside;    // of a shard's kernels
  char *memory;          // where the model is trained, of `blocks`
  // by segment: those of a wave, by place in it, then a sum that waits for the next one, by level
  char **blocks;
  void **blocks_of;      // by lane and segment: those of a shard
  int wave, wave_level;  // most shards of a wave, and the level of its node
  tree_node running;     // the wave that runs
  double *losses;        // by shard and segment
} gradient_run;

// pieces.c: the step of the weights.
typedef struct weight_update {
  char *weights, *moments;  // where the model is trained; the trainer's own on the host
  piece_list pieces;
  piece_range own;  // that are summed and stepped here
  double *squares;  // by piece
  optimizer_step step;
  void **rooms;  // by worker, where the model is trained; NULL: the optimizer needs none
} weight_update;

// Weights that another rank has stepped.
typedef struct stepped_range {
  int rank;
  number_range numbers;
} stepped_range;

// exchange.c: what goes between the ranks.
typedef struct rank_exchange {
  bool direct;            // messages go from the memory of one GPU to that of another
  double *sum_room;       // for sums over shards, and over ranks
  double *place_sums;     // of the ranks of a place in time
  double *gathered;       // numbers of all ranks
  double *squares_sent;   // of gradients
  message **sends;        // gradients on their way to another rank
  listed_message *moves;  // a list on its way
  stepped_range *others;  // of the ranks that share the sequences
  char *windows_of[2];    // where gradients of another rank arrive
  char *sent_block;       // of a device, on the host: gradients on their way
  void *window_there;     // of a device: what has arrived
} rank_exchange;

// trainer.c: the numbers of a step.
typedef struct step_record {
  double *sums;    // what is summed over the shards of a batch, for the report
  op_times times;  // what operations take in virtual time, as a file says
} step_record;

typedef struct trainer_internals {
  rec_blocks memory;  // of all lists
  process_share share;
  batch_windows batch;
  batch_starts starts;
  gradient_run run;
  weight_update update;
  rank_exchange exchange;
  struct segment_exchange *by_segment;  // segments.c
  step_record record;
} trainer_internals;

uint64_t trainer_stream(const char *what, const train_block *block);
// Zeroed numbers of the weights' type, for free(), and a list that lives as long as the trainer.
// NULL where there is no memory, which trainer_internals.memory then says.
void *trainer_zeroed(trainer *t, int64_t count);
void *trainer_list(trainer *t, int64_t count, size_t size);
// What the trainer exchanges, for the line that a wait without an end prints.
message_place trainer_busy_with(const trainer *t, const char *what);
// Whether it is a state that the batch before has left; all others are added to what the state
// starts from.
bool start_is_carried(intervention_kind kind);
// A parameter in a block of all.
char *trainer_parameter(const trainer *t, void *block, int parameter);

owner_grid trainer_grid(const ranks *r, int rank);
// The node of the tree over shards that this process has.
tree_node trainer_own_node(const trainer *t);
// The sum over the shards of this process of `width` numbers of each, which lie shard by shard.
void trainer_sum_shards(const trainer *t, const double *by_shard, int64_t width, double *sum);

// ---- pieces.c -----------------------------------------------------------------------------------

void pieces_new(trainer *t);
// What optimizers work in, for each thread that steps.
rec_status pieces_make_rooms(trainer *t);
// The squares of the gradient, by piece, of the pieces of this process.
rec_status pieces_square(trainer *t);
// The step of the optimizer that weight_update.step describes, for the pieces of this process.
rec_status pieces_step(trainer *t);
number_range pieces_numbers(const trainer *t, slot_range slots);
piece_range pieces_of_rank(const trainer *t, int rank);
int64_t pieces_most_of_slot(const trainer *t);

// ---- exchange_sums.c ----------------------------------------------------------------------------

// From the sums over the shards of this process to those over all shards. Of the last `maxima`
// numbers the largest.
void exchange_sums(trainer *t, double *own, int64_t width, int64_t maxima);
// The same for ranks that share sequences: the first `split` numbers are sums of each place in
// time, and are written place by place.
void exchange_sums_by_place(trainer *t, double *own, int64_t width, int64_t split,
                            double *by_place);
// The least number of all ranks.
int exchange_least(const trainer *t, int own);
// One status for all ranks. What cannot fail on the host needs no exchange there.
rec_status exchange_agree(const trainer *t, rec_status status);
rec_status exchange_agree_on_device(const trainer *t, rec_status status);

// ---- exchange.c ---------------------------------------------------------------------------------

// Whether the batch can be shared out.
rec_status exchange_check(const trainer *t);
// `widest`: numbers of the longest list of sums.
rec_status exchange_new(trainer *t, int64_t widest);
// weight_update.squares of all pieces, of which every rank has its own.
void exchange_squares(trainer *t);
// Finishes the sums of the gradients of each segment, for the pieces of this process and of those
// that share its sequences.
rec_status exchange_gradients(trainer *t);
// Every rank receives the weights that the other data ranks have stepped. `status`: of the same
// exchange among the time ranks. After a failure weights are sent all the same, for the other ranks
// wait for them; the first failure is returned.
rec_status exchange_weights(trainer *t, rec_status status);
// Sends the own stepped weights to some other ranks and receives theirs. `status` is passed on as in
// exchange_weights.
rec_status exchange_stepped(trainer *t, rec_status status, number_range own,
                            const stepped_range *others, int count, int tag);
// Moves a list of messages: from GPU to GPU, or between memories of the hosts.
void exchange_list(trainer *t, const listed_message *list, int count, const char *what);

// ---- gradients.c --------------------------------------------------------------------------------

// Says which shards run side by side and how many are under way, and how many blocks of gradients
// that takes; then makes these.
int gradients_plan(trainer *t);
rec_status gradients_new(trainer *t);
// Forward and backward of all shards; the gradient of the batch is then in gradients_sum.
rec_status gradients_run(trainer *t);
char *gradients_sum(const trainer *t);
// The blocks of a shard's segments, for a run in that lane.
void *const *gradients_blocks(const trainer *t, int place, int lane);
// The sum of an own segment.
char *gradients_of_segment(const trainer *t, int segment);
// The first row of a shard, of those of this process.
int64_t gradients_first_row(const trainer *t, int number);
shard gradients_shard(const trainer *t, int number, int lane);
double gradients_loss_scale(const trainer *t);
// Adds the gradients of a node's leaves into the block of its first leaf, which is blocks[0]. `n`:
// the numbers of a block that are added.
rec_status gradients_sum_node(const trainer *t, tree_node node, char *const *blocks,
                              number_range n);

// ---- segments.c ---------------------------------------------------------------------------------

// `widest`: numbers of the longest list of sums.
rec_status segments_new(trainer *t, int64_t widest);
void segments_free(trainer *t);
// The gradients of all segments together, for the pieces of this process.
rec_status segments_sum_gradients(trainer *t);
// From the ranks that share the sequences, the weights that they have stepped.
rec_status segments_gather_weights(trainer *t);
// step_record.sums of all ranks; the loss of all segments, of which there are those of this
// process.
double segments_sum_losses(trainer *t, int64_t width);

// ---- spent.c ------------------------------------------------------------------------------------

// The file of times, and from then on what operations take by it.
rec_status spent_open(trainer *t);
// Virtual time goes on by that of adding so many numbers, or of stepping them.
void spent_on_sums(const trainer *t, int64_t numbers);
void spent_on_step(const trainer *t, int64_t numbers);

// ---- batch.c ------------------------------------------------------------------------------------

// The windows of the batch and what their targets weigh, by shard.
void batch_fill(trainer *t, const train_data *data);

// ---- initial_states.c ---------------------------------------------------------------------------

void initial_states_new(trainer *t);
// Makes the initial states and points every shard at those of its sequences.
void initial_states_fill(trainer *t, const train_data *data);
// Of a step that is given up: noise is fitted as it was before.
void initial_states_forget(trainer *t);
// Numbers about the initial states of the shards of this process; starts.h has their count. The
// last one is a maximum.
void initial_states_measure(trainer *t, double *numbers);
// The same numbers of the whole batch.
void initial_states_report(trainer *t, const double *numbers, step_report *report);
// After the batch, for what it ended with: as many numbers as there are layers with states.
void final_states_measure(trainer *t, double *numbers);
void final_states_report(trainer *t, const double *numbers, step_report *report);
// The next batch may start from what this one ended with.
void final_states_keep(trainer *t);
