// Streams of the held-out text, for all measurements: tasks of some streams each, side by side, and their sums in the order of
// the tasks.
#include "runtime/train/evaluate/streams.h"

#include <stdlib.h>

#include "runtime/train/model/blas.h"

// ---- one task: some streams from their first to their last position -----------------------------

static rec_status open_run(const evaluation *e, int64_t first, int64_t streams, stream_run *r) {
  int64_t tokens = streams * e->now->window;
  *r = (stream_run){.first = first, .streams = streams};
  r->tokens = rec_blocks_list(&r->memory, tokens, sizeof *r->tokens);
  r->targets = rec_blocks_list(&r->memory, tokens, sizeof *r->targets);
  r->losses = rec_blocks_list(&r->memory, tokens, sizeof *r->losses);
  rec_status status = carried_open(&r->states, &e->of, streams);
  if (status) return status;
  if (r->memory.failed) return rec_no_memory();
  return executor_new(e->of.model, e->of.kernels, e->of.where, &(executor_form){.batch = streams, .time = e->now->window},
                      &r->x);
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
    train_data_held_out(&e->data, (r->first + i) * ring / p->streams + r->position, time, r->tokens + i * time,
                        r->targets + i * time);
  if (r->position != r->start)
    carried_next(&r->states);
  else
    carried_first(&r->states, e->learned ? e->weights : NULL);
  shard s = {.batch = r->streams,
             .time = time,
             .threads = 1,
             .tokens = r->tokens,
             .targets = r->targets,
             .before = r->states.before,
             .after = r->states.after};
  double loss;
  r->position += time;
  *length = time;
  if (r->logits) return executor_logits(r->x, e->there, &s, r->logits);
  return executor_run(r->x, e->there, &s, 1, NULL, &loss, r->losses);
}

static rec_status read_streams(void *context, int number, int worker) {
  const evaluation *e = context;
  const pass *p = e->now;
  (void)worker;
  stream_run r;
  int64_t first = p->streams * number / p->task_count, streams = p->streams * (number + 1) / p->task_count - first;
  rec_status status = open_run(e, first, streams, &r);
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

rec_status evaluation_pass(evaluation *e, pass p, double *total) {
  int64_t numbers;
  p.window = between(e->block->context, 1, p.until);
  p.task_count = (int)((p.streams + STREAMS_OF_A_TASK - 1) / STREAMS_OF_A_TASK);
  if (!rec_multiply(p.task_count, p.width, &numbers)) return rec_no_memory();
  p.sums = calloc((size_t)numbers + 1, sizeof *p.sums);
  if (!p.sums) return rec_no_memory();
  e->now = &p;
  rec_status status = evaluation_run(e, p.task_count, read_streams, e);
  for (int64_t i = 0; i < numbers; i++) total[i % p.width] += p.sums[i];
  free(p.sums);
  return status;
}

// ---- files --------------------------------------------------------------------------------------

rec_status evaluation_save(const evaluation *e, const evaluate_block *b, made_text *table, rec_status status,
                           const char *file) {
  return text_save(table, status, session_path(e->s, b->name, file).text);
}
