// Value-axis tiles, one after another within a group of chunks.
#pragma once

#include "compiler/kernel/frame.h"

typedef struct value_tiles {
  ir count;           // of tiles
  ir entry, entries;  // of the lane axis: the entry of this tile, and how many there are
  ir chunk;           // the current chunk, whose gradients are summed; NULL: none is
} value_tiles;

// An instance that computes value-axis tiles one after another, in each group of chunks.
void gpu_instance_in_value_tiles(kernel_frame *h);
// gpu_group_back for each tile.
void gpu_group_in_value_tiles(kernel_frame *h, ir group, ir first, ir chunks);
// Clears the sums from chunk to chunk of all tiles.
void gpu_clear_value_tiles(kernel_frame *h);
// A result to which several tiles add: its sum in scratch.
void gpu_value_tile_target(kernel_frame *h, const frame_program *p, int result,
                           result_target *target);
