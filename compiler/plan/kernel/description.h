// Descriptions of kernels: the slots, scratch and flags that callers must know.
#pragma once

#include "compiler/base/number.h"
#include "compiler/base/source.h"
#include "compiler/plan/machine.h"

// One memory tensor of a kernel: entry `i` describes slots[i] of the frame. Parts of a tensor (real
// and imaginary part, the entries of a lag buffer) share a slot; they are offsets inside it.
typedef struct codegen_slot {
  // INPUT, PARAM, STATE (h0), D_OUTPUT, D_NEXT_STATE (d.hT); OUTPUT, NEXT_STATE (hT), D_INPUT,
  //             D_PARAM, D_STATE (d.h0)
  tile_role role;
  int tensor, lag;  // position in body.tensors or in body.lags; the other is -1
  bool time;        // one entry per step: time_stride is used
  bool per_batch;   // one entry per batch entry; false for parameters and their gradients
  bool narrow;      // stored in the 16-bit type of tokens, if that is one; sums are not
  bool written;
  // the kernel ADDS to the entries: the caller zeroes them before the first instance runs
  bool accumulated;
  // GPU: where one copy of what is accumulated is enough, the kernel writes the tensor itself, told
  // by a copy stride of 0
  bool single;
  // not the state, but what is left of it, or of the state source - 1 (tile_place); with these axes
  bool transfer;
  int source;
  axis_set axes;
  // accumulated: instances that differ only in these grid axes (and in the batch entry, where
  //           per_batch is false) add to the same entries; at one time only one of them may run, or
  //           each has a copy of its own (a partial sum)
  axis_set summed;
} codegen_slot;

// Bytes as a function of the sizes at run time: constant + per_instance * (last - first) + sum of
// terms.
typedef struct codegen_bytes_term {
  int64_t coefficient;
  axis_set axes;  // times the product of the sizes of these axes
} codegen_bytes_term;

typedef struct codegen_bytes {
  int64_t constant, per_instance;
  VEC(codegen_bytes_term) terms;
} codegen_bytes;

// bytes.c: the term of these axes, or NULL.
codegen_bytes_term *codegen_bytes_of(codegen_bytes *bytes, axis_set axes);
// Adds a term to those of the same axes.
void codegen_bytes_add(arena *a, codegen_bytes *bytes, codegen_bytes_term term);

typedef struct codegen_kernel {
  const kernel *kernel;
  const char *symbols[CLONE_COUNT];  // NULL: clone not asked for
  VEC(codegen_slot) slots;
  codegen_bytes scratch;  // 64-byte aligned memory for one call; the largest of the clones
  // Instances of one batch entry: product over kernel.grid_axes of the axis size, times ceil(size
  // of lane_axis / lane_block) if there is a lane axis. Their number in a call is first..last-1;
  // axes in nest order, lane blocks last. chunk form: elements (not bytes) of the state type saved
  // for each chunk before its states
  codegen_bytes kept;
  // frame.saved must hold the chunk-start states and these (BACKWARD with states)
  bool reads_saved;
  bool writes_saved;  // frame.saved is written unless NULL
  bool time_splits;   // no state: any range of steps may be a call of its own
  // GPU: a time slice starts from the summaries of the slices before it (kernel.summary)
  bool combines;
  int chunk;  // steps between saved states
  // host: the kernel for several sequences in one pass over time, chosen by rec_frame.sequences;
  // NULL: there is none
  const kernel *batched;
} codegen_kernel;

// Elements of the state type that one saved chunk-start state takes (frame.saved_chunk_stride must
// be at least that and codegen_kernel.kept).
int64_t codegen_saved_elements(const recurrence *recurrence, const int64_t *axis_sizes);

typedef struct codegen_gpu_kernel {
  codegen_kernel base;          // slots and flags; scratch: of one thread block; no symbols
  const struct gpu_plan *plan;  // what is lowered (plan/kernel_plan.h)
  const char *symbol;           // NULL: not made, `why_not` tells why
  const char *why_not;
  int threads;       // of a block
  int shared_bytes;  // dynamic shared memory of a block
  int parameter_bytes;
  int nests;                     // of a chunk: a barrier stands between one nest and the next
  int wgmma_products, products;  // of a chunk: products by wgmma; all products on tensor cores
  // part of base.scratch: recomputed states before each chunk of a group
  int64_t history_bytes;
  int64_t spill_bytes;  // spilled cotangents of all value-axis tiles, between groups
  int64_t sum_bytes;    // sums over the value-axis tiles of a group
  // elements of a slice summary: of kernel.summary, or of a kernel that makes summaries
  codegen_bytes summary;
  // kernels of summaries: blocks that compute columns of the transition matrix, numbered after
  // those of the lane axis
  int transition_blocks;
  // sequences of a batched work item (rec_gpu_frame.batched_items); 0: each item takes one
  int sequences;
  // shared memory of a block with batched items, in place of shared_bytes,
  int batched_shared_bytes;
  codegen_bytes batched;  // and its scratch, in place of base.scratch
} codegen_gpu_kernel;

struct codegen_gpu_image;

typedef struct codegen_gpu_options {
  number_type dtype;  // not NUMBER_F64
  bool tf32;          // products of f32 operands in tf32, with 10 bits of fraction
  // schedule: shared memory that a thread block may have; 0: 99, which every device has
  int shared_kib;
  bool warpgroups;   // schedule: products by wgmma
  unsigned targets;  // bits 1 << GPU_..
  bool summary;      // code: segments of time are summarised, and their summaries are folded
  bool text;
  int level;             // the executor's code: effort, 0 to 3
  const sources *lines;  // as codegen_options.lines
  // the executor's code says what it costs, with lines of these files; NULL: it does not
  const sources *counted;
  // Called with each image as soon as it is made, or NULL.
  void (*made)(void *context, int image, const struct codegen_gpu_image *made);
  void *context;
} codegen_gpu_options;

// What a kernel's slots, shared memory and symbol will be, without compiling it.
codegen_gpu_kernel codegen_gpu_describe(arena *a, const kernel *kernel,
                                        codegen_gpu_options options);
