// Products on tensor cores: which products run on them, and which part of a product a warp or a
// warpgroup has.
#pragma once

#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/plan.h"

enum { GPU_WARP_LANES = 32, GPU_MOST_WARPS = 32 };
// Of a block that shares out the points of nests, if its kernel does not say (kernel.gpu.threads).
enum { GPU_BLOCK_THREADS = GPU_COST_BLOCK_THREADS };
// What an instruction of mma makes.
enum { GPU_TILE_ROWS = 16, GPU_TILE_COLUMNS = 8 };
// Warpgroups (wgmma): warps, rows of a product, steps of k in an instruction.
enum {
  GPU_GROUP_WARPS = 4,
  GPU_GROUP_ROWS = GPU_GROUP_WARPS * GPU_TILE_ROWS,
  GPU_GROUP_DEPTH = 16
};
// Tiles of 8 columns: of a warp's block of a product, of a state in a warp's registers, of a
// warpgroup's product.
enum {
  GPU_MOST_TILES = GPU_COST_BLOCK_TILES,
  GPU_MOST_KEPT = GPU_COST_STATE_TILES,
  GPU_GROUP_TILES = GPU_COST_GROUP_TILES
};
// Tiles of 16 rows of a matrix of parameters that a warp multiplies by vectors at once.
enum { GPU_MATRIX_TILES = 8 };

static inline int64_t blocks_up(int64_t size, int64_t block) { return (size + block - 1) / block; }

// Whether a product is made on tensor cores.
bool plan_is_mma(const mapping *m, const tile_program *program, const plan_dot *dot);
// Whether lanes of all warps add up a product of so few rows and columns sooner than the few warps
// whose tiles it fills. `a`, `b`: tile axes of the factors.
bool plan_suits_lanes(const mapping *m, const tile_program *program, axis_set a, axis_set b,
                      axis_set summed);
// Each warp's share of a product whose accumulator stays in registers: blocks of 16 rows, and their
// tiles of 8 columns. 0: the registers do not hold them.
typedef struct accumulator_share {
  int blocks, tiles;
} accumulator_share;
accumulator_share plan_accumulator_share(const mapping *m, const tile_program *program,
                                         const plan_dot *dot);
// Is the sum that the nest's product is added to a state that stays in its accumulators?
bool plan_sums_state(const plan *p, const plan_nest *nest);
// How many warps have some of the columns of a row of the nest's product.
int64_t plan_warps_of_row(const mapping *m, const plan *p, const plan_nest *nest);
// Blocks of the nest's product, which any warps may take; 0: certain warps have theirs in
// registers, or no warp has one.
int64_t plan_blocks_of_nest(const mapping *m, const plan *p, const plan_nest *nest);
// Whether a product may be made by warpgroups, for all that its sizes say. Whether it is, says
// plan_dot.wgmma.
bool plan_may_be_wgmma(const mapping *m, const tile_program *program, const plan_dot *dot);
// Tiles of columns of a warp's block. So many that all warps have one; `rows`: blocks of rows, of
// all around the product.
int plan_tiles_of_warp(const mapping *m, const tile_program *program, const plan_dot *dot,
                       int64_t rows);
// The same of a nest, whose accumulators may hold a state.
int plan_tiles_of_nest(const mapping *m, const plan *p, const plan_nest *nest);

// Those that share each column of a sum along time; 1: one thread is as fast.
int plan_lanes_of_scan(const mapping *m, double columns, int64_t size);
// The same of a triangular system, whose rows are solved in blocks of GPU_SYSTEM_ROWS. Such lanes
// keep their blocks in registers, up to GPU_MOST_BLOCKS of them.
enum { GPU_SYSTEM_ROWS = 4, GPU_MOST_BLOCKS = 4 };
int plan_lanes_of_system(const mapping *m, double columns, int64_t rows);
// The blocks of GPU_SYSTEM_ROWS rows and columns below the diagonal of a system's matrix. A thread
// reads so many blocks of solved rows again.
double plan_blocks_of_system(int64_t rows);
