// A step of what joins segments of time: states with a summary, or two summaries
// (runtime/support/fold.c). The host takes steps itself (runtime/support/fold_step.c), on a GPU the
// kernel `rec_gpu_fold` does (compiler/kernel/gpu/fold.c), a thread for each number.
//
//   to[i] = own[i], then in turn of each term
//     REC_FOLD_ADD       it + from[i]
//     REC_FOLD_PRODUCT   it + sum over rows of sign * factor[i, row] * from[i, row]
//     REC_FOLD_PAIR      the same of two rows, the sign that of the second: their sum is added to it
//     REC_FOLD_MAXIMUM   max(it, factor[i] + from[i])
//     REC_FOLD_RELATIVE  exp(min(0, -d)) * it + exp(min(0, d) + factor[i]) * from[i]
//                        where d = maximum[i] + shift[i] - largest[i]
//
// i counts the entries of a few axes, the last one first. An operand lies in memory by a stride for
// each axis. Instead of the numbers themselves, marks may be written where they are beyond a limit.
#pragma once

#include "compiler/abi/gpu_frame.h"

enum { REC_FOLD_AXES = 16, REC_FOLD_TERMS = 4, REC_GPU_FOLD_THREADS = 256 };

// PAIR is of the host alone, where complex numbers are pairs.
enum { REC_FOLD_ADD, REC_FOLD_PRODUCT, REC_FOLD_MAXIMUM, REC_FOLD_RELATIVE, REC_FOLD_PAIR };

typedef struct rec_fold_operand {
  const void *data;  // numbers; of `own` NULL: it is `absent`
  int64_t stride[REC_FOLD_AXES];
} rec_fold_operand;

typedef struct rec_fold_term {
  rec_fold_operand factor, from, maximum, shift, largest;
  int64_t kind;  // REC_FOLD_..
  int64_t rows, factor_stride, from_stride;
  float sign;
  int32_t unused;
} rec_fold_term;

typedef struct rec_fold {
  int64_t first, end;  // numbers
  int64_t axis_count, size[REC_FOLD_AXES];
  rec_fold_operand to, own;  // `to` is written
  float absent, most;
  // not 0: the bits that are written to `to` where a number is beyond `most`; nothing is written
  // elsewhere. GPUs alone.
  int64_t mark;
  int64_t term_count;
  rec_fold_term terms[REC_FOLD_TERMS];
} rec_fold;

_Static_assert(sizeof(rec_fold) <= REC_GPU_PARAMETER_BYTES, "a parameter is at most 4096 bytes");
