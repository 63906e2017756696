// What the sequences of a batch start from.
#include <math.h>
#include <string.h>

#include "runtime/train/noise.h"
#include "runtime/train/random.h"
#include "runtime/train/trainer_parts.h"

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
    bool last = c->kind == FROM_LAST_BATCH,
         nothing_yet = (last || c->kind == FROM_FITTED_NOISE) && !t->carried_valid;
    if (last && train_data_begins(t->in->data, (uint64_t)(t->step * t->block->batch + sequence)))
      nothing_yet = true;
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

void initial_states_fill(trainer *t, step_report *report) {
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
      int64_t first = trainer_first_sequence(t, s);
      t->in->before_of[s * m->state_count + i] =
          other ? state_of(t, t->in->before, i, first) : NULL;
      t->in->after_of[s * m->state_count + i] = state_of(t, t->carried, i, first);
    }
  }
  train_pool_run(t->pool, (int)t->block->batch, fill_sequence, t);
  for (int k = 0; k < START_KINDS; k++) report->drawn[k] = (double)counts[k] / all;
  report->norm_before = norm_of_states(t, t->in->before);
}

void initial_states_done(trainer *t, step_report *report) {
  if (t->carried) report->norm_after = norm_of_states(t, t->carried);
  t->carried_valid = true;
}
