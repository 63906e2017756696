// The states of sequences that are read window after window. Each window starts from the states
// that the one before ended with.
#pragma once

#include "runtime/train/model/execute.h"

typedef struct carried_states {
  const trained_model *of;
  int64_t sequences;
  char *blocks[2];
  int turn;  // blocks[turn] holds the states after the last window
  // of the window at hand, as a shard has them; after: [sequences][elements] by state
  void **before, **after;
} carried_states;

// `of` must outlive the states. To be closed after a failure, too. In place, the states after a
// window take the memory of those before it, which a chain of summaries does not allow.
rec_status carried_open(carried_states *c, const trained_model *of, int64_t sequences,
                        bool in_place);
void carried_close(carried_states *c);

// Points `before` and `after` at the states of the next window. The first one starts from what the
// states start from, or with `weights`, those of the model, from its learned states added to that.
void carried_next(carried_states *c, bool first, const void *weights);

// Has the model any learned states?
bool carried_learns(const train_model *model);
