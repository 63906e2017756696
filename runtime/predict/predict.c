#include "runtime/predict/predict.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/predict/traffic.h"
#include "runtime/train/model/optimizer.h"
#include "runtime/train/starts.h"
#include "runtime/train/turns.h"

const char *const predicted_loss_names[LOSSES] = {"leaves", "extra", "bubble", "latency",
                                                  "bandwidth"};

// ---- memory -------------------------------------------------------------------------------------

static int64_t moment_numbers(const predicted_program *p) {
  const train_model *m = p->of.model;
  int64_t numbers = 0;
  for (int i = 0; i < m->parameter_count; i++)
    numbers += m->parameters[i].elements * optimizer_rules_of[optimizer_of(m, p->block, i)].states;
  return numbers;
}

static int64_t largest_shard(const leaves *l) {
  int64_t most = 0;
  for (int i = 0; i < l->shards; i++) {
    int64_t sequences = leaves_first_sequence(l, i + 1) - leaves_first_sequence(l, i);
    if (sequences > most) most = sequences;
  }
  return most;
}

// The blocks of gradients of a rank with one thread: those of the shards that run in a wave, and
// the sums that wait, as gradients.c makes them.
static int64_t gradient_blocks(const predicted_program *p, const rank_grid *grid) {
  int own = owners_round_count(grid->data),
      level = tree_level(p->leaves.shards, leaves_of_wave(p->of.model->parameter_elements, 1), own);
  return (((p->leaves.shards - 1) >> level) + 1 + level - own) * (p->leaves.segments / grid->time);
}

// Data ranks differ by a shard at most.
static int64_t most_shards(const predicted_program *p, const rank_grid *grid) {
  return ceiling(p->leaves.shards, grid->data);
}

// Of the rank that needs most. One with fewer shards may have all of them under way, at each place
// in time.
static rec_status activations_of(const predicted_program *p, const rank_grid *grid,
                                 const executor_form *form, int64_t *bytes) {
  const int64_t most = most_shards(p, grid), least = p->leaves.shards / grid->data;
  rec_status status = REC_OK;
  *bytes = 0;
  for (int64_t count = least, of_one; !status && count <= most; count++) {
    const turn_line line = {grid->time, count, grid->under_way};
    status = turns_need(&p->of, form, &line, &of_one);
    if (!status) *bytes = most_of(*bytes, of_one);
  }
  return status;
}

static rec_status predict_memory(const predicted_program *p, const rank_grid *grid,
                                 predicted_memory *memory) {
  const train_model *m = p->of.model;
  const leaves *l = &p->leaves;
  const executor_form form = {.batch = largest_shard(l),
                              .time = p->block->context,
                              .segment = p->block->context / l->segments,
                              .backward = true,
                              .chain = grid->exchange == EXCHANGE_CHAIN && l->segments > 1};
  int64_t size = p->of.n->element_size, sequences = (p->block->batch + grid->data - 1) / grid->data;
  *memory = (predicted_memory){
      .weights = m->parameter_elements * size,
      .gradients = m->parameter_elements * size * gradient_blocks(p, grid),
      .moments = moment_numbers(p) * size / (grid->data * grid->time),
      .states = starts_are_kept(p->block) ? m->state_elements * sequences * size * KEPT_STATES : 0};
  return activations_of(p, grid, &form, &memory->activations);
}

int64_t predicted_memory_bytes(const predicted_memory *m) {
  return m->weights + m->gradients + m->moments + m->activations + m->states;
}

// ---- one grid -----------------------------------------------------------------------------------

// What each cause costs: the time with it, less the time without.
static rec_status find_losses(const prediction_request *r, double one_rank, prediction *p) {
  network no_latency = *r->network;
  no_latency.within.latency = no_latency.between.latency = 0;
  network none = no_latency;
  none.within.bandwidth = none.between.bandwidth = INFINITY;
  double at_once, unlimited, busiest, all, share = one_rank / (double)p->ranks;
  rec_status status = simulate_step(r->program, &p->grid, &no_latency, &at_once);
  if (!status) status = simulate_step(r->program, &p->grid, &none, &unlimited);
  if (!status) status = simulate_computing(r->program, &p->grid, &busiest, &all);
  if (status) return status;
  p->losses[LOSS_LATENCY] = p->seconds - at_once;
  p->losses[LOSS_BANDWIDTH] = at_once - unlimited;
  p->losses[LOSS_BUBBLE] = unlimited - busiest;
  p->losses[LOSS_LEAVES] = busiest - all / (double)p->ranks;
  p->losses[LOSS_EXTRA] = all / (double)p->ranks - share;
  return REC_OK;
}

static int64_t shards_under_way(const predicted_program *p, const rank_grid *grid) {
  const turns order =
      turns_of(p->of.model, &(turn_line){grid->time, most_shards(p, grid), grid->under_way}, 0);
  return turns_under_way(&order);
}

// As many shards under way as fit.
static rec_status find_memory(const prediction_request *r, prediction *p) {
  rec_status status;
  p->grid.under_way = r->under_way;
  for (;; p->grid.under_way--) {
    p->grid.under_way = shards_under_way(r->program, &p->grid);
    status = predict_memory(r->program, &p->grid, &p->memory);
    p->fits = !r->memory || predicted_memory_bytes(&p->memory) <= r->memory;
    if (status || p->fits || p->grid.under_way == 1) return status;
    p->fewer = true;
  }
}

static rec_status predict_grid(const prediction_request *r, double one_rank, rank_grid grid,
                               prediction *p) {
  *p = (prediction){.grid = grid, .ranks = grid.data * grid.time};
  rec_status status = find_memory(r, p);
  if (!status) status = predict_messages(r->program, &p->grid, p->sent);
  if (!status) status = simulate_step(r->program, &p->grid, r->network, &p->seconds);
  p->efficiency = one_rank / (p->seconds * (double)p->ranks);
  return status ? status : find_losses(r, one_rank, p);
}

predicted_loss prediction_bound(const prediction *p) {
  int most = 0;
  for (int i = 1; i < LOSSES; i++)
    if (p->losses[i] > p->losses[most]) most = i;
  return (predicted_loss)most;
}

// ---- all grids ----------------------------------------------------------------------------------

static bool has_chains(const predicted_program *p) {
  for (int i = 0; i < p->times->count; i++)
    if (schedule_chains(p, i)) return true;
  return false;
}

static prediction *new_prediction(predictions *all) {
  bool grown = rec_list_grow(&all->list, &all->room, (size_t)all->count, 1, sizeof *all->list);
  return grown ? &all->list[all->count++] : NULL;
}

static rec_status add_grid(const prediction_request *r, rank_grid grid, predictions *all) {
  if (grid.data * grid.time < r->first || grid.data * grid.time > r->last) return REC_OK;
  prediction *p = new_prediction(all);
  return p ? predict_grid(r, all->one_rank, grid, p) : rec_no_memory();
}

static int by_ranks(const void *a, const void *b) {
  const prediction *x = a, *y = b;
  if (x->ranks != y->ranks) return x->ranks < y->ranks ? -1 : 1;
  if (x->grid.time != y->grid.time) return x->grid.time < y->grid.time ? -1 : 1;
  return (int)x->grid.exchange - (int)y->grid.exchange;
}

rec_status predict(const prediction_request *r, predictions *made) {
  const leaves *l = &r->program->leaves;
  const rank_grid alone = {.data = 1, .time = 1, .exchange = EXCHANGE_PIPELINE};
  *made = (predictions){.asked = r->program->block->exchange};
  bool chains = has_chains(r->program) || made->asked == EXCHANGE_CHAIN;
  rec_status status = simulate_step(r->program, &alone, r->network, &made->one_rank);
  for (int64_t data = 1; !status && data <= l->shards; data *= 2)
    for (int64_t time = 1; !status && time <= l->segments; time++) {
      if (l->segments % time) continue;
      status =
          add_grid(r, (rank_grid){.data = data, .time = time, .exchange = EXCHANGE_PIPELINE}, made);
      if (!status && chains)
        status =
            add_grid(r, (rank_grid){.data = data, .time = time, .exchange = EXCHANGE_CHAIN}, made);
    }
  if (made->list) qsort(made->list, (size_t)made->count, sizeof *made->list, by_ranks);
  if (status) predictions_free(made);
  return status;
}

void predictions_free(predictions *p) {
  free(p->list);
  *p = (predictions){0};
}

// The fastest of `count` ranks, 0: of all, by this exchange and with this efficiency at least.
static const prediction *best_by(const predictions *p, int64_t count, exchange_kind exchange,
                                 double efficiency) {
  const prediction *best = NULL;
  for (int64_t i = 0; i < p->count; i++) {
    const prediction *one = &p->list[i];
    if (!one->fits || (count && one->ranks != count) || one->grid.exchange != exchange) continue;
    if (one->efficiency >= efficiency && (!best || one->seconds < best->seconds)) best = one;
  }
  return best;
}

const prediction *predictions_best(const predictions *p, int64_t count) {
  return best_by(p, count, p->asked, 0);
}

const prediction *predictions_best_efficient(const predictions *p, double least) {
  return best_by(p, 0, p->asked, least);
}

const prediction *predictions_best_other(const predictions *p) {
  return best_by(p, 0, p->asked == EXCHANGE_CHAIN ? EXCHANGE_PIPELINE : EXCHANGE_CHAIN, 0);
}
