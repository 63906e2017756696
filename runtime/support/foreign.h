// Calls that bring tensors with shapes, types and strides, as the runtimes of other languages have
// them: checked against the tables of a recurrence, then handed to its entry points.
//
//   gla_forward(q, k, v, gate, h0_S or nothing, y, hT_S or nothing)
//     -->  the variant with their types and sizes  -->  gla_arguments, a workspace  -->  rec_forward_entry
//
// The order of tensors, by kind of call; each group in the order of the arguments struct:
//   forward, step   inputs, parameters, initial states | outputs, final states
//   backward        inputs, parameters, initial states, cotangents of outputs, of final states | gradients of inputs, of
//                   parameters, of initial states
// Before the bar stand operands, behind it results. A step has no axis of time.
#pragma once

#include <stdbool.h>

#include "compiler/abi/library.h"

// DLPack's words for types and devices.
enum {
  FOREIGN_INT,
  FOREIGN_UINT,
  FOREIGN_FLOAT,
  FOREIGN_OPAQUE,
  FOREIGN_BFLOAT,
  FOREIGN_COMPLEX,
  FOREIGN_BOOL
};
enum { FOREIGN_CPU = 1, FOREIGN_CUDA, FOREIGN_CUDA_HOST, FOREIGN_CUDA_MANAGED = 13 };

typedef struct foreign_dtype {
  uint8_t code, bits;
  uint16_t lanes;
} foreign_dtype;

typedef struct foreign_device {
  int32_t type, number;
} foreign_device;

// A tensor, with DLPack's layout (DLTensor). Strides count elements; NULL: dense. A tensor of
// complex numbers may have their type, or a last axis of two real ones.
typedef struct foreign_tensor {
  void *data;
  foreign_device device;
  int32_t rank;
  foreign_dtype dtype;
  const int64_t *shape, *strides;
  uint64_t byte_offset;
} foreign_tensor;

static inline int64_t foreign_bytes(const foreign_tensor *x) {
  int64_t bytes = x->dtype.bits / 8 * x->dtype.lanes;
  for (int i = 0; i < x->rank; i++) bytes *= x->shape[i];
  return bytes;
}

// What a call is about, in words for exceptions.
typedef enum foreign_fault {
  FOREIGN_WRONG_VALUE,
  FOREIGN_WRONG_TYPE,
  FOREIGN_REFUSED
} foreign_fault;

typedef struct foreign_call {
  // Set by the caller; zeros stand for what is absent.
  const rec_variants *recurrence;
  // REC_KERNEL_FORWARD, REC_KERNEL_STEP or REC_KERNEL_BACKWARD
  int kind;
  const foreign_tensor *const *tensors;  // NULL: not there
  int count;                             // of them; the rest are not there
  const foreign_tensor *cu_seqlens;      // int32 offsets of packed sequences
  const foreign_tensor *saved;           // bytes that forward writes for backward
  int64_t threads;                       // of rec_launch, as the next three
  rec_parallel_for parallel_for;
  void *parallel_context;
  void *stream;
  // Memory of a GPU for the time of the call; NULL: only calls on the host.
  void *(*allocate)(void *context, int64_t bytes);
  void *allocate_context;

  // Set by foreign_read.
  const rec_table *table;  // of the variant
  foreign_device device;
  bool packed;
  int64_t batch, time, sequences;
  int64_t axis_size[REC_AXES_MAX];  // 0: no tensor tells it
  foreign_fault fault;              // of a call that did not return REC_OK
} foreign_call;

// Goes through the tensors of a kind of call, in their order. Begin with zeros.
typedef struct foreign_cursor {
  int group, memory;  // of the tensor: its memory in the table
  int position;       // its place among the tensors, from 1 on
  bool result;
} foreign_cursor;
bool foreign_next(const rec_table *table, int kind, foreign_cursor *at);

// Finds the variant and the sizes of a call, and checks all tensors that are there.
rec_status foreign_read(foreign_call *call);

// Bytes that a forward of a call that was read saves for its backward.
rec_status foreign_saved_bytes(const foreign_call *call, int64_t *bytes);

// What foreign.c and foreign_run.c share: a message, the tensor at a cursor, checks of what a call
// that runs must have beside what foreign_read asks for.
rec_status foreign_fail(foreign_call *call, foreign_fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const foreign_tensor *foreign_tensor_at(const foreign_call *call, const foreign_cursor *at);
bool foreign_has_complex_type(const rec_table *table, const rec_table_memory *memory,
                              const foreign_tensor *tensor);
bool foreign_on_cuda(foreign_device device);
rec_status foreign_check(foreign_call *call);

// Runs a call that was read. Results that are not there are not wanted; outputs must be there.
rec_status foreign_run(foreign_call *call);

// The shape of a tensor of a call that was read; returns its rank. Complex numbers are a last axis
// of two.
enum { FOREIGN_RANK_MAX = REC_AXES_MAX + 4 };
int foreign_shape(const foreign_call *call, int memory, int64_t shape[FOREIGN_RANK_MAX]);

// Leading axes that may have any stride: batch and time of tokens. The others must lie densely.
int foreign_free_axes(int kind, const rec_table_memory *memory);
// Whether the axes from `first` on lie densely.
bool foreign_is_dense(const foreign_tensor *tensor, int first);

// How a tensor's numbers are stored.
foreign_dtype foreign_stored(const rec_table *table, const rec_table_memory *memory);
