// The windows of a batch, and what their targets weigh in the loss.
//
//   loss cross_entropy(from = 2, rest = 0.5, 7 -> 3)     targets  4 9 7 . 7    the last two are answers
//                                                        weights  0 0 1.5 . 3

#include "runtime/train/trainer_parts.h"

// What is no answer weighs `rest`. Which targets are answers is told by the same sequence with
// these alone.
static void weigh_rest(trainer *t, int64_t sequence, uint64_t position) {
  trainer_internals *in = t->in;
  int64_t time = t->block->context, first = sequence * time;
  train_task task = t->block->task;
  uint16_t *again = in->answers + first;
  task.all = false;
  task_sequence(&task, t->block->seed, in->windows, position, time, again, again + in->answer_room);
  for (int64_t i = 0; i < time; i++)
    if (again[in->answer_room + i] == NO_TARGET) in->target_weights[first + i] *= (float)t->block->loss_rest;
}

// The sum of the weights of a sequence's targets.
static double weigh(trainer *t, int64_t sequence, uint64_t position) {
  trainer_internals *in = t->in;
  const train_block *b = t->block;
  const uint16_t *targets = in->targets + sequence * b->context;
  float *weights = in->target_weights + sequence * b->context;
  double sum = 0;
  for (int64_t i = 0; i < b->context; i++) weights[i] = i >= b->loss_from;
  if (b->loss_rest != 1) weigh_rest(t, sequence, position);
  for (int i = 0; i < b->label_count; i++)
    for (int64_t k = 0; k < b->context; k++)
      if (targets[k] == b->labels[i].label) weights[k] *= (float)b->labels[i].weight;
  for (int64_t i = 0; i < b->context; i++)
    if (targets[i] != NO_TARGET) sum += (double)weights[i];
  return sum;
}

static rec_status fill_windows(void *context, int number, int worker) {
  trainer *t = context;
  trainer_internals *in = t->in;
  int64_t time = t->block->context, end = trainer_first_sequence(t, number + 1);
  (void)worker;
  in->weight_sums[number] = 0;
  for (int64_t b = trainer_first_sequence(t, number); b < end; b++) {
    uint64_t position = (uint64_t)(t->step * t->block->batch + b);
    int64_t count =
        train_data_window(in->data, t->block->seed, in->windows, position, time, in->tokens + b * time, in->targets + b * time);
    in->weight_sums[number] += in->target_weights ? weigh(t, b, position) : (double)count;
  }
  return REC_OK;
}

// All windows are there before the first shard runs. The mean is over all targets of the batch, and each sequence has its own
// number of targets.
void batch_fill(trainer *t) {
  trainer_internals *in = t->in;
  train_pool_run(t->threads, t->shard_count, fill_windows, t);
  in->weight_sum = 0;
  for (int i = 0; i < t->shard_count; i++) in->weight_sum += in->weight_sums[i];
}
