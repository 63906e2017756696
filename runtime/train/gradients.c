// The gradient of a batch. Shards run side by side in waves, each segment of them into a block of
// its own; of ranks that share sequences, each has shards of the next wave under way (turns.h),
// which need no blocks yet. Sums follow the tree of leaves.h: those of a wave's blocks, then those
// of waves, which gives one for each segment. Those of segments follow when the ranks have
// exchanged theirs.
//
//   8 shards in waves of 2     sum of wave   with what waits           waits then
//     0 1                      a                                       level 0: a
//     2 3                      b             a + b                     level 1: a + b
//     4 5                      c                                       level 0: c, level 1: a + b
//     6 7                      d             (a + b) + (c + d)         nothing
#include "runtime/train/model/begins.h"
#include "runtime/train/trainer_parts.h"

// ---- blocks -------------------------------------------------------------------------------------

// Levels of the tree between the node of this process and those of its waves.
static int levels_of_waves(const trainer *t) {
  return t->in->run.wave_level - trainer_own_node(t).level;
}

static int blocks_of_segment(const trainer *t) { return t->in->run.wave + levels_of_waves(t); }

// Shard number of a lane, from 0 on.
static int shard_of_lane(const trainer *t, int lane, int64_t number) {
  return t->in->share.own.first + lane + (int)number * t->in->run.lanes;
}

static int64_t shards_of_lane(const trainer *t, int lane) {
  int64_t own = t->in->share.own.end - t->in->share.own.first;
  return (own - lane + t->in->run.lanes - 1) / t->in->run.lanes;
}

static turns turns_of_lane(const trainer *t, int lane) {
  const turn_line line = {ranks_time_count(t->ranks), shards_of_lane(t, lane), t->most_under_way};
  return turns_of(t->of.model, &line, ranks_time(t->ranks));
}

// Lanes differ by a shard, and a lane with fewer may have more of them under way: all, where that
// is allowed (turns.c).
static void plan_turns(trainer *t) {
  trainer_internals *in = t->in;
  if (t->most_under_way && ranks_time_count(t->ranks) > 1)
    t->most_under_way = exchange_least(t, (int)least_of(t->most_under_way, in->share.all.shards));
  for (int lane = 0; lane < in->run.lanes; lane++) {
    const turns order = turns_of_lane(t, lane);
    in->run.under_way = (int)most_of(in->run.under_way, turns_under_way(&order));
  }
}

// All ranks have the same waves and lanes, so that those which share sequences run them in one
// order.
int gradients_plan(trainer *t) {
  trainer_internals *in = t->in;
  int threads = ranks_time_count(t->ranks) > 1 ? exchange_least(t, t->threads) : t->threads;
  in->share.own = tree_range(trainer_own_node(t));
  in->run.wave_level =
      tree_level(in->share.all.shards, leaves_of_wave(t->of.model->parameter_elements, threads),
                 trainer_own_node(t).level);
  in->run.wave = ((in->share.all.shards - 1) >> in->run.wave_level) + 1;
  in->run.lanes = (int)least_of(threads, in->run.wave);
  in->run.threads_inside = in->run.wave == 1 ? t->threads : 1;
  plan_turns(t);
  return blocks_of_segment(t) * in->share.segments;
}

rec_status gradients_new(trainer *t) {
  trainer_internals *in = t->in;
  const compute *c = t->of.where;
  int count = blocks_of_segment(t) * in->share.segments;
  in->run.blocks = trainer_list(t, count, sizeof *in->run.blocks);
  in->run.blocks_of =
      trainer_list(t, in->run.lanes * in->share.segments, sizeof *in->run.blocks_of);
  in->run.turns = trainer_list(t, in->run.lanes, sizeof *in->run.turns);
  if (!in->run.blocks || !in->run.blocks_of || !in->run.turns) return rec_no_memory();
  rec_status status = c->ops->allocate(c, trained_bytes(&t->of) * count, (void **)&in->run.memory);
  for (int i = 0; !status && i < count; i++)
    in->run.blocks[i] = in->run.memory + i * trained_bytes(&t->of);
  return status ? status : c->ops->clear(c, in->run.memory, trained_bytes(&t->of) * count);
}

void *const *gradients_blocks(const trainer *t, int place, int lane) {
  void **blocks = t->in->run.blocks_of + lane * t->in->share.segments;
  for (int k = 0; k < t->in->share.segments; k++)
    blocks[k] = t->in->run.blocks[k * blocks_of_segment(t) + place];
  return blocks;
}

char *gradients_of_segment(const trainer *t, int segment) {
  return t->in->run.blocks[segment * blocks_of_segment(t)];
}

char *gradients_sum(const trainer *t) { return gradients_of_segment(t, 0); }

// ---- shards -------------------------------------------------------------------------------------

// The initial states of the rows of a shard, from row `first` on.
typedef struct shard_starts {
  trainer *t;
  const shard *s;
  int64_t first;
  char *gradients;
} shard_starts;

typedef void sum_function(const shard_starts *x, int state, void *sum);

static intervention_kind start_kind_at(const shard_starts *x, int state, int64_t row) {
  return x->t->in->starts.drawn[state * x->t->in->share.rows + x->first + row].kind;
}

static const char *gradient_at(const shard_starts *x, int state, int64_t row) {
  const model_state *of = &x->t->of.model->states[state];
  return (const char *)x->s->d_before[state] + row * of->elements * x->t->of.n->element_size;
}

// Of rows that start from learned states.
static void sum_learned(const shard_starts *x, int state, void *sum) {
  for (int64_t b = 0; b < x->s->batch; b++)
    if (start_kind_at(x, state, b) == FROM_LEARNED)
      x->t->of.n->sum_into(sum, gradient_at(x, state, b), x->t->of.model->states[state].elements);
}

// Of rows to which the parameter was added that the state starts from.
static void sum_begun(const shard_starts *x, int state, void *sum) {
  for (int64_t b = 0; b < x->s->batch; b++)
    if (!start_is_carried(start_kind_at(x, state, b)))
      begin_add_gradient(&x->t->of, &x->t->of.model->states[state], gradient_at(x, state, b), sum);
}

// Sums into the gradient of a parameter, on the host.
static rec_status sum_on_host(const shard_starts *x, int state, int parameter, sum_function *sum) {
  trainer *t = x->t;
  const compute *c = t->of.where;
  if (parameter < 0) return REC_OK;
  char *to = trainer_parameter(t, x->gradients, parameter);
  if (compute_is_host(c)) {
    sum(x, state, to);
    return REC_OK;
  }
  int64_t bytes = t->of.model->parameters[parameter].elements * c->n->element_size;
  rec_status status = c->ops->download(c, t->in->starts.learned, to, bytes);
  if (status) return status;
  sum(x, state, t->in->starts.learned);
  return c->ops->upload(c, to, t->in->starts.learned, bytes);
}

// What the initial states of the sequences that start from weights hand on to these.
static rec_status sum_starts(const shard_starts *x) {
  const train_model *m = x->t->of.model;
  rec_status status = REC_OK;
  for (int i = 0; !status && i < m->state_count; i++) {
    if (!x->s->d_before[i] || !x->s->before[i]) continue;
    status = sum_on_host(x, i, m->states[i].learned, sum_learned);
    if (!status) status = sum_on_host(x, i, m->states[i].begin.parameter, sum_begun);
  }
  return status;
}

int64_t gradients_first_row(const trainer *t, int number) {
  return leaves_first_sequence(&t->in->share.all, number) - t->in->share.first_sequence;
}

shard gradients_shard(const trainer *t, int number, int lane) {
  trainer_internals *in = t->in;
  int64_t first = gradients_first_row(t, number), time = t->block->context,
          states = t->of.model->state_count;
  return (shard){
      .batch = gradients_first_row(t, number + 1) - first,
      .time = time,
      .threads = in->run.threads_inside,
      .tokens = in->batch.tokens + first * time,
      .targets = in->batch.targets + first * time,
      .before = in->starts.before_of + (number - in->share.own.first) * states,
      .after = in->starts.after_of + (number - in->share.own.first) * states,
      .weights = in->batch.target_weights ? in->batch.target_weights + first * time : NULL,
      .d_before = in->starts.learns ? in->starts.d_before_of + lane * states : NULL,
      .step = t->step,
      .number = number};
}

double gradients_loss_scale(const trainer *t) {
  return t->in->batch.weight_sum > 0 ? 1 / t->in->batch.weight_sum : 0;
}

static rec_status run_shard_forward(const trainer *t, int number, int lane, executor *x,
                                    const forward_part *part) {
  const trainer_internals *in = t->in;
  shard s = gradients_shard(t, number, lane);
  return executor_run_forward(x, in->update.weights, &s, gradients_loss_scale(t),
                              &in->run.losses[(number - in->share.own.first) * in->share.segments],
                              part);
}

// Of a shard of the wave that runs.
static rec_status run_shard_backward(trainer *t, int number, int lane, executor *x,
                                     const backward_part *part) {
  trainer_internals *in = t->in;
  int place = number - tree_range(in->run.running).first;
  shard s = gradients_shard(t, number, lane);
  rec_status status = executor_run_backward(x, gradients_blocks(t, place, lane), part);
  if (!status && in->starts.learns && in->share.first_segment == 0)
    status =
        sum_starts(&(shard_starts){t, &s, gradients_first_row(t, number), in->run.blocks[place]});
  return status;
}

// Whoever is free takes the next shard, until somebody wants the end.
static rec_status run_next_shard(void *context, int place, int worker) {
  trainer *t = context;
  if (t->stop && *t->stop) return TRAINER_STOPPED;
  int number = tree_range(t->in->run.running).first + place;
  executor *x = t->in->run.executors[worker];
  rec_status status = run_shard_forward(t, number, worker, x,
                                        &(forward_part){.operations = {0, t->of.model->op_count}});
  return status ? status : run_shard_backward(t, number, worker, x, &(backward_part){0});
}

static bool is_behind_wave(const trainer *t, int lane, turn next) {
  return next.backward && shard_of_lane(t, lane, next.shard) >= tree_range(t->in->run.running).end;
}

static executor *executor_of(const trainer *t, int lane, int64_t number) {
  return t->in->run.executors[lane * t->in->run.under_way + number % t->in->run.under_way];
}

// The shards that a range of operations is of.
static void find_joined(const trainer *t, int lane, turn_range range,
                        joined_states joined[JOINED_SHARDS]) {
  const turns *order = &t->in->run.turns[lane];
  for (int64_t k = range.first / order->operations, i = 0;
       k * order->operations < range.end && i < JOINED_SHARDS; k++, i++) {
    int number = shard_of_lane(t, lane, k);
    joined[i] = (joined_states){executor_of(t, lane, k),
                                gradients_first_row(t, number + 1) - gradients_first_row(t, number),
                                turns_of_shard(order, range, k)};
  }
}

static rec_status run_turn(trainer *t, int lane, turn next) {
  const turns *order = &t->in->run.turns[lane];
  int number = shard_of_lane(t, lane, next.shard);
  executor *x = executor_of(t, lane, next.shard);
  if (next.backward) {
    backward_part part = {0};
    find_joined(t, lane, next.takes, part.takes);
    find_joined(t, lane, next.gives, part.gives);
    return run_shard_backward(t, number, lane, x, &part);
  }
  const forward_part part = {next.operations, turns_of_shard(order, next.takes, next.shard),
                             turns_of_shard(order, next.gives, next.shard)};
  return run_shard_forward(t, number, lane, x, &part);
}

// The turns of a lane until the next one is backward and of a shard behind the wave.
static rec_status run_trainer_lane(void *context, int lane, int worker) {
  trainer *t = context;
  turns done = t->in->run.turns[lane];
  turn next;
  rec_status status = REC_OK;
  (void)worker;
  while (!status && turns_next(&done, &next) && !is_behind_wave(t, lane, next)) {
    status = run_turn(t, lane, next);
    t->in->run.turns[lane] = done;
  }
  return status;
}

// Ranks that share sequences run their shards in one order.
static rec_status run_wave(trainer *t) {
  leaf_range shards = tree_range(t->in->run.running);
  if (ranks_time_count(t->ranks) > 1)
    return train_pool_run(t->threads, t->in->run.lanes, run_trainer_lane, t);
  return train_pool_run(t->threads, shards.end - shards.first, run_next_shard, t);
}

// ---- sums ---------------------------------------------------------------------------------------

static rec_status add_gradient_block(const trainer *t, char *to, const char *from, number_range n) {
  const compute *c = t->of.where;
  int64_t offset = n.place * c->n->element_size;
  return c->ops->sum_into(c, to + offset, from + offset, n.count);
}

rec_status gradients_sum_node(const trainer *t, tree_node node, char *const *blocks,
                              number_range n) {
  leaf_range all = tree_range(node);
  if (all.end - all.first == 1) return REC_OK;
  tree_node right = tree_right(node);
  char *const *others = blocks + (tree_range(right).first - all.first);
  rec_status status = gradients_sum_node(t, tree_left(node), blocks, n);
  if (!status) status = gradients_sum_node(t, right, others, n);
  return status ? status : add_gradient_block(t, *blocks, *others, n);
}

// How many sums wait for the wave that runs: those at the first levels.
static int waiting(const trainer *t) {
  int level = 0;
  while (level < levels_of_waves(t) && t->in->run.running.number >> level & 1) level++;
  return level;
}

static rec_status sum_wave(const trainer *t, number_range n) {
  int count = waiting(t);
  rec_status status = REC_OK;
  for (int k = 0; !status && k < t->in->share.segments; k++) {
    char **blocks = t->in->run.blocks + k * blocks_of_segment(t);
    status = gradients_sum_node(t, t->in->run.running, blocks, n);
    for (int level = 0; !status && level < count; level++)
      status = add_gradient_block(t, *blocks, blocks[t->in->run.wave + level], n);
  }
  return status;
}

static rec_status sum_piece(void *context, int number, int worker) {
  const trainer *t = context;
  const piece *p = &t->in->update.pieces.of[number];
  (void)worker;
  return sum_wave(t, (number_range){p->place, p->count});
}

// On a device at once, with the gaps between parameters, which are zero.
static rec_status sum_gradients(trainer *t) {
  if (compute_is_host(t->of.where))
    return train_pool_run(t->threads, t->in->update.pieces.count, sum_piece, t);
  return sum_wave(t, (number_range){0, t->of.model->parameter_elements});
}

// The sums of a wave wait in other blocks for the waves after it.
static void keep_wave_sums(trainer *t) {
  trainer_internals *in = t->in;
  for (int k = 0; k < in->share.segments; k++) {
    char **blocks = in->run.blocks + k * blocks_of_segment(t),
         **kept = &blocks[in->run.wave + waiting(t)], *sum = blocks[0];
    blocks[0] = *kept;
    *kept = sum;
  }
}

rec_status gradients_run(trainer *t) {
  trainer_internals *in = t->in;
  rec_status status = REC_OK;
  int waves = 1 << levels_of_waves(t), first = trainer_own_node(t).number * waves;
  for (int i = 0; i < in->run.lanes; i++) in->run.turns[i] = turns_of_lane(t, i);
  for (int i = 0; !status && i < waves; i++) {
    in->run.running = (tree_node){in->share.all.shards, in->run.wave_level, first + i};
    status = run_wave(t);
    if (!status) status = sum_gradients(t);
    if (!status && i + 1 < waves) keep_wave_sums(t);
  }
  // Ranks that share the sequences wait for what this one does not run.
  if (status && ranks_time_count(t->ranks) > 1) ranks_abort(t->ranks, "%s", rec_message());
  spent_on_sums(t, (in->share.own.end - in->share.own.first - 1) * in->share.segments *
                       t->of.model->parameter_elements);
  return status;
}
