// What a compiled kernel sees: the contract between generated code and the support code linked
// beside it.
//
// Each distinct memory tensor of a kernel is a slot of the frame. codegen_kernel.slots
// (compiler/plan/kernel/description.h) says for each slot which tensor it is, and whether the
// kernel reads, writes or adds to it. It also says which instances may run at the same time.
#pragma once

#include <stdint.h>

// Where one argument or result lies in memory. Strides count elements of the tensor's type. The
// axes of one step lie densely behind them, in declared order. Complex numbers are interleaved re,
// im; the slot of a lag buffer is an offset.
typedef struct rec_slot {
  // NULL: an absent initial state or cotangent reads 0; an unwanted result is not written
  void *data;
  int64_t batch_stride;  // 0 for parameters and for partial sums of their gradients
  int64_t time_stride;   // 0 for what has no time
} rec_slot;

// `saved` and both its strides are multiples of this many bytes.
#define REC_SAVED_ALIGNMENT 64

typedef struct rec_frame {
  int64_t batch, time;       // sizes
  const int64_t *axis_size;  // by the recurrence's axis
  const rec_slot *slots;
  // [batch][chunk number][kept values, chunk-start states], NULL: not wanted / not there
  void *saved;
  int64_t saved_batch_stride;  // in elements of the state type
  int64_t saved_chunk_stride;
  // batch entries of this call, from `batch` on: one, or as many as the kernel takes together
  int64_t sequences;
} rec_frame;

typedef void (*rec_kernel_function)(const rec_frame *frame, int64_t batch, int64_t first,
                                    int64_t last, void *scratch);
