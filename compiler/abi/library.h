// The tables of a compiled library: what recc writes beside the kernels and the support code reads.
//
// One rec_table per recurrence, a single block of constant bytes. Positions inside it (`.._at`)
// count bytes from its start, so that only the addresses of kernels need relocation; 0 means
// absent. Positions in the caller's arguments struct (`.._field`) count bytes from the struct's
// start, -1 means absent.
#pragma once

#include "compiler/abi/frame.h"
#include "compiler/abi/launch.h"
#include "compiler/abi/simt.h"

#define REC_AXES_MAX 48
#define REC_CLONES 4 /* x86-64-v2, -v3, -v4, -v4-bf16; aarch64 has one */
#define REC_RUNTIME_SIZE (-1)

// Steps of a size expression, a postfix program over doubles.
enum {
  REC_SIZE_NUMBER,
  REC_SIZE_AXIS,
  REC_SIZE_NEG,
  REC_SIZE_ADD,
  REC_SIZE_SUB,
  REC_SIZE_MUL,
  REC_SIZE_DIV,
  REC_SIZE_POW,
  REC_SIZE_MIN,
  REC_SIZE_MAX
};
#define REC_SIZE_STACK 256 /* operands at one time; the parser refuses deeper nesting */

typedef struct rec_table_size_step {
  int32_t op, axis;
  double number;
} rec_table_size_step;

typedef struct rec_table_axis {
  int64_t size;  // compile-time size, or REC_RUNTIME_SIZE
  int32_t name_at;
  int32_t field;
  int32_t expression_at;  // a size computed from earlier axes: rec_table_size_step[]
  int32_t expression_count;
  int32_t expression_text_at;  // as the source wrote it
  int32_t least;               // a slice reads entry least - 1; 0: no slice with a run-time size
} rec_table_axis;

// What a call does with a memory; all but REC_READ may be NULL. A result that is optional is a
// state or a gradient.
enum { REC_UNUSED, REC_READ, REC_READ_OPTIONAL, REC_WRITE, REC_WRITE_OPTIONAL };

// How a memory's numbers are stored; what is not a number of the table's own type is two bytes.
enum { REC_STORED_NUMBER, REC_STORED_BF16, REC_STORED_F16 };

typedef struct rec_table_memory {
  int32_t name_at;   // C member
  int32_t shape_at;  // "[batch,time,G,R]"
  int32_t data_field, batch_stride_field, time_stride_field;
  int32_t axis_count, axes_at;  // int32_t[axis_count]
  int32_t factor;               // numbers per entry: 2 if complex, times the depth of a lag
  int32_t token;                // one entry per step
  int32_t per_batch;            // one entry per batch entry
  int32_t forward_use, backward_use;
  int32_t copy_from;  // without steps: hT is h0, d_h0 is d_hT; -1: nothing
  int32_t stored;     // REC_STORED_..; copies that are summed have numbers all the same
  int32_t promised;   // recc --check: every number must lie in [low, high]
  int32_t depth;      // steps of a lag buffer, the axis before the others; 0: none
  double low, high;
} rec_table_memory;

typedef struct rec_table_slot {
  uint64_t summed;  // accumulated: axes whose instances add to the same entries
  int32_t memory;
  int32_t written, accumulated;
  int32_t single;  // GPU: one copy is the tensor itself
} rec_table_slot;

// constant + per_instance * instances + sum of coefficient * product of axis sizes
typedef struct rec_table_term {
  int64_t coefficient;
  uint64_t axes;
} rec_table_term;

typedef struct rec_table_count {
  int64_t constant, per_instance;
  int32_t terms_at, term_count;
} rec_table_count;

typedef struct rec_table_kernel {
  rec_kernel_function functions[REC_CLONES];  // NULL: not compiled
  rec_table_count scratch;                    // bytes
  int32_t slot_count, slots_at;
  int32_t grid_count, grid_at;  // int32_t[grid_count]
  int32_t lane_axis, lane_block;
  int32_t reads_saved, writes_saved, time_splits;
  // batch entries that a call takes together (rec_frame.sequences), GPU: an item; 0: one alone
  int32_t sequences;
} rec_table_kernel;

enum {
  REC_KERNEL_FORWARD,
  REC_KERNEL_STEP,
  REC_KERNEL_STATES,
  REC_KERNEL_BACKWARD,
  REC_KERNEL_SUMMARY,
  REC_KERNEL_SUMMARY_BACK,  // neither functions nor symbols where there are no summaries
  REC_KERNEL_SLICE,         // host: FORWARD that reads what SUMMARY has kept; may be missing
  // GPU: for calls with few instances; no symbols where they would not take less time
  REC_KERNEL_FORWARD_FEW,
  REC_KERNEL_BACKWARD_FEW,
  REC_KERNEL_COUNT
};

// The same for GPUs (gpu_frame.h). `scratch` is that of a thread block.
typedef struct rec_table_gpu_kernel {
  rec_table_kernel base;                // no functions
  void (*simt)(const void *parameter);  // for the executor; NULL: not compiled
  int32_t symbol_at;                    // 0: not made
  int32_t why_not_at;
  int32_t threads, shared_bytes, parameter_bytes;
  int32_t combines;         // starts time slices from slice summaries
  rec_table_count summary;  // elements of a slice summary
  // SUMMARY, SUMMARY_BACK: blocks for columns of the transition matrix
  int32_t transition_blocks;
  // combines: the cost of combining one summary, in steps of a block
  int32_t combine_steps;
  int32_t summary_percent;  // the cost of making the summaries, in percent of the steps
  // in chunks, modelled: of 64 steps of a block by itself on a multiprocessor,
  int32_t cycles_alone;
  int32_t cycles_each, blocks_each;  // and of one of blocks_each; 0: unknown
  int32_t warm_up_steps;             // steps after its own on which a slice warms up
  // shared memory of a block with batched items, in place of shared_bytes,
  int32_t batched_shared_bytes;
  rec_table_count batched_scratch;  // and its scratch, in place of base.scratch
  int32_t part_count, parts_at;     // SUMMARY, SUMMARY_BACK: rec_table_part[part_count]
  // of matrices: the axis of their columns, -1: there are none; numbers of a row
  int32_t value_axis, row_numbers;
} rec_table_gpu_kernel;

// The kernels for devices that have so much shared memory for a thread block; GROUPS: as much as
// LARGE, and their warpgroups multiply.
enum { REC_GPU_SMALL, REC_GPU_LARGE, REC_GPU_GROUPS, REC_GPU_CLASSES };
// The executor takes a class as device_number. With one of these added, it runs one form alone of
// FORWARD and BACKWARD.
enum { REC_SIMT_USUAL = REC_GPU_CLASSES, REC_SIMT_FEW = 2 * REC_GPU_CLASSES };

typedef struct rec_table_gpu {
  int32_t chunk, unused;  // steps between saved states; 0: the library holds no such kernels
  rec_table_gpu_kernel kernels[REC_KERNEL_COUNT];
} rec_table_gpu;

// The library's code for NVIDIA GPUs, an image for each target, and one more where there is a
// cubin.
typedef struct rec_gpu_image {
  int32_t capability;                  // 80: compute capability 8.0
  int32_t devices;                     // REC_GPU_LATER, ..
  int32_t device_class, shared_bytes;  // which kernels; the most that a thread block of one has
  const char *code;                    // PTX, which ends with a NUL, or a cubin
} rec_gpu_image;

// The devices that an image is for. PTX is for this capability and later ones, or for this one
// alone. A cubin is for this capability and later ones with the same first digit, or for this one
// alone.
enum { REC_GPU_LATER, REC_GPU_EXACT, REC_GPU_CUBIN, REC_GPU_EXACT_CUBIN };

typedef struct rec_gpu_images {
  int64_t count;  // at least 1
  rec_gpu_image items[];
} rec_gpu_images;

// What a memory's rows are added up of (rec_gpu_row_side): rows of another memory, of this table or
// of the inner one.
typedef struct rec_table_row_source {
  int32_t memory, inner;  // -1: each number is 1
  int32_t rows;           // of a lag buffer, or of ones; 0: steps
  int32_t offset, ends;
  int32_t unused;
} rec_table_row_source;

enum { REC_ROWS_BEFORE, REC_ROWS_BEFORE_BACKWARD, REC_ROWS_AFTER_FORWARD, REC_ROWS_AFTER_BACKWARD };

typedef struct rec_table_rows {
  int32_t memory, inner, rows;
  int32_t when;  // REC_ROWS_..
  int32_t source_count, sources_at;
} rec_table_rows;

// A state that does not start from 0 where the caller does not give it (begin.h): memories.
typedef struct rec_table_begin {
  int32_t before, d_before;        // h0, d_h0
  int32_t parameter, d_parameter;  // that it starts from; -1: from a number
  double number[2];
} rec_table_begin;

// A summary of the host (rec_segments in launch.h): REC_SUMMARY_HEAD bytes, of which the first
// int32_t says that it is out of range. Then come its parts, each [batch,axes] at a multiple of
// REC_ALIGNMENT, and the columns of states that mix their entries.
enum { REC_SUMMARY_HEAD = REC_ALIGNMENT };

// What a part is of the state s that it belongs to, and how the summary is joined with the state
// before (backward: the cotangent after):
//   OWN        s from zero states; of a maximum and of states relative to it: without a maximum before
//   FACTOR     of s in itself, or of `source` in s:      s' = own + sum of factor * source
//   LOGARITHM  F of a maximum m, D of a state relative to it. With d = F + m - own of m:
//              m' = max(F + m, own of m),  s' = exp(min(0, d) + D) s + exp(min(0, -d)) own
//   LAG        of a GPU alone: a lag buffer after the slice
enum { REC_PART_OWN, REC_PART_FACTOR, REC_PART_LOGARITHM, REC_PART_LAG };

typedef struct rec_table_part {
  int32_t kind;
  int32_t memory;     // that the kernel of the host writes; OWN: the state after; else of a GPU -1
  int32_t state;      // the memory of the state before: h0; backward d_hT; LAG: -1
  int32_t component;  // 1: the imaginary part, of the host in the memory of the real part
  int32_t source;     // FACTOR: the state that is multiplied
  int32_t maximum;    // that the state is relative to, perhaps the state itself; -1: of none
  int32_t columns;    // OWN: s' = own + matrix * all such states
  int32_t axis_count, axes_at;
} rec_table_part;

// On a GPU parts are dense over their axes and lie one behind the other. Behind them each state
// with `columns` has its rows of the matrix: entries of the axes but value_axis, row_numbers each.
// Rows are numbered in an instance: by state, then by its axes that are neither value_axis nor of
// the grid. That is also how the columns of the matrix are numbered. Marks of overflow come last.

// States with `columns`: the entries of all of them that have the same entry of value_axis, and the
// same of instance_axes, are mapped by one matrix. It is kept by columns. Entry v of value_axis in
// a block is the column v of the matrix, and the rows are the entries of the states. A block is
// thus as large as the states; of n entries of value_axis block b has the columns from b * n on.
// Columns are counted by state, then by the axes that are left, a complex number as two.
typedef struct rec_table_summary {
  int32_t why_at;  // why NAME_summary refuses; 0: it does not
  int32_t part_count, parts_at;
  int32_t value_axis;      // -1: there are no such states
  uint64_t instance_axes;  // in which matrices differ
} rec_table_summary;

typedef struct rec_table {
  int32_t name_at;       // C prefix: ssd
  int32_t number_bytes;  // 4: float, 8: double: what is computed in
  int32_t arguments_size;
  int32_t batch_field, time_field, sequences_field, cu_seqlens_field;
  int32_t axis_count, axes_at;
  int32_t memory_count, memories_at;
  int32_t chunk;                  // steps between saved states
  rec_table_count saved;          // numbers of one saved state
  rec_table_count kept;           // host: numbers that the forward keeps of a chunk beside it
  rec_table_count kept_of_slice;  // host: numbers that SUMMARY keeps of a chunk for SLICE
  rec_table_kernel kernels[REC_KERNEL_COUNT];
  int32_t inner_memory_count;      // memories of kernels that summarise, behind those of the caller
  int32_t segment_multiple;        // steps
  uint64_t segment_instances;      // rec_launch.first_instance: axes that all states begin with
  rec_table_summary summaries[2];  // host: of states, backward of cotangents
  rec_table_gpu gpu[REC_GPU_CLASSES];
  // Long lags: the same recurrence without them, and what a call does beside it (delay.h); NULL:
  // there are none. Then the kernels, `saved` and `kept` are those of the inner table.
  const struct rec_table *inner;
  int32_t rows_count, rows_at;     // rec_table_rows[rows_count]
  int32_t begin_count, begins_at;  // rec_table_begin[begin_count]
  // int32_t by memory of the inner table: the memory of this one; -1: in the workspace
  int32_t inner_memories_at, unused;
  // The executor, rec_gpu_sum, rec_gpu_rows, rec_gpu_spread and rec_gpu_fold for it; NULL: not in
  // the library.
  simt_answer (*simt_run)(const simt_launch *, int64_t, int64_t, simt_counts *, char *);
  void (*simt_sum)(const void *parameter);
  void (*simt_rows)(const void *parameter);
  void (*simt_spread)(const void *parameter);
  void (*simt_fold)(const void *parameter);
  const rec_gpu_images *gpu_images;  // NULL: none
} rec_table;

// An axis that differs between variants of a recurrence, as -D names it.
typedef struct rec_choice_axis {
  int32_t axis, define_at;
} rec_choice_axis;

#define REC_CHOICE_AXES 6 /* each has two sizes at least, and there are 64 variants at most */

// Variants of a recurrence that differ in sizes alone: a call gets the one that has its sizes.
// Texts are counted from the start.
typedef struct rec_choice {
  int32_t count, axis_count;
  int32_t name_at, command_at;  // command: that which made the library, without the sizes
  rec_choice_axis axes[REC_CHOICE_AXES];
  const rec_table *tables[];
} rec_choice;

// A recurrence with all of its variants, whatever they differ in: for calls that bring types and
// shapes (runtime/support/foreign.h). The name is counted from the start.
typedef struct rec_variants {
  int32_t count, name_at;
  const rec_table *tables[];
} rec_variants;

// The entry points behind NAME_forward, .. of every recurrence (thunks add the table). Their names
// do not end like those of an entry point, so no recurrence can be called like them.
int rec_forward_entry(const rec_table *table, const void *arguments, const rec_launch *launch);
int rec_backward_entry(const rec_table *table, const void *arguments, const rec_launch *launch);
int rec_step_entry(const rec_table *table, const void *arguments, const rec_launch *launch);
int rec_sizes_entry(const rec_table *table, const void *arguments, rec_sizes *sizes);
int rec_summary_entry(const rec_table *table, const void *arguments, const rec_launch *launch,
                      void *summary);
int rec_summary_backward_entry(const rec_table *table, const void *arguments,
                               const rec_launch *launch, void *summary);
int rec_fold_entry(const rec_table *table, const void *arguments, const rec_launch *launch,
                   const rec_segments *segments);
int rec_combine_entry(const rec_table *table, const void *arguments, const rec_launch *launch,
                      const rec_segments *segments, void *summary);
// The same for a choice.
int rec_forward_chosen(const rec_choice *choice, const void *arguments, const rec_launch *launch);
int rec_backward_chosen(const rec_choice *choice, const void *arguments, const rec_launch *launch);
int rec_step_chosen(const rec_choice *choice, const void *arguments, const rec_launch *launch);
int rec_sizes_chosen(const rec_choice *choice, const void *arguments, rec_sizes *sizes);
int rec_summary_chosen(const rec_choice *choice, const void *arguments, const rec_launch *launch,
                       void *summary);
int rec_summary_backward_chosen(const rec_choice *choice, const void *arguments,
                                const rec_launch *launch, void *summary);
int rec_fold_chosen(const rec_choice *choice, const void *arguments, const rec_launch *launch,
                    const rec_segments *segments);
int rec_combine_chosen(const rec_choice *choice, const void *arguments, const rec_launch *launch,
                       const rec_segments *segments, void *summary);
