// Segments of time, as machines that share a sequence have them: each is summarised by itself, the
// summaries are folded into the states before each segment and the cotangents after it, and each
// segment then runs by itself.
#pragma once

#include "tests/runtime/problem.h"

typedef struct segments_report {
  bool summarised;   // the library has summaries
  int out_of_range;  // of the summaries
  char wrong[512];   // "": nothing
} segments_report;

// What a library tells of its summaries.
rec_sizes segments_sizes(const rec_recurrence *recurrence, const char *device,
                         const problem *whole);
// The results, with gradients, of `count` segments of one length; NULL without summaries, or where
// something is wrong. What is folded at once is also folded in blocks of instances, and of a
// combined summary.
problem *segments_run(const rec_recurrence *recurrence, const char *device, const problem *whole,
                      int count, segments_report *report);
// The summary of packed sequences: the first state goes in, the last one comes out; backward the
// other way. `exact` holds the reference's results.
void segments_pack(const rec_recurrence *recurrence, const char *device, const problem *packed,
                   const problem *exact, double tolerance, segments_report *report);
