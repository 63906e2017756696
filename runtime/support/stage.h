// A stage: one kernel run over all instances, batch entries and ranges of time.
//
// The work is cut by sizes alone, never by the number of threads. Batch entries (or packed
// sequences, by their steps) form strips, instances of a batch entry form groups, and steps form
// slices (with states: split.h). A task is one (strip, group, slice). Tasks write different
// entries, except for results that a kernel adds to. Where two tasks would add to the same entries,
// each adds to a copy of its own in the workspace. The copies are summed afterwards in a fixed
// order.
#pragma once

#include "runtime/support/call.h"

typedef struct stage_cut {
  int64_t instances;  // of one batch entry
  int64_t unit;       // groups begin at multiples of it: fewer then add to equal entries
  int64_t groups, strips, slices, tasks;
  int64_t sequences;      // batch entries in one call of the kernel, while there are so many
  int64_t slice_steps;    // steps of a slice: a multiple of the chunk
  int64_t lanes;          // tasks that may run at one time, each with a scratch of its own
  int64_t scratch_bytes;  // of one lane
  int64_t lane_bytes;     // scratch and frame
} stage_cut;

stage_cut stage_plan(const call *call, const rec_table_kernel *kernel);

// Bytes of workspace, as if every result were wanted; of packed sequences for any lengths.
int64_t stage_bytes(const call *call, const rec_table_kernel *kernel);

// Bytes of the copies of tokens' gradients, for each step.
int64_t stage_step_copies(const call *call, const rec_table_kernel *kernel);

// Chunk-start states: where they are and how far apart.
typedef struct stage_saved {
  void *data;  // NULL: not wanted
  int64_t batch_stride, chunk_stride;
} stage_saved;

typedef enum stage_results {
  STAGE_ALL,
  STAGE_SAVED,  // nothing but the saved states
  STAGE_STATES  // nothing but final states, or gradients of initial ones
} stage_results;

// The slices first..last-1 of a call whose time is cut (call.slices), and where the states of each
// slice lie. `state` returns the data of a memory that holds states.
typedef struct stage_slices {
  int64_t first, last;
  void *(*state)(void *context, int memory, int64_t slice);
  void *context;
} stage_slices;

// Runs the kernel. `slices` is NULL unless the call's time is cut. `workspace` has stage_bytes.
void stage_run(const call *call, const rec_table_kernel *kernel, stage_saved saved,
               stage_results results, const stage_slices *slices, void *workspace);

// Below this many numbers read and written, waking other threads costs more than they save.
#define STAGE_WORTH_THREADS ((int64_t)1 << 15)

// stage_sums.c: a result as the sum of so many copies of it, which lie one behind the other in each
// batch entry.
void stage_sum_copies(const call *call, const rec_table_memory *memory, const void *copies,
                      int64_t copy_count);

// Runs `lane` on so many lanes, which share their work: the first may do all of it, and does where
// it is not `worth` more.
void stage_run_parallel(const call *call, int64_t lanes, bool worth, rec_task lane, void *argument);

// A memory that holds states: one entry per batch entry, none per step.
static inline bool stage_is_state(const rec_table_memory *memory) {
  return memory->per_batch && !memory->token;
}

// Batch entries of a memory; packed tokens are one.
static inline int64_t stage_entries(const call *c, const rec_table_memory *memory) {
  if (!memory->per_batch) return 1;
  return memory->token ? c->batch : call_entries(c);
}

// Bytes of call.replaced.
static inline int64_t stage_pointers_bytes(const call *c) {
  return round_up((int64_t)sizeof(void *) * c->table->memory_count, REC_ALIGNMENT);
}

// Gives a call a table of data to use in place of the caller's, empty as yet.
static inline void **stage_replace_nothing(call *c, void *table) {
  void **replaced = table;
  for (int i = 0; i < c->table->memory_count; i++) replaced[i] = NULL;
  c->replaced = replaced;
  return replaced;
}
