// Initial states that are drawn: random_noise.
#ifndef REC_TRAIN_NOISE_H
#define REC_TRAIN_NOISE_H

#include "runtime/train/numeric.h"

// The numbers of one sequence's state have the positions first, first + 1, .. of their stream.
typedef struct noise_source {
  const numeric *n;
  uint64_t seed, stream, first;
} noise_source;

// N(0, sigma^2) for every entry.
void noise_random(const noise_source *source, double sigma, int64_t count, void *to);

#endif
