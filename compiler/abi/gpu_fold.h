// The parameter of the kernel `rec_gpu_fold`, which joins what segments of time leave of states:
// states with a summary, or two summaries (runtime/support/gpu_fold.c, compiler/kernel/gpu/fold.c).
// A thread for each number.
//
//   to[i] = own[i], then in turn of each term
//     REC_GPU_FOLD_ADD       it + sign * from[i]
//     REC_GPU_FOLD_PRODUCT   it + sum over rows of sign * factor[i, row] * from[i, row]
//     REC_GPU_FOLD_MAXIMUM   max(it, factor[i] + from[i])
//     REC_GPU_FOLD_RELATIVE  exp(min(0, -by[i])) * it + exp(min(0, by[i]) + factor[i]) * from[i]
//
// i counts the entries of a few axes, the last one first. An operand lies in memory by a stride for
// each axis. Instead of the numbers themselves, marks may be written where they are beyond a limit.
#pragma once

#include "compiler/abi/gpu_frame.h"

enum { REC_GPU_FOLD_AXES = 16, REC_GPU_FOLD_TERMS = 4, REC_GPU_FOLD_THREADS = 256 };

enum { REC_GPU_FOLD_ADD, REC_GPU_FOLD_PRODUCT, REC_GPU_FOLD_MAXIMUM, REC_GPU_FOLD_RELATIVE };

typedef struct rec_gpu_operand {
  const float *data;  // of `own` NULL: it is `absent`
  int64_t stride[REC_GPU_FOLD_AXES];
} rec_gpu_operand;

typedef struct rec_gpu_fold_term {
  rec_gpu_operand factor, from, by;
  int64_t kind;  // REC_GPU_FOLD_..
  int64_t rows, factor_stride, from_stride;
  float sign;
  int32_t unused;
} rec_gpu_fold_term;

typedef struct rec_gpu_fold {
  int64_t first, end;  // numbers
  int64_t axis_count, size[REC_GPU_FOLD_AXES];
  rec_gpu_operand to, own;  // `to` is written
  float absent, most;
  // not 0: the bits that are written to `to` where a number is beyond `most`; nothing is written
  // elsewhere
  int64_t mark;
  int64_t term_count;
  rec_gpu_fold_term terms[REC_GPU_FOLD_TERMS];
} rec_gpu_fold;

_Static_assert(sizeof(rec_gpu_fold) <= REC_GPU_PARAMETER_BYTES,
               "a parameter is at most 4096 bytes");
