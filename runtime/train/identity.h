// What a run was trained with, as text that its checkpoints and its model carry. `--resume` goes on
// with the same alone, and names what is another. Who reads a model is told what is.
#pragma once

#include "runtime/train/session.h"

// The identity of a block on these data, which began from the weights `began_from` (NULL: its own
// starts). `data` NULL: they are not asked for. The caller frees it. NULL: no memory.
char *identity_of(const session *s, const train_block *block, const train_data *data,
                  const char *began_from);
// Of it, what decides which function the weights are read as.
char *identity_of_model(const session *s, const train_block *block);
// The weights that a run with this identity began from; the caller frees them. NULL: its own
// starts, or an older rec has not said it.
char *identity_began_from(const char *identity);

// An error that names what differs; REC_OK if nothing does. `path`: of the checkpoint that has
// `was`. What an older rec has not written there cannot be compared; a warning says so. NULL: it
// has written nothing.
rec_status identity_check(const char *path, const char *was, const char *now);

// The same for weights that are read and not trained: an error where they would be another
// function, or judge text that they were trained on; a warning names what else differs. What `now`
// leaves out is not compared. `was` NULL: nothing is known, nothing said.
rec_status identity_check_reader(const char *path, const char *was, const char *now, bool speaks);
