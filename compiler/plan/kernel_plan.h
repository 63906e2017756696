// The plan of a kernel, for one clone or for GPUs. It says how axes are mapped, holds the plans of
// the programs, and places states, buffers and rows of tokens in memory. kernel/ lowers it as it
// is.
//
// The files of plan/kernel/ make it. Each section of functions names its file.
#pragma once

#include "compiler/abi/gpu_frame.h"
#include "compiler/base/ice.h"
#include "compiler/plan/gpu/accesses.h"
#include "compiler/plan/kernel/description.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/tensor_cores.h"

// A place in scratch: `offset` elements from the start, or in the block of run-time size number
// `sized`.
typedef struct location {
  int64_t offset;  // -1: on the stack
  int sized;       // position in kernel_plan.sized; -1: none; LOCATION_OF_INSTANCE
  bool in_shared;  // GPU: in shared memory instead
} location;

// Of `sized`: in the scratch of an instance, where offsets begin at 0.
enum { LOCATION_OF_INSTANCE = -2 };

typedef struct staging_buffer {
  location at, ahead;  // its memory; GPU: the other half of a double buffer (offset -1: none)
  int64_t row;         // elements of a row
  int64_t stride[PLAN_MAX_AXES];
} staging_buffer;

// The plan of a program of the kernel (its program, or the recomputation of the steps of a chunk),
// and its memory.
typedef struct program_plan {
  const tile_program *program;
  plan *p;
  carried_list carried;
  bool backward;
  location *scratch;                     // where its buffers begin, as plan.scratch
  location *carried_at, *persistent_at;  // by carried value, by buffer
  location *buffer_at;                   // GPU: by buffer
  location *kept_at;                     // by buffer: of those with a row for every step of a chunk
  // by argument: states before each step of the chunk, or each chunk of the group
  plan_buffer *history;
  location *history_at;
  staging_buffer *staging_buffers;  // by argument
} program_plan;

typedef struct kernel_plan {
  arena *a;
  const kernel *k;
  const codegen_kernel *described;
  mapping m;
  // the program, and the one that computes the states of a chunk again
  program_plan main, recompute;
  bool recomputes;
  // host: what all panels of lanes share, made once for the steps of a chunk (host/panels.c); 0
  // panels of an instance: the program has it
  program_plan common;
  int panels;
  // host: the sums that open the first step (host/openings.c), which the program reads as stashes
  // from `first_opening` on; no program: it has them
  program_plan opening;
  int first_opening;
  int64_t shared_numbers, instance_numbers;  // elements of scratch: of the call, of each instance
  // step form: blocks of scratch whose size is known at run time
  VEC(extent) sized;
  location *stash_at;  // by stash
  plan_buffer *stashes;
  int stash_count;
  // for several sequences in one pass over time, in the same function; NULL: there is none
  const struct kernel_plan *batched;
  // host: for the last lanes of an axis, one by one; NULL: none are left, or a mask hides them
  const struct kernel_plan *one_lane;
  // Memory for so many elements, until the kernel ends: scratch of the call; GPU: shared memory
  // while there is some.
  location (*take)(struct kernel_plan *w, int64_t numbers);
  int64_t copies;  // of memory of run-time size: one for each thread that shares nothing
  // GPU: value-axis tiles whose memory the scratch of a call has; 0: it has that of the instances
  int64_t value_tiles;

  // GPU
  int threads;                         // of a block
  int64_t shared_words, shared_limit;  // elements of shared memory: taken, and at most
  int64_t history;                     // elements of scratch for the states before each chunk
  int64_t sums;                        // where in shared memory results are summed over threads
  // register pressure: each thread holds states in registers, and no sums or prologue values
  bool register_pressure;
  location combined_at;  // the states before a time slice while summaries are combined
  bool in_tiles;         // value-axis tiles, one after another within a group of chunks
  location *spill_at;    // in_tiles, by carried value: where it lies between tiles
  // in_tiles, by result of the main program: where tiles sum it; offset -1: they do not
  location *sums_at;
  // in_tiles, elements of scratch: states between groups, sums within a group
  int64_t spill_elements, tile_sums;
} kernel_plan;

// batched.c: the kernel for several sequences in one pass over time; NULL: it would gain nothing.
const kernel *kernel_batched(arena *a, const kernel *k, bool gpu);

// slots.c
// Slots and flags of a kernel, the same for all clones.
codegen_kernel kernel_describe(arena *a, const kernel *k);
bool kernel_in_memory(const kernel *k, const tile_place *place);
int kernel_find_slot(const codegen_kernel *k, tile_role role, const tile_place *place);
bool kernel_stores_narrow(const mapping *m, const tile_place *place);
bool kernel_is_complex(const kernel *k, const tile_place *place);
// The axes that are cut into instances; with the axis in the lanes.
axis_set kernel_instances(const kernel *k);
axis_set kernel_grid_of(const kernel *k);
// Chunk form: does the place lie where forward has saved it?
bool kernel_is_saved(bool backward, const tile_place *place);
// Backward: reads the states before, or values saved for them.
bool kernel_reads_saved(const kernel *k);
// In what is saved, the order of these axes of a state, lag buffer or kept value (with time): the
// last one is contiguous.
axis_list kernel_saved_order(const mapping *m, axis_set axes);
int64_t kernel_parts_of_lag(const typed_lag *lag);
// Chunk form: the place of stash `number`, kept by the forward and read by the backward; NULL if
// there are fewer.
const tile_place *kernel_kept_value(const kernel *k, int number);

// mapping.c
// Is it the axis of sequences side by side, the outermost of all?
bool kernel_is_of_sequences(const kernel *k, int axis);
bool kernel_is_long(const kernel *k);
mapping kernel_mapping_of(const kernel *k, codegen_clone clone, number_type dtype);
// gpu/mapping.c: axes of which a program has one value-axis tile.
axis_set kernel_tiled_axes(const kernel *k);
void kernel_map_to_threads(mapping *m);

// A kernel that is mapped, and not planned yet: the one that is described, or the one for several
// sequences in its function.
kernel_plan kernel_plan_for(arena *a, const codegen_kernel *described, const kernel *k,
                            codegen_clone clone, number_type dtype);
// The passes over whole kernels.
enum {
  KERNEL_PASS_BATCHED,   // batched.c: another kernel, for several sequences
  KERNEL_PASS_PANELS,    // host/panels.c: values that panels of lanes share
  KERNEL_PASS_OPENINGS,  // host/openings.c: sums that open a step, in the step before
  // host_plan_make, which runs the passes of plan.c and places what they leave
  KERNEL_PASS_HOST,
  KERNEL_PASS_GPU,  // gpu_plan_make, likewise
  KERNEL_PASSES
};
extern const pass_stage kernel_stage;

// Plans the programs of a kernel and places what they need (host/memory.c, gpu/memory.c).
void host_plan_make(kernel_plan *w);
void gpu_plan_make(kernel_plan *w);

// host/kernel.c
// What a host kernel carries (kernel.plan): the plans of its function.
typedef struct host_plan {
  number_type dtype;
  // of the kernel that was planned, the first with its symbol
  codegen_kernel described;
  const kernel_plan *clones[CLONE_COUNT];  // NULL: not asked for
} host_plan;
// The plans that the kernel carries, or those made for these clones (bits 1 << CLONE_..).
const host_plan *host_plan_of(arena *a, const kernel *k, unsigned clones, number_type dtype);
// Gives each kernel its plans. Kernels with the same symbol are one function, and share them.
void host_plan_kernels(arena *a, kernel *kernels, int count, unsigned clones, number_type dtype);
// Are there lanes behind the last whole vector of them?
bool host_has_rest(const kernel_plan *w);
// host/panels.c: takes what panels of lanes share out of the program, where that gains.
void host_share_between_panels(kernel_plan *w, codegen_clone clone);
// host/openings.c: takes the sums that open a step in the step before, where the schedule lets it.
void host_open_ahead(kernel_plan *w);

// text.c: a bug in the compiler if buffers lie over each other while both are alive.
void kernel_verify_places(const kernel_plan *w);
char *kernel_plan_text(arena *a, const kernel_plan *w);

// place.c
// Scratch of the call; of each instance; of the call, in an amount that may be known at run time
// alone.
location kernel_take_scratch(kernel_plan *w, int64_t numbers);
location kernel_take_of_instance(kernel_plan *w, int64_t numbers);
location kernel_take_extent(kernel_plan *w, extent numbers, int64_t times);
void kernel_plan_program(kernel_plan *w, program_plan *p, const tile_program *program,
                         bool backward);
typedef location buffer_placer(kernel_plan *w, const plan_buffer *b);
// Buffers that live from run to run.
void kernel_place_persistent(kernel_plan *w, program_plan *p, buffer_placer *place);
// Copies of the rows of a chunk.
void kernel_place_staging(kernel_plan *w, program_plan *p);
// The states before each step of a chunk, or before each chunk of a group.
void kernel_place_history(kernel_plan *w, program_plan *p);
// The values that recomputed steps hand to backward.
void kernel_place_stashes(kernel_plan *w);
// Buffers with a row for every step of a chunk.
void kernel_place_kept(kernel_plan *w, program_plan *p);
codegen_bytes kernel_bytes_of(arena *a, const kernel_plan *w);

// gpu/memory.c
// Shared memory while there is some, else scratch. Where threads share nothing, each thread has its
// own elements.
location gpu_take(kernel_plan *w, int64_t numbers);
// From `at` on the first place in shared memory where so many words may begin.
int64_t gpu_shared_place(const kernel_plan *w, int64_t at, int64_t words);

// gpu/summaries.c: time slices.
bool gpu_makes_summaries(const kernel *k);
// The program that makes slice summaries: the kernel's own, or `summary`; NULL: time is not cut.
const tile_program *gpu_summary_program(const kernel *k);
// Elements of a slice summary: states at its end, and its transition.
codegen_bytes gpu_summary_numbers(arena *a, const kernel *k);
// The state transition of a summary is a matrix for states that mix their entries. Has the summary
// columns of this state? Transition blocks of KERNEL_SUMMARY; elements of a row of the matrix.
bool gpu_is_column(const kernel *k, const tile_place *state);
int gpu_transition_blocks(const kernel *k);
int64_t gpu_row_numbers(const kernel *k);
void gpu_place_columns(kernel_plan *w);
// A mark says that a slice must not be combined. The axes along which instances have marks; the
// most marks of an instance; the elements of kernel_plan.sums, one of each warp, by which a block
// reads them.
axis_set gpu_overflow_axes(const kernel *k);
int64_t gpu_most_blocks(const kernel *k);
int64_t gpu_overflow_sums(const kernel_plan *w);

// gpu/value_tiles.c: an instance whose chunks are computed in passes over value-axis tiles.
bool gpu_has_value_tiles(const kernel *k);
// The heads that a block computes one after another; these times the tiles of the part axis.
int gpu_heads_in_turn(const kernel *k);
int64_t gpu_most_value_tiles(const kernel *k);
// How many tiles of the part axis there are.
int64_t gpu_tiles_of(const kernel *k);
// The axes that passes go along; the entries of an axis in all passes.
axis_set gpu_value_tile_axes(const kernel *k);
int64_t gpu_whole_size(const kernel_plan *w, int axis);
void gpu_place_value_tiles(kernel_plan *w);

// gpu/staging.c: rows of a chunk in shared memory.
// Double buffers, where shared memory is left.
void gpu_place_ahead(kernel_plan *w);

// gpu/accesses.c: where the memory of a program has places. While it has none (w NULL),
// they are guessed (../gpu/accesses.c).
typedef struct placed_program {
  const mapping *m;
  const plan *p;
  int threads;  // of a block
  const kernel_plan *w;
  const program_plan *of;
} placed_program;
placed_program gpu_placed(const kernel_plan *w, const program_plan *of);
// Is the argument staged, rather than read where forward saved it?
bool gpu_is_staged(const program_plan *p, int argument);
// Of a buffer; of a tensor as the caller has it; of a value below index maps; of an operand of a
// product, or its copy.
plan_access gpu_access_of_buffer(const placed_program *p, int buffer);
plan_access gpu_access_of_tensor(const placed_program *p, const tile_place *place);
plan_access gpu_access_of(const placed_program *p, tile_id id, const plan_index_map *maps);
plan_access gpu_access_of_operand(const placed_program *p, tile_id id, int pack);
// Marks and counts the products that warpgroups make.
void gpu_mark_products(const kernel_plan *w, const program_plan *of);

// gpu/step_rows.c: threads by themselves, whose tokens come a chunk ahead.
void gpu_place_steps(kernel_plan *w);
bool gpu_is_step_ahead(const program_plan *p, int argument);
// Whether the program copies these rows itself: backward, the steps that are computed again read
// the rows of the steps back.
bool gpu_copies_step(const kernel_plan *w, const program_plan *p, int argument);
typedef struct row_shape {
  axis_set axes;
  int64_t numbers;    // of a thread, or of all if the row has no lane axis; 0: not known
  bool lane, narrow;  // narrow: elements of 16 bits in shared memory
} row_shape;
row_shape gpu_row_shape(const kernel_plan *w, const program_plan *p, int argument);
// Elements of shared memory of a row.
int64_t gpu_numbers_of_row(const kernel_plan *w, row_shape s);

// gpu/kernel.c
// What a kernel carries (kernel.gpu.plan): its plan, and what that says to others.
typedef struct gpu_plan {
  arena *memory;  // of the plan and of this; NULL: it belongs to another arena
  int users;      // kernels that carry it: those of one function, in all lists of the schedule
  kernel k;       // as it was planned: later its symbol may change, and the devices that it is for
  codegen_gpu_options options;
  codegen_kernel slots;
  kernel_plan *whole;
  codegen_gpu_kernel described;
} gpu_plan;
// A plan in an arena of its own.
gpu_plan *gpu_plan_new(const kernel *k, codegen_gpu_options options);
// Kernels that have no plan yet get one; all plans become part of the arena.
void gpu_plan_kernels(arena *a, kernel *kernels, int count, codegen_gpu_options options);
// For one more kernel.
gpu_plan *gpu_plan_share(gpu_plan *made);
// A kernel no longer carries it. The last one frees a plan that is not part of another arena.
void gpu_plan_free(gpu_plan *made);
// The plan that the kernel carries, or one made for these options.
const gpu_plan *gpu_plan_of(arena *a, const kernel *k, codegen_gpu_options options);
