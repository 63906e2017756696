// GPU: levels of sums between pairs of steps, over blocks of 2, 4, 8 .. steps. A warp makes them
// (lower/gpu/segment.c).
//
//   segment of 64 steps   ->   6 levels
#include "compiler/plan/tensor_cores.h"

enum { FEWEST_STEPS = GPU_WARP_LANES };

// 0: a warp cannot make levels, or the sum has so few steps that levels take more code than time.
static int segment_levels(const mapping *m, const tile_program *program, const tile_value *v) {
  if (m->kind != MAP_BLOCK || !plan_sized(program, plan_tile_axes(m, v->axes))) return 0;
  int64_t steps = plan_axis_size(program, tile_step_axis(v));
  if (steps != plan_axis_size(program, tile_other_step_axis(v)) || steps & (steps - 1)) return 0;
  if (steps < FEWEST_STEPS || steps > GPU_MOST_STEPS_OF_LANE * GPU_WARP_LANES) return 0;
  int levels = 0;
  while ((int64_t)1 << levels < steps) levels++;
  return levels;
}

// The most lanes of a warp that may share each column of so many rows, or of blocks of rows: among
// the divisors of `size`, as there are threads for.
static int lanes_of_column(const mapping *m, double columns, int64_t size) {
  enum { FEWEST = 4 };
  int lanes = GPU_WARP_LANES;
  while (lanes > 1 && (columns * lanes > m->threads || size % lanes)) lanes /= 2;
  return lanes < FEWEST ? 1 : lanes;
}

int plan_lanes_of_system(const mapping *m, double columns, int64_t rows) {
  if (m->kind != MAP_BLOCK || rows % GPU_SYSTEM_ROWS) return 1;
  int lanes = lanes_of_column(m, columns, rows / GPU_SYSTEM_ROWS);
  int64_t blocks = rows / GPU_SYSTEM_ROWS / lanes;
  return blocks > GPU_MOST_BLOCKS ? 1 : lanes;
}

double plan_blocks_of_system(int64_t rows) {
  return (double)(rows * rows) / (2 * GPU_SYSTEM_ROWS * GPU_SYSTEM_ROWS);
}

// A thread adds up a few rows in the time that lanes need to meet.
int plan_lanes_of_scan(const mapping *m, double columns, int64_t size) {
  enum { FEW_ROWS = 32 };
  return columns > GPU_WARP_LANES && size <= FEW_ROWS ? 1 : lanes_of_column(m, columns, size);
}

int plan_levels_of(const mapping *m, const tile_program *program, tile_id id) {
  const tile_value *v = tile_at(program, id);
  return v->op == TILE_SEGMENT ? segment_levels(m, program, v) : 0;
}

// Lanes read a step in several levels, which must not lie bank under bank. These distances have the
// fewest wavefronts: readers take pairs of steps, and lanes that make more than 64 steps store four
// at once.
int64_t plan_level_apart(int64_t numbers) {
  enum { OF_PAIRS = 10, OF_FOURS = 12, MOST_IN_PAIRS = 2 * GPU_WARP_LANES };
  return numbers + (numbers <= MOST_IN_PAIRS ? OF_PAIRS : OF_FOURS);
}
