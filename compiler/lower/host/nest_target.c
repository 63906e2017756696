// What nests become on the host: loops of one thread, in vectors along the last axis.
#include "compiler/lower/nest_target.h"

#include "compiler/lower/host/nests.h"

static void pack_host_operand(lower *l, const plan_nest *nest) {
  view to = lower_buffer(l, nest->pack);
  if (nest->lane || !host_transpose(l, nest, to)) lower_pack(l, nest, to);
}

static void prefix(lower *l, const plan_nest *nest) { lower_prefix(l, nest, 1); }

static void loop_in_order(lower *l, const loop_axes *axes, place_in_loops *at, nest_function *inner,
                          void *data) {
  lower_loops_over(l, axes, 0, at, inner, data);
}

typedef struct vector_body {
  int axis;
  point_function *body;
  void *data;
} vector_body;

static void along_vectors(lower *l, const place_in_loops *at, void *data) {
  const vector_body *v = data;
  place_in_loops inner = *at;
  lower_vectors_along(l, v->axis, &inner, v->body, v->data);
}

static void vectors(lower *l, const loop_axes *axes, bool copies, point_function *body,
                    void *data) {
  (void)copies;  // all bodies take vectors
  loop_axes outer = *axes;
  vector_body v = {.body = body, .data = data};
  place_in_loops at = lower_start_place(l, false);
  if (outer.count) v.axis = outer.axes[--outer.count];
  lower_loops_over(l, &outer, 0, &at, axes->count ? along_vectors : body, axes->count ? &v : data);
}

// One thread sees all that it has stored, and all memory is its own: it does not wait, and nothing
// stands around a nest.
const nest_target host_nest_target = {
    .region = host_region,
    .nests = {[NEST_POINTS] = host_points,
              [NEST_PACK] = pack_host_operand,
              [NEST_DOT] = host_dot,
              [NEST_SOLVE] = host_solve,
              [NEST_PREFIX] = prefix,
              [NEST_SCAN] = lower_scan,
              [NEST_SEGMENT] = lower_segment,
              [NEST_SEGMENT_ADJOINT] = lower_segment_adjoint,
              [NEST_FIRST_EXTREME] = lower_first_extreme},
    .points = loop_in_order,
    .vectors = vectors,
    .load = host_load,
    .store = host_store,
    .result = host_result,
    .copy = host_copy,
    .tells_apart = true,
};
