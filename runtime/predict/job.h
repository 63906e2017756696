// Inside the simulation: the clocks of all ranks.
#pragma once

#include "runtime/predict/simulate.h"

typedef struct rank_time {
  double now;        // seconds
  double link_free;  // when its link has sent all messages
} rank_time;

// rows.c: all ranks go on until they have the gradients of their shards.
rec_status rows_run(const predicted_program *p, const rank_grid *grid, const network *n,
                    rank_time *all);
