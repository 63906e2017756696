// What the ranks of a job tell each other after a step: whether they go on, and in virtual time
// (ranks/clock.h) what it has cost.
#pragma once

#include <stdio.h>

#include "runtime/ranks/ranks.h"

// What a rank finds after a step; all do what one of them has to.
typedef struct after_step {
  bool failed, stop, save;
} after_step;

after_step after_step_any(ranks *job, after_step own, int64_t step);

typedef struct step_cost {
  // from the end of the step before until the last rank has ended this one
  double seconds;
  message_count sent[MESSAGE_KINDS];  // by all ranks
} step_cost;

typedef struct cost_meter {
  double end;  // of the last step
  message_count sent[MESSAGE_KINDS];
} cost_meter;

// Since the call before. All ranks come here; what they tell each other for this is not counted.
// False: there is no virtual time.
bool step_cost_measure(ranks *job, int64_t step, cost_meter *m, step_cost *cost);
// ,"virtual_seconds":0.0123,"sent":{"numbers":[96,1536]}: messages and bytes by kind
void step_cost_write(FILE *log, const step_cost *cost);
