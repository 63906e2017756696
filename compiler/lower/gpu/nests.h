// Nests among the threads of a GPU block: functions that the files of lower/gpu share.
#pragma once

#include "compiler/emit/gpu_ops.h"
#include "compiler/lower/nest_target.h"

// loops.c: blocks of a product, of 16 rows each. Sets row and column of block `index`; returns the
// rest of the index.
typedef struct gpu_blocks {
  int64_t rows, columns;
} gpu_blocks;
ir gpu_block_at(lower *l, gpu_blocks all, ir index, ir *i, ir *j);
// mma_operands.c: may two neighbouring elements along the axis be loaded together?
bool gpu_has_pairs(lower *l, const view *v, int axis);
// wgmma.c: the fence after stores to memory that warpgroup products may read.
void gpu_fence_groups(lower *l);
bool gpu_nest_feeds_groups(const lower *l, const plan_nest *nest);

// nests.c
// The team of one nest: values made of the thread's number are not kept in registers for other
// nests. Warp `begin` is its first.
team gpu_team_of_nest(const lower *l, int begin);
// What the nest has to do with buffers in scratch.
scratch_use gpu_scratch_use(const lower *l, const plan_nest *nest);
// Are values made anew for each nest, so that none is kept in registers for others? In a kernel
// with buffers in scratch the assembler fills registers with loads; states fill them where several
// blocks share those of a multiprocessor.
bool gpu_lacks_registers(const lower *l);
// The indices of the instance, as numbers of one nest: addresses made of them are not kept for
// other nests.
void gpu_place_of_nest(lower *l);
// i32: 0, which the assembler does not know.
ir gpu_unknown_zero(const lower *l);
// The warp of a thread, as the shuffled value of lane 0. The assembler then knows that branches and
// loops by it are uniform in a warp. Shuffles in them need no second path for diverged lanes.
ir gpu_warp_of_block(emitter *e, ir thread, int threads);
ir gpu_warp(const lower *l);
ir gpu_lane(const lower *l);

// The number of another lane: GPU_SHFL_BFLY_F32 and its kin.
ir gpu_from_lane(emitter *e, gpu_op op, ir x, int by);
// A reduction over lanes whose numbers differ in the bits from `most` down to `least`.
ir gpu_across_lanes(emitter *e, tile_op op, ir x, int most, int least);
// thread_sums.c: a reduction over all threads of a block, whose result all threads get.
ir team_all(lower *l, tile_op op, ir x);
// Results of a nest that are summed over threads. The sums of warps are put into shared memory, at
// each point or behind all of them. Afterwards each thread adds up the warps of a point.
typedef struct team_sums {
  const plan_nest *nest;
  int64_t points;  // of the nest; below 0: known at run time
  int numbers;     // of a thread, or of a point
  ir staged;       // the thread's numbers; NULL: each is summed where it is made
} team_sums;
team_sums team_open(lower *l, const plan_nest *nest);
void team_stage(lower *l, const team_sums *s, int position, const place_in_loops *at, ir x);
void team_finish(lower *l, const team_sums *s);

// solve.c
void gpu_solve(lower *l, const plan_nest *nest);

// scan.c
// Lanes that share a column, or a point. `side` columns lie side by side in a warp.
typedef struct gpu_column {
  int lanes, side;
  ir lane;    // the number of this lane among those of the column
  ir inside;  // i1: there is such a column; NULL: always
  place_in_loops at;
} gpu_column;
// The column of this thread. Neighbours along the last axis are neighbours in a warp.
gpu_column gpu_column_of(lower *l, const loop_axes *columns, int lanes);
// Prefix sums along time; several threads may share a column.
void gpu_prefix(lower *l, const plan_nest *nest);
void gpu_segment(lower *l, const plan_nest *nest);
// segment_adjoint.c
void gpu_segment_adjoint(lower *l, const plan_nest *nest);

// segment.c: makes the levels of sums between pairs of steps; false: this segment has no levels.
bool gpu_make_levels(lower *l, const plan_nest *nest);
// An element of a segment with levels.
ir gpu_segment_at(lower *l, const place_in_loops *at, tile_id id);

// lower/gpu/register_states.c: registers for a state; its numbers from memory (NULL: zeros), factor
// * the numbers + left, as products see them, and to memory.
void gpu_accumulators_open(lower *l, int carried);
void gpu_accumulators_load(lower *l, const register_accumulators *k, const view *from,
                           axis_set axes);
void gpu_accumulators_combine(lower *l, const register_accumulators *k, const view *left,
                              axis_set axes, const view *factor, axis_set factor_axes);
void gpu_accumulators_show(lower *l, const register_accumulators *k, const view *copy,
                           axis_set axes);
void gpu_accumulators_store(lower *l, const register_accumulators *k, const view *to,
                            axis_set axes);
// The elements of two slots, as a vector.
ir gpu_pair_of(emitter *e, const ir *slots);
void gpu_set_pair(emitter *e, const ir *slots, ir x);
// Called at each pair of neighbouring elements, of a tile's upper or lower half.
typedef void pair_function(lower *l, const place_in_loops *at, const ir *slots, void *data);
void gpu_accumulators_each(lower *l, const register_accumulators *k, pair_function *body,
                           void *data);

// vectors.c
ir gpu_load(lower *l, const view *v, const place_in_loops *at, axis_set axes);
// The bits of two neighbours of 16 bits, the first in the low half; NULL: they may lie in two
// words.
ir gpu_load_pair(lower *l, const view *v, const place_in_loops *at, axis_set axes);
void gpu_store(lower *l, const view *v, const place_in_loops *at, axis_set axes, ir x);

// loops.c
// Functions with a body take an estimate of its instructions: a few turns of a small body stand one
// behind the other.
enum { GPU_SHORT_BODY = 60, GPU_BODY = 500, GPU_LONG_BODY = 10000 };
// The number of points of these axes; -1: a size is known at run time only. The point of a number,
// where the last axis counts fastest.
int64_t gpu_point_count(const lower *l, const loop_axes *axes);
void gpu_go_to_point(lower *l, const loop_axes *axes, ir index, place_in_loops *at);
// The points of these axes, divided among the threads of a block. All threads compute a single
// point, and one thread stores it.
void gpu_each_point(lower *l, const loop_axes *axes, int64_t instructions, place_in_loops *at,
                    nest_function *inner, void *data);
// Some of the points of these axes, taken as vectors of `numbers` neighbours along the last axis:
// number `first`, and every `step`-th after it. `whole`: as many turns as there are for a multiple
// of that number, with indices beyond the end. `order`: each turn is taken in place of the turn
// whose number is `order` xor its own, where all turns are whole; NULL: 0.
typedef struct piece_share {
  ir first, order;
  int64_t step, whole;
} piece_share;
void gpu_pieces_of(lower *l, const loop_axes *axes, int numbers, piece_share share,
                   int64_t instructions, place_in_loops *at, nest_function *inner, void *data);
// The same for vectors of `numbers` neighbours along the last axis: at the first of each, with the
// lanes of the vector.
void gpu_shared_pieces(lower *l, const loop_axes *axes, int numbers, int64_t instructions,
                       place_in_loops *at, nest_function *inner, void *data);
void gpu_wide_loops(lower *l, const loop_axes *axes, int lanes, int64_t instructions,
                    place_in_loops *at, nest_function *inner, void *data);
void gpu_vectors(lower *l, const loop_axes *axes, bool copies, point_function *body, void *data);
// As lower_copies. A thread has several places in one call where all threads have as many.
enum { MOST_POINTS_AT_ONCE = 4 };
typedef void points_function(lower *l, const place_in_loops *at, int count, void *data);
void gpu_copies_at_once(lower *l, axis_set axes, points_function *body, void *data);

// points.c: elementwise values and reductions.
void gpu_points(lower *l, const plan_nest *nest);

// results.c: stores an element of a result, to which several blocks and value-axis tiles may add.
void gpu_result(lower *l, const result_target *target, const place_in_loops *at, axis_set axes,
                ir x);

// copies.c: copies a tensor, by one function for all copies of its shape, or by loops.
void gpu_copy_view(lower *l, const view_copy *c);
// The name of a function: `what` and a hash of `parts`, the text of all that it depends on.
const char *gpu_short_name(emitter *e, const char *what, const char *parts);

// around_product.c
// The first of two products, x, scaled before the second is added.
ir gpu_between_products(lower *l, const place_in_loops *at, const plan_nest *nest, ir x);
// The place of the sum: its axes may have other names than the product's.
place_in_loops gpu_place_made(lower *l, const place_in_loops *at, const plan_nest *nest);

// barriers.c: a barrier of the block, after which all threads see each other's stores. Nothing
// where threads share nothing.
void lower_barrier(lower *l);
// A barrier before code that is no nest of the plan: it may touch any memory.
void gpu_wait(lower *l);
// A barrier, if the nest needs one; at least one of warps before a nest that reads scratch.
void gpu_before_nest(lower *l, const plan_nest *nest);
// Forgets the accesses of earlier nests. `known`: a barrier has just come; else earlier code may
// have touched any memory.
void gpu_forget_accesses(lower *l, bool known);

// The operands of a product.
typedef struct gpu_factors {
  const plan_dot *dot;
  view a, b;
  axis_set a_axes, b_axes;
  axis_set summed;  // summed axes except k
  bool minus;
} gpu_factors;

// A product of the plan: c (+)= a b, or c -= a b.
typedef struct gpu_operands {
  gpu_factors first, other;  // `other`: the first product of a nest with two
  view c;
  axis_set c_axes, around;  // around: axes except i and j
  bool add;
  // the sum whose other operand initialises the accumulator; NO_TILE: c does
  tile_id start;
  const register_accumulators *kept;  // the register-resident state that is the accumulator; NULL
  int state;                          // the argument of that state
  bool hidden;                        // shared memory has no 16-bit copy of that state
  bool goes_on;                       // no c: values after the product read the accumulator
} gpu_operands;

// around_product.c: the accumulator at a place, perhaps a vector along j, before and after the product.
// `kept`: the value of the register-resident state there.
ir gpu_first_sum(lower *l, const gpu_operands *o, const place_in_loops *at, ir kept);
void gpu_last_sum(lower *l, const plan_nest *nest, const gpu_operands *o, const place_in_loops *at,
                  ir x);

// lower/gpu/products.c
void gpu_dot(lower *l, const plan_nest *nest);
// The same: loads matrices of parameters into registers, where the plan has them. Behind the
// prologue.
void gpu_hold_matrices(lower *l);
// matrix_vector.c: a matrix of parameters times a vector; before the first step, loads such a
// matrix into registers.
void gpu_matrix_product(lower *l, const plan_nest *nest, const gpu_operands *o);
void gpu_hold_matrix(lower *l, const plan_nest *nest, const gpu_operands *o);
// mma.c: on tensor cores.
void gpu_mma(lower *l, const plan_nest *nest, const gpu_operands *operands);
