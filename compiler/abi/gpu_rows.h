// The parameter of the kernel `rec_gpu_rows`, which moves rows in time (delay.h,
// compiler/kernel/gpu/delay.c).
#pragma once

#include "compiler/abi/gpu_frame.h"

// Rows of a tensor: steps of tokens, or the entries of a lag buffer.
typedef struct rec_gpu_row_side {
  void *data;                        // NULL: 0
  int64_t entry_stride, row_stride;  // numbers; packed tokens: between entries 0
  int64_t rows;                      // 0: the steps of the entry
  // of what is read: row r + offset + ends * (steps of the entry) for row r
  int64_t offset, ends;
  // REC_STORED_.., or REC_ROWS_ONE: every number of every row is 1
  int64_t stored;
} rec_gpu_row_side;

enum {
  REC_ROWS_ONE = 3,
  // as many lags of one input as a recurrence may have (compiler/recurrence/delay.c), and two more
  REC_GPU_ROW_SOURCES = 66
};

// The parameter of the kernel `rec_gpu_rows`, which runs in any number of blocks of
// REC_GPU_SUM_THREADS threads. Each row of `to` is the sum of the source rows that exist.
typedef struct rec_gpu_rows {
  int64_t entries, time;
  const int32_t *cu_seqlens;  // NULL: not packed
  int64_t numbers;            // of a row
  rec_gpu_row_side to;
  int64_t count;
  rec_gpu_row_side from[REC_GPU_ROW_SOURCES];
} rec_gpu_rows;

_Static_assert(sizeof(rec_gpu_rows) <= REC_GPU_PARAMETER_BYTES,
               "a parameter is at most 4096 bytes");
