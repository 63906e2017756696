// What the sequences of a batch start from, and what it ended with.
//
//   0..10: zero   10..60: mix { 0.9: state_passing, 0.1: learned }
//   step 12, row 3: a draw of 0.95  ->  the weights h0.* for all its states, of age 0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/train/data/random.h"
#include "runtime/train/model/begins.h"
#include "runtime/train/starts.h"
#include "runtime/train/trainer_parts.h"

// ---- memory -------------------------------------------------------------------------------------

static bool block_draws(const train_block *block, intervention_kind kind) {
  for (int i = 0; i < block->intervention_count; i++)
    for (int k = 0; k < block->interventions[i].choice_count; k++)
      if (block->interventions[i].choices[k].kind == kind) return true;
  return false;
}

bool starts_are_kept(const train_block *block) {
  for (int k = 0; k < INTERVENTION_KINDS; k++)
    if (k != FROM_ZERO && block_draws(block, (intervention_kind)k)) return true;
  return false;
}

static bool rules(const intervention *v, const model_state *state) {
  return v->last_layer == INT32_MAX ||
         (state->layer >= v->first_layer && state->layer < v->last_layer);
}

// The axes that tell groups apart: those of `per` that the state has, or the heads.
static noise_groups groups_of(const train_block *block, const model_state *state) {
  noise_groups heads = {
      .axis_count = 1, .axes = {{state->heads, state->head_elements}}, .count = state->heads};
  for (int i = 0; i < block->intervention_count; i++) {
    const intervention *v = &block->interventions[i];
    if (!rules(v, state) || !v->has_per) continue;
    noise_groups g = {.count = 1};
    for (int a = 0; a < state->axis_count; a++)
      for (int n = 0; n < v->per_count; n++) {
        const state_axis *axis = &state->axes[a];
        if (strcmp(v->per[n], axis->name) != 0 || g.axis_count == MOST_NOISE_AXES) continue;
        g.axes[g.axis_count++] = (noise_axis){axis->size, axis->stride};
        g.count *= axis->size;
        break;
      }
    return g;
  }
  return heads;
}

static void make_groups(trainer *t) {
  const train_model *m = t->of.model;
  int64_t total = 0;
  t->groups = trainer_list(t, m->state_count, sizeof *t->groups);
  for (int i = 0; t->groups && i < m->state_count; i++)
    total += (t->groups[i] = groups_of(t->block, &m->states[i])).count;
  t->fitted = trainer_list(t, 2 * total, sizeof *t->fitted);
  t->in->starts.fitted_before = trainer_list(t, 2 * total, sizeof *t->fitted);
  t->in->starts.fit_means = trainer_list(t, total, sizeof *t->in->starts.fit_means);
  t->in->starts.fit_squares = trainer_list(t, total, sizeof *t->in->starts.fit_squares);
  t->in->starts.fit_room =
      trainer_list(t, tree_room(t->in->share.all.shards, total), sizeof *t->in->starts.fit_room);
  t->group_count = total;
  t->fitted_valid = trainer_list(t, m->state_count, sizeof *t->fitted_valid);
  t->in->starts.fitted_valid_before = trainer_list(t, m->state_count, sizeof *t->fitted_valid);
  double *next = t->fitted;
  for (int i = 0; t->groups && next && i < m->state_count;
       i++, next += 2 * t->groups[i - 1].count) {
    t->groups[i].mean = next;
    t->groups[i].variance = next + t->groups[i].count;
  }
}

// The first state of the layer that a state is in.
static int first_of_layer(const train_model *m, int state) {
  int same = 0;
  while (same < state && m->states[same].layer != m->states[state].layer) same++;
  return same;
}

int starts_layer_count(const train_model *m) {
  int count = 0;
  for (int i = 0; i < m->state_count; i++) count += first_of_layer(m, i) == i;
  return count;
}

// Layers are numbered as their first states come; what stands outside the repeat is one of them.
static void make_layers(trainer *t) {
  const train_model *m = t->of.model;
  t->layer_of = trainer_list(t, m->state_count, sizeof *t->layer_of);
  t->norms_before = trainer_list(t, m->state_count, sizeof *t->norms_before);
  t->norms_after = trainer_list(t, m->state_count, sizeof *t->norms_after);
  for (int i = 0; t->layer_of && i < m->state_count; i++) {
    int same = first_of_layer(m, i);
    t->layer_of[i] = same < i ? t->layer_of[same] : t->layer_count++;
  }
}

void initial_states_new(trainer *t) {
  const train_model *m = t->of.model;
  trainer_internals *in = t->in;
  int64_t states = m->state_count, shards = in->share.own.end - in->share.own.first;
  in->starts.before_of = trainer_list(t, shards * states, sizeof *in->starts.before_of);
  in->starts.after_of = trainer_list(t, shards * states, sizeof *in->starts.after_of);
  in->starts.drawn = trainer_list(t, states * in->share.rows, sizeof *in->starts.drawn);
  in->starts.noise = trainer_list(t, states, sizeof *in->starts.noise);
  t->age = trainer_list(t, states * in->share.rows, sizeof *t->age);
  make_groups(t);
  make_layers(t);
  in->starts.squares_of = trainer_list(t, shards * t->layer_count, sizeof *in->starts.squares_of);
  in->starts.draws = trainer_stream("initial states ", t->block);
  for (int i = 0; in->starts.noise && i < m->state_count; i++) {
    char what[512];
    snprintf(what, sizeof what, "initial noise %s ", m->states[i].name);
    in->starts.noise[i] = trainer_stream(what, t->block);
  }
  in->starts.learns = block_draws(t->block, FROM_LEARNED);
  if (!starts_are_kept(t->block)) return;
  for (int i = 0; i < m->state_count; i++) in->starts.learns |= m->states[i].begin.parameter >= 0;
  t->carried = trainer_zeroed(t, m->state_elements * in->share.rows);
  in->starts.before = trainer_zeroed(t, m->state_elements * in->share.rows);
  in->starts.after = trainer_zeroed(t, m->state_elements * in->share.rows);
  t->memory.states = m->state_elements * in->share.rows * t->of.n->element_size * KEPT_STATES;
}

// ---- draws --------------------------------------------------------------------------------------

static const intervention *intervention_at(const train_block *block, const model_state *state,
                                           int64_t step, int *place) {
  for (int i = 0; i < block->intervention_count; i++) {
    const intervention *v = &block->interventions[i];
    if (step < v->from || step >= v->to || !rules(v, state)) continue;
    *place = i;
    return v;
  }
  return NULL;
}

static double at_step(const number_ramp *r, const intervention *v, int64_t step) {
  if (r->from == r->to || v->to - v->from < 2) return r->from;
  return r->from + (r->to - r->from) * (double)(step - v->from) / (double)(v->to - 1 - v->from);
}

static double weight_of(const state_choice *c, const intervention *v, int64_t step) {
  double weight = c->weight;
  for (int i = 0; i < c->ramp_count; i++) weight *= at_step(&c->ramps[i], v, step);
  return weight;
}

bool start_is_carried(intervention_kind kind) {
  return kind == FROM_STATE_PASSING || kind == FROM_TBTT;
}

// What sequence `sequence` starts from: one draw for all states that one intervention rules. A
// counter has no noise: 3.2 tokens were never read.
static drawn_start draw_start(const trainer *t, const train_data *data, const model_state *state,
                              const intervention *v, int place, int64_t sequence) {
  enum { INTERVENTIONS = 256 };
  const drawn_start zero = {FROM_ZERO, 0};
  uint64_t position =
      ((uint64_t)t->step * (uint64_t)t->block->batch + (uint64_t)sequence) * INTERVENTIONS +
      (uint64_t)place;
  double u = random_uniform(t->block->seed, t->in->starts.draws, position);
  for (int i = 0; v && i < v->choice_count; i++) {
    const state_choice *c = &v->choices[i];
    double weight = weight_of(c, v, t->step);
    if (u >= weight && i + 1 < v->choice_count) {
      u -= weight;
      continue;
    }
    if (intervention_noise[c->kind] && state->counter) return zero;
    bool of_a_batch = start_is_carried(c->kind) || c->kind == FROM_FITTED_NOISE;
    if (of_a_batch && !t->carried_valid) return zero;
    if (start_is_carried(c->kind) &&
        train_data_begins(data, t->block->seed, t->in->batch.windows,
                          (uint64_t)(t->step * t->block->batch + sequence)))
      return zero;
    return (drawn_start){c->kind, at_step(&c->number, v, t->step)};
  }
  return zero;
}

// Draws for all rows of a state.
static void draw_state(trainer *t, const train_data *data, int number) {
  int place = 0;
  trainer_internals *in = t->in;
  const model_state *state = &t->of.model->states[number];
  const intervention *v = intervention_at(t->block, state, t->step, &place);
  for (int64_t row = 0; row < in->share.rows; row++) {
    drawn_start start = draw_start(t, data, state, v, place, in->share.first_sequence + row);
    in->starts.drawn[number * in->share.rows + row] = start;
    if (!start_is_carried(start.kind)) t->age[number * in->share.rows + row] = 0;
  }
}

// ---- filling ------------------------------------------------------------------------------------

static char *state_row(const trainer *t, void *block, int number, int64_t row) {
  const model_state *s = &t->of.model->states[number];
  return (char *)block + (s->place * t->in->share.rows + row * s->elements) * t->of.n->element_size;
}

// Points the shard at its initial and final states. A state all of whose rows start from zero has
// no initial ones.
static void point_shard(trainer *t, int number, int state) {
  trainer_internals *in = t->in;
  int64_t first = gradients_first_row(t, number),
          place = (number - in->share.own.first) * t->of.model->state_count + state;
  bool other = false;
  for (int64_t row = first; row < gradients_first_row(t, number + 1); row++)
    other |= in->starts.drawn[state * in->share.rows + row].kind != FROM_ZERO;
  in->starts.before_of[place] = other ? state_row(t, in->starts.before, state, first) : NULL;
  in->starts.after_of[place] = state_row(t, in->starts.after, state, first);
}

// A task of the pool: the initial states of one row.
static rec_status fill_start_row(void *context, int row, int worker) {
  trainer *t = context;
  int64_t sequence = t->in->share.first_sequence + row;
  (void)worker;
  for (int i = 0; i < t->of.model->state_count; i++) {
    const model_state *state = &t->of.model->states[i];
    const drawn_start *start = &t->in->starts.drawn[i * t->in->share.rows + row];
    char *before = state_row(t, t->in->starts.before, i, row);
    size_t size = (size_t)(state->elements * t->of.n->element_size);
    const noise_source source = {
        t->of.n, t->block->seed, t->in->starts.noise[i],
        ((uint64_t)t->step * (uint64_t)t->block->batch + (uint64_t)sequence) *
            (uint64_t)state->elements};
    switch (start->kind) {
      case FROM_STATE_PASSING:
      case FROM_TBTT: memcpy(before, state_row(t, t->carried, i, row), size); break;
      case FROM_RANDOM_NOISE: noise_random(&source, start->number, state->elements, before); break;
      case FROM_FITTED_NOISE: noise_fitted(&source, &t->groups[i], state->elements, before); break;
      case FROM_LEARNED:
        memcpy(before, trainer_parameter(t, t->weights, state->learned), size);
        break;
      case FROM_ZERO:
      case INTERVENTION_KINDS: memset(before, 0, size); break;
    }
    if (!start_is_carried(start->kind)) begin_add(&t->of, state, t->weights, before);
  }
  return REC_OK;
}

// ---- fitted noise -------------------------------------------------------------------------------

// The beta of a state that starts from fitted noise at a step; false: it does not.
static bool is_fitted_at(const train_block *block, const model_state *state, int64_t step,
                         double *beta) {
  int place = 0;
  const intervention *v = intervention_at(block, state, step, &place);
  for (int i = 0; v && i < v->choice_count; i++) {
    if (v->choices[i].kind != FROM_FITTED_NOISE) continue;
    *beta = at_step(&v->choices[i].number, v, step);
    return true;  // a mix has one beta
  }
  return false;
}

static bool is_fitted(const trainer *t, const model_state *state, double *beta) {
  return is_fitted_at(t->block, state, t->step, beta);
}

// The first step has no states before it that noise could be fitted to.
int64_t fits_number_count(const train_model *m, const train_block *block) {
  int64_t groups = 0;
  bool any = false;
  double beta;
  for (int i = 0; i < m->state_count; i++) {
    groups += groups_of(block, &m->states[i]).count;
    any |= is_fitted_at(block, &m->states[i], block->steps - 1, &beta);
  }
  return any && block->steps > 1 ? groups : 0;
}

// Where the groups of a state begin among those of all.
static int64_t first_group(const trainer *t, int number) {
  return (t->groups[number].mean - t->fitted) / 2;
}

// The sums of one state, over the states that the last batch ended with.
typedef struct fit_sums {
  const trainer *t;
  int state;
  const double *center;  // NULL: of the values, else of the squares of their distances from it
} fit_sums;

static void sum_of_shard(void *context, int number, double *sums) {
  const fit_sums *f = context;
  const trainer *t = f->t;
  int64_t first = gradients_first_row(t, number),
          count = gradients_first_row(t, number + 1) - first;
  noise_sums(t->of.n, state_row(t, t->carried, f->state, first), count,
             t->of.model->states[f->state].elements, &t->groups[f->state], f->center, sums);
}

static rec_status sum_state(trainer *t, int number, bool of_squares) {
  trainer_internals *in = t->in;
  const noise_groups *g = &t->groups[number];
  int64_t first = first_group(t, number);
  double beta, *means = in->starts.fit_means + first,
               *room = in->starts.fit_room + tree_room(in->share.all.shards, first);
  fit_sums f = {t, number, of_squares ? means : NULL};
  if (is_fitted(t, &t->of.model->states[number], &beta))
    tree_sum(trainer_own_node(t), g->count, sum_of_shard, &f,
             of_squares ? in->starts.fit_squares + first : means, room);
  return REC_OK;
}

// Tasks of the pool.
static rec_status sum_values(void *context, int number, int worker) {
  (void)worker;
  return sum_state(context, number, false);
}

static rec_status sum_squares(void *context, int number, int worker) {
  (void)worker;
  return sum_state(context, number, true);
}

// From sums over the states of this process to means over those of the batch.
static void divide_sums(const trainer *t, double *sums) {
  for (int i = 0; i < t->of.model->state_count; i++)
    noise_divide(&t->groups[i], t->block->batch, t->of.model->states[i].elements,
                 sums + first_group(t, i));
}

// Fits the noise of the states that start from it to the final states of the last batch.
static void fit_states(trainer *t) {
  const train_model *m = t->of.model;
  trainer_internals *in = t->in;
  bool any = false;
  double beta;
  for (int i = 0; i < m->state_count; i++) any |= is_fitted(t, &m->states[i], &beta);
  if (!any) return;
  train_pool_run(t->threads, m->state_count, sum_values, t);
  exchange_sums(t, in->starts.fit_means, t->group_count, 0);
  divide_sums(t, in->starts.fit_means);
  train_pool_run(t->threads, m->state_count, sum_squares, t);
  exchange_sums(t, in->starts.fit_squares, t->group_count, 0);
  divide_sums(t, in->starts.fit_squares);
  for (int i = 0; i < m->state_count; i++) {
    int64_t first = first_group(t, i);
    if (!is_fitted(t, &m->states[i], &beta)) continue;
    noise_follow(&t->groups[i], in->starts.fit_means + first, in->starts.fit_squares + first, beta,
                 !t->fitted_valid[i]);
    t->fitted_valid[i] = true;
  }
}

// ---- what is reported ---------------------------------------------------------------------------

static rec_status square_shard(void *context, int place, int worker) {
  trainer *t = context;
  (void)worker;
  int number = t->in->share.own.first + place;
  int64_t first = gradients_first_row(t, number),
          count = gradients_first_row(t, number + 1) - first;
  double *by_layer = t->in->starts.squares_of + place * t->layer_count;
  memset(by_layer, 0, (size_t)t->layer_count * sizeof *by_layer);
  for (int i = 0; i < t->of.model->state_count; i++)
    by_layer[t->layer_of[i]] += t->of.n->square_sum(state_row(t, t->in->starts.measured, i, first),
                                                    t->of.model->states[i].elements * count);
  return REC_OK;
}

// Squares of all states of the shards of this process, by layer.
static void measure_states(trainer *t, void *block, double *by_layer) {
  t->in->starts.measured = block;
  train_pool_run(t->threads, t->in->share.own.end - t->in->share.own.first, square_shard, t);
  trainer_sum_shards(t, t->in->starts.squares_of, t->layer_count, by_layer);
}

// The norm of all states of a sequence, as the root of the mean of its square over the batch; by
// layer and all together.
static double norms_of(const trainer *t, const double *squares, double *by_layer) {
  double sum = 0, batch = (double)t->block->batch;
  for (int i = 0; i < t->layer_count; i++) {
    sum += squares[i];
    by_layer[i] = sqrt(squares[i] / batch);
  }
  return sqrt(sum / batch);
}

// Of the rows of this process. Whole numbers have the same sum in any order.
typedef struct start_counts {
  double drawn[INTERVENTION_KINDS];
  // age: tokens since zero, noise or learned states that the carried ones have behind them
  double carried, age;
} start_counts;

enum { START_COUNTS = sizeof(start_counts) / sizeof(double) };

static double count_starts(const trainer *t, start_counts *counts) {
  double oldest = 0;
  *counts = (start_counts){0};
  for (int64_t i = 0; i < t->of.model->state_count * t->in->share.rows; i++) {
    intervention_kind kind = t->in->starts.drawn[i].kind;
    counts->drawn[kind]++;
    if (!start_is_carried(kind)) continue;
    counts->carried++;
    counts->age += t->age[i];
    if (t->age[i] > oldest) oldest = t->age[i];
  }
  return oldest;
}

// ---- a step -------------------------------------------------------------------------------------

static bool has_starts(const trainer *t) { return t->carried && t->of.model->state_count; }

int64_t starts_number_count(const train_model *m, const train_block *block) {
  return starts_are_kept(block) && m->state_count ? START_COUNTS + starts_layer_count(m) + 1 : 0;
}

int64_t ends_number_count(const train_model *m, const train_block *block) {
  return starts_are_kept(block) ? starts_layer_count(m) : 0;
}

void initial_states_measure(trainer *t, double *numbers) {
  start_counts counts;
  if (!has_starts(t)) return;
  numbers[START_COUNTS + t->layer_count] = count_starts(t, &counts);
  memcpy(numbers, &counts, sizeof counts);
  measure_states(t, t->in->starts.before, numbers + START_COUNTS);
}

void initial_states_report(trainer *t, const double *numbers, step_report *report) {
  start_counts counts;
  double all = (double)(t->block->batch * t->of.model->state_count);
  report->norm_before = report->norm_after = report->age = report->oldest = 0;
  for (int k = 0; k < INTERVENTION_KINDS; k++) report->drawn[k] = k == FROM_ZERO;
  if (!has_starts(t)) return;
  memcpy(&counts, numbers, sizeof counts);
  for (int k = 0; k < INTERVENTION_KINDS; k++) report->drawn[k] = counts.drawn[k] / all;
  report->norm_before = norms_of(t, numbers + START_COUNTS, t->norms_before);
  report->age = counts.carried > 0 ? counts.age / counts.carried : 0;
  report->oldest = numbers[START_COUNTS + t->layer_count];
}

static void copy_fitted(const trainer *t, double *to, const double *from, bool *to_valid,
                        const bool *from_valid) {
  memcpy(to, from, (size_t)(2 * t->group_count) * sizeof *to);
  memcpy(to_valid, from_valid, (size_t)t->of.model->state_count * sizeof *to_valid);
}

void initial_states_forget(trainer *t) {
  copy_fitted(t, t->fitted, t->in->starts.fitted_before, t->fitted_valid,
              t->in->starts.fitted_valid_before);
}

void initial_states_fill(trainer *t, const train_data *data) {
  copy_fitted(t, t->in->starts.fitted_before, t->fitted, t->in->starts.fitted_valid_before,
              t->fitted_valid);
  if (!has_starts(t)) return;
  if (t->carried_valid) fit_states(t);
  for (int i = 0; i < t->of.model->state_count; i++) {
    draw_state(t, data, i);
    for (int s = t->in->share.own.first; s < t->in->share.own.end; s++) point_shard(t, s, i);
  }
  train_pool_run(t->threads, (int)t->in->share.rows, fill_start_row, t);
}

void final_states_measure(trainer *t, double *numbers) {
  if (t->carried) measure_states(t, t->in->starts.after, numbers);
}

void final_states_report(trainer *t, const double *numbers, step_report *report) {
  if (t->carried) report->norm_after = norms_of(t, numbers, t->norms_after);
}

void final_states_keep(trainer *t) {
  void *before = t->carried;
  t->carried = t->in->starts.after, t->in->starts.after = before;
  for (int64_t i = 0; i < t->of.model->state_count * t->in->share.rows; i++)
    t->age[i] += (double)t->block->context;
  t->carried_valid = true;
}
