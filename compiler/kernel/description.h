// Host kernels without compiling them: descriptions for all clones that are asked for, and plans as
// text.
#pragma once

#include "compiler/plan/kernel/description.h"

typedef struct codegen_options {
  int level;             // -O0 .. -O3
  number_type dtype;     // of tokens in memory; NUMBER_F64: everything is, too
  unsigned clones;       // bits 1 << CLONE_.. of one processor; 0: all of what recc runs on
  bool text;             // fill `llvm` (before LLVM's passes) and `assembly`
  const sources *lines;  // -g: the code carries lines of these sources; NULL: no line information
} codegen_options;

// Those that the options ask for, bits.
unsigned codegen_clones(const codegen_options *options);

// What a kernel's slots, scratch and symbols are, without compiling it (tables are laid out before
// codegen_compile).
codegen_kernel codegen_describe(arena *a, const kernel *kernel, codegen_options options);

// For --emit=plan: the plans of kernels, and where their memory lies.
char *codegen_plans(arena *a, const kernel *const *kernels, int count, codegen_clone clone,
                    number_type dtype);

// For --emit=plan, with the names of those targets that have the kernel.
char *codegen_gpu_plans(arena *a, const kernel *const *kernels, int count,
                        codegen_gpu_options options);
