// GPU kernels: plans become functions of a module, whose kernels call abstract operations
// (emit/gpu_ops.def).
#pragma once

#include "compiler/emit/gpu_ops.h"
#include "compiler/kernel/description.h"
#include "compiler/plan/tensor_cores.h"

// The function attribute that holds the device class of a kernel, as a digit. Kernels for all
// devices lack it.
extern const char gpu_class_attribute[];

// kernel/gpu/kernel.c: opens a kernel of that name with a parameter of so many bytes.
ir gpu_kernel_function(emitter *e, const char *symbol, int64_t bytes, int threads);
// The number of a thread among those of all blocks, which have so many each.
ir gpu_thread_of_all(emitter *e, ir threads);
// Adds the kernel to the emitter's module.
void gpu_lower_kernel(emitter *e, const codegen_gpu_kernel *k);
// reductions.c: the kernel `rec_gpu_sum`.
void gpu_sum_kernel(arena *a, llvm_module *m);
// Stores a number in the type that `stored` says (i64, REC_STORED_..).
void gpu_store_as(emitter *e, ir stored, ir data, ir at, ir x);
// kernel/gpu/fold.c: the kernel `rec_gpu_fold`, where there are summaries. Without `maxima` all
// terms are products.
void gpu_fold_kernel(arena *a, llvm_module *m, bool maxima);
// kernel/gpu/time_slices/running_maxima.c: a running maximum, and a state relative to it, after a
// segment of time: m' = max(F + m, M), s' = exp(min(0, d) + D) s + exp(min(0, -d)) own, where d = F
// + m - M. `lanes` of a vector, 0: numbers.
typedef struct gpu_maximum {
  ir before, shift, largest;  // m, F, M
} gpu_maximum;
typedef struct gpu_relative {
  ir before, sum, own;  // s, D, own
} gpu_relative;
ir gpu_joined_maximum(emitter *e, gpu_maximum m);
ir gpu_joined_relative(emitter *e, int lanes, gpu_maximum m, gpu_relative r);
// kernel/gpu/delay.c: the kernel `rec_gpu_rows`; whether the kernels of a recurrence need it.
void gpu_delay_kernel(arena *a, llvm_module *m);
bool gpu_has_delays(const recurrence *r);
// kernel/gpu/begin.c: the kernel `rec_gpu_spread`, for recurrences whose states start from
// something.
void gpu_spread_kernel(arena *a, llvm_module *m);
