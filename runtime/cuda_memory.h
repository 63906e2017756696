// Memory of GPUs for librec. Released memory is kept and given again. A call with sizes that were
// there before asks the driver for no memory, and nothing waits for the device, as cuMemFree does.
// Memory changes hands in the order of streams. The stream that takes it waits, on the device, for
// all work that the releasing stream had been given by then.
#pragma once

#include "runtime/internal.h"
#include "runtime/support/cuda_driver.h"

// For work on `stream` in the current context; NULL for 0 bytes. Where the GPU has no more, or
// REC_GPU_MEMORY (MiB) is used up, kept memory goes back to the driver, after all work of the
// context. Only then does a message say how much was asked for and how much there is.
rec_status rec_cuda_take(const cuda_driver *driver, cuda_stream stream, int64_t bytes,
                         void **memory);
// `stream` is the one whose work used the memory last; it is not being captured. Memory whose last
// use the driver cannot record is given to nobody before all work of the context is done.
void rec_cuda_give(const cuda_driver *driver, cuda_stream stream, void *memory);  // NULL is allowed
