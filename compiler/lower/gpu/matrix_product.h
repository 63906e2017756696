// A matrix of parameters times a vector, or a few, while it is lowered: matrix_vector.c and
// matrix_mma.c share these.
#pragma once

#include "compiler/lower/gpu/nests.h"

typedef struct matrix_product {
  matrix_vector g;
  const plan_nest *nest;
  const gpu_operands *o;
  loop_axes rows, depth;
  bool rows_in_line, depth_in_line;  // the matrix has them at one stride, whatever axes they have
  int64_t row_count, depth_count;
  int vectors;  // matrix_vector.vectors
  int lanes;    // lanes of a sum's vector; 0: a sum is a scalar
  view partial_sums;
} matrix_product;

// matrix_vector.c: the index of each axis at the point of this number; the same for an element of
// the matrix, where axes in line are one.
void gpu_matrix_go_to(lower *l, const loop_axes *axes, ir number, place_in_loops *at);
void gpu_matrix_go(lower *l, const loop_axes *axes, bool in_line, ir number, place_in_loops *at);
// x is the finished product at this row, for this vector of the current ones.
void gpu_matrix_finish(lower *l, const matrix_product *p, const place_in_loops *at, ir row,
                       ir vector, ir x);
// The address of a partial sum. After all are stored: adds them up, and finishes each row.
ir gpu_matrix_partial_sum(lower *l, const matrix_product *p, ir split, ir row, ir vector);
void gpu_matrix_add_up(lower *l, const matrix_product *p, const place_in_loops *at);

// matrix_mma.c: on tensor cores. `load`: the matrix into registers, before all steps.
void gpu_matrix_load(lower *l, const matrix_product *p, const place_in_loops *at);
void gpu_matrix_mma(lower *l, const matrix_product *p, const place_in_loops *at);
