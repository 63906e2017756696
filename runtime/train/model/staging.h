// The sequences of a run, brought to where the model runs. On the host they are there already.
#ifndef REC_TRAIN_STAGING_H
#define REC_TRAIN_STAGING_H

#include "runtime/train/model/execute.h"

typedef struct staging {
  const compute *c;
  const train_model *model;
  int64_t batch, time;
  uint16_t *tokens, *targets;  // not on the host, as all that follows
  float *weights, *losses;     // losses: of each target
  uint8_t *hits;
  char *states;                        // before, after, d_before: blocks of `batch` sequences
  void **before, **after, **d_before;  // by state
} staging;

rec_status staging_open(const compute *c, const train_model *model, int64_t batch, int64_t time, staging *s);
void staging_close(staging *s);

// `there`: the same sequences in the memory of the place.
rec_status staging_enter(const staging *s, const shard *here, shard *there);
// What a run has written into `there`.
rec_status staging_leave(const staging *s, const shard *here, const shard *there);

#endif
