// Initial states that are drawn: random_noise and fitted_noise.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/train/model/numeric.h"

// The numbers of one sequence's state have the positions first, first + 1, .. of their stream.
typedef struct noise_source {
  const numeric *n;
  uint64_t seed, stream, first;
} noise_source;

// N(0, sigma^2) for every entry.
void noise_random(const noise_source *source, double sigma, int64_t count, void *to);

// The entries of a state fall into groups: element e has the place e / stride % size along an axis
// that tells groups apart.
typedef struct noise_axis {
  int64_t size, stride;
} noise_axis;

enum { MOST_NOISE_AXES = 16 };

typedef struct noise_groups {
  int axis_count;
  noise_axis axes[MOST_NOISE_AXES];
  int64_t count;            // of groups: the product of the sizes
  double *mean, *variance;  // by group
} noise_groups;

int64_t noise_group(const noise_groups *g, int64_t element);

// N(mean, variance) of its group for every entry.
void noise_fitted(const noise_source *source, const noise_groups *g, int64_t count, void *to);

// The statistics of values, group by group: sums over the states of `sequences`, of the values
// (`center` NULL) or of the squares of their distances from a center. Sums of parts of a batch may
// be added.
void noise_sums(const numeric *n, const void *values, int64_t sequences, int64_t elements,
                const noise_groups *g, const double *center, double *sums);
// Makes means of the sums over all `sequences` of the batch.
void noise_divide(const noise_groups *g, int64_t sequences, int64_t elements, double *sums);
// mean <- (1 - beta) mean of the values + beta mean for each group, the same for the variance; the
// `first` values set both.
void noise_follow(noise_groups *g, const double *mean, const double *variance, double beta,
                  bool first);
