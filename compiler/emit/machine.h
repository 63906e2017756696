// What code is made for: clones of the host by their instruction sets, and GPUs.
#ifndef REC_EMIT_MACHINE_H
#define REC_EMIT_MACHINE_H

#include "compiler/base/arena.h"
#include "compiler/base/number.h"
#include "compiler/schedule/kernel.h"

typedef enum codegen_clone {
  CLONE_V2,  // x86-64-v2: 128-bit vectors
  CLONE_V3,  // x86-64-v3: 256-bit vectors, FMA
  CLONE_V4,  // x86-64-v4: AVX-512
  CLONE_COUNT,
  CLONE_GPU = CLONE_COUNT  // no clone of the host: code for one GPU thread, scalars
} codegen_clone;

// Name and element width for the report: "x86-64-v4", 16 for f32.
const char *codegen_clone_name(codegen_clone clone);
int codegen_lanes(codegen_clone clone, bool f64);

typedef enum codegen_gpu_target {
  GPU_SM_80,  // runs on every later device, too
  GPU_SM_90A,
  GPU_SM_100A,
  GPU_SM_120,
  GPU_SIMT,  // the executor
  GPU_TARGET_COUNT
} codegen_gpu_target;

const char *codegen_gpu_target_name(codegen_gpu_target target);  // "sm_80", .., "simt"
int codegen_gpu_capability(codegen_gpu_target target);           // 80: compute capability 8.0
bool codegen_gpu_exact(codegen_gpu_target target);               // not for later devices

// KiB of shared memory, as NVIDIA states them: that a thread block may have on every device, and on those of the targets with
// ROOM_LARGE; that the system takes for each block from what a multiprocessor has for all (kernel/gpu/devices.def).
enum { GPU_SMALL_KIB = 99, GPU_LARGE_KIB = 227, GPU_SYSTEM_KIB = 1 };
kernel_room codegen_gpu_room(codegen_gpu_target target);
bool codegen_gpu_has_room(codegen_gpu_target target, kernel_room room);

const char *codegen_llvm_version(arena *a);

#endif
