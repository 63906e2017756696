// How the work of one kernel is cut, and the sums after it. gpu.c and gpu_sums.c share these functions.
#ifndef REC_SUPPORT_GPU_PASS_H
#define REC_SUPPORT_GPU_PASS_H

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
rec_status gpu_place_copies(gpu_sums *sums, const gpu_pass *pass, const rec_table_slot *slot, rec_slot result, char *copies,
                            rec_gpu_slot *placed);
// Runs all sums in one launch.
rec_status gpu_run_sums(const gpu_sums *sums, const gpu_pass *pass);

#endif
