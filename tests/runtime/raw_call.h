// A call of a library's entry points by hand: every argument can be set to what no caller of
// rec_run would set.
#pragma once

#include "runtime/module.h"

// The tables run over the signature's variables.
typedef struct raw_call {
  const rec_recurrence *recurrence;
  int64_t batch, time, sequences;
  int64_t *axis_sizes;
  int32_t *cu_seqlens;
  char *arguments;  // NAME_arguments: dense, with data for everything
  void **value, **final, **gradient, **d_final;
  rec_launch launch;  // with workspace and `saved`
  rec_sizes sizes;
} raw_call;

// Draws all that is read. `lengths`: of packed sequences, or NULL. NULL after a failed check.
raw_call *raw_call_new(const rec_recurrence *recurrence, int32_t device_kind, int64_t batch,
                       int64_t time, const int32_t *lengths, int64_t sequences,
                       int64_t run_time_size);
void raw_call_free(raw_call *x);

int64_t raw_numbers(const raw_call *x, int variable);  // of the whole tensor
size_t raw_bytes(const raw_call *x, int variable);
// Runs an entry point; false after a failed check.
bool raw_run(const raw_call *x, rec_entry entry);
// Are all results the same to the last bit?
bool raw_equal(const raw_call *x, const raw_call *y, bool backward);
