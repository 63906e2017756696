// One step: windows, initial states, the shards forward and backward, the sum of their gradients,
// clipping, AdamW.
#include "runtime/train/trainer.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/noise.h"
#include "runtime/train/random.h"

enum { PIECE = 16384 };  // numbers of a parameter that one task sums and steps

typedef struct piece {
  int64_t place, count;
  bool decays;
} piece;

typedef struct trainer_internals {
  executor **executors;          // by worker
  char *gradients;               // a block for each shard; their sum ends in the first
  char *before;                  // initial states of the batch
  void **before_of, **after_of;  // by shard and state
  uint16_t *tokens, *targets;
  double *losses;          // by shard
  int64_t *target_counts;  // by shard
  int64_t target_count;    // of the batch
  piece *pieces;
  double *squares;  // by piece
  int piece_count;
  const state_choice **drawn;  // by state and sequence
  uint64_t windows, draws;     // random streams
  uint64_t *noise;             // random streams by state
  int threads_inside;          // of a shard's kernels
  const train_data *data;
  adamw_step step;
  atomic_int failed;  // the first rec_status that is no REC_OK
  char message[512];
} trainer_internals;

int trainer_shards(const train_model *model, int64_t batch, int64_t context) {
  enum { TOKENS_OF_A_SHARD = 128, MOST_SHARDS = 16 };
  const int64_t most_numbers = (int64_t)1 << 27;  // of all gradients together
  int64_t shards = batch * context / TOKENS_OF_A_SHARD;
  if (shards > MOST_SHARDS) shards = MOST_SHARDS;
  if (shards * model->parameter_elements > most_numbers)
    shards = most_numbers / (model->parameter_elements + 1);
  if (shards > batch) shards = batch;
  return shards < 1 ? 1 : (int)shards;
}

static int64_t first_sequence(const trainer *t, int number) {
  return t->block->batch * number / t->shard_count;
}

static bool keeps_states(const train_block *block) {
  for (int i = 0; i < block->intervention_count; i++)
    for (int k = 0; k < block->interventions[i].choice_count; k++)
      if (block->interventions[i].choices[k].kind != FROM_ZERO) return true;
  return false;
}

// ---- memory -------------------------------------------------------------------------------------

static void *zeroed(int64_t count, int64_t size) {
  int64_t bytes;
  if (!rec_multiply(count, size, &bytes)) return NULL;
  bytes = (bytes + REC_ALIGNMENT) / REC_ALIGNMENT * REC_ALIGNMENT;
  void *memory = aligned_alloc(REC_ALIGNMENT, (size_t)bytes);
  if (memory) memset(memory, 0, (size_t)bytes);
  return memory;
}

static bool make_pieces(trainer *t) {
  const train_model *m = t->of.model;
  trainer_internals *in = t->in;
  int64_t most = m->parameter_elements / PIECE + m->parameter_count + 1;
  in->pieces = calloc((size_t)most, sizeof *in->pieces);
  in->squares = calloc((size_t)most, sizeof *in->squares);
  if (!in->pieces || !in->squares) return false;
  for (int i = 0; i < m->parameter_count; i++)
    for (int64_t done = 0; done < m->parameters[i].elements; done += PIECE) {
      int64_t left = m->parameters[i].elements - done;
      in->pieces[in->piece_count++] = (piece){m->parameters[i].place + done,
                                              left < PIECE ? left : PIECE, m->parameters[i].decays};
    }
  return true;
}

static bool allocate(trainer *t) {
  const train_model *m = t->of.model;
  trainer_internals *in = t->in;
  int64_t size = t->of.n->element_size, tokens = t->block->batch * t->block->context;
  size_t pointers = (size_t)t->shard_count * (size_t)(m->state_count + 1);
  bool states = keeps_states(t->block);
  t->weights = zeroed(m->parameter_elements, size);
  t->moment1 = zeroed(m->parameter_elements, size);
  t->moment2 = zeroed(m->parameter_elements, size);
  in->gradients = zeroed(m->parameter_elements * t->shard_count, size);
  in->before_of = calloc(pointers, sizeof *in->before_of);
  in->after_of = calloc(pointers, sizeof *in->after_of);
  in->tokens = calloc((size_t)tokens, sizeof *in->tokens);
  in->targets = calloc((size_t)tokens, sizeof *in->targets);
  in->losses = calloc((size_t)t->shard_count, sizeof *in->losses);
  in->target_counts = calloc((size_t)t->shard_count, sizeof *in->target_counts);
  in->executors = calloc((size_t)train_pool_threads(t->pool), sizeof(executor *));
  t->fitted = calloc((size_t)(2 * m->head_count) + 1, sizeof *t->fitted);
  t->fitted_valid = calloc((size_t)m->state_count + 1, sizeof *t->fitted_valid);
  in->noise = calloc((size_t)m->state_count + 1, sizeof *in->noise);
  in->drawn = calloc((size_t)(m->state_count * t->block->batch) + 1, sizeof *in->drawn);
  if (states) {
    t->carried = zeroed(m->state_elements * t->block->batch, size);
    in->before = zeroed(m->state_elements * t->block->batch, size);
  }
  t->memory.weights = m->parameter_elements * size;
  t->memory.gradients = m->parameter_elements * size * t->shard_count;
  t->memory.moments = m->parameter_elements * size * 2;
  t->memory.states = states ? m->state_elements * t->block->batch * size * 2 : 0;
  t->memory.data = tokens * 4;
  return t->weights && t->moment1 && t->moment2 && in->gradients && in->before_of && in->after_of &&
         in->tokens && in->targets && in->losses && in->target_counts && in->executors &&
         in->noise && in->drawn && t->fitted && t->fitted_valid &&
         (!states || (t->carried && in->before)) && make_pieces(t);
}

static rec_status make_executors(trainer *t) {
  int workers =
      train_pool_threads(t->pool) < t->shard_count ? train_pool_threads(t->pool) : t->shard_count;
  int64_t batch = (t->block->batch + t->shard_count - 1) / t->shard_count, bytes = 0;
  t->in->threads_inside = t->shard_count == 1 ? train_pool_threads(t->pool) : 1;
  rec_status status =
      executor_bytes(t->of.model, t->of.kernels, t->of.n, batch, t->block->context, true, &bytes);
  for (int i = 0; !status && i < workers; i++)
    status = executor_new(t->of.model, t->of.kernels, t->of.n, batch, t->block->context, true,
                          &t->in->executors[i]);
  t->memory.activations = bytes * workers;
  return status;
}

static uint64_t named_stream(const char *what, const char *block) {
  char name[1024];
  size_t used = 0;
  for (const char *c = what; *c && used < sizeof name - 1; c++) name[used++] = *c;
  for (const char *c = block; *c && used < sizeof name - 1; c++) name[used++] = *c;
  name[used] = 0;
  return random_stream(name);
}

rec_status trainer_new(trained_model of, const train_block *block, int threads, trainer **made) {
  *made = NULL;
  trainer *t = calloc(1, sizeof *t);
  if (!t) return rec_no_memory();
  *t = (trainer){.of = of,
                 .block = block,
                 .shard_count = trainer_shards(of.model, block->batch, block->context)};
  t->in = calloc(1, sizeof *t->in);
  t->pool = t->in ? train_pool_new(threads) : NULL;
  rec_status status = t->pool && allocate(t) ? make_executors(t) : rec_no_memory();
  if (status) {
    trainer_free(t);
    return status;
  }
  t->in->windows = named_stream("windows ", block->name);
  t->in->draws = named_stream("initial states ", block->name);
  for (int i = 0; i < of.model->state_count; i++) {
    char what[512];
    snprintf(what, sizeof what, "initial noise %s ", of.model->states[i].name);
    t->in->noise[i] = named_stream(what, block->name);
  }
  *made = t;
  return REC_OK;
}

void trainer_free(trainer *t) {
  if (!t) return;
  trainer_internals *in = t->in;
  if (in) {
    for (int i = 0; in->executors && t->pool && i < train_pool_threads(t->pool); i++)
      executor_free(in->executors[i]);
    free(in->executors);
    free(in->gradients);
    free(in->before);
    free(in->before_of);
    free(in->after_of);
    free(in->tokens);
    free(in->targets);
    free(in->losses);
    free(in->noise);
    free(in->drawn);
    free(in->target_counts);
    free(in->pieces);
    free(in->squares);
    free(in);
  }
  train_pool_free(t->pool);
  free(t->weights);
  free(t->moment1);
  free(t->moment2);
  free(t->carried);
  free(t->fitted);
  free(t->fitted_valid);
  free(t);
}

int64_t trainer_bytes(const trainer_memory *m) {
  return m->weights + m->gradients + m->moments + m->activations + m->states + m->data;
}

// ---- initial states -----------------------------------------------------------------------------

static const intervention *intervention_of(const train_block *block, const model_state *state,
                                           int64_t step, int *place) {
  for (int i = 0; i < block->intervention_count; i++) {
    const intervention *v = &block->interventions[i];
    bool all = v->last_layer == INT32_MAX;
    if (step < v->from || step >= v->to ||
        (!all && (state->layer < v->first_layer || state->layer >= v->last_layer)))
      continue;
    *place = i;
    return v;
  }
  return NULL;
}

// What sequence `sequence` starts from: one draw for all states that one intervention rules.
static const state_choice *draw(const trainer *t, const intervention *v, int place,
                                int64_t sequence) {
  enum { INTERVENTIONS = 256 };
  static const state_choice zero = {FROM_ZERO, 1, 0};
  uint64_t position =
      ((uint64_t)t->step * (uint64_t)t->block->batch + (uint64_t)sequence) * INTERVENTIONS +
      (uint64_t)place;
  double u = random_uniform(t->block->seed, t->in->draws, position);
  for (int i = 0; v && i < v->choice_count; i++) {
    const state_choice *c = &v->choices[i];
    bool nothing_yet =
        (c->kind == FROM_LAST_BATCH || c->kind == FROM_FITTED_NOISE) && !t->carried_valid;
    if (u < c->weight || i + 1 == v->choice_count) return nothing_yet ? &zero : c;
    u -= c->weight;
  }
  return &zero;
}

// Draws for all sequences of a state; true if one of them starts elsewhere than at zero.
static bool draw_state(trainer *t, int number, int64_t counts[START_KINDS]) {
  int place = 0;
  const intervention *v = intervention_of(t->block, &t->of.model->states[number], t->step, &place);
  bool other = false;
  for (int64_t b = 0; b < t->block->batch; b++) {
    const state_choice *c = draw(t, v, place, b);
    t->in->drawn[number * t->block->batch + b] = c;
    counts[c->kind]++;
    if (c->kind != FROM_ZERO) other = true;
  }
  return other;
}

static char *state_of(const trainer *t, void *block, int number, int64_t sequence) {
  const model_state *s = &t->of.model->states[number];
  return (char *)block +
         (s->place * t->block->batch + sequence * s->elements) * t->of.n->element_size;
}

static noise_heads heads_of(const trainer *t, int number) {
  const model_state *s = &t->of.model->states[number];
  double *mean = t->fitted + 2 * s->head_place;
  return (noise_heads){s->heads, s->head_elements, mean, mean + s->heads};
}

// A task of the pool: fits the noise of a state to what the last batch ended with, if the state is
// to start from such noise.
static void fit_state(void *context, int number, int worker) {
  trainer *t = context;
  (void)worker;
  const model_state *state = &t->of.model->states[number];
  int place = 0;
  const intervention *v = intervention_of(t->block, state, t->step, &place);
  for (int i = 0; v && i < v->choice_count; i++) {
    if (v->choices[i].kind != FROM_FITTED_NOISE) continue;
    noise_heads heads = heads_of(t, number);
    noise_fit(t->of.n, state_of(t, t->carried, number, 0), t->block->batch, state->elements,
              v->choices[i].number, !t->fitted_valid[number], &heads);
    t->fitted_valid[number] = true;
    return;  // a mix has one beta
  }
}

// A task of the pool: the initial states of one sequence.
static void fill_sequence(void *context, int sequence, int worker) {
  trainer *t = context;
  (void)worker;
  for (int i = 0; i < t->of.model->state_count; i++) {
    const model_state *state = &t->of.model->states[i];
    const state_choice *c = t->in->drawn[i * t->block->batch + sequence];
    char *before = state_of(t, t->in->before, i, sequence);
    size_t size = (size_t)(state->elements * t->of.n->element_size);
    const noise_source source = {
        t->of.n, t->block->seed, t->in->noise[i],
        ((uint64_t)t->step * (uint64_t)t->block->batch + (uint64_t)sequence) *
            (uint64_t)state->elements};
    switch (c->kind) {
      case FROM_LAST_BATCH: memcpy(before, state_of(t, t->carried, i, sequence), size); break;
      case FROM_NOISE: noise_random(&source, c->number, state->elements, before); break;
      case FROM_FITTED_NOISE: {
        noise_heads heads = heads_of(t, i);
        noise_fitted(&source, &heads, state->elements, before);
        break;
      }
      case FROM_ZERO:
      case START_KINDS: memset(before, 0, size); break;
    }
  }
}

// The norm of all states of a sequence, as the root of the mean of its square over the batch.
static double norm_of_states(const trainer *t, void *block) {
  const train_model *m = t->of.model;
  double sum = 0;
  for (int i = 0; i < m->state_count; i++)
    sum += t->of.n->square_sum(state_of(t, block, i, 0), m->states[i].elements * t->block->batch);
  return sqrt(sum / (double)t->block->batch);
}

// Makes the initial states and points every shard at those of its sequences.
static void fill_states(trainer *t, step_report *report) {
  const train_model *m = t->of.model;
  int64_t counts[START_KINDS] = {0};
  double all = (double)(t->block->batch * m->state_count);
  report->norm_before = report->norm_after = 0;
  for (int k = 0; k < START_KINDS; k++) report->drawn[k] = k == FROM_ZERO;
  if (!t->carried || !m->state_count) return;
  if (t->carried_valid) train_pool_run(t->pool, m->state_count, fit_state, t);
  for (int i = 0; i < m->state_count; i++) {
    bool other = draw_state(t, i, counts);
    for (int s = 0; s < t->shard_count; s++) {
      int64_t first = first_sequence(t, s);
      t->in->before_of[s * m->state_count + i] =
          other ? state_of(t, t->in->before, i, first) : NULL;
      t->in->after_of[s * m->state_count + i] = state_of(t, t->carried, i, first);
    }
  }
  train_pool_run(t->pool, (int)t->block->batch, fill_sequence, t);
  for (int k = 0; k < START_KINDS; k++) report->drawn[k] = (double)counts[k] / all;
  report->norm_before = norm_of_states(t, t->in->before);
}

// ---- tasks of the pool --------------------------------------------------------------------------

static char *gradients_of(const trainer *t, int number) {
  return t->in->gradients +
         (int64_t)number * t->of.model->parameter_elements * t->of.n->element_size;
}

// All windows are there before the first shard runs: the mean is over the targets of the batch, and
// how many a sequence has is its own.
static void fill_windows(void *context, int number, int worker) {
  trainer *t = context;
  trainer_internals *in = t->in;
  int64_t time = t->block->context, end = first_sequence(t, number + 1);
  (void)worker;
  in->target_counts[number] = 0;
  for (int64_t b = first_sequence(t, number); b < end; b++)
    in->target_counts[number] += train_data_window(in->data, t->block->seed, in->windows,
                                                   (uint64_t)(t->step * t->block->batch + b), time,
                                                   in->tokens + b * time, in->targets + b * time);
}

static void run_shard(void *context, int number, int worker) {
  trainer *t = context;
  trainer_internals *in = t->in;
  int64_t first = first_sequence(t, number), count = first_sequence(t, number + 1) - first,
          time = t->block->context;
  shard s = {count,
             time,
             in->threads_inside,
             in->tokens + first * time,
             in->targets + first * time,
             in->before_of + number * t->of.model->state_count,
             in->after_of + number * t->of.model->state_count};
  rec_status status =
      executor_run(in->executors[worker], t->weights, &s, 1 / (double)in->target_count,
                   gradients_of(t, number), &in->losses[number], NULL);
  int good = REC_OK;
  if (status && atomic_compare_exchange_strong(&in->failed, &good, (int)status))
    strncpy(in->message, rec_message(), sizeof in->message - 1);
}

static void sum_piece(void *context, int number, int worker) {
  trainer *t = context;
  (void)worker;
  const piece *p = &t->in->pieces[number];
  int64_t offset = p->place * t->of.n->element_size;
  for (int s = 1; s < t->shard_count; s++)
    t->of.n->sum_into(gradients_of(t, 0) + offset, gradients_of(t, s) + offset, p->count);
  t->in->squares[number] = t->of.n->square_sum(gradients_of(t, 0) + offset, p->count);
}

static void step_piece(void *context, int number, int worker) {
  trainer *t = context;
  (void)worker;
  const piece *p = &t->in->pieces[number];
  int64_t offset = p->place * t->of.n->element_size;
  adamw_step step = t->in->step;
  if (!p->decays) step.decay = 0;
  t->of.n->adamw((char *)t->weights + offset, gradients_of(t, 0) + offset,
                 (char *)t->moment1 + offset, (char *)t->moment2 + offset, p->count, &step);
}

// ---- one step -----------------------------------------------------------------------------------

double trainer_rate(const train_block *b, int64_t step) {
  if (step < b->warmup) return b->rate * (double)(step + 1) / (double)b->warmup;
  double left = (double)(b->steps - b->warmup),
         done = left > 0 ? (double)(step - b->warmup) / left : 1;
  return b->floor + (b->rate - b->floor) * 0.5 * (1 + cos(3.14159265358979323846 * done));
}

static void update(trainer *t, step_report *report) {
  const train_block *b = t->block;
  double squares = 0;
  train_pool_run(t->pool, t->in->piece_count, sum_piece, t);
  for (int i = 0; i < t->in->piece_count; i++) squares += t->in->squares[i];
  report->gradient_norm = sqrt(squares);
  report->rate = trainer_rate(b, t->step);
  double scale =
      b->clip > 0 && report->gradient_norm > b->clip ? b->clip / report->gradient_norm : 1;
  double done = (double)(t->step + 1);
  t->in->step = (adamw_step){report->rate,
                             b->beta1,
                             b->beta2,
                             b->epsilon,
                             b->weight_decay,
                             1 - pow(b->beta1, done),
                             1 - pow(b->beta2, done),
                             scale};
}

rec_status trainer_step(trainer *t, const train_data *data, step_report *report) {
  trainer_internals *in = t->in;
  double loss = 0;
  in->data = data;
  atomic_store(&in->failed, REC_OK);
  fill_states(t, report);
  train_pool_run(t->pool, t->shard_count, fill_windows, t);
  in->target_count = 0;
  for (int i = 0; i < t->shard_count; i++) in->target_count += in->target_counts[i];
  train_pool_run(t->pool, t->shard_count, run_shard, t);
  if (atomic_load(&in->failed))
    return rec_fail((rec_status)atomic_load(&in->failed), "%s", in->message);
  for (int i = 0; i < t->shard_count; i++) loss += in->losses[i];
  report->loss = loss / (double)in->target_count;
  update(t, report);
  if (!isfinite(report->loss) || !isfinite(report->gradient_norm))
    return rec_fail(
        REC_ERROR_ARGUMENT,
        "train %s: the loss is %g with a gradient of norm %g at step %lld; a smaller lr may help",
        t->block->name, report->loss, report->gradient_norm, (long long)t->step);
  train_pool_run(t->pool, in->piece_count, step_piece, t);
  if (t->carried) report->norm_after = norm_of_states(t, t->carried);
  t->carried_valid = true;
  t->step++;
  return REC_OK;
}
