// Calls on a GPU: the layout of the workspace, and the order in which kernels are started. A few functions hide where they
// run: the executor (gpu_simt.c), or a CUDA device (gpu_cuda.c).
//
//   forward, step:  the kernel, a sum of copies where several work items add to one result
//   backward:       STATES without `saved`, BACKWARD, the sum
//
// Time slices: with fewer work items than multiprocessors, time is cut into the number of slices that ends first. SUMMARY before
// FORWARD or STATES, and SUMMARY_BACK before BACKWARD, makes the summaries from which the slices start. That is at most three
// launches forward, and five backward.
//
// Where a step multiplies by matrices of parameters, an item may take several batch entries together: where there are more
// entries than multiprocessors.
//
// Everything depends on sizes alone; nothing waits for the device.
#ifndef REC_SUPPORT_GPU_H
#define REC_SUPPORT_GPU_H

#include "runtime/shared/gpu_frame.h"
#include "runtime/shared/simt.h"
#include "runtime/support/call.h"

enum { GPU_SLOTS_MAX = REC_GPU_PARAMETER_BYTES / sizeof(rec_gpu_slot) };

// One kernel to be started.
typedef struct gpu_launch {
  const char *name;
  const rec_table_gpu_kernel *kernel;  // NULL: rec_gpu_sum,
  bool rows;                           // or rec_gpu_rows
  int64_t blocks;
  int threads, shared_bytes;
  const void *parameter;
  int64_t parameter_bytes;
  void *scratch;
  int64_t scratch_bytes;       // of a block
  const simt_region *regions;  // what it may touch
  int region_count;
} gpu_launch;

// Fills a tensor map: the arguments are those of cuTensorMapEncodeTiled, 0 is done.
typedef int gpu_encode(void *map, int type, unsigned rank, void *data, const uint64_t *sizes, const uint64_t *strides,
                       const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill);

typedef struct gpu_device {
  // How many thread blocks the device runs at one time, about: no more are started, each takes several work items.
  int64_t blocks;
  const rec_table_gpu *code;  // the kernels for its shared memory
  // Makes ready what calls of this recurrence start: no call loads anything then. NULL: there is nothing to do.
  rec_status (*load)(const call *call, const struct gpu_device *device);
  rec_status (*launch)(const call *call, const gpu_launch *launch);
  rec_status (*clear)(const call *call, void *at, int64_t bytes);
  rec_status (*copy)(const call *call, void *to, const void *from, int64_t bytes);
  int64_t multiprocessors;  // where there are fewer work items, time is cut into parts
  gpu_encode *encode;       // NULL: no rows are copied in bulk
} gpu_device;

// The device of a kind, if the library holds code for it; else a message.
rec_status gpu_device_find(const call *call, int32_t kind, gpu_device *device);
rec_status gpu_simt_device(const call *call, gpu_device *device);
rec_status gpu_cuda_device(const call *call, gpu_device *device);

// Bytes of workspace and `saved` on a device.
rec_status gpu_sizes_of(const call *call, const gpu_device *device, rec_sizes *sizes);

// Fills the maps of a kernel's parameter, whose slots are there, and says which it has filled.
void gpu_fill_maps(const call *call, const gpu_device *device, const rec_table_gpu_kernel *kernel, unsigned char *parameter);

// Shared memory of a block, whatever its items take.
int gpu_most_shared_bytes(const rec_table_gpu_kernel *kernel);

// Runs a call whose arguments were checked: REC_KERNEL_FORWARD, _STEP or _BACKWARD.
rec_status gpu_run(const call *call, const gpu_device *device, int kind);

#endif
