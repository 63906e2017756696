// States that start from a number or a parameter (`state m[D] ~ -1e38`, `~ m0`) in calls that are
// not given them. The kernels always are: the call lays out the state before the first step in its
// workspace, and calls them with it. A backward adds the gradient by that state to the parameter's.
//
// So no kernel, no cut of time and no summary knows of starts. A recurrence without one has nothing
// of this.
#pragma once

#include "runtime/support/gpu.h"

typedef enum begin_entry {
  BEGIN_FORWARD,
  BEGIN_STEP,
  BEGIN_BACKWARD,
  BEGIN_SUMMARY,
  BEGIN_SUMMARY_BACKWARD,
  BEGIN_FOLD
} begin_entry;

// Such a call while it runs: `arguments` and `launch` are those of the call that has the states.
typedef struct begun {
  begin_entry entry;
  call call;
  char *arguments;
  char *free_memory;
  gpu_device device;  // without `launch`: the host
  rec_launch launch;
} begun;

// Does a state start from something that the call is not given?
bool begin_is_due(const rec_table *table, const void *arguments);
// Reads such a call. Lays out its states, where the call by itself needs `sizes`; `own` is room for
// its arguments. After it: the gradients.
rec_status begin_read(begun *b, const rec_table *table, const void *arguments,
                      const rec_launch *launch);
rec_status begin_states(begun *b, const rec_sizes *sizes, char *own);
rec_status begin_end(const begun *b);
// Adds room for the states to the workspaces.
rec_status begin_add_room(const rec_table *table, const void *arguments, rec_sizes *sizes);
