// Kernels of torch's operators (torch_abi.c), each behind a thunk that adds the recurrence.
// `stack`: the arguments, then the results, as torch's stable C ABI has them (StableIValue).
// Returns 1; with NULL as stack whether torch has what the kernel needs.
#pragma once

#include "compiler/abi/library.h"

int64_t rec_forward_torch(const rec_variants *recurrence, uint64_t *stack);
int64_t rec_save_torch(const rec_variants *recurrence, uint64_t *stack);
int64_t rec_step_torch(const rec_variants *recurrence, uint64_t *stack);
int64_t rec_backward_torch(const rec_variants *recurrence, uint64_t *stack);
