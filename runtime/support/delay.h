// Calls of a recurrence with long lags. Its kernels have no long lag: x[t-512] is an input of
// theirs that the call lays out in the workspace. Gradients take the same way back.
//
//   before:  x[t-512] = 512 rows of h0.x.lag, then x
//   kernels  (the inner table)
//   after:   hT.x.lag = the last rows of h0.x.lag and x;  d.x += d.x[t-512], 512 steps earlier;  d.h0.x.lag = its first rows
//
// The table lists the rows (rec_table_rows). No step depends on another, so this costs a few
// copies, whatever the lag.
#pragma once

#include "runtime/support/call.h"

// REC_KERNEL_FORWARD, _STEP or _BACKWARD.
rec_status delay_call(const rec_table *table, const void *arguments, const rec_launch *launch,
                      int kind);
rec_status delay_sizes_of(const rec_table *table, const void *arguments, rec_sizes *sizes);
