// The frame of a kernel that is being lowered for one clone: tensors, states, places in memory, loops over time. The files of
// kernel/, host and GPU, share it. Each section of functions names its file.
#ifndef REC_KERNEL_FRAME_H
#define REC_KERNEL_FRAME_H

#include "compiler/kernel/host/kernel.h"
#include "compiler/lower/lower.h"
#include "compiler/plan/kernel_plan.h"
#include "runtime/shared/frame.h"

// A program of the kernel (the program, or the recomputation of the steps of a chunk).
typedef struct part {
  const program_plan *at;  // its plan, from which these four are
  const tile_program *program;
  plan *p;
  carried_list carried;
  bool backward;
  ir *rows, first_step;  // step_rows.c: rows of the chunk by argument (NULL: not copied ahead); its first step
  lower l;
  view *memory;     // by argument: tensor in memory, without time
  ir *time_stride;  // by argument
  view *result_memory;
  ir *result_time_stride;
} part;

// GPU: the slice of time that a thread block computes (kernel/gpu/time_slices). Conditions are i1.
typedef struct time_slice {
  ir number;                   // of the slice
  ir last;                     // number of the last slice that has steps, or 0
  ir kept;                     // how many slices have a summary
  ir summary, summary_stride;  // where the summaries of this entry lie, as they are made or combined
  ir begins_earlier;           // the slice begins one chunk earlier, to warm up
  ir own_groups;               // chunk groups of this slice, without its warm-up groups
  ir in_warm_up;               // the results of the current group are discarded
  ir of_matrix, first_column;  // the block computes columns of a transition matrix, from this one on; NULL: no block does
} time_slice;

// GPU: tiles of the value axis, one after another within a group of chunks (kernel/gpu/value_tiles.c).
typedef struct value_tiles {
  ir count;           // of tiles
  ir entry, entries;  // of the lane axis: the entry of this tile, and how many there are
  ir chunk;           // the current chunk, whose gradients are summed; NULL: none is
} value_tiles;

// What a kernel knows while it is lowered for one clone, on the host and on GPUs.
typedef struct kernel_frame {
  emitter *e;
  arena *a;
  const kernel_plan *plan;
  const kernel *k;
  const codegen_kernel *described;
  const char *symbol;
  mapping m;
  part main, recompute;  // the program, and the one that computes the states of a chunk again
  bool recomputes;

  // GPU
  team team;
  ir chip;                     // shared memory
  ir entry_step, saved_first;  // where tokens and saved states of the instance begin
  ir copy;                     // number of the copy of sums over entries that the item has
  ir lane_block, lane_end;     // number of the block of the lane axis; end of that axis, or of the columns
  ir part_first;               // mapping.parts: the first entry here
  time_slice slice;
  value_tiles tiles;
  ir bulk_phases;  // of the barriers that wait for bulk copies (kernel/gpu/bulk_copies.c)

  // inside a function
  ir slots, sizes;                        // of the frame
  ir frame, batch, scratch, time, local;  // local: scratch of the instance
  ir axis_size[PLAN_MAX_AXES];
  place_in_loops at;
} kernel_frame;

// kernel/host/kernel.c
// A kernel with this plan, before anything is emitted; what it makes meanwhile lies in the arena.
kernel_frame frame_for(arena *a, const kernel_plan *plan);
void frame_whole_instance(kernel_frame *h);

// tensors.c
ir frame_field(kernel_frame *h, ir base, int64_t offset, LLVMTypeRef type);
ir frame_slot_field(kernel_frame *h, tile_role role, const tile_place *place, size_t offset, LLVMTypeRef type);
void frame_read_sizes(kernel_frame *h);
// The tensor of a place in memory, without time; *data: where it begins, NULL if the call has none.
view frame_memory_view(kernel_frame *h, tile_role role, const tile_place *place, ir *data);
view frame_view_stored_as(kernel_frame *h, tile_role role, const tile_place *place, ir *data, number_type stored);
// Where what forward saves begins; NULL at run time: it saves nothing.
ir frame_saved_data(kernel_frame *h);
view frame_saved_view(kernel_frame *h, const tile_place *place, ir chunk);
ir frame_scratch_at(kernel_frame *h, ir base, int64_t offset);
ir frame_located(kernel_frame *h, location at);
void frame_open_part(kernel_frame *h, part *p);
// The numbers of `b` in scratch or shared memory; each thread has its own where threads share nothing.
view gpu_view(kernel_frame *h, lower *l, const plan_buffer *b, location at, ir rows_before);
view frame_at_time(kernel_frame *h, view v, ir t, ir stride);
// The registers that hold the state of this view of p's; NULL: it is in memory.
const kept_sums *frame_kept_of(const part *p, const view *v);
void frame_copy_state(kernel_frame *h, part *p, const tile_place *place, const view *from, const view *to);
void frame_fill_state(kernel_frame *h, part *p, const tile_place *place, double number, const view *to);
// States in registers, as products see them.
void frame_show_states(kernel_frame *h, part *p);
// i1: of the instances that differ in other axes than these alone, this one is the first.
ir frame_is_first(kernel_frame *h, axis_set axes);
// i1: this instance is the one of all that hold the state that writes it; and this thread is not beyond the lane axis.
ir frame_writes_state(kernel_frame *h, const tile_place *place);
ir frame_by_this_thread(kernel_frame *h, ir condition);
// From a whole axis to the part of it at hand (mapping.parts).
void frame_move_to_part(kernel_frame *h, view *v, axis_set axes);

// instance.c
void frame_open_instance(kernel_frame *h, part *p);
// Blocks of the lane axis, and behind them those of transition_matrices.c.
ir frame_lane_blocks(kernel_frame *h);
// Indices of instance number `instance`; returns the number of the lane block.
ir frame_split_instance(kernel_frame *h, ir instance);

// states.c
ir frame_saves(kernel_frame *h);
void frame_load_states(kernel_frame *h, part *p);
void frame_store_states(kernel_frame *h, part *p);
void frame_save_states(kernel_frame *h, part *p, ir chunk);
void frame_clear_sums(kernel_frame *h, part *p);

// slices.c: time slices.
// The time slice of a work item, whose remaining number is left in *item.
void gpu_read_part(kernel_frame *h, ir *item);
void gpu_cut_part(kernel_frame *h);
void gpu_begin_factors(kernel_frame *h, part *p);
void gpu_end_part(kernel_frame *h, part *p);
// States before this slice: combines the summaries of all slices before it.
void gpu_join_parts(kernel_frame *h, part *p);
// i1: no steps follow the slice; backward: none precede it.
ir gpu_is_last_part(kernel_frame *h, const part *p);
// In the loop over chunks, before chunk number `turn`: after the warm-up chunk of a slice.
void gpu_end_warm_up(kernel_frame *h, part *p, ir turn);
// Backward, around a group of chunks: it may follow the slice's own (kernel.behind); its results are then discarded.
void gpu_begin_group(kernel_frame *h, ir group);
void gpu_end_group(kernel_frame *h);
ir gpu_frame_number(kernel_frame *h, size_t offset);
// The slice summaries of this entry; the address of an element of a summary; the elements of a result there; the summary of
// a state.
void gpu_open_ends(kernel_frame *h);
ir gpu_end_at(kernel_frame *h, ir number, ir offset);
ir gpu_end_numbers(kernel_frame *h, const tile_place *place);
view gpu_end_view(kernel_frame *h, part *p, const tile_place *state, ir number);
// running_maxima.c: running maxima, and states relative to them: at the start of a slice; after slice `number`.
void gpu_begin_maxima(kernel_frame *h, part *p);
bool gpu_joins_relatives(const kernel *k);
void gpu_join_relatives(kernel_frame *h, part *p, ir number);
// transition_matrices.c: states that mix their entries, and the blocks of KERNEL_PART that make their matrix.
// Where the rows of a state's matrix begin in a summary; NULL: the end of all matrices.
ir gpu_columns_offset(kernel_frame *h, const tile_place *state);
ir gpu_first_of_lanes(kernel_frame *h);
void gpu_begin_column(kernel_frame *h, part *p, const tile_place *state, const view *to);
void gpu_end_column(kernel_frame *h, part *p, const tile_place *state, const view *from);
// states = matrix of the slice * states + its states from zero.
void gpu_join_columns(kernel_frame *h, part *p, ir number);
// overflow_fallback.c: slices that must not be combined. A mark at the end of the summary; its kernel writes it last.
void gpu_guard_part(kernel_frame *h, part *p);
// i1: a slice of the instance is marked; `whole`: there is a single slice, without summary. Elements of kernel_frame.sums for this.
ir gpu_parts_grow(kernel_frame *h, ir whole);
// value_tiles.c: an instance whose chunks are computed in passes over value-axis tiles.
void gpu_instance_in_passes(kernel_frame *h);
// frame_group_back in each pass.
void gpu_group_in_passes(kernel_frame *h, ir group, ir first, ir chunks);
// Sums from chunk to chunk begin again, in all passes.
void gpu_clear_passes(kernel_frame *h);
// Sums over passes, of a result to which several add.
void gpu_pass_target(kernel_frame *h, const part *p, int result, result_target *target);
// bulk_copies.c: rows that bulk copies bring.
// At the start of a kernel.
void gpu_open_bulk(kernel_frame *h);
// Starts the bulk copies of a chunk. `turn`: rows with a double buffer; NULL: rows without. bulk[argument], i1: bulk copies
// bring its rows; NULL: never. Earlier stores to that memory have been fenced, and a barrier has followed.
void gpu_start_bulk(kernel_frame *h, part *p, ir turn, ir chunk, ir *bulk);
// Waits for the copies that were started last for this turn.
void gpu_wait_bulk(kernel_frame *h, ir turn);
// kernel/gpu/staging.c: rows of a chunk in shared memory.
// Has it a double buffer?
bool gpu_is_ahead(const part *p, int argument);
// Where the chunk of this turn lies: halves take turns.
ir gpu_rows_place(kernel_frame *h, const pad *d, ir turn);
// i1: the rows of a tensor that this instance touches begin at multiples of 16 bytes.
ir gpu_aligned(kernel_frame *h, part *p, const view *v, axis_set axes);
// Before a loop over chunks: starts the copies of the first one, `any` (i1) if there is one.
void gpu_open_chunks(kernel_frame *h, part *p, ir first, ir any);
// In the loop, for its iteration number `turn`: this chunk's rows are there; those of `next`, if there is `more`, are
// being copied.
void gpu_next_chunk(kernel_frame *h, part *p, ir turn, ir chunk, ir next, ir more);

// step_rows.c: threads by themselves, whose tokens come a chunk ahead.
bool gpu_steps_ahead(kernel_frame *h);
// As gpu_open_chunks and gpu_next_chunk.
void gpu_open_steps(kernel_frame *h, ir first, ir any);
void gpu_next_steps(kernel_frame *h, ir turn, ir chunk, ir next, ir more);
// The row of step `t`, if it was copied ahead.
bool gpu_row_of_step(kernel_frame *h, const part *p, int argument, ir t, view *row);

// time_loop.c
ir frame_chunk_count(kernel_frame *h);
void frame_steps_forward(kernel_frame *h);
void frame_steps_backward(kernel_frame *h);
void frame_set_chunk(kernel_frame *h, part *p, ir chunk, ir new_group);
ir frame_chunk_in_order(kernel_frame *h, ir index);
void frame_chunk_body(kernel_frame *h, ir chunk);
// prefetch.c: before the body of a chunk, with the instance and the number of the chunk that come next (h->at).
void host_fetch_next(kernel_frame *h, part *p, ir chunk);
void frame_chunks_inside(kernel_frame *h);
// Groups of chunks from the last, and one of them.
void frame_groups_back(kernel_frame *h);
void frame_group_back(kernel_frame *h, ir group, ir first, ir chunks);

#endif
