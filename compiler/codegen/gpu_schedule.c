/* Chunk lengths for a GPU: what fits into the shared memory of a block decides.
 *
 *   gla, bf16:   64 steps: 500 KiB outside   32 steps: 180 KiB outside   16 steps: all on chip   ->   16
 */
#include <string.h>

#include "gpu.h"

enum { LONGEST = 64, SHORTEST = 16 };

/* Bytes that a block keeps in its scratch: for each step of a chunk, they are written and read once or more. */
static int64_t outside(arena *a, const recurrence_kernels *kernels, codegen_gpu_options options) {
  int64_t bytes = 0;
  for (int i = 0; i < kernels->kernels.count; i++) {
    const kernel *k = &kernels->kernels.items[i];
    if (k->kind != KERNEL_FORWARD && k->kind != KERNEL_BACKWARD) continue;
    codegen_gpu_kernel described = codegen_gpu_describe(a, k, options);
    if (described.base.scratch.constant > described.history_bytes + 64)
      bytes += (described.base.scratch.constant - described.history_bytes) / k->program->chunk;
  }
  return bytes;
}

recurrence_kernels *codegen_gpu_schedule(arena *a, const recurrence *r, schedule_options schedule,
                                         codegen_gpu_options options) {
  schedule.gpu = true;
  recurrence_kernels *best = NULL;
  int64_t least = 0;
  for (int chunk = LONGEST; chunk >= SHORTEST && !schedule.chunk; chunk /= 2) {
    schedule_options with = schedule;
    with.chunk = chunk;
    recurrence_kernels *kernels = schedule_recurrence(a, r, with);
    if (strcmp(kernels->form, "chunk") != 0) break;
    int64_t bytes = outside(a, kernels, options);
    if (best && bytes >= least) continue;
    best = kernels;
    least = bytes;
    if (!bytes) break;
  }
  return best ? best : schedule_recurrence(a, r, schedule);
}
