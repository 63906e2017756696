#include "runtime/ranks/clock.h"

#include <stdlib.h>

#include "runtime/internal.h"

struct rank_clock {
  int64_t rank;
  network network;
  const char *times;  // file; NULL: the clock runs by the processor
  double (*processor)(void *context);
  void *context;
  // of the processor time: of messages waited for, or of everything where there are times
  double ahead;
  double link_free;  // when the rank's link has sent all messages
};

rec_status clock_open(int64_t rank, double (*processor)(void *context), void *context,
                      rank_clock **made) {
  const char *path = getenv("REC_VIRTUAL_NETWORK");
  *made = NULL;
  if (!path || !*path) return REC_OK;
  rank_clock *c = calloc(1, sizeof *c);
  if (!c) return rec_no_memory();
  *c = (rank_clock){.rank = rank,
                    .processor = processor,
                    .context = context,
                    .times = getenv("REC_VIRTUAL_TIMES")};
  rec_status status = network_read(path, &c->network);
  if (status)
    free(c);
  else
    *made = c;
  return status;
}

void clock_close(rank_clock *c) { free(c); }

const char *clock_times_file(const rank_clock *c) { return c ? c->times : NULL; }

double clock_now(rank_clock *c) {
  return c ? c->ahead + (c->times ? 0 : c->processor(c->context)) : 0;
}

void clock_spend(rank_clock *c, double seconds) {
  if (c && c->times) c->ahead += seconds;
}

void clock_set(rank_clock *c, double time) {
  if (c) c->ahead += time - clock_now(c);
}

double clock_send(rank_clock *c, int64_t to, int64_t bytes) {
  if (!c) return 0;
  if (to == c->rank) return clock_now(c);
  return network_arrival(network_between(&c->network, c->rank, to), clock_now(c), bytes,
                         &c->link_free);
}

void clock_arrived(rank_clock *c, double time) {
  double late = c ? time - clock_now(c) : 0;
  if (late > 0) c->ahead += late;
}
