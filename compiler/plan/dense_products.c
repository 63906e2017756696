// Single steps: products with a matrix of parameters, and the gradient of that matrix.
//
//   %6 [D,E] = mul %weight %h, %7 [D] = sum %6 over E     ->   dot %weight %h: blocks of a matrix that lies as they read it,
//                                                              copied before the first step if it does not
//   %51 [D,E] = mul %h %d, accumulate %51                 ->   rows of %h and %d for the steps of a chunk; behind them, one
//                                                              product that is added to the gradient
//
// A rank-1 update for each step would load and store the gradient of all weights, to add one
// product to each.
#include "compiler/plan/planner.h"

enum { FEWEST_NUMBERS = 256 };

typedef struct finder {
  const mapping *m;
  const tile_program *from;
  tile_program *to;
  const tile_section *sections;
  tile_id *image;
  bool gathers;  // gradients are products over the steps of a chunk
} finder;

static axis_set tile_of(const finder *f, tile_id id) {
  return plan_tile_axes(f->m, tile_at(f->from, id)->axes);
}

static bool is_large(const finder *f, axis_set axes) {
  return plan_entries(f->from, axes) >= FEWEST_NUMBERS;
}

static bool have_lanes(const finder *f, const tile_value *mul) {
  return plan_has_lane(f->m,
                       tile_at(f->from, mul->args[0])->axes | tile_at(f->from, mul->args[1])->axes);
}

static bool is_of_step(const finder *f, tile_id id) { return f->sections[id] == TILE_BODY; }

// Numbers of a complex tensor do not lie side by side.
static bool is_complex_tensor(const finder *f, tile_id id) {
  const tile_value *v = tile_at(f->from, plan_root(f->from, id));
  if (v->op != TILE_ARGUMENT) return false;
  int tensor = tile_place_of(f->from, v)->tensor;
  return tensor >= 0 && f->m->kernel->recurrence->body.tensors.items[tensor].complex;
}

static bool is_product_with_parameters(const finder *f, tile_id id) {
  int matrix = tile_parameter_matrix(f->from, f->sections, id);
  if (matrix < 0) return false;
  const tile_value *mul = tile_at(f->from, tile_at(f->from, id)->args[0]);
  if (f->m->kind == MAP_BLOCK && is_complex_tensor(f, mul->args[matrix])) return false;
  axis_set w = tile_of(f, mul->args[matrix]), x = tile_of(f, mul->args[!matrix]);
  return !have_lanes(f, mul) && (w & ~x) && is_large(f, w | x);
}

// An outer product of what steps make, or a sum of such.
static const tile_value *outer_product(const finder *f, tile_id id, axis_set *over) {
  const tile_value *v = tile_at(f->from, id);
  *over = 0;
  if (v->op == TILE_SUM) {
    *over = v->over;
    v = tile_at(f->from, v->args[0]);
  }
  if (v->op != TILE_MUL || have_lanes(f, v)) return NULL;
  tile_id x = v->args[0], y = v->args[1];
  if (!is_of_step(f, x) || !is_of_step(f, y)) return NULL;
  axis_set a = tile_of(f, x), b = tile_of(f, y);
  if ((*over & ~(a & b)) || !(a & ~b) || !(b & ~a) || !plan_sized(f->from, a | b)) return NULL;
  return is_large(f, (a | b) & ~*over) ? v : NULL;
}

static bool has_outer_product(const finder *f, tile_id id) {
  axis_set over;
  if (outer_product(f, id, &over)) return true;
  const tile_value *v = tile_at(f->from, id);
  bool has = false;
  for (int k = 0; tile_op_is(v->op, TILE_KEEPS_ENTRIES) && k < tile_arity(v->op); k++)
    has |= has_outer_product(f, v->args[k]);
  return has;
}

static tile_id dot_of(const finder *f, const tile_value *mul, axis_set over) {
  tile_value dot = {.op = TILE_DOT,
                    .args = {f->image[mul->args[0]], f->image[mul->args[1]], NO_TILE},
                    .over = over};
  return tile_append_exact(f->to, dot);
}

// The sum over all steps: of each part of what is added up, if one is an outer product.
static tile_id accumulated(const finder *f, tile_id id) {
  axis_set over;
  tile_value v = *tile_at(f->from, id);
  const tile_value *mul = outer_product(f, id, &over);
  if (!mul && has_outer_product(f, id)) {
    for (int k = 0; k < tile_arity(v.op); k++) v.args[k] = accumulated(f, v.args[k]);
    return tile_append_exact(f->to, v);
  }
  tile_value sum = {.op = TILE_ACCUMULATE,
                    .args = {mul ? dot_of(f, mul, over) : f->image[id], NO_TILE, NO_TILE}};
  return tile_append_exact(f->to, sum);
}

static tile_id copied_tile(const finder *f, tile_id id) {
  tile_value v = *tile_at(f->from, id);
  if (v.op == TILE_ACCUMULATE && f->gathers) return accumulated(f, v.args[0]);
  if (is_product_with_parameters(f, id)) return dot_of(f, tile_at(f->from, v.args[0]), v.over);
  return tile_append_exact(f->to, tile_with_images(v, f->image));
}

// GPU: the axis of products over all steps of a chunk; -1: there are none.
static int steps_axis(const finder *f) {
  bool some = false;
  for (tile_id id = 0; id < f->from->values.count; id++) {
    const tile_value *v = tile_at(f->from, id);
    some = some || (v->op == TILE_ACCUMULATE && has_outer_product(f, v->args[0]));
  }
  bool has_room = f->m->kind == MAP_BLOCK && tile_axes_left(f->to);
  return some && has_room ? tile_axis_new(f->to, "steps", f->m->kernel->chunk) : -1;
}

void plan_find_products(planner *q) {
  arena *a = q->a;
  const tile_program *program = q->program;
  int count = program->values.count;
  finder f = {.m = q->m, .from = program, .sections = tile_sections(a, program)};
  f.to = tile_program_like(a, program->name, program);
  f.image = ARENA_ARRAY(a, tile_id, count);
  q->p->steps = steps_axis(&f);
  f.gathers = f.m->kind != MAP_BLOCK || q->p->steps >= 0;
  for (tile_id id = 0; id < count; id++) f.image[id] = copied_tile(&f, id);
  tile_copy_results(f.to, program, f.image);
  q->program = f.to;
}

bool plan_multiplies_parameters(arena *a, const mapping *m, const tile_program *program) {
  finder f = {.m = m, .from = program, .sections = tile_sections(a, program)};
  for (tile_id id = 0; id < program->values.count; id++)
    if (is_product_with_parameters(&f, id)) return true;
  return false;
}

// ---- products over the steps of a chunk ----

void plan_mark_gathered(planner *q) {
  for (tile_id id = 0; id < q->program->values.count; id++) {
    const tile_value *v = value(q, id);
    if (v->op != TILE_ACCUMULATE || value(q, v->args[0])->op != TILE_DOT) continue;
    plan_value *sum = &q->p->values[id], *dot = &q->p->values[v->args[0]];
    sum->dot = v->args[0];
    dot->into = id;
    sum->region = dot->region = REGION_STEPS;
  }
}

tile_id plan_root(const tile_program *program, tile_id id) {
  for (;;) {
    const tile_value *v = tile_at(program, id);
    if (!plan_is_inline(v->op) || tile_arity(v->op) != 1) return id;
    id = v->args[0];
  }
}

plan_buffer plan_kept_row(const mapping *m, const plan *p, tile_id id, int pack) {
  const plan_value *root = &p->values[plan_root(p->program, id)];
  if (pack < 0) pack = root->buffer;
  return pack >= 0 ? p->buffers.items[pack] : plan_buffer_for(m, p->program, root->tile, false, -1);
}

// States before each step, and what was kept of it, are there anyway.
static bool is_history(const planner *q, tile_id root) {
  const tile_value *v = value(q, root);
  if (v->op != TILE_ARGUMENT) return false;
  tile_role role = tile_place_of(q->program, v)->role;
  return role == TILE_STATE || role == TILE_STASH;
}

// Rows of an operand for all steps of a chunk: where it lies anyway, or a copy (its number), with
// `last` contiguous. On a GPU they may lie outside of shared memory: what the step itself reads
// again and again has a place of its own.
static int keep_operand(planner *q, tile_id id, int last) {
  tile_id root = plan_root(q->program, id);
  bool lies =
      last < 0 || (plan_viewable(q->m, q->p, id) && plan_contiguous_axis(q->m, q->p, id) == last);
  if (lies && plan_viewable(q->m, q->p, id)) {
    if (is_history(q, root)) return -1;
    int buffer = q->p->values[root].buffer;
    if (q->m->kind != MAP_BLOCK && value(q, root)->op != TILE_ARGUMENT && buffer >= 0) {
      q->p->buffers.items[buffer].kept = true;
      return -1;
    }
  }
  plan_value *pv = &q->p->values[id];
  plan_nest nest = {.kind = NEST_PACK, .region = REGION_BODY, .axes = pv->tile, .packed = id};
  nest.pack = plan_new_buffer(q, plan_buffer_for(q->m, q->program, pv->tile, false, last));
  q->p->buffers.items[nest.pack].kept = true;
  plan_new_nest(q, nest);
  return nest.pack;
}

// The columns of the product if `b` is its right operand: contiguous there without a copy, if there
// is such an axis. On a GPU strides do not matter, but tiles are filled by long axes alone.
static int columns_in(const planner *q, tile_id b, axis_set own) {
  if (q->m->kind == MAP_BLOCK) return plan_largest(q, own);
  int axis = plan_viewable(q->m, q->p, b) ? plan_contiguous_axis(q->m, q->p, b) : -1;
  return axis >= 0 && axis_in(own, axis) ? axis : plan_highest_rank(q, own);
}

void plan_gathered(planner *q, tile_id id, plan_nest *nest) {
  const tile_value *v = value(q, id);
  axis_set first = q->p->values[v->args[0]].tile, second = q->p->values[v->args[1]].tile;
  int columns[] = {columns_in(q, v->args[0], first & ~second),
                   columns_in(q, v->args[1], second & ~first)};
  bool right = q->m->rank[columns[1]] > q->m->rank[columns[0]];  // so lies the gradient in memory
  plan_dot dot = {.a = v->args[!right],
                  .b = v->args[right],
                  .k = q->p->steps,
                  .j = columns[right],
                  .pack_c = -1};
  dot.i = plan_largest(q, right ? first & ~second : second & ~first);
  dot.pack_a = keep_operand(q, dot.a, -1);
  dot.pack_b = keep_operand(q, dot.b, q->m->kind == MAP_BLOCK ? -1 : dot.j);
  nest->dot = dot;
}
