// Does a model length-generalise? The answer to the mean losses of ranges of positions, in order.
#pragma once

#include <stdint.h>

// Strong: no range beyond the context has a loss above the least before it. Weak: none has one
// above that at the context. In both, above means by more than the tolerance.
typedef enum length_extension { STRONG_EXTENSION, WEAK_EXTENSION, NO_EXTENSION } length_extension;

typedef struct verdict {
  int64_t context;
  double at_context, least, tolerance;  // bits
  // positions up to which it length-generalises, and that were read
  int64_t reaches, until;
  length_extension extension;
} verdict;

// `tolerance`: what counts as no more, in bits; the papers name none, about twice the sampling
// error of a range is usual.
verdict verdict_begin(int64_t context, double at_context, double tolerance);
// The next range beyond the context, up to position `end`.
void verdict_range(verdict *v, int64_t end, double bits);
const char *verdict_name(length_extension extension);
