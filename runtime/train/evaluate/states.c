// state_norm: mean, standard deviation and Euclidean norm of the recurrences' states by position,
// layer and head, over all streams. Positions are 1, 2, 4, .. tokens read, and the last one. Each
// is summed up when its window ends, so memory does not depend on the length of the streams.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/escape.h"
#include "runtime/train/evaluate/evaluate.h"

enum { STREAMS = 64 };

// Sums over the streams for one head at one position.
typedef struct head_sums {
  double sum, squares, norms;
} head_sums;

enum { NUMBERS = sizeof(head_sums) / sizeof(double) };

static int64_t point_position(int point, int64_t until) {
  return point < 62 && (int64_t)1 << point < until ? (int64_t)1 << point : until;
}

static int point_count(int64_t until) {
  int count = 1;
  while (point_position(count - 1, until) < until) count++;
  return count;
}

static int64_t head_count(const train_model *m) {
  int64_t heads = 0;
  for (int i = 0; i < m->state_count; i++) heads += m->states[i].lag ? 0 : m->states[i].heads;
  return heads;
}

static void add_head(const numeric *n, const void *values, int64_t first, int64_t count,
                     head_sums *to) {
  double squares = 0;
  for (int64_t i = first; i < first + count; i++) {
    double x = n->load(values, i);
    to->sum += x;
    squares += x * x;
  }
  to->squares += squares;
  to->norms += sqrt(squares);
}

static void sum_head_states(const evaluation *e, const stream_run *r, head_sums *to) {
  const train_model *m = e->of.model;
  for (int i = 0; i < m->state_count; i++) {
    const model_state *s = &m->states[i];
    if (s->lag) continue;
    int64_t count = s->elements / s->heads;
    for (int64_t stream = 0; stream < r->streams; stream++)
      for (int64_t head = 0; head < s->heads; head++)
        add_head(e->of.n, r->states.after[i], stream * s->elements + head * count, count,
                 &to[head]);
    to += s->heads;
  }
}

static rec_status sum_states(const evaluation *e, stream_run *r, double *sums) {
  int64_t heads = head_count(e->of.model), length;
  head_sums *to = (head_sums *)sums;
  for (int point = 0; r->position < e->now->until; point++, to += heads) {
    int64_t end = point_position(point, e->now->until);
    while (r->position < end) {
      rec_status status = streams_read(e, r, end, &length);
      if (status) return status;
    }
    // what a window ends with comes to its first rank
    if (ranks_time(e->ranks) == 0) sum_head_states(e, r, to);
  }
  return REC_OK;
}

// ---- what they say ------------------------------------------------------------------------------

typedef struct head_statistics {
  double mean, deviation, norm;
} head_statistics;

// Of some heads together, `count` numbers each.
static head_statistics statistics(const head_sums *heads, int64_t head_count, int64_t count) {
  head_sums all = {0};
  for (int64_t i = 0; i < head_count; i++) {
    all.sum += heads[i].sum;
    all.squares += heads[i].squares;
    all.norms += heads[i].norms;
  }
  double numbers = (double)(head_count * count) * STREAMS, mean = all.sum / numbers,
         variance = all.squares / numbers - mean * mean;
  return (head_statistics){mean, sqrt(variance < 0 ? 0 : variance),
                           all.norms / (double)(head_count * STREAMS)};
}

typedef enum state_table { FOR_PEOPLE, BY_LAYER, BY_HEAD } state_table;

static void write_head(FILE *file, const model_state *s, int64_t position, int64_t head,
                       head_statistics x) {
  fprintf(file, "%" PRId64 ",%d,%" PRId64 ",%.9g,%.9g,%.9g,", position, s->layer, head, x.mean,
          x.deviation, x.norm);
  put_csv_cell(file, s->name);
  putc('\n', file);
}

static void write_state(FILE *file, state_table table, const model_state *s, int64_t position,
                        const head_sums *heads) {
  int64_t count = s->elements / s->heads;
  head_statistics all = statistics(heads, s->heads, count);
  double largest = 0;
  for (int64_t i = 0; i < s->heads; i++) {
    head_statistics x = statistics(&heads[i], 1, count);
    if (!(x.norm <= largest)) largest = x.norm;
    if (table == BY_HEAD) write_head(file, s, position, i, x);
  }
  if (table == BY_LAYER) {
    fprintf(file, "%" PRId64 ",%d,%.9g,%.9g,%.9g,%.9g,", position, s->layer, all.mean,
            all.deviation, all.norm, largest);
    put_csv_cell(file, s->name);
    putc('\n', file);
  }
  if (table == FOR_PEOPLE)
    fprintf(file, "  %9" PRId64 "   mean %10.3e   deviation %9.3e   norm %9.3e   largest %9.3e\n",
            position, all.mean, all.deviation, all.norm, largest);
}

static void write_table(FILE *file, state_table table, const train_model *m, int64_t until,
                        const head_sums *sums) {
  int64_t all_heads = head_count(m);
  if (table == BY_LAYER) fprintf(file, "position,layer,mean,deviation,norm,largest,state\n");
  if (table == BY_HEAD) fprintf(file, "position,layer,head,mean,deviation,norm,state\n");
  for (int i = 0; i < m->state_count; i++) {
    const model_state *s = &m->states[i];
    if (s->lag) continue;
    if (table == FOR_PEOPLE)
      fprintf(file, "  %s, %" PRId64 " head%s\n", s->name, s->heads, s->heads == 1 ? "" : "s");
    for (int point = 0; point < point_count(until); point++)
      write_state(file, table, s, point_position(point, until), sums + point * all_heads);
    sums += s->heads;
  }
}

static rec_status save_state_table(const evaluation *e, const evaluate_block *b, state_table table,
                                   const head_sums *sums) {
  made_text text;
  if (!text_open(&text)) return rec_no_memory();
  write_table(text.out, table, e->of.model, b->state_until, sums);
  return evaluation_save(e, b, &text, REC_OK,
                         table == BY_HEAD ? "state_heads.csv" : "state_norm.csv");
}

rec_status judge_states(evaluation *e, const evaluate_block *b) {
  int64_t width;
  if (!rec_multiply(point_count(b->state_until), head_count(e->of.model) * NUMBERS, &width))
    return rec_no_memory();
  head_sums *sums = calloc((size_t)width / NUMBERS + 1, sizeof *sums);
  if (!sums) return rec_no_memory();
  printf("evaluate %s after %s: states by position until %" PRId64
         "; the norm is the mean over heads, beside the largest head's\n",
         b->name, b->after, b->state_until);
  if (!width) printf("  the model has no states\n");
  fflush(stdout);
  pass p = {.streams = STREAMS, .until = b->state_until, .width = width, .read = sum_states};
  rec_status status = width ? evaluation_pass(e, p, (double *)sums) : REC_OK;
  if (!status) {
    write_table(stdout, FOR_PEOPLE, e->of.model, b->state_until, sums);
    fflush(stdout);
    status = save_state_table(e, b, BY_LAYER, sums);
  }
  if (!status) status = save_state_table(e, b, BY_HEAD, sums);
  free(sums);
  return status;
}
