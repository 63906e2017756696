// A libnccl.so.2 for tests, beside the driver of driver.c: groups of sends and receives between
// processes, whose bytes go through shared memory. A group is a function of the host on the stream
// that it is given.
//
// Where NCCL would go wrong in silence or now and then, this library says what is wrong on stderr
// and fails. A send ends when its receive has taken every byte. Sizes must agree. Memory must be
// the driver's, and the context that of the communicator. A communicator has one stream. Groups are
// not nested, and nothing is sent outside of one. The work of a group is on its stream when
// ncclCommGetAsyncError no longer answers ncclInProgress, and no earlier. A communicator that is
// left open is told of at the end of the process.
//
//   NCCL_VERSION  the number of the version, 22000      NCCL_FAIL   a call that fails with ncclSystemError: ncclGroupEnd
//   NCCL_STALL    N: group N of this process never ends, from 1      NCCL_ASYNC   N: so does this one, with ncclRemoteError
//   NCCL_LOG      a file that gets the sends of each group, a line each
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/ranks/nccl.h"

enum { SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6 };
enum { RANKS = 8, PIPE_BYTES = 1 << 16, POLLS = 3, NAP = 200 };

#define EXPORT __attribute__((visibility("default")))
#define PROTOTYPE(name, symbol, parameters) EXPORT nccl_result symbol parameters;
NCCL_FUNCTIONS(PROTOTYPE)
EXPORT const char *ncclGetErrorString(nccl_result result);
EXPORT const char *ncclGetLastError(nccl_comm comm);

// Of the driver.
int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);
int cuMemGetAddressRange_v2(cuda_pointer *base, size_t *bytes, cuda_pointer at);
int cuStreamSynchronize(void *stream);
#define DRIVER(name, symbol, parameters) cuda_result symbol parameters;
CUDA_DRIVER_FUNCTIONS(DRIVER)

// ---- failures --------------------------------------------------------------------------------

static char last_error[512];

__attribute__((format(printf, 2, 3))) static nccl_result refuse(nccl_result result,
                                                                const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(last_error, sizeof last_error, format, arguments);
  va_end(arguments);
  fprintf(stderr, "libnccl of the tests: %s\n", last_error);
  return result;
}

static int number_of(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  return text ? atoi(text) : otherwise;
}

static bool fails(const char *call) {
  const char *text = getenv("NCCL_FAIL");
  return text && strcmp(text, call) == 0;
}

EXPORT const char *ncclGetErrorString(nccl_result result) {
  static const char *const texts[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};
  return result >= 0 && result < 8 ? texts[result] : "unknown result code";
}
EXPORT const char *ncclGetLastError(nccl_comm comm) {
  (void)comm;
  return last_error;
}
EXPORT nccl_result ncclGetVersion(int *version) {
  *version = number_of("NCCL_VERSION", 22000);
  return NCCL_DONE;
}

// ---- what the processes share ----------------------------------------------------------------

// From one rank to another: a message at a time, of which at most PIPE_BYTES are on their way.
typedef struct pipe_of_pair {
  _Atomic int64_t opened, closed;  // messages, ever
  int64_t size;
  _Atomic int64_t given, taken;  // bytes of the message
  char bytes[PIPE_BYTES];
} pipe_of_pair;

typedef struct shared {
  atomic_int joined, left;
  char uuids[RANKS][16];
  pipe_of_pair pipes[RANKS][RANKS];  // from, to
} shared;

typedef enum comm_state { JOINING, READY, LEAVING, LEFT, ABORTED, STATES } comm_state;
static const char *const state_names[STATES] = {"ncclCommInitRankConfig", NULL, "ncclCommFinalize",
                                                "ncclCommFinalize", "ncclCommAbort"};

typedef struct transfer {
  bool receives, done;
  int peer;
  char *bytes;
  int64_t size, moved;  // moved: -1: not begun
} transfer;

typedef struct group {
  nccl_comm comm;
  cuda_stream stream;
  int count, number;
  transfer list[256];
} group;

struct nccl_comm {
  comm_state state;
  atomic_int error;
  shared *all;
  int count, number;
  cuda_context context;
  pthread_t owner;  // issues groups
  bool nonblocking, has_stream;
  cuda_stream stream;
  group *ended;  // not yet on the stream
  int polls;     // until it is
  int groups;    // ever
  atomic_bool stop;
  atomic_int running;       // groups
  int64_t begun[RANKS][2];  // messages to and from each rank
  struct nccl_comm *next;
};

static struct nccl_comm *comms;
static _Thread_local group *open_group;

__attribute__((destructor)) static void look_at_end(void) {
  for (nccl_comm c = comms; c; c = c->next)
    if (c->state != LEFT && c->state != ABORTED)
      refuse(0, "the communicator of rank %d is left open", c->number);
  if (open_group) refuse(0, "a group is open: ncclGroupEnd is missing");
}

// ---- moving ----------------------------------------------------------------------------------

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static void copy(char *ring, int64_t at, char *bytes, int64_t count, bool out) {
  int64_t place = at % PIPE_BYTES, first = least_of(count, PIPE_BYTES - place);
  memcpy(out ? bytes : ring + place, out ? ring + place : bytes, (size_t)first);
  memcpy(out ? bytes + first : ring, out ? ring : bytes + first, (size_t)(count - first));
}

static bool send_some(nccl_comm c, pipe_of_pair *p, transfer *t) {
  if (t->moved < 0) {
    p->size = t->size, p->given = p->taken = 0;
    t->moved = 0;
    p->opened = ++c->begun[t->peer][0];
    return true;
  }
  if (p->closed == c->begun[t->peer][0]) return t->done = true;
  int64_t count = least_of(t->size - t->moved, PIPE_BYTES - (t->moved - p->taken));
  if (count == 0) return false;
  copy(p->bytes, t->moved, t->bytes + t->moved, count, false);
  p->given = t->moved += count;
  return true;
}

static bool receive_some(nccl_comm c, pipe_of_pair *p, transfer *t) {
  if (t->moved < 0) {
    if (p->opened == c->begun[t->peer][1]) return false;
    if (p->size != t->size) {
      if (!c->error)
        c->error =
            refuse(INVALID_USAGE, "rank %d receives %lld bytes from rank %d, which sends %lld",
                   c->number, (long long)t->size, t->peer, (long long)p->size);
      return false;
    }
    c->begun[t->peer][1]++;
    t->moved = 0;
  }
  int64_t count = p->given - t->moved;
  copy(p->bytes, t->moved, t->bytes + t->moved, count, true);
  p->taken = t->moved += count;
  if (t->moved < t->size) return count > 0;
  p->closed = c->begun[t->peer][1];
  return t->done = true;
}

// Of two messages between the same ranks, the second waits for the first.
static bool is_behind(const group *g, int i) {
  for (int k = 0; k < i; k++)
    if (!g->list[k].done && g->list[k].peer == g->list[i].peer &&
        g->list[k].receives == g->list[i].receives)
      return true;
  return false;
}

static bool move_some(group *g) {
  nccl_comm c = g->comm;
  bool any = false;
  for (int i = 0; i < g->count; i++) {
    transfer *t = &g->list[i];
    if (t->done || is_behind(g, i)) continue;
    any |= t->receives ? receive_some(c, &c->all->pipes[t->peer][c->number], t)
                       : send_some(c, &c->all->pipes[c->number][t->peer], t);
  }
  return any;
}

static bool is_done(const group *g) {
  for (int i = 0; i < g->count; i++)
    if (!g->list[i].done) return false;
  return true;
}

static void log_sends(const group *g) {
  const char *path = getenv("NCCL_LOG");
  FILE *log = path ? fopen(path, "a") : NULL;
  for (int i = 0; log && i < g->count; i++)
    if (!g->list[i].receives)
      fprintf(log, "%d to %d: %lld\n", g->comm->number, g->list[i].peer,
              (long long)g->list[i].size);
  if (log) fclose(log);
}

// On the stream.
static void run_group(void *data) {
  group *g = data;
  nccl_comm c = g->comm;
  if (g->number == number_of("NCCL_ASYNC", 0)) c->error = REMOTE_ERROR;
  c->running++;
  bool stalls = g->number == number_of("NCCL_STALL", 0) || c->error;
  while (!c->stop && !is_done(g))
    if (stalls || !move_some(g)) usleep(NAP);
  log_sends(g);
  free(g);
  c->running--;
}

// ---- groups ----------------------------------------------------------------------------------

static nccl_result check_comm(nccl_comm c, const char *call) {
  cuda_context context = NULL;
  if (c->state != READY) return refuse(INVALID_USAGE, "%s after %s", call, state_names[c->state]);
  if (c->ended) return refuse(INVALID_USAGE, "%s before the last group is issued", call);
  if (c->error) return c->error;
  cuCtxGetCurrent(&context);
  return context == c->context
             ? NCCL_DONE
             : refuse(INVALID_USAGE, "%s in another context than that of the communicator", call);
}

EXPORT nccl_result ncclGroupStart(void) {
  if (open_group) return refuse(INVALID_USAGE, "ncclGroupStart in a group");
  open_group = calloc(1, sizeof *open_group);
  return fails("ncclGroupStart") ? SYSTEM_ERROR : NCCL_DONE;
}

static nccl_result add(const char *call, transfer t, nccl_comm c, cuda_stream stream, int type) {
  group *g = open_group;
  cuda_pointer base = 0, from = (cuda_pointer)(uintptr_t)t.bytes;
  size_t bytes = 0;
  if (!g) return refuse(INVALID_USAGE, "%s outside of a group", call);
  nccl_result wrong = check_comm(c, call);
  if (wrong) return wrong;
  if (fails(call)) return SYSTEM_ERROR;
  if (type != NCCL_BYTE || g->count == 256)
    return refuse(INVALID_ARGUMENT, "%s of numbers of type %d", call, type);
  if (t.peer < 0 || t.peer >= c->count || t.peer == c->number)
    return refuse(INVALID_ARGUMENT, "%s with rank %d", call, t.peer);
  if (g->comm && (g->comm != c || g->stream != stream))
    return refuse(INVALID_USAGE, "%s in a group of another stream", call);
  if (c->has_stream && c->stream != stream)
    return refuse(INVALID_USAGE, "%s on another stream than before", call);
  if (t.size &&
      (cuMemGetAddressRange_v2(&base, &bytes, from) || from + (size_t)t.size > base + bytes))
    return refuse(INVALID_ARGUMENT, "%s: %lld bytes that are not memory of the GPU", call,
                  (long long)t.size);
  g->comm = c;
  c->stream = g->stream = stream;
  c->has_stream = true;
  g->list[g->count++] = t;
  return NCCL_DONE;
}

EXPORT nccl_result ncclSend(const void *bytes, size_t count, int type, int to, nccl_comm comm,
                            cuda_stream stream) {
  return add(
      "ncclSend",
      (transfer){
          .peer = to, .bytes = (char *)(uintptr_t)bytes, .size = (int64_t)count, .moved = -1},
      comm, stream, type);
}
EXPORT nccl_result ncclRecv(void *bytes, size_t count, int type, int from, nccl_comm comm,
                            cuda_stream stream) {
  return add(
      "ncclRecv",
      (transfer){
          .receives = true, .peer = from, .bytes = bytes, .size = (int64_t)count, .moved = -1},
      comm, stream, type);
}

static nccl_result issue(nccl_comm c) {
  group *g = c->ended;
  c->ended = NULL;
  return cuLaunchHostFunc(g->stream, run_group, g) ? 1 : NCCL_DONE;
}

EXPORT nccl_result ncclGroupEnd(void) {
  group *g = open_group;
  if (!g) return refuse(INVALID_USAGE, "ncclGroupEnd without ncclGroupStart");
  open_group = NULL;
  nccl_comm c = g->comm;
  if (!c || fails("ncclGroupEnd")) {
    free(g);
    return c ? SYSTEM_ERROR : NCCL_DONE;
  }
  nccl_result wrong = check_comm(c, "ncclGroupEnd");
  if (wrong) return wrong;
  g->number = ++c->groups;
  c->ended = g;
  c->polls = POLLS;
  c->owner = pthread_self();
  return c->nonblocking ? NCCL_IN_PROGRESS : issue(c);
}

// ---- communicators ---------------------------------------------------------------------------

EXPORT nccl_result ncclGetUniqueId(nccl_id *id) {
  const char *folder = getenv("TMPDIR");
  snprintf(id->bytes, sizeof id->bytes, "%s/nccl-XXXXXX", folder ? folder : "/tmp");
  int file = mkstemp(id->bytes);
  if (file < 0 || ftruncate(file, sizeof(shared)) || fails("ncclGetUniqueId")) return SYSTEM_ERROR;
  close(file);
  return NCCL_DONE;
}

static shared *map(const char *path) {
  FILE *file = fopen(path, "r+");
  shared *all = file ? mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0)
                     : MAP_FAILED;
  if (file) fclose(file);
  return all == MAP_FAILED ? NULL : all;
}

EXPORT nccl_result ncclCommInitRankConfig(nccl_comm *made, int count, nccl_id id, int number,
                                          nccl_config *config) {
  int device = 0;
  *made = NULL;
  if (config->magic != NCCL_CONFIG_MAGIC || config->size != sizeof *config ||
      config->version != NCCL_OLDEST)
    return refuse(INVALID_ARGUMENT, "a config of %zu bytes and version %u", config->size,
                  config->version);
  if (count < 1 || count > RANKS || number < 0 || number >= count)
    return refuse(INVALID_ARGUMENT, "rank %d of %d", number, count);
  if (open_group) return refuse(INVALID_USAGE, "ncclCommInitRankConfig in a group");
  if (fails("ncclCommInitRankConfig")) return SYSTEM_ERROR;
  nccl_comm c = calloc(1, sizeof *c);
  c->all = map(id.bytes);
  if (!c->all || cuCtxGetCurrent(&c->context) || cuCtxGetDevice(&device) ||
      cuDeviceGetUuid(c->all->uuids[number], device))
    return refuse(SYSTEM_ERROR, "%s cannot be mapped, or there is no context", id.bytes);
  c->count = count, c->number = number, c->nonblocking = config->blocking == 0;
  c->owner = pthread_self();
  c->next = comms;
  *made = comms = c;
  if (++c->all->joined == count) unlink(id.bytes);
  return NCCL_IN_PROGRESS;
}

static nccl_result ask_joining(nccl_comm c) {
  if (c->all->joined < c->count) return NCCL_IN_PROGRESS;
  for (int i = 0; i < c->count; i++)
    for (int k = 0; k < i; k++)
      if (memcmp(c->all->uuids[i], c->all->uuids[k], 16) == 0)
        return refuse(INVALID_USAGE, "ranks %d and %d have one GPU", k, i);
  c->state = READY;
  return NCCL_DONE;
}

static nccl_result ask_leaving(nccl_comm c) {
  if (c->all->left < c->count) return NCCL_IN_PROGRESS;
  c->state = LEFT;
  return NCCL_DONE;
}

// Another thread than that of the groups may ask, and changes nothing.
static nccl_result ask(nccl_comm c) {
  bool owner = pthread_equal(c->owner, pthread_self());
  if (c->error) return c->error;
  if (!owner) return c->ended || c->state != READY ? NCCL_IN_PROGRESS : NCCL_DONE;
  if (c->state == JOINING) return ask_joining(c);
  if (c->state == LEAVING) return ask_leaving(c);
  if (c->ended && --c->polls == 0) return issue(c);
  return c->ended ? NCCL_IN_PROGRESS : NCCL_DONE;
}

EXPORT nccl_result ncclCommGetAsyncError(nccl_comm c, nccl_result *found) {
  if (c->state == ABORTED)
    return refuse(INVALID_USAGE, "ncclCommGetAsyncError after ncclCommAbort");
  *found = ask(c);
  return fails("ncclCommGetAsyncError") ? SYSTEM_ERROR : NCCL_DONE;
}

EXPORT nccl_result ncclCommFinalize(nccl_comm c) {
  if (open_group)
    return refuse(INVALID_USAGE, "ncclCommFinalize in a group: ncclGroupEnd is missing");
  nccl_result wrong = check_comm(c, "ncclCommFinalize");
  if (wrong) return wrong;
  if (c->has_stream) cuStreamSynchronize(c->stream);
  c->state = LEAVING;
  c->all->left++;
  return NCCL_IN_PROGRESS;
}

static void unmap(nccl_comm c) {
  munmap(c->all, sizeof *c->all);
  c->all = NULL;
}

EXPORT nccl_result ncclCommDestroy(nccl_comm c) {
  if (c->state != LEFT || !c->all)
    return refuse(INVALID_USAGE, "ncclCommDestroy before ncclCommFinalize has ended, or twice");
  unmap(c);
  return NCCL_DONE;
}

EXPORT nccl_result ncclCommAbort(nccl_comm c) {
  if (c->state == ABORTED || c->state == LEFT)
    return refuse(INVALID_USAGE, "ncclCommAbort after the end of the communicator");
  c->stop = true;
  c->state = ABORTED;
  if (c->has_stream) cuStreamSynchronize(c->stream);
  while (c->running) usleep(NAP);
  unmap(c);
  return NCCL_DONE;
}
