/* The schedule of GPU kernels: chunks, threads and shared memory, chosen by a model of what kernels cost. */
#ifndef REC_KERNEL_GPU_SCHEDULE_H
#define REC_KERNEL_GPU_SCHEDULE_H

#include "compiler/kernel/description.h"

/* schedule_recurrence for a GPU: of the chunk lengths that products like, the longest whose kernels keep everything on
 * chip, or the one that puts least outside. */
recurrence_kernels *codegen_gpu_schedule(arena *a, const recurrence *recurrence, schedule_options schedule,
                                         codegen_gpu_options options);

/* The same with GPU_LARGE_KIB, NULL where that changes little. Kernels that come out as in `small` are those, with one symbol; the others are marked in both
 * (kernel.room). */
recurrence_kernels *codegen_gpu_schedule_large(arena *a, recurrence_kernels *small, schedule_options schedule,
                                               codegen_gpu_options options);

/* The kernels of a recurrence by room; large, groups NULL: as those before. */
typedef struct gpu_forms {
  recurrence_kernels *small, *large, *groups;
} gpu_forms;

/* The same for devices whose warpgroups multiply: `groups`, or they run the others. `has_large`: those of `large` are for some
 * other target, too; else it is no more where there are groups. */
void codegen_gpu_schedule_groups(arena *a, gpu_forms *forms, bool has_large,
                                 schedule_options schedule, codegen_gpu_options options);

#endif
