// The schedule of GPU kernels: chunks, threads and shared memory, chosen by a model of what kernels cost.
#ifndef REC_SCHEDULE_GPU_SCHEDULE_H
#define REC_SCHEDULE_GPU_SCHEDULE_H

#include "compiler/plan/kernel/description.h"
#include "compiler/schedule/schedule.h"

// schedule_recurrence for a GPU: of the chunk lengths that products like, the longest whose kernels keep everything on
// chip, or the one that puts least outside.
recurrence_kernels *codegen_gpu_schedule(arena *a, const recurrence *recurrence, schedule_options schedule,
                                         codegen_gpu_options options);

// schedule/gpu/device_classes.c. Adds forms->large to forms->small: the same with GPU_LARGE_KIB, where a target has as much. NULL where
// that changes little. Kernels that come out as in `small` are those, with one symbol; the others are marked in both
// (kernel.gpu.device_class). options.shared_kib is for all targets: then there is no other form.
void codegen_gpu_schedule_large(arena *a, gpu_forms *forms, schedule_options schedule, codegen_gpu_options options);
// Adds forms->warpgroups behind that, for targets whose warpgroups multiply; NULL: they run the others. Where no other target has
// the memory of forms->large, that was for comparison alone, and goes.
void codegen_gpu_schedule_groups(arena *a, gpu_forms *forms, schedule_options schedule, codegen_gpu_options options);

// Adds the kernels of all forms; one that is for several forms comes once.
void codegen_gpu_add_kernels(arena *a, const gpu_forms *forms, kernel_list *all);
// Whether a target (bits 1 << GPU_..) has the kernel.
bool codegen_gpu_is_for(const kernel *k, unsigned targets);
// Whether a target is of this class, and nothing else is asked for (options.shared_kib).
bool codegen_gpu_has_target(codegen_gpu_options options, device_class device_class);

// schedule/gpu/cache.c: blocks that a multiprocessor runs at a time; whether their scratch stays in the second level cache.
int64_t gpu_blocks_at_a_time(const kernel *k, const codegen_gpu_kernel *described);
bool gpu_stays_in_cache(const kernel *k, const codegen_gpu_kernel *described);

#endif
