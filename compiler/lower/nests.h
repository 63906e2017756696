// Functions that the files of lowering share. Each section names its file.
#ifndef REC_LOWER_NESTS_H
#define REC_LOWER_NESTS_H

#include "compiler/emit/lines.h"
#include "compiler/lower/lower.h"

static inline const tile_value *value(const lower *l, tile_id id) { return &l->p->program->values.items[id]; }

static inline int64_t known_size(const lower *l, int axis) { return plan_axis_size(l->m, l->p->program, axis); }

// The next instructions belong to the line of this value. Returns the line before, for lower_line_back.
static inline LLVMMetadataRef lower_line(lower *l, tile_id id) { return lines_at(l->e, value(l, id)->where); }

static inline void lower_line_back(lower *l, LLVMMetadataRef before) {
  if (l->e->scope) LLVMSetCurrentDebugLocation2(l->e->b, before);
}

typedef struct loop_axes {
  int count;
  int axes[PLAN_MAX_AXES];
} loop_axes;

typedef void nest_function(lower *l, const place_in_loops *at, void *data);

// view.c
view lower_buffer(lower *l, int buffer);

// value_at.c
ir lower_real_of_index(lower *l, const place_in_loops *at, int axis);
ir lower_one_if(lower *l, ir condition);
// The entry of a slice or place.
ir lower_entry(lower *l, tile_id id);
ir lower_value_at(lower *l, const place_in_loops *at, tile_id id);
void lower_forget(lower *l);
// The place at which to read `of`, for `id`, which is `of` under renames.
place_in_loops lower_place_under(lower *l, const place_in_loops *at, tile_id id, tile_id of);
void lower_keep_value(lower *l, const place_in_loops *at, tile_id id, ir x);

// segment.c: a SEGMENT that has levels.
ir gpu_segment_at(lower *l, const place_in_loops *at, tile_id id);

// results.c: result number `result` at a place.
void lower_store_result(lower *l, const place_in_loops *at, int result);

// combine.c: whether a value is a sum or an extreme over axes of a nest; the sum so far combined with the value here.
ir lower_reduced(lower *l, const place_in_loops *at, tile_id id, ir sum);

// points.c: the value at a place, and where it is held; states that the nest updates in place, before it does.
void lower_compute(lower *l, const place_in_loops *at, tile_id id);
void lower_read_states(lower *l, const place_in_loops *at, const plan_nest *nest);

// loops.c
// An axis in vectors: whole ones up to `whole`, then the rest.
typedef struct nest_vectors {
  ir whole;
  int lanes;       // of a whole vector; 0: there is none
  bool rest;       // something is left
  int rest_lanes;  // it is one shorter vector; 0: entry by entry
} nest_vectors;
nest_vectors lower_vectors_of(lower *l, int axis);
void lower_vectors_along(lower *l, int axis, place_in_loops *at, nest_function *inner, void *data);
// GPU: so many neighbours along the last axis to a thread; 1: lower_shared_loops.
void lower_wide_loops(lower *l, const loop_axes *axes, int lanes, place_in_loops *at, nest_function *inner, void *data);

// copies.c: an operand of products in another order of axes.
void lower_pack(lower *l, const plan_nest *nest);

// combine.c, points.c, loops.c
// Of SUM and DOT the sum, of MAX_OVER and MIN_OVER the larger and the smaller.
ir lower_combine(emitter *e, tile_op op, ir x, ir y);
ir lower_lanes_together(emitter *e, tile_op op, ir x);
double lower_identity(tile_op op);
// GPU: the values after the product in its nest, at a place where the product is x.
void lower_after_product(lower *l, const place_in_loops *at, const plan_nest *nest, ir x);
// Where that is: the sum to which the product is added may have other names for its axes.
place_in_loops lower_place_made(lower *l, const place_in_loops *at, const plan_nest *nest);
// The first of two products, x, scaled before the second is added.
ir lower_between_products(lower *l, const place_in_loops *at, const plan_nest *nest, ir x);
// The value at a place of an argument that is not in memory; argument -1: nothing is known.
typedef struct known_argument {
  int argument;
  ir x;
} known_argument;
// GPU: the initial value of the accumulator of the nest's product.
ir lower_before_product(lower *l, const place_in_loops *at, tile_id sum, known_argument known);
loop_axes lower_by_rank(const lower *l, axis_set axes);
void lower_loops_over(lower *l, const loop_axes *axes, int from, place_in_loops *at, nest_function *inner, void *data);
// The same from the first on, shared out among the threads of a team.
void lower_shared_loops(lower *l, const loop_axes *axes, place_in_loops *at, nest_function *inner, void *data);
// GPU: the points of `axes` among the threads of a block, so many neighbours along the last axis to one of them.
void lower_shared_pieces(lower *l, const loop_axes *axes, int numbers, place_in_loops *at, nest_function *inner, void *data);
// Copies over these axes in this order, without a barrier in front.
void lower_copies_in_order(lower *l, const loop_axes *axes, point_function *body, void *data);
// lower_copies without the barrier in front.
void lower_copy_loops(lower *l, axis_set axes, bool lane, point_function *body, void *data);
place_in_loops lower_start_place(lower *l, bool lane);

// along_time.c
void lower_prefix_point(lower *l, const place_in_loops *at, void *data);
void lower_along_time(lower *l, const plan_nest *nest, axis_set axes, point_function *body);
void lower_segment_point(lower *l, const place_in_loops *at, void *data);
void lower_segment_adjoint_point(lower *l, const place_in_loops *at, void *data);
void lower_first_equal(lower *l, const plan_nest *nest);

// transpose.c
bool lower_transposed(lower *l, const plan_nest *nest, const plan_buffer *to, view memory);

#endif
