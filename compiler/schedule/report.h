// The report for people about kernels: what runs, why, and what it costs.
#pragma once

#include "compiler/base/number.h"
#include "compiler/plan/kernel/description.h"
#include "compiler/schedule/schedule.h"

// The lines behind recurrence_report. `dtype`: of inputs and outputs.
char *schedule_report(arena *arena, const recurrence_kernels *kernels, number_type dtype);

// What the cost model counts of each form, a step, and what that costs; first what was chosen
// (--emit=cost).
char *schedule_costs(arena *arena, const recurrence_kernels *kernels);

// How summaries of segments are joined with states, or backward with cotangents: "h by [G,R]".
// NULL: there are none.
const char *schedule_summary_text(arena *arena, const recurrence_kernels *kernels, bool back);

// "46.88 k * H operations a step, 1152 * H bytes", of KERNEL_FORWARD or KERNEL_BACKWARD.
char *schedule_report_step(arena *arena, const recurrence_kernels *kernels, number_type dtype,
                           kernel_kind kind);

// What a GPU kernel takes of a multiprocessor.
typedef struct report_resources {
  int threads;
  int64_t shared_bytes, scratch_bytes;  // of a block: of shared memory, of scratch
  int launches;                         // at most
  int products, wgmma_products;         // of a chunk, and those of them that warpgroups may make
} report_resources;

// Lines for the GPU behind those: the kernels made for it, forward and backward, and when those for
// few instances are taken. `resources`: by kernel. `kib`: for GPUs with so much shared memory for a
// thread block, 0: for all.
char *schedule_report_gpu(arena *arena, const recurrence_kernels *kernels,
                          codegen_gpu_options options, const report_resources *resources, int kib);
