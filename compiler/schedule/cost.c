// The cost of a program on the host, in units of one multiply-add of a well filled product.
//
//   step form:   elementwise operations on the whole state, every step
//   chunk form:  products over a chunk, and elementwise work on pairs and levels of steps
//
// A product counts its multiply-adds; short products waste lanes. Other operations count the terms
// of their polynomial and the bytes that they read and write. The figures were fitted to measured
// kernels of both forms; only their ratios matter.
#include "compiler/schedule/cost.h"

// An operation that fuses with its neighbours; one more for what goes through memory.
static const double cost_of_operation = 1.2, cost_of_product = 0.62;

double cost_elements(const tile_program *p, axis_set axes) {
  double count = 1;
  for (int i = 0; i < p->axes.count; i++) {
    if (!axis_in(axes, i)) continue;
    count *= p->axes.items[i].size == TILE_RUNTIME_SIZE ? COST_USUAL_SIZE
                                                        : (double)p->axes.items[i].size;
  }
  return count;
}

// Rows of a product are computed several at a time.
static double fill_of_product(const tile_program *p, const tile_value *v) {
  double most = 1;
  for (int i = 0; i < p->axes.count; i++) {
    double size = cost_elements(p, axis_bit(i));
    if (axis_in(v->axes, i) && size > most) most = size;
  }
  double lanes = most < 16 ? most / 16 : 1, depth = cost_elements(p, v->over);
  return lanes * depth / (depth + 4);
}

// Both factors have rows of their own, which are loaded once for several products.
static bool is_matrix_product(const tile_program *p, const tile_value *v) {
  if (v->op != TILE_DOT) return false;
  axis_set x = p->values.items[v->args[0]].axes, y = p->values.items[v->args[1]].axes;
  return (x & ~y) && (y & ~x);
}

double *cost_of_values(arena *a, const tile_program *p) {
  double *costs = ARENA_ARRAY(a, double, p->values.count);
  int64_t *sizes = ARENA_ARRAY(a, int64_t, p->axes.count);
  for (int i = 0; i < p->axes.count; i++) {
    sizes[i] = p->axes.items[i].size == TILE_RUNTIME_SIZE ? COST_USUAL_SIZE : p->axes.items[i].size;
  }
  tile_section *section = tile_sections(a, p);
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    bool adds_up = v->op == TILE_ACCUMULATE;  // every time: the sum is loaded and stored
    if (section[i] != TILE_BODY && !adds_up) continue;
    double operations = tile_value_cost(p, i, sizes) * (adds_up ? 3 : 1);
    costs[i] = is_matrix_product(p, v) ? cost_of_product * operations / fill_of_product(p, v)
                                       : cost_of_operation * operations;
  }
  return costs;
}

double cost_of_run(arena *a, const tile_program *p) {
  const double *costs = cost_of_values(a, p);
  double cost = 0;
  for (int i = 0; i < p->values.count; i++) cost += costs[i];
  return cost / p->chunk;
}

// ---- fused steps ----

static bool adds(tile_op op) { return op == TILE_ADD || op == TILE_SUB || op == TILE_SUM; }

// Products whose only reader is a sum: product and sum are one instruction.
static bool *fused_products(arena *a, const tile_program *p) {
  bool *fused = ARENA_ARRAY(a, bool, p->values.count);
  int *uses = ARENA_ARRAY(a, int, p->values.count);
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    for (int k = 0; k < tile_arity(v->op); k++) uses[v->args[k]]++;
  }
  for (int i = 0; i < p->results.count; i++) uses[p->results.items[i].value]++;
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    bool found = false;
    for (int k = 0; adds(v->op) && k < tile_arity(v->op) && !found; k++) {
      tile_id x = v->args[k];
      found = p->values.items[x].op == TILE_MUL && uses[x] == 1;
      if (found) fused[x] = true;
    }
  }
  return fused;
}

// Marks sums over the state on which its update depends: each is a loop that ends before the next
// begins.
static void mark_loops(const tile_program *p, tile_id id, bool below_state, bool *seen,
                       bool *loops) {
  const tile_value *v = &p->values.items[id];
  if (seen[id]) return;
  seen[id] = true;
  loops[id] = below_state && v->op == TILE_SUM;
  for (int k = 0; k < tile_arity(v->op); k++) mark_loops(p, v->args[k], true, seen, loops);
}

// An instruction of a fused step counts as one multiply-add: no value in between goes through
// memory, which cost_of_operation includes.
double cost_of_fused_step(arena *a, const tile_program *p) {
  const double *costs = cost_of_values(a, p);
  const bool *fused = fused_products(a, p);
  bool *seen = ARENA_ARRAY(a, bool, p->values.count),
       *loops = ARENA_ARRAY(a, bool, p->values.count);
  double cost = 0;
  for (int i = 0; i < p->results.count; i++) {
    const tile_result *r = &p->results.items[i];
    if (r->place.role != TILE_NEXT_STATE) continue;
    cost += cost_elements(p, p->values.items[r->value].axes);  // loaded and stored
    mark_loops(p, r->value, false, seen, loops);
  }
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    if (!fused[i]) cost += costs[i] / (tile_op_cost(v->op) > 1 ? 1 : cost_of_operation);
    if (loops[i]) cost += cost_elements(p, p->values.items[v->args[0]].axes);
  }
  return cost;
}
