// The C ABI of tvm-ffi 0.1, as far as it is used: layouts of tvm/ffi/c_api.h, and the functions
// behind the symbols that tvm-ffi looks for.
#pragma once

#include "runtime/support/foreign.h"

enum { TVM_NONE = 0, TVM_DLTENSOR = 7, TVM_TENSOR = 70 };

// A value; objects are counted references.
typedef struct tvm_any {
  int32_t type;
  uint32_t padding;
  void *pointer;
} tvm_any;

typedef struct tvm_object {
  uint64_t references;
  int32_t type;
  uint32_t padding;
  void (*deleter)(void *object, int flags);
} tvm_object;

typedef struct tvm_tensor {
  tvm_object object;
  foreign_tensor tensor;
} tvm_tensor;

// Each behind a thunk that adds the recurrence. `handle` is not used. Returns 0, or -1 with an
// error raised.
int rec_forward_tvm_ffi(const rec_variants *recurrence, void *handle, const tvm_any *arguments,
                        int32_t count, tvm_any *result);
int rec_backward_tvm_ffi(const rec_variants *recurrence, void *handle, const tvm_any *arguments,
                         int32_t count, tvm_any *result);
int rec_step_tvm_ffi(const rec_variants *recurrence, void *handle, const tvm_any *arguments,
                     int32_t count, tvm_any *result);
