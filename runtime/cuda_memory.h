// Memory of GPUs for librec. What is released is kept and given again: a call of sizes that were there before asks the driver
// for no memory, and nothing waits for the device, as cuMemFree does. Memory changes hands in the order of streams: the stream
// that takes it waits on the device until the stream that gave it back has done all work that it had been given by then.
#ifndef REC_RUNTIME_CUDA_MEMORY_H
#define REC_RUNTIME_CUDA_MEMORY_H

#include "runtime/internal.h"
#include "runtime/support/cuda_driver.h"

// For work on `stream` in the current context; NULL for 0 bytes. Where the GPU has no more, or REC_GPU_MEMORY (MiB) is used up,
// what is kept goes back to the driver, after all work of the context, before a message says what was asked for and what there is.
rec_status rec_cuda_take(const cuda_driver *driver, cuda_stream stream, int64_t bytes, void **memory);
// `stream` is the one whose work used the memory last; it is not being captured. Memory whose last use the driver cannot
// record is given to nobody before all work of the context is done.
void rec_cuda_give(const cuda_driver *driver, cuda_stream stream, void *memory);  // NULL is allowed

#endif
