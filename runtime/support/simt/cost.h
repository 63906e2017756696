// Counts of what a block's code costs (cost.c): calls that do nothing where nothing is counted.
#pragma once

#include "runtime/support/simt/block.h"

bool cost_open(simt_block *b);
void cost_free(simt_block *b);
void cost_begin_block(simt_block *b);
// All threads of the block are at a barrier, or have ended.
void cost_gather(simt_block *b);
// A warp reads rows of 16 bytes of shared memory, of which 8 make one access: ldmatrix, operands of
// wgmma.
void cost_rows(simt_block *b, int warp, const uint32_t *offsets, int count);
// A warp's part of a product of a warpgroup.
void cost_group_product(simt_block *b, int warp, int columns);
