// A product on tensor cores while it is lowered: mma.c and wgmma.c share these types and functions.
#pragma once

#include "compiler/lower/gpu/nests.h"

typedef enum operand_way { BY_ELEMENTS, BY_MATRIX, BY_MATRIX_TRANSPOSED } operand_way;

typedef struct mma_operand {
  view v;
  axis_set axes;
  int line;  // the axis that is not summed: i or j
  operand_way way;
} mma_operand;

typedef struct mma {
  const plan_nest *nest;
  const gpu_operands *operands;
  const gpu_factors *factors;  // the current product, and its operands
  mma_operand a, b;
  number_type type;  // f32: by tf32
  int depth;         // steps of k in an instruction
  int tiles;         // of columns in a warp's block
  int first_tile;    // register-resident accumulator: the number of its tiles before this block
  // at the block at hand
  ir first_row, first_column;  // of the block
  ir group_row;                // of the four warps of a warpgroup
  ir unknown_zero;             // added to addresses in descriptors; NULL: nothing is
  ir group, pair;              // lane / 4, lane % 4
  ir lane;
  ir sums[GPU_MOST_KEPT][4];
  // the accumulator of the first of two products, if it is scaled before the sum
  ir others[GPU_MOST_KEPT][4];
  ir *row_sums
      [2];  // by position in the nest: the sums of rows 0-7 and 8-15 of the block (row_sums.c); NULL: the value is no sum
  int row_lanes;  // lanes of each of these sums
} mma;

// mma_operands.c: makes these operands the current ones.
void gpu_mma_take(lower *l, mma *p, const gpu_factors *factors);
// The registers of `a`, and of `b` for a tile of 8 columns, for one instruction.
void gpu_mma_a(lower *l, const mma *p, const place_in_loops *at, ir k, ir out[4]);
void gpu_mma_b(lower *l, const mma *p, const place_in_loops *at, int tile, ir k, ir out[2]);
bool gpu_mma_is_tf32(const mma *p);
// Does an index lie inside of the axis?
ir gpu_mma_below(lower *l, ir index, int axis);

// row_sums.c: sums over the columns of a product. Opened before, stored after the columns of a
// warp. `lanes`: elements of a row at once; 0: one by one.
void gpu_rows_open(lower *l, mma *p, int lanes);
void gpu_rows_close(lower *l, const mma *p, const place_in_loops *at, ir column_block);
// After all blocks: adds the partial sums of warps that share a row.
void gpu_rows_finish(lower *l, const mma *p);

// wgmma.c: is the current product made by wgmma? A product over all of k.
bool gpu_is_group(lower *l, const mma *p);
void gpu_group_multiply(lower *l, mma *p, const place_in_loops *at);
// Are both products of the nest made by wgmma? Both, with one wait.
bool gpu_are_groups(lower *l, mma *p);
void gpu_group_multiply_both(lower *l, mma *p, const place_in_loops *at);
