// Products of tiles: which ones get a nest of their own, how the nest walks through them, and where
// a sum takes them in.
//
//   %12 [t,P] = dot %10 %11 over s      rows t, columns P (contiguous in %11), depth s
//   %13 [t,s] = dot %8 %9 over N        N contiguous in both: few columns are summed along N; many get a copy of %9
//                                       with s contiguous
//
// Counts of multiply-adds, of copies, and of gathers by the readers of a result choose the way.
#include <math.h>

#include "compiler/plan/planner.h"
#include "compiler/plan/tensor_cores.h"

int plan_highest_rank(const planner *q, axis_set axes) {
  int best = -1;
  for (int axis = 0; axis < q->program->axes.count; axis++)
    if (axis_in(axes, axis) && (best < 0 || q->m->rank[axis] > q->m->rank[best])) best = axis;
  return best;
}

int plan_largest(const planner *q, axis_set axes) {
  int best = -1;
  for (int axis = 0; axis < q->program->axes.count; axis++) {
    if (!axis_in(axes, axis)) continue;
    if (best < 0 || plan_axis_size(q->program, axis) > plan_axis_size(q->program, best))
      best = axis;
  }
  return best;
}

static double space_size(const planner *q, axis_set axes) {
  double size = 1;
  for (int axis = 0; axis < q->program->axes.count; axis++)
    if (axis_in(axes, axis)) size *= (double)plan_axis_size(q->program, axis);
  return size;
}

enum { FEWEST_MULTIPLIED = 256 };

// GPU, steps: a matrix of parameters times what a step makes (gpu/matrix_vector.c).
static bool is_parameter_product(const planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  if (v->op != TILE_DOT || q->m->kind != MAP_BLOCK || q->program->form != TILE_STEP) return false;
  if (q->p->values[id].region != REGION_BODY) return false;
  return q->sections[v->args[0]] == TILE_PROLOGUE || q->sections[v->args[1]] == TILE_PROLOGUE;
}

// A product of two tiles that is worth the blocked kernel, which knows its sizes. In steps, one of
// them may be a row.
bool plan_is_blocked_dot(const planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  if (v->op != TILE_DOT || q->m->kind == MAP_THREADS) return false;
  if (q->p->values[id].region == REGION_STEPS || is_parameter_product(q, id)) return true;
  axis_set a = q->p->values[v->args[0]].tile, b = q->p->values[v->args[1]].tile;
  bool lane_a = q->p->values[v->args[0]].lane, lane_b = q->p->values[v->args[1]].lane;
  if (lane_a != lane_b || (lane_a && q->program->form == TILE_STEP)) return false;
  axis_set over = plan_tile_axes(q->m, v->over);
  if (!plan_sized(q->program, a | b)) return false;
  bool blocks = plan_is_steps(q) ? (a & ~b) || (b & ~a) : (a & ~b) && (b & ~a);
  if (!over || !blocks || space_size(q, a | b) < FEWEST_MULTIPLIED) return false;
  return q->m->kind != MAP_BLOCK || q->program->form == TILE_STEP ||
         !plan_suits_lanes(q->m, q->program, a, b, over);
}

// ---- copies ----

// A copy of a value with this axis contiguous (any, if it is negative) that is made anyway; -1 if
// there is none. What is copied in rare chunks alone serves those who run there alone.
static int found_pack(const planner *q, tile_id id, int last_axis, region r, tile_id rare,
                      bool by_vectors) {
  vec_each(const plan_nest, other, q->p->nests) {
    if (other->kind != NEST_PACK || other->packed != id || other->region > r) continue;
    if (other->rare && other->rare != rare) continue;
    const plan_buffer *b = &q->p->buffers.items[other->pack];
    if (b->by_vectors != by_vectors) continue;
    if (last_axis < 0 || b->axes[b->axis_count - 1] == last_axis) return other->pack;
  }
  return -1;
}

static int new_pack(planner *q, tile_id id, int last_axis, region r, tile_id rare) {
  plan_value *pv = &q->p->values[id];
  if (pv->region == REGION_SHARED || pv->region == REGION_PROLOGUE) r = pv->region;
  plan_nest nest = {.kind = NEST_PACK,
                    .region = r,
                    .axes = pv->tile,
                    .lane = pv->lane,
                    .rare = rare,
                    .packed = id};
  nest.pack = plan_new_buffer(q, plan_buffer_for(q->m, q->program, pv->tile, pv->lane, last_axis));
  plan_new_nest(q, nest);
  return nest.pack;
}

static int pack_operand(planner *q, tile_id id, int last_axis, const plan_nest *nest) {
  int found = found_pack(q, id, last_axis, nest->region, nest->rare, false);
  return found >= 0 ? found : new_pack(q, id, last_axis, nest->region, nest->rare);
}

// A matrix of parameters, `by_vectors`: whose rows or columns are read in vectors.
static int pack_matrix(planner *q, tile_id id, int last_axis, bool by_vectors) {
  int found = found_pack(q, id, last_axis, REGION_PROLOGUE, 0, by_vectors);
  if (found >= 0) return found;
  int pack = new_pack(q, id, last_axis, REGION_PROLOGUE, 0);
  q->p->buffers.items[pack].by_vectors = by_vectors;
  return pack;
}

// ---- ways ----

// Cycles for a number: in blocks of vectors (host_transpose), or each by itself.
static const double block_copy = 0.5, single_copy = 1.5, gathered = 1;

// Steps of a call, about: as many share a copy of a parameter. Chunks are made for longer calls.
enum { USUAL_STEPS = 64, USUAL_STEPS_OF_CHUNKS = 512 };

typedef struct way {
  tile_id a, b;
  int i, j, k;
  bool along;  // k is contiguous in both operands: vectors along it, summed in the end
  bool pairs;  // of bf16 (plan_dot)
  double cycles;
} way;

static double size_of_axis(const planner *q, int axis) {
  return (double)plan_axis_size(q->program, axis);
}

static int contiguous(const planner *q, tile_id id) {
  return plan_viewable(q->m, q->p, id) ? plan_contiguous_axis(q->m, q->p, id) : -1;
}

// How many products share a copy of the value: one that is made before the first step serves all.
static double uses_of_copy(const planner *q, tile_id id) {
  if (q->p->values[id].region != REGION_PROLOGUE || q->m->kernel->kind == KERNEL_STEP) return 1;
  return plan_is_steps(q) ? USUAL_STEPS
                          : fmax(1, (double)USUAL_STEPS_OF_CHUNKS / q->program->chunk);
}

// Can squares of vectors along one axis be turned into squares along the other?
static bool has_squares(const planner *q, int from, int to) {
  return from >= 0 && to >= 0 && plan_axis_size(q->program, from) % q->m->width == 0 &&
         plan_axis_size(q->program, to) % q->m->width == 0;
}

static double copy_cycles(const planner *q, tile_id id, int last_axis, region r) {
  if (found_pack(q, id, last_axis, r, 0, false) >= 0) return 0;
  bool blocks = has_squares(q, contiguous(q, id), last_axis);
  double cycles = (blocks ? block_copy : single_copy) * space_size(q, q->p->values[id].tile);
  return cycles / uses_of_copy(q, id);
}

// Those who read the result walk along its highest axis.
static double reading_cycles(const planner *q, axis_set result, int j) {
  int last = plan_highest_rank(q, result);
  if (j == last) return 0;
  return (has_squares(q, j, last) ? block_copy : gathered) * space_size(q, result);
}

// Host: the rule of GPUs about depths (tensor_cores.c), whole vectors, and room for the rounded
// operands on the stack.
static bool may_be_pairs(const planner *q, way w) {
  enum { MOST_BYTES = 1 << 16, BLOCK_COLUMNS = 64 };
  if (!q->m->pairs || w.i < 0) return false;
  int64_t rows = plan_axis_size(q->program, w.i), columns = plan_axis_size(q->program, w.j),
          depth = plan_axis_size(q->program, w.k);
  int last = contiguous(q, w.a);
  return depth >= GPU_COST_SHORTEST_DEPTH && depth % 2 == 0 && columns % q->m->width == 0 &&
         (last == w.i || last == w.k) && 2 * depth * (rows + BLOCK_COLUMNS) <= MOST_BYTES;
}

static way across(const planner *q, way w, axis_set all, axis_set result, region r) {
  static const double rounded = 0.1;  // cycles for a number of an operand
  double rows = w.i < 0 ? 1 : size_of_axis(q, w.i), columns = size_of_axis(q, w.j),
         width = q->m->width, steps = space_size(q, all) / columns,
         product = steps * ceil(columns / width) / 2,
         paired = product / 2 + rounded * (steps + space_size(q, all) / rows);
  w.along = false;
  w.pairs = may_be_pairs(q, w) && paired < product;
  w.cycles = (w.pairs ? paired : product) + reading_cycles(q, result, w.j);
  if (contiguous(q, w.b) != w.j) w.cycles += copy_cycles(q, w.b, w.j, r);
  if (!plan_viewable(q->m, q->p, w.a)) w.cycles += copy_cycles(q, w.a, -1, r);
  return w;
}

// As many sums at a time as a vector has lanes: each costs three shuffles and additions, once for
// every run along k.
static way way_along(const planner *q, way w, axis_set all, axis_set result) {
  double depth = size_of_axis(q, w.k), width = q->m->width;
  w.along = true;
  w.pairs = false;
  w.cycles =
      space_size(q, all) / depth * (ceil(depth / width) * 0.6 + 2) + reading_cycles(q, result, w.j);
  return w;
}

static void take_better(way *best, way other) {
  if (other.cycles < best->cycles) *best = other;
}

// GPU: threads walk along the highest axis of the result, which the right operand has; strides do
// not matter.
static way way_of_block(const planner *q, tile_id id) {
  const tile_value *v = value(q, id);
  int last = plan_highest_rank(q, q->p->values[id].tile);
  axis_set first_axes = q->p->values[v->args[0]].tile;
  bool swap = axis_in(first_axes, last) && !axis_in(q->p->values[v->args[1]].tile, last);
  way w = {.a = v->args[swap], .b = v->args[!swap]};
  axis_set ta = q->p->values[w.a].tile, tb = q->p->values[w.b].tile;
  w.i = plan_largest(q, ta & ~tb);
  w.j = plan_highest_rank(q, tb & ~ta);
  w.k = plan_largest(q, plan_tile_axes(q->m, v->over));
  return w;
}

static way best_way(const planner *q, tile_id id, region r) {
  if (q->m->kind == MAP_BLOCK) return way_of_block(q, id);
  const tile_value *v = value(q, id);
  axis_set result = q->p->values[id].tile, over = plan_tile_axes(q->m, v->over);
  way best = {.cycles = INFINITY};
  for (int swap = 0; swap < 2; swap++) {
    way w = {.a = v->args[swap], .b = v->args[1 - swap]};
    axis_set ta = q->p->values[w.a].tile, tb = q->p->values[w.b].tile;
    if (!(tb & ~ta)) continue;
    w.i = plan_largest(q, ta & ~tb);
    int columns[] = {plan_highest_rank(q, tb & ~ta), plan_largest(q, tb & ~ta)};
    for (int c = 0; c < 2; c++) {
      w.j = columns[c];
      w.k = plan_largest(q, over);
      take_better(&best, across(q, w, ta | tb, result, r));
      w.k = contiguous(q, w.a);
      if (w.k >= 0 && axis_in(over, w.k) && w.k == contiguous(q, w.b))
        take_better(&best, way_along(q, w, ta | tb, result));
    }
  }
  return best;
}

// ---- results with other columns ----

// Does something else than products read the value?
static bool is_read_at_points(const planner *q, tile_id id) {
  vec_each(const tile_result, r, q->program->results)
    if (plan_root(q->program, r->value) == id) return true;
  for (tile_id reader = 0; reader < q->program->values.count; reader++) {
    const tile_value *v = value(q, reader);
    bool follows = plan_is_inline(v->op) && tile_arity(v->op) == 1;
    if (!q->p->values[reader].needed || follows || plan_is_blocked_dot(q, reader)) continue;
    for (int k = 0; k < tile_arity(v->op); k++)
      if (plan_root(q->program, v->args[k]) == id) return true;
  }
  return false;
}

void plan_turn_result(planner *q, tile_id id, plan_dot *dot) {
  const plan_value *pv = &q->p->values[id];
  int last = plan_highest_rank(q, pv->tile);
  if (q->m->kind != MAP_LANES || dot->along || pv->lane || pv->buffer >= 0 || dot->j == last)
    return;
  if (!has_squares(q, dot->j, last) || !is_read_at_points(q, id)) return;
  dot->pack_c = plan_new_buffer(q, plan_buffer_for(q->m, q->program, pv->tile, false, dot->j));
}

// Would the product have other columns than the sum to which it is added? A sum that begins as
// another product has its layout.
bool plan_is_added_across(const planner *q, tile_id dot) {
  tile_id sum = q->p->values[dot].into;
  const plan_value *pv = &q->p->values[sum];
  const tile_value *v = value(q, sum);
  tile_id x = plan_begins_as(q->p, sum);
  if (pv->lane || v->op == TILE_ACCUMULATE || q->p->values[x].dot != NO_TILE ||
      plan_is_blocked_dot(q, x))
    return false;
  return best_way(q, dot, pv->region).j != plan_highest_rank(q, q->p->values[dot].tile);
}

// ---- products of every lane ----

static plan_dot unpacked(tile_id a, tile_id b) {
  return (plan_dot){.a = a, .b = b, .pack_a = -1, .pack_b = -1, .pack_c = -1};
}

// Is the operand memory in which vectors of lanes lie one after another? Tokens are copied there,
// parameters and saved states are not.
static bool lies_in_lanes(const planner *q, tile_id id) {
  if (!plan_viewable(q->m, q->p, id)) return false;
  const tile_value *v = value(q, plan_root(q->program, id));
  if (v->op != TILE_ARGUMENT) return true;
  const tile_place *place = tile_place_of(q->program, v);
  return place->time || place->role == TILE_D_NEXT_STATE;
}

static void product_of_lanes(planner *q, tile_id id, plan_nest *nest) {
  const tile_value *v = value(q, id);
  axis_set a = q->p->values[v->args[0]].tile, b = q->p->values[v->args[1]].tile;
  plan_dot *dot = &nest->dot;
  *dot = unpacked(v->args[0], v->args[1]);
  dot->i = plan_largest(q, a & ~b);
  dot->j = plan_largest(q, b & ~a);
  dot->k = plan_largest(q, plan_tile_axes(q->m, v->over));
  if (!lies_in_lanes(q, dot->a)) dot->pack_a = pack_operand(q, dot->a, -1, nest);
  if (!lies_in_lanes(q, dot->b)) dot->pack_b = pack_operand(q, dot->b, -1, nest);
}

// Does the matrix stay in registers, from the first step to the last?
static bool may_hold_matrix(planner *q, tile_id id, const plan_dot *dot, int last) {
  if (q->m->kernel->kind == KERNEL_STEP || last < 0) return false;
  int64_t registers = plan_matrix_registers(q->m, q->p, id, dot);
  const int64_t most =
      q->m->kernel->kind == KERNEL_BACKWARD ? GPU_COST_MATRIX_BACK : GPU_COST_MATRIX;
  if (!registers || q->matrix_registers + registers > most) return false;
  q->matrix_registers += registers;
  return true;
}

static void product_with_matrix(planner *q, tile_id id, plan_nest *nest) {
  const tile_value *v = value(q, id);
  bool first = q->sections[v->args[0]] == TILE_PROLOGUE;
  plan_dot *dot = &nest->dot;
  *dot = unpacked(v->args[first], v->args[!first]);
  dot->i = -1;
  dot->j = plan_highest_rank(q, q->p->values[dot->b].tile & ~q->p->values[dot->a].tile);
  dot->k = plan_largest(q, plan_tile_axes(q->m, v->over));
  int last = contiguous(q, dot->b);
  bool of_caller = value(q, plan_root(q->program, dot->b))->op == TILE_ARGUMENT;
  axis_set summed = plan_tile_axes(q->m, v->over),
           rows = q->p->values[dot->b].tile & ~q->p->values[dot->a].tile;
  bool by_vectors = last >= 0 && axis_in(summed | rows, last) &&
                    !plan_suits_vectors_by_mma(q->m, q->program, rows, summed, last);
  dot->held_b = of_caller && may_hold_matrix(q, id, dot, last);
  bool there = last < 0 || found_pack(q, dot->b, last, REGION_PROLOGUE, 0, by_vectors) >= 0;
  if (!dot->held_b && (there || (of_caller && plan_has_room(q, dot->b))))
    dot->pack_b = pack_matrix(q, dot->b, last, by_vectors);
  if (!plan_viewable(q->m, q->p, dot->a)) dot->pack_a = pack_operand(q, dot->a, -1, nest);
  int64_t sums = plan_matrix_sums(q->m, q->p, id, dot);
  if (!sums) return;
  plan_buffer b = plan_buffer_for(q->m, q->program, 0, false, -1);
  b.numbers.factor = sums;
  q->p->values[id].partial_sums = plan_new_buffer(q, b);
}

void plan_product(planner *q, tile_id id, plan_nest *nest) {
  if (is_parameter_product(q, id)) {
    product_with_matrix(q, id, nest);
    return;
  }
  if (nest->region == REGION_STEPS) {
    plan_gathered(q, id, nest);
    return;
  }
  if (nest->lane) {
    product_of_lanes(q, id, nest);
    return;
  }
  way w = best_way(q, id, nest->region);
  nest->dot = unpacked(w.a, w.b);
  nest->dot.i = w.i, nest->dot.j = w.j, nest->dot.k = w.k;
  nest->dot.along = w.along, nest->dot.pairs = w.pairs;
  if (w.along) return;
  if (!plan_viewable(q->m, q->p, w.a)) nest->dot.pack_a = pack_operand(q, w.a, -1, nest);
  bool across = q->m->kind != MAP_BLOCK && contiguous(q, w.b) != w.j;
  if (across || !plan_viewable(q->m, q->p, w.b)) nest->dot.pack_b = pack_operand(q, w.b, w.j, nest);
  if (!plan_may_be_wgmma(q->m, q->program, &nest->dot)) return;
  plan_dot *dot = &nest->dot;
  if (dot->pack_a < 0 && plan_stays_wide(q, w.a)) dot->pack_a = pack_operand(q, w.a, -1, nest);
  if (dot->pack_b < 0 && plan_stays_wide(q, w.b)) dot->pack_b = pack_operand(q, w.b, -1, nest);
}

// ---- triangular systems ----

static axis_set sized_part(const planner *q, axis_set axes) {
  for (int axis = 0; axis < q->program->axes.count; axis++)
    if (plan_axis_size(q->program, axis) == TILE_RUNTIME_SIZE) axes &= ~axis_bit(axis);
  return axes;
}

void plan_system(planner *q, tile_id id, plan_nest *nest) {
  const tile_value *v = value(q, id);
  if (nest->lane) ICE("plan", "a triangular system in lanes");
  tile_id matrix = v->args[0];
  axis_set columns = q->p->values[id].tile & ~q->p->values[matrix].tile;
  nest->dot = unpacked(matrix, v->args[1]);
  nest->dot.j = plan_highest_rank(q, sized_part(q, columns));
  if (!plan_viewable(q->m, q->p, matrix)) nest->dot.pack_a = pack_operand(q, matrix, -1, nest);
}

// ---- products that are added in place ----

// Where the axis of a product ends up in the sum that it is added to; -1: spread over an axis.
int plan_axis_in_sum(const planner *q, tile_id operand, int axis) {
  const tile_value *v = value(q, operand);
  if (v->op == TILE_DOT) return axis;
  axis = plan_axis_in_sum(q, v->args[0], axis);
  if (v->op == TILE_JOIN && axis == tile_outer_axis(v)) return -1;
  if (v->op == TILE_JOIN && axis == tile_inner_axis(v)) return tile_whole_axis(v);
  return v->op == TILE_RENAME && axis == tile_renamed_from(v) ? tile_renamed_to(v) : axis;
}

axis_set plan_inner_axes(const plan_dot *dot) {
  axis_set axes = axis_bit(dot->j);
  if (dot->i >= 0) axes |= axis_bit(dot->i);
  return dot->k >= 0 ? axes | axis_bit(dot->k) : axes;
}

tile_id plan_product_of(const tile_program *program, tile_id operand) {
  for (;;) {
    const tile_value *v = tile_at(program, operand);
    if (v->op == TILE_DOT) return operand;
    if (v->op != TILE_JOIN && v->op != TILE_PLACE && v->op != TILE_RENAME) return NO_TILE;
    operand = v->args[0];
  }
}

// May the product below this operand of a sum be added where the operand has it? Its rows must stay
// rows there.
static bool may_add_in_place(planner *q, tile_id operand, const plan_value *sum) {
  tile_id dot = plan_product_of(q->program, operand);
  if (dot == NO_TILE || !plan_is_blocked_dot(q, dot)) return false;
  const plan_value *addend = &q->p->values[operand];
  if (addend->tile != sum->tile || addend->lane != sum->lane ||
      q->p->values[dot].region != sum->region || q->p->values[dot].rare != sum->rare)
    return false;
  for (tile_id x = operand;; x = value(q, x)->args[0]) {
    if (q->p->values[x].uses != 1) return false;
    if (x == dot) break;
  }
  axis_set a = q->p->values[value(q, dot)->args[0]].tile;
  axis_set b = q->p->values[value(q, dot)->args[1]].tile;
  return (!(a & ~b) || plan_axis_in_sum(q, operand, plan_highest_rank(q, a & ~b)) >= 0) &&
         (!(b & ~a) || plan_axis_in_sum(q, operand, plan_highest_rank(q, b & ~a)) >= 0);
}

// x + dot, x - dot: x is computed into the buffer of the sum (join_points), then the product is
// added to it.
void plan_added_product(planner *q, tile_id id) {
  plan_value *pv = &q->p->values[id];
  const tile_value *v = value(q, id);
  if ((v->op != TILE_ADD && v->op != TILE_SUB) || v->args[0] == v->args[1]) return;
  for (int k = 1; k >= (v->op == TILE_SUB); k--) {
    if (!may_add_in_place(q, v->args[k], pv)) continue;
    pv->dot = v->args[k];
    q->p->values[plan_product_of(q->program, v->args[k])].into = id;
    return;
  }
}
