#include "runtime/ranks/ping.h"

#include <stdlib.h>
#include <time.h>

#include "compiler/abi/clock.h"
#include "runtime/internal.h"

enum { SHORT = 8, LONG = 4 << 20, SHORT_ROUNDS = 200, LONG_ROUNDS = 20 };

static const message_place place = {-1, -1, "the network to be measured"};

static void send_and_wait(ranks *r, int to, void *bytes, int64_t size) {
  ranks_wait(r, ranks_send(r, to, MESSAGE_NUMBERS, 0, bytes, size), place);
}

static void receive_and_wait(ranks *r, int from, void *bytes, int64_t size) {
  ranks_wait(r, ranks_receive(r, from, MESSAGE_NUMBERS, 0, bytes, size), place);
}

// Seconds of a message one way, in the best of several rounds between rank 0 and `other`.
static double one_way(ranks *r, int other, void *bytes, int64_t size, int rounds) {
  double best = 1e30;
  for (int i = 0; i < rounds; i++) {
    double begin = clock_seconds(CLOCK_MONOTONIC);
    if (ranks_number(r) == 0) send_and_wait(r, other, bytes, size);
    receive_and_wait(r, ranks_number(r) == 0 ? other : 0, bytes, size);
    if (ranks_number(r) == other) send_and_wait(r, 0, bytes, size);
    double seconds = (clock_seconds(CLOCK_MONOTONIC) - begin) / 2;
    if (seconds < best) best = seconds;
  }
  return best;
}

static network_link measure_link(ranks *r, int other, void *bytes) {
  double latency = one_way(r, other, bytes, SHORT, SHORT_ROUNDS),
         whole = one_way(r, other, bytes, LONG, LONG_ROUNDS);
  double passing = whole > latency ? whole - latency : whole;
  return (network_link){latency, LONG / passing};
}

// How many ranks the machine of rank 0 has, which are the first ones.
static int first_machine(ranks *r) {
  int count = ranks_local_count(r);
  ranks_broadcast(r, 0, &count, sizeof count, place);
  return count;
}

// From rank 0 to the last rank of its machine, and to the first of the next one.
static void measure_links(ranks *r, int local, void *bytes, network *n) {
  int count = ranks_count(r), own = ranks_number(r);
  if (local > 1 && (own == 0 || own == local - 1)) n->within = measure_link(r, local - 1, bytes);
  if (local < count && (own == 0 || own == local)) n->between = measure_link(r, local, bytes);
  if (local == 1) n->within = n->between;
  if (local == count) n->between = n->within;
  n->node = local > 1 && local < count ? local : 1;
}

rec_status network_measure(ranks *r, network *n) {
  if (ranks_count(r) < 2)
    return rec_fail(REC_ERROR_ARGUMENT,
                    "expected at least 2 ranks to measure the network between, found 1; start them "
                    "by mpirun -n 2, or give a file");
  void *bytes = calloc(1, LONG);
  if (!bytes) ranks_abort(r, "out of memory");
  measure_links(r, first_machine(r), bytes, n);
  free(bytes);
  return REC_OK;
}
