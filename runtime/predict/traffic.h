// The messages of a step: how many, and how large. They are those that the trainer sends, so that
// the counts are equal to what ranks_sent counts, in the last step of the block if fitted noise has
// some steps send more than others.
#pragma once

#include "runtime/predict/schedule.h"

// The bytes that each rank brings to the small exchanges of a step.
typedef struct step_gathers {
  int64_t fits, starts, shards, squares, ends, going_on;
  int fittings;    // exchanges of `fits` bytes
  int agreements;  // further ones of `shards` bytes, where the model is trained on a device
} step_gathers;

step_gathers step_gathers_of(const predicted_program *p, const rank_grid *grid);

// What all ranks together send in a step.
rec_status predict_messages(const predicted_program *p, const rank_grid *grid,
                            message_count sent[MESSAGE_KINDS]);
