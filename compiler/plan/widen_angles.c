// Angles that depend on parameters alone are computed in f64, together with all values of the
// prologue around them.
//
//   %12 [H,N] = mul %3 %9      prologue, f64        %12 [H,N] = mul %3 %9
//   %14 [H,N] = cos %12        prologue, f64   ->   %14 [H,N] = cos %12
//   %19 [t,H] = mul %0 %14     body, f32            %15 [H,N] = round %14
//                                                   %20 [t,H] = mul %0 %15
//
// A rounded angle turns the state by its error at every step again, and the error grows with the
// angle. Powers of a decay add the roundings of its real and imaginary part. The exponent of a real
// decay needs none of this: its error counts the less the larger it is. A value made of a parameter
// and an f64 value is computed in f32, from the rounded value. Tables over the steps of a chunk are
// f32 as well. They are products of a few squares of a decay, and a loop would round once more at
// every step.
#include "compiler/plan/planner.h"

typedef struct widening {
  arena *a;
  const tile_program *from;
  const tile_section *sections;
  bool *wide;  // by value of `from`
  tile_program *to;
  tile_id *image, *wide_image;  // as the body reads it, and as the prologue does
} widening;

// Axes of steps, or of parts of a chunk.
static bool is_table(const widening *w, tile_id id) {
  for (int axis = 0; axis < w->from->axes.count; axis++)
    if (axis_in(tile_at(w->from, id)->axes, axis) && w->from->axes.items[axis].body_axis < 0)
      return true;
  return false;
}

static bool is_candidate(const widening *w, tile_id id) {
  tile_op op = tile_at(w->from, id)->op;
  if (w->sections[id] != TILE_PROLOGUE || !tile_arity(op) || is_table(w, id)) return false;
  return tile_elementwise(op) || op == TILE_SUM || tile_op_is(op, TILE_PICKS);
}

// Marks what the value is made of.
static bool mark_angle_operands(widening *w, tile_id id) {
  bool changed = false;
  const tile_value *v = tile_at(w->from, id);
  for (int k = 0; k < tile_arity(v->op); k++) {
    tile_id x = plan_root(w->from, v->args[k]);
    if (w->wide[x] || !is_candidate(w, x)) continue;
    w->wide[x] = changed = true;
  }
  return changed;
}

// Is it made of wide values, and of no sum of them, and is no parameter mixed in?
static bool follows_wide(const widening *w, tile_id id) {
  const tile_value *v = tile_at(w->from, id);
  bool follows = false;
  for (int k = 0; k < tile_arity(v->op); k++) {
    tile_id x = plan_root(w->from, v->args[k]);
    if (tile_at(w->from, x)->op == TILE_ARGUMENT) return false;
    follows |= w->wide[x] && !tile_op_is(tile_at(w->from, x)->op, TILE_REDUCES);
  }
  return follows;
}

static bool find_wide(widening *w) {
  bool any = false, changed = true;
  for (tile_id id = 0; id < w->from->values.count; id++) {
    tile_op op = tile_at(w->from, id)->op;
    w->wide[id] = is_candidate(w, id) && (op == TILE_SIN || op == TILE_COS);
    any |= w->wide[id];
  }
  while (any && changed) {
    changed = false;
    for (tile_id id = 0; id < w->from->values.count; id++)
      if (!w->wide[id] && is_candidate(w, id) && follows_wide(w, id)) w->wide[id] = changed = true;
    for (tile_id id = w->from->values.count - 1; id >= 0; id--)
      if (w->wide[id]) changed |= mark_angle_operands(w, id);
  }
  return any;
}

static void copy_value(widening *w, tile_id id) {
  const tile_value *v = tile_at(w->from, id);
  if (w->wide[id]) {
    w->wide_image[id] = tile_append_exact(w->to, tile_with_images(*v, w->wide_image));
    tile_value round = {.op = TILE_ROUND, .args = {w->wide_image[id], NO_TILE, NO_TILE}};
    w->image[id] = tile_append_exact(w->to, round);
    return;
  }
  w->image[id] = tile_append_exact(w->to, tile_with_images(*v, w->image));
  bool map = plan_is_inline(v->op) && tile_arity(v->op);
  w->wide_image[id] =
      map ? tile_append_exact(w->to, tile_with_images(*v, w->wide_image)) : w->image[id];
}

void plan_widen(planner *q) {
  const tile_program *program = q->program;
  int count = program->values.count;
  widening w = {.a = q->a, .from = program, .sections = tile_sections(q->a, program)};
  w.wide = ARENA_ARRAY(q->a, bool, count);
  if (!find_wide(&w)) return;
  w.to = tile_program_like(q->a, program->name, program);
  w.image = ARENA_ARRAY(q->a, tile_id, count);
  w.wide_image = ARENA_ARRAY(q->a, tile_id, count);
  for (tile_id id = 0; id < count; id++) copy_value(&w, id);
  tile_copy_results(w.to, program, w.image);
  // results may get sums of their own behind these values
  q->wide = ARENA_ARRAY(q->a, bool, w.to->values.count + program->results.count);
  for (tile_id id = 0; id < count; id++)
    if (w.wide[id]) q->wide[w.wide_image[id]] = true;
  q->program = w.to;
}
