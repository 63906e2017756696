// What the initial states of a block add to every step, whatever they are: trainer and plan know it
// from here.
#pragma once

#include "runtime/train/model/program.h"

// The states of a batch that are kept at a time: those of the one before, what it starts from, what
// it ends with.
enum { KEPT_STATES = 3 };
// Whether any sequence of the block starts from something else than zero: the states of a batch are
// then kept.
bool starts_are_kept(const train_block *block);
// Layers that have states.
int starts_layer_count(const train_model *model);
// Numbers that are summed over the shards of a batch to report what its sequences started from, and
// what they ended with.
int64_t starts_number_count(const train_model *model, const train_block *block);
int64_t ends_number_count(const train_model *model, const train_block *block);
// Numbers that are summed, twice, to fit noise for the last step of the block; 0: it has no fitted
// noise.
int64_t fits_number_count(const train_model *model, const train_block *block);
