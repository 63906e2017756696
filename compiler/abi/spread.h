// Numbers spread over axes, or summed over them: what a state starts from where the caller does not
// give it, and the gradient of that (runtime/support/begin.c). Also the parameter of the GPU kernel
// `rec_gpu_spread` (compiler/kernel/gpu/begin.c).
//
//   to[i] (+)= sum over j of from[place of i + place of j]
#pragma once

#include "compiler/abi/gpu_frame.h"
#include "compiler/abi/library.h"

typedef struct rec_spread_axis {
  int64_t size, stride;  // numbers of `from`; 0: it lacks the axis
} rec_spread_axis;

// The last axis is the innermost one.
typedef struct rec_spread_axes {
  int64_t count, numbers;  // numbers: the product of the sizes
  rec_spread_axis axes[REC_AXES_MAX + 2];
} rec_spread_axes;

typedef struct rec_spread {
  void *to;
  const void *from;  // NULL: `number`, a part for each
  int64_t parts;     // 2: complex numbers
  double number[2];
  int64_t adds;  // to what is there already
  rec_spread_axes outer, inner;
} rec_spread;

_Static_assert(sizeof(rec_spread) <= REC_GPU_PARAMETER_BYTES, "a parameter is at most 4096 bytes");
