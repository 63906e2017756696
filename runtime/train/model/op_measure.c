// How long the operations of a model take here: one executor on random tokens, then an addition and
// a step of all weights.
#include <math.h>
#include <stdlib.h>

#include "runtime/machine.h"
#include "runtime/train/data/random.h"
#include "runtime/train/model/op_times.h"
#include "runtime/train/model/optimizer.h"
#include "runtime/train/model/weights.h"

enum { RUNS = 5 };

typedef struct measuring {
  const trained_model *of;
  const train_block *block;
  op_times *times;
  op_time *run;      // of the run at hand, by operation
  op_time *amounts;  // what it ran, as executor_watch tells
  rec_blocks lists;
  char *weights, *gradients, *moments;  // where the model runs
  double last;                          // when the operation before had run
} measuring;

// One thread is timed by its processor time. What was started on a device has run when a number
// that it makes is here.
static double now(const measuring *m) {
  const compute *c = m->of->where;
  double sum;
  if (!compute_is_host(c)) c->ops->square_sums(c, &(value_list){m->weights, 1}, 1, &sum);
  return rec_seconds(compute_is_host(c) ? 1 : 2);
}

static void note_measured_run(void *context, int op, run_part part, double amount) {
  measuring *m = context;
  m->run[op].of[part] += now(m) - m->last;
  m->amounts[op].of[part] += amount;
  m->last = now(m);
}

static double measured_seconds(const op_time *of, int count) {
  double seconds = 0;
  for (int i = 0; i < count; i++) seconds += of[i].of[RAN_FORWARD] + of[i].of[RAN_BACKWARD];
  return seconds;
}

// ---- the sequences ------------------------------------------------------------------------------

// States of all sequences, zero; the pointers by state, as a shard has them.
static void **new_states(measuring *m, int64_t batch) {
  const train_model *model = m->of->model;
  int64_t size = m->of->n->element_size;
  void **of = rec_blocks_list(&m->lists, model->state_count + 1, sizeof *of);
  char *block = rec_blocks_list(&m->lists, model->state_elements * batch + 1, (size_t)size);
  for (int i = 0; of && block && i < model->state_count; i++)
    of[i] = block + model->states[i].place * batch * size;
  return of;
}

static token_id *new_tokens(measuring *m, int64_t count) {
  token_id *tokens = rec_blocks_list(&m->lists, count, sizeof *tokens);
  for (int64_t i = 0; tokens && i < count; i++)
    tokens[i] = (token_id)random_below(1, 1, (uint64_t)i, m->of->model->vocabulary);
  return tokens;
}

static void **no_states(measuring *m) {
  return rec_blocks_list(&m->lists, m->of->model->state_count + 1, sizeof(void *));
}

static shard new_shard(measuring *m, int64_t batch, int64_t time, bool segment) {
  token_id *tokens = new_tokens(m, batch * time);
  return (shard){.batch = batch,
                 .time = time,
                 .threads = 1,
                 .tokens = tokens,
                 .targets = tokens,
                 .before = segment ? new_states(m, batch) : no_states(m),
                 .after = segment ? new_states(m, batch) : no_states(m),
                 .d_before = segment ? new_states(m, batch) : NULL};
}

// ---- operations ---------------------------------------------------------------------------------

// Each segment has a block of gradients, as in training.
static rec_status start_weights(measuring *m, int segments) {
  const train_model *model = m->of->model;
  const compute *c = m->of->where;
  int64_t bytes = trained_bytes(m->of);
  void *weights =
      rec_blocks_list(&m->lists, model->parameter_elements + 1, (size_t)m->of->n->element_size);
  rec_status status =
      weights ? train_weights_start(model, m->block->seed, m->of->n, weights) : rec_no_memory();
  if (!status) status = c->ops->allocate(c, bytes, (void **)&m->weights);
  if (!status) status = c->ops->allocate(c, bytes * segments, (void **)&m->gradients);
  if (!status) status = c->ops->allocate(c, 2 * bytes, (void **)&m->moments);
  if (!status) status = c->ops->clear(c, m->moments, 2 * bytes);
  return status ? status : c->ops->upload(c, m->weights, weights, bytes);
}

// Of all tokens and of one sequence. The last segment of a pass has no summary.
static void keep_run(measuring *m) {
  for (int k = 0; k < m->times->count; k++) {
    op_time *of = &m->times->of[k];
    *of = m->run[k];
    for (run_part part = RAN_SUMMARY; part < RUN_PARTS; part++) {
      double amount = m->amounts[k].of[part],
             whole = part < RAN_FOLD ? (double)m->times->tokens : 1;
      if (amount > 0) of->of[part] *= whole / amount;
    }
  }
}

// The fastest of several runs, as a whole: what is in the cache for one operation has left no room
// for another.
static rec_status run_operations(measuring *m, executor *x, const shard *s, void *const *gradients,
                                 double *losses) {
  const int count = m->times->count;
  double best = INFINITY;
  rec_status status = REC_OK;
  executor_watch_by(x, (executor_watch){note_measured_run, m});
  for (int i = 0; !status && i < RUNS; i++) {
    for (int k = 0; k < count; k++) m->run[k] = m->amounts[k] = (op_time){0};
    m->last = now(m);
    status = executor_run(x, m->weights, s, gradients, losses, NULL);
    if (status || measured_seconds(m->run, count) >= best) continue;
    best = measured_seconds(m->run, count);
    keep_run(m);
  }
  return status;
}

static rec_status measure_operations(measuring *m, int64_t batch, int64_t time, int segments) {
  const trained_model *of = m->of;
  const executor_form form = {
      .batch = batch, .time = time * segments, .segment = time, .backward = true, .chain = true};
  executor *x = NULL;
  shard s = new_shard(m, batch, time * segments, segments > 1);
  void **gradients = rec_blocks_list(&m->lists, segments, sizeof *gradients);
  double *losses = rec_blocks_list(&m->lists, segments, sizeof *losses);
  m->run = rec_blocks_list(&m->lists, m->times->count + 1, sizeof *m->run);
  m->amounts = rec_blocks_list(&m->lists, m->times->count + 1, sizeof *m->amounts);
  rec_status status = m->lists.failed ? rec_no_memory() : REC_OK;
  for (int i = 0; !status && i < segments; i++) gradients[i] = m->gradients + i * trained_bytes(of);
  if (!status) status = executor_new(of, &form, &x);
  if (!status) status = run_operations(m, x, &s, gradients, losses);
  executor_free(x);
  return status;
}

// ---- weights ------------------------------------------------------------------------------------

static rec_status step_numbers(measuring *m, int parameter, int64_t first, int64_t height,
                               int64_t columns, void *room) {
  const train_model *model = m->of->model;
  const optimizer_step step = {m->block, 1e-3, 1, 1};
  int64_t size = m->of->n->element_size,
          place = (model->parameters[parameter].place + first) * size;
  stepped_weights w = {
      .values = m->weights + place,
      .gradient = m->gradients + place,
      .room = room,
      .rows = height,
      .columns = columns,
      .states = {m->moments + place, m->moments + model->parameter_elements * size + place}};
  return optimizers[optimizer_of(model, m->block, parameter)].step(m->of->where, &step, &w);
}

static rec_status step_parameter(measuring *m, int parameter, void *room) {
  const model_parameter *p = &m->of->model->parameters[parameter];
  if (!optimizer_rules_of[optimizer_of(m->of->model, m->block, parameter)].matrices)
    return step_numbers(m, parameter, 0, 1, p->elements, room);
  rec_status status = REC_OK;
  int64_t columns = p->shape[p->rank - 1];
  for (int i = 0; !status && i < p->part_count; i++)
    if (p->parts[i].count)
      status =
          step_numbers(m, parameter, p->parts[i].first, p->parts[i].count / columns, columns, room);
  return status;
}

static int64_t step_room(const measuring *m) {
  const train_model *model = m->of->model;
  int64_t most = 0;
  for (int i = 0; i < model->parameter_count; i++) {
    const model_parameter *p = &model->parameters[i];
    const optimizer *o = &optimizers[optimizer_of(model, m->block, i)];
    int64_t columns = p->rank ? p->shape[p->rank - 1] : 1;
    int64_t numbers = o->room && columns ? o->room(p->elements / columns, columns) : 0;
    if (numbers > most) most = numbers;
  }
  return most * m->of->n->element_size;
}

static void keep_best(double *best, double seconds) {
  if (seconds < *best) *best = seconds;
}

static rec_status measure_weights(measuring *m) {
  const train_model *model = m->of->model;
  const compute *c = m->of->where;
  void *room = NULL;
  rec_status status = c->ops->allocate(c, step_room(m), &room);
  for (int i = 0; !status && i < RUNS; i++) {
    double begin = now(m);
    status = c->ops->sum_into(c, m->gradients, m->moments, model->parameter_elements);
    double middle = now(m);
    for (int p = 0; !status && p < model->parameter_count; p++) status = step_parameter(m, p, room);
    keep_best(&m->times->sum, (middle - begin) / (double)model->parameter_elements);
    keep_best(&m->times->step, (now(m) - middle) / (double)model->parameter_elements);
  }
  c->ops->release(c, room);
  return status;
}

rec_status op_times_measure(const trained_model *of, const train_block *block, int64_t batch,
                            int64_t time, int segments, op_times *times) {
  measuring m = {.of = of, .block = block, .times = times};
  *times = (op_times){.tokens = batch * time * segments,
                      .count = of->model->op_count,
                      .sum = INFINITY,
                      .step = INFINITY};
  times->of = calloc((size_t)times->count, sizeof *times->of);
  rec_status status = times->of ? start_weights(&m, segments) : rec_no_memory();
  if (!status) status = measure_operations(&m, batch, time, segments);
  if (!status) status = measure_weights(&m);
  of->where->ops->release(of->where, m.weights);
  of->where->ops->release(of->where, m.gradients);
  of->where->ops->release(of->where, m.moments);
  rec_blocks_free(&m.lists);
  if (status) op_times_free(times);
  return status;
}
