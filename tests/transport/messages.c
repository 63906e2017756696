// One rank of the jobs that tests/transport/check starts: `rec-messages TIME_RANKS WHAT..`. Rank 0
// prints what came of it.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/abi/clock.h"
#include "runtime/internal.h"
#include "runtime/ranks/ranks.h"
#include "runtime/support/cuda_driver.h"

static ranks *job;
static const message_place here = {7, 3, "bytes of the test"};

static void require(bool good, const char *what) {
  if (!good) ranks_abort(job, "FAILED: %s", what);
}
#define REQUIRE(condition) require(condition, #condition)

static unsigned char *filled(int64_t size, int from, int number) {
  unsigned char *bytes = malloc((size_t)size + 1);
  REQUIRE(bytes);
  for (int64_t i = 0; i < size; i++)
    bytes[i] = (unsigned char)(i * 131 + i / 251 + from * 17 + number * 29);
  return bytes;
}

// One message of each size to every rank, itself too, the last first. Half of the receives are
// posted after the sends. The job's pieces are of 100,000 bytes.
static void sizes(void) {
  static const int64_t all[] = {0, 1, 7, 1000, 99999, 100000, 100001, 1000003};
  enum { SIZES = sizeof all / sizeof *all, MOST = 16 };
  int count = ranks_count(job), me = ranks_number(job);
  unsigned char *out[SIZES], *in[SIZES][MOST];
  message *sends[SIZES][MOST], *receives[SIZES][MOST];
  REQUIRE(count <= MOST);
  for (int s = 0; s < SIZES; s++) out[s] = filled(all[s], me, s);
  for (int late = 0; late < 2; late++) {
    for (int s = 0; s < SIZES; s++)
      for (int peer = 0; peer < count; peer++)
        if ((s + peer) % 2 == late)
          receives[s][peer] = ranks_receive(job, peer, MESSAGE_STATES, s,
                                            in[s][peer] = malloc((size_t)all[s] + 1), all[s]);
    for (int s = SIZES - 1; s >= 0 && !late; s--)
      for (int peer = 0; peer < count; peer++)
        sends[s][peer] = ranks_send(job, peer, MESSAGE_STATES, s, out[s], all[s]);
  }
  for (int s = 0; s < SIZES; s++)
    for (int peer = 0; peer < count; peer++) {
      unsigned char *expected = filled(all[s], peer, s);
      ranks_wait(job, receives[s][peer], here);
      REQUIRE(memcmp(in[s][peer], expected, (size_t)all[s]) == 0);
      free(expected);
      free(in[s][peer]);
    }
  for (int s = 0; s < SIZES; s++) ranks_wait_all(job, sends[s], count, here), free(out[s]);
}

// Messages of one kind and tag arrive in the order of their sends.
static void order(void) {
  enum { MESSAGES = 200 };
  int in[MESSAGES], out[MESSAGES], count = ranks_count(job), me = ranks_number(job);
  message *list[2 * MESSAGES];
  for (int i = 0; i < MESSAGES; i++) {
    out[i] = 1000 * me + i;
    list[i] = ranks_send(job, (me + 1) % count, MESSAGE_HALO, 5, &out[i], sizeof out[i]);
    list[MESSAGES + i] =
        ranks_receive(job, (me + count - 1) % count, MESSAGE_HALO, 5, &in[i], sizeof in[i]);
  }
  ranks_wait_all(job, list, 2 * MESSAGES, here);
  for (int i = 0; i < MESSAGES; i++) REQUIRE(in[i] == 1000 * ((me + count - 1) % count) + i);
}

static void exchanges(void) {
  int count = ranks_count(job), me = ranks_number(job), *all = calloc((size_t)count, sizeof *all);
  REQUIRE(all);
  ranks_all_gather(job, &me, all, sizeof me, here);
  for (int i = 0; i < count; i++) REQUIRE(all[i] == i);
  free(all);
  for (int from = 0; from < count; from++) {
    int64_t value = me == from ? 77 + from : 0;
    ranks_broadcast(job, from, &value, sizeof value, here);
    REQUIRE(value == 77 + from);
    REQUIRE(ranks_any(job, me == from, here));
  }
  REQUIRE(!ranks_any(job, false, here));
  REQUIRE(!ranks_agree(job, REC_OK, here));
  rec_status own = me == count - 1 ? rec_fail(REC_ERROR_FILE, "a full disk") : REC_OK;
  REQUIRE(ranks_agree(job, own, here) == REC_ERROR_FILE);
  REQUIRE(strstr(rec_message(), "a full disk"));
}

enum { OF_GPU = 100003 };

// Around a ring of GPUs, each to the next one: more lists than can be on their way at once, of
// sizes that differ.
static void go_around(const cuda_driver *driver, cuda_pointer out, cuda_pointer in) {
  enum { LISTS = 300 };
  int count = ranks_count(job), me = ranks_number(job), before = (me + count - 1) % count;
  unsigned char *found = malloc(OF_GPU);
  REQUIRE(found);
  for (int i = 0; i < LISTS; i++) {
    int64_t size = i % 50 ? 7 * i : OF_GPU;
    unsigned char *sent = filled(size, me, i), *expected = filled(size, before, i);
    if (size) REQUIRE(!driver->upload(out, sent, (size_t)size));
    const listed_message list[] = {
        {false, (me + 1) % count, MESSAGE_STATES, (void *)(uintptr_t)out, size, 0},
        {true, before, MESSAGE_STATES, (void *)(uintptr_t)in, size, 0}};
    ranks_move(job, list, 2, here);
    if (i % 50 == 0)
      REQUIRE(!driver->download(found, in, (size_t)size) && !memcmp(found, expected, (size_t)size));
    free(sent);
    free(expected);
  }
  free(found);
}

static void gpus(void) {
  const cuda_driver *driver;
  cuda_context context;
  cuda_pointer out = 0, in = 0;
  char said[512];
  int pushed = 0;
  REQUIRE(!cuda_driver_open(&driver) &&
          !cuda_enter(driver, ranks_local_number(job), &context, &pushed));
  ranks_join_gpus(job, said, sizeof said);
  if (!ranks_have_gpus(job)) ranks_abort(job, "FAILED: messages between GPUs %s", said);
  REQUIRE(!driver->allocate(&out, OF_GPU) && !driver->allocate(&in, OF_GPU));
  go_around(driver, out, in);
  ranks_leave_gpus(job);
  REQUIRE(!driver->release(out) && !driver->release(in));
  cuda_leave(driver, pushed);
}

static void await_byte_from(int peer) {
  char byte;
  ranks_wait(job, ranks_receive(job, peer, MESSAGE_STATES, 0, &byte, 1), here);
}

static void send_byte_to(int peer) {
  ranks_wait(job, ranks_send(job, peer, MESSAGE_STATES, 0, "", 1), here);
}

static void stopped(void) {
  if (ranks_number(job) == 1) raise(SIGSTOP);
  await_byte_from(1);
}

// Each waits for the next one.
static void circle(void) { await_byte_from((ranks_number(job) + 1) % ranks_count(job)); }

// Exchanges of different names, as many bytes in each.
static void apart(void) {
  ranks_any(job, false, ranks_number(job) ? here : (message_place){7, 3, "bytes of another test"});
}

// A rank that ends without a word to its launcher.
static void ended(void) {
  if (ranks_number(job) == 1) _exit(0);
  await_byte_from(1);
}

enum { LATE = 5 };  // seconds, when the patience of the other rank is long over

// Each waits for the next one, and the last one for nobody.
static void slow(void) {
  int number = ranks_number(job);
  if (number + 1 < ranks_count(job))
    await_byte_from(number + 1);
  else
    sleep(LATE);
  if (number > 0) send_byte_to(number - 1);
}

static void *await_rank_0(void *nothing) {
  await_byte_from(0);
  return nothing;
}

// A rank one thread of which computes, while another waits for the rank that waits for it.
static void busy(void) {
  pthread_t waits;
  if (ranks_number(job) == 0) await_byte_from(1), send_byte_to(1);
  if (ranks_number(job) != 1) return;
  REQUIRE(!pthread_create(&waits, NULL, await_rank_0, NULL));
  for (double end = clock_seconds(CLOCK_MONOTONIC) + LATE; clock_seconds(CLOCK_MONOTONIC) < end;)
    continue;
  send_byte_to(0);
  pthread_join(waits, NULL);
}

static void wrong_size(void) {
  char bytes[16] = {0};
  if (ranks_number(job) == 0)
    ranks_wait(job, ranks_receive(job, 1, MESSAGE_STATES, 0, bytes, 16), here);
  if (ranks_number(job) == 1)
    ranks_wait(job, ranks_send(job, 0, MESSAGE_STATES, 0, bytes, 8), here);
  sleep(60);
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    void (*run)(void);
  } tests[] = {{"sizes", sizes}, {"order", order},          {"exchanges", exchanges},
               {"gpus", gpus},   {"stopped", stopped},      {"circle", circle},
               {"apart", apart}, {"ended", ended},          {"slow", slow},
               {"busy", busy},   {"wrong-size", wrong_size}};
  if (count < 2) return 2;
  rec_status status =
      ranks_open(&(ranks_settings){.largest = 100000, .time_count = atoi(words[1])}, &job);
  if (status && ranks_number(job) == 0) fprintf(stderr, "%s\n", rec_message());
  for (int i = 2; i < count && !status; i++)
    for (size_t k = 0; k < sizeof tests / sizeof *tests; k++)
      if (strcmp(words[i], tests[k].name) == 0) tests[k].run();
  if (!status && ranks_number(job) == 0) printf("%d ranks: well\n", ranks_count(job));
  ranks_close(job);
  return status ? 2 : 0;
}
