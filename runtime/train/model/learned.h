// States that sequences start from where these are weights of the model: `learned`.
#ifndef REC_TRAIN_LEARNED_H
#define REC_TRAIN_LEARNED_H

#include "runtime/train/model/execute.h"

// Fills a block of states for `sequences` sequences, and says in `before` where each state stands in it: NULL, which is zero, for
// states that are not learned.
void learned_start(const trained_model *of, const void *weights, int64_t sequences, void *block, void **before);
bool learned_has(const train_model *model);  // any such state

#endif
