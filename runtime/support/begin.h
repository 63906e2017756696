// States that start from a number or a parameter (`state m[D] ~ -1e38`, `~ m0`) in calls that are
// not given them. The kernels always are: the call lays out the state before the first step in its
// workspace, and calls them with it. A backward adds the gradient by that state to the parameter's.
//
// So no kernel, no cut of time and no summary knows of starts. A recurrence without one has nothing
// of this.
#pragma once

#include "runtime/support/call.h"

typedef enum begin_entry {
  BEGIN_FORWARD,
  BEGIN_STEP,
  BEGIN_BACKWARD,
  BEGIN_SUMMARY,
  BEGIN_SUMMARY_BACKWARD,
  BEGIN_FOLD
} begin_entry;

// What the entry points are given beside the table.
typedef struct begin_operands {
  const void *arguments;
  const rec_launch *launch;
  const rec_segments *segments;  // FOLD
  void *summary;                 // SUMMARY, SUMMARY_BACKWARD
} begin_operands;

// Does a state start from something that the call is not given?
bool begin_is_due(const rec_table *table, const void *arguments);
// Such a call.
rec_status begin_call(const rec_table *table, begin_entry entry, const begin_operands *operands);
// Adds room for the states to the workspaces.
rec_status begin_add_room(const rec_table *table, const void *arguments, rec_sizes *sizes);
