// What code is made for: clones of the host by their instruction sets, and GPUs.
#pragma once

#include "compiler/abi/gpu_machine.h"
#include "compiler/base/arena.h"
#include "compiler/base/number.h"
#include "compiler/plan/kernel.h"

typedef enum codegen_clone {
  CLONE_V2,       // x86-64-v2: 128-bit vectors
  CLONE_V3,       // x86-64-v3: 256-bit vectors, FMA
  CLONE_V4,       // x86-64-v4: AVX-512
  CLONE_V4_BF16,  // v4 with AVX512_BF16: libraries of tokens in bf16 have it, no others
  CLONE_X86_COUNT,
  CLONE_NEON = CLONE_X86_COUNT,  // aarch64: 128-bit vectors
  CLONE_COUNT,
  CLONE_GPU = CLONE_COUNT  // no clone of the host: code for one GPU thread, scalars
} codegen_clone;

// A library is for one of them.
typedef enum codegen_processor {
  PROCESSOR_X86_64,
  PROCESSOR_AARCH64,
  PROCESSOR_COUNT,
#if defined(__aarch64__)
  PROCESSOR_HOST = PROCESSOR_AARCH64  // what recc itself runs on
#else
  PROCESSOR_HOST = PROCESSOR_X86_64
#endif
} codegen_processor;

typedef struct processor_row {
  const char *name, *triple;
  codegen_clone first;  // its clones stand side by side
  int count;
} processor_row;

extern const processor_row processor_rows[PROCESSOR_COUNT];

// A row of the table of clones: what the plan and the lowering ask about one.
typedef struct clone_target {
  const char *name, *suffix, *cpu;
  int vector_bytes;
  int vector_registers;
  codegen_processor processor;
  // masked loads and stores; without them the last lanes of an axis go one by one
  bool masks;
  // products fetch ahead what they read next; the oldest processors multiply slowly enough
  bool fetches;
  bool converts_half;  // F16C, fcvtn
  bool masks_halves;   // masked loads and stores of 16-bit numbers
  bool scales;         // x * 2^n is one instruction of 512 bits
  bool pairs;          // an instruction multiplies pairs of bf16 (AVX512_BF16)
} clone_target;

extern const clone_target clone_targets[CLONE_COUNT + 1];  // the last row is the GPU's

// Name and element width for the report: "x86-64-v4", 16 for f32.
const char *codegen_clone_name(codegen_clone clone);
int codegen_lanes(codegen_clone clone, bool f64);

// Sets of clones: bits 1 << CLONE_V2, ... None stands for all of what recc runs on; those that
// multiply bf16 are among them where tokens are in bf16.
unsigned codegen_clones_of(codegen_processor processor);
unsigned codegen_clones_asked(unsigned clones, number_type dtype);
codegen_processor codegen_processor_of(unsigned clones);

typedef enum codegen_gpu_target {
#define GPU_TARGET(target, ...) GPU_##target,
#include "compiler/abi/gpu_targets.def"
#undef GPU_TARGET
  GPU_SIMT,  // the executor
  GPU_TARGET_COUNT
} codegen_gpu_target;

const char *codegen_gpu_target_name(codegen_gpu_target target);  // "sm_80", .., "simt"
int codegen_gpu_capability(codegen_gpu_target target);           // 80: compute capability 8.0
bool codegen_gpu_exact(codegen_gpu_target target);               // not for later devices

// KiB of shared memory, as NVIDIA states them (gpu_targets.def). A thread block may have
// GPU_SMALL_KIB on every device, GPU_LARGE_KIB on targets with CLASS_LARGE. The system takes
// GPU_SYSTEM_KIB for each block from the memory of the multiprocessor.
enum { GPU_SMALL_KIB = 99, GPU_LARGE_KIB = 227, GPU_SYSTEM_KIB = 1 };
device_class codegen_gpu_class(codegen_gpu_target target);
bool codegen_gpu_is_of_class(codegen_gpu_target target, device_class device_class);

// A row of gpu_targets.def, or the executor's.
typedef struct gpu_target_row {
  const char *name;
  int capability;
  bool exact;                  // for no later devices
  device_class device_class;   // whose kernels it has
  codegen_gpu_target text_of;  // LLVM writes the same for it, but for the head
  // LLVM's name of the lowest PTX version that has what it needs; NULL: none
  const char *ptx;
} gpu_target_row;

const gpu_target_row *gpu_target_of(codegen_gpu_target target);
gpu_machine machine_device_of(codegen_gpu_target target);  // not of the executor
