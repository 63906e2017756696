/* The frame of a kernel that is being lowered for one clone: tensors, states, places in memory, loops over time. The files of
 * kernel/, host and GPU, share it. Each section of functions names its file.
 */
#ifndef REC_KERNEL_FRAME_H
#define REC_KERNEL_FRAME_H

#include "compiler/base/ice.h"
#include "compiler/kernel/host/kernel.h"
#include "compiler/lower/lower.h"
#include "runtime/shared/frame.h"
#include "runtime/shared/gpu_frame.h"

/* A place in scratch: `offset` elements from the start, or in the block of run-time size number `sized`. */
typedef struct location {
  int64_t offset; /* -1: on the stack */
  int sized;      /* position in host.sized, or -1 */
  bool on_chip;   /* GPU: in shared memory instead */
} location;

typedef struct pad {
  int64_t offset, row; /* in scratch; elements of a row */
  location at, ahead;  /* GPU: its memory; the other half of a double buffer (offset -1: none) */
  int64_t stride[PLAN_MAX_AXES];
} pad;

/* A program of the kernel (the program, or the recomputation of the steps of a chunk). */
typedef struct part {
  const tile_program *program;
  plan *p;
  carried_list carried;
  bool backward;
  location *scratch;                /* where its buffers begin, as plan.scratch */
  location *carried_at, *persistent_at; /* by carried value, by buffer */
  location *buffer_at;                  /* GPU: by buffer */
  location *kept_at;                /* by buffer: of those with a row for every step of a chunk */
  plan_buffer *history;             /* by argument: states before each step of the chunk, or each chunk of the group */
  location *history_at;
  pad *pads;                        /* by argument */
  int *maps;                        /* GPU, by argument: number of the map in host.maps, -1: none; NULL: no argument has one */
  ir *rows, first_step;             /* step_rows.c: rows of the chunk by argument (NULL: not copied ahead); its first step */
  lower l;
  view *memory;    /* by argument: tensor in memory, without time */
  ir *time_stride; /* by argument */
  view *result_memory;
  ir *result_time_stride;
} part;

typedef struct host {
  emitter *e;
  arena *a;
  const kernel *k;
  const codegen_kernel *described;
  const char *symbol;
  mapping m;
  part main, again;
  bool has_again;
  int64_t shared_numbers, instance_numbers; /* scratch: for the call, for each instance */
  VEC(extent) sized;     /* step form: behind them, blocks whose size is known at run time */
  location *stash_at;    /* by stash */
  plan_buffer *stashes;
  int stash_count;
  /* GPU */
  team team;
  int64_t on_chip;       /* elements of shared memory in use */
  int64_t chip_limit;
  int64_t history, homes, group_sums; /* elements of scratch: states before each chunk; spill slots of passes between
                                         groups; sums of the passes of a group */
  int64_t sums;          /* shared memory in which results are summed over threads */
  ir chip;               /* the start of shared memory */
  ir entry_step, saved_first; /* where tokens and saved states of the instance begin */
  ir part, lane_part;    /* the number of the time slice, and of the block of the lane axis */
  ir end_part;           /* the number of the last slice that has steps, or 0 */
  ir part_first;         /* mapping.parts: the first entry of this value-axis tile */
  ir of_matrix;          /* i1: the block has columns of a transition matrix; NULL: no block has */
  ir first_column;
  ir lane_end;           /* the end of the lane axis, or of the columns */
  ir own_groups, quiet;  /* chunk groups of this slice without its warm-up; i1: results of the current group are discarded */
  ir parts_kept;         /* the number of slices that have a summary */
  ir ends, ends_stride;  /* the slice summaries of this entry, where they are made or combined */
  ir warms_up;           /* i1: the slice begins a chunk earlier */
  location columns_at;   /* states before a slice, while its summary is combined */
  ir makes_states;       /* i1, backward: the slice makes the states that it reads; NULL: none does */
  ir states_grow;        /* i1: overflow fallback: neither states nor cotangents of slices are combined */
  ir never_back;         /* i1: the slice only makes states; NULL: none does */
  ir states_alone;       /* i1: the current pass through a group only makes states; NULL: none does */
  /* value_tiles.c */
  bool crowded;          /* register pressure: threads hold states in registers, but not sums and values of prologues */
  bool in_passes;
  ir pass_entry, pass_entries; /* lane axis: the number of this pass's entry, and of all entries */
  ir chunk_of_group;     /* the current chunk, whose gradients are added up; NULL: none */
  location *home_at;     /* by carried value: its spill slot between passes, in the memory of a pass */
  location *pass_sums;   /* by result of the main program: the sum over passes; offset -1: there is none */
  ir parts;
  /* bulk_copies.c */
  VEC(codegen_gpu_map) maps;
  int64_t maps_at;       /* byte of the parameter where they begin */
  double bulk_gain;      /* what bulk copies save in a chunk, in multiply-adds */
  ir phases;             /* parities of the mbarriers of bulk copies */
  /* inside a function */
  ir slots, sizes; /* of the frame */
  ir frame, batch, scratch, time, local; /* local: scratch of the instance */
  ir axis_size[PLAN_MAX_AXES];
  place_in_loops at;
} host;

/* kernel/host/kernel.c */
host host_for(arena *a, const codegen_kernel *k, const char *symbol, codegen_clone clone,
              number_type dtype);
void host_whole_instance(host *h);

/* slots.c */
bool host_in_memory(const kernel *k, const tile_place *place);
int host_find_slot(const codegen_kernel *k, tile_role role, int tensor, int lag);
bool host_stores_narrow(const host *h, const tile_place *place);
bool host_is_complex(const host *h, const tile_place *place);
axis_set host_grid_of(const kernel *k);
axis_set host_axes_of_place(const tile_place *place);
/* Chunk form: does the place lie where forward has saved it? */
bool host_is_saved(const part *p, const tile_place *place);
/* Backward: reads the states before, or values saved for them. */
bool host_reads_saved(const kernel *k);
int64_t host_parts_of_lag(const typed_lag *lag);
/* Chunk form: the place of stash `number`, kept by the forward and read by the backward; NULL if there are fewer. */
const tile_place *host_kept_value(const kernel *k, int number);

/* mapping.c */
axis_set host_parts_of(const kernel *k);
/* Is it the axis of sequences side by side, the outermost of all? */
bool host_is_of_sequences(const kernel *k, int axis);
bool host_is_long(const kernel *k);
mapping host_mapping_of(const kernel *k, codegen_clone clone, number_type dtype);

/* memory.c */
void host_plan(host *h);
codegen_bytes host_bytes_of(const host *h);
/* kernel/plan_text.c: a bug in the compiler if buffers lie over each other while both are alive. */
void host_verify_places(const host *h);
char *host_plan_text(arena *a, const host *h);

/* place.c */
location gpu_take(host *h, int64_t numbers);
/* From `at` on the first place in shared memory where so many words may begin. */
int64_t gpu_chip_place(const host *h, int64_t at, int64_t words);
void host_plan_program(host *h, part *p, const tile_program *program, bool backward);
void host_place_carried(host *h, part *p);
void host_place_pads(host *h, part *p);
void host_place_history(host *h, part *p);
void host_place_stashes(host *h);
/* Host: buffers, and those with a row for every step of a chunk. */
void host_place_scratch(host *h, part *p);
void host_place_kept(host *h, part *p);

/* tensors.c */
ir host_field(host *h, ir base, int64_t offset, LLVMTypeRef type);
ir host_slot_field(host *h, tile_role role, const tile_place *place, size_t offset,
                   LLVMTypeRef type);
void host_read_sizes(host *h);
/* The tensor of a place in memory, without time; *data: where it begins, NULL if the call has none. */
view host_memory_view(host *h, tile_role role, const tile_place *place, ir *data);
view host_view_stored_as(host *h, tile_role role, const tile_place *place, ir *data,
                         number_type stored);
/* Where what forward saves begins; NULL at run time: it saves nothing. */
ir host_saved_data(host *h);
view host_saved_view(host *h, const tile_place *place, ir chunk);
ir host_scratch_at(host *h, ir base, int64_t offset);
ir host_located(host *h, location at);
void host_open_part(host *h, part *p);
/* The numbers of `b` in scratch or shared memory; each thread has its own where threads share nothing. */
view gpu_view(host *h, lower *l, const plan_buffer *b, location at, ir rows_before);
view host_at_time(host *h, view v, ir t, ir stride);
/* The registers that hold the state of this view of p's; NULL: it is in memory. */
const kept_sums *host_kept_of(const part *p, const view *v);
void host_copy_state(host *h, part *p, const tile_place *place, const view *from, const view *to);
void host_fill_state(host *h, part *p, const tile_place *place, double number, const view *to);
/* States in registers, as products see them. */
void host_show_states(host *h, part *p);
/* i1: of the instances that differ in other axes than these alone, this one is the first. */
ir host_is_first(host *h, axis_set axes);
/* i1: this instance is the one of all that hold the state that writes it; and this thread is not beyond the lane axis. */
ir host_writes_state(host *h, const tile_place *place);
ir host_by_this_thread(host *h, ir condition);
/* From a whole axis to the part of it at hand (mapping.parts). */
void host_move_to_part(host *h, view *v, axis_set axes);

/* instance.c */
void host_open_instance(host *h, part *p);
/* Blocks of the lane axis, and behind them those of transition_matrices.c. */
ir host_lane_blocks(host *h);
/* Indices of instance number `instance`; returns the number of the lane block. */
ir host_split_instance(host *h, ir instance);

/* states.c */
ir host_saves(host *h);
void host_load_states(host *h, part *p);
void host_store_states(host *h, part *p);
void host_save_states(host *h, part *p, ir chunk);
void host_clear_sums(host *h, part *p);

/* kernel/gpu/memory.c */
void gpu_place(host *h);
/* Steps that multiply with matrices of parameters: their copies. False: there are no such steps. */
bool gpu_place_matrices(host *h);
bool gpu_is_crowded(const host *h);
bool gpu_carries_many(const host *h);
void gpu_place_sums(host *h);
/* Backward in chunks whose states are made again: forward saves those before every few chunks. */
void gpu_plan_chunks(host *h);
/* slices.c: time slices. */
bool gpu_makes_parts(const kernel *k);
/* Elements of a slice summary: states at its end, and its transition. */
codegen_bytes gpu_ends_numbers(arena *a, const kernel *k);
/* The time slice of a work item, whose remaining number is left in *item. */
void gpu_read_part(host *h, ir *item);
void gpu_cut_part(host *h);
void gpu_begin_factors(host *h, part *p);
void gpu_end_part(host *h, part *p);
/* States before this slice: combines the summaries of all slices before it. */
void gpu_join_parts(host *h, part *p);
/* i1: no steps follow the slice; backward: none precede it. */
ir gpu_is_last_part(host *h, const part *p);
/* In the loop over chunks, before chunk number `turn`: after the warm-up chunk of a slice. */
void gpu_end_warm_up(host *h, part *p, ir turn);
/* Backward, around a group of chunks: it may follow the slice's own (kernel.behind); its results are then discarded. */
void gpu_begin_group(host *h, ir group);
void gpu_end_group(host *h);
ir gpu_frame_number(host *h, size_t offset);
/* Backward that makes its states (kernel.states): the kernel that combines state summaries, and its frame. */
kernel gpu_kernel_of_states(const kernel *back);
host gpu_host_of_states(const host *h);
/* The states before the slice, saved. */
void gpu_begin_states(host *h);
/* Turns of a loop over groups of chunks, and the group of one. Returns i1: its states alone are made; NULL: never. */
ir gpu_turns(host *h, ir groups);
ir gpu_turn_of_groups(host *h, ir groups, ir turn, ir *group);
/* After the chunks of a group: saves the states, if the pass only makes states; how many of its chunks go back. */
void gpu_save_group(host *h, ir group);
ir gpu_chunks_back(host *h, ir chunks);
/* i1: there is memory for slice summaries. Without, the same function makes the states before chunks (STATES). */
ir gpu_keeps_parts(host *h);
/* The program that makes slice summaries: the kernel's own, or `ends`; NULL: time is not cut. */
const tile_program *gpu_ends_of(const kernel *k);
/* The slice summaries of this entry; the address of an element of a summary; the elements of a result there; the summary of
 * a state. */
void gpu_open_ends(host *h);
ir gpu_end_at(host *h, ir number, ir offset);
ir gpu_end_numbers(host *h, const tile_place *place);
view gpu_end_view(host *h, part *p, const tile_place *state, ir number);
/* running_maxima.c: running maxima, and states relative to them: at the start of a slice; after slice `number`. */
void gpu_begin_maxima(host *h, part *p);
bool gpu_joins_relatives(const kernel *k);
void gpu_join_relatives(host *h, part *p, ir number);
/* transition_matrices.c: states that mix their entries, and the blocks of KERNEL_PART that make their matrix. */
int gpu_column_blocks(const kernel *k);
void gpu_columns_numbers(arena *a, const kernel *k, codegen_bytes *numbers);
/* Where the rows of a state's matrix begin in a summary; NULL: the end of all matrices. */
ir gpu_columns_offset(host *h, const tile_place *state);
ir gpu_first_of_lanes(host *h);
void gpu_begin_column(host *h, part *p, const tile_place *state, const view *to);
void gpu_end_column(host *h, part *p, const tile_place *state, const view *from);
void gpu_place_columns(host *h);
/* states = matrix of the slice * states + its states from zero. */
void gpu_join_columns(host *h, part *p, ir number);
/* overflow_fallback.c: slices that must not be combined. A mark at the end of the summary; its kernel writes it last. */
void gpu_guard_numbers(arena *a, const kernel *k, codegen_bytes *numbers);
void gpu_guard_part(host *h, part *p);
/* i1: a slice of the instance is marked; `whole`: there is a single slice, without summary. Elements of host.sums for this. */
ir gpu_parts_grow(host *h, ir whole);
int64_t gpu_guard_sums(const host *h);
/* value_tiles.c: an instance whose chunks are computed in passes over value-axis tiles. */
bool gpu_has_passes(const kernel *k);
int64_t gpu_most_passes(const kernel *k);
void gpu_place_passes(host *h);
void gpu_instance_in_passes(host *h);
/* host_group_back in each pass. */
void gpu_group_in_passes(host *h, ir group, ir first, ir chunks);
/* Sums from chunk to chunk begin again, in all passes. */
void gpu_clear_passes(host *h);
/* Sums over passes, of a result to which several add. */
void gpu_pass_target(host *h, const part *p, int result, result_target *target);
/* bulk_copies.c: rows that bulk copies bring. */
void gpu_choose_bulk(host *h);
bool gpu_is_bulk(const part *p, int argument);
/* At the start of a kernel. */
void gpu_open_bulk(host *h);
/* Starts the bulk copies of a chunk. `turn`: rows with a double buffer; NULL: rows without. bulk[argument], i1: bulk copies
 * bring its rows; NULL: never. Earlier stores to that memory have been fenced, and a barrier has followed. */
void gpu_start_bulk(host *h, part *p, ir turn, ir chunk, ir *bulk);
/* Waits for the copies that were started last for this turn. */
void gpu_wait_bulk(host *h, ir turn);
/* kernel/gpu/staging.c: rows of a chunk in shared memory. */
/* Is the argument staged, rather than read where forward saved it? */
bool gpu_is_staged(const part *p, int argument);
/* Has it a double buffer? */
bool gpu_is_ahead(const part *p, int argument);
/* Where the chunk of this turn lies: halves take turns. */
ir gpu_rows_place(host *h, const pad *d, ir turn);
/* Double buffers, where shared memory is left. */
void gpu_place_ahead(host *h);
/* i1: the rows of a tensor that this instance touches begin at multiples of 16 bytes. */
ir gpu_aligned(host *h, part *p, const view *v, axis_set axes);
/* Before a loop over chunks: starts the copies of the first one, `any` (i1) if there is one. */
void gpu_open_chunks(host *h, part *p, ir first, ir any);
/* In the loop, for its iteration number `turn`: this chunk's rows are there; those of `next`, if there is `more`, are
 * being copied. */
void gpu_next_chunk(host *h, part *p, ir turn, ir chunk, ir next, ir more);

/* last_block.c: results that blocks add to, without tokens. */
int gpu_sums_of(const codegen_gpu_kernel *k);
/* A block has made all its items: BACKWARD counts, and the last block makes the sums; PART_BACK clears the counter. */
void gpu_end_block(host *h, int64_t last_at);

/* step_rows.c: threads by themselves, whose tokens come a chunk ahead. */
void gpu_place_steps(host *h);
bool gpu_steps_ahead(host *h);
/* As gpu_open_chunks and gpu_next_chunk. */
void gpu_open_steps(host *h, ir first, ir any);
void gpu_next_steps(host *h, ir turn, ir chunk, ir next, ir more);
/* The row of step `t`, if it was copied ahead. */
bool gpu_row_of_step(host *h, const part *p, int argument, ir t, view *row);

/* time_loop.c */
ir host_chunk_count(host *h);
void host_steps_forward(host *h);
void host_steps_backward(host *h);
void host_set_chunk(host *h, part *p, ir chunk, ir new_group);
ir host_chunk_in_order(host *h, ir index);
void host_chunk_body(host *h, ir chunk);
/* prefetch.c: before the body of a chunk, with the instance and the number of the chunk that come next (h->at). */
void host_fetch_next(host *h, part *p, ir chunk);
void host_chunks_inside(host *h);
/* Groups of chunks from the last, and one of them. */
void host_groups_back(host *h);
void host_group_back(host *h, ir group, ir first, ir chunks);

#endif
