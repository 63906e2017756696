// The frame of a GPU kernel: its members in addition to the frame of any kernel, and functions that
// the files of kernel/gpu share. Each section names its file.
#pragma once

#include "compiler/abi/gpu_frame.h"
#include "compiler/kernel/frame.h"
#include "compiler/kernel/gpu/time_slices/slices.h"
#include "compiler/kernel/gpu/value_tiles.h"

typedef struct gpu_frame {
  team team;
  ir entry_step, saved_first;  // the first step of the entry's tokens, and of its saved states
  ir copy;                     // the copy of sums over entries that this item adds to
  // number of the block of the lane axis; the end of that axis, or of the columns of the matrix
  ir lane_block, lane_end;
  time_slice slice;
  value_tiles tiles;
} gpu_frame;

// frame.c
// i64: a member of the rec_gpu_frame.
ir gpu_frame_number(kernel_frame *h, size_t offset);
// A copy of the frame, whose GPU members may be set without changing the original.
kernel_frame gpu_copy_of(const kernel_frame *h);
void gpu_open_program(kernel_frame *h, frame_program *p);
// The accumulators that hold the state of this view; NULL: the state is in memory.
const register_accumulators *gpu_registers_of(const frame_program *p, const view *v);
void gpu_copy_state(kernel_frame *h, frame_program *p, const tile_place *place, const view *from,
                    const view *to, bool beside);
// Writes the 16-bit copies of register-resident states, which products read.
void gpu_show_states(kernel_frame *h, frame_program *p);
// i1: the condition holds, and this thread has an entry of the lane axis.
ir gpu_by_this_thread(kernel_frame *h, ir condition);
// states.c
void gpu_load_states(kernel_frame *h, frame_program *p);
void gpu_store_states(kernel_frame *h, frame_program *p);
void gpu_save_states(kernel_frame *h, frame_program *p, ir chunk);
void gpu_load_saved(kernel_frame *h, frame_program *p, ir chunk);
// instance.c
void gpu_instance(kernel_frame *h);
// time_loop.c
void gpu_loop_over_time(kernel_frame *h);
// Step form: clears the kept rows of the steps from `steps` on, which the last chunk does not have.
void gpu_clear_missing_steps(kernel_frame *h, ir steps);
// Backward: all groups of chunks, from the last one; one group.
void gpu_groups_back(kernel_frame *h);
void gpu_group_back(kernel_frame *h, ir group, ir first, ir chunks);
// hooks.c
extern const kernel_hooks gpu_hooks;

// kernel/gpu/staging.c: rows of a chunk in shared memory.
// i1: all rows of the tensor that this instance touches begin at multiples of 16 bytes.
ir gpu_aligned(kernel_frame *h, frame_program *p, const view *v, axis_set axes);
// Before a loop over chunks: starts the copies of the first one, `any` (i1) if there is one.
void gpu_open_chunks(kernel_frame *h, frame_program *p, ir first, ir any);
// In iteration number `turn` of the loop: waits for the rows of this chunk, and starts the copies
// of chunk `next`. `more` (i1): there is one.
void gpu_next_chunk(kernel_frame *h, frame_program *p, ir turn, ir chunk, ir next, ir more);

// step_rows.c: MAP_THREADS, tokens copied a chunk ahead.
bool gpu_steps_ahead(kernel_frame *h);
// As gpu_open_chunks and gpu_next_chunk.
void gpu_open_steps(kernel_frame *h, ir first, ir any);
void gpu_next_steps(kernel_frame *h, ir turn, ir chunk, ir next, ir more);
// The rows of step t, copied ahead or in memory.
void gpu_arguments_of_step(kernel_frame *h, frame_program *p, ir t);
