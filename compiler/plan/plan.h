// Plans: how a tile program becomes loop nests over buffers, for one clone. README.md describes the
// mechanisms.
#pragma once

#include "compiler/base/number.h"
#include "compiler/base/pass.h"
#include "compiler/plan/kernel.h"

#define PLAN_MAX_AXES 64
// Vectors of a buffer of lanes that may lie on the stack: more go to scratch memory. A guess.
#define PLAN_STACK_VECTORS 32

// Who runs a kernel. MAP_LANES: the host's lanes. MAP_THREADS: GPU threads that each hold an entry
// of the lane axis and share nothing. MAP_BLOCK: a GPU thread block that divides the points of
// every nest.
typedef enum mapping_kind { MAP_LANES, MAP_THREADS, MAP_BLOCK } mapping_kind;

// How the axes of a kernel are used. Every axis is one of: an instance axis (one index per
// instance), the lane axis, or a tile axis (a loop inside a run).
typedef struct mapping {
  mapping_kind kind;
  const kernel *kernel;
  number_type dtype;
  bool f64;
  // MAP_THREADS: arrays of a thread lie in shared memory, and loops over them are not unrolled
  bool looped;
  bool tf32;        // GPU: a product of f32 operands is one product in tf32
  bool warpgroups;  // GPU: warpgroups make products of 16-bit elements (wgmma.c)
  int threads;      // MAP_BLOCK: threads of a block
  int shared_kib;   // GPU: KiB of shared memory that a block may have
  int width;        // elements in a machine vector
  bool pairs;       // host: products may round their operands to bf16, as on a GPU
  axis_set instance;
  axis_set tiled;        // GPU: tile axes of which the programs have one value-axis tile
  int lane_axis, lanes;  // `lanes` entries of the lane axis are computed together; -1: none
  // the loop over chunks encloses the loop over instances: shared values are computed once
  bool chunks_outside;
  // chunks_outside: instances along this axis follow each other (plan_is_shared); else -1
  int shared_axis;
  int rank[PLAN_MAX_AXES];  // order of axes in memory: the highest rank is contiguous
} mapping;

typedef enum held {
  HELD_INLINE,  // computed at each use: leaves and index maps
  HELD_NEST,    // lives inside the body of its nest
  HELD_SCALAR,  // no tile axes: a variable of the function
  HELD_BUFFER
} held;

typedef enum region {
  REGION_PROLOGUE,
  REGION_SHARED,
  REGION_BODY,
  REGION_STEPS,  // step form: after the steps of a chunk (dense_products.c)
  REGION_EPILOGUE,
  REGION_COUNT
} region;

// A count that may depend on sizes known at run time: `factor` times the product of the sizes of
// these axes.
typedef struct extent {
  int64_t factor;
  axis_set sizes;
} extent;

// Which numbers of a line of shared memory trade places, by the number of the line (gpu/banks.c). A
// line is a row of 32 numbers or more, or 32 numbers.
typedef enum plan_pattern {
  PATTERN_PLAIN,
  PATTERN_PIECES,            // 16 bytes, by 8 lines
  PATTERN_LINES,             // 8 numbers, by 4 lines
  PATTERN_PAIRS,             // 8 numbers, by 4 pairs of lines
  PATTERN_GRAY,              // 8 numbers, by 4 lines and by 4 pairs of lines
  PATTERN_MATRICES,          // the same, and 4 numbers by 2 groups of 4 lines
  PATTERN_GROUPS,            // 8 numbers, by 4 groups of lines
  PATTERN_LINES_AND_GROUPS,  // both
  PATTERN_GRAY_AND_GROUPS,
  PATTERN_COUNT
} plan_pattern;

typedef struct plan_layout {
  plan_pattern pattern;
  int line;   // bits of the numbers of a line
  int group;  // bits of the lines of a group
} plan_layout;

// An array over tile axes. With `lane`, each element is a vector of `lanes` entries.
typedef struct plan_buffer {
  int axis_count;
  int axes[PLAN_MAX_AXES];       // outermost first
  extent stride[PLAN_MAX_AXES];  // by axis, in numbers
  extent numbers;                // of the whole array
  bool lane;
  bool stack;       // small: in the function's frame, so that LLVM can keep it in registers
  bool persistent;  // lives through all runs of an instance
  bool kept;        // steps: the buffer has a row for every step of a chunk
  bool gathered;    // persistent: a product over all steps of a chunk is added once a chunk
  // GPU: a 16-bit type if only products read it; NUMBER_F64: values in f64; else as computed
  number_type stored;
  bool wgmma_layout;   // GPU: it lies as warpgroup products read it
  bool by_vectors;     // GPU: products of a matrix and vectors alone read it (gpu/matrix_vector.c)
  plan_layout layout;  // GPU: where its numbers lie in shared memory; 16 bits: plan_layout_of_rows
  int carried;         // the carried value whose memory it is; -1: it has its own
  int first, last;     // nests between which it is alive
  // in the scratch of plan.scratch with the same sizes, in units of their product
  int64_t offset;
} plan_buffer;

typedef struct plan_value {
  bool needed;
  axis_set tile;   // its tile axes
  axis_set space;  // tile axes of its computation
  // cut axes along which instances differ; along other cut axes they have the same numbers
  axis_set own;
  bool lane;
  bool wide;  // computed in f64 (widen_angles.c)
  region region;
  held held;
  int nest;    // the nest that ends its computation; -1: none
  int start;   // the nest that begins it: an earlier one for a sum to which a product is added
  int buffer;  // -1: none
  // host, chunk form: the value is needed where this number is not 0, which is seldom, or where it is
  // 0; 0: always
  tile_id rare, usual;
  int uses;
  int first_read, last_read;  // ARGUMENT: nests that read it
  bool inlined;               // GPU: a cheap value that is computed at each use (recompute.c)
  bool zero_above;            // 0 where s > t
  // DOT: added to the buffer of this ADD, or subtracted for a SUB; NO_TILE
  tile_id into;
  // GPU, a sum in the nest of a product: a buffer for the partial sums of several warps; else -1
  int partial_sums;
  // ADD, SUB: the operand added in place, a DOT or joined and placed parts of one; NO_TILE
  tile_id dot;
} plan_value;

typedef enum nest_kind {
  NEST_POINTS,  // elementwise values and reductions over one space
  NEST_PACK,    // a copy of an operand with another axis contiguous
  NEST_DOT,
  NEST_SOLVE,
  NEST_PREFIX,
  NEST_SCAN,
  NEST_SEGMENT,
  NEST_SEGMENT_ADJOINT,
  NEST_FIRST_EXTREME
} nest_kind;

// DOT: c[i, j] = sum over k of a[i, k] * b[k, j], j contiguous in b and c, k and i any. Other axes
// are loops around it. i is -1 where a is one row; on a GPU b is then a matrix of parameters. In
// REGION_STEPS the sum is over the steps of a chunk: k is -1 on the host, plan.steps on a GPU.
// SOLVE: the matrix a, the right side b, and j, a column axis contiguous in the result, or -1.
typedef struct plan_dot {
  tile_id a, b;
  int pack_a, pack_b;  // buffers of copies, or -1
  int pack_c;  // host: a buffer with j contiguous, where the result is made that has it not; -1
  int i, j, k;
  bool along;  // DOT: k is contiguous in a and b, and j in c alone
  bool pairs;  // host, DOT: operands are rounded to bf16, two of the depth are multiplied at once
  // GPU, DOT: warpgroups make it; known when memory has places (kernel/gpu/accesses.c)
  bool wgmma;
  // GPU, DOT: b, a matrix of parameters, stays in registers for all steps (gpu/matrix_vector.c)
  bool held_b;
} plan_dot;

// MAP_BLOCK, POINTS, SEGMENT and its adjoint: how the threads of a block divide a nest
// (gpu/threads.c). All 0: not a nest of these.
typedef struct plan_threads {
  // of a warp, which share the sums of a point; 1: each point has a thread; PLAN_ALL_THREADS: a
  // single point
  int lanes;
  bool apart;  // these lanes are not neighbours: neighbouring lanes have neighbouring points
  // of lanes that are apart: neighbours have rows 4 apart, so that they read different banks
  // (plan_far_row)
  bool far;
  // above 1: neighbouring groups of `lanes` take their turns in so many orders, and so read other
  // banks
  int orders;
  int vector;  // the axis of which a thread takes `width` neighbours at once; width 1: none
  int width;
  int warps;  // SEGMENT with levels: for each column, one for all levels or one for each
  // the warp that has the first of the points or columns, where nests beside this one leave warps
  // without work
  int begin;
  int steps;  // SEGMENT_ADJOINT: that a warp makes of a column; 0: each thread makes a step
} plan_threads;

enum { PLAN_ALL_THREADS = -1 };

typedef struct plan_nest {
  nest_kind kind;
  region region;
  axis_set axes, over;
  bool lane;
  bool wide;  // POINTS: of values in f64
  // POINTS, host: sums over t of what is 0 but at one step, which is so many before the steps of a
  // chunk end; 0: others
  int at_end;
  // where its values are needed, as in plan_value: elsewhere the nest does not run
  tile_id rare, usual;
  int instructions;  // an estimate: it keeps nests small enough for one function
  plan_threads threads;
  bool beside;  // GPU: no barrier stands between it and the nest before (gpu/intervals.c)
  // GPU, DOT: after the product, the sum that initialises it, or values that continue with it
  VEC(tile_id) values;
  VEC(int) results;  // of the program, stored at each point
  plan_dot dot;
  bool two;  // GPU, DOT: the sum of this product and `other`, which is made first
  tile_id other;
  plan_dot other_dot;
  // `two`: the product of the other and a factor, to which this one is added; NO_TILE
  tile_id scaled;
  tile_id packed;  // PACK: the value, and its copy
  int pack;
} plan_nest;

typedef struct carried_pair {
  int argument, result;  // of the program, or -1
  bool in_place;
  int accumulator;     // GPU: the nest of the product in whose accumulator the state stays; else -1
  bool has_copy;       // other products read the state: shared memory has a copy
  bool wgmma_layout;   // GPU: the copy lies as warpgroup products read it
  plan_layout layout;  // GPU: of the state itself
  // a buffer for a next state that is not made in place, nor copied from a buffer; else -1
  int staging;
} carried_pair;

typedef struct plan {
  const tile_program *program;  // with sums over tile axes that results lack written out
  plan_value *values;
  VEC(plan_nest) nests;  // in order, by region
  VEC(plan_buffer) buffers;
  int steps;              // GPU: the axis of products over the steps of a chunk; -1: there are none
  carried_pair *carried;  // by the kernel's carried values
  int carried_count;
  bool *wgmma_layout;  // GPU, by argument: its rows lie as warpgroup products read them
  // GPU: products of a chunk; those that warpgroups make, or may make before memory has places
  int products, wgmma_products;
  // numbers, without persistent buffers: one entry for each set of run-time sizes
  VEC(extent) scratch;
} plan;

// Memory that lives from run to run: a state (forward) or the cotangent of one (backward).
typedef struct carried_value {
  tile_place place;  // axes, tensor, lag, slot, component
  plan_buffer memory;
} carried_value;

typedef VEC(carried_value) carried_list;

int64_t plan_axis_size(const tile_program *program,
                       int axis);  // TILE_RUNTIME_SIZE: at run time
axis_set plan_tile_axes(const mapping *m, axis_set axes);
bool plan_has_lane(const mapping *m, axis_set axes);
// The axes along which instances have elements of their own in the memory of a place: the axes of
// the tensor. A cotangent also has those that it is partial over.
axis_set plan_own_axes(const tile_place *place);
// chunks_outside: whether instances that follow each other hold the same numbers, if these are
// their own along `own`.
bool plan_is_shared(const mapping *m, axis_set own);
axis_set plan_buffer_axes(const plan_buffer *b);
plan_buffer plan_buffer_for(const mapping *m, const tile_program *program, axis_set axes, bool lane,
                            int last_axis);
// Its numbers of 32 bits (f64: of 64).
extent plan_words(const plan_buffer *b);
// Words from the row that a step keeps to the row of the next step.
extent plan_words_of_kept_row(const plan *p, const plan_buffer *b, bool in_shared);
// Whether two places name the same state memory.
bool plan_same_state(const tile_place *x, const tile_place *y);
carried_list plan_carried(arena *a, const mapping *m, const tile_program *program, bool backward);
plan *plan_program(arena *a, const mapping *m, const tile_program *program,
                   const carried_list *carried);
// The same, verified after each pass.
plan *plan_program_checked(arena *a, const mapping *m, const tile_program *program,
                           const carried_list *carried);
// facts.c: is an operation computed at each use, whatever it is of? Is a result a state of the next
// run?
bool plan_is_inline(tile_op op);
bool plan_is_carried_role(tile_role role);
// Whether a value is computed at each use.
bool plan_at_hand(const plan *p, tile_id id);
// The value that is this argument; NO_TILE if the program does not read it.
tile_id plan_argument_value(const plan *p, int argument);
// Whether a value is read, and whether at another point than its own.
typedef struct plan_reading {
  bool reads, moved;
} plan_reading;
// How a nest reads the value; how `from` does, which is computed where it is used. `id` NO_TILE:
// nothing reads it.
plan_reading plan_reading_by_nest(const plan *p, const plan_nest *nest, tile_id id);
plan_reading plan_reading_below(const plan *p, tile_id from, tile_id id);
// GPU: the sum whose first operand is in the accumulator of the nest's products before them, where
// the nest lists it; NO_TILE.
tile_id plan_begun_sum(const plan *p, const plan_nest *nest);
// The operand that a sum begins as, before its product (plan_value.dot) is added in place.
static inline tile_id plan_begins_as(const plan *p, tile_id sum) {
  const tile_value *v = tile_at(p->program, sum);
  return v->args[v->args[0] == p->values[sum].dot];
}
// decayed_sums.c: the factor, where a sum is made in the memory of a state and its first operand is
// a product of that state and a factor; NO_TILE.
tile_id plan_state_factor(const plan *p, tile_id sum);
// Products on tensor cores read the argument, and round it to 16 bits.
bool plan_narrows_argument(const mapping *m, const plan *p, int argument);
// gpu/banks.c: the layout of rows of so many numbers of 16 bits, whatever reads them.
plan_layout plan_layout_of_rows(number_type stored, int64_t row);
// A pattern: an offset, in numbers, is xored with bits of its own, shifted down.
enum { PLAN_MOST_SWAPS = 3 };
typedef struct plan_swap {
  int down;
  int64_t bits;
} plan_swap;
// Returns how many there are.
int plan_swaps_of(plan_layout layout, number_type stored, plan_swap swaps[PLAN_MOST_SWAPS]);
// Where the number at this offset lies.
int64_t plan_offset_in(plan_layout layout, number_type stored, int64_t offset);
// The wavefronts of an access of a warp: each lane reads or writes `bytes` from its address on.
// Lanes at -1 take no part.
enum { PLAN_BANKS = 32 };
int plan_wavefronts(const int64_t addresses[PLAN_BANKS], int bytes);
// Lanes take each eight rows in this order: 0, 4, 2, 6, 1, 5, 3, 7. It suits the swizzles of
// gpu/banks.c.
enum { PLAN_FAR_ROWS = 8 };
int64_t plan_far_row(int64_t row);
// Does wgmma's layout, in tiles of PLAN_TILE_COLUMNS columns, suit `rows` rows of `row` elements?
enum { PLAN_TILE_COLUMNS = 64 };
bool plan_is_in_tiles(int64_t row, int64_t rows);
// Whether all these axes have compile-time sizes.
bool plan_sized(const tile_program *program, axis_set axes);
// Axes in the order of memory: the last one is contiguous.
typedef struct axis_list {
  int count;
  int axes[PLAN_MAX_AXES];
} axis_list;
axis_list plan_by_rank(const mapping *m, const tile_program *program, axis_set axes);
// GPU: how many neighbours along an axis of this size a thread takes at once of `count` numbers,
// while all threads have some.
int plan_numbers_at_once(int64_t size, int64_t count, int threads);
// The number of points over all these axes; -1: a size is known at run time only.
int64_t plan_entries(const tile_program *program, axis_set axes);
// The axis along which the value at hand lies contiguously in memory, or -1.
int plan_contiguous_axis(const mapping *m, const plan *p, tile_id id);
bool plan_viewable(const mapping *m, const plan *p, tile_id id);
// The DOT under an ADD's operand that is added in place: below joins, places and renames, which say
// where it goes.
tile_id plan_product_of(const tile_program *program, tile_id operand);
// The buffer that a next state is copied from, perhaps under other names of its axes; -1: its
// numbers are computed.
int plan_copied_buffer(const plan *p, tile_id id);
// The axes that a product's kernel goes through; others are loops around it.
axis_set plan_inner_axes(const plan_dot *dot);
// The value under index maps.
tile_id plan_root(const tile_program *program, tile_id id);
// The row that each step keeps of an operand: a buffer, or in the layout of saved states and
// stashes.
plan_buffer plan_kept_row(const mapping *m, const plan *p, tile_id id, int pack);
// gpu/matrix_vector.c: how the threads of a block divide a matrix of parameters times one vector or
// a few.
enum { GPU_MATRIX_VECTORS = 4 };  // at most
typedef struct matrix_vector {
  axis_set rows, depth, around;  // of the result; summed; loops around it
  int vectors,
      // entries of an axis that the matrix lacks, which share each load of the matrix; 1, -1: the
      // matrix has all axes
      vector_axis;
  int last;          // the contiguous axis of the matrix
  bool along;        // `last` is the summed axis
  int width;         // numbers along `last` that a thread loads at once
  bool fours_apart;  // of these, two fours of columns
  int64_t lanes;     // along: lanes of a warp for each row
  // across: threads among which the sum of a column is split (split-K); of these, so many in a warp
  int64_t splits, in_warp;
  bool mma;  // on tensor cores: `splits` are warps, and a warp has 16 rows at a time
} matrix_vector;
// May a copy of a matrix of parameters of these rows, summed axes and contiguous axis be multiplied
// on tensor cores?
bool plan_suits_vectors_by_mma(const mapping *m, const tile_program *program, axis_set rows,
                               axis_set depth, int last);
// Do lanes read two fours of numbers of the matrix at once that lie PLAN_FOURS_APART columns apart?
enum { PLAN_FOURS_APART = 32 };
bool plan_has_fours_apart(const tile_program *program, const plan_buffer *b);
matrix_vector plan_matrix_vector(const mapping *m, const plan *p, tile_id id, const plan_dot *dot);
// Elements of shared memory for partial sums of the product, or 0.
int64_t plan_matrix_sums(const mapping *m, const plan *p, tile_id id, const plan_dot *dot);
// Registers of a thread that a matrix of parameters would take, multiplied on tensor cores; 0: it
// cannot be, or takes too many.
int64_t plan_matrix_registers(const mapping *m, const plan *p, tile_id id, const plan_dot *dot);
// Whether value number `index` of the nest reads the memory of the operand itself, and no copy.
bool plan_reads_itself(const plan_nest *nest, int index, tile_id operand);
// dense_products.c: whether single steps multiply by a matrix of parameters, outside the lanes.
bool plan_multiplies_parameters(arena *a, const mapping *m, const tile_program *program);
// What has been decided. Each pass in plan.c names the stage that a plan has reached after it.
typedef enum plan_stage {
  PLAN_PROGRAM,  // the program, and no plan yet
  PLAN_VALUES,   // regions and tiles of values
  PLAN_ORDERED,  // which values are needed
  PLAN_NESTS,
  PLAN_RESULTS,  // each in a nest
  PLAN_SORTED,   // nests by region
  PLAN_HELD,     // where values are held
  PLAN_STATES,   // which states are updated in place
  PLAN_THREADS,  // which threads have which points; on the host there is nothing to decide
  PLAN_LIVES,
  PLAN_PLACED
} plan_stage;

// A pass of plan.c by its name.
plan_stage plan_stage_after(const char *pass);
// The list of passes in plan.c.
extern const pass_stage plan_pass_stage;
// plan/verify.c: NULL, or what is wrong with a plan after this pass, and where.
const char *plan_verify(arena *a, const mapping *m, const plan *p, const char *pass);

// A lane has so many steps of a SEGMENT at most.
enum { GPU_MOST_STEPS_OF_LANE = 4 };
// gpu/levels.c: levels of a SEGMENT that is added up where it is read; 0: it lies in memory as it is.
int plan_levels_of(const mapping *m, const tile_program *program, tile_id id);
// The distance of levels of so many numbers.
int64_t plan_level_apart(int64_t numbers);
// Where a buffer or a state lies.
typedef struct plan_place {
  const char *space;      // plan_shared, ..; NULL: nowhere
  int64_t offset, bytes;  // an offset of -1: it has none
} plan_place;

extern const char plan_shared[], plan_scratch[], plan_instance[], plan_stack[], plan_registers[];

// By buffer, and by carried value.
typedef struct plan_places {
  plan_place *buffers, *states;
} plan_places;

// NULL, or which buffers lie over each other while both are alive.
const char *plan_verify_places(arena *a, const plan *p, const plan_place *buffers);
// plan/print.c: a line for each nest, state and buffer. `at` NULL: they have no places yet.
// The word for a kind of nests.
const char *plan_nest_text(nest_kind kind);
// A line of it: one nest.
char *plan_print_nest(arena *a, const mapping *m, const plan *p, int n);
char *plan_print(arena *a, const mapping *m, const plan *p, const carried_list *states,
                 const plan_places *at);
