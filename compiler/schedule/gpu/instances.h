// schedule.c: what a kernel's instances are, and what they cost.
#pragma once

#include "compiler/schedule/gpu/model.h"

// The longest axis of known size that is a tile of the kernel and may be cut; -1: there is none.
int gpu_value_axis(const kernel *k);
// Instances with `entries` of the axis each.
kernel gpu_cut_into_instances(arena *a, const kernel *whole, int axis, int entries);
// Are the states of its chunks recomputed, a group of chunks at a time (gpu_groups_back)?
bool gpu_may_have_tiles(const kernel *k);
// The cycles of combining one summary: a block reads states and factors, or multiplies by a
// transition matrix in f32.
double gpu_cost_of_combining(const kernel *k);
// What the runtime knows of the kernel's time.
void gpu_set_times(kernel *k, const gpu_time *time);
