// The planner: the state that plan passes change, and the functions that the list of passes in
// plan.c calls. Each section below names the file of its functions.
#pragma once

#include "compiler/base/ice.h"
#include "compiler/plan/plan.h"

typedef struct planner {
  arena *a;
  const mapping *m;
  const carried_list *carried;
  const tile_program *whole;  // the program that is planned
  tile_program *program;      // the same, as the passes so far have rewritten it
  tile_section *sections;
  plan *p;
  tile_id *order;  // needed computed values, operands first
  int order_count;
  bool *visited;
  double matrix_bytes;       // GPU, steps: bytes that copies of parameters take of shared memory
  int64_t matrix_registers;  // the same: registers of a thread that matrices of parameters take
  bool *wide;                // by value: computed in f64; NULL: none is
  int *at_end;               // by value: plan_nest.at_end of its nest
} planner;

static inline const tile_value *value(const planner *q, tile_id id) {
  return tile_at(q->program, id);
}

// A row of plan.c.
typedef struct plan_pass {
  const char *name;
  void (*run)(planner *);
  bool (*when)(const planner *);  // whether it has anything to do for this mapping
  plan_stage made;
  bool optional;  // results are right without it (recc --without)
} plan_pass;

// facts.c
axis_set plan_cut_axes(const mapping *m);
// Is it a program of single steps on the host?
bool plan_is_steps(const planner *q);
// Single steps that one processor or one thread block runs: their products are nests of their own.
bool plan_gathers_steps(const planner *q);
// Does the value have an entry for each entry of a matrix state: lanes, or two tile axes?
bool plan_is_wide_value(const planner *q, tile_id id);
int plan_new_buffer(planner *q, plan_buffer b);
int plan_new_nest(planner *q, plan_nest nest);
void plan_force_buffer(planner *q, tile_id id, int last_axis);

// values.c: the program as an instance sees it; what its values are; in which order they are made.
void plan_cut_program(planner *q);
void plan_sum_extra_axes(planner *q);
void plan_describe_values(planner *q);
void plan_order_values(planner *q);

// nests.c: loop nests, region by region; results and copies of a region come late, and are brought
// into order.
void plan_make_nests(planner *q);
void plan_make_results(planner *q);
void plan_sort_nests(planner *q);
// Values that it had are in other nests by now, or in none.
void plan_remove_nest(planner *q, int n);

// decayed_sums.c: decays of states in place go into the products that are added to them.
void plan_decay_in_products(planner *q);

// recompute.c: values that are cheaper to compute again than to store.
void plan_inline_cheap(planner *q);

// gpu/row_factors.c: factors of whole rows leave the operands of products.
void plan_move_factors(planner *q);

// gpu/late_values.c: the first nest that a value may join. Made early, a value of many elements
// would take shared memory for long.
int plan_earliest_nest(const planner *q, tile_id id);

// gpu/matrix_vector.c: does the copy of a matrix fit into shared memory, beside the other copies
// and what else a step needs? If so, its bytes are taken. A single step reads the matrix once, and
// needs no copy.
bool plan_has_room(planner *q, tile_id matrix);

// gpu/fuse.c: elementwise values around a product join its nest.
void plan_join_nests(planner *q);
// Takes the value from a nest, which goes away if it has nothing else.
void plan_take_from_nest(planner *q, int n, tile_id id);
// Whatever reads the value makes it.
void plan_hold_inline(planner *q, tile_id id);

// gpu/fuse.c: memory for sums over rows that several warps share.
void plan_add_row_sums(planner *q);

// gpu/storage16.c: buffers that only products read hold 16-bit numbers.
void plan_narrow_operands(planner *q);

// gpu/wgmma_layout.c: marks the buffers and rows that warpgroup products read.
void plan_mark_wgmma(planner *q);
// gpu/wgmma_layout.c: whether memory will hold an operand in f32, so that warpgroup products need a
// copy.
bool plan_stays_wide(const planner *q, tile_id operand);

// gpu/intervals.c: nests that touch no memory of each other go side by side. When lives are known:
// what such nests read lives until the next barrier, and which nests begin without one.
void plan_gather_nests(planner *q);
void plan_find_barriers(planner *q);
// The first nest that is said to begin without a barrier, and needs one; -1: none.
int plan_lacks_barrier(arena *a, const plan *p);

// gpu/threads.c: how the threads of a block divide points and sums.
void plan_divide_nests(planner *q);
// gpu/verify_threads.c: NULL, or why they cannot divide a nest as it says.
const char *plan_wrong_threads(arena *a, const mapping *m, const plan *p, const plan_nest *nest);

// gpu/layouts.c: which numbers of f32 buffers and states trade places in shared memory.
void plan_choose_layouts(planner *q);

// gpu/register_states.c: states that stay in accumulators.
void plan_register_states(planner *q);

// dense_products.c: sums of products with matrices of parameters become products, and so do
// gradients of such matrices.
void plan_find_products(planner *q);
// Marks gradients that are added up in REGION_STEPS.
void plan_mark_gathered(planner *q);
void plan_gathered(planner *q, tile_id id, plan_nest *nest);
// lane_parameters.c: parameters whose neighbouring lanes lie apart are copied before the first
// step.
void plan_copy_parameters(planner *q);
// widen_angles.c: rewrites the program with values in f64, and marks them in q->wide.
void plan_widen(planner *q);
// renames.c: values of renamed operands are made before the rename.
void plan_move_renames(planner *q);

// products.c
int plan_highest_rank(const planner *q, axis_set axes);
bool plan_is_blocked_dot(const planner *q, tile_id id);
int plan_largest(const planner *q, axis_set axes);
void plan_product(planner *q, tile_id id, plan_nest *nest);
bool plan_is_added_across(const planner *q, tile_id dot);
// Gives the product of a nest memory of its own, if its result is turned on the way to its readers.
void plan_turn_result(planner *q, tile_id id, plan_dot *dot);
void plan_system(planner *q, tile_id id, plan_nest *nest);
// The axis of the sum that an axis of the product becomes; -1: spread over an axis.
int plan_axis_in_sum(const planner *q, tile_id operand, int axis);
// x + dot: x is computed into the buffer of the sum, then the product is added to it.
void plan_added_product(planner *q, tile_id id);

// memory.c
void plan_hold_values(planner *q);
void plan_states(planner *q);
void plan_share_sum_buffers(planner *q);
void plan_find_lives(planner *q);
void plan_place_buffers(planner *q);
