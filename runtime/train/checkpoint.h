// What a run leaves on the disk, in safetensors: the weights under their paths. To continue, also
// the states of optimizers (`optimizer.NAME.PATH`, for AdamW `m` and `v`) and the carried states
// (`state.NAME`). Files are written whole or not at all, with a checksum (`rec.checksum`) of all
// that is read again. Ranks that train together write and read parts of one file, which is the same
// for any number of ranks: all of them call what takes a trainer.
#pragma once

#include "runtime/train/seal.h"
#include "runtime/train/trainer.h"

rec_status checkpoint_save(const trainer *t, const char *path);
// Continues where the checkpoint was written. It must be of the same program.
rec_status checkpoint_load(trainer *t, const char *path);
// Steps done according to a checkpoint, and how many its block has.
rec_status checkpoint_progress(const char *path, int64_t *step, int64_t *steps);

// Weights, with `owner` also what it has trained them with; NULL: this process is alone.
rec_status checkpoint_save_weights(const trained_model *of, const void *weights,
                                   const trainer *owner, const char *path);
// An error if they are damaged, or were trained with something else than this trainer.
rec_status checkpoint_check_result(const trainer *t, const char *path);
// A checksum of the weights.
void checkpoint_sum(const trained_model *of, const void *weights, char text[SEAL_TEXT]);
// Any file that holds all weights of the model.
rec_status checkpoint_load_weights(const trained_model *of, void *weights, const char *path);
// What a file says under a key: `rec.characters` its tokens stand for, `rec.trained` is an
// identity. The caller frees it. NULL: nothing.
rec_status checkpoint_says(const char *path, const char *key, char **text);
