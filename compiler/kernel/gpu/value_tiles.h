// Value-axis tiles, one after another within a group of chunks.
#ifndef REC_KERNEL_GPU_VALUE_TILES_H
#define REC_KERNEL_GPU_VALUE_TILES_H

#include "compiler/kernel/frame.h"

typedef struct value_tiles {
  ir count;           // of tiles
  ir entry, entries;  // of the lane axis: the entry of this tile, and how many there are
  ir chunk;           // the current chunk, whose gradients are summed; NULL: none is
} value_tiles;

// An instance whose chunks are computed in passes over value-axis tiles.
void gpu_instance_in_value_tiles(kernel_frame *h);
// gpu_group_back in each pass.
void gpu_group_in_value_tiles(kernel_frame *h, ir group, ir first, ir chunks);
// Sums from chunk to chunk begin again, in all passes.
void gpu_clear_value_tiles(kernel_frame *h);
// Sums over passes, of a result to which several add.
void gpu_value_tile_target(kernel_frame *h, const frame_program *p, int result, result_target *target);

#endif
