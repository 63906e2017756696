// GPU: which products run on tensor cores, and which tiles of a product a warp owns.
//
//   64 x 64 x 64, 128 threads      blocks of 16 rows and 32 columns, two for each of four warps; or 16 whole rows for each
#include <math.h>

#include "compiler/abi/gpu_work.h"
#include "compiler/plan/tensor_cores.h"

enum { TILE_ROWS = GPU_TILE_ROWS, TILE_COLUMNS = GPU_TILE_COLUMNS };

// How much of its tiles a product fills, in percent.
static int64_t filled(const tile_program *program, const plan_dot *dot, int depth) {
  int64_t i = plan_axis_size(program, dot->i), j = plan_axis_size(program, dot->j),
          k = plan_axis_size(program, dot->k);
  int64_t all = blocks_up(i, TILE_ROWS) * TILE_ROWS * blocks_up(j, TILE_COLUMNS) * TILE_COLUMNS *
                blocks_up(k, depth) * depth;
  return 100 * i * j * k / all;
}

// Three products of tf32 take two fifths of the time of as many multiply-adds of f32, where tiles
// are filled.
bool plan_is_mma(const mapping *m, const tile_program *program, const plan_dot *dot) {
  enum { DEPTH_TF32 = 8 };
  if (m->kind != MAP_BLOCK || dot->i < 0 ||
      plan_axis_size(program, dot->k) < GPU_COST_SHORTEST_DEPTH)
    return false;
  if (number_is_narrow(m->dtype) || m->tf32) return true;
  return filled(program, dot, DEPTH_TF32) >= GPU_COST_FILLED;
}

static int64_t largest_size(const tile_program *program, axis_set axes) {
  int64_t largest = 1;
  for (int axis = 0; axis < program->axes.count; axis++)
    if (axis_in(axes, axis) && plan_axis_size(program, axis) > largest)
      largest = plan_axis_size(program, axis);
  return largest;
}

// Of a warp's tile of a product: each number of its factors is loaded and converted.
static double instructions_of_tile(int64_t depth) {
  double loads = (GPU_TILE_ROWS + GPU_TILE_COLUMNS) / 4;
  return gpu_cost_block +
         (double)blocks_up(depth, GPU_GROUP_DEPTH) * (2 * loads + 1 + gpu_cost_step);
}

// Of a lane: two numbers are loaded and multiplied for each entry, and sums meet.
static double instructions_of_lane(int64_t entries) {
  enum { OF_ENTRY = 3 };
  return gpu_cost_begin + (double)entries * OF_ENTRY + log2(GPU_WARP_LANES) * GPU_COST_SHUFFLED;
}

bool plan_suits_lanes(const mapping *m, const tile_program *program, axis_set a, axis_set b,
                      axis_set summed) {
  int64_t depth = plan_entries(program, summed), sums = plan_entries(program, (a | b) & ~summed);
  int64_t i = largest_size(program, a & ~b), j = largest_size(program, b & ~a);
  int64_t tiles = blocks_up(i, GPU_TILE_ROWS) * blocks_up(j, GPU_TILE_COLUMNS) * (sums / (i * j)),
          turns = blocks_up(tiles, m->threads / GPU_WARP_LANES);
  const gpu_speed speed = {0};
  const gpu_work by_tiles = {.busiest = (double)turns * instructions_of_tile(depth)},
                 by_lanes = {.busiest = instructions_of_lane(blocks_up(sums * depth, m->threads)),
                             .barriers = 1};
  return gpu_cycles(&by_lanes, &speed) < gpu_cycles(&by_tiles, &speed);
}

int plan_tiles_of_warp(const mapping *m, const tile_program *program, const plan_dot *dot,
                       int64_t rows) {
  int64_t warps = m->threads / GPU_WARP_LANES,
          all = blocks_up(plan_axis_size(program, dot->j), TILE_COLUMNS);
  int tiles = number_is_narrow(m->dtype) ? GPU_MOST_TILES : GPU_MOST_TILES / 2;
  if (plan_may_be_wgmma(m, program, dot)) tiles = GPU_GROUP_TILES;
  while (tiles > 1 && (rows * blocks_up(all, tiles) < warps || all < tiles)) tiles /= 2;
  return tiles;
}

// Blocks of 16 rows, over all axes around the product.
static int64_t row_blocks_of(const plan *p, const plan_dot *dot, axis_set around) {
  return blocks_up(plan_axis_size(p->program, dot->i), TILE_ROWS) *
         plan_entries(p->program, around);
}

bool plan_sums_state(const plan *p, const plan_nest *nest) {
  tile_id sum = p->values[nest->values.items[0]].into;
  int buffer = sum == NO_TILE ? -1 : p->values[sum].buffer,
      carried = buffer < 0 ? -1 : p->buffers.items[buffer].carried;
  return carried >= 0 && p->carried[carried].accumulator == (int)(nest - p->nests.items);
}

int plan_tiles_of_nest(const mapping *m, const plan *p, const plan_nest *nest) {
  const plan_dot *dot = &nest->dot;
  if (plan_sums_state(p, nest)) return plan_accumulator_share(m, p->program, dot).tiles;
  const tile_value *v = tile_at(p->program, nest->values.items[0]);
  axis_set around = plan_tile_axes(m, v->axes) & ~(axis_bit(dot->i) | axis_bit(dot->j));
  return plan_tiles_of_warp(m, p->program, dot, row_blocks_of(p, dot, around));
}

int64_t plan_warps_of_row(const mapping *m, const plan *p, const plan_nest *nest) {
  return blocks_up(blocks_up(plan_axis_size(p->program, nest->dot.j), TILE_COLUMNS),
                   plan_tiles_of_nest(m, p, nest));
}

int64_t plan_blocks_of_nest(const mapping *m, const plan *p, const plan_nest *nest) {
  const plan_dot *dot = &nest->dot;
  if (plan_sums_state(p, nest) || plan_may_be_wgmma(m, p->program, dot) ||
      !plan_is_mma(m, p->program, dot))
    return 0;
  axis_set around = plan_tile_axes(m, tile_at(p->program, nest->values.items[0])->axes);
  return row_blocks_of(p, dot, around & ~(axis_bit(dot->i) | axis_bit(dot->j))) *
         plan_warps_of_row(m, p, nest);
}

accumulator_share plan_accumulator_share(const mapping *m, const tile_program *program,
                                         const plan_dot *dot) {
  accumulator_share none = {0, 0};
  if (dot->i < 0) return none;
  int64_t i = plan_axis_size(program, dot->i), j = plan_axis_size(program, dot->j);
  if (!plan_is_mma(m, program, dot) || i % TILE_ROWS || j % TILE_COLUMNS) return none;
  int64_t rows = i / TILE_ROWS, columns = j / TILE_COLUMNS, warps = m->threads / GPU_WARP_LANES;
  int64_t own = rows * columns / warps, tiles = own < GPU_GROUP_TILES ? own : GPU_GROUP_TILES;
  // threads of smaller blocks have more registers; backward has room as well, since its states are
  // alive in few nests
  int64_t most = GPU_MOST_KEPT / 2 * GPU_BLOCK_THREADS / m->threads;
  if (m->kernel->kind == KERNEL_BACKWARD) most = GPU_MOST_KEPT;
  if (!own || rows * columns % warps || own > most || own > GPU_MOST_KEPT) return none;
  if (tiles > columns) tiles = columns;
  if (columns % tiles || own % tiles) return none;
  return (accumulator_share){(int)(own / tiles), (int)tiles};
}

bool plan_may_be_wgmma(const mapping *m, const tile_program *program, const plan_dot *dot) {
  if (!m->warpgroups || program->form == TILE_STEP || !plan_is_mma(m, program, dot)) return false;
  int64_t i = plan_axis_size(program, dot->i), j = plan_axis_size(program, dot->j);
  return i % GPU_GROUP_ROWS == 0 && j % GPU_TILE_COLUMNS == 0 &&
         plan_axis_size(program, dot->k) % GPU_GROUP_DEPTH == 0;
}
