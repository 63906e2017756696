// Memory of GPUs for librec. What is released is kept and given again: a call of sizes that were there before asks the driver
// for nothing, and nothing waits for the device, as cuMemFree does. All of librec's work is on the stream NULL, in whose order
// memory changes hands.
#ifndef REC_RUNTIME_CUDA_MEMORY_H
#define REC_RUNTIME_CUDA_MEMORY_H

#include "runtime/internal.h"
#include "runtime/support/cuda_driver.h"

// In the current context; NULL for 0 bytes. Where the GPU has no more, or REC_GPU_MEMORY (MiB) is used up, what is kept goes
// back to the driver before a message says what was asked for and what there is.
rec_status rec_cuda_take(const cuda_driver *driver, int64_t bytes, void **memory);
void rec_cuda_give(void *memory);  // NULL is allowed

#endif
