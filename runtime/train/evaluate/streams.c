// Streams of the held-out text, for all measurements: tasks of some streams each, side by side, and
// their sums in the order of the tasks.
#include "runtime/train/evaluate/streams.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/train/model/blas.h"

// ---- one task: some streams from their first to their last position -----------------------------

static rec_status open_run(const evaluation *e, int task, int64_t first, int64_t streams,
                           stream_run *r) {
  const pass *p = e->now;
  int64_t tokens = streams * p->window;
  const executor_form form = {.batch = streams,
                              .time = p->window,
                              .segment = e->block->context / e->block->segments,
                              .chain = e->block->exchange == EXCHANGE_CHAIN,
                              .line = p->whole ? NULL : e->ranks};
  *r = (stream_run){.task = task, .first = first, .streams = streams};
  r->tokens = rec_blocks_list(&r->memory, tokens, sizeof *r->tokens);
  r->targets = rec_blocks_list(&r->memory, tokens, sizeof *r->targets);
  r->losses = rec_blocks_list(&r->memory, tokens, sizeof *r->losses);
  r->segment_losses = rec_blocks_list(&r->memory, e->block->segments, sizeof *r->segment_losses);
  rec_status status = carried_open(&r->states, &e->of, streams, false);
  if (status) return status;
  if (r->memory.failed) return rec_no_memory();
  return executor_new(&e->of, &form, &r->x);
}

static void close_run(stream_run *r) {
  executor_free(r->x);
  carried_close(&r->states);
  rec_blocks_free(&r->memory);
}

rec_status streams_read(const evaluation *e, stream_run *r, int64_t end, int64_t *length) {
  const pass *p = e->now;
  int64_t time = end - r->position < p->window ? end - r->position : p->window;
  int64_t ring = e->data.count - e->data.train_count;
  for (int64_t i = 0; i < r->streams; i++)
    train_data_held_out(&e->data, (r->first + i) * ring / p->streams + r->position, time,
                        r->tokens + i * time, r->targets + i * time);
  carried_next(&r->states, r->position == r->start, e->learned ? e->weights : NULL);
  shard s = {.batch = r->streams,
             .time = time,
             .threads = 1,
             .tokens = r->tokens,
             .targets = r->targets,
             .before = r->states.before,
             .after = r->states.after,
             .number = r->task};
  r->position += time;
  *length = time;
  if (r->logits) return executor_logits(r->x, e->there, &s, r->logits);
  if (e->ranks) memset(r->losses, 0, (size_t)(r->streams * time) * sizeof *r->losses);
  return executor_run(r->x, e->there, &s, NULL, r->segment_losses, r->losses);
}

static rec_status read_streams(void *context, int place, int worker) {
  const evaluation *e = context;
  const pass *p = e->now;
  int number = p->first_task + place;
  (void)worker;
  stream_run r;
  int64_t first = p->streams * number / p->task_count,
          streams = p->streams * (number + 1) / p->task_count - first;
  rec_status status = open_run(e, number, first, streams, &r);
  if (!status) status = p->read(e, &r, p->sums + number * p->width);
  close_run(&r);
  return status;
}

// ---- passes -------------------------------------------------------------------------------------

// Only the thread that opened a device uses it.
rec_status evaluation_run(const evaluation *e, int count, train_pool_task *task, void *context) {
  bool host = compute_is_host(e->of.where);
  int threads = host ? e->s->options.threads : 1;
  rec_status status = host ? blas_reserve(threads < count ? threads : count) : REC_OK;
  return status ? status : train_pool_run(threads, count, task, context);
}

// The first of the tasks of a rank. The ranks that share windows have the same tasks.
static int first_task(const evaluation *e, const pass *p, int rank) {
  int share = p->whole ? rank : rank / ranks_time_count(e->ranks);
  int shares = p->whole ? ranks_count(e->ranks) : ranks_data_count(e->ranks);
  return p->task_count * share / shares;
}

static int own_tasks(const evaluation *e, const pass *p, int rank) {
  return first_task(e, p, p->whole ? rank + 1 : rank + ranks_time_count(e->ranks)) -
         first_task(e, p, rank);
}

static const message_place sums_of_streams = {-1, -1, "sums over streams"};

// To rank 0. Every number has been summed by one of the ranks that share windows, and is 0 at the
// others.
static void gather_sums(const evaluation *e, const pass *p, double *room) {
  int own = ranks_number(e->ranks);
  for (int rank = 1; rank < ranks_count(e->ranks); rank++) {
    int64_t numbers = own_tasks(e, p, rank) * p->width, bytes = numbers * (int64_t)sizeof *room;
    double *sums = p->sums + first_task(e, p, rank) * p->width;
    if (own != 0 && own != rank) continue;
    ranks_wait(e->ranks,
               own ? ranks_send(e->ranks, 0, MESSAGE_NUMBERS, 0, sums, bytes)
                   : ranks_receive(e->ranks, rank, MESSAGE_NUMBERS, 0, room, bytes),
               sums_of_streams);
    for (int64_t i = 0; own == 0 && i < numbers; i++) sums[i] += room[i];
  }
}

rec_status evaluation_pass(evaluation *e, pass p, double *total) {
  int64_t numbers;
  p.window = between(e->block->context, 1, p.until);
  p.task_count = (int)((p.streams + STREAMS_OF_A_TASK - 1) / STREAMS_OF_A_TASK);
  p.first_task = first_task(e, &p, ranks_number(e->ranks));
  if (!rec_multiply(p.task_count, 2 * p.width, &numbers)) return rec_no_memory();
  p.sums = calloc((size_t)numbers + 1, sizeof *p.sums);  // then room for those of another rank
  rec_status status = p.sums ? REC_OK : rec_no_memory();
  e->now = &p;
  if (!status)
    status = evaluation_run(e, own_tasks(e, &p, ranks_number(e->ranks)), read_streams, e);
  // Ranks that share the windows wait for the states of what this one does not read.
  if (status && !p.whole && ranks_time_count(e->ranks) > 1)
    ranks_abort(e->ranks, "%s", rec_message());
  status = ranks_agree(e->ranks, status, sums_of_streams);
  if (!status) gather_sums(e, &p, p.sums + numbers / 2);
  for (int64_t i = 0; !status && i < numbers / 2; i++) total[i % p.width] += p.sums[i];
  free(p.sums);
  return status;
}

// ---- files --------------------------------------------------------------------------------------

rec_status evaluation_save(const evaluation *e, const evaluate_block *b, made_text *table,
                           rec_status status, const char *file) {
  if (ranks_number(e->ranks)) {
    text_close(table);
    free(table->text);
    return status;
  }
  return text_save(table, status, session_path(e->s, b->name, file).text, 0);
}
