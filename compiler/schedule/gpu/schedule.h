// The schedule of GPU kernels: chunks, threads and shared memory, chosen by a model of what kernels
// cost.
#pragma once

#include "compiler/plan/kernel/description.h"
#include "compiler/schedule/schedule.h"

// schedule_recurrence for a GPU: the cheapest of the candidates that README.md lists. Each is
// planned once. The kernels carry the plans that they were chosen by.
recurrence_kernels *codegen_gpu_schedule(arena *a, const recurrence *recurrence,
                                         schedule_options schedule, codegen_gpu_options options);

// device_classes.c. Adds forms->large: kernels for GPU_LARGE_KIB of shared memory, where a target
// has as much; NULL where they are hardly cheaper. A kernel that is the same as in `small` is
// shared, with one symbol. The others are marked in both lists (kernel.gpu.device_class). With
// options.shared_kib, one form serves all targets.
void codegen_gpu_schedule_large(arena *a, gpu_forms *forms, schedule_options schedule,
                                codegen_gpu_options options);
// Adds forms->warpgroups, for targets with wgmma; NULL: they run `small`. Call it after
// codegen_gpu_schedule_large, whose kernels are shared where they are the same.
void codegen_gpu_schedule_groups(arena *a, gpu_forms *forms, schedule_options schedule,
                                 codegen_gpu_options options);

// May the forward of one list go with the backward of another? They meet in the saved states, which
// must lie equally far apart.
bool gpu_may_go_together(const recurrence_kernels *forward, const recurrence_kernels *back);

// Adds to each form a second FORWARD and a second BACKWARD for calls with few instances, where they
// take clearly less time. Their blocks have a multiprocessor to themselves, or fewer columns of the
// states. Call it after all others.
void codegen_gpu_schedule_few(arena *a, gpu_forms *forms, codegen_gpu_options options);
// few.c: the same for a kernel of one form.
void gpu_add_few(arena *a, recurrence_kernels *kernels, kernel_kind kind,
                 codegen_gpu_options options);

// Adds the kernels of all forms; a kernel of several forms comes once.
void codegen_gpu_add_kernels(arena *a, const gpu_forms *forms, kernel_list *all);
// Whether a target (bits 1 << GPU_..) has the kernel.
bool codegen_gpu_is_for(const kernel *k, unsigned targets);
// Is a target of this class? False with options.shared_kib, which asks for one form.
bool codegen_gpu_has_target(codegen_gpu_options options, device_class device_class);

// cache.c: blocks that a multiprocessor runs at a time; does their scratch stay in the second-level
// cache?
int64_t gpu_blocks_at_a_time(const codegen_gpu_kernel *described, const gpu_machine *device);
bool gpu_stays_in_cache(const codegen_gpu_kernel *described, const gpu_machine *device);
