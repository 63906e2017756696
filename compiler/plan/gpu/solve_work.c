// What the warps of a block do in a triangular system, as lower/gpu/solve.c divides it.
#include <math.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/gpu/nest_work.h"

int64_t gpu_size_in(const placed_program *p, int axis) {
  return plan_typical_size(p->m, p->p->program, axis);
}

double gpu_entries(const placed_program *p, axis_set axes) {
  double count = 1;
  for (int axis = 0; axis < p->p->program->axes.count; axis++)
    if (axis_in(axes, axis)) count *= (double)gpu_size_in(p, axis);
  return count;
}

gpu_turns gpu_turns_of(const placed_program *p, double points) {
  double threads = p->threads;
  return (gpu_turns){ceil(points / GPU_WARP_LANES), ceil(points / threads)};
}

static bool is_outside(plan_access x) { return x.placed && !x.in_shared; }

// A column reads the matrix, the same for all lanes, and solved rows again.
static double bytes_of_solve(const placed_program *p, const plan_nest *nest, double rows) {
  enum { SECTOR = 32, OF_WARP = 4 * GPU_WARP_LANES };
  bool matrix = is_outside(gpu_access_of_operand(p, nest->dot.a, nest->dot.pack_a));
  bool solved = is_outside(gpu_access_of_buffer(p, p->p->values[nest->values.items[0]].buffer));
  double loads = GPU_SYSTEM_ROWS * plan_blocks_of_system((int64_t)rows);
  return loads * (matrix ? SECTOR : 0) + (loads + 2 * rows) * (solved ? OF_WARP : 0);
}

// Blocks of four rows go to the lanes of a column in turn. Each solved block adds its terms to
// those behind it. The more lanes share a column, the fewer columns a warp reads at a time.
static nest_work work_of_shared_solve(const placed_program *p, double columns, double blocks,
                                      int lanes) {
  double kept = blocks / lanes, terms = blocks * (kept + 1) / 2;
  double of_column =
      terms * GPU_COST_SOLVE_TERMS + blocks * GPU_COST_SOLVE_SHARED + kept * GPU_COST_SOLVE_OWN;
  gpu_turns t = gpu_turns_of(p, columns * lanes);
  return (nest_work){
      .all.instructions = t.all * of_column,
      .all.busiest = t.busiest * of_column,
      .used = (int)t.all < p->threads / GPU_WARP_LANES ? (int)t.all : 0,
      .all.wavefronts = t.all * (terms * GPU_COST_TERMS_READ / lanes + kept * GPU_COST_OWN_READ)};
}

nest_work gpu_work_of_solve(const placed_program *p, const plan_nest *nest) {
  const tile_value *v = &p->p->program->values.items[nest->values.items[0]];
  double rows = (double)gpu_size_in(p, tile_row_axis(v));
  double columns = gpu_entries(p, plan_tile_axes(p->m, v->axes) & ~axis_bit(tile_row_axis(v)));
  int lanes = plan_lanes_of_system(p->m, columns, (int64_t)rows);
  if (lanes > 1) return work_of_shared_solve(p, columns, rows / GPU_SYSTEM_ROWS, lanes);
  gpu_turns t = gpu_turns_of(p, columns);
  double blocks = plan_blocks_of_system((int64_t)rows),
         of_column = blocks * GPU_COST_SOLVE_BLOCK + GPU_COST_SOLVE_ROW * rows;
  double bytes = bytes_of_solve(p, nest, rows);
  return (nest_work){
      .all.instructions = t.all * of_column,
      .all.busiest = t.busiest * of_column,
      .used = (int)t.all < p->threads / GPU_WARP_LANES ? (int)t.all : 0,
      .all.wavefronts = t.all * (GPU_COST_BLOCK_READ * blocks + GPU_COST_ROW_READ * rows),
      .all.bytes = t.all * bytes,
      .all.far = bytes > 0 ? rows / 4 : 0};
}
