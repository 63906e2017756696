// Initial states that are drawn: random_noise and fitted_noise.
#ifndef REC_TRAIN_NOISE_H
#define REC_TRAIN_NOISE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/train/numeric.h"

// The numbers of one sequence's state have the positions first, first + 1, .. of their stream.
typedef struct noise_source {
  const numeric *n;
  uint64_t seed, stream, first;
} noise_source;

// N(0, sigma^2) for every entry.
void noise_random(const noise_source *source, double sigma, int64_t count, void *to);

// Element e of a state belongs to head e / head_elements % heads.
typedef struct noise_heads {
  int64_t heads, head_elements;
  double *mean, *variance;  // by head
} noise_heads;

// N(mean, variance) of its head for every entry.
void noise_fitted(const noise_source *source, const noise_heads *h, int64_t count, void *to);

// mean <- (1 - beta) mean of `values` + beta mean for each head, the same for the variance; the
// `first` values set both. The statistics are those of `sequences` states of `elements` each.
void noise_fit(const numeric *n, const void *values, int64_t sequences, int64_t elements,
               double beta, bool first, noise_heads *h);

#endif
