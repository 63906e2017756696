// Steps: parameters are copied before the first step, on the host those whose neighbouring lanes
// lie apart.
//
//   A[E,N], lanes along E:  lane e of entry n at e * N + n
//
//   %3 [E,N] = mul %1 %2      body, %1 = A         %4 [E,N] = round %1      prologue: b0, lanes side by side
//                                            ->    %3 [E,N] = mul %4 %2     body
//
// A step would gather its lanes one by one. Values of the prologue read the parameter itself, for
// they are copies already. Products have copies of their own (dense_products.c).
//
// GPU, a thread for each lane: parameters of one number a thread are copied into registers. A step
// that stores a result would load them again, for the result might have overwritten them.
#include "compiler/plan/planner.h"

typedef struct copying {
  const planner *q;
  const tile_section *sections;
  tile_program *to;
  tile_id *image, *own;  // as the body reads a value, and as the prologue and products do
} copying;

static bool is_copied(const copying *c, const tile_value *v) {
  if (v->op != TILE_ARGUMENT) return false;
  const mapping *m = c->q->m;
  const tile_place *place = tile_place_of(c->q->program, v);
  if (place->role != TILE_PARAM) return false;
  if (m->kind == MAP_THREADS) return !plan_tile_axes(m, tile_body_axes(place));
  return plan_has_lane(m, tile_body_axes(place)) &&
         place->axes[place->axis_count - 1] != m->lane_axis;
}

static bool has_other_image(const copying *c, const tile_value *v) {
  for (int k = 0; k < tile_arity(v->op); k++)
    if (c->image[v->args[k]] != c->own[v->args[k]]) return true;
  return false;
}

static void copy_value(copying *c, tile_id id) {
  const tile_value *v = value(c->q, id);
  bool map = plan_is_inline(v->op) && tile_arity(v->op);
  bool from_copies = c->sections[id] == TILE_BODY && (tile_elementwise(v->op) || v->op == TILE_SUM);
  c->own[id] = c->image[id] =
      tile_append_exact(c->to, tile_with_images(*v, from_copies ? c->image : c->own));
  if (is_copied(c, v)) {
    tile_value copy = {.op = TILE_ROUND, .args = {c->own[id], NO_TILE, NO_TILE}};
    c->image[id] = tile_append_exact(c->to, copy);
  } else if (map && !from_copies && has_other_image(c, v)) {
    c->image[id] = tile_append_exact(c->to, tile_with_images(*v, c->image));
  }
}

void plan_copy_parameters(planner *q) {
  const tile_program *program = q->program;
  int count = program->values.count;
  copying c = {.q = q,
               .sections = tile_sections(q->a, program),
               .to = tile_program_like(q->a, program->name, program)};
  c.image = ARENA_ARRAY(q->a, tile_id, count);
  c.own = ARENA_ARRAY(q->a, tile_id, count);
  for (tile_id id = 0; id < count; id++) copy_value(&c, id);
  tile_copy_results(c.to, program, c.image);
  q->program = c.to;
}
