// A thread that moves messages: it alone calls MPI, from its start to its end.
#pragma once

#include <pthread.h>

#include "runtime/ranks/mpi.h"
#include "runtime/ranks/ranks.h"

// Whose a message is: that of another thread, or one of three by which ranks ask each other how
// they are.
typedef enum message_role { OF_CALLER, QUESTION, ANSWER_GIVEN, ANSWER_TAKEN } message_role;

struct message {
  message *next;
  message_role role;
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

enum { MOVER_ANSWER = 128 };  // bytes of an answer, which begin as zero

// What ranks that are asked answer. The thread calls.
typedef struct mover_answers {
  void (*give)(void *context, void *answer);
  void (*take)(void *context, int peer, const void *answer);
  void *context;
} mover_answers;

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
  mover_answers answers;
  double looked;  // when the thread has looked for questions
  int asked;      // questions without an answer
  bool settled;   // there are none
  bool ready, ending, ended, aborting;
} mover;

// In how many parts a message of so many bytes goes.
int mover_parts(const mover *v, int64_t size);
// Starts the thread, and MPI on it.
rec_status mover_start(mover *v, launcher by, const ranks_settings *settings,
                       mover_answers answers);
// Until all questions of this rank are answered, or the patience is over.
void mover_settle(mover *v);
// Ends MPI and the thread.
void mover_stop(mover *v);
void mover_post(mover *v, message *m);
// Whether a wait goes on that has lasted a second more. Time in which this process was stopped does
// not count.
typedef bool mover_second(void *context);
// Until the message has arrived. False: `second` was false.
bool mover_wait(mover *v, message *m, mover_second *second, void *context);
// Asks another rank, or this one. The answer comes while all threads of that rank compute.
void mover_ask(mover *v, int peer);
// Ends all processes of the job, this one last.
_Noreturn void mover_abort(mover *v);

// A thread of rec's own, and a condition that is waited for by the monotonic clock. Signals are for
// the threads of the program: those that this thread starts block them, too.
rec_status rank_thread_start(pthread_t *thread, void *(*run)(void *), void *argument,
                             const char *what);
void rank_condition_init(pthread_cond_t *condition);
