// A GPU, or the executor, as a place where models run: its memory, and the kernels of models
// (model_kernels.h). They start on the stream NULL, like those of recurrences.
#pragma once

#include "compiler/abi/model_kernels.h"
#include "compiler/abi/simt.h"
#include "runtime/support/cuda_driver.h"
#include "runtime/train/model/compute.h"
#include "runtime/train/model/cublas.h"

typedef struct gpu_place {
  compute base;    // first: what the operations are given
  bool narrow;     // rows are bf16
  int64_t blocks;  // of a launch, at most
  float *sums;     // in its memory: of blocks, of SQUARES_AT_ONCE launches
  char *here;      // on the host, for what is looked at there
  int64_t here_bytes;
  // the executor
  simt_region *regions;  // everything that was allocated
  int region_count;
  size_t region_room;
  // CUDA
  const cuda_driver *driver;
  int pushed;
  cuda_function functions[MODEL_KERNEL_COUNT][2];  // for rows of f32, of bf16
  cublas blas;                                     // opened: false where there is none
} gpu_place;

// `device`: REC_DEVICE_CUDA or REC_DEVICE_SIMT; `tokens`: REC_F32 or REC_BF16. `number`: of the
// GPU; more numbers than GPUs share them in turn. To be closed by the same thread, which is also
// the only one to use it.
rec_status gpu_place_open(int32_t device, int number, rec_dtype tokens, gpu_place **made);
void gpu_place_close(gpu_place *p);  // NULL is allowed

rec_status gpu_allocate(const compute *c, int64_t bytes, void **memory);
void gpu_release(const compute *c, void *memory);
rec_status gpu_upload(const compute *c, void *to, const void *from, int64_t bytes);
rec_status gpu_download(const compute *c, void *to, const void *from, int64_t bytes);
rec_status gpu_copy(const compute *c, void *to, const void *from, int64_t bytes);
rec_status gpu_clear(const compute *c, void *to, int64_t bytes);

// Starts kernel MODEL_.. for `items` work items, each for a block. It is the kernel for rows in
// their type, or for elements in f32, such as weights. Nothing waits for it.
rec_status gpu_start(const compute *c, int kernel, int64_t items, const void *parameter);
rec_status gpu_start_f32(const compute *c, int kernel, int64_t items, const void *parameter);
// How many blocks that starts.
int64_t gpu_blocks(const compute *c, int64_t items);
// Memory of the host for so many bytes, until the next call; NULL: none.
void *gpu_here(const compute *c, int64_t bytes);

// compute_gpu.c
extern const compute_ops gpu_ops_of_models;
