#include "runtime/train/model/sample.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/train/data/random.h"

bool sampler_open(sampler *s, const sample_options *options, int count) {
  *s = (sampler){.options = *options, .count = count};
  s->list = calloc((size_t)count + 1, sizeof *s->list);
  s->probabilities = calloc((size_t)count + 1, sizeof *s->probabilities);
  return s->list && s->probabilities;
}

void sampler_close(sampler *s) {
  free(s->list);
  free(s->probabilities);
}

static int by_weight(const void *a, const void *b) {
  const sample_candidate *x = a, *y = b;
  if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
  return (x->token > y->token) - (x->token < y->token);
}

// The sum of the first `count` weights.
static double candidate_weights(const sample_candidate *list, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += list[i].weight;
  return sum;
}

// How many of the sorted candidates stay.
static int kept_candidates(const sample_options *o, const sample_candidate *list, int count) {
  if (o->temperature <= 0) return 1;
  if (o->top_k > 0 && o->top_k < count) count = o->top_k;
  if (o->top_p >= 1) return count;
  double wanted = o->top_p * candidate_weights(list, count), sum = 0;
  for (int i = 0; i < count; i++) {
    sum += list[i].weight;
    if (sum >= wanted) return i + 1;
  }
  return count;
}

bool sample_distribution(sampler *s, const double *logits) {
  double largest = -INFINITY, temperature = s->options.temperature;
  for (int i = 0; i < s->count; i++) {
    if (isnan(logits[i])) return false;
    largest = fmax(largest, logits[i]);
  }
  if (isinf(largest)) return false;
  if (temperature <= 0) temperature = 1;
  for (int i = 0; i < s->count; i++) {
    double below = logits[i] - largest;
    s->list[i] = (sample_candidate){below == 0 ? 1 : exp(below / temperature), i};
    s->probabilities[i] = 0;
  }
  qsort(s->list, (size_t)s->count, sizeof *s->list, by_weight);
  int stay = kept_candidates(&s->options, s->list, s->count);
  double sum = candidate_weights(s->list, stay);
  for (int i = 0; i < stay; i++) s->probabilities[s->list[i].token] = s->list[i].weight / sum;
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

int sample_token(sampler *s, const double *logits, uint64_t position) {
  if (!sample_distribution(s, logits)) return -1;
  double u = random_uniform(s->options.seed, random_stream("generate"), position);
  return sample_pick(s->probabilities, s->count, u);
}
