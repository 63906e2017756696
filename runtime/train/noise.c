#include "runtime/train/noise.h"

#include <math.h>

#include "runtime/train/random.h"

void noise_random(const noise_source *source, double sigma, int64_t count, void *to) {
  for (int64_t i = 0; i < count; i++)
    source->n->store(
        to, i, sigma * random_normal(source->seed, source->stream, source->first + (uint64_t)i));
}

void noise_fitted(const noise_source *source, const noise_heads *h, int64_t count, void *to) {
  for (int64_t i = 0; i < count; i++) {
    int64_t head = i / h->head_elements % h->heads;
    double x = random_normal(source->seed, source->stream, source->first + (uint64_t)i);
    source->n->store(to, i, h->mean[head] + sqrt(h->variance[head]) * x);
  }
}

// The sum of (x - center)^power over a head of all sequences, in their order; power is 1 or 2.
static double head_sum(const numeric *n, const void *values, int64_t numbers, const noise_heads *h,
                       int64_t head, double center, int power) {
  double sum = 0;
  int64_t stride = h->heads * h->head_elements;
  for (int64_t first = head * h->head_elements; first < numbers; first += stride)
    for (int64_t i = 0; i < h->head_elements; i++) {
      double x = n->load(values, first + i) - center;
      sum += power == 1 ? x : x * x;
    }
  return sum;
}

void noise_fit(const numeric *n, const void *values, int64_t sequences, int64_t elements,
               double beta, bool first, noise_heads *h) {
  int64_t numbers = sequences * elements;  // a whole number of rounds of the heads
  double count = (double)(numbers / h->heads);
  for (int64_t head = 0; numbers && head < h->heads; head++) {
    double mean = head_sum(n, values, numbers, h, head, 0, 1) / count;
    double variance = head_sum(n, values, numbers, h, head, mean, 2) / count;
    h->mean[head] = first ? mean : (1 - beta) * mean + beta * h->mean[head];
    h->variance[head] = first ? variance : (1 - beta) * variance + beta * h->variance[head];
  }
}
