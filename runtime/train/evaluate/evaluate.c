// Perplexity by position: streams evenly spaced over the held-out text, which is a ring, each read
// from a zero state on, window after window with the state carried. Memory does not depend on how
// far they read. No stream comes back to where it began: what is read again is not new text.
//
// Near positions get more streams than far ones, so that every range of positions rests on a like
// number of bytes.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/evaluate/evaluate.h"
#include "runtime/train/evaluate/verdict.h"
#include "runtime/train/model/learned.h"
#include "runtime/train/report/events.h"
#include "runtime/train/report/whole_file.h"

enum { TOKENS_OF_A_PASS = 524288, MOST_STREAMS = 2048, MOST_FAR_STREAMS = 128 };

// ---- one task: some streams from their first to their last position -----------------------------

static rec_status open_run(const evaluation *e, int64_t first, int64_t streams, stream_run *r) {
  const train_model *m = e->of.model;
  int64_t tokens = streams * e->now->window;
  *r = (stream_run){.first = first, .streams = streams};
  for (int i = 0; i < 2; i++)
    r->states[i] = calloc((size_t)(m->state_elements * streams) + 1, (size_t)e->of.n->element_size);
  r->before = calloc((size_t)m->state_count + 1, sizeof *r->before);
  r->after = calloc((size_t)m->state_count + 1, sizeof *r->after);
  r->tokens = calloc((size_t)tokens, sizeof *r->tokens);
  r->targets = calloc((size_t)tokens, sizeof *r->targets);
  r->losses = calloc((size_t)tokens, sizeof *r->losses);
  if (!r->states[0] || !r->states[1] || !r->before || !r->after || !r->tokens || !r->targets ||
      !r->losses)
    return rec_no_memory();
  return executor_new(m, e->of.kernels, e->of.where, streams, e->now->window, false, &r->x);
}

static void close_run(stream_run *r) {
  executor_free(r->x);
  for (int i = 0; i < 2; i++) free(r->states[i]);
  free(r->before);
  free(r->after);
  free(r->tokens);
  free(r->targets);
  free(r->losses);
}

rec_status streams_read(const evaluation *e, stream_run *r, int64_t end, int64_t *length) {
  const train_model *m = e->of.model;
  const pass *p = e->now;
  int64_t time = end - r->position < p->window ? end - r->position : p->window;
  int64_t ring = e->data.count - e->data.train_count;
  for (int64_t i = 0; i < r->streams; i++)
    train_data_held_out(&e->data, (r->first + i) * ring / p->streams + r->position, time,
                        r->tokens + i * time, r->targets + i * time);
  for (int i = 0; i < m->state_count; i++) {
    int64_t offset = m->states[i].place * r->streams * e->of.n->element_size;
    r->before[i] = r->position != r->start ? r->states[r->turn] + offset : NULL;
    r->after[i] = r->states[1 - r->turn] + offset;
  }
  if (e->learned && r->position == r->start)
    learned_start(&e->of, e->weights, r->streams, r->states[r->turn], r->before);
  shard s = {.batch = r->streams,
             .time = time,
             .threads = 1,
             .tokens = r->tokens,
             .targets = r->targets,
             .before = r->before,
             .after = r->after};
  double loss;
  r->turn = 1 - r->turn;
  r->position += time;
  *length = time;
  if (r->logits) return executor_logits(r->x, e->there, &s, r->logits);
  return executor_run(r->x, e->there, &s, 1, NULL, &loss, r->losses);
}

static rec_status read_streams(const evaluation *e, int number) {
  const pass *p = e->now;
  stream_run r;
  int64_t first = p->streams * number / p->task_count,
          streams = p->streams * (number + 1) / p->task_count - first;
  rec_status status = open_run(e, first, streams, &r);
  if (!status) status = p->read(e, &r, p->sums + number * p->width);
  close_run(&r);
  return status;
}

static void run_task(void *context, int number, int worker) {
  evaluation *e = context;
  rec_status status = read_streams(e, number);
  (void)worker;
  int good = REC_OK;
  if (!status || !atomic_compare_exchange_strong(&e->failed, &good, (int)status)) return;
  snprintf(e->message, sizeof e->message, "%s", rec_message());
}

// ---- passes -------------------------------------------------------------------------------------

static int64_t between(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

rec_status evaluation_pass(evaluation *e, pass p, double *total) {
  int64_t numbers;
  p.window = between(e->block->context, 1, p.until);
  p.task_count = (int)((p.streams + STREAMS_OF_A_TASK - 1) / STREAMS_OF_A_TASK);
  if (!rec_multiply(p.task_count, p.width, &numbers)) return rec_no_memory();
  rec_status status =
      compute_is_host(e->of.where) ? train_pool_reserve(e->pool, p.task_count) : REC_OK;
  if (status) return status;
  p.sums = calloc((size_t)numbers + 1, sizeof *p.sums);
  if (!p.sums) return rec_no_memory();
  e->now = &p;
  atomic_store(&e->failed, REC_OK);
  if (compute_is_host(e->of.where))
    train_pool_run(e->pool, p.task_count, run_task, e);
  else  // only the thread that opened a device uses it
    for (int i = 0; i < p.task_count; i++) run_task(e, i, 0);
  for (int64_t i = 0; i < numbers; i++) total[i % p.width] += p.sums[i];
  free(p.sums);
  int failed = atomic_load(&e->failed);
  return failed ? rec_fail((rec_status)failed, "%s", e->message) : REC_OK;
}

// ---- perplexity ---------------------------------------------------------------------------------

static rec_status sum_losses(const evaluation *e, stream_run *r, double *sums) {
  rec_status status = REC_OK;
  while (!status && r->position < e->now->until) {
    int64_t position = r->position, length;
    status = streams_read(e, r, e->now->until, &length);
    for (int64_t i = 0; !status && i < r->streams * length; i++)
      sums[position + i % length] += (double)r->losses[i];
  }
  return status;
}

static rec_status run_pass(evaluation *e, int64_t streams, int64_t until, double *total) {
  return evaluation_pass(
      e, (pass){.streams = streams, .until = until, .width = until, .read = sum_losses}, total);
}

typedef struct by_position {
  int64_t near_until, far_until, near_streams, far_streams;
  double *near, *far;
} by_position;

static int64_t streams_for(int64_t until, int64_t most) {
  return between(TOKENS_OF_A_PASS / until, STREAMS_OF_A_TASK, most);
}

static rec_status measure(evaluation *e, int64_t until, by_position *m) {
  m->near_until = between(8 * e->block->context, 1, until);
  m->far_until = until;
  m->near_streams = streams_for(m->near_until, MOST_STREAMS);
  m->far_streams = streams_for(until, MOST_FAR_STREAMS);
  m->near = calloc((size_t)m->near_until, sizeof *m->near);
  m->far = calloc((size_t)m->far_until, sizeof *m->far);
  if (!m->near || !m->far) return rec_no_memory();
  rec_status status = run_pass(e, m->near_streams, m->near_until, m->near);
  if (!status && until > m->near_until) status = run_pass(e, m->far_streams, until, m->far);
  return status;
}

// Mean bits a byte over the positions from .. to - 1, and how many bytes it rests on.
static double mean_bits(const by_position *m, int64_t from, int64_t to, int64_t *bytes) {
  bool near = to <= m->near_until;
  double sum = 0;
  for (int64_t i = from; i < to; i++) sum += near ? m->near[i] : m->far[i];
  *bytes = (to - from) * (near ? m->near_streams : m->far_streams);
  return sum / (double)*bytes / log(2);
}

// ---- files --------------------------------------------------------------------------------------

// Four ranges of positions to an octave, for the plot: the first edge beyond `from`.
static int64_t next_edge(int64_t from) {
  int64_t edge = 1;
  for (int step = 1; edge <= from; step++) edge = (int64_t)ceil(pow(2, (double)step / 4));
  return edge;
}

static void write_curve(FILE *file, const by_position *m) {
  fprintf(file, "from,to,bits_per_byte,bytes\n");
  for (int64_t from = 0, to, bytes; from < m->far_until; from = to) {
    to = next_edge(from);
    if (from < m->near_until && to > m->near_until) to = m->near_until;
    if (to > m->far_until) to = m->far_until;
    double bits = mean_bits(m, from, to, &bytes);
    fprintf(file, "%" PRId64 ",%" PRId64 ",%.6f,%" PRId64 "\n", from, to, bits, bytes);
  }
}

// 0 .. T/2 .. T .. 2T .. 4T: the ranges of the table.
static void write_table(FILE *file, const by_position *m, int64_t context, bool people) {
  int64_t half = context / 2 > 0 ? context / 2 : 1;
  if (!people) fprintf(file, "from,to,bits_per_byte,perplexity,bytes\n");
  for (int64_t from = 0, to = half; from < m->far_until;
       from = to, to = to < context ? context : 2 * to) {
    int64_t end = to < m->far_until ? to : m->far_until, bytes;
    double bits = mean_bits(m, from, end, &bytes);
    if (people)
      fprintf(file, "  %9" PRId64 " ..%9" PRId64 "   %8.4f bits a byte   perplexity %8.3f\n", from,
              end, bits, pow(2, bits));
    else
      fprintf(file, "%" PRId64 ",%" PRId64 ",%.6f,%.6f,%" PRId64 "\n", from, end, bits,
              pow(2, bits), bytes);
  }
}

rec_status evaluation_save(const session *s, const evaluate_block *b, const char *name,
                           const char *text, size_t size) {
  char *path = session_path(s, b->name, name);
  if (!path || !text) {
    free(path);
    return rec_no_memory();
  }
  rec_status status = whole_file_write(path, text, size);
  free(path);
  return status;
}

static rec_status write_file(const session *s, const evaluate_block *b, const char *name,
                             const by_position *m, int64_t table_of) {
  char *text = NULL;
  size_t size;
  FILE *memory = open_memstream(&text, &size);
  if (!memory) return rec_no_memory();
  if (table_of)
    write_table(memory, m, table_of, false);
  else
    write_curve(memory, m);
  fclose(memory);
  rec_status status = evaluation_save(s, b, name, text, size);
  free(text);
  return status;
}

// ---- the verdict --------------------------------------------------------------------------------

static verdict verdict_of(const by_position *m, int64_t context, double tolerance) {
  int64_t bytes;
  verdict v = verdict_begin(context, mean_bits(m, context / 2, context, &bytes), tolerance);
  for (int64_t from = context, end; from < m->far_until; from = end) {
    end = 2 * from < m->far_until ? 2 * from : m->far_until;
    verdict_range(&v, end, mean_bits(m, from, end, &bytes));
  }
  return v;
}

static void print_verdict(const verdict *v) {
  printf("  generalises in length to %" PRId64 ": %s", v->until,
         v->reaches == v->until ? "yes" : "no");
  if (v->reaches > v->context && v->reaches < v->until) printf(", to %" PRId64, v->reaches);
  printf("   (yes: no range beyond the context above its %.4f bits by %.2f)\n", v->at_context,
         v->tolerance);
  printf(
      "  length extension: %s   (strong: no range above the least before it by %.2f, weak: none "
      "above that at the context)\n",
      verdict_name(v->extension), v->tolerance);
}

// Nothing where nothing beyond the context was read.
static rec_status judge_length(const evaluation *e, const evaluate_block *b, const by_position *m) {
  char text[256];
  if (m->far_until <= e->block->context) return REC_OK;
  verdict v = verdict_of(m, e->block->context, b->tolerance);
  print_verdict(&v);
  int size =
      snprintf(text, sizeof text,
               "context,bits_per_byte,tolerance,reaches,until,extension\n%" PRId64
               ",%.6f,%.2f,%" PRId64 ",%" PRId64 ",%s\n",
               v.context, v.at_context, v.tolerance, v.reaches, v.until, verdict_name(v.extension));
  return evaluation_save(e->s, b, "verdict.csv", text, (size_t)size);
}

static rec_status judge_perplexity(evaluation *e, const evaluate_block *b) {
  by_position m = {0};
  printf("evaluate %s after %s: perplexity by position until %" PRId64 "\n", b->name, b->after,
         b->until);
  fflush(stdout);
  rec_status status = measure(e, b->until, &m);
  if (!status) {
    write_table(stdout, &m, e->block->context, true);
    status = judge_length(e, b, &m);
    fflush(stdout);
  }
  if (!status) {
    status = write_file(e->s, b, "perplexity.csv", &m, 0);
  }
  if (!status) status = write_file(e->s, b, "ranges.csv", &m, e->block->context);
  free(m.near);
  free(m.far);
  return status;
}

// ---- an evaluate block --------------------------------------------------------------------------

// A stream of `length` tokens and the target after the last of them.
static rec_status check_length(const evaluation *e, const evaluate_block *b, const char *what,
                               int64_t length) {
  int64_t held_out = e->data.count - e->data.train_count;
  if (e->data.task || length < held_out) return REC_OK;
  return rec_fail(REC_ERROR_ARGUMENT,
                  "evaluate %s: expected a length below the %lld held-out tokens, which are not "
                  "read twice, found %s = %lld); ask for less, give more text, or hold out a larger "
                  "part of it (split)",
                  b->name, (long long)held_out, what, (long long)length);
}

static rec_status check_lengths(const evaluation *e, const evaluate_block *b) {
  rec_status status = check_length(e, b, "perplexity(until", b->until);
  if (!status) status = check_length(e, b, "state_norm(until", b->state_until);
  if (!status) status = check_length(e, b, "remembrance(T", b->remembrance);
  if (!status) status = check_length(e, b, "attention(T", b->attention);
  return status ? status : check_length(e, b, "overflow(T", b->overflow);
}

static rec_status open_evaluation(evaluation *e, const evaluate_block *b) {
  session *s = e->s;
  e->block = train_program_block(s->program, b->after);
  e->learned = b->learned;
  e->of = session_model(s, e->block);
  e->weights = calloc((size_t)e->of.model->parameter_elements + 1, (size_t)e->of.n->element_size);
  e->pool = train_pool_new(s->options.threads);
  rec_status status = e->weights && e->pool ? REC_OK : rec_no_memory();
  if (!status) status = session_load_result(s, e->block, e->weights);
  if (!status)
    status = compute_place(e->of.where, e->weights,
                           e->of.model->parameter_elements * e->of.n->element_size, &e->there);
  if (!status) status = session_open_data(s, e->block, &e->data);
  if (!status) status = check_lengths(e, b);
  if (!status) status = session_make_folder(s, b->name);
  return status;
}

static void close_evaluation(evaluation *e) {
  if (e->there) compute_take_back(session_model(e->s, e->block).where, e->weights, e->there);
  free(e->weights);
  train_pool_free(e->pool);
  train_data_close(&e->data);
}

static rec_status judge(session *s, const evaluate_block *b) {
  evaluation e = {.s = s};
  if (b->length_count) {
    rec_status status = session_accuracy(s, b);
    if (status) return status;
  }
  if (!b->until && !b->state_until && !b->remembrance && !b->attention && !b->overflow)
    return REC_OK;
  rec_status status = open_evaluation(&e, b);
  if (!status && b->until) status = judge_perplexity(&e, b);
  if (!status && b->state_until) status = judge_states(&e, b);
  if (!status && b->remembrance) status = judge_remembrance(&e, b);
  e.of = session_host_model(s, e.block);  // these look into the runs of single recurrences
  if (!status && b->attention) status = judge_attention(&e, b);
  if (!status && b->overflow) status = judge_overflow(&e, b);
  close_evaluation(&e);
  return status;
}

rec_status session_evaluate(session *s, const evaluate_block *b) {
  char *folder = session_path(s, NULL, b->name);
  rec_status status = folder ? judge(s, b) : rec_no_memory();
  if (!status) status = events_of_tables(folder);
  free(folder);
  return status;
}
