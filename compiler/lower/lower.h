// Lowering: nests of a plan become LLVM loops.
//
// The frame of the kernel (kernel/) says where arguments and results lie and which instance runs.
// `lower_region` emits the nests of one region for one run.
#pragma once

#include "compiler/emit/emit.h"
#include "compiler/plan/gpu/barriers.h"
#include "compiler/plan/tensor_cores.h"

// A tensor in memory: address = base + sum of index * stride over the axes whose stride is set.
typedef struct view {
  ir base;
  ir stride[PLAN_MAX_AXES];
  ir present;          // i1: false reads zeros; NULL: there
  plan_layout layout;  // which numbers trade places
  // GPU: 0, or the elements of a row that lies in tiles of 64 columns (wgmma.c)
  int width;
  int64_t tile;   // elements from one tile to the next
  ir offset;      // with such a layout: the offset that index maps have added; NULL: none
  int alignment;  // the base is a multiple of so many elements; 0: not known
  ir aligned;     // GPU, i1: the base and all rows are multiples of 16 bytes; NULL: not known
  bool internal;  // scratch: holds only the current lanes, so the lane index does not count
  // a 16-bit type: converted by loads and stores; else the type of the computation
  number_type stored;
} view;

enum { VIEW_TILE = PLAN_TILE_COLUMNS };  // view.width: columns of a tile

// Where the loops are.
typedef struct place_in_loops {
  ir index[PLAN_MAX_AXES];
  int vector_axis;  // its index is that of lane 0; -1: none
  int lanes;        // 0: scalars
  ir mask;          // lanes that exist, for memory outside; NULL: all
  bool moved;       // an index map is being followed: not the point of the nest itself
} place_in_loops;

// At one point, whatever lies in lanes.
static inline void place_leave_lanes(place_in_loops *at) {
  at->vector_axis = -1;
  at->lanes = 0;
  at->mask = NULL;
}

typedef struct result_target {
  view at;
  ir active;          // i1: the result is wanted, and this instance is the one that stores it
  ir limit;           // chunk form with time: rows to store (0 unless active)
  bool add;           // instances add up
  ir own;             // GPU, i1: the value is stored; false: 0 is. NULL: always the value
  bool over_threads;  // GPU: summed over the threads of the block
  bool in_passes;     // GPU: passes over value-axis tiles add up in `sums`; the last pass stores
  view sums;
  ir first_pass, last_pass;  // i1
  // GPU, i1: there are no copies, and the result goes to `tensor`; NULL: never
  ir single;
  view tensor;
} result_target;

// GPU: the threads of a block.
typedef struct team {
  ir thread;  // i32
  // i32, of threads that share out nests (gpu_warp_of_block); NULL: in a function that many nests
  // call
  ir warp;
  int threads;
  // MAP_BLOCK: points of nests are shared out; else each thread has an entry of the lane axis
  bool shares;
  int resident;          // blocks among which the registers of a multiprocessor are divided
  bool lacks_registers;  // states from chunk to chunk take a quarter of a thread's share, or more
  ir inside;             // MAP_THREADS, i1: this thread has an entry
  int axis;              // the lane axis
  ir sums;               // shared memory in which results are summed over threads
} team;

// GPU: a state in the accumulators of the warps of a block (plan/gpu/register_states.c).
typedef struct register_accumulators {
  int i, j, tiles;  // rows, columns; tiles of 16 x 8 of a block, side by side;
  int blocks;       // blocks of a warp, one after another in slots
  ir slots[GPU_MOST_KEPT][4];
} register_accumulators;

// What products prefetch while they run: words of a list on the stack, and bytes of a line
// (kernel/host/prefetch.c).
enum { FETCH_NEXT, FETCH_LAST, FETCH_ENTRIES, FETCH_LINE = 64 };
typedef struct fetch_list {
  ir list;
  int lines;        // lines of an entry
  int64_t entries;  // for each block of a product
} fetch_list;

// Where there are no products: rows that a nest prefetches, each of its points at its own place.
typedef struct rows_ahead {
  view rows;
  axis_set axes;
  bool write;
} rows_ahead;

typedef struct ahead_list {
  const plan_nest *nest;
  rows_ahead *items;
  int count;
} ahead_list;

// GPU: buffers of a block that did not fit into shared memory.
typedef enum scratch_use {
  SCRATCH_NONE,       // there are none
  SCRATCH_ELSEWHERE,  // the nest at hand reads none of them
  SCRATCH_READ,
} scratch_use;

typedef struct nest_target nest_target;  // nest_target.h

typedef struct lower {
  emitter *e;
  const nest_target *target;
  team *team;  // NULL on the host
  ir only;     // i1: stores of the nest at hand are this thread's; NULL: every thread's
  const mapping *m;
  const plan *p;
  ir axis_size[PLAN_MAX_AXES];
  place_in_loops outside;       // instance axes and lanes
  view *arguments;              // by argument of the program
  result_target *results;       // by result
  view *carried;                // by carried value
  register_accumulators *kept;  // by carried value; tiles 0: in memory
  // GPU: by nest, the slots of a matrix of parameters; NULL: it is in memory
  ir **matrices;
  // GPU: sums of the current row of a product, by position in its nest (row_sums.c)
  const ir *row_sums;
  ir *buffers;          // base addresses by buffer
  ir *variables;        // HELD_SCALAR, by value
  ir rows;              // chunk form: rows of the chunk that lie inside the sequence
  ir steps;             // REGION_STEPS: steps that are added up
  fetch_list fetch;     // host, chunk form; NULL: nothing is fetched
  ahead_list ahead;     // the same; nest NULL: nothing is fetched
  int side_by_side;     // host: machine vectors of the nest at hand that are computed at once; 0: 1
  ir tile_first;        // mapping.tiled: the first entry of the current value-axis tile
  memory_since *since;  // GPU, threads that share out nests; else NULL
  scratch_use scratch;  // GPU, threads that share out nests: of the nest at hand
  ir *memo;             // values at the current point
  // the condition of which the code at hand is one branch, and the operand of a SELDOM that it takes;
  // 0: of none
  tile_id condition;
  int branch;
  // by value: entries of slices and places, and numbers, that differ between turns of a repeat
  ir *entries;
} lower;

// The number that an extent stands for, with these sizes.
ir lower_extent(emitter *e, const ir *axis_size, extent x);
// Gives the view the layout of wgmma, if it suits all of the memory: so many rows of so many
// elements.
void view_in_tiles(view *v, int64_t row, int64_t rows);
view buffer_view(lower *l, const plan_buffer *b, ir base);
LLVMTypeRef view_type(emitter *e, const view *v);  // of what it holds
ir view_address(lower *l, const view *v, const place_in_loops *at, axis_set axes);
// Whether an address of the view depends on the index of the axis.
bool view_moves_along(lower *l, const view *v, const place_in_loops *at, axis_set axes, int axis);
// swizzle.c: the same in memory whose pieces trade places.
ir view_address_swizzled(lower *l, const view *v, const place_in_loops *at, axis_set axes);
// Reads or writes a tensor with the given axes at a place: a scalar, or a vector if the vector axis
// is among them.
ir view_load(lower *l, const view *v, const place_in_loops *at, axis_set axes);
void view_store(lower *l, const view *v, const place_in_loops *at, axis_set axes, ir x);
view value_view(lower *l, tile_id id);
// The part of a sum that the product below its operand is added to.
view view_of_product(lower *l, tile_id operand, view sum);
void lower_nest(lower *l, const plan_nest *nest);
// The nests of a region.
void lower_region(lower *l, region r);
// After all nests of a run: next states that were not made in place are copied over the old ones.
void lower_commit(lower *l);
// Loops over tile axes for copies: calls `body` at each point, vectors along the last axis where it
// has lanes.
typedef void point_function(lower *l, const place_in_loops *at, void *data);
void lower_points(lower *l, axis_set axes, bool lane, point_function *body, void *data);
// The same for bodies that only load and store.
void lower_copies(lower *l, axis_set axes, bool lane, point_function *body, void *data);

// The numbers of a tensor, or 0 (`from` NULL), to another of these axes.
void lower_copy_view(lower *l, const view *from, const view *to, axis_set axes);
// The same behind another copy, without a barrier: neither touches memory of the other.
void lower_copy_beside(lower *l, const view *from, const view *to, axis_set axes);
