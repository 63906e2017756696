// Kernels of single abstract operations, and what lies where in their memory.
#pragma once

#include <string.h>

#include "compiler/target/target.h"

static inline bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

// A kernel `rec_op_NAME` for each abstract operation, to compare its bodies: op_kernels.c says what
// it does.
enum { GPU_OP_THREADS = 64 };
// The operations of sm_90a alone, except shared_address and fence_async (op_kernels_sm_90a.c), run
// in blocks of a warpgroup with an image of shared memory. After it in `in` come words: four
// descriptors of 64 bits (a, a transposed, b, b transposed), and four registers of a, then sums. Of
// registers, sums and `out` each thread has one of 128 that lie side by side. The parameter: two
// pointers.
enum {
  GPU_GROUP_OP_THREADS = 128,
  GPU_GROUP_OP_SUMS = 32,
  GPU_GROUP_OP_IMAGE = 8192,  // words
  GPU_GROUP_OP_NUMBERS_AT = GPU_GROUP_OP_IMAGE,
  GPU_GROUP_OP_REGISTERS_AT = GPU_GROUP_OP_NUMBERS_AT + 16,
  GPU_GROUP_OP_SUMS_AT = GPU_GROUP_OP_REGISTERS_AT + 4 * GPU_GROUP_OP_THREADS,
  GPU_GROUP_OP_WORDS = GPU_GROUP_OP_SUMS_AT + GPU_GROUP_OP_SUMS * GPU_GROUP_OP_THREADS,
  GPU_GROUP_OP_PARAMETER = 2 * sizeof(void *)
};
// Forms of a product, bits; `out` has its sums behind those of the forms before.
enum { GPU_FORM_MINUS = 1, GPU_FORM_TRANS_B = 2, GPU_FORM_TRANS_A = 4, GPU_FORMS = 8 };
bool gpu_op_has_form(const char *name, int form);
codegen_gpu_object *gpu_op_kernels(arena *a, unsigned targets);
