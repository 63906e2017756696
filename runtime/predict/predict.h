// What a step takes on each number of ranks and each grid of them, and why.
#pragma once

#include "runtime/predict/simulate.h"

// What a step on many ranks takes beyond its share of the time of one rank.
typedef enum predicted_loss {
  LOSS_LEAVES,  // one rank has more leaves than another
  LOSS_EXTRA,   // computing that one rank alone would not do: finishing sums, summaries
  LOSS_BUBBLE,  // waiting for ranks that compute
  LOSS_LATENCY,
  LOSS_BANDWIDTH,
  LOSSES
} predicted_loss;
extern const char *const predicted_loss_names[LOSSES];

typedef struct predicted_memory {
  int64_t weights, gradients, moments, activations, states;  // bytes of the largest rank
} predicted_memory;

typedef struct prediction {
  rank_grid grid;
  int64_t ranks;
  double seconds, efficiency;  // efficiency: the time of one rank / (ranks * seconds)
  double losses[LOSSES];       // seconds
  predicted_memory memory;
  message_count sent[MESSAGE_KINDS];  // by all ranks
  bool fits;                          // the memory of a rank
  bool fewer;                         // shards are under way than without a limit on that memory
} prediction;

typedef struct prediction_request {
  const predicted_program *program;
  const network *network;
  int64_t first, last;  // numbers of ranks
  int64_t memory;       // bytes of a rank; 0: not limited
  int64_t under_way;    // shards of a rank, at most; 0: as many as turns.h has
} prediction_request;

typedef struct predictions {
  prediction *list;  // by ranks, then by time ranks
  int64_t count;
  size_t room;
  double one_rank;      // seconds of a step by a pipeline
  exchange_kind asked;  // by the program
} predictions;

// All grids that the program allows: a power of two of data ranks, at most one for each shard; time
// ranks that divide the segments. Each by a pipeline, and by a chain where recurrences have
// summaries.
rec_status predict(const prediction_request *request, predictions *made);
void predictions_free(predictions *p);

int64_t predicted_memory_bytes(const predicted_memory *m);
// The fastest that fits among those of `count` ranks, 0: of all, by the exchange that the program
// asks for; NULL: none fits.
const prediction *predictions_best(const predictions *p, int64_t count);
// The same for any count of ranks, of those whose efficiency is at least this.
const prediction *predictions_best_efficient(const predictions *p, double least);
// Of all by the other exchange; NULL: it is not predicted.
const prediction *predictions_best_other(const predictions *p);
// The loss that takes most.
predicted_loss prediction_bound(const prediction *p);
