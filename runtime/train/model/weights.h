// How weights start: the expressions behind `~`, evaluated once for each number.
#pragma once

#include "runtime/rec.h"
#include "runtime/train/model/numeric.h"
#include "runtime/train/model/program.h"

// Fills the block of all parameters (model->parameter_elements numbers, zeroed) by the starts of
// the model.
rec_status train_weights_start(const train_model *model, uint64_t seed, const numeric *n,
                               void *block);

// Fills a parameter of a recurrence by its start, the "draw" of its row in the manifest. Sizes of
// all axes, by their position.
rec_status parameter_start(const rec_signature *signature, int variable, const cJSON *start,
                           const int64_t *sizes, const numeric *n, void *numbers);
