// Nests on the host: functions that the files of lower/host share.
#pragma once

#include "compiler/lower/nest_target.h"

// outline.c: the nests of a region, in functions of their own where one would grow too long.
void host_region(lower *l, nest_range nests);

// points.c: elementwise values and reductions.
void host_points(lower *l, const plan_nest *nest);

// memory.c
ir host_load(lower *l, const view *v, const place_in_loops *at, axis_set axes);
void host_store(lower *l, const view *v, const place_in_loops *at, axis_set axes, ir x);
void host_result(lower *l, const result_target *target, const place_in_loops *at, axis_set axes,
                 ir x);

// lane_sums.c: results that add up the lanes of every point of a nest.
typedef struct staged_lanes {
  int result, block;  // rows summed together
  axis_set axes;
  view rows;
} staged_lanes;
int lane_block_of(const lower *l, const plan_nest *nest, int result);
staged_lanes stage_lanes(lower *l, const plan_nest *nest, int result, int block);
void stage_point(lower *l, const staged_lanes *s, const place_in_loops *at, ir x);
void add_staged_lanes(lower *l, const staged_lanes *s);
// The sums of the lanes of `count` vectors of `count` lanes, a power of two, side by side;
// overwrites `rows`.
ir sums_of_rows(emitter *e, ir *rows, int count);

// transpose.c: a pack in square blocks of vectors; false: it cannot be made so.
bool host_transpose(lower *l, const plan_nest *nest, view to);
// A product that has been made with other columns (plan_dot.pack_c), where its readers look for it.
void host_turn(lower *l, const plan_nest *nest, view made, view to);
// A copy of a view, in such blocks where it can be.
void host_copy(lower *l, const view_copy *c);
// A nest of which results lie across its vectors; false: none does.
bool host_results_across(lower *l, point_nest *n);

// How a product is stored: in place of the value in memory, added to it, or subtracted from it.
typedef enum dot_start { START_ZERO, START_ADD, START_SUBTRACT } dot_start;

// products.c
void host_dot(lower *l, const plan_nest *nest);
// Blocks of a product that can fetch rows beside it, or 0.
int64_t dot_blocks(const lower *l, const plan_nest *nest);

// pairs.c: an operand of a product, and the memory of its pairs of bf16. Strides are in numbers.
typedef struct pairs_of {
  ir from, row_stride, depth_stride, to;
  int64_t rows, depth;
  bool along;     // the depth is contiguous, else the rows are
  bool negative;  // signs change
} pairs_of;
void round_pairs(emitter *e, const pairs_of *pairs);
// sum + the products of a word with the words of a vector.
ir add_pairs(emitter *e, ir word, ir words, ir sum);

// prefetch.c: fetches the lines of the next entry.
void fetch_entry(emitter *e, const fetch_list *f);
// A line of memory for one of the caches, 3 the nearest.
void fetch_line(emitter *e, ir address, bool write, int nearness);
// The lines of a vector at each of the rows of l->ahead.
void fetch_ahead_at(lower *l, const place_in_loops *at);

typedef struct dot_sizes {
  int64_t rows, columns, depth;
} dot_sizes;

// products_along.c: `given` are a and its stride of rows, b and its stride of columns, c and its
// stride of rows.
void dot_along(emitter *e, dot_sizes sizes, dot_start start, const ir *given);

// products_of_lanes.c. `given`: a, its strides of rows and of k; b, its strides of columns and of
// k; c, its strides of rows and of columns.
void dot_lanes(emitter *e, dot_sizes sizes, int lanes, dot_start start, const ir *given);

// solve.c
void host_solve(lower *l, const plan_nest *nest);
