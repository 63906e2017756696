// Calls on a GPU: the layout of the workspace, and the order in which kernels are started. struct
// gpu_device hides where they run: on the executor (gpu_simt.c), or on a CUDA device (gpu_cuda.c).
//
//   forward, step:  the kernel, a sum of copies where several work items add to one result
//   backward:       STATES without `saved`, BACKWARD, the sum
//
// Time slices: with fewer work items than multiprocessors, time is cut into the number of slices
// that ends first. SUMMARY before FORWARD or STATES, and SUMMARY_BACK before BACKWARD, makes the
// summaries from which the slices start. That is at most three launches forward, and five backward.
//
// FORWARD and BACKWARD may have a second kernel for few instances. The one that ends first runs, by
// the modelled cycles of both.
//
// Where a step multiplies by matrices of parameters, and there are more entries than
// multiprocessors, an item may take several batch entries.
//
// Everything depends on sizes alone; nothing waits for the device.
#pragma once

#include "compiler/abi/gpu_frame.h"
#include "compiler/abi/simt.h"
#include "runtime/support/call.h"

enum { GPU_SLOTS_MAX = REC_GPU_PARAMETER_BYTES / sizeof(rec_gpu_slot) };

// One kernel to be started.
typedef struct gpu_launch {
  const char *name;
  const rec_table_gpu_kernel *kernel;   // NULL: of no recurrence, as rec_gpu_sum. Then
  void (*simt)(const void *parameter);  // its code for the executor
  int64_t blocks;
  int threads, shared_bytes;
  const void *parameter;
  int64_t parameter_bytes;
  void *scratch;
  int64_t scratch_bytes;       // of a block
  const simt_region *regions;  // memory that the kernel may access
  int region_count;
} gpu_launch;

// Which forms of FORWARD and BACKWARD run: those that end first, or one of them for any number of
// instances.
typedef enum gpu_form_choice { GPU_FORM_BY_TIME, GPU_FORM_USUAL, GPU_FORM_FEW } gpu_form_choice;

typedef struct gpu_device {
  // About how many thread blocks the device runs at one time. No more are started; each takes
  // several work items.
  int64_t blocks;
  const rec_table_gpu *code;  // the kernels for its shared memory
  // Loads all kernels that calls of this recurrence start, so that no call loads any. NULL: there
  // is nothing to load.
  rec_status (*load)(const call *call, const struct gpu_device *device);
  rec_status (*launch)(const call *call, const gpu_launch *launch);
  rec_status (*clear)(const call *call, void *at, int64_t bytes);
  rec_status (*copy)(const call *call, void *to, const void *from, int64_t bytes);
  int64_t multiprocessors;  // with fewer work items, time is cut into slices
  gpu_form_choice form;
} gpu_device;

// Finds the device of a kind, if the library holds code for it; else leaves a message.
rec_status gpu_device_find(const call *call, int32_t kind, gpu_device *device);
rec_status gpu_simt_device(const call *call, gpu_device *device);
rec_status gpu_cuda_device(const call *call, gpu_device *device);

// Bytes of workspace and `saved` on a device.
rec_status gpu_sizes_of(const call *call, const gpu_device *device, rec_sizes *sizes);

// The most shared memory of a block, for batched or single items.
int gpu_most_shared_bytes(const rec_table_gpu_kernel *kernel);

// Runs a call whose arguments were checked: REC_KERNEL_FORWARD, _STEP or _BACKWARD.
rec_status gpu_run(const call *call, const gpu_device *device, int kind);
