// GPU, single steps: how the threads of a block divide a matrix of parameters times a vector.
//
//   weight [G,D,E], over E        along: each lane has parts of a row, and a warp adds up its lanes
//   weight [G,D,E], over D, G     across: 256 threads, 16 pieces of E, sixteen threads for each, two of them in a warp
//   .. times x [E,sequences]      four columns: what a thread has read of the matrix serves four sequences
//   a copy of weight in bf16      on tensor cores: warps take 16 rows at a time, or share the sum of fewer rows
//
// A lane reads 8 numbers of 16 bits at once, and multiplies them by 8 numbers of 32 bits of the
// vector. If these were neighbours, lanes would read vectors of 16 bytes 32 bytes apart: two of
// them in the same banks. The copy of the matrix therefore has the columns of each 64 in another
// order:
//
//   0 .. 3, 32 .. 35    4 .. 7, 36 .. 39    ..      28 .. 31, 60 .. 63      lanes read numbers 0, 4, 8, .. of the vector
#include "compiler/plan/planner.h"
#include "compiler/plan/tensor_cores.h"

enum { BYTES_AT_ONCE = 16, DEPTH = 16 };

static int64_t power_of_two_in(int64_t n, int64_t most) {
  int64_t power = 1;
  while (2 * power <= most && n % (2 * power) == 0) power *= 2;
  return power;
}

// One of the axes that the matrix lacks.
static void choose_vectors(const tile_program *program, axis_set own, matrix_vector *g) {
  g->vectors = 1;
  g->vector_axis = -1;
  for (int axis = 0; axis < program->axes.count; axis++) {
    if (!axis_in(own, axis) || plan_axis_size(program, axis) == TILE_RUNTIME_SIZE) continue;
    int count = (int)power_of_two_in(plan_axis_size(program, axis), GPU_MATRIX_VECTORS);
    if (count > g->vectors) g->vectors = count, g->vector_axis = axis;
  }
}

bool plan_has_fours_apart(const tile_program *program, const plan_buffer *b) {
  if (!b->by_vectors || !number_is_narrow(b->stored)) return false;
  return plan_axis_size(program, b->axes[b->axis_count - 1]) % (2 * PLAN_FOURS_APART) == 0;
}

// Do rows and depth fill tiles, as many as warps can share?
static bool fills_tiles(const mapping *m, const tile_program *program, axis_set rows,
                        axis_set depth) {
  const int64_t row_count = plan_entries(program, rows), depth_count = plan_entries(program, depth);
  const int64_t warps = m->threads / GPU_WARP_LANES;
  if (m->dtype != NUMBER_BF16 || row_count % GPU_TILE_ROWS || depth_count % DEPTH) return false;
  return row_count / GPU_TILE_ROWS * (depth_count / DEPTH) % warps == 0;
}

bool plan_suits_vectors_by_mma(const mapping *m, const tile_program *program, axis_set rows,
                               axis_set depth, int last) {
  if (last < 0 || !axis_in(rows | depth, last) || !fills_tiles(m, program, rows, depth))
    return false;
  const int64_t row = plan_axis_size(program, last);
  return row % DEPTH == 0 && !(row & (row - 1));
}

// The warps that share a sum. A step of the depth costs the conversion of the vectors, and for each
// block of rows a load and a product; sums of several warps meet in shared memory.
static int64_t warps_of_sum(const mapping *m, const tile_program *program, const matrix_vector *g) {
  const int64_t rows = plan_entries(program, g->rows), tiles = rows / GPU_TILE_ROWS,
                warps = m->threads / GPU_WARP_LANES;
  const int64_t steps = plan_entries(program, g->depth) / DEPTH;
  int64_t best = 0, least = 0;
  for (int64_t splits = 1; splits <= warps; splits *= 2) {
    if (warps % splits || tiles % (warps / splits) || steps % splits) continue;
    const int64_t own = tiles * splits / warps,
                  parts = blocks_up(rows * g->vectors, m->threads) * GPU_COST_VECTOR_PART * splits;
    int64_t cost = steps / splits * (GPU_COST_VECTOR_STEP + GPU_COST_VECTOR_TILE * own) +
                   own * g->vectors * GPU_COST_VECTOR_SUM;
    if (splits > 1) cost += GPU_COST_VECTOR_MEETING + parts;
    if (!best || cost < least) best = splits, least = cost;
  }
  return best;
}

matrix_vector plan_matrix_vector(const mapping *m, const plan *p, tile_id id, const plan_dot *dot) {
  const tile_program *program = p->program;
  const tile_value *values = program->values.items;
  axis_set w = plan_tile_axes(m, values[dot->b].axes), x = plan_tile_axes(m, values[dot->a].axes);
  matrix_vector g = {.depth = plan_tile_axes(m, values[id].over), .rows = w & ~x};
  g.around = plan_tile_axes(m, values[id].axes) & ~g.rows;
  choose_vectors(program, g.around & ~w, &g);
  g.last = plan_contiguous_axis(m, p, dot->b);
  if (dot->pack_b >= 0)
    g.last = p->buffers.items[dot->pack_b].axes[p->buffers.items[dot->pack_b].axis_count - 1];
  g.along = axis_in(g.depth, g.last);
  bool copied = dot->pack_b >= 0 && axis_in(g.rows | g.depth, g.last);
  int bytes = number_is_narrow(m->dtype) ? 2 : 4;
  g.width =
      copied ? (int)power_of_two_in(plan_axis_size(program, g.last), BYTES_AT_ONCE / bytes) : 1;
  g.fours_apart = dot->pack_b >= 0 && plan_has_fours_apart(program, &p->buffers.items[dot->pack_b]);
  g.lanes = g.along ? power_of_two_in(plan_entries(program, g.depth) / g.width, GPU_WARP_LANES) : 0;
  int64_t pieces = plan_entries(program, g.rows) / g.width;
  g.splits = g.along || pieces >= m->threads ? 1 : m->threads / pieces;
  g.in_warp = g.splits > 1 && GPU_WARP_LANES % pieces == 0 ? GPU_WARP_LANES / pieces : 1;
  bool copied_in_rows = dot->pack_b >= 0 && !p->buffers.items[dot->pack_b].by_vectors;
  g.mma = dot->held_b ||
          (copied_in_rows && plan_suits_vectors_by_mma(m, program, g.rows, g.depth, g.last));
  if (g.mma) g.splits = warps_of_sum(m, program, &g), g.in_warp = 1;
  return g;
}

int64_t plan_matrix_sums(const mapping *m, const plan *p, tile_id id, const plan_dot *dot) {
  matrix_vector g = plan_matrix_vector(m, p, id, dot);
  int64_t sums = g.splits / g.in_warp;
  return sums > 1 ? sums * g.vectors * plan_entries(p->program, g.rows) : 0;
}

int64_t plan_matrix_registers(const mapping *m, const plan *p, tile_id id, const plan_dot *dot) {
  enum { REGISTERS_OF_TILE = 4, MOST_STEPS = 16 };
  const tile_program *program = p->program;
  matrix_vector g = plan_matrix_vector(m, p, id, dot);
  if (!fills_tiles(m, program, g.rows, g.depth) || m->tiled ||
      (plan_tile_axes(m, tile_at(program, dot->b)->axes) & g.around))
    return 0;
  const int64_t splits = warps_of_sum(m, program, &g),
                row_warps = m->threads / GPU_WARP_LANES / splits;
  const int64_t tiles = plan_entries(program, g.rows) / GPU_TILE_ROWS / row_warps;
  const int64_t steps = plan_entries(program, g.depth) / DEPTH / splits;
  return tiles <= GPU_MATRIX_TILES && steps <= MOST_STEPS ? tiles * steps * REGISTERS_OF_TILE : 0;
}

bool plan_has_room(planner *q, tile_id matrix) {
  int64_t entries = plan_entries(q->program, q->p->values[matrix].tile);
  double bytes = (double)entries * (number_is_narrow(q->m->dtype) ? 2 : 4);
  if (q->m->kernel->kind == KERNEL_STEP ||
      q->matrix_bytes + bytes > (q->m->shared_kib - GPU_COST_REST_KIB) * 1024.0)
    return false;
  q->matrix_bytes += bytes;
  return true;
}
