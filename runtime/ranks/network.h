// A network between ranks, as `rec plan` and virtual time calculate with it: a message of `bytes`
// leaves its rank behind those sent before, for bytes / bandwidth seconds. It arrives `latency`
// seconds after its last byte has left.
#pragma once

#include <cjson/cJSON.h>

#include "runtime/rec.h"

typedef struct network_link {
  double latency;    // seconds
  double bandwidth;  // bytes a second, of one rank
} network_link;

// Ranks 0 .. node - 1 share a machine, so do the next `node`.
typedef struct network {
  network_link within, between;
  int64_t node;
} network;

// {"latency_us": 5, "bandwidth_gbit": 100}, of all links; or
// {"ranks_per_node": 8, "within": {"latency_us": ..}, "between": {..}}
rec_status network_read(const char *path, network *n);
void network_describe(const network *n, cJSON *object);

static inline const network_link *network_between(const network *n, int64_t from, int64_t to) {
  return from / n->node == to / n->node ? &n->within : &n->between;
}

// A message given to the link at `now`: when it arrives. *link_free: when the rank's link has sent
// what came before; then, when it has sent this message.
static inline double network_arrival(const network_link *l, double now, int64_t bytes,
                                     double *link_free) {
  double begin = now > *link_free ? now : *link_free;
  *link_free = begin + (double)bytes / l->bandwidth;
  return *link_free + l->latency;
}
