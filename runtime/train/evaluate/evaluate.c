// Perplexity by position. Streams are evenly spaced over the held-out text, which is a ring. Each
// is read from a zero state on, window after window with the state carried. Memory does not depend
// on how far they read. No stream comes back to where it began: what is read again is not new text.
//
// Near positions get more streams than far ones, so that every range of positions rests on a like
// number of tokens.
#include "runtime/train/evaluate/evaluate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/evaluate/verdict.h"
#include "runtime/train/report/events.h"
#include "runtime/train/result.h"

enum { TOKENS_OF_A_PASS = 524288, MOST_STREAMS = 2048, MOST_FAR_STREAMS = 128 };

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

static rec_status run_loss_pass(evaluation *e, int64_t streams, int64_t until, double *total) {
  return evaluation_pass(
      e, (pass){.streams = streams, .until = until, .width = until, .read = sum_losses}, total);
}

typedef struct by_position {
  int64_t near_until, far_until, near_streams, far_streams;
  double *near, *far;
} by_position;

// More streams of a text than it has held-out tokens would begin where others do, and read the
// same.
static int64_t streams_for(const evaluation *e, int64_t until, int64_t most) {
  int64_t streams = between(TOKENS_OF_A_PASS / until, STREAMS_OF_A_TASK, most);
  return e->data.task ? streams : between(e->data.count - e->data.train_count, 1, streams);
}

static rec_status measure_positions(evaluation *e, int64_t until, by_position *m) {
  m->near_until = between(8 * e->block->context, 1, until);
  m->far_until = until;
  m->near_streams = streams_for(e, m->near_until, MOST_STREAMS);
  m->far_streams = streams_for(e, until, MOST_FAR_STREAMS);
  m->near = calloc((size_t)m->near_until, sizeof *m->near);
  m->far = calloc((size_t)m->far_until, sizeof *m->far);
  if (!m->near || !m->far) return rec_no_memory();
  rec_status status = run_loss_pass(e, m->near_streams, m->near_until, m->near);
  if (!status && until > m->near_until) status = run_loss_pass(e, m->far_streams, until, m->far);
  return status;
}

// Mean bits of a target over the positions from .. to - 1, and how many targets it rests on.
static double mean_bits(const by_position *m, int64_t from, int64_t to, int64_t *count) {
  bool near = to <= m->near_until;
  double sum = 0;
  for (int64_t i = from; i < to; i++) sum += near ? m->near[i] : m->far[i];
  *count = (to - from) * (near ? m->near_streams : m->far_streams);
  return sum / (double)*count / log(2);
}

// ---- files --------------------------------------------------------------------------------------

// Four ranges of positions to an octave, for the plot: the first edge beyond `from`.
static int64_t next_edge(int64_t from) {
  int64_t edge = 1;
  for (int step = 1; edge <= from; step++) edge = (int64_t)ceil(pow(2, (double)step / 4));
  return edge;
}

static void write_curve(FILE *file, const by_position *m, const char *unit) {
  fprintf(file, "from,to,bits_per_%s,%ss\n", unit, unit);
  for (int64_t from = 0, to, count; from < m->far_until; from = to) {
    to = next_edge(from);
    if (from < m->near_until && to > m->near_until) to = m->near_until;
    if (to > m->far_until) to = m->far_until;
    double bits = mean_bits(m, from, to, &count);
    fprintf(file, "%" PRId64 ",%" PRId64 ",%.6f,%" PRId64 "\n", from, to, bits, count);
  }
}

// 0 .. T/2 .. T .. 2T .. 4T: the ranges of the table.
static void write_table(FILE *file, const by_position *m, const train_block *block, bool people) {
  const char *unit = train_block_unit(block);
  int64_t context = block->context, half = context / 2 > 0 ? context / 2 : 1;
  if (!people) fprintf(file, "from,to,bits_per_%s,perplexity,%ss\n", unit, unit);
  for (int64_t from = 0, to = half; from < m->far_until;
       from = to, to = to < context ? context : 2 * to) {
    int64_t end = to < m->far_until ? to : m->far_until, count;
    double bits = mean_bits(m, from, end, &count);
    if (people)
      fprintf(file, "  %9" PRId64 " ..%9" PRId64 "   %8.4f bits a %s   perplexity %8.3f\n", from,
              end, bits, unit, pow(2, bits));
    else
      fprintf(file, "%" PRId64 ",%" PRId64 ",%.6f,%.6f,%" PRId64 "\n", from, end, bits,
              pow(2, bits), count);
  }
}

static rec_status write_files(const evaluation *e, const evaluate_block *b, const by_position *m) {
  made_text curve, table;
  if (!text_open(&curve)) return rec_no_memory();
  write_curve(curve.out, m, train_block_unit(e->block));
  rec_status status = evaluation_save(e, b, &curve, REC_OK, "perplexity.csv");
  if (status || !text_open(&table)) return status ? status : rec_no_memory();
  write_table(table.out, m, e->block, false);
  return evaluation_save(e, b, &table, REC_OK, "ranges.csv");
}

// ---- the verdict --------------------------------------------------------------------------------

static verdict verdict_of(const by_position *m, int64_t context, double tolerance) {
  int64_t count;
  verdict v = verdict_begin(context, mean_bits(m, context / 2, context, &count), tolerance);
  for (int64_t from = context, end; from < m->far_until; from = end) {
    end = 2 * from < m->far_until ? 2 * from : m->far_until;
    verdict_range(&v, end, mean_bits(m, from, end, &count));
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
  made_text table;
  if (m->far_until <= e->block->context) return REC_OK;
  verdict v = verdict_of(m, e->block->context, b->tolerance);
  print_verdict(&v);
  if (!text_open(&table)) return rec_no_memory();
  fprintf(table.out,
          "context,bits_per_%s,tolerance,reaches,until,extension\n%" PRId64 ",%.6f,%.2f,%" PRId64
          ",%" PRId64 ",%s\n",
          train_block_unit(e->block), v.context, v.at_context, v.tolerance, v.reaches, v.until,
          verdict_name(v.extension));
  return evaluation_save(e, b, &table, REC_OK, "verdict.csv");
}

static rec_status judge_perplexity(evaluation *e, const evaluate_block *b) {
  by_position m = {0};
  printf("evaluate %s after %s: perplexity by position until %" PRId64 "\n", b->name, b->after,
         b->until);
  fflush(stdout);
  rec_status status = measure_positions(e, b->until, &m);
  if (!status) {
    write_table(stdout, &m, e->block, true);
    status = judge_length(e, b, &m);
    fflush(stdout);
  }
  if (!status) status = write_files(e, b, &m);
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
  return rec_fail(
      REC_ERROR_ARGUMENT,
      "evaluate %s: expected a length below the %lld held-out tokens, which are not read twice, "
      "found %s = %lld); ask for less, give more text, or hold out a larger part of it (split)",
      b->name, (long long)held_out, what, (long long)length);
}

static rec_status check_judged_lengths(const evaluation *e, const evaluate_block *b) {
  rec_status status = check_length(e, b, "perplexity(until", b->until);
  if (!status) status = check_length(e, b, "state_norm(until", b->state_until);
  if (!status) status = check_length(e, b, "remembrance(T", b->remembrance);
  if (!status) status = check_length(e, b, "attention(T", b->attention);
  return status ? status : check_length(e, b, "overflow(T", b->overflow);
}

static rec_status check_ranks(const evaluation *e, const evaluate_block *b) {
  int places = ranks_time_count(e->ranks);
  if (e->block->segments % places == 0) return REC_OK;
  return rec_fail(REC_ERROR_ARGUMENT,
                  "evaluate %s: expected time ranks to divide the %lld segments of '%s', found %d",
                  b->name, (long long)e->block->segments, e->block->name, places);
}

// Weights go from block to block, and with them what they have read.
static rec_status check_weights_held_out(const evaluation *e, const evaluate_block *b) {
  const session *s = e->s;
  const train_block *judged = e->block, *before = judged;
  if (judged->generated) return REC_OK;
  file_path path = session_data_path(s, judged);
  while (before->after && (before = train_program_block(s->program, before->after))) {
    if (before->generated || before->source.split <= judged->source.split ||
        strcmp(session_data_path(s, before).text, path.text))
      continue;
    return rec_fail(REC_ERROR_ARGUMENT,
                    "evaluate %s: expected a held-out text that was not trained on, found split = "
                    "%g of '%s', which goes on from '%s', trained with %g",
                    b->name, judged->source.split, judged->name, before->name,
                    before->source.split);
  }
  return REC_OK;
}

static rec_status open_evaluation(evaluation *e, const evaluate_block *b) {
  session *s = e->s;
  e->block = train_program_block(s->program, b->after);
  e->learned = b->learned;
  e->of = session_model(s, e->block);
  rec_status status = check_ranks(e, b);
  if (status) return status;
  e->weights = calloc((size_t)e->of.model->parameter_elements + 1, (size_t)e->of.n->element_size);
  status = e->weights ? REC_OK : rec_no_memory();
  if (!status) status = session_open_data(s, e->block, &e->data);
  if (!status) status = result_load_run(s, e->block, &e->data, e->weights);
  if (!status) status = result_check_finite(s, e->block, e->weights);
  if (!status) status = result_check_alphabet(s, e->block, e->block, &e->data);
  if (!status) status = check_weights_held_out(e, b);
  if (!status) status = compute_place(e->of.where, e->weights, trained_bytes(&e->of), &e->there);
  if (!status) status = check_judged_lengths(e, b);
  if (!status) status = session_make_folder(s, b->name);
  return status;
}

static void close_evaluation(evaluation *e) {
  if (e->there) compute_take_back(session_model(e->s, e->block).where, e->weights, e->there);
  free(e->weights);
  train_data_close(&e->data);
}

static const message_place measurements = {-1, -1, "measurements"};

typedef rec_status measurement(evaluation *e, const evaluate_block *b);

// Ranks agree after each, for rank 0 alone writes files. `alone`: other ranks leave it to rank 0.
static rec_status run_measurement(measurement *judged, bool asked, bool alone, evaluation *e,
                                  const evaluate_block *b) {
  if (!asked) return REC_OK;
  rec_status own = alone && ranks_number(e->ranks) ? REC_OK : judged(e, b);
  return ranks_agree(e->ranks, own, measurements);
}

static rec_status judge_block(session *s, const evaluate_block *b) {
  evaluation e = {.s = s, .ranks = s->options.ranks};
  rec_status status = ranks_agree(e.ranks, open_evaluation(&e, b), measurements);
  if (!status) status = run_measurement(judge_accuracy, b->length_count, true, &e, b);
  if (!status) status = run_measurement(judge_perplexity, b->until, false, &e, b);
  if (!status) status = run_measurement(judge_states, b->state_until, false, &e, b);
  if (!status) status = run_measurement(judge_remembrance, b->remembrance, false, &e, b);
  e.of = session_host_model(s, e.block);  // these look into the runs of single recurrences
  if (!status) status = run_measurement(judge_attention, b->attention, true, &e, b);
  if (!status) status = run_measurement(judge_overflow, b->overflow, true, &e, b);
  close_evaluation(&e);
  return status;
}

rec_status session_evaluate(session *s, const evaluate_block *b) {
  rec_status status = judge_block(s, b);
  if (status || ranks_number(s->options.ranks)) return status;
  return events_of_tables(session_path(s, NULL, b->name).text);
}
