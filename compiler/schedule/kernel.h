// Kernels: tile programs with a mapping to loops, lanes and tasks.
//
// schedule_recurrence chooses, per recurrence, from sizes, structure and a cost model: step or chunk form and chunk
// length; which grid axes become instances; which axis lies in the SIMD lanes. The same kernel is lowered to every
// host clone (lane width is the clone's). Codegen makes of each kernel one function
//
//   void SYMBOL(const rec_frame *frame, int64_t batch, int64_t first, int64_t last, void *scratch)
//
// (runtime/shared/frame.h) that runs the instances first..last-1 of one batch entry over the whole time range.
#ifndef REC_SCHEDULE_KERNEL_H
#define REC_SCHEDULE_KERNEL_H

#include "compiler/chunk/chunk.h"

typedef enum kernel_kind {
  KERNEL_FORWARD,   // outputs, final states; chunk-start states, and TILE_KEEP in chunk form, into `saved` if asked for
  KERNEL_STEP,      // one step (the step program, time == 1)
  KERNEL_STATES,    // the saved values alone, where backward must recompute them
  KERNEL_BACKWARD,  // all gradients, chunks in reverse, from chunk-start states
  KERNEL_CARRY,     // the states alone, without increments; only where time may be cut (chunk_build_carry)
  KERNEL_PART,      // GPU, where time may be cut: the summary of each time slice, from zero states (tile_transfer). In chunk
                    // form the function of STATES
  KERNEL_PART_BACK  // the same for cotangents, before BACKWARD
} kernel_kind;

// GPU: how a kernel uses lane_axis.
typedef enum kernel_lanes {
  LANES_OWN,    // the host's lanes; threads that have an entry each
  LANES_TILE,   // a tile of lane_block entries, which the threads of a block share out
  LANES_PASSES  // entries that a block of threads goes through one after another, in every group of chunks
} kernel_lanes;

// GPU: the devices that a kernel is for, by the shared memory that a thread block of them may have.
typedef enum kernel_room {
  ROOM_ANY,        // one form for all
  ROOM_SMALL = 1,  // where it is not enough for the form with ROOM_LARGE
  ROOM_LARGE = 2,
  ROOM_GROUPS = 4  // as large, and with products by warpgroups; a sum of these: one form for both
} kernel_room;

typedef struct kernel {
  kernel_kind kind;
  const recurrence *recurrence;   // whose tensors and axes the program's places name
  const char *symbol;             // without the clone's suffix
  const tile_program *program;    // FORWARD, STEP, STATES: forward program; BACKWARD: backward program
  const tile_program *recompute;  // BACKWARD in step form: the steps of one chunk again (tile_gradient); in chunk form
                                  // the states alone, where fewer are saved than there are chunks
  int chunk;                      // steps between saved states, in step form too
  int grid_count;                 // instances: grid axes in nest order, outermost first
  int grid_axes[TYPED_MAX_AXES];  // instance number = ((i0 * size1 + i1) * size2 + ..), lane blocks last
  int lane_axis;                  // grid axis that lies in the lanes, or -1 (then each operation takes its own)
  int lane_block;                 // entries of the lane axis in one instance (a multiple of every clone's width); 1
                                  // without a lane axis
  kernel_lanes lanes;
  const tile_program *ends;  // FORWARD, BACKWARD: time slices start from the summaries that this program of KERNEL_PART,
                             // KERNEL_PART_BACK makes; NULL: time is not cut
  int columns, column_axis;  // states that mix their entries (tile/columns.c): the numbers of a column along this axis, in an
                             // instance. PART, PART_BACK run that many columns of the identity, too; kernels with `ends`
                             // multiply. 0: there are none
  bool behind;  // cotangents of earlier steps: a part of BACKWARD begins with the `chunk` steps behind its own, for
                // no results; the parts of PART_BACK begin and end so many steps later
  const tile_program *states;  // BACKWARD: without what forward saved, parts of time make their states themselves, each from
                               // what this program of KERNEL_PART has left of those before it; NULL: they do not
  int states_columns, states_column_axis;  // of that program, as columns, column_axis
  const struct kernel *beside;  // PART, PART_BACK, and STATES where it is PART's function: one function has PART and PART_BACK,
                                // some thread blocks run one, some the other; NULL: it is alone (kernel/gpu/schedule.c)
  int join_steps,
      maker_percent;  // GPU, with `ends`: what a part before costs, in steps of a block, and what it costs to make that, in
                      // percent of the steps themselves (kernel/gpu/schedule.c)
  int sequences,
      sequences_axis;  // host: the programs have so many sequences along this axis of their own, which states and tokens
                       // have, too (codegen_kernel.together); 0: one, and no such axis
  axis_set cut;        // grid axes that may be cut, instances or not
  kernel_room room;
  bool groups;     // GPU: products may be made by warpgroups
  int threads;     // GPU, where a block of threads runs an instance: as many, or 0: as most kernels have
  int shared_kib;  // GPU: what a thread block may have; 0: as every device has it
  int part_axis,
      part_entries;  // GPU: a group of chunks is computed in passes over parts of this axis, of so many entries; 0: whole.
                     // Programs then know the axis by the size of a part, as they do with LANES_TILE
} kernel;

// Has the summary of a slice a factor of this state (by tensor)? If not, it has columns, or is relative to a maximum.
bool kernel_has_factor(const tile_program *ends, int tensor);
// Are these two states made of each other, entry by entry, or one of the other (tile_place.source)?
bool kernel_couples(const tile_program *ends, int tensor, int other);

// A form that the schedule looked at.
typedef struct schedule_alternative {
  const char *form;             // "step", "chunk"
  int chunk, saved_every;       // steps computed at once; steps between saved states
  double forward, backward;     // per step, in multiply-adds of a well filled product (cost.h)
  const tile_program *program;  // its forward
  tile_gradient gradient;
} schedule_alternative;

typedef struct recurrence_kernels {
  const recurrence *recurrence;
  VEC(kernel) kernels;   // FORWARD, STEP, STATES, BACKWARD, perhaps CARRY or PART, PART_BACK
  const char *whole[2];  // GPU: why forward, backward cannot be sliced in time; NULL: they can
  const char
      *whole_unsaved;  // GPU: why backward cannot be sliced in time when forward saved no states; NULL: it can, or needs none
  int chunk;
  const char *form;    // "step", "chunk", "pointwise", for report and manifest
  const char *why;     // one line for the report: what decided
  double spared;       // the share of backward's work that values in `saved` spare (save.h)
  bool steps_forward;  // form "chunk": FORWARD runs single steps nevertheless, which cost `fused_step`
  double fused_step;
  VEC(schedule_alternative) alternatives;
  double gpu_cost, gpu_forward;  // GPU: of a step forward and back (codegen_gpu_schedule); of that, forward
} recurrence_kernels;

typedef VEC(const kernel *) kernel_list;

// GPU: the kernels of a recurrence by room (kernel/gpu/rooms.c). `small` NULL: no target is a GPU.
typedef struct gpu_forms {
  recurrence_kernels *small;
  recurrence_kernels *large;   // for devices with more shared memory; NULL: as small
  recurrence_kernels *groups;  // for those whose warpgroups multiply; NULL: as large
} gpu_forms;

typedef enum schedule_form { FORM_CHOSEN, FORM_STEP, FORM_CHUNK, FORM_COUNT } schedule_form;
// "chosen", "step", "chunk"; FORM_COUNT if there is none.
const char *schedule_form_text(schedule_form form);
schedule_form schedule_form_find(const char *text);

typedef struct schedule_options {
  int chunk;           // 0: the model's choice
  schedule_form form;  // FORM_CHUNK: the chunk form wherever the structure allows it
  bool f64;
  bool gpu;  // kernels for GPU threads (see below)
} schedule_options;

// GPU: the same programs. Step form of small states: lane_axis is shared out among the threads of a block, lane_block of
// them. Otherwise the threads of a block run one instance together: no lane axis.

recurrence_kernels *schedule_recurrence(arena *arena, const recurrence *recurrence, schedule_options options);
// Axes that some tensor has. Another one is a number alone, such as a layer's place in the model: there are no instances
// along it.
axis_set schedule_tensor_axes(const typed_body *body);
// The first kernel of a kind, or NULL.
kernel *schedule_kernel(const recurrence_kernels *kernels, kernel_kind kind);

#endif
