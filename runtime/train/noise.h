// Initial states that are drawn: random_noise and fitted_noise.
#ifndef REC_TRAIN_NOISE_H
#define REC_TRAIN_NOISE_H

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

// mean <- (1 - beta) mean of `values` + beta mean for each group, the same for the variance; the
// `first` values set both. The statistics are those of `sequences` states of `elements` each.
// `room`: for twice as many numbers as there are groups.
void noise_fit(const numeric *n, const void *values, int64_t sequences, int64_t elements, double beta, bool first, double *room,
               noise_groups *g);

#endif
