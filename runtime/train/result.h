// The model of a block that has ended: RUNS/BLOCK/model.safetensors. Nothing else is read for it,
// and where it is, the block has ended.
#pragma once

#include "runtime/train/session.h"

file_path result_path(const session *s, const train_block *block);
bool result_is_there(const session *s, const train_block *block);

// Its weights. An error if the block has not ended, or if they are of another program.
rec_status result_load(const session *s, const train_block *block, void *weights);
// The same of any file that has all weights of the model.
rec_status result_load_from(const session *s, const train_block *block, const char *path,
                            void *weights);
// The same for who goes on from the run: a warning says what else the block was trained with.
// `data` are those that it would be trained on now; NULL: they are not asked for.
rec_status result_load_run(const session *s, const train_block *block, const train_data *data,
                           void *weights);

// An error if a number of these weights, which were read, is not finite.
rec_status result_check_finite(const session *s, const train_block *block, const void *weights);

// An error if the tokens of these data, of the block `reader`, stand for other characters than
// those that the model has learned.
rec_status result_check_alphabet(const session *s, const train_block *block,
                                 const train_block *reader, const train_data *data);
