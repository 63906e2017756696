// How the work of one kernel is cut, and the sums after it. gpu.c and gpu_sums.c share these
// functions.
#pragma once

#include "runtime/support/gpu.h"

typedef struct gpu_pass {
  const call *call;
  const gpu_device *device;
  const rec_table_gpu_kernel *kernel;
  int64_t entries, lane_blocks, instances, slices, slice_steps, items, blocks;
  int64_t batched;        // batches of rec_table_kernel.sequences entries
  int64_t copies;         // of a result that all entries add to: batches, plus single entries
  int64_t scratch_bytes;  // of a thread block
} gpu_pass;

static inline const rec_table_gpu_kernel *gpu_kernel_of(const gpu_device *device, int kind) {
  return &device->code->kernels[kind];
}

// How time is cut into slices whose summaries are combined.
typedef struct gpu_time_cut {
  int64_t slices, slice_steps;
  const rec_table_gpu_kernel *maker;  // the kernel of the summaries; NULL: one slice
} gpu_time_cut;

// Where the chunk-start states are.
typedef struct gpu_saved {
  void *data;  // NULL: not wanted
  int64_t entry_stride, chunk_stride, bytes;
} gpu_saved;

// The results that a kernel is asked for: all, none but saved states, or the states that
// call.replaced has.
typedef enum gpu_results { GPU_ALL, GPU_SAVED, GPU_STATES } gpu_results;

// Steps of other segments, before and behind those of the call: no kernel takes them, but slices
// count them.
typedef struct gpu_outside {
  int64_t before, behind;
} gpu_outside;

// A kernel, and what its launch is given.
typedef struct gpu_kernel_run {
  const rec_table_gpu_kernel *kernel;
  gpu_saved saved;
  gpu_results results;
  gpu_time_cut cut;
  rec_gpu_summaries summaries;
  gpu_outside outside;
} gpu_kernel_run;

// gpu.c. Elements of a slice summary, in whole cache lines.
int64_t gpu_summary_stride(const call *call, const rec_table_gpu_kernel *maker);
gpu_saved gpu_saved_of(const call *call, const gpu_device *device);
// Workspace of a kernel; of one with the kernel of its summaries, cut as the runtime chooses.
int64_t gpu_kernel_bytes(const call *call, const gpu_device *device,
                         const rec_table_gpu_kernel *kernel, gpu_time_cut cut);
int64_t gpu_kind_bytes(const call *call, const gpu_device *device, int kind);
rec_status gpu_run_kernel(const call *call, const gpu_device *device, const gpu_kernel_run *run,
                          char *workspace);
// Makes the slice summaries, then runs the kernel on the slices. With one slice it runs the kernel
// alone.
rec_status gpu_run_kind(const call *call, const gpu_device *device, int kind, gpu_results results,
                        gpu_saved saved, char *workspace);

// Bytes of the copies of a result to which items add.
int64_t gpu_copies_bytes(const gpu_pass *pass, const rec_table_slot *slot);
// Are there copies? A single copy is the result itself, unless the result has 16 bits.
bool gpu_has_copies(const gpu_pass *pass, const rec_table_slot *slot);

// Sums of a launch. Copies lie one after another in the order of their tasks.
typedef struct gpu_sums {
  rec_gpu_sums all;
  bool wanted;  // some result is wanted
} gpu_sums;

// `copies` take the place of a result, whose data is NULL where it is not wanted.
rec_status gpu_place_copies(gpu_sums *sums, const gpu_pass *pass, const rec_table_slot *slot,
                            rec_slot result, char *copies, rec_gpu_slot *placed);
// Runs all sums in one launch.
rec_status gpu_run_sums(const gpu_sums *sums, const gpu_pass *pass);
