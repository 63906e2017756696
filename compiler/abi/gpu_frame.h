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
