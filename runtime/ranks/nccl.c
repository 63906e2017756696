#include "runtime/ranks/nccl.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "compiler/abi/clock.h"
#include "runtime/internal.h"

enum { MOST_ON_THEIR_WAY = 256, NAP_MICROSECONDS = 20 };

// A list of messages on its way. The stream has come to it when `before` is done, and is past it
// when `after` is.
typedef struct move {
  rank_wait wait;  // for one of its messages
  cuda_event before, after;
  bool issued;  // its events are recorded
} move;

struct nccl {
#define MEMBER(name, symbol, parameters) nccl_result(*name) parameters;
  NCCL_FUNCTIONS(MEMBER)
#undef MEMBER
  const char *(*error_text)(nccl_result result);
  const char *(*last_error)(nccl_comm comm);
  nccl_settings settings;
  char version_text[32];
  const cuda_driver *driver;
  cuda_context context;
  nccl_comm comm;
  pthread_t watch;
  bool watched, ending;
  pthread_mutex_t lock;
  pthread_cond_t work;  // for the watch
  move moves[MOST_ON_THEIR_WAY];
  int64_t begun, done;  // moves, ever
};

// ---- failures --------------------------------------------------------------------------------

static rec_status nccl_failed(nccl *n, nccl_result result, const char *call) {
  const char *more = n->last_error(n->comm);
  return rec_fail(REC_ERROR_DEVICE, "%s: %s (%d)%s%s", call, n->error_text(result), result,
                  more && *more ? ": " : "", more ? more : "");
}

// Calls of NCCL that fail leave nothing to go on with.
static void check_nccl(nccl *n, nccl_result result, const char *call) {
  if (result == NCCL_DONE || result == NCCL_IN_PROGRESS) return;
  nccl_failed(n, result, call);
  ranks_abort(n->settings.job, "%s; the job ends", rec_message());
}

static void check_driver(nccl *n, cuda_result result, const char *call) {
  if (cuda_check(n->driver, result, call, NULL))
    ranks_abort(n->settings.job, "%s; the job ends", rec_message());
}

// Until what was begun is done, or has failed.
static nccl_result settle(nccl *n, nccl_result result) {
  while (result == NCCL_IN_PROGRESS) {
    nccl_result asked = n->async_error(n->comm, &result);
    if (asked) return asked;
    if (result == NCCL_IN_PROGRESS) usleep(NAP_MICROSECONDS);
  }
  return result;
}

// ---- the watch -------------------------------------------------------------------------------

// An event that cannot be asked about is the work's failure, which whoever waits for the work is
// told.
static bool has_come(const nccl *n, cuda_event event) {
  return n->driver->event_query(event) != CUDA_NOT_READY;
}

// The lock is held.
static void drop_done(nccl *n) {
  for (; n->done < n->begun; n->done++) {
    move *m = &n->moves[n->done % MOST_ON_THEIR_WAY];
    if (!m->issued || !has_come(n, m->after)) return;
    n->settings.end(n->settings.job, &m->wait);
  }
}

// The first list that is not there: a second more, if it is waited for.
static void count_second(nccl *n) {
  pthread_mutex_lock(&n->lock);
  drop_done(n);
  move *m = n->done < n->begun ? &n->moves[n->done % MOST_ON_THEIR_WAY] : NULL;
  if (m && (!m->issued || has_come(n, m->before))) n->settings.second(n->settings.job, &m->wait);
  pthread_mutex_unlock(&n->lock);
}

// Waits a second; false: the end. Time in which this process is stopped is not counted.
static bool sleep_second(nccl *n) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec++;
  pthread_mutex_lock(&n->lock);
  while (!n->ending && pthread_cond_timedwait(&n->work, &n->lock, &until) != ETIMEDOUT) continue;
  bool ending = n->ending;
  pthread_mutex_unlock(&n->lock);
  return !ending;
}

static void look_for_error(nccl *n) {
  nccl_result found = NCCL_DONE;
  check_nccl(n, n->async_error(n->comm, &found), "ncclCommGetAsyncError");
  check_nccl(n, found, "NCCL");
}

// The thread that computes may be inside the driver, which waits for ever for a rank that does not
// come.
static void *run_watch(void *argument) {
  nccl *n = argument;
  prctl(PR_SET_NAME, "rec nccl");
  check_driver(n, n->driver->context_push(n->context), "cuCtxPushCurrent");
  while (sleep_second(n)) {
    count_second(n);
    look_for_error(n);
  }
  return NULL;
}

static rec_status start_watch(nccl *n) {
  rec_status status = rank_thread_start(&n->watch, run_watch, n, "a thread that watches NCCL");
  n->watched = !status;
  return status;
}

// ---- lists of messages -----------------------------------------------------------------------

static bool queue_has_room(nccl *n) {
  pthread_mutex_lock(&n->lock);
  drop_done(n);
  bool room = n->begun - n->done < MOST_ON_THEIR_WAY;
  pthread_mutex_unlock(&n->lock);
  return room;
}

static const listed_message *waited_for(const listed_message *list, int count) {
  for (int i = 0; i < count; i++)
    if (list[i].receives) return &list[i];
  return list;
}

static move *begin_move(nccl *n, const listed_message *list, int count, message_place place) {
  while (!queue_has_room(n)) usleep(NAP_MICROSECONDS);
  pthread_mutex_lock(&n->lock);
  move *m = &n->moves[n->begun++ % MOST_ON_THEIR_WAY];
  const listed_message *first = waited_for(list, count);
  m->wait = (rank_wait){.receives = first->receives,
                        .peer = first->peer,
                        .kind = first->kind,
                        .place = place,
                        .by_gpu = true};
  m->issued = false;
  pthread_mutex_unlock(&n->lock);
  return m;
}

static void issued(nccl *n, move *m) {
  pthread_mutex_lock(&n->lock);
  m->issued = true;
  pthread_mutex_unlock(&n->lock);
}

static nccl_result issue(nccl *n, const listed_message *m) {
  size_t bytes = (size_t)m->size;
  return m->receives ? n->receive(m->bytes, bytes, NCCL_BYTE, m->peer, n->comm, NULL)
                     : n->send(m->bytes, bytes, NCCL_BYTE, m->peer, n->comm, NULL);
}

void nccl_move(nccl *n, const listed_message *list, int count, message_place place) {
  if (count == 0) return;
  move *m = begin_move(n, list, count, place);
  check_driver(n, n->driver->event_record(m->before, NULL), "cuEventRecord");
  check_nccl(n, n->group_start(), "ncclGroupStart");
  for (int i = 0; i < count; i++)
    check_nccl(n, issue(n, &list[i]), list[i].receives ? "ncclRecv" : "ncclSend");
  check_nccl(n, settle(n, n->group_end()), "ncclGroupEnd");
  check_driver(n, n->driver->event_record(m->after, NULL), "cuEventRecord");
  issued(n, m);
}

// ---- opening ---------------------------------------------------------------------------------

static rec_status take_functions(void *library, const char *name, nccl *n) {
  const struct {
    const char *symbol;
    void *place;
  } rows[] = {
#define ROW(name, symbol, parameters) {#symbol, &n->name},
      NCCL_FUNCTIONS(ROW)
#undef ROW
          {"ncclGetErrorString", &n->error_text},
      {"ncclGetLastError", &n->last_error}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    void *found = dlsym(library, rows[i].symbol);
    if (!found)
      return rec_fail(REC_ERROR_DEVICE, "expected NCCL 2.14 or later in %s, found one without %s",
                      name, rows[i].symbol);
    memcpy(rows[i].place, &found, sizeof found);
  }
  return REC_OK;
}

// It stays open: it has threads of its own.
static rec_status open_nccl_library(nccl *n) {
  const char *name = getenv("REC_NCCL");
  int version = 0;
  if (!name) name = "libnccl.so.2";
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return rec_fail(REC_ERROR_DEVICE, "expected NCCL, found none: %s; REC_NCCL names its file",
                    dlerror());
  rec_status status = take_functions(library, name, n);
  if (status) return status;
  if (n->version(&version))
    return rec_fail(REC_ERROR_DEVICE, "expected NCCL in %s, found one without a version", name);
  snprintf(n->version_text, sizeof n->version_text, "NCCL %d.%d.%d", version / 10000,
           version / 100 % 100, version % 100);
  return version >= NCCL_OLDEST
             ? REC_OK
             : rec_fail(REC_ERROR_DEVICE, "expected NCCL 2.14 or later in %s, found version %d",
                        name, version);
}

static rec_status make_events(nccl *n) {
  rec_status status = REC_OK;
  for (int i = 0; !status && i < MOST_ON_THEIR_WAY; i++) {
    move *m = &n->moves[i];
    status = cuda_check(n->driver, n->driver->event_create(&m->before, CUDA_EVENT_WITHOUT_TIME),
                        "cuEventCreate", NULL);
    if (!status)
      status = cuda_check(n->driver, n->driver->event_create(&m->after, CUDA_EVENT_WITHOUT_TIME),
                          "cuEventCreate", NULL);
  }
  return status;
}

rec_status nccl_open(const nccl_settings *settings, nccl **made) {
  *made = NULL;
  nccl *n = calloc(1, sizeof *n);
  if (!n) return rec_no_memory();
  n->settings = *settings;
  rank_condition_init(&n->work);
  pthread_mutex_init(&n->lock, NULL);
  rec_status status = cuda_driver_open(&n->driver);
  if (!status)
    status =
        cuda_check(n->driver, n->driver->context_current(&n->context), "cuCtxGetCurrent", NULL);
  if (!status) status = open_nccl_library(n);
  if (!status) status = make_events(n);
  if (status)
    nccl_close(n);
  else
    *made = n;
  return status;
}

rec_status nccl_new_id(nccl *n, nccl_id *id) {
  nccl_result result = n->new_id(id);
  return result ? nccl_failed(n, result, "ncclGetUniqueId") : REC_OK;
}

rec_status nccl_device(const nccl *n, char uuid[16]) {
  cuda_device device = 0;
  rec_status status =
      cuda_check(n->driver, n->driver->context_device(&device), "cuCtxGetDevice", NULL);
  return status
             ? status
             : cuda_check(n->driver, n->driver->device_uuid(uuid, device), "cuDeviceGetUuid", NULL);
}

const char *nccl_version_text(const nccl *n) { return n->version_text; }

// ---- the ranks -------------------------------------------------------------------------------

// NCCL begins to connect the ranks; until all have come.
static rec_status await_others(nccl *n, nccl_result result) {
  const double until = clock_seconds(CLOCK_MONOTONIC) + (double)n->settings.patience;
  while (result == NCCL_IN_PROGRESS) {
    if (clock_seconds(CLOCK_MONOTONIC) > until)
      return rec_fail(REC_ERROR_DEVICE, "waited %lld seconds for NCCL to connect the GPUs",
                      (long long)n->settings.patience);
    nccl_result asked = n->async_error(n->comm, &result);
    if (asked) return nccl_failed(n, asked, "ncclCommGetAsyncError");
    usleep(NAP_MICROSECONDS);
  }
  return result ? nccl_failed(n, result, "ncclCommInitRankConfig") : REC_OK;
}

rec_status nccl_join(nccl *n, const nccl_id *id) {
  nccl_config config = {.size = sizeof config, .magic = NCCL_CONFIG_MAGIC, .version = NCCL_OLDEST};
  const ranks *job = n->settings.job;
  rec_status status =
      await_others(n, n->init(&n->comm, ranks_count(job), *id, ranks_number(job), &config));
  return status ? status : start_watch(n);
}

static void end_watch(nccl *n) {
  if (!n->watched) return;
  pthread_mutex_lock(&n->lock);
  n->ending = true;
  pthread_cond_signal(&n->work);
  pthread_mutex_unlock(&n->lock);
  pthread_join(n->watch, NULL);
  n->watched = false;
}

void nccl_give_up(nccl *n) {
  end_watch(n);
  if (n->comm) n->abort(n->comm);
  n->comm = NULL;
}

// All ranks come to the end of all lists; the watch is there meanwhile.
static void leave_ranks(nccl *n) {
  const listed_message others = {.receives = true, .peer = ranks_number(n->settings.job) == 0};
  begin_move(n, &others, 1, (message_place){-1, -1, "the end"});
  check_nccl(n, settle(n, n->finalize(n->comm)), "ncclCommFinalize");
  end_watch(n);
  check_nccl(n, n->destroy(n->comm), "ncclCommDestroy");
}

void nccl_close(nccl *n) {
  if (!n) return;
  if (n->comm) leave_ranks(n);
  for (int i = 0; i < MOST_ON_THEIR_WAY; i++) {
    n->settings.end(n->settings.job, &n->moves[i].wait);
    if (n->moves[i].before) n->driver->event_destroy(n->moves[i].before);
    if (n->moves[i].after) n->driver->event_destroy(n->moves[i].after);
  }
  pthread_cond_destroy(&n->work);
  pthread_mutex_destroy(&n->lock);
  free(n);
}
