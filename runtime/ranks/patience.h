// How long a rank waits for another, and what it says when that has been too long.
//
// The patience is a number of seconds. Shortly before a wait has lasted that long, the rank asks
// the other one. The thread that moves messages answers, whatever the other threads do:
//
//   it has ended         its process is gone from this machine: the job ends at once
//   no answer            it has ended, is stopped, or its network is cut: the job ends
//   it computes          or writes a file, or reads one: it is waited for, up to MOST_PATIENCE times as long
//   it waits itself      the rank that it waits for is asked, and so on. Where this leads back to the rank that asks, each for as
//                        long as the patience, the ranks wait for each other in a circle, and the job ends, unless other
//                        threads of this rank compute. Else it is waited for, as if it computed
//
// Waits of less than a second are not noted here, and cost nothing.
#pragma once

#include <pthread.h>
#include <stddef.h>

#include "runtime/ranks/messages.h"
#include "runtime/ranks/neighbours.h"
#include "runtime/ranks/ranks.h"

enum { MOST_PATIENCE = 10 };

// What a rank answers: the longest of its waits.
typedef struct rank_answer {
  bool waits;     // false: it does not wait
  bool computes;  // its other threads do
  bool receives;
  int32_t peer, kind, layer;
  int64_t step, seconds;
  char what[64];
} rank_answer;

// What the threads of a process have computed until some second of a wait, and until a later one.
typedef struct rank_activity {
  int64_t since, until;
  double processor_since, processor_until;
} rank_activity;

// A thread, or the stream of a GPU, that waits for a rank.
typedef struct rank_wait rank_wait;
struct rank_wait {
  bool receives;
  int peer;
  message_kind kind;
  message_place place;
  bool by_gpu;  // the threads of the host may be busy with nothing but waiting for it
  // set by patience_second
  int64_t seconds;       // that it has lasted
  rank_activity recent;  // of this process meanwhile
  int gone;              // seconds since the process of the other rank has ended
  int64_t ask_at;        // seconds
  int asked;             // the other rank, or one further on that it waits for
  int links;             // how many ranks further on
  bool answered;
  int64_t answered_at;  // seconds
  rank_answer answer;
  rank_answer direct;  // of the other rank
  rank_wait *next;
};

typedef struct patience {
  int64_t seconds;
  mover *mover;
  double (*processor)(void *context);  // seconds that the threads of this process have computed
  void *context;
  const neighbour *ranks;  // by number; NULL: not yet known
  pthread_mutex_t lock;
  rank_wait *waits;  // that are noted
} patience;

void patience_open(patience *p);
void patience_close(patience *p);

// A wait has lasted a second more. False: it is over without success.
bool patience_second(patience *p, rank_wait *w);
// It has ended.
void patience_end(patience *p, rank_wait *w);
// After patience_second was false: who waits for whom, for what, how long, and why no longer.
void patience_explain(patience *p, const rank_wait *w, char *text, size_t size);

// For the thread that moves messages: what this rank answers, and what another has answered.
void patience_answer(void *context, void *answer);
void patience_answered(void *context, int peer, const void *answer);
