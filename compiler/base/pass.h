// What a compilation runs. Each stage has a table of its passes; a log counts and times the passes
// of all stages.
//
//   schedule              the pipeline's pass
//     chunk program   3   a pass of the stage "programs", which it has run three times
#pragma once

#include <stdbool.h>

#include "compiler/base/vec.h"

typedef struct pass_stage {
  const char *name;
  int count;
  const char *(*name_of)(int pass);
  // results are right without the pass; NULL: without none of them
  bool (*may_leave_out)(int pass);
} pass_stage;

// Names of passes and choices (choice.h) that a compilation leaves out: recc --without.
typedef VEC(const char *) pass_names;

// `without` may be NULL.
bool pass_is_left_out(const pass_names *without, const char *name);

typedef struct pass_count {
  int runs, verified;  // verified: programs that the verifier has looked at behind the pass
  double seconds;
} pass_count;

typedef struct pass_log_stage {
  const pass_stage *stage;
  pass_count *counts;  // by pass
} pass_log_stage;

typedef struct pass_log {
  arena *memory;
  VEC(pass_log_stage) stages;  // in the order in which they first ran
} pass_log;

// Passes that this thread runs are counted in `log` from now on; NULL: nobody counts them. Returns
// the log before.
pass_log *pass_log_use(pass_log *log);
// Seconds of a clock that only moves on.
double pass_clock(void);
// A pass has run.
void pass_ran(const pass_stage *stage, int pass, double seconds, int verified);
// All that another thread has run.
void pass_log_add(const pass_log *other);
