// The frame of a GPU kernel: what it knows beside the frame of any kernel, and functions that the files of kernel/gpu share.
// Each section names its file.
#ifndef REC_KERNEL_GPU_FRAME_H
#define REC_KERNEL_GPU_FRAME_H

#include "compiler/kernel/frame.h"
#include "compiler/kernel/gpu/time_slices/slices.h"
#include "compiler/kernel/gpu/value_tiles.h"
#include "runtime/shared/gpu_frame.h"

typedef struct gpu_frame {
  team team;
  ir entry_step, saved_first;  // where tokens and saved states of the instance begin
  ir copy;                     // number of the copy of sums over entries that the item has
  ir lane_block, lane_end;     // number of the block of the lane axis; end of that axis, or of the columns
  time_slice slice;
  value_tiles tiles;
  ir bulk_phases;  // of the barriers that wait for bulk copies (bulk_copies.c)
} gpu_frame;

// states.c
void gpu_load_states(kernel_frame *h, frame_program *p);
void gpu_store_states(kernel_frame *h, frame_program *p);
void gpu_save_states(kernel_frame *h, frame_program *p, ir chunk);
void gpu_load_saved(kernel_frame *h, frame_program *p, ir chunk);
// The registers that hold the state of this view of p's; NULL: it is in memory.
const register_accumulators *gpu_registers_of(const frame_program *p, const view *v);
void gpu_copy_state(kernel_frame *h, frame_program *p, const tile_place *place, const view *from, const view *to);
void gpu_fill_state(kernel_frame *h, frame_program *p, const tile_place *place, double number, const view *to);
// States in registers, as products see them.
void gpu_show_states(kernel_frame *h, frame_program *p);
// The condition, and this thread has an entry of the lane axis.
ir gpu_by_this_thread(kernel_frame *h, ir condition);
// instance.c
// A number of the rec_gpu_frame.
ir gpu_frame_number(kernel_frame *h, size_t offset);
// The same frame, whose members may be set without changing it.
kernel_frame gpu_copy_of(const kernel_frame *h);
void gpu_open_part(kernel_frame *h, frame_program *p);
void gpu_instance(kernel_frame *h);
// time_loop.c
void gpu_loop_over_time(kernel_frame *h);
// Step form: rows kept of the steps from `steps` on, which the chunk does not have, are 0.
void gpu_clear_missing_steps(kernel_frame *h, ir steps);
// Groups of chunks from the last, and one of them.
void gpu_groups_back(kernel_frame *h);
void gpu_group_back(kernel_frame *h, ir group, ir first, ir chunks);
// hooks.c
extern const kernel_hooks gpu_hooks;

// bulk_copies.c: rows that bulk copies bring.
// At the start of a kernel.
void gpu_open_bulk(kernel_frame *h);
// Starts the bulk copies of a chunk. `turn`: rows with a double buffer; NULL: rows without. bulk[argument], i1: bulk copies
// bring its rows; NULL: never. Earlier stores to that memory have been fenced, and a barrier has followed.
void gpu_start_bulk(kernel_frame *h, frame_program *p, ir turn, ir chunk, ir *bulk);
// Waits for the copies that were started last for this turn.
void gpu_wait_bulk(kernel_frame *h, ir turn);
// kernel/gpu/staging.c: rows of a chunk in shared memory.
// Has it a double buffer?
bool gpu_is_ahead(const frame_program *p, int argument);
// Where the chunk of this turn lies: halves take turns.
ir gpu_rows_place(kernel_frame *h, const pad *d, ir turn);
// i1: the rows of a tensor that this instance touches begin at multiples of 16 bytes.
ir gpu_aligned(kernel_frame *h, frame_program *p, const view *v, axis_set axes);
// Before a loop over chunks: starts the copies of the first one, `any` (i1) if there is one.
void gpu_open_chunks(kernel_frame *h, frame_program *p, ir first, ir any);
// In the loop, for its iteration number `turn`: this chunk's rows are there; those of `next`, if there is `more`, are
// being copied.
void gpu_next_chunk(kernel_frame *h, frame_program *p, ir turn, ir chunk, ir next, ir more);

// step_rows.c: threads by themselves, whose tokens come a chunk ahead.
bool gpu_steps_ahead(kernel_frame *h);
// As gpu_open_chunks and gpu_next_chunk.
void gpu_open_steps(kernel_frame *h, ir first, ir any);
void gpu_next_steps(kernel_frame *h, ir turn, ir chunk, ir next, ir more);
// The rows of step t, copied ahead or in memory.
void gpu_arguments_of_step(kernel_frame *h, frame_program *p, ir t);

#endif
