// A trainer, and one step of it: windows, initial states, the gradient, clipping, the step of the
// optimizer.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/model/blas.h"
#include "runtime/train/starts.h"
#include "runtime/train/trainer_parts.h"

static bool weighs(const train_block *block) {
  return block->loss_from > 0 || block->loss_rest != 1 || block->label_count > 0;
}

// ---- memory -------------------------------------------------------------------------------------

static int64_t moment_bytes(const trainer *t) { return t->moment_elements * t->of.n->element_size; }

// Weights, moments and gradients where the model is trained.
static rec_status allocate_there(trainer *t) {
  const compute *c = t->of.where;
  trainer_internals *in = t->in;
  rec_status status = gradients_new(t);
  in->update.weights = t->weights, in->update.moments = t->moments;
  if (compute_is_host(c)) return status;
  in->starts.learned = trainer_list(t, t->of.model->largest_parameter, (size_t)c->n->element_size);
  in->update.weights = in->update.moments = NULL;
  if (!status && !in->starts.learned) status = rec_no_memory();
  if (!status) status = c->ops->allocate(c, trained_bytes(&t->of), (void **)&in->update.weights);
  return status ? status : c->ops->allocate(c, moment_bytes(t), (void **)&in->update.moments);
}

static void release_there(trainer *t) {
  const compute *c = t->of.where;
  c->ops->release(c, t->in->run.memory);
  segments_free(t);
  if (compute_is_host(c)) return;
  c->ops->release(c, t->in->update.weights);
  c->ops->release(c, t->in->update.moments);
  c->ops->release(c, t->in->exchange.window_there);
}

rec_status trainer_place(trainer *t) {
  const compute *c = t->of.where;
  if (compute_is_host(c)) return REC_OK;
  rec_status status = c->ops->upload(c, t->in->update.weights, t->weights, trained_bytes(&t->of));
  return status ? status : c->ops->upload(c, t->in->update.moments, t->moments, moment_bytes(t));
}

rec_status trainer_fetch(trainer *t) {
  const compute *c = t->of.where;
  if (compute_is_host(c)) return REC_OK;
  rec_status status = c->ops->download(c, t->weights, t->in->update.weights, trained_bytes(&t->of));
  return status ? status : c->ops->download(c, t->moments, t->in->update.moments, moment_bytes(t));
}

// A parameter to the host.
static rec_status fetch_parameter(trainer *t, int parameter) {
  const compute *c = t->of.where;
  if (parameter < 0) return REC_OK;
  return c->ops->download(c, trainer_parameter(t, t->weights, parameter),
                          trainer_parameter(t, t->in->update.weights, parameter),
                          t->of.model->parameters[parameter].elements * c->n->element_size);
}

// The weights that sequences start from, to the host.
static rec_status fetch_starts(trainer *t) {
  const train_model *m = t->of.model;
  const compute *c = t->of.where;
  rec_status status = REC_OK;
  if (compute_is_host(c) || !t->in->starts.learns) return REC_OK;
  for (int i = 0; !status && i < m->state_count; i++) {
    status = fetch_parameter(t, m->states[i].learned);
    if (!status) status = fetch_parameter(t, m->states[i].begin.parameter);
  }
  return status;
}

static rec_status allocate_trainer(trainer *t) {
  const train_model *m = t->of.model;
  trainer_internals *in = t->in;
  int64_t size = t->of.n->element_size, shards = in->share.own.end - in->share.own.first,
          tokens = in->share.rows * t->block->context;
  in->batch.tokens = trainer_list(t, tokens, sizeof *in->batch.tokens);
  in->batch.targets = trainer_list(t, tokens, sizeof *in->batch.targets);
  in->run.losses = trainer_list(t, shards * in->share.segments, sizeof *in->run.losses);
  in->batch.weight_sums = trainer_list(t, shards, sizeof *in->batch.weight_sums);
  if (weighs(t->block))
    in->batch.target_weights = trainer_list(t, tokens, sizeof *in->batch.target_weights);
  if (t->block->loss_rest != 1)
    in->batch.answers = trainer_list(t, tokens, 2 * sizeof *in->batch.answers);
  in->batch.answer_room = tokens;
  in->run.executors = trainer_list(t, in->run.lanes * in->run.under_way, sizeof *in->run.executors);
  t->memory.weights = m->parameter_elements * size;
  t->memory.data = tokens * 4;
  pieces_new(t);
  initial_states_new(t);
  t->weights = trainer_zeroed(t, m->parameter_elements);
  if (in->memory.failed) return rec_no_memory();
  int64_t sums = in->share.segments + t->layer_count + 1 + starts_number_count(m, t->block);
  in->record.sums = trainer_list(t, sums, sizeof *in->record.sums);
  rec_status status = exchange_new(t, sums > t->group_count ? sums : t->group_count);
  if (!status) status = segments_new(t, sums);
  if (!status && in->memory.failed) status = rec_no_memory();
  return status ? status : allocate_there(t);
}

// Room for the gradients of the initial states of one shard for each lane.
static void make_state_gradients(trainer *t, int lanes, int64_t sequences) {
  const train_model *m = t->of.model;
  trainer_internals *in = t->in;
  int64_t size = t->of.n->element_size, room = m->state_elements * sequences;
  if (!in->starts.learns) return;
  in->starts.d_before = trainer_zeroed(t, room * lanes);
  in->starts.d_before_of = trainer_list(t, lanes * m->state_count, sizeof *in->starts.d_before_of);
  if (in->memory.failed) return;
  for (int lane = 0; lane < lanes; lane++)
    for (int i = 0; i < m->state_count; i++)
      if (m->states[i].learned >= 0 || m->states[i].begin.parameter >= 0)
        in->starts.d_before_of[lane * m->state_count + i] =
            in->starts.d_before + (lane * room + m->states[i].place * sequences) * size;
  t->memory.states += room * lanes * size;
}

// All but the activations.
static rec_status too_large(const trainer *t) {
  const trainer_memory *m = &t->memory;
  const double mib = 1 << 20;
  bool is_batch = m->states + m->data > m->weights;
  return rec_fail(
      REC_ERROR_MEMORY,
      "expected %.1f MiB of memory for train %s, found less: weights %.1f, gradients "
      "%.1f, moments %.1f, states %.1f, batch %.1f; raise the limit (ulimit -v), or take "
      "a smaller %s",
      (double)trainer_bytes(m) / mib, t->block->name, (double)m->weights / mib,
      (double)m->gradients / mib, (double)m->moments / mib, (double)m->states / mib,
      (double)m->data / mib, is_batch ? "batch" : "model");
}

static rec_status activations_too_large(const trainer *t, const executor_form *form) {
  executor_bytes_needed of;
  rec_status status =
      executor_need(&t->of, form, ranks_time(t->ranks), ranks_time_count(t->ranks), &of);
  if (status) return status;
  int64_t bytes = of.whole + (t->in->run.under_way - 1) * of.beside;
  return rec_fail(REC_ERROR_MEMORY,
                  "expected %.1f MiB of memory for the activations of train %s, found less; raise "
                  "the limit (ulimit -v), take fewer --threads%s, or let more --time-ranks share "
                  "its segments, of which there are %d",
                  (double)(bytes * t->in->run.lanes) / (1 << 20), t->block->name,
                  t->in->run.under_way > 1 ? ", or shards --under-way" : "",
                  t->in->share.all.segments);
}

// The executors of the shards that a lane has under way.
static rec_status make_lane(trainer *t, executor_form form, int lane) {
  executor **list = t->in->run.executors + lane * t->in->run.under_way;
  rec_status status = REC_OK;
  for (int i = 0; !status && i < t->in->run.under_way; i++) {
    form.beside = i ? list[0] : NULL;
    status = executor_new(&t->of, &form, &list[i]);
    if (!status) t->memory.activations += executor_bytes(list[i]);
  }
  return status;
}

static rec_status make_executors(trainer *t) {
  trainer_internals *in = t->in;
  int64_t sequences = (t->block->batch + in->share.all.shards - 1) / in->share.all.shards;
  const executor_form form = {.batch = sequences,
                              .time = t->block->context,
                              .segment = t->block->context / t->block->segments,
                              .backward = true,
                              .chain = t->block->exchange == EXCHANGE_CHAIN,
                              .line = t->ranks};
  rec_status status = compute_is_host(t->of.where) ? blas_reserve(in->run.lanes) : REC_OK;
  if (status) return status;
  for (int i = 0; !status && i < in->run.lanes; i++) status = make_lane(t, form, i);
  if (status == REC_ERROR_MEMORY && compute_is_host(t->of.where))
    status = activations_too_large(t, &form);
  t->memory.spared = t->of.model->row * sequences * t->block->context * in->run.lanes *
                     in->run.under_way * (t->of.n->element_size - t->of.n->token_size);
  make_state_gradients(t, in->run.lanes, sequences);
  return !status && in->memory.failed ? rec_no_memory() : status;
}

// What runs where.
static rec_status plan_training(trainer *t) {
  const train_block *b = t->block;
  trainer_internals *in = t->in;
  const leaf_sizes sizes = {b->batch, b->accumulate, b->context, b->segments,
                            compute_is_host(t->of.where)};
  in->share.all = leaves_of(&sizes);
  in->exchange.direct = !sizes.host && ranks_have_gpus(t->ranks);
  in->batch.windows = trainer_stream("windows ", b);
  rec_status status = exchange_check(t);
  if (status) return status;
  in->share.segments = segments_of_place(t->ranks, in->share.all.segments, 0);
  in->share.first_segment =
      segments_before_place(t->ranks, in->share.all.segments, ranks_time(t->ranks));
  t->memory.gradients = gradients_plan(t) * trained_bytes(&t->of);
  in->share.first_sequence = leaves_first_sequence(&in->share.all, in->share.own.first);
  in->share.rows =
      leaves_first_sequence(&in->share.all, in->share.own.end) - in->share.first_sequence;
  return REC_OK;
}

rec_status trainer_new(trained_model of, const train_block *block, const trainer_settings *settings,
                       trainer **made) {
  *made = NULL;
  trainer *t = calloc(1, sizeof *t);
  if (!t) return rec_no_memory();
  *t = (trainer){.of = of,
                 .block = block,
                 .ranks = settings->ranks,
                 .threads = compute_is_host(of.where) ? settings->threads : 1,
                 .most_under_way = settings->under_way,
                 .stop = settings->stop};
  t->in = calloc(1, sizeof *t->in);
  rec_status status = t->in ? plan_training(t) : rec_no_memory();
  if (!status) status = allocate_trainer(t);
  if (status == REC_ERROR_MEMORY && compute_is_host(of.where)) status = too_large(t);
  if (!status) status = make_executors(t);
  if (!status) status = pieces_make_rooms(t);
  if (!status) status = spent_open(t);
  if (status)
    trainer_free(t);
  else
    *made = t;
  return status;
}

void trainer_free(trainer *t) {
  if (!t) return;
  trainer_internals *in = t->in;
  for (int i = in && in->run.executors ? in->run.lanes * in->run.under_way : 0; i-- > 0;)
    executor_free(in->run.executors[i]);
  for (int i = 0; in && in->update.rooms && i < t->threads; i++)
    t->of.where->ops->release(t->of.where, in->update.rooms[i]);
  if (in) {
    release_there(t);
    free(in->starts.before);
    free(in->starts.after);
    free(in->starts.d_before);
    op_times_free(&in->record.times);
    rec_blocks_free(&in->memory);
  }
  free(in);
  free(t->weights);
  free(t->moments);
  free(t->carried);
  free(t);
}

int64_t trainer_bytes(const trainer_memory *m) {
  return m->weights + m->gradients + m->moments + m->activations + m->states + m->data;
}

// ---- one step -----------------------------------------------------------------------------------

static double rate_at(const train_block *b, int64_t step) {
  if (step < b->warmup) return b->rate * (double)(step + 1) / (double)b->warmup;
  int64_t from = b->schedule == SCHEDULE_STABLE ? b->steps - b->decay : b->warmup;
  if (b->schedule == SCHEDULE_CONSTANT || step < from) return b->rate;
  double left = (double)(b->steps - from), done = left > 0 ? (double)(step - from) / left : 1;
  double height =
      b->schedule == SCHEDULE_COSINE ? 0.5 * (1 + cos(3.14159265358979323846 * done)) : 1 - done;
  return b->floor + (b->rate - b->floor) * height;
}

// What the optimizer is to do.
static void describe_step(trainer *t, step_report *report) {
  const train_block *b = t->block;
  double squares = 0;
  for (int i = 0; i < t->in->update.pieces.count; i++) squares += t->in->update.squares[i];
  report->gradient_norm = sqrt(squares);
  report->rate = rate_at(b, t->step);
  double scale =
      b->clip > 0 && report->gradient_norm > b->clip ? b->clip / report->gradient_norm : 1;
  t->in->update.step = (optimizer_step){b, report->rate, scale, t->step + 1};
}

enum { BAD_NUMBER = 1024 };  // bytes of a text

// The first number that is not finite: in a weight, or in a shard, which is run again operation by
// operation.
typedef struct bad_number {
  int64_t shard;  // -1: a weight
  int operation;  // in the order of the run
  char text[BAD_NUMBER];
} bad_number;

// Ranks that share sequences run the same shards to the end, for they wait for each other.
static void look_at_shards(trainer *t, bad_number *found) {
  char text[BAD_NUMBER];
  for (int i = t->in->share.own.first; i < t->in->share.own.end; i++) {
    shard s = gradients_shard(t, i, 0);
    int operation =
        executor_blame(t->in->run.executors[0], t->in->update.weights, &s, gradients_loss_scale(t),
                       gradients_blocks(t, 0, 0), text, sizeof text);
    if (operation != NOTHING_FOUND && !*found->text) {
      found->shard = i, found->operation = operation;
      memcpy(found->text, text, sizeof text);
    }
    if (*found->text && ranks_time_count(t->ranks) == 1) return;
  }
}

static bool failed_before(const bad_number *a, const bad_number *b) {
  if (!*a->text || !*b->text) return *a->text;
  return a->shard != b->shard ? a->shard < b->shard : a->operation < b->operation;
}

// What the first rank has that has met the first one.
static void agree_on_bad_number(const trainer *t, bad_number *found) {
  int count = ranks_count(t->ranks);
  if (count == 1) return;
  const message_place place = {t->step, -1, "what is not finite"};
  bad_number *all = ranks_gathered(t->ranks, found, sizeof *found, place);
  *found = all[0];
  for (int i = 1; i < count; i++)
    if (failed_before(&all[i], found)) *found = all[i];
  free(all);
}

static void find_bad_number(trainer *t, bad_number *found) {
  const char *weight = trainer_fetch(t) ? NULL : trained_bad_weight(&t->of, t->weights);
  *found = (bad_number){.shard = -1};
  if (weight)
    snprintf(found->text, BAD_NUMBER, "the weight %s", weight);
  else
    look_at_shards(t, found);
  agree_on_bad_number(t, found);
  if (!*found->text) snprintf(found->text, BAD_NUMBER, "the sum of the gradients");
}

// -nan is nan to people.
static double plain(double x) { return isnan(x) ? fabs(x) : x; }

static rec_status not_finite(trainer *t, const step_report *report) {
  bad_number found;
  find_bad_number(t, &found);
  return rec_fail(REC_ERROR_ARGUMENT,
                  "train %s: the loss is %g with a gradient of norm %g at step %lld; the first "
                  "number that is not finite is in %s; a smaller lr may help",
                  t->block->name, plain(report->loss), plain(report->gradient_norm),
                  (long long)t->step, found.text);
}

// The weight of all targets of the batch, and what is reported about its initial states.
static void sum_starts(trainer *t, step_report *report) {
  trainer_internals *in = t->in;
  int64_t count = starts_number_count(t->of.model, t->block);
  trainer_sum_shards(t, in->batch.weight_sums, 1, in->record.sums);
  initial_states_measure(t, in->record.sums + 1);
  exchange_sums(t, in->record.sums, 1 + count, count ? 1 : 0);
  in->batch.weight_sum = in->record.sums[0];
  initial_states_report(t, in->record.sums + 1, report);
}

// Where no batch can have a target, the first has none.
static rec_status check_targets(const trainer *t) {
  if (t->step || t->in->batch.weight_sum > 0) return REC_OK;
  return rec_fail(
      REC_ERROR_ARGUMENT,
      "train %s: expected targets that the loss counts, found none in the first batch: its 'from' "
      "leaves out all of them, or labels and rest weigh 0, or the documents are too short",
      t->block->name);
}

// The loss, and what is reported about the states that the batch ended with.
static void sum_ends(trainer *t, step_report *report) {
  trainer_internals *in = t->in;
  trainer_sum_shards(t, in->run.losses, in->share.segments, in->record.sums);
  final_states_measure(t, in->record.sums + in->share.segments);
  double loss =
      segments_sum_losses(t, in->share.segments + ends_number_count(t->of.model, t->block));
  report->loss = in->batch.weight_sum > 0 ? loss / in->batch.weight_sum : 0;
  final_states_report(t, in->record.sums + in->share.segments, report);
}

// All ranks come to every exchange, whatever has failed on one of them.
rec_status trainer_step(trainer *t, const train_data *data, step_report *report) {
  rec_status status = exchange_agree_on_device(t, fetch_starts(t));
  if (status) return status;
  initial_states_fill(t, data);
  batch_fill(t, data);
  sum_starts(t, report);
  status = check_targets(t);
  if (!status) status = exchange_agree(t, gradients_run(t));
  if (status == TRAINER_STOPPED) initial_states_forget(t);
  if (status) return status;
  status = exchange_gradients(t);
  if (!status) status = segments_sum_gradients(t);
  if (!status) status = pieces_square(t);
  status = exchange_agree_on_device(t, status);
  if (status) return status;
  exchange_squares(t);
  sum_ends(t, report);
  describe_step(t, report);
  if (!isfinite(report->loss) || !isfinite(report->gradient_norm)) return not_finite(t, report);
  status = pieces_step(t);
  rec_status gathered = exchange_weights(t, segments_gather_weights(t));
  status = exchange_agree_on_device(t, status ? status : gathered);
  if (status) return status;
  final_states_keep(t);
  t->step++;
  return REC_OK;
}
