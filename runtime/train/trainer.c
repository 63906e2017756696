// One step: windows, initial states, the shards forward and backward, the sum of their gradients,
// clipping, the step of the optimizer.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/train/model/blas.h"
#include "runtime/train/trainer_parts.h"

enum { PIECE = 16384 };  // numbers of a parameter that one task sums and steps

// Into how many shards a batch is cut: a function of sizes alone.
static int count_shards(const train_model *model, int64_t batch, int64_t context) {
  enum { TOKENS_OF_A_SHARD = 128, MOST_SHARDS = 16 };
  const int64_t most_numbers = (int64_t)1 << 27;  // of all gradients together
  int64_t shards = batch * context / TOKENS_OF_A_SHARD;
  if (shards > MOST_SHARDS) shards = MOST_SHARDS;
  if (shards * model->parameter_elements > most_numbers) shards = most_numbers / (model->parameter_elements + 1);
  if (shards > batch) shards = batch;
  return shards < 1 ? 1 : (int)shards;
}

static bool weighs(const train_block *block) { return block->loss_from > 0 || block->loss_rest != 1 || block->label_count > 0; }

// ---- memory -------------------------------------------------------------------------------------

// With several parts of a batch their gradients are summed up in a block of its own.
static int gradient_blocks(const trainer *t) { return t->in->part_shards + (t->block->accumulate > 1 ? 1 : 0); }

static bool parameter_decays(const trainer *t, int parameter) {
  bool decays = t->of.model->parameters[parameter].decays;
  for (int i = 0; i < t->block->no_decay_count; i++)
    if (t->block->no_decay[i] == parameter) decays = false;
  return decays;
}

static void add_piece(trainer *t, int parameter, int64_t first, int64_t height, int64_t width) {
  const train_model *m = t->of.model;
  t->in->pieces[t->in->piece_count++] = (piece){.place = m->parameters[parameter].place + first,
                                                .count = height * width,
                                                .parameter = parameter,
                                                .first = first,
                                                .rows = height,
                                                .columns = width,
                                                .optimizer = optimizer_of(m, t->block, parameter),
                                                .decays = parameter_decays(t, parameter)};
}

// On a device a piece is a whole parameter: it has many threads of its own.
static void add_numbers(trainer *t, int parameter) {
  const int64_t longest = compute_is_host(t->of.where) ? PIECE : INT64_MAX;
  int64_t elements = t->of.model->parameters[parameter].elements;
  for (int64_t done = 0, count; done < elements; done += count) {
    count = elements - done < longest ? elements - done : longest;
    add_piece(t, parameter, done, 1, count);
  }
}

// The parts of a matrix, which are rows of it that make different things.
static void add_matrices(trainer *t, int parameter) {
  const model_parameter *p = &t->of.model->parameters[parameter];
  int64_t columns = p->shape[p->rank - 1];
  for (int i = 0; i < p->part_count; i++)
    if (p->parts[i].count) add_piece(t, parameter, p->parts[i].first, p->parts[i].count / columns, columns);
}

static void make_pieces(trainer *t) {
  const train_model *m = t->of.model;
  trainer_internals *in = t->in;
  int64_t most = m->parameter_elements / PIECE + m->parameter_count + 1;
  for (int i = 0; i < m->parameter_count; i++) most += m->parameters[i].part_count;
  in->pieces = trainer_list(t, most, sizeof *in->pieces);
  in->squares = trainer_list(t, most, sizeof *in->squares);
  for (int i = 0; in->pieces && i < m->parameter_count; i++)
    if (optimizer_rules_of[optimizer_of(m, t->block, i)].matrices)
      add_matrices(t, i);
    else
      add_numbers(t, i);
}

// Every state of a parameter is aligned as the parameter is.
static int64_t moment_numbers(const trainer *t, int parameter) {
  const train_model *m = t->of.model;
  int64_t end = parameter + 1 < m->parameter_count ? m->parameters[parameter + 1].place : m->parameter_elements;
  return end - m->parameters[parameter].place;
}

int64_t trainer_moment(const trainer *t, int parameter, int number) {
  return t->moments_of[parameter] + number * moment_numbers(t, parameter);
}

static void make_moments(trainer *t) {
  const train_model *m = t->of.model;
  t->moments_of = trainer_list(t, m->parameter_count, sizeof *t->moments_of);
  for (int i = 0; t->moments_of && i < m->parameter_count; i++) {
    t->moments_of[i] = t->moment_elements;
    t->moment_elements += moment_numbers(t, i) * optimizer_rules_of[optimizer_of(m, t->block, i)].states;
  }
  t->memory.moments = t->moment_elements * t->of.n->element_size;
  t->moments = trainer_zeroed(t, t->moment_elements);
}

// What optimizers work in, for each thread that steps.
static rec_status make_step_rooms(trainer *t) {
  const compute *c = t->of.where;
  int64_t most = 0;
  rec_status status = REC_OK;
  for (int i = 0; i < t->in->piece_count; i++) {
    const piece *p = &t->in->pieces[i];
    if (!optimizers[p->optimizer].room) continue;
    int64_t numbers = optimizers[p->optimizer].room(p->rows, p->columns);
    if (numbers > most) most = numbers;
  }
  if (!most) return REC_OK;
  int workers = t->threads;
  t->in->step_rooms = trainer_list(t, workers, sizeof *t->in->step_rooms);
  if (!t->in->step_rooms) return rec_no_memory();
  if (compute_is_host(c)) status = blas_reserve(workers);
  for (int i = 0; !status && i < workers; i++) status = c->ops->allocate(c, most * c->n->element_size, &t->in->step_rooms[i]);
  t->memory.moments += most * c->n->element_size * workers;
  return status;
}

static int64_t moment_bytes(const trainer *t) { return t->moment_elements * t->of.n->element_size; }

// Weights, moments and gradients where the model is trained.
static rec_status allocate_there(trainer *t) {
  const compute *c = t->of.where;
  trainer_internals *in = t->in;
  int64_t bytes = t->of.model->parameter_elements * c->n->element_size;
  rec_status status = c->ops->allocate(c, bytes * gradient_blocks(t), (void **)&in->gradients);
  if (!status) status = c->ops->clear(c, in->gradients, bytes * gradient_blocks(t));
  in->weights = t->weights, in->moments = t->moments;
  if (compute_is_host(c)) return status;
  in->learned = trainer_list(t, t->of.model->largest_parameter, (size_t)c->n->element_size);
  in->weights = in->moments = NULL;
  if (!status && !in->learned) status = rec_no_memory();
  if (!status) status = c->ops->allocate(c, bytes, (void **)&in->weights);
  return status ? status : c->ops->allocate(c, moment_bytes(t), (void **)&in->moments);
}

static void release_there(trainer *t) {
  const compute *c = t->of.where;
  c->ops->release(c, t->in->gradients);
  if (compute_is_host(c)) return;
  c->ops->release(c, t->in->weights);
  c->ops->release(c, t->in->moments);
}

static int64_t weight_bytes(const trainer *t) { return t->of.model->parameter_elements * t->of.n->element_size; }

rec_status trainer_place(trainer *t) {
  const compute *c = t->of.where;
  if (compute_is_host(c)) return REC_OK;
  rec_status status = c->ops->upload(c, t->in->weights, t->weights, weight_bytes(t));
  return status ? status : c->ops->upload(c, t->in->moments, t->moments, moment_bytes(t));
}

rec_status trainer_fetch(trainer *t) {
  const compute *c = t->of.where;
  if (compute_is_host(c)) return REC_OK;
  rec_status status = c->ops->download(c, t->weights, t->in->weights, weight_bytes(t));
  return status ? status : c->ops->download(c, t->moments, t->in->moments, moment_bytes(t));
}

// The weights that sequences start from, to the host.
static rec_status fetch_starts(trainer *t) {
  const train_model *m = t->of.model;
  const compute *c = t->of.where;
  rec_status status = REC_OK;
  if (compute_is_host(c) || !t->in->learns) return REC_OK;
  for (int i = 0; !status && i < m->state_count; i++) {
    int p = m->states[i].learned;
    if (p < 0) continue;
    status = c->ops->download(c, trainer_parameter(t, t->weights, p), trainer_parameter(t, t->in->weights, p),
                              m->parameters[p].elements * c->n->element_size);
  }
  return status;
}

static rec_status allocate(trainer *t) {
  const train_model *m = t->of.model;
  trainer_internals *in = t->in;
  int64_t size = t->of.n->element_size, tokens = t->block->batch * t->block->context;
  t->weights = trainer_zeroed(t, m->parameter_elements);
  in->tokens = trainer_list(t, tokens, sizeof *in->tokens);
  in->targets = trainer_list(t, tokens, sizeof *in->targets);
  in->losses = trainer_list(t, t->shard_count, sizeof *in->losses);
  in->weight_sums = trainer_list(t, t->shard_count, sizeof *in->weight_sums);
  if (weighs(t->block)) in->target_weights = trainer_list(t, tokens, sizeof *in->target_weights);
  if (t->block->loss_rest != 1) in->answers = trainer_list(t, tokens, 2 * sizeof *in->answers);
  in->answer_room = tokens;
  in->executors = trainer_list(t, t->threads, sizeof *in->executors);
  t->memory.weights = m->parameter_elements * size;
  t->memory.gradients = m->parameter_elements * size * gradient_blocks(t);
  t->memory.data = tokens * 4;
  make_pieces(t);
  make_moments(t);
  initial_states_new(t);
  return in->memory.failed ? rec_no_memory() : allocate_there(t);
}

// Room for the gradients of the initial states of one shard for each worker.
static void make_state_gradients(trainer *t, int workers, int64_t batch) {
  const train_model *m = t->of.model;
  trainer_internals *in = t->in;
  int64_t size = t->of.n->element_size, room = m->state_elements * batch;
  if (!in->learns) return;
  in->d_before = trainer_zeroed(t, room * workers);
  in->d_before_of = trainer_list(t, workers * m->state_count, sizeof *in->d_before_of);
  if (in->memory.failed) return;
  for (int w = 0; w < workers; w++)
    for (int i = 0; i < m->state_count; i++)
      if (m->states[i].learned >= 0)
        in->d_before_of[w * m->state_count + i] = in->d_before + (w * room + m->states[i].place * batch) * size;
  t->memory.states += room * workers * size;
}

static rec_status make_executors(trainer *t) {
  int workers = t->threads < t->in->part_shards ? t->threads : t->in->part_shards;
  int64_t batch = (t->block->batch + t->shard_count - 1) / t->shard_count;
  if (compute_is_host(t->of.where)) t->in->threads_inside = t->in->part_shards == 1 ? t->threads : 1;
  rec_status status = compute_is_host(t->of.where) ? blas_reserve(workers) : REC_OK;
  for (int i = 0; !status && i < workers; i++)
    status = executor_new(t->of.model, t->of.kernels, t->of.where, batch, t->block->context, true, &t->in->executors[i]);
  if (!status) t->memory.activations = executor_bytes(t->in->executors[0]) * workers;
  t->memory.spared = t->of.model->row * batch * t->block->context * workers * (t->of.n->element_size - t->of.n->token_size);
  make_state_gradients(t, workers, batch);
  return !status && t->in->memory.failed ? rec_no_memory() : status;
}

rec_status trainer_new(trained_model of, const train_block *block, int threads, trainer **made) {
  *made = NULL;
  trainer *t = calloc(1, sizeof *t);
  if (!t) return rec_no_memory();
  bool host = compute_is_host(of.where);
  int shards = host ? count_shards(of.model, block->batch / block->accumulate, block->context) : 1;
  *t = (trainer){.of = of, .block = block, .threads = host ? threads : 1, .shard_count = shards * (int)block->accumulate};
  t->in = calloc(1, sizeof *t->in);
  if (t->in) t->in->part_shards = shards;
  if (t->in) t->in->threads_inside = threads;
  rec_status status = t->in ? allocate(t) : rec_no_memory();
  if (!status) status = make_executors(t);
  if (!status) status = make_step_rooms(t);
  if (status) {
    trainer_free(t);
    return status;
  }
  t->in->windows = trainer_stream("windows ", block);
  *made = t;
  return REC_OK;
}

void trainer_free(trainer *t) {
  if (!t) return;
  trainer_internals *in = t->in;
  for (int i = 0; in && in->executors && i < t->threads; i++) executor_free(in->executors[i]);
  for (int i = 0; in && in->step_rooms && i < t->threads; i++) t->of.where->ops->release(t->of.where, in->step_rooms[i]);
  if (in) {
    release_there(t);
    free(in->before);
    free(in->d_before);
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

// ---- tasks of the pool --------------------------------------------------------------------------

static char *gradients_of(const trainer *t, int number) {
  return t->in->gradients + (int64_t)number * t->of.model->parameter_elements * t->of.n->element_size;
}

// Where the gradient of the whole batch ends.
static char *gradient_sum(const trainer *t) { return gradients_of(t, t->block->accumulate > 1 ? t->in->part_shards : 0); }

// The gradients of the sequences' initial states that start from the weights `parameter`, added to
// `sum` on the host.
static void sum_starts(const trainer *t, const shard *s, int64_t first, int state, void *sum) {
  int64_t elements = t->of.model->states[state].elements;
  for (int64_t b = 0; b < s->batch; b++)
    if (t->in->drawn[state * t->block->batch + first + b].kind == FROM_LEARNED)
      t->of.n->sum_into(sum, (char *)s->d_before[state] + b * elements * t->of.n->element_size, elements);
}

// What the initial states of the sequences that start from weights hand on to these.
static rec_status sum_learned(trainer *t, const shard *s, int64_t first, char *gradients) {
  const train_model *m = t->of.model;
  const compute *c = t->of.where;
  rec_status status = REC_OK;
  for (int i = 0; !status && i < m->state_count; i++) {
    const model_state *state = &m->states[i];
    if (!s->d_before[i] || !s->before[i]) continue;
    char *to = trainer_parameter(t, gradients, state->learned);
    if (compute_is_host(c)) {
      sum_starts(t, s, first, i, to);
      continue;
    }
    int64_t bytes = state->elements * c->n->element_size;
    status = c->ops->download(c, t->in->learned, to, bytes);
    if (!status) sum_starts(t, s, first, i, t->in->learned);
    if (!status) status = c->ops->upload(c, to, t->in->learned, bytes);
  }
  return status;
}

static shard shard_of(const trainer *t, int number, int worker) {
  trainer_internals *in = t->in;
  int64_t first = trainer_first_sequence(t, number), time = t->block->context;
  return (shard){.batch = trainer_first_sequence(t, number + 1) - first,
                 .time = time,
                 .threads = in->threads_inside,
                 .tokens = in->tokens + first * time,
                 .targets = in->targets + first * time,
                 .before = in->before_of + number * t->of.model->state_count,
                 .after = in->after_of + number * t->of.model->state_count,
                 .weights = in->target_weights ? in->target_weights + first * time : NULL,
                 .d_before = in->learns ? in->d_before_of + worker * t->of.model->state_count : NULL};
}

static double loss_scale(const trainer *t) { return t->in->weight_sum > 0 ? 1 / t->in->weight_sum : 0; }

static rec_status run_shard(void *context, int place, int worker) {
  trainer *t = context;
  trainer_internals *in = t->in;
  int number = in->part * in->part_shards + place;
  shard s = shard_of(t, number, worker);
  rec_status status =
      executor_run(in->executors[worker], in->weights, &s, loss_scale(t), gradients_of(t, place), &in->losses[number], NULL);
  if (!status && in->learns) status = sum_learned(t, &s, trainer_first_sequence(t, number), gradients_of(t, place));
  return status;
}

// The gradients of the shards of a part, and with several parts those of the parts before.
static rec_status sum_numbers(trainer *t, int64_t place, int64_t count, double *squares) {
  const compute *c = t->of.where;
  int64_t offset = place * c->n->element_size;
  char *sum = gradient_sum(t) + offset, *own = gradients_of(t, 0) + offset;
  rec_status status = REC_OK;
  for (int s = 1; !status && s < t->in->part_shards; s++) status = c->ops->sum_into(c, own, gradients_of(t, s) + offset, count);
  if (!status && sum != own)
    status = t->in->part == 0 ? c->ops->copy(c, sum, own, count * c->n->element_size) : c->ops->sum_into(c, sum, own, count);
  if (!status && t->in->part + 1 == t->block->accumulate) status = c->ops->square_sum(c, sum, count, squares);
  return status;
}

static rec_status sum_piece(void *context, int number, int worker) {
  trainer *t = context;
  (void)worker;
  const piece *p = &t->in->pieces[number];
  return sum_numbers(t, p->place, p->count, &t->in->squares[number]);
}

// On a device at once, with the gaps between parameters, which are zero.
static rec_status sum_gradients(trainer *t) {
  if (compute_is_host(t->of.where)) return train_pool_run(t->threads, t->in->piece_count, sum_piece, t);
  return sum_numbers(t, 0, t->of.model->parameter_elements, t->in->squares);
}

static rec_status step_piece(void *context, int number, int worker) {
  trainer *t = context;
  trainer_internals *in = t->in;
  const piece *p = &in->pieces[number];
  const int64_t size = t->of.n->element_size;
  const optimizer *o = &optimizers[p->optimizer];
  stepped_weights w = {.values = in->weights + p->place * size,
                       .gradient = gradient_sum(t) + p->place * size,
                       .room = in->step_rooms ? in->step_rooms[worker] : NULL,
                       .rows = p->rows,
                       .columns = p->columns,
                       .decays = p->decays};
  for (int i = 0; i < optimizer_rules_of[p->optimizer].states; i++)
    w.states[i] = in->moments + (trainer_moment(t, p->parameter, i) + p->first) * size;
  return o->step(t->of.where, &in->step, &w);
}

// ---- one step -----------------------------------------------------------------------------------

static double rate_at(const train_block *b, int64_t step) {
  if (step < b->warmup) return b->rate * (double)(step + 1) / (double)b->warmup;
  int64_t from = b->schedule == SCHEDULE_STABLE ? b->steps - b->decay : b->warmup;
  if (b->schedule == SCHEDULE_CONSTANT || step < from) return b->rate;
  double left = (double)(b->steps - from), done = left > 0 ? (double)(step - from) / left : 1;
  double height = b->schedule == SCHEDULE_COSINE ? 0.5 * (1 + cos(3.14159265358979323846 * done)) : 1 - done;
  return b->floor + (b->rate - b->floor) * height;
}

static void update(trainer *t, step_report *report) {
  const train_block *b = t->block;
  double squares = 0;
  for (int i = 0; i < t->in->piece_count; i++) squares += t->in->squares[i];
  report->gradient_norm = sqrt(squares);
  report->rate = rate_at(b, t->step);
  double scale = b->clip > 0 && report->gradient_norm > b->clip ? b->clip / report->gradient_norm : 1;
  t->in->step = (optimizer_step){b, report->rate, scale, t->step + 1};
}

// Forward and backward of all parts of the batch; the gradient of the sum.
static rec_status run_batch(trainer *t) {
  trainer_internals *in = t->in;
  rec_status status = REC_OK;
  for (in->part = 0; !status && in->part < t->block->accumulate; in->part++) {
    status = train_pool_run(t->threads, in->part_shards, run_shard, t);
    if (!status) status = sum_gradients(t);
  }
  return status;
}

const char *trainer_bad_weight(const trainer *t) {
  const train_model *m = t->of.model;
  for (int i = 0; i < m->parameter_count; i++)
    if (!isfinite(t->of.n->square_sum(trainer_parameter(t, t->weights, i), m->parameters[i].elements)))
      return m->parameters[i].name;
  return NULL;
}

// The weights, or what the first shard meets that meets one: it is run again step by step.
static void find_bad_number(trainer *t, char *text, size_t size) {
  const char *weight = trainer_fetch(t) ? NULL : trainer_bad_weight(t);
  *text = 0;
  if (weight) snprintf(text, size, "the weight %s", weight);
  for (int i = 0; !*text && i < t->shard_count; i++) {
    shard s = shard_of(t, i, 0);
    executor_blame(t->in->executors[0], t->in->weights, &s, loss_scale(t), gradients_of(t, 0), text, size);
  }
  if (!*text) snprintf(text, size, "the sum of the gradients");
}

// -nan is nan to people.
static double plain(double x) { return isnan(x) ? fabs(x) : x; }

static rec_status not_finite(trainer *t, const step_report *report) {
  char text[1024];
  find_bad_number(t, text, sizeof text);
  return rec_fail(REC_ERROR_ARGUMENT,
                  "train %s: the loss is %g with a gradient of norm %g at step %lld; the first number that is not finite is in "
                  "%s; a smaller lr may help",
                  t->block->name, plain(report->loss), plain(report->gradient_norm), (long long)t->step, text);
}

rec_status trainer_step(trainer *t, const train_data *data, step_report *report) {
  trainer_internals *in = t->in;
  double loss = 0;
  in->data = data;
  rec_status status = fetch_starts(t);
  if (status) return status;
  initial_states_fill(t, report);
  batch_fill(t);
  status = run_batch(t);
  if (status) return status;
  for (int i = 0; i < t->shard_count; i++) loss += in->losses[i];
  report->loss = in->weight_sum > 0 ? loss / in->weight_sum : 0;
  update(t, report);
  if (!isfinite(report->loss) || !isfinite(report->gradient_norm)) return not_finite(t, report);
  status = train_pool_run(t->threads, in->piece_count, step_piece, t);
  if (status) return status;
  initial_states_done(t, report);
  t->step++;
  return REC_OK;
}
