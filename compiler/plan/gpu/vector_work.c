// What the warps of a block do in products that are no blocks of tiles: a matrix of parameters
// times vectors, and multiply-adds by threads.
#include <math.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/gpu/nest_work.h"
#include "compiler/plan/tensor_cores.h"

// Multiply-adds by threads, or a matrix of parameters times a vector: what is loaded is spread
// evenly.
static nest_work spread_out(const placed_program *p, double instructions, double wavefronts,
                            double tasks) {
  double warps = (double)p->threads / GPU_WARP_LANES, used = ceil(tasks / GPU_WARP_LANES);
  double busy = used < warps ? used : warps;
  if (busy < 1) busy = 1;
  return (nest_work){.all.instructions = instructions,
                     .all.busiest = instructions / busy,
                     .used = (int)busy,
                     .all.wavefronts = wavefronts};
}

// A matrix of parameters times vectors on tensor cores: each warp converts the vectors that it
// multiplies.
static nest_work work_of_vectors(const placed_program *p, const plan_nest *nest,
                                 const matrix_vector *g) {
  const double warps = (double)p->threads / GPU_WARP_LANES, splits = (double)g->splits;
  const double tiles = gpu_entries(p, g->rows) / GPU_TILE_ROWS * splits / warps,
               steps = gpu_entries(p, g->depth) / 16 / splits;
  const double products = tiles * steps, loads = nest->dot.held_b ? 0 : products;
  const double ends = ceil(tiles * GPU_TILE_ROWS * g->vectors / GPU_WARP_LANES);
  double own = gpu_cost_begin + steps * GPU_COST_VECTOR_STEP + products + 2 * loads +
               ends * GPU_COST_VECTOR_END;
  if (splits > 1)
    own += ceil(gpu_entries(p, g->rows) * g->vectors / p->threads) *
           (2 * splits + GPU_COST_VECTOR_END);
  return (nest_work){.all.instructions = warps * own,
                     .all.busiest = own,
                     .used = (int)warps,
                     .all.wavefronts = warps * 4 * (steps + loads),
                     .all.tensor = warps * products * GPU_TILE_ROWS * GPU_TILE_COLUMNS * 16,
                     .all.barriers = splits > 1};
}

// The same by threads (plan/gpu/matrix_vector.c). What the threads of a column have is added up
// behind a barrier.
static nest_work work_of_matrix_vector(const placed_program *p, const plan_nest *nest, double all) {
  const mapping *m = p->m;
  matrix_vector g = plan_matrix_vector(m, p->p, nest->values.items[0], &nest->dot);
  if (g.mma) return work_of_vectors(p, nest, &g);
  double rows = gpu_entries(p, g.rows),
         threads = g.along ? rows * (double)g.lanes : rows / g.width * (double)g.splits;
  plan_access matrix = gpu_access_of_operand(p, nest->dot.b, nest->dot.pack_b);
  double words = all * number_type_bytes(matrix.stored) / 4, vector = all / g.width;
  nest_work work =
      spread_out(p, GPU_COST_VECTOR * all, vector + (matrix.in_shared ? words : 0), threads);
  if (!matrix.in_shared) work.all.bytes = GPU_WARP_LANES * 4 * words, work.all.far = 1;
  work.all.barriers = !g.along && g.splits > g.in_warp;
  return work;
}

nest_work gpu_work_by_threads(const placed_program *p, const plan_nest *nest) {
  const plan_dot *dot = &nest->dot;
  const tile_value *v = tile_at(p->p->program, nest->values.items[0]);
  double all =
      gpu_entries(p, (plan_tile_axes(p->m, v->axes | v->over)) | axis_bit(dot->k)) / GPU_WARP_LANES;
  double results = gpu_entries(p, plan_tile_axes(p->m, v->axes));
  if (dot->i < 0) return work_of_matrix_vector(p, nest, all);
  return spread_out(p, GPU_COST_BY_THREADS * all, all / 2, results / 16);  // blocks of 4 x 4
}
