#include "runtime/ranks/messages.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "compiler/abi/clock.h"
#include "runtime/internal.h"

enum { ABORT_STATUS = 1, ABORT_SECONDS = 10 };
enum { QUESTION_TAG = MESSAGE_KINDS * RANKS_TAGS, ANSWER_TAG };

// ---- failures --------------------------------------------------------------------------------

// MPICH's launcher ends a job at once, and may not have read the ranks' last lines by then.
static void let_it_be_read(void) { usleep(200000); }

// On the thread. The daemon of Slurm does not understand the MPI_Abort of MPICH 5: it prints that
// for ever, and ends nothing.
_Noreturn static void abort_job(mover *v) {
  launch_outlast(ABORT_SECONDS);
  if (v->by == LAUNCHER_SLURM)
    launch_cancel_step();
  else
    v->mpi.abort(v->mpi.world, ABORT_STATUS);
  _exit(ABORT_STATUS);
}

// On the thread. Calls of MPI that fail leave nothing to go on with.
_Noreturn static void end_job(mover *v, const char *text) {
  fprintf(stderr, "rec: rank %d of %d: %s; the job ends\n", v->number, v->count, text);
  let_it_be_read();
  abort_job(v);
}

static void check_mpi(mover *v, mpi_result result, const char *call) {
  char text[MPI_TEXT] = "", line[MPI_TEXT + 64];
  int length = 0;
  if (result == 0) return;
  v->mpi.error_text(result, text, &length);
  snprintf(line, sizeof line, "%s: %s", call, text);
  end_job(v, line);
}

// ---- the parts of a message ------------------------------------------------------------------

typedef struct part {
  void *bytes;
  int size;
} part;

int mover_parts(const mover *v, int64_t size) {
  int64_t parts = size > v->largest ? (size + v->largest - 1) / v->largest : 1;
  return (int)parts + v->stamped;
}

static part message_part(const mover *v, message *m, int i) {
  bool stamped = v->stamped && m->role == OF_CALLER;
  if (stamped && i == 0) return (part){&m->stamp, sizeof m->stamp};
  int64_t begin = (i - stamped) * v->largest, rest = m->size - begin;
  return (part){m->bytes + begin, (int)(rest < v->largest ? rest : v->largest)};
}

static void begin_message_part(mover *v, message *m, int i) {
  part p = message_part(v, m, i);
  if (m->receives)
    check_mpi(
        v,
        v->mpi.receive(p.bytes, p.size, v->mpi.byte, m->peer, m->tag, v->mpi.world, &m->parts[i]),
        "MPI_Irecv");
  else
    check_mpi(
        v, v->mpi.send(p.bytes, p.size, v->mpi.byte, m->peer, m->tag, v->mpi.world, &m->parts[i]),
        "MPI_Isend");
}

static void check_size(mover *v, message *m, int i, const mpi_status *status) {
  char line[256];
  int found = 0, expected = message_part(v, m, i).size;
  check_mpi(v, v->mpi.count(status, v->mpi.byte, &found), "MPI_Get_count");
  if (found == expected) return;
  snprintf(line, sizeof line,
           "expected %d bytes of %s from rank %d, found %d; all ranks must run the same rec on the "
           "same program",
           expected, message_kind_name(m->kind), m->peer, found);
  end_job(v, line);
}

static bool all_parts_arrived(mover *v, message *m) {
  while (m->open_parts) {
    int i = m->part_count - m->open_parts, done = 0;
    mpi_status status;
    check_mpi(v, v->mpi.test(&m->parts[i], &done, &status), "MPI_Test");
    if (!done) return false;
    if (m->receives) check_size(v, m, i, &status);
    m->open_parts--;
  }
  return true;
}

// ---- the thread ------------------------------------------------------------------------------

static void begin_message(mover *v, message *m) {
  m->open_parts = m->part_count;
  for (int i = 0; i < m->part_count; i++) begin_message_part(v, m, i);
}

static message *take_posted(mover *v) {
  message *list = v->posted;
  v->posted = NULL;
  v->posted_last = &v->posted;
  return list;
}

static void add_to_moving(mover *v, message *list) {
  message **last = &v->moving;
  while (*last) last = &(*last)->next;
  *last = list;
  for (; list; list = list->next) begin_message(v, list);
}

// ---- questions -------------------------------------------------------------------------------

// Its bytes lie behind its parts. NULL: there is no memory.
static message *message_of(message_role role, int peer, int tag, int64_t size) {
  message *m = calloc(1, sizeof *m + sizeof *m->parts + (size_t)size);
  if (!m) return NULL;
  *m = (message){.role = role,
                 .receives = role == ANSWER_TAKEN,
                 .peer = peer,
                 .tag = tag,
                 .size = size,
                 .part_count = 1};
  m->bytes = (char *)&m->parts[1];
  return m;
}

void mover_ask(mover *v, int peer) {
  message *answer = message_of(ANSWER_TAKEN, peer, ANSWER_TAG, MOVER_ANSWER);
  message *question = message_of(QUESTION, peer, QUESTION_TAG, sizeof v->number);
  if (!answer || !question) {
    free(answer);
    free(question);
    return;
  }
  memcpy(question->bytes, &v->number, sizeof v->number);
  pthread_mutex_lock(&v->lock);
  v->asked++;
  v->settled = false;
  pthread_mutex_unlock(&v->lock);
  mover_post(v, answer);
  mover_post(v, question);
}

// The question of some rank, which has arrived.
static int take_question(mover *v) {
  int from = -1, done = 0;
  mpi_request request;
  mpi_status status;
  check_mpi(v,
            v->mpi.receive(&from, sizeof from, v->mpi.byte, v->mpi.any_rank, QUESTION_TAG,
                           v->mpi.world, &request),
            "MPI_Irecv");
  while (!done) check_mpi(v, v->mpi.test(&request, &done, &status), "MPI_Test");
  return from;
}

// Also pushes what MPI has left to do: a library may send the rest of a message after MPI_Test has
// called it done, but during its own calls alone (UCX does).
static void look_for_questions(mover *v, double now) {
  const double often = 2e-2;
  int found;
  mpi_status status;
  if (v->moving && now - v->looked < often) return;
  v->looked = now;
  check_mpi(v, v->mpi.probe(v->mpi.any_rank, QUESTION_TAG, v->mpi.world, &found, &status),
            "MPI_Iprobe");
  if (!found) return;
  message *answer = message_of(ANSWER_GIVEN, take_question(v), ANSWER_TAG, MOVER_ANSWER);
  if (!answer) return;
  v->answers.give(v->answers.context, answer->bytes);
  add_to_moving(v, answer);
}

static void take_answer(mover *v, const message *m) {
  v->answers.take(v->answers.context, m->peer, m->bytes);
  pthread_mutex_lock(&v->lock);
  v->settled = --v->asked == 0;
  pthread_cond_broadcast(&v->done);
  pthread_mutex_unlock(&v->lock);
}

// ---- arrivals --------------------------------------------------------------------------------

static void finish_message(mover *v, message *m) {
  if (m->role == OF_CALLER) {
    pthread_mutex_lock(&v->lock);
    m->done = true;
    pthread_cond_broadcast(&v->done);
    pthread_mutex_unlock(&v->lock);
    return;
  }
  if (m->role == ANSWER_TAKEN) take_answer(v, m);
  free(m);
}

// Those that have arrived leave the list.
static bool test_all(mover *v) {
  bool any = false;
  for (message **at = &v->moving; *at;) {
    message *m = *at;
    if (!all_parts_arrived(v, m)) {
      at = &m->next;
      continue;
    }
    *at = m->next;
    any = true;
    finish_message(v, m);
  }
  return any;
}

static struct timespec later(double seconds) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  int64_t nanoseconds = at.tv_nsec + (int64_t)(seconds * 1e9);
  return (struct timespec){at.tv_sec + nanoseconds / 1000000000, nanoseconds % 1000000000};
}

// Nobody tells when a message arrives, so the thread asks again: after a sixteenth of the time that
// it has waited already, which leaves the processors to those who compute, and finds a message late
// by no more than that. While no message of this rank is on its way, the thread is there for the
// rest of earlier ones, and asks less often.
static void nap(mover *v, double idle_since) {
  double shortest = 5e-6, longest = v->moving ? 5e-4 : 2e-2;
  double pause = (clock_seconds(CLOCK_MONOTONIC) - idle_since) / 16;
  struct timespec until = later(pause < shortest ? shortest : pause > longest ? longest : pause);
  pthread_cond_timedwait(&v->work, &v->lock, &until);
}

static bool has_news(const mover *v) { return v->posted || v->ending || v->aborting; }

static void move_messages(mover *v) {
  double idle_since = clock_seconds(CLOCK_MONOTONIC);
  bool idle = false;
  for (;;) {
    pthread_mutex_lock(&v->lock);
    if (!has_news(v) && idle) nap(v, idle_since);
    message *list = take_posted(v);
    bool ending = v->ending;
    bool aborting = v->aborting;
    pthread_mutex_unlock(&v->lock);
    if (aborting) abort_job(v);
    if (ending) return;
    add_to_moving(v, list);
    double now = clock_seconds(CLOCK_MONOTONIC);
    look_for_questions(v, now);
    idle = !test_all(v) && !list;
    if (!idle) idle_since = now;
  }
}

// ---- start and end ---------------------------------------------------------------------------

static void start_mpi(mover *v) {
  int provided = 0, found = 0, *largest = NULL;
  check_mpi(v, v->mpi.init(NULL, NULL, v->mpi.one_thread, &provided), "MPI_Init_thread");
  check_mpi(v, v->mpi.rank(v->mpi.world, &v->number), "MPI_Comm_rank");
  check_mpi(v, v->mpi.size(v->mpi.world, &v->count), "MPI_Comm_size");
  check_mpi(v, v->mpi.on_error(v->mpi.world, v->mpi.errors_return), "MPI_Comm_set_errhandler");
  check_mpi(v, v->mpi.attribute(v->mpi.world, v->mpi.largest_tag, &largest, &found),
            "MPI_Comm_get_attr");
  if (found && largest && *largest < ANSWER_TAG) end_job(v, "this MPI has too few tags");
}

static void tell_waiters(mover *v, bool *what) {
  pthread_mutex_lock(&v->lock);
  *what = true;
  pthread_cond_broadcast(&v->done);
  pthread_mutex_unlock(&v->lock);
}

// Naps end when they should, not 50 microseconds later.
static void *run_mover(void *argument) {
  mover *v = argument;
  prctl(PR_SET_NAME, "rec messages");
  prctl(PR_SET_TIMERSLACK, 1000UL);
  start_mpi(v);
  tell_waiters(v, &v->ready);
  move_messages(v);
  v->mpi.finalize();
  tell_waiters(v, &v->ended);
  return NULL;
}

// Until it is so; false: the patience is over. The lock is held.
static bool await(mover *v, const bool *what) {
  struct timespec until = later(1);
  for (int64_t seconds = 0; !*what && seconds < v->patience;) {
    if (pthread_cond_timedwait(&v->done, &v->lock, &until) != ETIMEDOUT) continue;
    until = later(1);
    seconds++;
  }
  return *what;
}

static bool await_locked(mover *v, const bool *what) {
  pthread_mutex_lock(&v->lock);
  bool so = await(v, what);
  pthread_mutex_unlock(&v->lock);
  return so;
}

rec_status rank_thread_start(pthread_t *thread, void *(*run)(void *), void *argument,
                             const char *what) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int failed = pthread_create(thread, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failed ? rec_fail(REC_ERROR_MEMORY, "%s: %s", what, strerror(failed)) : REC_OK;
}

void rank_condition_init(pthread_cond_t *condition) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

rec_status mover_start(mover *v, launcher by, const ranks_settings *settings,
                       mover_answers answers) {
  *v = (mover){.by = by,
               .largest = settings->largest,
               .patience = settings->patience,
               .posted_last = &v->posted,
               .answers = answers,
               .settled = true};
  setenv("UCX_ERROR_SIGNALS", "", 0);  // a fault is ours to report
  rec_status status = mpi_open(by, settings->library, &v->mpi);
  if (status) return status;
  rank_condition_init(&v->work);
  rank_condition_init(&v->done);
  pthread_mutex_init(&v->lock, NULL);
  status = rank_thread_start(&v->thread, run_mover, v, "a thread for messages");
  if (status || await_locked(v, &v->ready)) return status;
  fprintf(stderr, "rec: waited %lld seconds for the other ranks to start\n",
          (long long)v->patience);
  _exit(ABORT_STATUS);
}

void mover_settle(mover *v) { await_locked(v, &v->settled); }

void mover_stop(mover *v) {
  pthread_mutex_lock(&v->lock);
  v->ending = true;
  pthread_cond_signal(&v->work);
  pthread_mutex_unlock(&v->lock);
  if (!await_locked(v, &v->ended)) {
    fprintf(stderr, "rec: rank %d of %d: waited %lld seconds for the other ranks to end\n",
            v->number, v->count, (long long)v->patience);
    mover_abort(v);
  }
  pthread_join(v->thread, NULL);
  pthread_cond_destroy(&v->work);
  pthread_cond_destroy(&v->done);
  pthread_mutex_destroy(&v->lock);
}

_Noreturn void mover_abort(mover *v) {
  let_it_be_read();
  pthread_mutex_lock(&v->lock);
  v->aborting = true;
  pthread_cond_signal(&v->work);
  pthread_mutex_unlock(&v->lock);
  sleep(ABORT_SECONDS);
  _exit(ABORT_STATUS);
}

// ---- for the other threads -------------------------------------------------------------------

void mover_post(mover *v, message *m) {
  pthread_mutex_lock(&v->lock);
  *v->posted_last = m;
  v->posted_last = &m->next;
  pthread_cond_signal(&v->work);
  pthread_mutex_unlock(&v->lock);
}

bool mover_wait(mover *v, message *m, mover_second *second, void *context) {
  pthread_mutex_lock(&v->lock);
  bool goes_on = true;
  for (struct timespec until = later(1); !m->done && goes_on;) {
    if (pthread_cond_timedwait(&v->done, &v->lock, &until) != ETIMEDOUT || m->done) continue;
    pthread_mutex_unlock(&v->lock);
    goes_on = second(context);
    until = later(1);
    pthread_mutex_lock(&v->lock);
  }
  bool done = m->done;
  pthread_mutex_unlock(&v->lock);
  return done;
}
