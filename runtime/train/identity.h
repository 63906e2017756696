// What a run was trained with, as text that its checkpoints carry: `--resume` goes on with the same
// alone, and names what is another.
#ifndef REC_TRAIN_IDENTITY_H
#define REC_TRAIN_IDENTITY_H

#include "runtime/train/session.h"

// The identity of a block on these data. The caller frees it. NULL: no memory.
char *identity_of(const session *s, const train_block *block, const train_data *data);

// An error that names what differs; REC_OK if nothing does. `path`: of the checkpoint that has `was`. What
// an older rec has not written there cannot be compared; a warning says so. NULL: it has written nothing.
rec_status identity_check(const char *path, const char *was, const char *now);

#endif
