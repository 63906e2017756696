// The frame of a kernel that is being lowered for one clone: tensors, states, places in memory, loops over time. The files of
// kernel/, host and GPU, share it. Each section of functions names its file.
#ifndef REC_KERNEL_FRAME_H
#define REC_KERNEL_FRAME_H

#include "compiler/base/ice.h"
#include "compiler/kernel/host/kernel.h"
#include "compiler/lower/lower.h"
#include "runtime/shared/frame.h"
#include "runtime/shared/gpu_frame.h"

// A place in scratch: `offset` elements from the start, or in the block of run-time size number `sized`.
typedef struct location {
  int64_t offset;  // -1: on the stack
  int sized;       // position in kernel_frame.sized, or -1
  bool on_chip;    // GPU: in shared memory instead
} location;

typedef struct pad {
  int64_t offset, row;  // in scratch; elements of a row
  location at, ahead;   // GPU: its memory; the other half of a double buffer (offset -1: none)
  int64_t stride[PLAN_MAX_AXES];
} pad;

// A program of the kernel (the program, or the recomputation of the steps of a chunk).
typedef struct part {
  const tile_program *program;
  plan *p;
  carried_list carried;
  bool backward;
  location *scratch;                     // where its buffers begin, as plan.scratch
  location *carried_at, *persistent_at;  // by carried value, by buffer
  location *buffer_at;                   // GPU: by buffer
  location *kept_at;                     // by buffer: of those with a row for every step of a chunk
  plan_buffer *history;                  // by argument: states before each step of the chunk, or each chunk of the group
  location *history_at;
  pad *pads;             // by argument
  int *maps;             // GPU, by argument: number of the map in bulk_copies.maps, -1: none; NULL: no argument has one
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
  location states_at;          // the states before the slice while summaries are combined
  ir of_matrix, first_column;  // the block computes columns of a transition matrix, from this one on; NULL: no block does
  ir makes_states;             // backward: the slice computes the states that it reads; NULL: no slice does
  ir states_grow;              // the summaries of states overflow, so that those of cotangents cannot be combined
  ir never_back;               // the slice computes states only; NULL: no slice does
  ir states_alone;             // the current group is run for its states only; NULL: no group is
} time_slice;

// GPU: tiles of the value axis, one after another within a group of chunks (kernel/gpu/value_tiles.c).
typedef struct value_tiles {
  bool used;
  ir count;                   // of tiles
  ir entry, entries;          // of the lane axis: the entry of this tile, and how many there are
  ir chunk;                   // the current chunk, whose gradients are summed; NULL: none is
  location *home_at;          // by carried value: where it lies between tiles
  location *sums_at;          // by result of the main program: where tiles sum it; offset -1: they do not
  int64_t homes, group_sums;  // elements of scratch: states between groups, sums within a group
} value_tiles;

// GPU: rows that bulk copies load by tensor maps (kernel/gpu/bulk_copies.c).
typedef struct bulk_copies {
  VEC(codegen_gpu_map) maps;
  int64_t maps_at;  // byte of the kernel's parameter
  double gain;      // what they save of a chunk, in multiply-adds
  ir phases;        // of the barriers that wait for them
} bulk_copies;

// What a kernel knows while it is lowered for one clone, on the host and on GPUs.
typedef struct kernel_frame {
  emitter *e;
  arena *a;
  const kernel *k;
  const codegen_kernel *described;
  const char *symbol;
  mapping m;
  part main, recompute;  // the program, and the one that computes the states of a chunk again
  bool recomputes;
  int64_t shared_numbers, instance_numbers;  // elements of scratch: of the call, of each instance
  VEC(extent) sized;                         // step form: blocks of scratch whose size is known at run time
  location *stash_at;                        // by stash
  plan_buffer *stashes;
  int stash_count;

  // GPU
  team team;
  int64_t on_chip, chip_limit;  // elements of shared memory: taken, and at most
  int64_t history;              // elements of scratch for the states before each chunk
  int64_t sums;                 // where in shared memory results are summed over threads
  bool crowded;                 // register pressure: each thread holds states in registers, and no sums or prologue values
  ir chip;                      // shared memory
  ir entry_step, saved_first;   // where tokens and saved states of the instance begin
  ir lane_block, lane_end;      // number of the block of the lane axis; end of that axis, or of the columns
  ir part_first;                // mapping.parts: the first entry here
  time_slice slice;
  value_tiles tiles;
  bulk_copies bulk;

  // inside a function
  ir slots, sizes;                        // of the frame
  ir frame, batch, scratch, time, local;  // local: scratch of the instance
  ir axis_size[PLAN_MAX_AXES];
  place_in_loops at;
} kernel_frame;

// kernel/host/kernel.c
kernel_frame frame_for(arena *a, const codegen_kernel *k, const char *symbol, codegen_clone clone, number_type dtype);
void frame_whole_instance(kernel_frame *h);

// slots.c
bool frame_in_memory(const kernel *k, const tile_place *place);
int frame_find_slot(const codegen_kernel *k, tile_role role, int tensor, int lag);
bool frame_stores_narrow(const kernel_frame *h, const tile_place *place);
bool frame_is_complex(const kernel_frame *h, const tile_place *place);
axis_set frame_grid_of(const kernel *k);
axis_set frame_axes_of_place(const tile_place *place);
// Chunk form: does the place lie where forward has saved it?
bool frame_is_saved(const part *p, const tile_place *place);
// Backward: reads the states before, or values saved for them.
bool frame_reads_saved(const kernel *k);
int64_t frame_parts_of_lag(const typed_lag *lag);
// Chunk form: the place of stash `number`, kept by the forward and read by the backward; NULL if there are fewer.
const tile_place *frame_kept_value(const kernel *k, int number);

// mapping.c
axis_set frame_parts_of(const kernel *k);
// Is it the axis of sequences side by side, the outermost of all?
bool frame_is_of_sequences(const kernel *k, int axis);
bool frame_is_long(const kernel *k);
mapping frame_mapping_of(const kernel *k, codegen_clone clone, number_type dtype);

// memory.c
void frame_plan(kernel_frame *h);
codegen_bytes frame_bytes_of(const kernel_frame *h);
// kernel/plan_text.c: a bug in the compiler if buffers lie over each other while both are alive.
void frame_verify_places(const kernel_frame *h);
char *frame_plan_text(arena *a, const kernel_frame *h);

// place.c
location gpu_take(kernel_frame *h, int64_t numbers);
// From `at` on the first place in shared memory where so many words may begin.
int64_t gpu_chip_place(const kernel_frame *h, int64_t at, int64_t words);
void frame_plan_program(kernel_frame *h, part *p, const tile_program *program, bool backward);
void frame_place_carried(kernel_frame *h, part *p);
void frame_place_pads(kernel_frame *h, part *p);
void frame_place_history(kernel_frame *h, part *p);
void frame_place_stashes(kernel_frame *h);
// Host: buffers, and those with a row for every step of a chunk.
void frame_place_scratch(kernel_frame *h, part *p);
void frame_place_kept(kernel_frame *h, part *p);

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

// kernel/gpu/memory.c
void gpu_place(kernel_frame *h);
// Steps that multiply with matrices of parameters: their copies. False: there are no such steps.
bool gpu_place_matrices(kernel_frame *h);
bool gpu_is_crowded(const kernel_frame *h);
bool gpu_carries_many(const kernel_frame *h);
void gpu_place_sums(kernel_frame *h);
// Backward in chunks whose states are made again: forward saves those before every few chunks.
void gpu_plan_chunks(kernel_frame *h);
// slices.c: time slices.
bool gpu_makes_parts(const kernel *k);
// Elements of a slice summary: states at its end, and its transition.
codegen_bytes gpu_ends_numbers(arena *a, const kernel *k);
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
// Backward that makes its states (kernel.states): the kernel that combines state summaries, and its frame.
kernel gpu_kernel_of_states(const kernel *back);
kernel_frame gpu_host_of_states(const kernel_frame *h);
// The states before the slice, saved.
void gpu_begin_states(kernel_frame *h);
// Turns of a loop over groups of chunks, and the group of one. Returns i1: its states alone are made; NULL: never.
ir gpu_turns(kernel_frame *h, ir groups);
ir gpu_turn_of_groups(kernel_frame *h, ir groups, ir turn, ir *group);
// After the chunks of a group: saves the states, if the pass only makes states; how many of its chunks go back.
void gpu_save_group(kernel_frame *h, ir group);
ir gpu_chunks_back(kernel_frame *h, ir chunks);
// i1: there is memory for slice summaries. Without, the same function makes the states before chunks (STATES).
ir gpu_keeps_parts(kernel_frame *h);
// The program that makes slice summaries: the kernel's own, or `ends`; NULL: time is not cut.
const tile_program *gpu_ends_of(const kernel *k);
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
int gpu_column_blocks(const kernel *k);
void gpu_columns_numbers(arena *a, const kernel *k, codegen_bytes *numbers);
// Where the rows of a state's matrix begin in a summary; NULL: the end of all matrices.
ir gpu_columns_offset(kernel_frame *h, const tile_place *state);
ir gpu_first_of_lanes(kernel_frame *h);
void gpu_begin_column(kernel_frame *h, part *p, const tile_place *state, const view *to);
void gpu_end_column(kernel_frame *h, part *p, const tile_place *state, const view *from);
void gpu_place_columns(kernel_frame *h);
// states = matrix of the slice * states + its states from zero.
void gpu_join_columns(kernel_frame *h, part *p, ir number);
// overflow_fallback.c: slices that must not be combined. A mark at the end of the summary; its kernel writes it last.
void gpu_guard_numbers(arena *a, const kernel *k, codegen_bytes *numbers);
void gpu_guard_part(kernel_frame *h, part *p);
// i1: a slice of the instance is marked; `whole`: there is a single slice, without summary. Elements of kernel_frame.sums for this.
ir gpu_parts_grow(kernel_frame *h, ir whole);
int64_t gpu_guard_sums(const kernel_frame *h);
// value_tiles.c: an instance whose chunks are computed in passes over value-axis tiles.
bool gpu_has_passes(const kernel *k);
int64_t gpu_most_passes(const kernel *k);
void gpu_place_passes(kernel_frame *h);
void gpu_instance_in_passes(kernel_frame *h);
// frame_group_back in each pass.
void gpu_group_in_passes(kernel_frame *h, ir group, ir first, ir chunks);
// Sums from chunk to chunk begin again, in all passes.
void gpu_clear_passes(kernel_frame *h);
// Sums over passes, of a result to which several add.
void gpu_pass_target(kernel_frame *h, const part *p, int result, result_target *target);
// bulk_copies.c: rows that bulk copies bring.
void gpu_choose_bulk(kernel_frame *h);
bool gpu_is_bulk(const part *p, int argument);
// At the start of a kernel.
void gpu_open_bulk(kernel_frame *h);
// Starts the bulk copies of a chunk. `turn`: rows with a double buffer; NULL: rows without. bulk[argument], i1: bulk copies
// bring its rows; NULL: never. Earlier stores to that memory have been fenced, and a barrier has followed.
void gpu_start_bulk(kernel_frame *h, part *p, ir turn, ir chunk, ir *bulk);
// Waits for the copies that were started last for this turn.
void gpu_wait_bulk(kernel_frame *h, ir turn);
// kernel/gpu/staging.c: rows of a chunk in shared memory.
// Is the argument staged, rather than read where forward saved it?
bool gpu_is_staged(const part *p, int argument);
// Has it a double buffer?
bool gpu_is_ahead(const part *p, int argument);
// Where the chunk of this turn lies: halves take turns.
ir gpu_rows_place(kernel_frame *h, const pad *d, ir turn);
// Double buffers, where shared memory is left.
void gpu_place_ahead(kernel_frame *h);
// i1: the rows of a tensor that this instance touches begin at multiples of 16 bytes.
ir gpu_aligned(kernel_frame *h, part *p, const view *v, axis_set axes);
// Before a loop over chunks: starts the copies of the first one, `any` (i1) if there is one.
void gpu_open_chunks(kernel_frame *h, part *p, ir first, ir any);
// In the loop, for its iteration number `turn`: this chunk's rows are there; those of `next`, if there is `more`, are
// being copied.
void gpu_next_chunk(kernel_frame *h, part *p, ir turn, ir chunk, ir next, ir more);

// step_rows.c: threads by themselves, whose tokens come a chunk ahead.
void gpu_place_steps(kernel_frame *h);
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
