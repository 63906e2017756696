#include "runtime/ranks/ranks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compiler/abi/clock.h"
#include "runtime/internal.h"
#include "runtime/ranks/clock.h"
#include "runtime/ranks/messages.h"
#include "runtime/ranks/nccl.h"
#include "runtime/ranks/neighbours.h"
#include "runtime/ranks/patience.h"

struct ranks {
  mover mover;
  patience patience;
  neighbour *all;  // where each rank runs
  int time_count, local_number, local_count, sharing_processors;
  message_count sent[MESSAGE_KINDS];
  rank_clock *clock;  // NULL: virtual time is off
  nccl *gpus;         // NULL: their messages go through the memory of the hosts
};

// ---- places in the job -----------------------------------------------------------------------

int ranks_number(const ranks *r) { return r ? r->mover.number : 0; }
int ranks_count(const ranks *r) { return r ? r->mover.count : 1; }
int ranks_time_count(const ranks *r) { return r ? r->time_count : 1; }
int ranks_data_count(const ranks *r) { return ranks_count(r) / ranks_time_count(r); }
int ranks_data(const ranks *r) { return ranks_number(r) / ranks_time_count(r); }
int ranks_time(const ranks *r) { return ranks_number(r) % ranks_time_count(r); }
int ranks_at(const ranks *r, int data, int time) { return data * ranks_time_count(r) + time; }
int ranks_local_count(const ranks *r) { return r ? r->local_count : 1; }
int ranks_local_number(const ranks *r) { return r ? r->local_number : 0; }
int ranks_sharing_processors(const ranks *r) { return r ? r->sharing_processors : 1; }

// ---- messages --------------------------------------------------------------------------------

static const char *const kind_names[MESSAGE_KINDS] = {
    "numbers", "weights", "gradients", "states", "cotangents", "halo", "carried"};

const char *message_kind_name(message_kind kind) { return kind_names[kind]; }

message_count ranks_sent(const ranks *r, message_kind kind) {
  return r ? r->sent[kind] : (message_count){0, 0};
}

static message *post(ranks *r, const message *like, int64_t tag) {
  int parts = mover_parts(&r->mover, like->size);
  message *m = calloc(1, sizeof *m + (size_t)parts * sizeof *m->parts);
  if (!m) ranks_abort(r, "out of memory");
  *m = *like;
  m->part_count = parts;
  m->tag = (int)(like->kind * RANKS_TAGS + tag % RANKS_TAGS);
  mover_post(&r->mover, m);
  return m;
}

static void count_sent(ranks *r, message_kind kind, int64_t size) {
  __atomic_fetch_add(&r->sent[kind].messages, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&r->sent[kind].bytes, size, __ATOMIC_RELAXED);
}

message *ranks_send(ranks *r, int to, message_kind kind, int64_t tag, const void *bytes,
                    int64_t size) {
  count_sent(r, kind, size);
  double stamp = clock_send(r->clock, to, size);
  return post(r,
              &(message){.peer = to,
                         .kind = kind,
                         .bytes = (char *)(uintptr_t)bytes,
                         .size = size,
                         .stamp = stamp},
              tag);
}

message *ranks_receive(ranks *r, int from, message_kind kind, int64_t tag, void *bytes,
                       int64_t size) {
  return post(
      r, &(message){.receives = true, .peer = from, .kind = kind, .bytes = bytes, .size = size},
      tag);
}

_Noreturn static void end_of_patience(ranks *r, const rank_wait *w) {
  char text[2048];
  patience_explain(&r->patience, w, text, sizeof text);
  ranks_abort(r, "%s", text);
}

typedef struct waiting {
  patience *patience;
  rank_wait wait;
} waiting;

static bool second(void *context) {
  waiting *w = context;
  return patience_second(w->patience, &w->wait);
}

void ranks_wait(ranks *r, message *m, message_place place) {
  if (!m) return;
  waiting w = {&r->patience,
               {.receives = m->receives, .peer = m->peer, .kind = m->kind, .place = place}};
  if (!mover_wait(&r->mover, m, second, &w)) end_of_patience(r, &w.wait);
  patience_end(&r->patience, &w.wait);
  if (m->receives) clock_arrived(r->clock, m->stamp);
  free(m);
}

void ranks_wait_all(ranks *r, message *const *list, int count, message_place place) {
  for (int i = 0; i < count; i++) ranks_wait(r, list[i], place);
}

// ---- exchanges -------------------------------------------------------------------------------

// Bruck's: in round k each rank has the 2^k blocks from its own on, and gets as many of the rank
// that is 2^k ahead.
bool ranks_gather_round(int count, int number, gather_round *round) {
  int have = 1 << number;
  *round = (gather_round){have, have < count - have ? have : count - have};
  return have < count;
}

// Of a round of an exchange. Ranks that come to exchanges of different names wait for each other,
// and say what for: none takes the bytes of the other exchange.
static int64_t exchange_tag(message_place place, int round) {
  enum { ROUNDS = 32 };
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char *c = place.what; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
  return (int64_t)(hash % (RANKS_TAGS / ROUNDS)) * ROUNDS + round;
}

static void gather_rounds(ranks *r, char *blocks, int64_t size, message_place place) {
  int count = ranks_count(r), number = ranks_number(r);
  gather_round round;
  for (int i = 0; ranks_gather_round(count, i, &round); i++) {
    int64_t bytes = round.blocks * size, tag = exchange_tag(place, i);
    message *in = ranks_receive(r, (number + round.ahead) % count, MESSAGE_NUMBERS, tag,
                                blocks + round.ahead * size, bytes);
    message *out =
        ranks_send(r, (number + count - round.ahead) % count, MESSAGE_NUMBERS, tag, blocks, bytes);
    ranks_wait(r, in, place);
    ranks_wait(r, out, place);
  }
}

void ranks_all_gather(ranks *r, const void *own, void *all, int64_t size, message_place place) {
  int count = ranks_count(r), number = ranks_number(r);
  char *blocks = r ? malloc((size_t)(count * size) + 1) : all, *to = all;
  if (!blocks) ranks_abort(r, "out of memory");
  memcpy(blocks, own, (size_t)size);
  if (!r) return;
  gather_rounds(r, blocks, size, place);
  size_t ahead = (size_t)((count - number) * size), behind = (size_t)(number * size);
  memcpy(to + behind, blocks, ahead);
  memcpy(to, blocks + ahead, behind);
  free(blocks);
}

void *ranks_gathered(ranks *r, const void *own, int64_t size, message_place place) {
  void *all = calloc((size_t)ranks_count(r), (size_t)size);
  if (!all) ranks_abort(r, "out of memory");
  ranks_all_gather(r, own, all, size, place);
  return all;
}

// Along a binary tree: whoever has the bytes sends them to the rank that is 2^k behind it, for
// smaller and smaller k.
void ranks_broadcast(ranks *r, int from, void *bytes, int64_t size, message_place place) {
  int count = ranks_count(r), behind = (ranks_number(r) + count - from) % count, half = 1;
  const int64_t tag = exchange_tag(place, 0);
  while (half < count) half *= 2;
  for (; half; half /= 2) {
    int to = behind + half, before = behind - half;
    if (behind % (2 * half) == 0 && to < count)
      ranks_wait(r, ranks_send(r, (from + to) % count, MESSAGE_NUMBERS, tag, bytes, size), place);
    else if (behind % (2 * half) == half)
      ranks_wait(r, ranks_receive(r, (from + before) % count, MESSAGE_NUMBERS, tag, bytes, size),
                 place);
  }
}

// The message of rank `from`, as rec_message() of all.
static void share_message(ranks *r, int from, rec_status status, message_place place) {
  char text[2048] = "";
  snprintf(text, sizeof text, "%s", rec_message());
  ranks_broadcast(r, from, text, sizeof text, place);
  if (ranks_number(r) != from) rec_fail(status, "rank %d: %s", from, text);
}

rec_status ranks_agree(ranks *r, rec_status own, message_place place) {
  if (!r) return own;
  int count = ranks_count(r), first = 0;
  rec_status *all = ranks_gathered(r, &own, sizeof own, place);
  while (first < count && !all[first]) first++;
  rec_status status = first < count ? all[first] : REC_OK;
  if (status) share_message(r, first, status, place);
  free(all);
  return status;
}

bool ranks_any(ranks *r, bool own, message_place place) {
  if (!r) return own;
  char mine = own, *all = ranks_gathered(r, &mine, 1, place);
  bool any = memchr(all, 1, (size_t)ranks_count(r)) != NULL;
  free(all);
  return any;
}

// ---- memory of GPUs --------------------------------------------------------------------------

bool ranks_have_gpus(const ranks *r) { return r && r->gpus; }

void ranks_move(ranks *r, const listed_message *list, int count, message_place place) {
  for (int i = 0; i < count; i++)
    if (!list[i].receives) count_sent(r, list[i].kind, list[i].size);
  nccl_move(r->gpus, list, count, place);
}

void ranks_move_here(ranks *r, const listed_message *list, int count, message_place place) {
  message **begun = calloc((size_t)count + 1, sizeof *begun);
  if (!begun) ranks_abort(r, "out of memory");
  for (int i = 0; i < count; i++) {
    const listed_message *m = &list[i];
    begun[i] = m->receives ? ranks_receive(r, m->peer, m->kind, m->tag, m->bytes, m->size)
                           : ranks_send(r, m->peer, m->kind, m->tag, m->bytes, m->size);
  }
  ranks_wait_all(r, begun, count, place);
  free(begun);
}

// NCCL refuses ranks that share a GPU.
static rec_status check_unshared(ranks *r) {
  typedef struct uuid {
    char bytes[16];
  } uuid;
  uuid own = {{0}};
  rec_status status = nccl_device(r->gpus, own.bytes);
  uuid *all = ranks_gathered(r, &own, sizeof own, (message_place){-1, -1, "the GPUs"});
  for (int i = 0; i < ranks_count(r) && !status; i++)
    for (int k = 0; k < i && !status; k++)
      if (memcmp(&all[i], &all[k], sizeof own) == 0)
        status =
            rec_fail(REC_ERROR_DEVICE,
                     "expected a GPU for each rank, found one that ranks %d and %d share", k, i);
  free(all);
  return status;
}

static void second_of_gpu(ranks *r, rank_wait *w) {
  if (!patience_second(&r->patience, w)) end_of_patience(r, w);
}

static void end_of_gpu(ranks *r, rank_wait *w) { patience_end(&r->patience, w); }

static rec_status join_gpus(ranks *r) {
  const message_place place = {-1, -1, "whether all have NCCL"};
  nccl_id id = {{0}};
  rec_status status =
      nccl_open(&(nccl_settings){r, r->mover.patience, second_of_gpu, end_of_gpu}, &r->gpus);
  if (!status && ranks_number(r) == 0) status = nccl_new_id(r->gpus, &id);
  status = ranks_agree(r, status, place);
  if (!status) status = ranks_agree(r, check_unshared(r), place);
  if (status) return status;
  ranks_broadcast(r, 0, &id, sizeof id, place);
  return ranks_agree(r, nccl_join(r->gpus, &id), place);
}

void ranks_join_gpus(ranks *r, char *said, size_t size) {
  *said = '\0';
  if (!r) return;
  if (!join_gpus(r)) {
    snprintf(said, size, "by %s", nccl_version_text(r->gpus));
    return;
  }
  snprintf(said, size, "through the memory of the hosts: %s", rec_message());
  if (r->gpus) nccl_give_up(r->gpus);
  nccl_close(r->gpus);
  r->gpus = NULL;
}

void ranks_leave_gpus(ranks *r) {
  if (!r) return;
  nccl_close(r->gpus);
  r->gpus = NULL;
}

// ---- open and close --------------------------------------------------------------------------

static void find_neighbours(ranks *r) {
  const message_place place = {-1, -1, "the names of machines"};
  neighbour own = neighbour_self(), *all = r->all = ranks_gathered(r, &own, sizeof own, place);
  for (int i = 0; i < ranks_count(r); i++) {
    bool here = neighbour_is_here(&own, &all[i]);
    r->local_count += here;
    r->local_number += here && i < ranks_number(r);
    r->sharing_processors += here && CPU_EQUAL(&all[i].processors, &own.processors);
  }
  r->patience.ranks = all;
}

static rec_status check_grid(const ranks_settings *s, int64_t count) {
  int64_t time = s->time_count, data = count / time;
  if (s->count && s->count != count)
    return rec_fail(
        REC_ERROR_ARGUMENT,
        "expected --ranks %lld, as many as the launcher has started, found --ranks %lld",
        (long long)count, (long long)s->count);
  if (count % time)
    return rec_fail(REC_ERROR_ARGUMENT,
                    "expected --time-ranks to divide the %lld ranks, found %lld", (long long)count,
                    (long long)time);
  if (data & (data - 1))
    return rec_fail(REC_ERROR_ARGUMENT,
                    "expected ranks / time ranks to be a power of two, found %lld / %lld = %lld",
                    (long long)count, (long long)time, (long long)data);
  return REC_OK;
}

// A library that does not understand the launcher starts jobs of one rank.
static rec_status check_rank_count(const ranks *r, const launched *by) {
  int count = ranks_count(r);
  if (by->count == 0 || by->count == count) return REC_OK;
  return rec_fail(
      REC_ERROR_DEVICE,
      "expected %lld ranks, as the launcher says, found %d by %s; REC_MPI names another library",
      (long long)by->count, count, r->mover.mpi.name);
}

rank_clock *ranks_clock(const ranks *r) { return r ? r->clock : NULL; }

// Processor time of this process without the thread that moves messages.
static double processor_of(void *context) {
  const ranks *r = context;
  clockid_t clock;
  double all = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  return !pthread_getcpuclockid(r->mover.thread, &clock) ? all - clock_seconds(clock) : all;
}

// From here on, where virtual time is on, messages carry a stamp.
static rec_status open_clock(ranks *r) {
  rec_status status = clock_open(ranks_number(r), processor_of, r, &r->clock);
  status = ranks_agree(r, status, (message_place){-1, -1, "virtual time"});
  r->mover.stamped = !status && r->clock;
  return status;
}

static rec_status read_patience(int64_t *seconds) {
  const char *text = getenv("REC_PATIENCE");
  char *end = NULL;
  *seconds = text && *text ? strtoll(text, &end, 10) : RANKS_PATIENCE;
  if (*seconds >= 1 && (!end || !*end)) return REC_OK;
  return rec_fail(REC_ERROR_ARGUMENT,
                  "expected REC_PATIENCE to be a number of seconds from 1 on, found '%.32s'", text);
}

static rec_status fill_defaults(ranks_settings *s) {
  rec_status status = s->patience > 0 ? REC_OK : read_patience(&s->patience);
  if (s->time_count <= 0) s->time_count = 1;
  if (s->largest <= 0) s->largest = 1 << 30;
  if (!s->library) s->library = getenv("REC_MPI");
  return status;
}

static rec_status join_ranks(const launched *by, const ranks_settings *settings, ranks **made) {
  ranks *r = calloc(1, sizeof *r);
  if (!r) return rec_no_memory();
  r->patience = (patience){
      .seconds = settings->patience, .mover = &r->mover, .processor = processor_of, .context = r};
  patience_open(&r->patience);
  rec_status status =
      mover_start(&r->mover, by->by, settings,
                  (mover_answers){patience_answer, patience_answered, &r->patience});
  if (status) {
    patience_close(&r->patience);
    free(r);
    return status;
  }
  r->time_count = (int)settings->time_count;
  *made = r;
  status = check_rank_count(r, by);
  if (!status) status = check_grid(settings, ranks_count(r));
  if (!status) find_neighbours(r);
  return status ? status : open_clock(r);
}

rec_status ranks_open(const ranks_settings *given, ranks **made) {
  launched by;
  ranks_settings settings = *given;
  *made = NULL;
  rec_status status = fill_defaults(&settings);
  if (!status) status = launch_find(&by);
  if (status) return status;
  if (by.by == LAUNCHER_NONE || by.count == 1) return check_grid(&settings, 1);
  return join_ranks(&by, &settings, made);
}

// All answers have been taken before the end, so that no rank is asked after it. MPI_Finalize of
// MPICH 5 waits for the other ranks before it has sent the rest of what MPI_Test called done, so
// that ranks come there when all messages have arrived.
void ranks_close(ranks *r) {
  if (!r) return;
  mover_settle(&r->mover);
  ranks_any(r, false, (message_place){-1, -1, "the end"});
  mover_stop(&r->mover);
  patience_close(&r->patience);
  clock_close(r->clock);
  free(r->all);
  free(r);
}

_Noreturn void ranks_abort(ranks *r, const char *format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fflush(stdout);
  if (r)
    fprintf(stderr, "rec: rank %d of %d: %s\n", ranks_number(r), ranks_count(r), text);
  else
    fprintf(stderr, "rec: %s\n", text);
  if (!r) exit(1);
  mover_abort(&r->mover);
}
