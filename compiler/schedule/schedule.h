// The schedule: the kernels of a recurrence.
//
// schedule_recurrence chooses from sizes, structure and a cost model (README.md). It chooses step
// or chunk form, the chunk length, the axes that become instances, and the axis in the SIMD lanes.
#pragma once

#include "compiler/plan/kernel.h"
#include "compiler/schedule/cost.h"

// A form that the schedule looked at.
typedef struct schedule_alternative {
  const char *form;        // "step", "chunk"
  int chunk, saved_every;  // steps computed at once; steps between saved states
  axis_set instances;      // the axes that are cut
  // Per step; backward with the recompute of states, and with the states that it reads.
  cost_counts forward, backward;
  const tile_program *program;  // its forward
  tile_gradient gradient;
  // host: of groups of chunks between saved states, whose recompute keeps values; all NULL: no
  // groups
  tile_gradient grouped;
} schedule_alternative;

typedef struct recurrence_kernels {
  const recurrence *recurrence;
  VEC(kernel) kernels;  // FORWARD, STEP, STATES, BACKWARD, perhaps SUMMARY, SUMMARY_BACK, SLICE
  // why forward, backward have no summaries of stretches of time; NULL: they have
  const char *whole[2];
  bool summarises;         // host: --summary
  codegen_clone clone;     // by whose figures forms were compared
  double spacing;          // host: chunks whose saved states are closer were not compared
  int chunk;               // steps between saved states
  const char *form;        // "step", "chunk", "pointwise", for report and manifest
  const char *why;         // one line for the report: what decided
  double spared;           // the share of backward's work that values in `saved` spare (save.h)
  double spared_of_slice;  // the share of SLICE's work that values of SUMMARY spare; 0: no SLICE
  // form "chunk": FORWARD runs single steps nevertheless, which cost `fused_step`
  bool steps_forward;
  double fused_step;
  double cost;      // host: of a step forward and back
  double of_steps;  // form "chunk": the work of chunks, as a share of that of single steps
  VEC(schedule_alternative) alternatives;
  // GPU: of a step forward and back (codegen_gpu_schedule); of that, forward
  double gpu_cost, gpu_forward;
  // GPU: FORWARD and BACKWARD that cost least with all the memory of a multiprocessor to themselves
  kernel alone[2];
} recurrence_kernels;

typedef VEC(const kernel *) kernel_list;

// GPU: the kernels of a recurrence by device class (schedule/gpu/device_classes.c). `small` NULL:
// no target is a GPU.
typedef struct gpu_forms {
  recurrence_kernels *small;
  recurrence_kernels *large;       // for devices with more shared memory; NULL: as small
  recurrence_kernels *warpgroups;  // for those whose warpgroups multiply; NULL: as small
} gpu_forms;

typedef enum schedule_form { FORM_CHOSEN, FORM_STEP, FORM_CHUNK, FORM_COUNT } schedule_form;
// "chosen", "step", "chunk"; FORM_COUNT if there is none.
const char *schedule_form_text(schedule_form form);
schedule_form schedule_form_find(const char *text);

typedef struct schedule_options {
  int chunk;  // 0: the model's choice
  // host, chunk form: steps between saved states, rounded up to whole chunks; 0: the model's choice
  int save_every;
  unsigned clones;     // host: the library's; none: all of this processor
  schedule_form form;  // FORM_CHUNK: the chunk form wherever the structure allows it
  bool f64;
  bool gpu;        // kernels for GPU threads (see below)
  bool summaries;  // host: kernels that summarise segments of time
  // what is left out, here and in the plans of the kernels; NULL: nothing
  const pass_names *without;
} schedule_options;

// GPU: the same programs. In step form with small states, each of lane_block threads has an entry
// of lane_axis. Otherwise a thread block runs one instance, and there is no lane axis.

recurrence_kernels *schedule_recurrence(arena *arena, const recurrence *recurrence,
                                        schedule_options options);
// Axes that some tensor has. Another one is a number alone, such as a layer's place in the model:
// there are no instances along it.
axis_set schedule_tensor_axes(const typed_body *body);
// The first kernel of a kind, or NULL.
kernel *schedule_kernel(const recurrence_kernels *kernels, kernel_kind kind);
