// What programs cost on the host, counted in terms.
//
//   step form:   operations on the whole state, every step
//   chunk form:  products over a chunk, and elementwise work on pairs and levels of steps
//
// A product counts its multiply-adds, and what it writes. Other operations count the numbers of
// their loops, or the terms of their polynomials. Only ratios of the figures matter.
#include "compiler/schedule/cost.h"

#include <math.h>

static const char *const term_names[COST_TERMS] = {
#define COST_TERM(term, name, about) name,
#include "compiler/schedule/host_costs.def"
};

typedef struct clone_costs {
  double of[COST_TERMS];
  double cache_kib;
} clone_costs;

static const clone_costs costs_of[CLONE_COUNT + 1] = {
#define HOST_COST(clone, product, result, operation, polynomial, nest, far, instruction, move, \
                  cached, memory, kib, origin)                                                 \
  [CLONE_##clone] = {                                                                          \
      {product, result, operation, polynomial, nest, far, instruction, move, cached, memory},  \
      kib},
#include "compiler/schedule/host_costs.def"
};

const char *cost_term_name(cost_term term) { return term_names[term]; }

// The clones of a processor share programs; most machines run the middle one.
codegen_clone cost_clone(unsigned clones) {
  clones = codegen_clones_asked(clones, NUMBER_F32);
  return clones & 1u << CLONE_V3 ? CLONE_V3 : (codegen_clone)__builtin_ctz(clones);
}

double cost_of_counts(const cost_counts *counts, codegen_clone clone) {
  double cost = 0;
  for (int i = 0; i < COST_TERMS; i++) cost += costs_of[clone].of[i] * counts->of[i];
  return cost;
}

cost_counts cost_sum(cost_counts x, double factor, cost_counts y) {
  for (int i = 0; i < COST_TERMS; i++) x.of[i] += factor * y.of[i];
  return x;
}

double cost_elements(const tile_program *p, axis_set axes) {
  double count = 1;
  for (int i = 0; i < p->axes.count; i++) {
    if (!axis_in(axes, i)) continue;
    count *= p->axes.items[i].size == TILE_RUNTIME_SIZE ? COST_USUAL_SIZE
                                                        : (double)p->axes.items[i].size;
  }
  return count;
}

// The share of the lanes that the rows of a product fill.
static double lanes_filled(const tile_program *p, const tile_value *v) {
  enum { FULL_ROW = 16 };
  double most = 1;
  for (int i = 0; i < p->axes.count; i++)
    if (axis_in(v->axes, i)) most = fmax(most, cost_elements(p, axis_bit(i)));
  return fmin(most / FULL_ROW, 1);
}

// Both factors have rows of their own, which are loaded once for several products.
static bool is_row_product(const tile_program *p, const tile_value *v) {
  if (v->op != TILE_DOT) return false;
  axis_set x = p->values.items[v->args[0]].axes, y = p->values.items[v->args[1]].axes;
  return (x & ~y) && (y & ~x);
}

// The axes that an operation goes over: those of its result and of its operands.
static axis_set operation_axes(const tile_program *p, const tile_value *v) {
  axis_set axes = v->axes;
  for (int k = 0; k < tile_arity(v->op); k++) axes |= p->values.items[v->args[k]].axes;
  return axes;
}

// A product and its sum are one instruction.
static double operations_of(const tile_program *p, tile_id id) {
  tile_op op = p->values.items[id].op;
  double operations = tile_value_operations(p, id);
  return op == TILE_DOT || tile_is_scan(op) ? operations / 2 : operations;
}

// Adds what one point of a value takes, `times`.
static void add_operations(const tile_program *p, tile_id id, cost_term plain, double times,
                           cost_counts *counts) {
  double operations = operations_of(p, id);
  counts->of[operations > 2 ? COST_POLYNOMIAL : plain] += times * operations;
}

// A guess: one chunk in eight has decays that are small.
static const double share_of_rare = 0.125;

double *cost_shares(arena *a, const tile_program *p) {
  const tile_section *sections = tile_sections(a, p);
  const tile_branch *branches = tile_branches(a, p);
  double *shares = ARENA_ARRAY(a, double, p->values.count);
  for (int i = 0; i < p->values.count; i++)
    if (sections[i] == TILE_BODY) shares[i] = branches[i].rare ? share_of_rare : 1;
  return shares;
}

// Adds a value that runs make, or a sum over all runs, which is loaded and stored each time.
static void count_value(const tile_program *p, const double *shares, tile_id id,
                        cost_counts *counts) {
  const tile_value *v = &p->values.items[id];
  bool adds_up = v->op == TILE_ACCUMULATE;
  if (shares[id] == 0 && !adds_up) return;
  double points = cost_elements(p, operation_axes(p, v)) * (adds_up ? 1 : shares[id]);
  if (is_row_product(p, v)) {
    points /= lanes_filled(p, v);
    counts->of[COST_PRODUCT] += points;
    counts->of[COST_RESULT] += points / cost_elements(p, v->over);
  } else if (v->op == TILE_SOLVE) {
    counts->of[COST_PRODUCT] += points / 2;
  } else {
    add_operations(p, id, COST_OPERATION, points * (adds_up ? 3 : 1), counts);
  }
}

// Operands and results of products, and of sums along time, lie in memory.
static bool is_nest_of_its_own(tile_op op) {
  return op == TILE_DOT || tile_op_is(op, TILE_OWN_NEST);
}

// The numbers that a run of an instance keeps in scratch, or reads.
static double working_set(arena *a, const tile_program *p, const double *shares,
                          axis_set instances) {
  int *uses = ARENA_ARRAY(a, int, p->values.count);
  double numbers = 0;
  vec_each(const tile_value, v, p->values) {
    for (int k = 0; k < tile_arity(v->op); k++)
      uses[v->args[k]] += is_nest_of_its_own(v->op) ? 2 : 1;
  }
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    bool leaf = v->op == TILE_ARGUMENT, stored = uses[i] > 1 && tile_op_cost(v->op) > 0;
    if (shares[i] == 1 && (leaf || stored || is_nest_of_its_own(v->op)))
      numbers += cost_elements(p, v->axes & ~instances);
  }
  return numbers;
}

cost_counts cost_count(arena *a, const tile_program *p, axis_set instances, axis_set repeated,
                       codegen_clone clone) {
  double *shares = cost_shares(a, p);
  // The other half is for what passes through: tokens, states of other instances.
  double room = costs_of[clone].cache_kib / 2 * 1024 / sizeof(float);
  double beyond = fmax(0, working_set(a, p, shares, instances) - room);
  cost_counts run = {.of[COST_FAR] = cost_elements(p, instances) * beyond};
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    if (is_nest_of_its_own(v->op)) run.of[COST_NEST] += shares[i] * cost_elements(p, instances);
    shares[i] *= cost_elements(p, repeated & ~operation_axes(p, v));
    count_value(p, shares, i, &run);
  }
  return cost_sum((cost_counts){0}, 1.0 / p->chunk, run);
}

double cost_of_run(arena *a, const tile_program *p, codegen_clone clone) {
  cost_counts counts = cost_count(a, p, 0, 0, clone);
  counts.of[COST_FAR] = 0;
  return cost_of_counts(&counts, clone);
}

double *cost_of_values(arena *a, const tile_program *p, codegen_clone clone) {
  double *costs = ARENA_ARRAY(a, double, p->values.count);
  const double *shares = cost_shares(a, p);
  for (int i = 0; i < p->values.count; i++) {
    cost_counts counts = {0};
    count_value(p, shares, i, &counts);
    costs[i] = cost_of_counts(&counts, clone);
  }
  return costs;
}

// ---- fused steps ----

static bool tile_adds(tile_op op) { return op == TILE_ADD || op == TILE_SUB || op == TILE_SUM; }

// Products whose only reader is a sum: product and sum are one instruction.
static bool *fused_products(arena *a, const tile_program *p) {
  bool *fused = ARENA_ARRAY(a, bool, p->values.count);
  const int *uses = tile_count_uses(a, p);
  vec_each(const tile_value, v, p->values) {
    bool found = false;
    for (int k = 0; tile_adds(v->op) && k < tile_arity(v->op) && !found; k++) {
      tile_id x = v->args[k];
      found = p->values.items[x].op == TILE_MUL && uses[x] == 1;
      if (found) fused[x] = true;
    }
  }
  return fused;
}

// Marks sums over the state on which its update depends: each is a loop that ends before the next
// begins. Those that open a step are taken where the step before ends (tile/openings.c).
static void mark_loops(const tile_program *p, tile_id id, bool below_state, bool *seen,
                       bool *loops) {
  const tile_value *v = &p->values.items[id];
  if (seen[id]) return;
  seen[id] = true;
  loops[id] = below_state && v->op == TILE_SUM;
  for (int k = 0; k < tile_arity(v->op); k++) mark_loops(p, v->args[k], true, seen, loops);
}

cost_counts cost_count_fused(arena *a, const tile_program *p, bool opens) {
  const tile_section *sections = tile_sections(a, p);
  const bool *fused = fused_products(a, p);
  bool *seen = ARENA_ARRAY(a, bool, p->values.count),
       *loops = ARENA_ARRAY(a, bool, p->values.count);
  cost_counts step = {0};
  const bool *opening = tile_opening_sums(a, p);
  bool back = false;
  double state = 0;
  vec_each(const tile_result, r, p->results) {
    back |= r->place.role == TILE_D_STATE;
    if (r->place.role != TILE_NEXT_STATE && r->place.role != TILE_D_STATE) continue;
    double entries = cost_elements(p, p->values.items[r->value].axes);
    step.of[COST_MOVE] += entries;  // loaded and stored
    state = fmax(state, entries);
    mark_loops(p, r->value, false, seen, loops);
  }
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    bool adds_up = v->op == TILE_ACCUMULATE;
    if (sections[i] != TILE_BODY && !adds_up) continue;
    double points = cost_elements(p, operation_axes(p, v));
    // Cotangents of more numbers than the state, such as those of a rank, lie in memory.
    cost_term plain = back && points > state ? COST_OPERATION : COST_INSTRUCTION;
    if (!fused[i]) add_operations(p, i, plain, points * (adds_up ? 3 : 1), &step);
    // Gradients are sums over the state of as many loops.
    if ((loops[i] && !(opens && opening[i])) || (back && v->op == TILE_SUM))
      step.of[COST_MOVE] += points;
  }
  return step;
}
