// A thread that moves messages: it alone calls MPI, from its start to its end.
#ifndef REC_RANKS_MESSAGES_H
#define REC_RANKS_MESSAGES_H

#include <pthread.h>

#include "runtime/ranks/mpi.h"
#include "runtime/ranks/ranks.h"

struct message {
  message *next;
  bool receives;
  int peer;
  message_kind kind;
  int tag;
  char *bytes;
  int64_t size;
  bool done;
  double stamp;  // where messages have one: it goes before the bytes
  int part_count, open_parts;
  mpi_request parts[];  // by MPI's own order, those of one tag arrive as they were sent
};

typedef struct mover {
  mpi mpi;
  launcher by;
  int number, count;
  int64_t largest;   // bytes of a part
  int64_t patience;  // seconds
  bool stamped;      // messages have a stamp; the same on all ranks
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t work, done;       // for the thread; for those who wait
  message *posted, **posted_last;  // not yet begun
  message *moving;                 // the thread's own list
  bool ready, ending, ended, aborting;
} mover;

// In how many parts a message of so many bytes goes.
int mover_parts(const mover *v, int64_t size);
// Starts the thread, and MPI on it.
rec_status mover_start(mover *v, launcher by, const ranks_settings *settings);
// Ends MPI and the thread.
void mover_stop(mover *v);
void mover_post(mover *v, message *m);
// Until the message has arrived. False: the patience is over. Time in which this process was stopped does not count.
bool mover_wait(mover *v, message *m);
// Ends all processes of the job, this one last.
_Noreturn void mover_abort(mover *v);

#endif
