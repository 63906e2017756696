// The frame of a kernel that is being lowered for one clone: tensors, states, places in memory,
// loops over time. The files of kernel/, host and GPU, share it. Each section of functions names
// its file.
#pragma once

#include "compiler/abi/frame.h"
#include "compiler/lower/lower.h"
#include "compiler/plan/kernel_plan.h"

typedef struct kernel_frame kernel_frame;

// A program of the kernel (the program, or the recomputation of the steps of a chunk).
typedef struct frame_program {
  const program_plan *at;  // its plan, from which these four are
  const tile_program *program;
  plan *p;
  carried_list carried;
  bool backward;
  // step_rows.c: rows of the chunk by argument (NULL: not copied ahead); its first step
  ir *rows, first_step;
  lower l;
  view *memory;     // by argument: tensor in memory, without time
  ir *time_stride;  // by argument
  // GPU: where the rows of this instance begin, by argument that is copied ahead of its chunks
  ir *row_start;
  view *result_memory;
  ir *result_time_stride;
} frame_program;

// What the host and a GPU do differently where the frame is the same (host/kernel.c, gpu/hooks.c).
typedef struct kernel_hooks {
  const nest_target *nests;
  // Bytes of a slot; in the frame of the call, where what forward saves begins, and its stride from
  // sequence to sequence.
  int64_t slot_bytes, saved_at, saved_stride_at;
  // In a tensor, where the tokens of this instance or its copy of a sum begin, in elements; NULL on
  // the host: at the start.
  ir (*tensor_offset)(kernel_frame *h, tile_role role, const tile_place *place);
  // Where the saved states of a chunk begin, in elements.
  ir (*saved_offset)(kernel_frame *h, ir chunk);
  ir (*buffer_memory)(kernel_frame *h, const frame_program *p, int buffer);
  // Before step t: the rows of all arguments. The host prefetches those of a later step; a GPU has
  // copied some ahead.
  void (*arguments_of_step)(kernel_frame *h, frame_program *p, ir t);
  // A buffer that lies behind so many elements from `at` on.
  view (*view_of)(kernel_frame *h, lower *l, const plan_buffer *b, location at, ir before);
  // beside: behind the copy of another state (lower_copy_beside).
  void (*copy_state)(kernel_frame *h, frame_program *p, const tile_place *place, const view *from,
                     const view *to, bool beside);
  // An instance is opened. open_argument: what a GPU alone knows of an argument (NULL on the host).
  // open_result: where result i goes; `data` is where its tensor begins, NULL at run time if it is
  // not wanted.
  void (*open_argument)(kernel_frame *h, const tile_place *place, view *v);
  void (*open_result)(kernel_frame *h, frame_program *p, int i, ir data);
  // The states are stored as those before this chunk, or loaded from there.
  void (*save_states)(kernel_frame *h, frame_program *p, ir chunk);
  void (*load_saved)(kernel_frame *h, frame_program *p, ir chunk);
  // Step form; NULL on the host, which copies no rows ahead. Are the rows of a chunk copied before
  // its steps? Before the loop over chunks: starts the copies of the first one, if there is `any`
  // (i1). In its iteration `turn`: waits for the rows of this chunk, and starts those of `next`, if
  // there is `more`.
  bool (*steps_ahead)(kernel_frame *h);
  void (*open_steps)(kernel_frame *h, ir first, ir any);
  void (*next_steps)(kernel_frame *h, ir turn, ir chunk, ir next, ir more);
  // Before a product over the steps of a chunk that has only so many; NULL on the host, whose
  // products take that number.
  void (*clear_missing_steps)(kernel_frame *h, ir steps);
} kernel_hooks;

// What a kernel knows while it is lowered for one clone, on the host and on GPUs.
struct kernel_frame {
  const kernel_hooks *hooks;
  emitter *e;
  arena *a;
  const kernel_plan *plan;
  const kernel *k;
  const codegen_kernel *described;
  const char *symbol;
  mapping m;
  // the program, and the one that computes the states of a chunk again
  frame_program main, recompute, common, opening;
  bool recomputes;

  // GPU; NULL on the host
  struct gpu_frame *gpu;
  team *team;
  ir shared;      // shared memory
  ir tile_first;  // value-axis tiles (mapping.tiled): the first entry of the current one

  // inside a function
  ir slots, sizes;                        // of the frame
  ir frame, batch, scratch, time, local;  // local: scratch of the instance, or of the panel
  ir chunk;                               // panels: the chunk at hand
  ir axis_size[PLAN_MAX_AXES];
  place_in_loops at;
};

// tensors.c
ir frame_field(kernel_frame *h, ir base, int64_t offset, LLVMTypeRef type);
ir frame_slot_field(kernel_frame *h, tile_role role, const tile_place *place, size_t offset,
                    LLVMTypeRef type);
void frame_read_sizes(kernel_frame *h);
// The tensor of a place in memory, without time; *data: where it begins, NULL if the call has none.
view frame_memory_view(kernel_frame *h, tile_role role, const tile_place *place, ir *data);
view frame_view_stored_as(kernel_frame *h, tile_role role, const tile_place *place, ir *data,
                          number_type stored);
// Where what forward saves begins; NULL at run time: it saves nothing.
ir frame_saved_data(kernel_frame *h);
ir frame_saved_batch_stride(kernel_frame *h);
view frame_saved_view(kernel_frame *h, const tile_place *place, ir chunk);
ir frame_scratch_at(kernel_frame *h, ir base, int64_t offset);
ir frame_located(kernel_frame *h, location at);
void frame_open_program(kernel_frame *h, frame_program *p);
ir frame_memory_for(kernel_frame *h, const plan_buffer *b, location at, const char *name);
view frame_at_time(kernel_frame *h, view v, ir t, ir stride);
// i1: of the instances that differ in other axes than these alone, this one is the first.
ir frame_is_first(kernel_frame *h, axis_set axes);
// i1: this instance is the one of all that hold the state that writes it.
ir frame_writes_state(kernel_frame *h, const tile_place *place);
// From a whole axis to the part of it at hand (mapping.tiled).
void frame_move_to_tile(kernel_frame *h, view *v, axis_set axes);

// instance.c
// A kernel with this plan, before anything is emitted.
kernel_frame frame_for(arena *a, const kernel_plan *plan, const char *symbol,
                       const kernel_hooks *hooks);
void frame_open_instance(kernel_frame *h, frame_program *p);
ir frame_lane_blocks(kernel_frame *h);
// i1: of the instances that have the same value, this one stores it.
ir frame_stores_result(kernel_frame *h, const frame_program *p, const tile_result *r);

// states.c
// i1: the caller wants states saved for backward.
ir frame_saves(kernel_frame *h);
// Chunk form, forward: saves the states where a group of chunks begins, whose other states backward
// computes again.
void frame_save_before_chunk(kernel_frame *h, ir chunk);
// `from` NULL: zeros.
void frame_copy_state(kernel_frame *h, frame_program *p, const tile_place *place, const view *from,
                      const view *to);
// Every entry of the state becomes `number`.
void frame_fill_state(kernel_frame *h, frame_program *p, const tile_place *place, double number,
                      const view *to);
void frame_clear_sums(kernel_frame *h, frame_program *p);

// steps.c
ir frame_chunk_count(kernel_frame *h);
// The number of the chunk that comes at this position: backward goes from the last.
ir frame_chunk_in_order(kernel_frame *h, ir index);
// Argument i at step t, as it lies in memory.
void frame_argument_of_step(kernel_frame *h, frame_program *p, int i, ir t);
// Row `step` of something that is kept for every step of a chunk, or every chunk of a group.
view frame_kept_row(kernel_frame *h, const plan_buffer *b, location at, ir step, lower *l);
// States of the recomputation become row `index` of those that the program reads.
void frame_keep_states(kernel_frame *h, ir index);
// Step form: all steps of the sequence, in order or in reverse.
void frame_loop_over_steps(kernel_frame *h);
// The steps of a chunk, forward; the values that panels share, of its steps.
void frame_steps_of_chunk(kernel_frame *h, ir chunk);
void frame_share_steps(kernel_frame *h, ir chunk);
// Chunk form, backward: `back` recomputes the states of a group of `chunks` chunks from those saved
// before the `first`, and goes back over the group; the last group first.
void frame_groups_back(kernel_frame *h,
                       void (*back)(kernel_frame *h, ir group, ir first, ir chunks));
// Where result i of the chunk goes. False: it has no rows in memory.
bool frame_result_of_chunk(kernel_frame *h, frame_program *p, int i, ir chunk, ir begin);
