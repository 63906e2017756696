#include "runtime/train/sample.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/train/random.h"

typedef struct candidate {
  double weight;
  int token;
} candidate;

static int by_weight(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
  return (x->token > y->token) - (x->token < y->token);
}

// The sum of the first `count` weights.
static double sum_of(const candidate *list, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += list[i].weight;
  return sum;
}

// How many of the sorted candidates stay.
static int kept(const sample_options *o, const candidate *list, int count) {
  if (o->temperature <= 0) return 1;
  if (o->top_k > 0 && o->top_k < count) count = o->top_k;
  if (o->top_p >= 1) return count;
  double wanted = o->top_p * sum_of(list, count), sum = 0;
  for (int i = 0; i < count; i++) {
    sum += list[i].weight;
    if (sum >= wanted) return i + 1;
  }
  return count;
}

bool sample_distribution(const sample_options *o, const double *logits, int count,
                         double *probabilities) {
  candidate list[SAMPLE_MOST_TOKENS];
  double largest = -INFINITY;
  for (int i = 0; i < count; i++) {
    if (isnan(logits[i])) return false;
    largest = fmax(largest, logits[i]);
  }
  if (isinf(largest)) return false;
  double temperature = o->temperature > 0 ? o->temperature : 1;
  for (int i = 0; i < count; i++) {
    double below = logits[i] - largest;
    list[i] = (candidate){below == 0 ? 1 : exp(below / temperature), i};
    probabilities[i] = 0;
  }
  qsort(list, (size_t)count, sizeof *list, by_weight);
  int stay = kept(o, list, count);
  double sum = sum_of(list, stay);
  for (int i = 0; i < stay; i++) probabilities[list[i].token] = list[i].weight / sum;
  return true;
}

int sample_pick(const double *probabilities, int count, double u) {
  double sum = 0;
  int last = 0;
  for (int i = 0; i < count; i++) {
    if (probabilities[i] <= 0) continue;
    last = i;
    sum += probabilities[i];
    if (u < sum) return i;
  }
  return last;  // the sum may be rounded to below u
}

int sample_token(const sample_options *o, const double *logits, int count, uint64_t position) {
  double probabilities[SAMPLE_MOST_TOKENS];
  if (!sample_distribution(o, logits, count, probabilities)) return -1;
  double u = random_uniform(o->seed, random_stream("generate"), position);
  return sample_pick(probabilities, count, u);
}
