// Kernels: tile programs with a mapping of their axes to loops, lanes and tasks. The schedule
// chooses them.
//
// A kernel is lowered once for every host clone, with the lane width of the clone. Each kernel
// becomes one function
//
//   void SYMBOL(const rec_frame *frame, int64_t batch, int64_t first, int64_t last, void *scratch)
//
// (compiler/abi/frame.h), which runs the instances first..last-1 of one batch entry over the
// whole time range.
#pragma once

#include "compiler/base/choice.h"
#include "compiler/chunk/chunk.h"

typedef enum kernel_kind {
  // outputs, final states; chunk-start states, and TILE_KEEP in chunk form, into `saved` if asked
  // for
  KERNEL_FORWARD,
  KERNEL_STEP,      // one step (the step program, time == 1)
  KERNEL_STATES,    // the saved values alone, where backward must recompute them
  KERNEL_BACKWARD,  // all gradients, chunks in reverse, from chunk-start states
  // what a segment or time slice makes of the states before it (tile_transfer); GPU: from zero
  KERNEL_SUMMARY,
  KERNEL_SUMMARY_BACK,  // the same for cotangents, before BACKWARD
  // host: FORWARD of a time slice, which reads the values that SUMMARY has kept of it
  KERNEL_SLICE
} kernel_kind;

static inline bool kernel_goes_back(kernel_kind kind) {
  return kind == KERNEL_BACKWARD || kind == KERNEL_SUMMARY_BACK;
}

static inline bool kernel_summarises(kernel_kind kind) {
  return kind == KERNEL_SUMMARY || kind == KERNEL_SUMMARY_BACK;
}

// GPU: how a kernel uses lane_axis.
typedef enum kernel_lanes {
  LANES_OWN,   // lanes of the host; GPU threads with an entry each
  LANES_TILE,  // a tile of lane_block entries, which the threads of a block divide
  // lane_block entries that a thread block computes one after another, in every group of chunks
  LANES_IN_TURN
} kernel_lanes;

// GPU: the devices that a kernel is for, by the shared memory of a thread block. A sum of classes:
// one form for both.
typedef enum device_class {
  CLASS_ANY,        // one form for all
  CLASS_SMALL = 1,  // devices without the memory of CLASS_LARGE
  CLASS_LARGE = 2,
  CLASS_WARPGROUPS = 4  // the memory of CLASS_LARGE, and products by wgmma
} device_class;

// What the schedule has chosen for a kernel of a GPU; of a host kernel all is 0.
typedef struct gpu_variant {
  device_class device_class;
  kernel_lanes lanes;
  bool warpgroups;  // products may be made by warpgroups
  int threads;      // of a block that runs an instance; 0: GPU_BLOCK_THREADS
  int shared_kib;   // KiB of shared memory that a block may have; 0: GPU_SMALL_KIB
  // KiB that the schedule grants a block, so that others run beside it; 0: shared_kib
  int beside_kib;
  // a block computes tiles of this axis one after another, in every group of chunks
  int value_axis;
  // entries of such a tile, and the size of the axis in the program, as with LANES_TILE; 0: the
  // axis is whole
  int value_entries;
  int combine_steps;    // with `summary`: the cost of combining one summary, in steps of a block
  int summary_percent;  // the cost of making the summaries, in percent of the steps themselves
  // FORWARD, BACKWARD: for calls with fewer instances than the device has multiprocessors
  bool few;
  // The same in chunks, modelled: cycles of 64 steps of a block by itself on a multiprocessor, and
  // as one of `blocks_each`
  int cycles_alone, cycles_each, blocks_each;
  // its plan (plan/kernel_plan.h), which is lowered as it is; NULL: it has none yet
  struct gpu_plan *plan;
} gpu_variant;

typedef struct kernel {
  kernel_kind kind;
  const recurrence *recurrence;  // whose tensors and axes the program's places name
  const char *symbol;            // without the clone's suffix
  // FORWARD, STEP, STATES: forward program; BACKWARD: backward program
  const tile_program *program;
  // BACKWARD in step form: the steps of one chunk again (tile_gradient); in chunk form
  // the states alone, where fewer are saved than there are chunks
  const tile_program *recompute;
  int chunk;       // steps between saved states, in step form too
  int grid_count;  // instances: grid axes in nest order, outermost first
  // instance number = ((i0 * size1 + i1) * size2 + ..), lane blocks last
  int grid_axes[TYPED_MAX_AXES];
  // grid axis that lies in the lanes, or -1 (then each operation takes its own)
  int lane_axis;
  // entries of the lane axis in one instance (a multiple of every clone's width); 1
  // without a lane axis
  int lane_block;
  // FORWARD, STATES, BACKWARD: time slices start from the summaries that this program of
  // KERNEL_SUMMARY, KERNEL_SUMMARY_BACK makes; NULL: time is not cut.
  const tile_program *summary;
  // States that mix their entries (tile/columns.c): the numbers of a column along this axis, in an
  // instance. SUMMARY and SUMMARY_BACK compute that many columns of the identity besides; kernels
  // with `summary` multiply by the matrix. 0: there is none.
  int transition_size, value_axis;
  // BACKWARD: a slice warms up on the `chunk` steps after its own, because their cotangents reach
  // it; those results are discarded. The slices of SUMMARY_BACK begin and end so many steps later.
  bool warms_up;
  // Host: SUMMARY, SUMMARY_BACK of a segment of time. It begins from the states that it is given,
  // and has memory for its transfer.
  bool segment;
  // of a segment with `transition_size`: axes of all such states, in which matrices differ
  axis_set transition_axes;
  // SUMMARY_BACK of a segment: the program whose values forward has saved, before its states
  const tile_program *saved_with;
  // Sequences that an instance computes at once: the programs have an axis of their own for them,
  // as states and tokens have (plan/kernel/batched.c). 0: one sequence, and no such axis.
  int sequences, sequences_axis;
  // host, step form: the calls have many steps, so that sums that open a step may be taken in the
  // step before
  bool opens;
  axis_set cut;  // grid axes that may be cut, instances or not
  // Do programs in chunks of the recurrence's kernels have products? The order of axes in memory
  // depends on it, and kernels read what others save.
  bool beside_products;
  // what its plan and its code are made without; NULL: nothing is left out
  const pass_names *without;
  // host: its plans (plan/kernel_plan.h), which are lowered as they are; NULL: it has none yet
  struct host_plan *plan;
  gpu_variant gpu;
} kernel;

// kernel/gpu/mapping.c: does the schedule give each thread of a GPU an entry of the lane axis? True
// for a kernel of the host whose lane axis lies in lanes.
bool kernel_has_own_lanes(const kernel *k);
// Does a block go through the entries of the lane axis one after another? False for the host.
bool kernel_takes_lanes_in_turn(const kernel *k);
// Has a slice summary a factor of this state (by tensor)? Otherwise it has columns of a matrix, or
// is relative to a maximum.
bool kernel_has_factor(const tile_program *ends, int tensor);
// Are these two states made of each other, entry by entry, or one of the other (tile_place.source)?
bool kernel_couples(const tile_program *ends, int tensor, int other);

// Host, chunk form: has a product no part of the innermost instances' axis, so that neighbours
// could share it?
bool kernel_shares_work(const kernel *k);

// What a transfer is before the first step. Of a logarithm it is 0.
double kernel_first_transfer(const tile_place *place);
// A running maximum.
bool kernel_is_maximum(const tile_place *place);
