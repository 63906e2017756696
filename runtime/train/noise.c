#include "runtime/train/noise.h"

#include "runtime/train/random.h"

void noise_random(const noise_source *source, double sigma, int64_t count, void *to) {
  for (int64_t i = 0; i < count; i++)
    source->n->store(
        to, i, sigma * random_normal(source->seed, source->stream, source->first + (uint64_t)i));
}
