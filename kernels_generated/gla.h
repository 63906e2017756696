/* The parameters of GPU kernels compiled by recc 0.1.0 from gla.rec.
 *
 * The PTX is what recc prints with --emit=ptx and the same options. A launch: fill NAME_parameter (its pointers are the
 * device's; a slot without data is absent), set frame.blocks to NAME_items, give frame.scratch NAME_scratch_bytes for each
 * block, and hand the struct to cuLaunchKernel as the only parameter. Sizes of axes that the code fixes must be those.
 * NAME_large takes the place of NAME in the PTX of targets whose devices have 227 KiB of shared memory for a block.
 * NAME_groups takes its place in the PTX for sm_90a: with products by warpgroups. */
#ifndef REC_GPU_GLA_H
#define REC_GPU_GLA_H

// The parameter of a GPU kernel, and how its work items are numbered. Generated code
// (compiler/kernel/gpu) and the support code that fills the parameter must agree.
//
// The bytes of the parameter: a rec_gpu_frame, int64_t axis_size[] by the recurrence's axis,
// rec_gpu_slot slots[] as codegen_kernel.slots has them.
//
// A thread block takes the work items block, block + grid, ..; an item is
//   (entry * slices + slice) * instances + instance
// entry: batch entry or packed sequence.
// slice: at most slice_steps steps, from slice * slice_steps on. There is 1 slice except for
// kernels without states (codegen_kernel.time_splits), and for kernels that combine summaries. The
// latter come in pairs: NAME_part, then NAME_forward or NAME_states; NAME_part_backward, then
// NAME_backward. The first of the two stores in `summaries` the states that each slice makes of
// zero states, and their transition. With slices == 1 the second runs alone and reads neither
// slice_steps nor summaries. instance: indices of the kernel's grid axes in nest order, and last
// the block of the lane axis (lane_block entries), if there is one. Kernels that summarise states
// which mix their entries have transition blocks behind those. They compute the columns of the
// transition matrix of a slice (compiler/kernel/gpu/time_slices/transition_matrices.c).
//
// Kernels whose steps multiply by matrices of parameters may take several entries in one pass over
// time (rec_table_kernel.sequences). Their first items are batches of so many entries; single
// entries follow. batched_items is the number of batched items. Copies are counted by batches and
// single entries. Packed sequences come one by one.
//
// A result that several items add to (codegen_slot.accumulated) has a copy for each item;
// rec_gpu_sum adds the copies in order. The number of a copy counts, outermost first: entries
// (where the memory has none), slices (where it has no time), then summed grid axes. Lane blocks
// come last, where the lane axis is summed. Items with the same copy write different numbers of it;
// together they write all of them. Copies hold f32.
#pragma once

#include <stdint.h>

enum { REC_GPU_PARAMETER_BYTES = 4000 };  // at most; CUDA allows 4096

typedef struct rec_gpu_slot {
  void *data;  // NULL: absent, reads 0; not wanted, is not written
  // numbers between entries; packed: 0 for tokens, which begin at step cu_seqlens[entry]
  int64_t batch_stride;
  int64_t time_stride;
  int64_t copy_stride;  // accumulated: numbers between copies
} rec_gpu_slot;

// Slice summaries.
typedef struct rec_gpu_summaries {
  float *data;     // [entry][slice][numbers], see above; NULL: there is none
  int64_t stride;  // elements between the summaries of two slices
} rec_gpu_summaries;

typedef struct rec_gpu_frame {
  int64_t entries;
  int64_t time;                 // steps of every entry; not read with cu_seqlens
  const int32_t *cu_seqlens;    // on the device, entries + 1 of them; NULL: not packed
  int64_t blocks;               // work items
  int64_t slices, slice_steps;  // slice_steps: a multiple of the chunk
  void *saved;                  // chunk-start states, f32; NULL: not wanted
  // numbers; packed: sequence i begins at chunk number cu_seqlens[i] / chunk + i
  int64_t saved_entry_stride;
  int64_t saved_chunk_stride;
  void *scratch;
  int64_t scratch_stride;       // bytes between the scratch of one thread block and the next
  rec_gpu_summaries summaries;  // of states, or backward of cotangents
  // kernels with batches: the first items are batches, so many of them
  int64_t batched_items;
} rec_gpu_frame;

// A sum: to[entry][step][number] = sum of the copies, in order.
typedef struct rec_gpu_sum_task {
  void *to;  // NULL: not wanted
  int64_t to_entry_stride, to_step_stride;
  uint32_t numbers;                          // of one step
  uint32_t copies : 28, stored : 2, of : 2;  // stored: REC_STORED_.. of `to`; of: REC_GPU_OF_..
} rec_gpu_sum_task;

// The rows of a result: one for all; one for each of `entries`; one for each step of each of
// `batch`.
enum { REC_GPU_OF_ALL, REC_GPU_OF_ENTRY, REC_GPU_OF_STEP };

// Sums of one kernel: in front of their tasks.
typedef struct rec_gpu_sum_list {
  int64_t count;  // of tasks
  // of the first task: [copy][entry][step][number], dense; those of the next begin behind them, at
  // a multiple of 64 bytes
  const float *copies;
  int64_t batch, entries, steps;
} rec_gpu_sum_list;

// The parameter of the kernel `rec_gpu_sum`: REC_GPU_SUM_THREADS threads in a block, any number of
// blocks. A task takes no more room than a slot, so that there is room for all sums that a kernel
// may have.
enum {
  REC_GPU_SUM_TASKS =
      (REC_GPU_PARAMETER_BYTES - sizeof(rec_gpu_sum_list)) / sizeof(rec_gpu_sum_task),
  REC_GPU_SUM_THREADS = 256
};

typedef struct rec_gpu_sums {
  rec_gpu_sum_list list;
  rec_gpu_sum_task tasks[REC_GPU_SUM_TASKS];
} rec_gpu_sums;

_Static_assert(sizeof(rec_gpu_sums) <= REC_GPU_PARAMETER_BYTES,
               "a parameter is at most 4096 bytes");
_Static_assert(sizeof(rec_gpu_sum_task) <= sizeof(rec_gpu_slot) &&
                   sizeof(rec_gpu_sum_list) <= sizeof(rec_gpu_frame),
               "a kernel whose slots have room has room for their sums");

/* ---- gla_forward ---- */

#define GLA_FORWARD_SYMBOL "rec_kernel_gla_forward_gpu"
enum { GLA_FORWARD_THREADS = 256, GLA_FORWARD_SHARED_BYTES = 81280, GLA_FORWARD_CHUNK = 128 };
typedef struct gla_forward_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot q;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot k;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot v;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot h0_S;  /* [batch,H,K,V], f32 */
  rec_gpu_slot y;  /* [batch,time,H,V], bf16: written */
  rec_gpu_slot hT_S;  /* [batch,H,K,V], f32: written */
} gla_forward_parameter;
_Static_assert(sizeof(gla_forward_parameter) == 360, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_forward_items(const gla_forward_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H;
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_forward_scratch_bytes(const gla_forward_parameter *parameter) {
  (void)parameter;
  return 4160;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t gla_forward_summary_elements(const gla_forward_parameter *parameter) {
  (void)parameter;
  return 0 + 1 * parameter->H * parameter->K * parameter->V + 1 * parameter->H * parameter->K + 8 * parameter->H;
}

/* ---- gla_step ---- */

#define GLA_STEP_SYMBOL "rec_kernel_gla_step_gpu"
enum { GLA_STEP_THREADS = 256, GLA_STEP_SHARED_BYTES = 33664 };
typedef struct gla_step_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot q;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot k;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot v;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot h0_S;  /* [batch,H,K,V], f32 */
  rec_gpu_slot hT_S;  /* [batch,H,K,V], f32: written */
  rec_gpu_slot y;  /* [batch,time,H,V], bf16: written */
} gla_step_parameter;
_Static_assert(sizeof(gla_step_parameter) == 360, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_step_items(const gla_step_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H;
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_step_scratch_bytes(const gla_step_parameter *parameter) {
  (void)parameter;
  return 0;
}

/* ---- gla_states ---- */

#define GLA_STATES_SYMBOL "rec_kernel_gla_states_gpu"
enum { GLA_STATES_THREADS = 256, GLA_STATES_SHARED_BYTES = 49536, GLA_STATES_CHUNK = 128 };
typedef struct gla_states_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot k;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot v;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot h0_S;  /* [batch,H,K,V], f32 */
  rec_gpu_slot hT_S;  /* [batch,H,K,V], f32: written */
} gla_states_parameter;
_Static_assert(sizeof(gla_states_parameter) == 296, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_states_items(const gla_states_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H;
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_states_scratch_bytes(const gla_states_parameter *parameter) {
  (void)parameter;
  return 0;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t gla_states_summary_elements(const gla_states_parameter *parameter) {
  (void)parameter;
  return 0 + 1 * parameter->H * parameter->K * parameter->V + 1 * parameter->H * parameter->K + 8 * parameter->H;
}

/* ---- gla_backward ---- */

#define GLA_BACKWARD_SYMBOL "rec_kernel_gla_backward_gpu"
enum { GLA_BACKWARD_THREADS = 256, GLA_BACKWARD_SHARED_BYTES = 100608, GLA_BACKWARD_CHUNK = 128 };
typedef struct gla_backward_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot q;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot k;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot v;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot d_y;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot d_hT_S;  /* [batch,H,K,V], f32 */
  rec_gpu_slot d_q;  /* [batch,time,H,K], bf16: written */
  rec_gpu_slot d_k;  /* [batch,time,H,K], bf16: written */
  rec_gpu_slot d_v;  /* [batch,time,H,V], bf16: written */
  rec_gpu_slot d_gate;  /* [batch,time,H,K], bf16: written */
  rec_gpu_slot d_h0_S;  /* [batch,H,K,V], f32: written */
} gla_backward_parameter;
_Static_assert(sizeof(gla_backward_parameter) == 488, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_backward_items(const gla_backward_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H;
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_backward_scratch_bytes(const gla_backward_parameter *parameter) {
  (void)parameter;
  return 155712;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t gla_backward_summary_elements(const gla_backward_parameter *parameter) {
  (void)parameter;
  return 0 + 1 * parameter->H * parameter->K * parameter->V + 1 * parameter->H * parameter->K + 8 * parameter->H;
}

/* ---- gla_part ---- */

#define GLA_PART_SYMBOL "rec_kernel_gla_part_gpu"
enum { GLA_PART_THREADS = 256, GLA_PART_SHARED_BYTES = 49792 };
typedef struct gla_part_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot k;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot v;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
} gla_part_parameter;
_Static_assert(sizeof(gla_part_parameter) == 232, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_part_items(const gla_part_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H;
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_part_scratch_bytes(const gla_part_parameter *parameter) {
  (void)parameter;
  return 0;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t gla_part_summary_elements(const gla_part_parameter *parameter) {
  (void)parameter;
  return 0 + 1 * parameter->H * parameter->K * parameter->V + 1 * parameter->H * parameter->K + 8 * parameter->H;
}

/* ---- gla_part_backward ---- */

#define GLA_PART_BACKWARD_SYMBOL "rec_kernel_gla_part_backward_gpu"
enum { GLA_PART_BACKWARD_THREADS = 256, GLA_PART_BACKWARD_SHARED_BYTES = 60032 };
typedef struct gla_part_backward_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot q;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot d_y;  /* [batch,time,H,V], bf16 */
} gla_part_backward_parameter;
_Static_assert(sizeof(gla_part_backward_parameter) == 232, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_part_backward_items(const gla_part_backward_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H;
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_part_backward_scratch_bytes(const gla_part_backward_parameter *parameter) {
  (void)parameter;
  return 0;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t gla_part_backward_summary_elements(const gla_part_backward_parameter *parameter) {
  (void)parameter;
  return 0 + 1 * parameter->H * parameter->K * parameter->V + 1 * parameter->H * parameter->K + 8 * parameter->H;
}

/* ---- gla_backward_large ---- */

#define GLA_BACKWARD_LARGE_SYMBOL "rec_kernel_gla_backward_large_gpu"
enum { GLA_BACKWARD_LARGE_THREADS = 128, GLA_BACKWARD_LARGE_SHARED_BYTES = 115584, GLA_BACKWARD_LARGE_CHUNK = 128 };
typedef struct gla_backward_large_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot q;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot k;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot v;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot d_y;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot d_hT_S;  /* [batch,H,K,V], f32 */
  rec_gpu_slot d_q;  /* [batch,time,H,K], bf16: written */
  rec_gpu_slot d_k;  /* [batch,time,H,K], bf16: written */
  rec_gpu_slot d_v;  /* [batch,time,H,V], bf16: written */
  rec_gpu_slot d_gate;  /* [batch,time,H,K], bf16: written */
  rec_gpu_slot d_h0_S;  /* [batch,H,K,V], f32: written */
} gla_backward_large_parameter;
_Static_assert(sizeof(gla_backward_large_parameter) == 488, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_backward_large_items(const gla_backward_large_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H;
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_backward_large_scratch_bytes(const gla_backward_large_parameter *parameter) {
  (void)parameter;
  return 131136;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t gla_backward_large_summary_elements(const gla_backward_large_parameter *parameter) {
  (void)parameter;
  return 0 + 1 * parameter->H * parameter->K * parameter->V + 1 * parameter->H * parameter->K + 8 * parameter->H;
}

/* ---- gla_backward_large_few ---- */

#define GLA_BACKWARD_LARGE_FEW_SYMBOL "rec_kernel_gla_backward_large_few_gpu"
enum { GLA_BACKWARD_LARGE_FEW_THREADS = 256, GLA_BACKWARD_LARGE_FEW_SHARED_BYTES = 207616, GLA_BACKWARD_LARGE_FEW_CHUNK = 128 };
typedef struct gla_backward_large_few_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot q;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot k;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot v;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot d_y;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot d_hT_S;  /* [batch,H,K,V], f32 */
  rec_gpu_slot d_q;  /* [batch,time,H,K], f32, in copies: written */
  rec_gpu_slot d_k;  /* [batch,time,H,K], f32, in copies: written */
  rec_gpu_slot d_v;  /* [batch,time,H,V], bf16: written */
  rec_gpu_slot d_gate;  /* [batch,time,H,K], f32, in copies: written */
  rec_gpu_slot d_h0_S;  /* [batch,H,K,V], f32: written */
} gla_backward_large_few_parameter;
_Static_assert(sizeof(gla_backward_large_few_parameter) == 488, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_backward_large_few_items(const gla_backward_large_few_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H * ((parameter->V + 63) / 64);
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_backward_large_few_scratch_bytes(const gla_backward_large_few_parameter *parameter) {
  (void)parameter;
  return 32832;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t gla_backward_large_few_summary_elements(const gla_backward_large_few_parameter *parameter) {
  (void)parameter;
  return 0 + 1 * parameter->H * parameter->K * parameter->V + 1 * parameter->H * parameter->K + 8 * parameter->H;
}
/* Copies of d_q for rec_gpu_sum to add up. */
static inline int64_t gla_backward_large_few_copies_d_q(const gla_backward_large_few_parameter *parameter) {
  (void)parameter;
  return 1 * ((parameter->V + 63) / 64);
}
/* Copies of d_k for rec_gpu_sum to add up. */
static inline int64_t gla_backward_large_few_copies_d_k(const gla_backward_large_few_parameter *parameter) {
  (void)parameter;
  return 1 * ((parameter->V + 63) / 64);
}
/* Copies of d_gate for rec_gpu_sum to add up. */
static inline int64_t gla_backward_large_few_copies_d_gate(const gla_backward_large_few_parameter *parameter) {
  (void)parameter;
  return 1 * ((parameter->V + 63) / 64);
}

/* ---- gla_forward_groups ---- */

#define GLA_FORWARD_GROUPS_SYMBOL "rec_kernel_gla_forward_groups_gpu"
enum { GLA_FORWARD_GROUPS_THREADS = 256, GLA_FORWARD_GROUPS_SHARED_BYTES = 106496, GLA_FORWARD_GROUPS_CHUNK = 128 };
typedef struct gla_forward_groups_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot q;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot k;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot v;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot h0_S;  /* [batch,H,K,V], f32 */
  rec_gpu_slot y;  /* [batch,time,H,V], bf16: written */
  rec_gpu_slot hT_S;  /* [batch,H,K,V], f32: written */
} gla_forward_groups_parameter;
_Static_assert(sizeof(gla_forward_groups_parameter) == 360, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_forward_groups_items(const gla_forward_groups_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H;
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_forward_groups_scratch_bytes(const gla_forward_groups_parameter *parameter) {
  (void)parameter;
  return 0;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t gla_forward_groups_summary_elements(const gla_forward_groups_parameter *parameter) {
  (void)parameter;
  return 0 + 1 * parameter->H * parameter->K * parameter->V + 1 * parameter->H * parameter->K + 8 * parameter->H;
}

/* ---- gla_states_groups ---- */

#define GLA_STATES_GROUPS_SYMBOL "rec_kernel_gla_states_groups_gpu"
enum { GLA_STATES_GROUPS_THREADS = 256, GLA_STATES_GROUPS_SHARED_BYTES = 50176, GLA_STATES_GROUPS_CHUNK = 128 };
typedef struct gla_states_groups_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot k;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot v;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot h0_S;  /* [batch,H,K,V], f32 */
  rec_gpu_slot hT_S;  /* [batch,H,K,V], f32: written */
} gla_states_groups_parameter;
_Static_assert(sizeof(gla_states_groups_parameter) == 296, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_states_groups_items(const gla_states_groups_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H;
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_states_groups_scratch_bytes(const gla_states_groups_parameter *parameter) {
  (void)parameter;
  return 0;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t gla_states_groups_summary_elements(const gla_states_groups_parameter *parameter) {
  (void)parameter;
  return 0 + 1 * parameter->H * parameter->K * parameter->V + 1 * parameter->H * parameter->K + 8 * parameter->H;
}

/* ---- gla_backward_groups ---- */

#define GLA_BACKWARD_GROUPS_SYMBOL "rec_kernel_gla_backward_groups_gpu"
enum { GLA_BACKWARD_GROUPS_THREADS = 256, GLA_BACKWARD_GROUPS_SHARED_BYTES = 230400, GLA_BACKWARD_GROUPS_CHUNK = 128 };
typedef struct gla_backward_groups_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot q;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot k;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot v;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot d_y;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot d_hT_S;  /* [batch,H,K,V], f32 */
  rec_gpu_slot d_q;  /* [batch,time,H,K], bf16: written */
  rec_gpu_slot d_k;  /* [batch,time,H,K], bf16: written */
  rec_gpu_slot d_v;  /* [batch,time,H,V], bf16: written */
  rec_gpu_slot d_gate;  /* [batch,time,H,K], bf16: written */
  rec_gpu_slot d_h0_S;  /* [batch,H,K,V], f32: written */
} gla_backward_groups_parameter;
_Static_assert(sizeof(gla_backward_groups_parameter) == 488, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_backward_groups_items(const gla_backward_groups_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H;
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_backward_groups_scratch_bytes(const gla_backward_groups_parameter *parameter) {
  (void)parameter;
  return 65600;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t gla_backward_groups_summary_elements(const gla_backward_groups_parameter *parameter) {
  (void)parameter;
  return 0 + 1 * parameter->H * parameter->K * parameter->V + 1 * parameter->H * parameter->K + 8 * parameter->H;
}

/* ---- gla_part_groups ---- */

#define GLA_PART_GROUPS_SYMBOL "rec_kernel_gla_part_groups_gpu"
enum { GLA_PART_GROUPS_THREADS = 256, GLA_PART_GROUPS_SHARED_BYTES = 51200 };
typedef struct gla_part_groups_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot k;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot v;  /* [batch,time,H,V], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
} gla_part_groups_parameter;
_Static_assert(sizeof(gla_part_groups_parameter) == 232, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_part_groups_items(const gla_part_groups_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H;
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_part_groups_scratch_bytes(const gla_part_groups_parameter *parameter) {
  (void)parameter;
  return 0;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t gla_part_groups_summary_elements(const gla_part_groups_parameter *parameter) {
  (void)parameter;
  return 0 + 1 * parameter->H * parameter->K * parameter->V + 1 * parameter->H * parameter->K + 8 * parameter->H;
}

/* ---- gla_part_backward_groups ---- */

#define GLA_PART_BACKWARD_GROUPS_SYMBOL "rec_kernel_gla_part_backward_groups_gpu"
enum { GLA_PART_BACKWARD_GROUPS_THREADS = 256, GLA_PART_BACKWARD_GROUPS_SHARED_BYTES = 88064 };
typedef struct gla_part_backward_groups_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t K;  /* 64 */
  int64_t V;  /* 128 */
  rec_gpu_slot q;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot gate;  /* [batch,time,H,K], bf16 */
  rec_gpu_slot d_y;  /* [batch,time,H,V], bf16 */
} gla_part_backward_groups_parameter;
_Static_assert(sizeof(gla_part_backward_groups_parameter) == 232, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t gla_part_backward_groups_items(const gla_part_backward_groups_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * parameter->H;
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t gla_part_backward_groups_scratch_bytes(const gla_part_backward_groups_parameter *parameter) {
  (void)parameter;
  return 0;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t gla_part_backward_groups_summary_elements(const gla_part_backward_groups_parameter *parameter) {
  (void)parameter;
  return 0 + 1 * parameter->H * parameter->K * parameter->V + 1 * parameter->H * parameter->K + 8 * parameter->H;
}

#endif
