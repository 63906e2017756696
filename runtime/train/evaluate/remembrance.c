// remembrance: the Effective Remembrance of arXiv 2507.02782. It is how far the distribution of the
// token after T tokens moves if the first t of them were never read. The tokens from t on are read
// from the zero state for each t, window after window, so memory does not depend on T.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/train/evaluate/evaluate.h"

enum { STREAMS = 64, MOST_POINTS = 17 };

// ---- distances ----------------------------------------------------------------------------------

static double log_sum(const double *logits, int count) {
  double most = logits[0], sum = 0;
  for (int i = 1; i < count; i++) most = fmax(most, logits[i]);
  for (int i = 0; i < count; i++) sum += exp(logits[i] - most);
  return most + log(sum);
}

static double divergence(double p, double q) { return p > 0 ? p * log2(2 * p / (p + q)) : 0; }

double distance_of(distance_kind kind, const double *a, const double *b, int count) {
  double of_a = log_sum(a, count), of_b = log_sum(b, count);
  double apart = 0, product = 0, aa = 0, bb = 0;
  for (int i = 0; i < count; i++) {
    double p = exp(a[i] - of_a), q = exp(b[i] - of_b);
    apart += kind == DISTANCE_JENSEN_SHANNON ? divergence(p, q) + divergence(q, p) : fabs(p - q);
    product += p * q;
    aa += p * p;
    bb += q * q;
  }
  if (kind != DISTANCE_COSINE) return apart / 2;
  double cosine = product / sqrt(aa * bb);
  return cosine > 1 ? 0 : 1 - cosine;
}

// ---- reading ------------------------------------------------------------------------------------

// t = 0, T/16, 2T/16, .. 15T/16 and T - 1, each once.
static int remembrance_points(int64_t until, int64_t points[MOST_POINTS]) {
  int count = 0;
  for (int i = 0; i <= 16; i++) {
    int64_t t = i < 16 ? (int64_t)((double)until / 16 * i) : until - 1;
    if (!count || t > points[count - 1]) points[count++] = t;
  }
  return count;
}

static rec_status read_from_position(const evaluation *e, stream_run *r, int64_t start,
                                     double *logits) {
  int64_t length;
  rec_status status = REC_OK;
  r->start = r->position = start;
  r->logits = logits;
  while (!status && r->position < e->now->until)
    status = streams_read(e, r, e->now->until, &length);
  return status;
}

static rec_status sum_distances(const evaluation *e, stream_run *r, double *sums) {
  int64_t points[MOST_POINTS];
  int count = remembrance_points(e->now->until, points), symbols = e->of.model->vocabulary;
  double *full = calloc((size_t)(2 * r->streams * symbols), sizeof *full);
  if (!full) return rec_no_memory();
  double *part = full + r->streams * symbols;
  rec_status status = read_from_position(e, r, 0, full);
  for (int i = 0; !status && i < count; i++) {
    status = read_from_position(e, r, points[i], part);
    for (int64_t k = 0; !status && k < r->streams; k++)
      sums[i] +=
          distance_of((distance_kind)e->now->what, full + k * symbols, part + k * symbols, symbols);
  }
  free(full);
  return status;
}

rec_status judge_remembrance(evaluation *e, const evaluate_block *b) {
  static const char *const names[] = {
#define DISTANCE(name, text, said, ...) said,
#include "compiler/abi/distances.def"
#undef DISTANCE
  };
  int64_t points[MOST_POINTS];
  double sums[MOST_POINTS] = {0};
  int count = remembrance_points(b->remembrance, points);
  printf("evaluate %s after %s: effective remembrance at %" PRId64 " of the first t tokens (%s)\n",
         b->name, b->after, b->remembrance, names[b->distance]);
  fflush(stdout);
  pass p = {.streams = STREAMS,
            .until = b->remembrance,
            .width = count,
            .read = sum_distances,
            .what = b->distance,
            .whole = true};
  rec_status status = evaluation_pass(e, p, sums);
  made_text table;
  if (status) return status;
  if (!text_open(&table)) return rec_no_memory();
  fprintf(table.out, "t,distance\n");
  for (int i = 0; i < count; i++) {
    printf("  %9" PRId64 "   %8.6f\n", points[i], sums[i] / STREAMS);
    fprintf(table.out, "%" PRId64 ",%.9g\n", points[i], sums[i] / STREAMS);
  }
  fflush(stdout);
  return evaluation_save(e, b, &table, REC_OK, "remembrance.csv");
}
