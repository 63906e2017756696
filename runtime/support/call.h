// One call of an entry point, after its arguments were read and checked.
#pragma once

#include <stdbool.h>

#include "compiler/abi/library.h"

typedef struct call {
  const rec_table *table;
  const char *entry;  // "forward", for messages
  const char *arguments;
  int64_t batch, time;
  bool packed;  // the one batch entry is `sequences` behind each other
  int64_t sequences;
  int64_t saved_sequences;      // `saved` has room for so many packed ones; 0: for batch entries
  const int32_t *cu_seqlens;    // NULL while only sizes are asked for
  int64_t longest, longest_at;  // steps of the longest sequence, its number
  int64_t axis_size[REC_AXES_MAX];
  void *const *replaced;  // NULL, or by memory: data to use, NULL: the caller's
  const void *zeros;      // NULL, or what tokens and parameters with this axis are
  int zero_axis;
  int64_t first_instance, instance_count;  // as in rec_launch
  // sequences of so many steps run alone (alone.h); 0: none
  int64_t alone;
  // The call is a slice of the caller's: of tokens that have whole_time steps, of states.
  int64_t first_entry, first_step, whole_time, first_state;
  int64_t slices, slice_steps;  // time is cut, slices joined by their states (split.h); 0: no
  int32_t device_number;
  int64_t time_slices;  // GPUs: as the caller wants them; 0: as many as there is room for
  // only with a launch
  const rec_launch *launch;
  int clone;
  int64_t threads;
} call;

static inline int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static inline const void *table_at(const rec_table *table, int32_t position) {
  return (const char *)table + position;
}
static inline const char *table_text(const rec_table *table, int32_t position) {
  return table_at(table, position);
}
static inline const rec_table_memory *table_memory(const rec_table *table, int index) {
  return (const rec_table_memory *)table_at(table, table->memories_at) + index;
}
static inline const rec_table_axis *table_axis(const rec_table *table, int index) {
  return (const rec_table_axis *)table_at(table, table->axes_at) + index;
}
static inline const rec_table_slot *table_slot(const rec_table *table,
                                               const rec_table_kernel *kernel, int index) {
  return (const rec_table_slot *)table_at(table, kernel->slots_at) + index;
}

// Bytes of a number as it is stored.
static inline int64_t table_bytes(const rec_table *table, const rec_table_memory *memory) {
  return memory->stored == REC_STORED_NUMBER ? table->number_bytes : 2;
}

static inline const rec_table_kernel *kernel_of_call(const call *c, int kind) {
  return &c->table->kernels[kind];
}
// Entries of what is carried: batch entries, or packed sequences.
static inline int64_t call_entries(const call *c) { return c->packed ? c->sequences : c->batch; }
static inline bool call_is_empty(const call *c) { return call_entries(c) == 0 || c->time == 0; }
static inline const char *call_name(const call *c) {
  return table_text(c->table, c->table->name_at);
}
static inline bool call_runs_alone(const call *c, int64_t steps) {
  return c->alone > 0 && steps >= c->alone;
}
// Where the saved states of a packed sequence begin, in chunks. It needs no sum over the lengths
// and leaves room enough:  ceil(l / n) <= floor((at + l) / n) - floor(at / n) + 1.
// call_chunks is how many there are in all of a batch entry; compiler/artifact/sizes.c has the same
// as a formula.
static inline int64_t call_chunks_before(const call *c, int64_t sequence) {
  return c->cu_seqlens[sequence] / c->table->chunk + sequence;
}
static inline int64_t call_chunks(const call *c, int64_t chunk) {
  return c->saved_sequences ? c->time / chunk + c->saved_sequences : (c->time + chunk - 1) / chunk;
}

// Reads the struct's size, batch, time and axes into `call`; every size is >= 0, axes are >= 1.
rec_status call_read_size_fields(call *call, const rec_table *table, const char *entry,
                                 const void *arguments);

// Reads sizes, the launch and the lengths of packed sequences: what every call is given but its
// tensors. On a GPU the lengths stay there.
rec_status call_read(call *call, const rec_table *table, const char *entry, const void *arguments,
                     const rec_launch *launch);

// The message after the name of the entry point. Returns the status.
rec_status call_fail(const call *call, rec_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The best clone of a kernel that was compiled and that the processor runs.
rec_status call_choose_clone(call *call, const rec_table_kernel *kernel);

// The workspace that is enough for each entry point.
void call_set_workspace(rec_sizes *sizes);
// The recurrence, or its code for the device, has no summaries.
void call_without_summaries(const call *call, rec_sizes *sizes);

// Callers compiled before devices were added mean the host.
int32_t call_device_kind(const rec_sizes *sizes);

// At most one step of each sequence.
rec_status call_check_steps(const call *call);

// No range of instances.
rec_status call_check_instances(const call *call);

// Checks the pointers and strides that the call uses.
rec_status call_check_memories(const call *call, bool backward);
rec_status call_check_memory(const call *call, const rec_table_memory *memory, int32_t use);
bool call_has_axis(const call *call, const rec_table_memory *memory, int axis);

// The workspace of REC_KERNEL_FORWARD, _STEP or _BACKWARD; `saved`: a backward has what forward
// saved.
static inline int64_t call_workspace_of(const rec_sizes *sizes, int kind, bool saved) {
  if (kind == REC_KERNEL_FORWARD) return sizes->workspace_forward;
  if (kind == REC_KERNEL_STEP) return sizes->workspace_step;
  return saved ? sizes->workspace_backward : sizes->workspace_backward_recompute;
}
// The launch of a call whose workspace begins behind so many bytes of that of `call`.
rec_launch call_launch_behind(const call *call, int64_t taken);

// Checks a buffer that the caller allocated for the call.
rec_status call_check_buffer(const call *call, const char *what, const void *data, int64_t bytes,
                             int64_t needed);

// Packed sequences without boundaries that matter become one batch entry: a single one, or those of
// a recurrence that carries nothing.
void call_flatten(call *call, const rec_table_kernel *forward);

// An initial state that lacks a grid axis is read by many instances, one of which writes the final
// state.
bool call_lacks_grid_axis(const call *call, const rec_table_kernel *kernel,
                          const rec_table_memory *memory);

void *call_data(const call *call, const rec_table_memory *memory);
// Numbers of one entry: one step, one state, one parameter.
int64_t call_numbers(const call *call, const rec_table_memory *memory);
// Bytes of one entry, as the numbers of the recurrence.
static inline int64_t call_entry_bytes(const call *c, const rec_table_memory *memory) {
  return round_up(call_numbers(c, memory) * c->table->number_bytes, REC_ALIGNMENT);
}
// Numbers of the whole tensor.
int64_t call_total(const call *call, const rec_table_memory *memory);
// The memory as a kernel sees it.
rec_slot call_slot(const call *call, const rec_table_memory *memory);

int64_t call_count(const call *call, const rec_table_count *count, int64_t instances);

// `saved`, where it is read.
typedef struct call_room {
  int64_t bytes;          // of all chunk-start states
  int64_t chunk_numbers;  // numbers of one saved state, rounded to whole cache lines
  int64_t chunks;
} call_room;
call_room call_saved_room(const call *call);
