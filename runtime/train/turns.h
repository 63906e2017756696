// The order in which a rank runs the shards of a batch, forward (F) and backward (B). Of ranks that
// share sequences the first waits for the gradients of states until the last has begun with its
// backward pass. Meanwhile it runs the next shards forward, by some operations more than the rank
// behind it does, which waits for their states. So all wait once in a step, and not for each shard:
//
//   3 time ranks; a, b: the first and the second half of the operations
//   time rank 0   F0a F0b F1a F1b B0 F2a F2b B1 ..
//   time rank 1       F0a F0b F1a B0 F1b F2a B1 F2b ..
//   time rank 2           F0a F0b B0 F1a F1b B1 ..
//
// Between GPUs a message occupies the stream of both ranks until both have come to it, and all
// messages between two ranks have one order (ranks/nccl.h). There F1b of rank 0 could not leave its
// states before B0, which it waits for. So the states of operations that stand before a backward
// pass on one rank, and behind it on the next, go with the last cotangents of that pass:
//
//   time rank 0   F0a> F0b> F1a> F1b B0: cotangents <, then >states of F1b   ..
//   time rank 1       F0a F0b F1a B0: cotangents >, then <states of F1b      F1b ..
//
// No circle of ranks waits. Let operation i of n of shard k have the number k + i / n, less what
// the rank is ahead, and let B of shard k have k + 1. Then no part of a pass stands before what it
// waits for, on this rank or another.
#pragma once

#include "runtime/train/model/execute.h"

// Ranks that share sequences, and what they run.
typedef struct turn_line {
  int64_t places, count;  // count: shards
  int64_t most;           // that a rank may have under way; 0: MOST_UNDER_WAY
} turn_line;

enum { MOST_UNDER_WAY = 4 };

// How a rank runs `count` shards of `operations` each, and how far it has come.
typedef struct turns {
  int64_t count, operations;
  // operations that it runs forward before the backward pass of the shard before them
  int64_t ahead;
  // of the ranks before and behind it; its own where there is none
  int64_t ahead_before, ahead_behind;
  int64_t forward;   // operations of all shards that it has run
  int64_t backward;  // shards
} turns;

// Operations, counted over all shards.
typedef struct turn_range {
  int64_t first, end;
} turn_range;

typedef struct turn {
  int64_t shard;
  bool backward;
  op_range operations;  // of a forward pass
  // Where messages have one order: the operations whose states come in this turn, and those whose
  // states go. In a forward pass each by itself, in a backward pass with the last cotangents.
  turn_range takes, gives;
} turn;

// Of a place in time, at the beginning.
turns turns_of(const train_model *model, const turn_line *line, int64_t place);
// The shards that have begun and not ended, at most.
int64_t turns_under_way(const turns *t);
// False: all is done.
bool turns_next(turns *t, turn *next);
// The operations of a shard that are in the range.
op_range turns_of_shard(const turns *t, turn_range range, int64_t number);

// Bytes that the executors of the rank that needs most take for this.
rec_status turns_need(const trained_model *of, const executor_form *form, const turn_line *line,
                      int64_t *bytes);
