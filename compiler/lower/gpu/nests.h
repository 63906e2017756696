// Nests among the threads of a GPU block: functions that the files of lower/gpu share.
#ifndef REC_LOWER_GPU_NESTS_H
#define REC_LOWER_GPU_NESTS_H

#include "compiler/emit/gpu_ops.h"
#include "compiler/lower/nest_target.h"

// mma.c: blocks of a product, of 16 rows each. Row and column of the one of this number; returns what is left of it.
typedef struct gpu_blocks {
  int64_t rows, columns;
} gpu_blocks;
ir gpu_block_at(lower *l, gpu_blocks all, ir index, ir *i, ir *j);
// wgmma.c: the fence after stores to memory that warpgroup products may read.
void gpu_fence_groups(lower *l);
bool gpu_nest_feeds_groups(const lower *l, const plan_nest *nest);

// nests.c
// The threads of a block for one nest: what it makes of their number is not kept in registers for other nests.
team gpu_team_of_nest(const lower *l);
// The warp of a thread, as the shuffled value of lane 0. The assembler then knows that branches and loops by it are uniform in
// a warp. Shuffles in them need no second path for diverged lanes.
ir gpu_warp_of_block(emitter *e, ir thread, int threads);
ir gpu_warp(const lower *l);
ir gpu_lane(const lower *l);
void gpu_solve(lower *l, const plan_nest *nest);
// Results that are summed over threads. Each point of the nest puts the sums of its warps into shared memory. Afterwards each
// thread adds up the warps of a point.
void team_stage(lower *l, const plan_nest *nest, int position, const place_in_loops *at, ir x);
void team_finish(lower *l, const plan_nest *nest);

// What a reduction comes to over all threads of a block, for each of them.
ir team_all(lower *l, tile_op op, ir x);

// scan.c: sums along time; several threads may share a column.
void gpu_prefix(lower *l, const plan_nest *nest);
void gpu_segment(lower *l, const plan_nest *nest);
void gpu_segment_adjoint(lower *l, const plan_nest *nest);

// segment.c: sums between pairs of steps, by levels; false: this segment has none.
bool gpu_make_levels(lower *l, const plan_nest *nest);
bool gpu_adjoint_by_levels(lower *l, const plan_nest *nest);
// A number of a segment that has levels.
ir gpu_segment_at(lower *l, const place_in_loops *at, tile_id id);

// lower/gpu/register_states.c: registers for a state; its numbers from memory (NULL: zeros), factor * the numbers + left, as products see
// them, and to memory.
void gpu_accumulators_open(lower *l, int carried);
void gpu_accumulators_load(lower *l, const register_accumulators *k, const view *from, axis_set axes);
void gpu_accumulators_join(lower *l, const register_accumulators *k, const view *left, axis_set axes, const view *factor,
                           axis_set factor_axes);
void gpu_accumulators_show(lower *l, const register_accumulators *k, const view *copy, axis_set axes);
void gpu_accumulators_store(lower *l, const register_accumulators *k, const view *to, axis_set axes);
// What two slots hold, as a vector.
ir gpu_pair_of(emitter *e, const ir *slots);
void gpu_set_pair(emitter *e, const ir *slots, ir x);
// Calls `body` at each pair of numbers side by side, of a tile's upper or lower half.
typedef void pair_function(lower *l, const place_in_loops *at, const ir *slots, void *data);
void gpu_accumulators_each(lower *l, const register_accumulators *k, pair_function *body, void *data);

// vectors.c
ir gpu_load(lower *l, const view *v, const place_in_loops *at, axis_set axes);
void gpu_store(lower *l, const view *v, const place_in_loops *at, axis_set axes, ir x);

// loops.c
// How many points these axes have; -1: a size is known at run time only. The point of a number, the last axis counting fastest.
int64_t gpu_point_count(const lower *l, const loop_axes *axes);
void gpu_go_to_point(lower *l, const loop_axes *axes, ir index, place_in_loops *at);
// How many neighbours along the last axis a thread takes at once: all threads have work.
int gpu_lanes(const lower *l, const loop_axes *axes);
// Points of these axes, shared out among the threads of a block; of one point, which all threads compute, one thread stores.
void gpu_each_point(lower *l, const loop_axes *axes, place_in_loops *at, nest_function *inner, void *data);
// The same in pieces of so many neighbours along the last axis: the first of each; as lanes of a vector, if there are several.
void gpu_shared_pieces(lower *l, const loop_axes *axes, int numbers, place_in_loops *at, nest_function *inner, void *data);
void gpu_wide_loops(lower *l, const loop_axes *axes, int lanes, place_in_loops *at, nest_function *inner, void *data);
void gpu_vectors(lower *l, const loop_axes *axes, bool copies, point_function *body, void *data);
// As lower_copies, with several places of a thread in one call where there are as many for all threads.
enum { MOST_POINTS_AT_ONCE = 4 };
typedef void points_function(lower *l, const place_in_loops *at, int count, void *data);
void gpu_copies_at_once(lower *l, axis_set axes, points_function *body, void *data);

// points.c: elementwise values and reductions.
void gpu_points(lower *l, const plan_nest *nest);

// results.c: a number of a result, to which several blocks and value-axis tiles may add.
void gpu_result(lower *l, const result_target *target, const place_in_loops *at, axis_set axes, ir x);

// copies.c: a copy of a tensor: by one function for all copies of its shape, or by loops.
void gpu_copy(lower *l, const view_copy *c);
// Of a function that is made from all of `parts`.
const char *gpu_short_name(emitter *e, const char *what, const char *parts);

// around_product.c
// The initial value of the accumulator of the nest's product. `known`: an argument that is not in memory; -1: nothing is known.
typedef struct known_argument {
  int argument;
  ir x;
} known_argument;
ir gpu_before_product(lower *l, const place_in_loops *at, tile_id sum, known_argument known);
// The first of two products, x, scaled before the second is added.
ir gpu_between_products(lower *l, const place_in_loops *at, const plan_nest *nest, ir x);
// The values after the product in its nest, at a place where the product is x.
void gpu_after_product(lower *l, const place_in_loops *at, const plan_nest *nest, ir x);
// Where that is: the sum to which the product is added may have other names for its axes.
place_in_loops gpu_place_made(lower *l, const place_in_loops *at, const plan_nest *nest);

// barriers.c: a barrier of the block, after which all threads see each other's stores. Nothing where threads share nothing.
void lower_barrier(lower *l);
// The same before code that is no nest of the plan: nothing is known of what it touches.
void gpu_wait(lower *l);
memory_since *gpu_memory_since(arena *a, const plan *p);
// A barrier where the nest needs one.
void gpu_before_nest(lower *l, const plan_nest *nest);
// `known`: there was a barrier just now; else nothing is known of what ran before.
void gpu_forget_accesses(lower *l, bool known);

// The operands of a product.
typedef struct gpu_factors {
  const plan_dot *dot;
  view a, b;
  axis_set a_axes, b_axes;
  axis_set summed;  // beside k
  bool minus;
  const register_operand *left;  // `a` is in registers; NULL: in memory
} gpu_factors;

// A product of the plan: c (+)= a b, or c -= a b.
typedef struct gpu_operands {
  gpu_factors first, other;  // `other`, of nests of two products, is made before
  view c;
  axis_set c_axes, around;  // around: beside i and j
  bool add;
  tile_id start;                      // the sum that starts with something else than what is in c; NO_TILE
  const register_accumulators *kept;  // the sums are a state that stays in them; NULL
  int state;                          // its argument
  bool hidden;                        // shared memory has no copy of that state
  bool goes_on;                       // there is no c: values after the product read the accumulator
  tile_id stays;                      // what the nest makes stays in registers, or NO_TILE
} gpu_operands;

// lower/gpu/products.c: the sums at a place, which may be a vector along j, before and after the product. `kept`: what a state that
// stays in them is.
ir gpu_first_sum(lower *l, const gpu_operands *o, const place_in_loops *at, ir kept);
void gpu_last_sum(lower *l, const plan_nest *nest, const gpu_operands *o, const place_in_loops *at, ir x);

// lower/gpu/products.c
void gpu_dot(lower *l, const plan_nest *nest);
// matrix_vector.c: a matrix of parameters times a vector.
void gpu_matrix_product(lower *l, const plan_nest *nest, const gpu_operands *o);
// mma.c: on tensor cores.
void gpu_mma(lower *l, const plan_nest *nest, const gpu_operands *operands);

#endif
