// What one rank does in a step, in order: computing, messages to the ranks beside it, and waiting
// for theirs. The simulation (simulate.h) runs these lists. They are made by the rules that the
// trainer follows. A list has shard after shard; which of its operations a rank runs next depends
// on its place (train/turns.h).
//
//   2 time ranks, one leaf, operations embed, ssd, linear, loss:
//   embed | wait states of ssd from -1 | ssd | send states to +1 | linear, loss, linear backward | wait cotangents from +1 | ..
#pragma once

#include "runtime/ranks/ranks.h"
#include "runtime/train/model/leaves.h"
#include "runtime/train/model/op_times.h"
#include "runtime/train/piece_list.h"
#include "runtime/train/turns.h"

// A program and how its steps are cut.
typedef struct predicted_program {
  trained_model of;
  const train_block *block;
  leaves leaves;
  piece_list pieces;
  const op_times *times;
  // by operation, of a sequence: in these its states may pass by a chain; 0, NULL: by a pipeline
  const int64_t *instances;
} predicted_program;

// Ranks of a job: `data` rows of `time` ranks.
typedef struct rank_grid {
  int64_t data, time;
  exchange_kind exchange;
  int64_t under_way;  // shards of a rank, at most; 0: as many as turns.h has
} rank_grid;

typedef enum rank_event_kind { EVENT_COMPUTE, EVENT_SEND, EVENT_WAIT } rank_event_kind;

typedef struct rank_event {
  rank_event_kind kind;
  message_kind message;
  // -1 or 1, the rank before or behind; without such a rank there is no such event. 0: of all ranks
  int beside;
  int64_t tag;     // a wait takes the message of its tag
  int64_t bytes;   // of a message
  double seconds;  // of computing
} rank_event;

typedef struct rank_schedule {
  const predicted_program *program;
  rank_event *events;
  int64_t count;
  size_t room;
  int64_t shards, under_way;
  // where the events of each shard begin, of each operation forward and of backward; then the count
  int64_t *begins;
  bool failed;  // no memory
} rank_schedule;

// Some events that follow each other.
typedef struct rank_events {
  int64_t first, end;
} rank_events;

// Has the operation summaries, whose times are known?
bool schedule_chains(const predicted_program *p, int op);

// The shards of the sequences that data rank `data` has.
leaf_range rank_grid_shards(const predicted_program *p, const rank_grid *grid, int64_t data);
// Forward and backward of these shards by one of `grid.time` ranks. The program outlives the list.
rec_status schedule_shards(const predicted_program *p, const rank_grid *grid, leaf_range shards,
                           rank_schedule *made);
void schedule_free(rank_schedule *s);

// What a rank runs, from the beginning on.
turns schedule_turns(const rank_schedule *s, int64_t place, int64_t places);
rank_events schedule_events(const rank_schedule *s, turn of);

// Is there such an event at this place of so many?
bool schedule_has(const rank_event *e, int64_t place, int64_t places);
// Seconds of computing there.
double schedule_seconds(const rank_schedule *s, int64_t place, int64_t places);
