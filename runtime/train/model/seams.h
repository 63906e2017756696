// States at the seams between segments. What a segment ends with, the next one starts from; in the
// backward pass the gradients of these states go from a segment to the one before.
//
//   seam      0              1              2              3       of three segments
//             |  segment 0   |  segment 1   |  segment 2   |
//   state     before         here           here           after
//   gradient  d_before       here           here           none
//
// Of ranks that share the segments, each has some. States come from the rank before and go to the
// next, gradients the other way. What the last rank ends with goes to the first one, which the next
// window starts on. Receives are posted before the run begins, so that ranks run skewed: a layer of
// one segment beside the next layer of the segment before it.
//
//   rank 0    embed  linear  ssd  linear  linear  ssd  ..
//   rank 1    embed  linear       ssd  linear  linear  ssd  ..
#pragma once

#include "runtime/ranks/ranks.h"
#include "runtime/train/model/execute.h"

// How the states of an operation are cut into messages. A chain sends them block by block
// (chain.h), a pipeline as a whole.
typedef struct seam_cut {
  int64_t instances;  // of a sequence; 0: they are not cut
  int64_t bytes;      // of a sequence, all states of the operation
} seam_cut;

// Messages on their way, by state and block; NULL: none.
typedef struct seam_messages {
  message **states_in, **states_out, **gradients_in, **gradients_out, **carried;
} seam_messages;

// One of the places in time that share a sequence, and how many segments it has.
typedef struct seam_place {
  int place, places, segments;
} seam_place;

typedef struct seams {
  const compute *c;
  const train_model *model;
  ranks *line;
  int place, places;  // in time
  int most;           // segments of the first place
  int64_t block;      // bytes of the states of a seam
  char *states;       // of the seams that are not the caller's; backward reads them again
  // of the two seams of a segment in turn, with a chain of each seam by itself; and what comes and
  // goes
  char *gradients;
  bool direct;           // messages go from the memory of one GPU to that of another
  const seam_cut *cuts;  // by state
  bool apart;            // the gradients of all seams are needed at once
  int inner;             // blocks of gradients before those that come and go
  // for messages, in the host's memory: what comes and goes. NULL: it goes from where it lies
  char *copies;
  void *lists;
  seam_messages of;
  int last_step;                           // of the backward pass that has cotangents; -1: none has
  listed_message *joined_in, *joined_out;  // with the last cotangents; only between GPUs
  int joined_in_count, joined_out_count;
  // of a run
  const shard *here, *there;
  // between GPUs: the operations whose states come and go in messages of their own
  op_range takes, gives;
  int count, last;  // its segments of this place; the place of its last segment
} seams;

// `segments`: of this place, at most. `cuts`: by state; they outlive the seams. To be closed after
// a failure, too.
rec_status seams_open(const compute *c, const train_model *model, const executor_form *form,
                      int segments, const seam_cut *cuts, seams *s);
void seams_close(seams *s);
int64_t seams_bytes(const train_model *model, const compute *c, const executor_form *form,
                    const seam_place *place);

// The next run is of `all` segments.
void seams_reach(seams *s, int all);
// It begins: `count` segments here, of the caller's sequences, `there` in the memory of the place.
void seams_begin(seams *s, const shard *here, const shard *there, int count);
// Backward follows.
void seams_turn(seams *s);
// All messages have arrived.
void seams_end(seams *s);
// Has this place the first or the last segment of the run?
bool seams_first(const seams *s);
bool seams_last(const seams *s);

// Where a state lies at a seam, and its gradient; NULL where nothing is there.
void *seams_state(const seams *s, int seam, int state);
void *seams_gradient(const seams *s, int seam, int state);

// Forward ends at the last place, backward at the first one.
bool seams_ends(const seams *s, bool backward);

// In how many blocks the states of an operation pass, and the first instance of one; `blocks` of
// them: the end.
int seams_blocks(const seams *s, const model_op *op);
int64_t seams_instance(const seams *s, const model_op *op, int block);
// A block of the states of an operation, or of their gradients: what comes is there; what has been
// made goes on, if there is a place behind.
rec_status seams_take(seams *s, const model_op *op, bool backward, int block);
rec_status seams_give(seams *s, const model_op *op, bool backward, int block);

// Between GPUs: the states of operations that an executor with the seams `of` is to run on shards
// of so many sequences (`receives`), or has run, go with the last cotangents of this run. Those
// that come are there after seams_take_joined, which is called when the states that this run has
// started from are no longer read.
void seams_join(seams *s, const seams *of, op_range ops, int64_t batch, bool receives);
void seams_take_joined(seams *s);

// Around an operation on a segment: what it reads is there, what it has written goes on.
rec_status seams_before(seams *s, const model_op *op, int segment, bool backward);
rec_status seams_after(seams *s, const model_op *op, int segment, bool backward);
