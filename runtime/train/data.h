// Text as tokens, the first part of a file for training, the rest held out; or a generated task.
#ifndef REC_TRAIN_DATA_H
#define REC_TRAIN_DATA_H

#include "runtime/internal.h"
#include "runtime/train/tasks.h"

typedef struct train_data {
  uint16_t *tokens;  // all of them
  int64_t count;
  int64_t train_count;     // the first ones
  const train_task *task;  // NULL: text
} train_data;

// `context`: one window and its next token must fit into either part. `vocabulary`: every token
// must be below.
rec_status train_data_open(const char *path, double split, int64_t context, int vocabulary,
                           train_data *data);
// `task` must outlive the data.
rec_status train_data_generate(const train_task *task, int64_t context, int vocabulary,
                               train_data *data);
void train_data_close(train_data *data);

// Window number `position` of a stream of random windows: `length` tokens and their successors, or
// a sequence of the task and its answers. Returns the number of targets.
int64_t train_data_window(const train_data *data, uint64_t seed, uint64_t stream, uint64_t position,
                          int64_t length, uint16_t *tokens, uint16_t *targets);
// `length` tokens of the held-out text from `place` on, which is a ring, and their successors.
void train_data_held_out(const train_data *data, int64_t place, int64_t length, uint16_t *tokens,
                         uint16_t *targets);

#endif
