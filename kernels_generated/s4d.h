/* The parameters of GPU kernels compiled by recc 0.1.0 from s4d.rec.
 *
 * The PTX is what recc prints with --emit=ptx and the same options. A launch: fill NAME_parameter (its pointers are the
 * device's; a slot without data is absent), set frame.blocks to NAME_items, give frame.scratch NAME_scratch_bytes for each
 * block, and hand the struct to cuLaunchKernel as the only parameter. Sizes of axes that the code fixes must be those.
 * NAME_large takes the place of NAME in the PTX of targets whose devices have 227 KiB of shared memory for a block.
 * NAME_groups takes its place in the PTX for sm_90a: with products by warpgroups. */
#ifndef REC_GPU_S4D_H
#define REC_GPU_S4D_H

// The parameter of a GPU kernel, and how its work items are numbered. Generated code (compiler/kernel/gpu) and the support code
// that fills the parameter must agree.
//
// The bytes of the parameter: a rec_gpu_frame, int64_t axis_size[] by the recurrence's axis, rec_gpu_slot slots[] as
// codegen_kernel.slots has them. Kernels that may use bulk copies (sm_90a) then have an int64_t mapped. From the next multiple
// of 128 on follow rec_gpu_map maps[], as in codegen_gpu_kernel.maps. Bit i of `mapped` says that maps[i] is filled. Rows
// without a map are copied by 16 bytes.
//
// A thread block takes the work items block, block + grid, ..; an item is
//   (entry * slices + slice) * instances + instance
// entry: batch entry or packed sequence.
// slice: at most slice_steps steps, from slice * slice_steps on. There is 1 slice except for kernels without states
// (codegen_kernel.time_splits), and for kernels that combine summaries. The latter come in pairs: NAME_part, then NAME_forward or
// NAME_states; NAME_part_backward, then NAME_backward. The first of the two stores in `summaries` the states that each slice makes
// of zero states, and their transition. With slices == 1 the second runs alone and reads neither slice_steps nor summaries.
// instance: indices of the kernel's grid axes in nest order, and last the block of the lane axis (lane_block entries), if there is
// one. Kernels that summarise states which mix their entries have transition blocks behind those. They compute the columns of the
// transition matrix of a slice (compiler/kernel/gpu/time_slices/transition_matrices.c).
//
// Kernels whose steps multiply by matrices of parameters may take several entries in one pass over time
// (rec_table_kernel.sequences). Their first items are batches of so many entries; single entries follow. batched_items is the
// number of batched items. Copies are counted by batches and single entries. Packed sequences come one by one.
//
// A result that several items add to (codegen_slot.accumulated) has a copy for each item; rec_gpu_sum adds the copies in order.
// The number of a copy counts, outermost first: entries (where the memory has none), slices (where it has no time), then summed
// grid axes. Lane blocks come last, where the lane axis is summed. Items with the same copy write different numbers of it;
// together they write all of them. Copies hold f32.
#ifndef REC_SUPPORT_GPU_FRAME_H
#define REC_SUPPORT_GPU_FRAME_H

#include <stdint.h>

enum { REC_GPU_PARAMETER_BYTES = 4000 };  // at most; CUDA allows 4096

typedef struct rec_gpu_slot {
  void *data;            // NULL: absent, reads 0; not wanted, is not written
  int64_t batch_stride;  // numbers between entries; packed: 0 for tokens, which begin at step cu_seqlens[entry]
  int64_t time_stride;
  int64_t copy_stride;  // accumulated: numbers between copies
} rec_gpu_slot;

// A CUtensorMap of the tokens of a slot, elements of 16 bits (CU_TENSOR_MAP_DATA_TYPE_UINT16). Its four dimensions are columns,
// rows of so many columns in a step, steps, and batch entries (packed: one). A box is so many columns of so many steps.
typedef struct rec_gpu_map {
  _Alignas(128) unsigned char bytes[128];
} rec_gpu_map;

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
  int64_t saved_entry_stride;   // numbers; packed: sequence i begins at chunk number cu_seqlens[i] / chunk + i
  int64_t saved_chunk_stride;
  void *scratch;
  int64_t scratch_stride;       // bytes between the scratch of one thread block and the next
  rec_gpu_summaries summaries;  // of states, or backward of cotangents
  int64_t batched_items;        // kernels with batches: the first items are batches, so many of them
} rec_gpu_frame;

// A sum: to[entry][step][number] = sum of the copies, in order.
typedef struct rec_gpu_sum_task {
  void *to;  // NULL: not wanted
  int64_t to_entry_stride, to_step_stride;
  uint32_t numbers;                          // of one step
  uint32_t copies : 28, stored : 2, of : 2;  // stored: REC_STORED_.. of `to`; of: REC_GPU_OF_..
} rec_gpu_sum_task;

// The rows of a result: one for all; one for each of `entries`; one for each step of each of `batch`.
enum { REC_GPU_OF_ALL, REC_GPU_OF_ENTRY, REC_GPU_OF_STEP };

// Sums of one kernel: in front of their tasks.
typedef struct rec_gpu_sum_list {
  int64_t count;        // of tasks
  const float *copies;  // of the first task: [copy][entry][step][number], dense; those of the next begin behind them, at
                        // a multiple of 64 bytes
  int64_t batch, entries, steps;
} rec_gpu_sum_list;

// The parameter of the kernel `rec_gpu_sum`: REC_GPU_SUM_THREADS threads in a block, any number of blocks. A task takes no more room
// than a slot, so that there is room for all sums that a kernel may have.
enum {
  REC_GPU_SUM_TASKS = (REC_GPU_PARAMETER_BYTES - sizeof(rec_gpu_sum_list)) / sizeof(rec_gpu_sum_task),
  REC_GPU_SUM_THREADS = 256
};

typedef struct rec_gpu_sums {
  rec_gpu_sum_list list;
  rec_gpu_sum_task tasks[REC_GPU_SUM_TASKS];
} rec_gpu_sums;

_Static_assert(sizeof(rec_gpu_sums) <= REC_GPU_PARAMETER_BYTES, "a parameter is at most 4096 bytes");
_Static_assert(sizeof(rec_gpu_sum_task) <= sizeof(rec_gpu_slot) && sizeof(rec_gpu_sum_list) <= sizeof(rec_gpu_frame),
               "a kernel whose slots have room has room for their sums");

#endif

/* ---- s4d_forward ---- */

#define S4D_FORWARD_SYMBOL "rec_kernel_s4d_forward_gpu"
enum { S4D_FORWARD_THREADS = 128, S4D_FORWARD_SHARED_BYTES = 98432, S4D_FORWARD_CHUNK = 8 };
typedef struct s4d_forward_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t N;  /* 32 */
  int64_t Z;  /* 2 */
  rec_gpu_slot x;  /* [batch,time,H], f32 */
  rec_gpu_slot log_dt;  /* [H], f32 */
  rec_gpu_slot log_A_real;  /* [H,N], f32 */
  rec_gpu_slot A_imag;  /* [H,N], f32 */
  rec_gpu_slot C;  /* [H,N,Z], f32 */
  rec_gpu_slot D;  /* [H], f32 */
  rec_gpu_slot h0_h;  /* [batch,H,N,2], f32 */
  rec_gpu_slot hT_h;  /* [batch,H,N,2], f32: written */
  rec_gpu_slot y;  /* [batch,time,H], f32: written */
} s4d_forward_parameter;
_Static_assert(sizeof(s4d_forward_parameter) == 424, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t s4d_forward_items(const s4d_forward_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * ((parameter->H + 127) / 128);
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t s4d_forward_scratch_bytes(const s4d_forward_parameter *parameter) {
  (void)parameter;
  return 81984;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t s4d_forward_summary_elements(const s4d_forward_parameter *parameter) {
  (void)parameter;
  return 0 + 4 * parameter->H * parameter->N + 1 * parameter->H;
}

/* ---- s4d_step ---- */

#define S4D_STEP_SYMBOL "rec_kernel_s4d_forward_gpu"
enum { S4D_STEP_THREADS = 128, S4D_STEP_SHARED_BYTES = 98432 };
typedef struct s4d_step_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t N;  /* 32 */
  int64_t Z;  /* 2 */
  rec_gpu_slot x;  /* [batch,time,H], f32 */
  rec_gpu_slot log_dt;  /* [H], f32 */
  rec_gpu_slot log_A_real;  /* [H,N], f32 */
  rec_gpu_slot A_imag;  /* [H,N], f32 */
  rec_gpu_slot C;  /* [H,N,Z], f32 */
  rec_gpu_slot D;  /* [H], f32 */
  rec_gpu_slot h0_h;  /* [batch,H,N,2], f32 */
  rec_gpu_slot hT_h;  /* [batch,H,N,2], f32: written */
  rec_gpu_slot y;  /* [batch,time,H], f32: written */
} s4d_step_parameter;
_Static_assert(sizeof(s4d_step_parameter) == 424, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t s4d_step_items(const s4d_step_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * ((parameter->H + 127) / 128);
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t s4d_step_scratch_bytes(const s4d_step_parameter *parameter) {
  (void)parameter;
  return 81984;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t s4d_step_summary_elements(const s4d_step_parameter *parameter) {
  (void)parameter;
  return 0 + 4 * parameter->H * parameter->N + 1 * parameter->H;
}

/* ---- s4d_states ---- */

#define S4D_STATES_SYMBOL "rec_kernel_s4d_forward_gpu"
enum { S4D_STATES_THREADS = 128, S4D_STATES_SHARED_BYTES = 98432, S4D_STATES_CHUNK = 8 };
typedef struct s4d_states_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t N;  /* 32 */
  int64_t Z;  /* 2 */
  rec_gpu_slot x;  /* [batch,time,H], f32 */
  rec_gpu_slot log_dt;  /* [H], f32 */
  rec_gpu_slot log_A_real;  /* [H,N], f32 */
  rec_gpu_slot A_imag;  /* [H,N], f32 */
  rec_gpu_slot C;  /* [H,N,Z], f32 */
  rec_gpu_slot D;  /* [H], f32 */
  rec_gpu_slot h0_h;  /* [batch,H,N,2], f32 */
  rec_gpu_slot hT_h;  /* [batch,H,N,2], f32: written */
  rec_gpu_slot y;  /* [batch,time,H], f32: written */
} s4d_states_parameter;
_Static_assert(sizeof(s4d_states_parameter) == 424, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t s4d_states_items(const s4d_states_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * ((parameter->H + 127) / 128);
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t s4d_states_scratch_bytes(const s4d_states_parameter *parameter) {
  (void)parameter;
  return 81984;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t s4d_states_summary_elements(const s4d_states_parameter *parameter) {
  (void)parameter;
  return 0 + 4 * parameter->H * parameter->N + 1 * parameter->H;
}

/* ---- s4d_backward ---- */

#define S4D_BACKWARD_SYMBOL "rec_kernel_s4d_backward_gpu"
enum { S4D_BACKWARD_THREADS = 128, S4D_BACKWARD_SHARED_BYTES = 98944, S4D_BACKWARD_CHUNK = 8 };
typedef struct s4d_backward_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t N;  /* 32 */
  int64_t Z;  /* 2 */
  rec_gpu_slot x;  /* [batch,time,H], f32 */
  rec_gpu_slot log_dt;  /* [H], f32 */
  rec_gpu_slot log_A_real;  /* [H,N], f32 */
  rec_gpu_slot A_imag;  /* [H,N], f32 */
  rec_gpu_slot C;  /* [H,N,Z], f32 */
  rec_gpu_slot D;  /* [H], f32 */
  rec_gpu_slot d_hT_h;  /* [batch,H,N,2], f32 */
  rec_gpu_slot d_y;  /* [batch,time,H], f32 */
  rec_gpu_slot d_x;  /* [batch,time,H], f32: written */
  rec_gpu_slot d_log_dt;  /* [H], f32, in copies: written */
  rec_gpu_slot d_log_A_real;  /* [H,N], f32, in copies: written */
  rec_gpu_slot d_A_imag;  /* [H,N], f32, in copies: written */
  rec_gpu_slot d_C;  /* [H,N,Z], f32, in copies: written */
  rec_gpu_slot d_D;  /* [H], f32, in copies: written */
  rec_gpu_slot d_h0_h;  /* [batch,H,N,2], f32: written */
} s4d_backward_parameter;
_Static_assert(sizeof(s4d_backward_parameter) == 616, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t s4d_backward_items(const s4d_backward_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * ((parameter->H + 127) / 128);
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t s4d_backward_scratch_bytes(const s4d_backward_parameter *parameter) {
  (void)parameter;
  return 1114176;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t s4d_backward_summary_elements(const s4d_backward_parameter *parameter) {
  (void)parameter;
  return 0 + 4 * parameter->H * parameter->N + 1 * parameter->H;
}
/* Copies of d_log_dt for rec_gpu_sum to add up. */
static inline int64_t s4d_backward_copies_d_log_dt(const s4d_backward_parameter *parameter) {
  (void)parameter;
  return 1 * parameter->frame.entries * parameter->frame.slices;
}
/* Copies of d_log_A_real for rec_gpu_sum to add up. */
static inline int64_t s4d_backward_copies_d_log_A_real(const s4d_backward_parameter *parameter) {
  (void)parameter;
  return 1 * parameter->frame.entries * parameter->frame.slices;
}
/* Copies of d_A_imag for rec_gpu_sum to add up. */
static inline int64_t s4d_backward_copies_d_A_imag(const s4d_backward_parameter *parameter) {
  (void)parameter;
  return 1 * parameter->frame.entries * parameter->frame.slices;
}
/* Copies of d_C for rec_gpu_sum to add up. */
static inline int64_t s4d_backward_copies_d_C(const s4d_backward_parameter *parameter) {
  (void)parameter;
  return 1 * parameter->frame.entries * parameter->frame.slices;
}
/* Copies of d_D for rec_gpu_sum to add up. */
static inline int64_t s4d_backward_copies_d_D(const s4d_backward_parameter *parameter) {
  (void)parameter;
  return 1 * parameter->frame.entries * parameter->frame.slices;
}

/* ---- s4d_part ---- */

#define S4D_PART_SYMBOL "rec_kernel_s4d_part_gpu"
enum { S4D_PART_THREADS = 128, S4D_PART_SHARED_BYTES = 98432 };
typedef struct s4d_part_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t N;  /* 32 */
  int64_t Z;  /* 2 */
  rec_gpu_slot x;  /* [batch,time,H], f32 */
  rec_gpu_slot log_dt;  /* [H], f32 */
  rec_gpu_slot log_A_real;  /* [H,N], f32 */
  rec_gpu_slot A_imag;  /* [H,N], f32 */
} s4d_part_parameter;
_Static_assert(sizeof(s4d_part_parameter) == 264, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t s4d_part_items(const s4d_part_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * ((parameter->H + 127) / 128);
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t s4d_part_scratch_bytes(const s4d_part_parameter *parameter) {
  (void)parameter;
  return 147520;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t s4d_part_summary_elements(const s4d_part_parameter *parameter) {
  (void)parameter;
  return 0 + 4 * parameter->H * parameter->N + 1 * parameter->H;
}

/* ---- s4d_part_backward ---- */

#define S4D_PART_BACKWARD_SYMBOL "rec_kernel_s4d_part_backward_gpu"
enum { S4D_PART_BACKWARD_THREADS = 128, S4D_PART_BACKWARD_SHARED_BYTES = 98432 };
typedef struct s4d_part_backward_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t N;  /* 32 */
  int64_t Z;  /* 2 */
  rec_gpu_slot log_dt;  /* [H], f32 */
  rec_gpu_slot log_A_real;  /* [H,N], f32 */
  rec_gpu_slot A_imag;  /* [H,N], f32 */
  rec_gpu_slot C;  /* [H,N,Z], f32 */
  rec_gpu_slot d_y;  /* [batch,time,H], f32 */
} s4d_part_backward_parameter;
_Static_assert(sizeof(s4d_part_backward_parameter) == 296, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t s4d_part_backward_items(const s4d_part_backward_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * ((parameter->H + 127) / 128);
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t s4d_part_backward_scratch_bytes(const s4d_part_backward_parameter *parameter) {
  (void)parameter;
  return 49216;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t s4d_part_backward_summary_elements(const s4d_part_backward_parameter *parameter) {
  (void)parameter;
  return 0 + 4 * parameter->H * parameter->N + 1 * parameter->H;
}

/* ---- s4d_forward_large ---- */

#define S4D_FORWARD_LARGE_SYMBOL "rec_kernel_s4d_forward_large_gpu"
enum { S4D_FORWARD_LARGE_THREADS = 128, S4D_FORWARD_LARGE_SHARED_BYTES = 188544, S4D_FORWARD_LARGE_CHUNK = 8 };
typedef struct s4d_forward_large_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t N;  /* 32 */
  int64_t Z;  /* 2 */
  rec_gpu_slot x;  /* [batch,time,H], f32 */
  rec_gpu_slot log_dt;  /* [H], f32 */
  rec_gpu_slot log_A_real;  /* [H,N], f32 */
  rec_gpu_slot A_imag;  /* [H,N], f32 */
  rec_gpu_slot C;  /* [H,N,Z], f32 */
  rec_gpu_slot D;  /* [H], f32 */
  rec_gpu_slot h0_h;  /* [batch,H,N,2], f32 */
  rec_gpu_slot hT_h;  /* [batch,H,N,2], f32: written */
  rec_gpu_slot y;  /* [batch,time,H], f32: written */
} s4d_forward_large_parameter;
_Static_assert(sizeof(s4d_forward_large_parameter) == 424, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t s4d_forward_large_items(const s4d_forward_large_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * ((parameter->H + 127) / 128);
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t s4d_forward_large_scratch_bytes(const s4d_forward_large_parameter *parameter) {
  (void)parameter;
  return 0;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t s4d_forward_large_summary_elements(const s4d_forward_large_parameter *parameter) {
  (void)parameter;
  return 0 + 4 * parameter->H * parameter->N + 1 * parameter->H;
}

/* ---- s4d_step_large ---- */

#define S4D_STEP_LARGE_SYMBOL "rec_kernel_s4d_forward_large_gpu"
enum { S4D_STEP_LARGE_THREADS = 128, S4D_STEP_LARGE_SHARED_BYTES = 188544 };
typedef struct s4d_step_large_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t N;  /* 32 */
  int64_t Z;  /* 2 */
  rec_gpu_slot x;  /* [batch,time,H], f32 */
  rec_gpu_slot log_dt;  /* [H], f32 */
  rec_gpu_slot log_A_real;  /* [H,N], f32 */
  rec_gpu_slot A_imag;  /* [H,N], f32 */
  rec_gpu_slot C;  /* [H,N,Z], f32 */
  rec_gpu_slot D;  /* [H], f32 */
  rec_gpu_slot h0_h;  /* [batch,H,N,2], f32 */
  rec_gpu_slot hT_h;  /* [batch,H,N,2], f32: written */
  rec_gpu_slot y;  /* [batch,time,H], f32: written */
} s4d_step_large_parameter;
_Static_assert(sizeof(s4d_step_large_parameter) == 424, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t s4d_step_large_items(const s4d_step_large_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * ((parameter->H + 127) / 128);
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t s4d_step_large_scratch_bytes(const s4d_step_large_parameter *parameter) {
  (void)parameter;
  return 0;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t s4d_step_large_summary_elements(const s4d_step_large_parameter *parameter) {
  (void)parameter;
  return 0 + 4 * parameter->H * parameter->N + 1 * parameter->H;
}

/* ---- s4d_states_large ---- */

#define S4D_STATES_LARGE_SYMBOL "rec_kernel_s4d_forward_large_gpu"
enum { S4D_STATES_LARGE_THREADS = 128, S4D_STATES_LARGE_SHARED_BYTES = 188544, S4D_STATES_LARGE_CHUNK = 8 };
typedef struct s4d_states_large_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t N;  /* 32 */
  int64_t Z;  /* 2 */
  rec_gpu_slot x;  /* [batch,time,H], f32 */
  rec_gpu_slot log_dt;  /* [H], f32 */
  rec_gpu_slot log_A_real;  /* [H,N], f32 */
  rec_gpu_slot A_imag;  /* [H,N], f32 */
  rec_gpu_slot C;  /* [H,N,Z], f32 */
  rec_gpu_slot D;  /* [H], f32 */
  rec_gpu_slot h0_h;  /* [batch,H,N,2], f32 */
  rec_gpu_slot hT_h;  /* [batch,H,N,2], f32: written */
  rec_gpu_slot y;  /* [batch,time,H], f32: written */
} s4d_states_large_parameter;
_Static_assert(sizeof(s4d_states_large_parameter) == 424, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t s4d_states_large_items(const s4d_states_large_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * ((parameter->H + 127) / 128);
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t s4d_states_large_scratch_bytes(const s4d_states_large_parameter *parameter) {
  (void)parameter;
  return 0;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t s4d_states_large_summary_elements(const s4d_states_large_parameter *parameter) {
  (void)parameter;
  return 0 + 4 * parameter->H * parameter->N + 1 * parameter->H;
}

/* ---- s4d_backward_large ---- */

#define S4D_BACKWARD_LARGE_SYMBOL "rec_kernel_s4d_backward_large_gpu"
enum { S4D_BACKWARD_LARGE_THREADS = 128, S4D_BACKWARD_LARGE_SHARED_BYTES = 230016, S4D_BACKWARD_LARGE_CHUNK = 8 };
typedef struct s4d_backward_large_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t N;  /* 32 */
  int64_t Z;  /* 2 */
  rec_gpu_slot x;  /* [batch,time,H], f32 */
  rec_gpu_slot log_dt;  /* [H], f32 */
  rec_gpu_slot log_A_real;  /* [H,N], f32 */
  rec_gpu_slot A_imag;  /* [H,N], f32 */
  rec_gpu_slot C;  /* [H,N,Z], f32 */
  rec_gpu_slot D;  /* [H], f32 */
  rec_gpu_slot d_hT_h;  /* [batch,H,N,2], f32 */
  rec_gpu_slot d_y;  /* [batch,time,H], f32 */
  rec_gpu_slot d_x;  /* [batch,time,H], f32: written */
  rec_gpu_slot d_log_dt;  /* [H], f32, in copies: written */
  rec_gpu_slot d_log_A_real;  /* [H,N], f32, in copies: written */
  rec_gpu_slot d_A_imag;  /* [H,N], f32, in copies: written */
  rec_gpu_slot d_C;  /* [H,N,Z], f32, in copies: written */
  rec_gpu_slot d_D;  /* [H], f32, in copies: written */
  rec_gpu_slot d_h0_h;  /* [batch,H,N,2], f32: written */
} s4d_backward_large_parameter;
_Static_assert(sizeof(s4d_backward_large_parameter) == 616, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t s4d_backward_large_items(const s4d_backward_large_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * ((parameter->H + 127) / 128);
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t s4d_backward_large_scratch_bytes(const s4d_backward_large_parameter *parameter) {
  (void)parameter;
  return 983104;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t s4d_backward_large_summary_elements(const s4d_backward_large_parameter *parameter) {
  (void)parameter;
  return 0 + 4 * parameter->H * parameter->N + 1 * parameter->H;
}
/* Copies of d_log_dt for rec_gpu_sum to add up. */
static inline int64_t s4d_backward_large_copies_d_log_dt(const s4d_backward_large_parameter *parameter) {
  (void)parameter;
  return 1 * parameter->frame.entries * parameter->frame.slices;
}
/* Copies of d_log_A_real for rec_gpu_sum to add up. */
static inline int64_t s4d_backward_large_copies_d_log_A_real(const s4d_backward_large_parameter *parameter) {
  (void)parameter;
  return 1 * parameter->frame.entries * parameter->frame.slices;
}
/* Copies of d_A_imag for rec_gpu_sum to add up. */
static inline int64_t s4d_backward_large_copies_d_A_imag(const s4d_backward_large_parameter *parameter) {
  (void)parameter;
  return 1 * parameter->frame.entries * parameter->frame.slices;
}
/* Copies of d_C for rec_gpu_sum to add up. */
static inline int64_t s4d_backward_large_copies_d_C(const s4d_backward_large_parameter *parameter) {
  (void)parameter;
  return 1 * parameter->frame.entries * parameter->frame.slices;
}
/* Copies of d_D for rec_gpu_sum to add up. */
static inline int64_t s4d_backward_large_copies_d_D(const s4d_backward_large_parameter *parameter) {
  (void)parameter;
  return 1 * parameter->frame.entries * parameter->frame.slices;
}

/* ---- s4d_part_backward_large ---- */

#define S4D_PART_BACKWARD_LARGE_SYMBOL "rec_kernel_s4d_part_backward_large_gpu"
enum { S4D_PART_BACKWARD_LARGE_THREADS = 128, S4D_PART_BACKWARD_LARGE_SHARED_BYTES = 155776 };
typedef struct s4d_part_backward_large_parameter {
  rec_gpu_frame frame;
  int64_t H;
  int64_t N;  /* 32 */
  int64_t Z;  /* 2 */
  rec_gpu_slot log_dt;  /* [H], f32 */
  rec_gpu_slot log_A_real;  /* [H,N], f32 */
  rec_gpu_slot A_imag;  /* [H,N], f32 */
  rec_gpu_slot C;  /* [H,N,Z], f32 */
  rec_gpu_slot d_y;  /* [batch,time,H], f32 */
} s4d_part_backward_large_parameter;
_Static_assert(sizeof(s4d_part_backward_large_parameter) == 296, "as the kernel reads it");
/* frame.blocks; a grid has as many blocks, or fewer. */
static inline int64_t s4d_part_backward_large_items(const s4d_part_backward_large_parameter *parameter) {
  return parameter->frame.entries * parameter->frame.slices * ((parameter->H + 127) / 128);
}
/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. */
static inline int64_t s4d_part_backward_large_scratch_bytes(const s4d_part_backward_large_parameter *parameter) {
  (void)parameter;
  return 0;
}
/* The stride of its frame.summaries, if frame.slices > 1. */
static inline int64_t s4d_part_backward_large_summary_elements(const s4d_part_backward_large_parameter *parameter) {
  (void)parameter;
  return 0 + 4 * parameter->H * parameter->N + 1 * parameter->H;
}

#endif
