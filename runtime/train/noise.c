#include "runtime/train/noise.h"

#include <math.h>
#include <string.h>

#include "runtime/train/data/random.h"

void noise_random(const noise_source *source, double sigma, int64_t count, void *to) {
  for (int64_t i = 0; i < count; i++)
    source->n->store(
        to, i, sigma * random_normal(source->seed, source->stream, source->first + (uint64_t)i));
}

int64_t noise_group(const noise_groups *g, int64_t element) {
  int64_t group = 0;
  for (int i = 0; i < g->axis_count; i++)
    group = group * g->axes[i].size + element / g->axes[i].stride % g->axes[i].size;
  return group;
}

void noise_fitted(const noise_source *source, const noise_groups *g, int64_t count, void *to) {
  for (int64_t i = 0; i < count; i++) {
    int64_t group = noise_group(g, i);
    double x = random_normal(source->seed, source->stream, source->first + (uint64_t)i);
    source->n->store(to, i, g->mean[group] + sqrt(g->variance[group]) * x);
  }
}

void noise_sums(const numeric *n, const void *values, int64_t sequences, int64_t elements,
                const noise_groups *g, const double *center, double *sums) {
  memset(sums, 0, (size_t)g->count * sizeof *sums);
  for (int64_t s = 0; s < sequences; s++)
    for (int64_t i = 0; i < elements; i++) {
      int64_t group = noise_group(g, i);
      double x = n->load(values, s * elements + i);
      sums[group] += center ? (x - center[group]) * (x - center[group]) : x;
    }
}

void noise_divide(const noise_groups *g, int64_t sequences, int64_t elements, double *sums) {
  double count = (double)(sequences * elements / g->count);
  for (int64_t i = 0; i < g->count; i++) sums[i] /= count;
}

void noise_follow(noise_groups *g, const double *mean, const double *variance, double beta,
                  bool first) {
  for (int64_t i = 0; i < g->count; i++) {
    g->mean[i] = first ? mean[i] : (1 - beta) * mean[i] + beta * g->mean[i];
    g->variance[i] = first ? variance[i] : (1 - beta) * variance[i] + beta * g->variance[i];
  }
}
