// Messages of all ranks to all others, without one step for each of them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/predict/simulate.h"

// Every rank sends `bytes` to every other one, to the next one first. What a rank sends between
// nodes leaves at even distances, so the last of these messages to arrive at a rank is found by
// maxima over the ranks before its node, and over those behind it.
typedef struct exchange {
  const network *n;
  int64_t count, bytes;
  const double *ready;     // by rank: when it begins
  double within, between;  // seconds that a message takes to leave
  // by rank: the latest start of the ranks up to it, and from it on, less the starts of those
  // before
  double *before, *behind;
} exchange;

static int64_t node_end(const exchange *x, int64_t rank) {
  int64_t end = (rank / x->n->node + 1) * x->n->node;
  return end < x->count ? end : x->count;
}

// When message number 0 to another node would leave, if all messages of this rank went there.
static double message_start(const exchange *x, int64_t rank) {
  double neighbours = (double)(node_end(x, rank) - 1 - rank);
  return x->ready[rank] + neighbours * (x->within - x->between) - (double)rank * x->between;
}

static double larger_time(double a, double b) { return a > b ? a : b; }

static void find_starts(exchange *x) {
  for (int64_t i = 0; i < x->count; i++)
    x->before[i] = larger_time(message_start(x, i), i ? x->before[i - 1] : -INFINITY);
  for (int64_t i = x->count; i-- > 0;)
    x->behind[i] =
        larger_time(message_start(x, i), i + 1 < x->count ? x->behind[i + 1] : -INFINITY);
}

// From a rank of the same node.
static double neighbour_arrival(const exchange *x, int64_t from, int64_t to) {
  int64_t first = from / x->n->node * x->n->node, end = node_end(x, from);
  double outside = to < from ? (double)(x->count - (end - first)) * x->between : 0;
  int64_t neighbours = to > from ? to - from : end - 1 - from + to - first + 1;
  return x->ready[from] + outside + (double)neighbours * x->within + x->n->within.latency;
}

static double last_arrival(const exchange *x, int64_t to) {
  int64_t first = to / x->n->node * x->n->node, end = node_end(x, to);
  double last = x->ready[to], far = x->n->between.latency;
  if (first > 0) last = larger_time(last, x->before[first - 1] + (double)to * x->between + far);
  if (end < x->count)
    last = larger_time(last, x->behind[end] + (double)(to + x->count) * x->between + far);
  for (int64_t from = first; from < end; from++)
    if (from != to) last = larger_time(last, neighbour_arrival(x, from, to));
  return last;
}

rec_status simulate_exchange(const network *n, int64_t count, int64_t bytes, double *ready) {
  double *lists = calloc((size_t)count * 3, sizeof *lists);
  if (!lists) return rec_no_memory();
  double *all = lists + 2 * count;
  exchange x = {n,
                count,
                bytes,
                ready,
                (double)bytes / n->within.bandwidth,
                (double)bytes / n->between.bandwidth,
                lists,
                lists + count};
  find_starts(&x);
  for (int64_t i = 0; i < count; i++) all[i] = last_arrival(&x, i);
  memcpy(ready, all, (size_t)count * sizeof *ready);
  free(lists);
  return REC_OK;
}
