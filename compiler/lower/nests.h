// Functions that the files of lowering share. Each section names its file.
#pragma once

#include "compiler/emit/lines.h"
#include "compiler/lower/lower.h"

static inline const tile_value *value(const lower *l, tile_id id) {
  return tile_at(l->p->program, id);
}

static inline int64_t known_size(const lower *l, int axis) {
  return plan_axis_size(l->p->program, axis);
}

// The next instructions belong to the line of this value. Returns the line before, for
// lower_line_back.
static inline LLVMMetadataRef lower_line(lower *l, tile_id id) {
  return lines_at(l->e, value(l, id)->where);
}

static inline void lower_line_back(lower *l, LLVMMetadataRef before) {
  if (l->e->scope) LLVMSetCurrentDebugLocation2(l->e->b, before);
}

typedef axis_list loop_axes;

typedef void nest_lowering(lower *l, const plan_nest *nest);
typedef void nest_function(lower *l, const place_in_loops *at, void *data);

// view.c
view lower_buffer(lower *l, int buffer);
// An operand of a product or a system: its pack, or the value itself where there is none (-1).
view lower_operand(lower *l, tile_id id, int pack);
// Whether the numbers of a view at a place are the lanes of a vector.
bool view_in_lanes(const view *v, const place_in_loops *at, axis_set axes);

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

// results.c: result number `result` at a place.
void lower_store_result(lower *l, const place_in_loops *at, int result);

// combine.c: a sum, or an extreme, so far combined with the value here.
ir lower_reduced(lower *l, const place_in_loops *at, tile_id id, ir sum);
// Of SUM and DOT the sum, of MAX_OVER and MIN_OVER the larger and the smaller.
ir lower_combine(emitter *e, tile_op op, ir x, ir y);
ir lower_lanes_together(emitter *e, tile_op op, ir x);
double lower_identity(tile_op op);

// loops.c
place_in_loops lower_start_place(lower *l, bool lane);
loop_axes lower_by_rank(const lower *l, axis_set axes);
// Scalar loops over `axes` from position `from` on, then `inner`.
void lower_loops_over(lower *l, const loop_axes *axes, int from, place_in_loops *at,
                      nest_function *inner, void *data);
// Code follows that is no nest of the plan: all that ran before it has stored what it stores.
void lower_wait(lower *l);
// lower_points and lower_copies, behind lower_wait.
void lower_point_loops(lower *l, axis_set axes, bool lane, point_function *body, void *data);
void lower_copy_loops(lower *l, axis_set axes, bool lane, point_function *body, void *data);
// An axis in vectors: whole ones up to `whole`, then the rest.
typedef struct nest_vectors {
  ir whole;
  int lanes;       // of a whole vector; 0: there is none
  bool rest;       // something is left
  int rest_lanes;  // it is one shorter vector; 0: entry by entry
} nest_vectors;
nest_vectors lower_vectors_of(lower *l, int axis);
void lower_vectors_along(lower *l, int axis, place_in_loops *at, nest_function *inner, void *data);

// points.c: the value at a place, and where it is held; states that the nest updates in place,
// before it does.
void lower_compute(lower *l, const place_in_loops *at, tile_id id);
void lower_read_states(lower *l, const place_in_loops *at, const plan_nest *nest);

// points.c: a nest of elementwise values and reductions while it is lowered.
typedef struct point_nest point_nest;
struct point_nest {
  const plan_nest *nest;
  loop_axes outer, reduced;
  int vector;  // axis in vectors, or -1
  bool vector_reduced;
  int turns;       // of the loop over a single reduced axis, so many at once; 0: one
  ir *sums;        // accumulators by position in nest->values, for vectors of `sum_lanes`
  ir *short_sums;  // for the rest at the end: of a shorter vector or of single entries
  int sum_lanes;
  // Takes result number `position` of the nest at a place, to add it up behind the loops; false: it
  // is to be stored at once.
  bool (*stage)(lower *l, const point_nest *n, int position, const place_in_loops *at);
  const void *staged;                                 // what `stage` needs
  void (*fetch)(lower *l, const place_in_loops *at);  // at every point; NULL: nothing
};
// `vector`: the axis in vectors, or -1.
point_nest lower_open_points(lower *l, const plan_nest *nest, int vector);
// At one point of the outer axes, `data` a point_nest: starts the sums, loops over what is reduced,
// stores the sums.
void lower_outer_point(lower *l, const place_in_loops *at, void *data);
// The parts of it: accumulators begin, at one point of all axes.
void lower_start_sums(lower *l, const point_nest *n, ir *slots, int lanes);
void lower_inner_point(lower *l, const place_in_loops *at, void *data);

// copies.c: an operand of products in another order of axes; a copy of a tensor by loops, and one
// number of it.
typedef struct view_copy {
  const view *from;  // NULL: zeros
  view to;
  axis_set axes;
} view_copy;
void lower_pack(lower *l, const plan_nest *nest, view to);
void lower_copy_by_loops(lower *l, const view_copy *c);
void lower_copy_point(lower *l, const place_in_loops *at, void *data);
// One number of a value of the program, computed at this point alone.
typedef struct value_copy {
  tile_id from;
  view to;
  axis_set axes;
  int apart;  // the axis of which fours lie apart; -1: none
} value_copy;
void lower_copy_value(lower *l, const place_in_loops *at, void *data);

// along_time.c
void lower_prefix(lower *l, const plan_nest *nest, int rows_at_once);
// A row more of a sum or product along time; what both begin with.
ir lower_running(lower *l, tile_op op, ir before, ir x);
ir lower_running_start(lower *l, tile_op op, int lanes);
void lower_scan(lower *l, const plan_nest *nest);
void lower_segment(lower *l, const plan_nest *nest);
void lower_segment_adjoint(lower *l, const plan_nest *nest);
void lower_first_extreme(lower *l, const plan_nest *nest);
