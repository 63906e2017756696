// mpirun -n T rec-virtual LIBRARY ROWS STEPS SEGMENTS SHARDS: forward and backward of some shards
// by T time ranks, in virtual time (runtime/ranks/clock.h), beside what `rec plan` predicts for
// them.
//
// A shard has ROWS sequences of STEPS steps. Operations take the times of REC_VIRTUAL_TIMES. Rank 0
// prints:
//
//   4 ranks: virtual 53.300 ms, predicted 52.900 ms, 0.992; one rank 186.000 ms, 87.2 % efficient
#include <stdio.h>
#include <stdlib.h>

#include "runtime/predict/job.h"
#include "runtime/ranks/clock.h"
#include "runtime/train/model/chain.h"
#include "runtime/train/model/weights.h"
#include "runtime/train/session.h"
#include "runtime/train/turns.h"

static const message_place place = {-1, -1, "the times of all ranks"};

typedef struct request {
  int64_t rows, steps, segments, shards;
} request;

typedef struct virtual_run {
  const request *of;
  trained_model model;
  train_block block;
  ranks *line;
  op_times times;
  rec_blocks lists;
} virtual_run;

static void fail(ranks *line) { ranks_abort(line, "rec-virtual: %s", rec_message()); }

static void spend(void *context, int op, run_part part, double amount) {
  const virtual_run *v = context;
  clock_spend(ranks_clock(v->line), op_times_of(&v->times, op, part, amount));
}

static double latest(const virtual_run *v) {
  int count = ranks_count(v->line);
  double own = clock_now(ranks_clock(v->line)), *all = calloc((size_t)count, sizeof *all),
         last = own;
  if (!all) fail(v->line);
  ranks_all_gather(v->line, &own, all, sizeof own, place);
  for (int i = 0; i < count; i++)
    if (all[i] > last) last = all[i];
  free(all);
  return last;
}

static void *list(virtual_run *v, int64_t count, size_t size) {
  void *made = rec_blocks_list(&v->lists, count + 1, size);
  if (!made) fail(v->line);
  return made;
}

// A row of ranks at work.
typedef struct row_memory {
  char *weights;
  void **gradients, **states;
  token_id *tokens;
  double *losses;
  executor **executors;
  turns order;
  int64_t under_way;
} row_memory;

static void make_executors(virtual_run *v, row_memory *r) {
  const request *q = v->of;
  const trained_model *m = &v->model;
  executor_form form = {.batch = q->rows,
                        .time = q->steps,
                        .segment = q->steps / q->segments,
                        .backward = true,
                        .chain = v->block.exchange == EXCHANGE_CHAIN,
                        .line = v->line};
  r->order = turns_of(m->model, &(turn_line){ranks_time_count(v->line), q->shards, 0},
                      ranks_time(v->line));
  r->under_way = turns_under_way(&r->order);
  r->executors = list(v, r->under_way, sizeof *r->executors);
  for (int64_t i = 0; i < r->under_way; i++) {
    form.beside = i ? r->executors[0] : NULL;
    if (executor_new(m, &form, &r->executors[i])) fail(v->line);
    executor_watch_by(r->executors[i], (executor_watch){spend, v});
  }
}

static void make_memory(virtual_run *v, row_memory *r) {
  const request *q = v->of;
  const train_model *m = v->model.model;
  int64_t size = v->model.n->element_size, own = q->segments / ranks_time_count(v->line);
  char *block = list(v, m->parameter_elements * own, (size_t)size);
  r->weights = list(v, m->parameter_elements, (size_t)size);
  r->gradients = list(v, own, sizeof *r->gradients);
  r->states = list(v, m->state_count, sizeof *r->states);
  r->tokens = list(v, q->rows * q->steps, sizeof *r->tokens);
  r->losses = list(v, own, sizeof *r->losses);
  for (int64_t i = 0; i < own; i++) r->gradients[i] = block + i * m->parameter_elements * size;
  for (int64_t i = 0; i < q->rows * q->steps; i++)
    r->tokens[i] = (token_id)(i * 7919 % m->vocabulary);
  if (train_weights_start(m, 1, v->model.n, r->weights)) fail(v->line);
  make_executors(v, r);
}

static rec_status run_turn(const virtual_run *v, const row_memory *r, turn next) {
  const request *q = v->of;
  const shard s = {.batch = q->rows,
                   .time = q->steps,
                   .threads = 1,
                   .tokens = r->tokens,
                   .targets = r->tokens,
                   .before = r->states,
                   .after = r->states,
                   .number = (int)next.shard};
  executor *x = r->executors[next.shard % r->under_way];
  const forward_part part = {.operations = next.operations};
  return next.backward ? executor_run_backward(x, r->gradients, &(backward_part){0})
                       : executor_run_forward(x, r->weights, &s, 1, r->losses, &part);
}

// Seconds until the last rank has run all shards.
static double run_shards(virtual_run *v) {
  row_memory r;
  turn next;
  make_memory(v, &r);
  double begin = latest(v);
  clock_set(ranks_clock(v->line), begin);
  for (turns order = r.order; turns_next(&order, &next);)
    if (run_turn(v, &r, next)) fail(v->line);
  for (int64_t i = r.under_way; i-- > 0;) executor_free(r.executors[i]);
  return latest(v) - begin;
}

static double predict_rows(const virtual_run *v, const network *n, int64_t count) {
  const request *q = v->of;
  int64_t *instances = chain_instances(&v->model, q->steps / q->segments);
  const predicted_program program = {
      .of = v->model,
      .block = &v->block,
      .leaves = {q->rows * q->shards, (int)q->shards, (int)q->segments},
      .times = &v->times,
      .instances = instances};
  const rank_grid grid = {.data = 1, .time = count, .exchange = v->block.exchange};
  rank_time *all = calloc((size_t)count, sizeof *all);
  double last = 0;
  if (!all || rows_run(&program, &grid, n, all)) fail(v->line);
  for (int64_t i = 0; i < count; i++)
    if (all[i].now > last) last = all[i].now;
  free(all);
  free(instances);
  return last;
}

static int run(const request *q, session *s, ranks *line) {
  const train_block *block = s->program->blocks;
  virtual_run v = {.of = q, .model = session_model(s, block), .block = *block, .line = line};
  network n;
  int count = ranks_count(line);
  if (network_read(getenv("REC_VIRTUAL_NETWORK"), &n)) fail(line);
  v.block.context = q->steps, v.block.batch = q->rows * q->shards;
  if (op_times_read(clock_times_file(ranks_clock(line)), v.model.model, &v.times)) fail(line);
  double found = run_shards(&v);
  if (ranks_number(line) == 0) {
    double predicted = predict_rows(&v, &n, count), alone = predict_rows(&v, &n, 1);
    printf(
        "%d ranks: virtual %.3f ms, predicted %.3f ms, %.3f; one rank %.3f ms, %.1f %% efficient\n",
        count, found * 1e3, predicted * 1e3, predicted / found, alone * 1e3,
        alone / found / count * 100);
  }
  op_times_free(&v.times);
  rec_blocks_free(&v.lists);
  return 0;
}

int main(int count, char **words) {
  const char *launched = getenv("OMPI_COMM_WORLD_SIZE");
  rec_module *module;
  session *s;
  ranks *line;
  if (count != 6 || !launched || !getenv("REC_VIRTUAL_NETWORK") || !getenv("REC_VIRTUAL_TIMES")) {
    fprintf(stderr,
            "expected REC_VIRTUAL_NETWORK=FILE REC_VIRTUAL_TIMES=FILE mpirun -n T rec-virtual "
            "LIBRARY ROWS STEPS SEGMENTS SHARDS\n");
    return 2;
  }
  const request q = {atoll(words[2]), atoll(words[3]), atoll(words[4]), atoll(words[5])};
  if (ranks_open(&(ranks_settings){.time_count = atoll(launched)}, &line)) fail(NULL);
  if (rec_module_open(words[1], &module)) fail(line);
  if (session_open(module, &(session_options){.threads = 1}, &s)) fail(line);
  int status = run(&q, s, line);
  session_close(s);
  rec_module_close(module);
  ranks_close(line);
  return status;
}
