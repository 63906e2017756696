// GPU: factors of whole rows leave the operands of products.
//
//   dot [t,P] of C * decay, h over N             ->   decay * (dot of C, h): a multiplication in the accumulator
//   dot [t,P] of (C B) * mask, x * dt over s     ->   dot of ((C B) * mask) * dt, x: in the accumulator of the product C B
//
// The product then reads tokens where the staging buffer holds them. The tokens are neither written
// and read once more nor rounded again. The pass applies to 16-bit tokens; f32 would gain less.
#include "compiler/plan/planner.h"

typedef struct moving {
  arena *a;
  const mapping *m;
  const tile_program *from;
  tile_program *to;
  tile_id *image;
  int *uses;
  tile_id *user;  // one of them
  bool *moved;    // a product of `from` whose factor has moved behind it
} moving;

// An operand without its factors: a factor of rows, and a factor along the summed axis.
typedef struct stripped {
  tile_id base, of_rows, of_depth;  // NO_TILE: nothing
} stripped;

static tile_id tile_product(const moving *n, tile_id x, tile_id y) {
  if (x == NO_TILE) return y;
  return tile_append_exact(n->to, (tile_value){.op = TILE_MUL, .args = {x, y, NO_TILE}});
}

static tile_id inverse_tile(const moving *n, tile_id x) {
  tile_id one = tile_append_exact(n->to, (tile_value){.op = TILE_NUMBER, .number = 1});
  return tile_append_exact(n->to, (tile_value){.op = TILE_DIV, .args = {one, x, NO_TILE}});
}

static tile_id renamed_tile(const moving *n, tile_id x, int from, int to) {
  if (x == NO_TILE || !axis_in(tile_at(n->to, x)->axes, from)) return x;
  tile_value v = {.op = TILE_RENAME, .args = {x, NO_TILE, NO_TILE}, .index = from, .index2 = to};
  return tile_append_exact(n->to, v);
}

static bool is_tokens(const moving *n, tile_id id) {
  const tile_value *v = tile_at(n->to, id);
  if (v->op == TILE_RENAME) return is_tokens(n, v->args[0]);
  return v->op == TILE_ARGUMENT && tile_place_of(n->to, v)->time;
}

// Takes a factor off the operand if it has no summed axis, or summed axes alone.
static bool take_factor(const moving *n, stripped *s, tile_id x, tile_id factor, axis_set over,
                        bool divides) {
  axis_set axes = plan_tile_axes(n->m, tile_at(n->to, factor)->axes);
  axis_set of_x = plan_tile_axes(n->m, tile_at(n->to, x)->axes);
  if (axes == of_x || (axes & ~of_x) || (axes & over && axes & ~over)) return false;
  if (divides) factor = inverse_tile(n, factor);
  tile_id *to = axes & over ? &s->of_depth : &s->of_rows;
  *to = tile_product(n, *to, factor);
  return true;
}

static stripped strip_factors(const moving *n, tile_id id, axis_set over) {
  const tile_value v = *tile_at(n->to, id);
  stripped s = {.base = id, .of_rows = NO_TILE, .of_depth = NO_TILE};
  if (v.op == TILE_RENAME) {
    int from = tile_renamed_from(&v), to = tile_renamed_to(&v);
    s = strip_factors(n, v.args[0],
                      axis_in(over, to) ? (over & ~axis_bit(to)) | axis_bit(from) : over);
    s.base = renamed_tile(n, s.base, from, to);
    s.of_rows = renamed_tile(n, s.of_rows, from, to);
    s.of_depth = renamed_tile(n, s.of_depth, from, to);
  } else if (v.op == TILE_MUL || v.op == TILE_DIV) {
    for (int k = 0; k < (v.op == TILE_MUL ? 2 : 1); k++) {
      s = strip_factors(n, v.args[k], over);
      if (is_tokens(n, s.base) && take_factor(n, &s, v.args[k], v.args[!k], over, v.op == TILE_DIV))
        return s;
    }
    s = (stripped){.base = id, .of_rows = NO_TILE, .of_depth = NO_TILE};
  }
  return s;
}

// Is it a product with a nest of its own, of two tiles of known sizes?
static bool is_tile_product(const moving *n, const tile_value *v) {
  if (v->op != TILE_DOT) return false;
  axis_set a = plan_tile_axes(n->m, n->from->values.items[v->args[0]].axes);
  axis_set b = plan_tile_axes(n->m, n->from->values.items[v->args[1]].axes);
  return (a & ~b) && (b & ~a) && plan_sized(n->from, a | b);
}

// Is the value elementwise, made of a product in its accumulator? The value alone reads the
// product, and has one reader itself.
static bool is_made_in_sums(const moving *n, tile_id old) {
  const tile_value *v = tile_at(n->from, old);
  if (v->op != TILE_MUL || n->uses[old] != 1) return false;
  for (int k = 0; k < 2; k++)
    if (is_tile_product(n, tile_at(n->from, v->args[k])) && n->uses[v->args[k]] == 1) return true;
  return false;
}

// A sum adds a product to its accumulator in place, so the product may have no factor. Of two fused
// products, the first may be multiplied before the second is added.
static bool may_leave_factor(const moving *n, tile_id id) {
  if (n->uses[id] != 1 || n->user[id] == NO_TILE) return true;
  const tile_value *v = tile_at(n->from, n->user[id]);
  if (v->op != TILE_ADD && v->op != TILE_SUB) return true;
  tile_id other = plan_product_of(n->from, v->args[v->args[0] == id]);
  return v->op == TILE_ADD && other != NO_TILE && !n->moved[other];
}

static tile_id without_factors(const moving *n, tile_id id) {
  const tile_value *old = tile_at(n->from, id);
  tile_value v = *old;
  tile_id factor = NO_TILE;
  bool changed = false;
  for (int k = 0; k < 2; k++) v.args[k] = n->image[old->args[k]];
  for (int k = 0; is_tile_product(n, old) && k < 2; k++) {
    stripped s = strip_factors(n, v.args[k], v.over);
    if (s.base == v.args[k] || !is_tokens(n, s.base)) continue;
    if (s.of_depth != NO_TILE && !is_made_in_sums(n, old->args[!k])) continue;
    if (s.of_rows != NO_TILE && !may_leave_factor(n, id)) continue;
    v.args[k] = s.base;
    if (s.of_depth != NO_TILE) v.args[!k] = tile_product(n, v.args[!k], s.of_depth);
    if (s.of_rows != NO_TILE) factor = tile_product(n, factor, s.of_rows);
    changed = true;
  }
  if (!changed) return NO_TILE;
  n->moved[id] = factor != NO_TILE;
  tile_id dot = tile_append_exact(n->to, v);
  return factor == NO_TILE ? dot : tile_product(n, dot, factor);
}

static void count_moved_uses(const moving *n) {
  const tile_program *p = n->from;
  for (tile_id id = 0; id < p->values.count; id++) n->user[id] = NO_TILE;
  for (int i = 0; i < p->results.count; i++) n->uses[p->results.items[i].value]++;
  for (tile_id id = p->values.count - 1; id >= 0; id--) {
    const tile_value *v = &p->values.items[id];
    for (int k = 0; n->uses[id] && k < tile_arity(v->op); k++) {
      n->uses[v->args[k]]++;
      n->user[v->args[k]] = id;
    }
  }
}

void plan_move_factors(planner *q) {
  arena *a = q->a;
  const mapping *m = q->m;
  const tile_program *program = q->program;
  if (!number_is_narrow(m->dtype) || program->form != TILE_CHUNK) return;
  int count = program->values.count + 1;
  moving n = {.a = a, .m = m, .from = program, .to = tile_program_like(a, program->name, program)};
  n.image = ARENA_ARRAY(a, tile_id, count);
  n.uses = ARENA_ARRAY(a, int, count);
  n.user = ARENA_ARRAY(a, tile_id, count);
  n.moved = ARENA_ARRAY(a, bool, count);
  count_moved_uses(&n);
  for (tile_id id = 0; id < program->values.count; id++) {
    tile_value v = program->values.items[id];
    n.image[id] = v.op == TILE_DOT && n.uses[id] ? without_factors(&n, id) : NO_TILE;
    if (n.image[id] != NO_TILE) continue;
    n.image[id] = tile_append_exact(n.to, tile_with_images(v, n.image));
  }
  tile_copy_results(n.to, program, n.image);
  q->program = n.to;
}
