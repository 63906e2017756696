// What the files of the schedule share: the kernels of one recurrence being made.
#pragma once

#include "compiler/schedule/programs.h"
#include "compiler/schedule/schedule.h"

typedef struct scheduler {
  arena *a;
  const recurrence *r;
  schedule_options options;
  recurrence_kernels *out;
} scheduler;

// mapping.c: sizes and axes of the recurrence.
int64_t scheduler_size(const scheduler *s, int axis);
axis_set scheduler_runtime_axes(const scheduler *s);
// Axes that cotangents of states have and the states lack, without axes along which partial
// cotangents are kept (tile_place.partial).
axis_set scheduler_partial_axes(arena *a, const tile_program *backward);
// The axis in the lanes of a kernel with these instances, and the one whose entries are threads of
// a GPU; -1: none.
int scheduler_lane(const scheduler *s, axis_set grid);
int scheduler_threads(const scheduler *s, axis_set grid);
// Host: entries of the lane axis in an instance.
int scheduler_host_lanes(const scheduler *s, int lane);
// Shares out the axes of `grid`; `lanes`: one may lie in the lanes.
void scheduler_map_axes(const scheduler *s, kernel *k, axis_set grid, bool lanes);
// Adds the kernel under a symbol that ends on the suffix.
void scheduler_add(scheduler *s, kernel_kind kind, const char *suffix, kernel k);
tile_gradient scheduler_differentiated(const scheduler *s, const tile_program *forward);

// time_slices.c
// The part of a forward that makes the next states.
const tile_program *scheduler_states_alone(const scheduler *s, const tile_program *forward);
// SUMMARY and SUMMARY_BACK, where there are summaries; `back` is mapped as the backward.
void scheduler_add_summaries(scheduler *s, const tile_program *forward, kernel back);

// saved_layout.c
// Do two kernels save states, lag buffers and the values that `y` keeps in the same layout?
bool scheduler_saves_alike(const scheduler *s, const kernel *x, const kernel *y);
// Tells all kernels what their layout of saved states depends on, and checks that it is the same.
void scheduler_lay_out_saved(scheduler *s);
