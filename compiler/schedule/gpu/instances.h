// What a kernel's instances are, and what they cost.
#pragma once

#include "compiler/schedule/gpu/model.h"

// The longest axis of known size that is a tile of the kernel and may be cut; -1: there is none.
int gpu_value_axis(const kernel *k);
// Instances with `entries` of the axis each.
kernel gpu_cut_into_instances(arena *a, const kernel *whole, int axis, int entries);
// An instance that computes the tiles of the axis one after another, in every group of chunks.
kernel gpu_cut_into_tiles(arena *a, const kernel *whole, int axis, int entries);
// Heads that share keys: each head would write a copy of the keys' gradients, to be read and added
// up. An instance of a few heads makes fewer copies. It also makes fewer blocks, and the cotangents
// of its heads lie in its scratch.
kernel gpu_share_gradients(const kernel *whole, int heads);
// Are the states of its chunks recomputed, a group of chunks at a time (gpu_groups_back)?
bool gpu_may_have_tiles(const kernel *k);
// The cycles of combining one summary: a block reads states and factors, or multiplies by a
// transition matrix in f32.
double gpu_cost_of_combining(const kernel *k);
// schedule.c: what the runtime knows of the kernel's time.
void gpu_set_times(kernel *k, const gpu_time *time);
