// The processes of one job, called ranks, and the messages between them.
//
// NULL is a job of one process: every function that takes a `ranks` takes NULL, numbers are then 0
// and counts 1. Nothing is sent in such a job.
//
// Messages are bytes from one rank to another. MPI moves them, and does nothing else: sums are the
// caller's, in an order of its own, so that their bits do not depend on the number of ranks. One
// thread of this module makes all calls of MPI; the threads of the caller compute meanwhile.
//
//   message *next = ranks_receive(r, before, MESSAGE_STATES, layer + 1, state, bytes);
//   .. compute layer ..
//   ranks_wait(r, next, (message_place){step, layer + 1, "states"});
//
// A job ends as a whole. A lost connection, or a wait that is longer than the patience of the
// settings (patience.h), ends it on all ranks with a line that names rank, step, layer and what was
// waited for; functions that wait therefore return no status. A rank that fails by itself (a full
// disk, a bad number) tells the others by ranks_agree.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/rec.h"

typedef struct ranks ranks;
typedef struct message message;  // on its way

typedef enum message_kind {
  MESSAGE_NUMBERS,     // small exchanges: losses, norms, statuses
  MESSAGE_WEIGHTS,     // from the owners of ranges to all
  MESSAGE_GRADIENTS,   // to the owners of ranges
  MESSAGE_STATES,      // of a segment to the next one
  MESSAGE_COTANGENTS,  // the same backward
  MESSAGE_HALO,        // the last tokens of a segment, for convolutions of the next one
  MESSAGE_CARRIED,     // states that the next batch starts from
  MESSAGE_KINDS
} message_kind;

// What a rank is busy with, for the line that a wait without an end prints. A negative step or
// layer is not printed.
typedef struct message_place {
  int64_t step;
  int layer;
  const char *what;  // "states", "gradients of layer leaves", ..
} message_place;

typedef struct ranks_settings {
  int64_t count;        // the ranks that there must be; 0: as many as the launcher has started
  int64_t time_count;   // ranks that share a sequence; 0: 1
  int64_t patience;     // seconds that a wait may last; 0: REC_PATIENCE, or 300
  const char *library;  // file of the MPI library; NULL: REC_MPI, or the one of the launcher
  int64_t largest;      // bytes of a message that go in one piece; 0: 1 GiB
} ranks_settings;

enum {
  RANKS_PATIENCE = 300,
  RANKS_TAGS = 1 << 16,  // tags are from 0 to below this
};

// ---- the job ---------------------------------------------------------------------------------

// Joins the job whose launcher has started this process; *made is NULL where none has, or where it
// has started one process. After a failure that all ranks share, *made is the job: its rank 0
// prints the message for all. Otherwise *made is NULL.
rec_status ranks_open(const ranks_settings *settings, ranks **made);
// Leaves the job in order. All ranks must come here; messages must have been waited for.
void ranks_close(ranks *r);
// Prints the message, after the rank's number, and ends all ranks of the job at once.
_Noreturn void ranks_abort(ranks *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

int ranks_number(const ranks *r);
int ranks_count(const ranks *r);
// The grid: number = data * time_count + time. Ranks of one sequence are neighbours.
int ranks_data(const ranks *r);
int ranks_data_count(const ranks *r);
int ranks_time(const ranks *r);
int ranks_time_count(const ranks *r);
int ranks_at(const ranks *r, int data, int time);  // the number of the rank at this place
// Ranks on this machine, and which of them this one is.
int ranks_local_count(const ranks *r);
int ranks_local_number(const ranks *r);
// Those of them that run on the same processors as this one, itself too.
int ranks_sharing_processors(const ranks *r);

// ---- messages --------------------------------------------------------------------------------

// Both begin a message and return at once. The bytes belong to the message until it has been waited
// for. A receive takes the first send of the same kind, tag and size from that rank that no receive
// before has taken; a rank may send to itself. Any thread may call.
message *ranks_send(ranks *r, int to, message_kind kind, int64_t tag, const void *bytes,
                    int64_t size);
message *ranks_receive(ranks *r, int from, message_kind kind, int64_t tag, void *bytes,
                       int64_t size);
// Until a send's bytes may change, or a receive's bytes are there. The message is no longer valid;
// NULL is allowed.
void ranks_wait(ranks *r, message *m, message_place place);
void ranks_wait_all(ranks *r, message *const *list, int count, message_place place);

// ---- memory of GPUs --------------------------------------------------------------------------

// A message of a list, from or to memory of the GPU that this rank computes on, or of the host.
// `peer` is another rank.
typedef struct listed_message {
  bool receives;
  int peer;
  message_kind kind;
  void *bytes;
  int64_t size;
  int tag;  // of ranks_move_here alone
} listed_message;

// Joins the GPUs of all ranks, each that of its current CUDA context. All ranks come here; none of
// them has such a GPU unless all have. `said`, of `size` bytes: what moves messages between GPUs,
// or why they go through the memory of the hosts.
void ranks_join_gpus(ranks *r, char *said, size_t size);
// Before the context ends. All ranks come here, after their last list.
void ranks_leave_gpus(ranks *r);
// Whether ranks_move can be called.
bool ranks_have_gpus(const ranks *r);
// Moves a list of messages, behind the work that the stream NULL has; work that it is given later
// finds them moved. Returns at once, and is called by one thread. Two ranks bring the messages
// between them in one order. A list begins after the one before it has ended, so that no circle of
// ranks may wait for each other's lists.
void ranks_move(ranks *r, const listed_message *list, int count, message_place place);
// The same between memories of the hosts. Returns when all have arrived.
void ranks_move_here(ranks *r, const listed_message *list, int count, message_place place);

// ---- exchanges that all ranks take part in, in the same order --------------------------------

// The `size` bytes of each rank, in rank order, at every rank. One thread calls. `all` has room for
// ranks_count() * size.
void ranks_all_gather(ranks *r, const void *own, void *all, int64_t size, message_place place);
// The same into memory that the caller frees; without it the job ends.
void *ranks_gathered(ranks *r, const void *own, int64_t size, message_place place);
// How that goes. In a round a rank gets the first `blocks` of those that the rank `ahead` of it
// has, and sends as many of its own to the rank as far behind it.
typedef struct gather_round {
  int ahead, blocks;
} gather_round;
// Round `number` of a job of `count` ranks; false: there are no more.
bool ranks_gather_round(int count, int number, gather_round *round);
// The bytes of rank `from`, at every rank.
void ranks_broadcast(ranks *r, int from, void *bytes, int64_t size, message_place place);
// REC_OK if all ranks bring REC_OK. Otherwise every rank gets the status of the first rank that
// failed, and its message as rec_message(), so that rank 0 can print it for all.
rec_status ranks_agree(ranks *r, rec_status own, message_place place);
// Whether any rank says so.
bool ranks_any(ranks *r, bool own, message_place place);

// ---- counts ----------------------------------------------------------------------------------

typedef struct message_count {
  int64_t messages, bytes;
} message_count;

// What this rank has sent so far.
message_count ranks_sent(const ranks *r, message_kind kind);
const char *message_kind_name(message_kind kind);
// The clock of virtual time (clock.h); NULL: it is off.
struct rank_clock *ranks_clock(const ranks *r);
