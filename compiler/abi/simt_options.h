// What rec_launch.stream points to on the device REC_DEVICE_SIMT, if it is not NULL.
#pragma once

#include "compiler/abi/simt.h"

typedef struct rec_simt_options {
  uint64_t size;  // sizeof(rec_simt_options)
  uint64_t seed;  // decides the order in which warps run
  // counts are added here, on one thread of the host; NULL: nothing is counted
  simt_counts *counts;
  int64_t skipped_barrier, skipped_wait;  // as in simt_launch
  int64_t launches;                       // kernels started since the caller set it
  // With counts: told what every kernel has read and written of a tensor, as block_read_bytes
  // counts; or NULL.
  void (*report)(void *context, const char *kernel, const char *tensor, int64_t read,
                 int64_t written);
  void *context;
  int64_t skipped_fence;  // as in simt_launch
  // With counts: the second-level cache of the device, and the shared memory and the threads of a
  // multiprocessor, which say how many blocks run at a time. 0: all scratch stays in the cache.
  int64_t cache_bytes, shared_bytes, threads;
  simt_cost *cost;  // as in simt_launch, of all kernels; NULL: nothing is counted
  int64_t watched;  // not 0: as in simt_launch; needs a thread of the host alone
} rec_simt_options;
