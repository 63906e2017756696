// How weights start: the expressions behind `~`, evaluated once for each number.
#pragma once

#include "runtime/train/model/numeric.h"
#include "runtime/train/model/program.h"

// Fills the block of all parameters (model->parameter_elements numbers, zeroed) by the starts of
// the model.
rec_status train_weights_start(const train_model *model, uint64_t seed, const numeric *n,
                               void *block);
