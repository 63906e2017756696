// Between which numbers a value lies, and which sign it has.
#pragma once

#include "compiler/recurrence/recurrence.h"

// `positive`, `negative`: strictly, as a real number; computed with few digits it may round to 0.
typedef struct interval {
  double low, high;  // infinite where nothing is known; complex values: always
  bool positive, negative;
} interval;

// The intervals of a body's values, found when they are asked for.
typedef struct bounds {
  arena *memory;
  const typed_body *body;
  VEC(interval) known;  // of the first values
} bounds;

interval bounds_of(bounds *b, value_id id);
