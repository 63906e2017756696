// The windows of a batch, and what their targets weigh in the loss.
//
//   loss cross_entropy(from = 2, rest = 0.5, 7 -> 3)     targets  4 9 7 . 7    the last two are answers
//                                                        weights  0 0 1.5 . 3

#include "runtime/train/trainer_parts.h"

// What is no answer weighs `rest`. Which targets are answers is told by the same sequence with
// these alone.
static void weigh_rest(trainer *t, int64_t row, uint64_t position) {
  trainer_internals *in = t->in;
  int64_t time = t->block->context, first = row * time;
  train_task task = t->block->task;
  token_id *again = in->batch.answers + first;
  task.all = false;
  task_sequence(&task, t->block->seed, in->batch.windows, position, time, again,
                again + in->batch.answer_room);
  for (int64_t i = 0; i < time; i++)
    if (again[in->batch.answer_room + i] == NO_TARGET)
      in->batch.target_weights[first + i] *= (float)t->block->loss_rest;
}

// The sum of the weights of a row's targets.
static double weigh_row(trainer *t, int64_t row, uint64_t position) {
  trainer_internals *in = t->in;
  const train_block *b = t->block;
  const token_id *targets = in->batch.targets + row * b->context;
  float *weights = in->batch.target_weights + row * b->context;
  double sum = 0;
  for (int64_t i = 0; i < b->context; i++) weights[i] = i >= b->loss_from;
  if (b->loss_rest != 1) weigh_rest(t, row, position);
  for (int i = 0; i < b->label_count; i++)
    for (int64_t k = 0; k < b->context; k++)
      if (targets[k] == b->labels[i].label) weights[k] *= (float)b->labels[i].weight;
  for (int64_t i = 0; i < b->context; i++)
    if (targets[i] != NO_TARGET) sum += (double)weights[i];
  return sum;
}

// A batch on its way from the data.
typedef struct filling {
  trainer *t;
  const train_data *data;
} filling;

static rec_status fill_windows(void *context, int place, int worker) {
  const filling *f = context;
  trainer *t = f->t;
  trainer_internals *in = t->in;
  int64_t time = t->block->context,
          first = leaves_first_sequence(&in->share.all, in->share.own.first + place),
          end = leaves_first_sequence(&in->share.all, in->share.own.first + place + 1);
  (void)worker;
  in->batch.weight_sums[place] = 0;
  for (int64_t b = first; b < end; b++) {
    int64_t row = b - in->share.first_sequence;
    uint64_t position = (uint64_t)(t->step * t->block->batch + b);
    int64_t count =
        train_data_window(f->data, t->block->seed, in->batch.windows, position, time,
                          in->batch.tokens + row * time, in->batch.targets + row * time);
    in->batch.weight_sums[place] +=
        in->batch.target_weights ? weigh_row(t, row, position) : (double)count;
  }
  return REC_OK;
}

// All windows are there before the first shard runs. The mean is over all targets of the batch, and
// each sequence has its own number of targets.
void batch_fill(trainer *t, const train_data *data) {
  const leaf_range own = t->in->share.own;
  filling f = {t, data};
  train_pool_run(t->threads, own.end - own.first, fill_windows, &f);
}
