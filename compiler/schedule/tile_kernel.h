// A kernel for a tile program by itself.
#pragma once

#include "compiler/schedule/schedule.h"

// Axes of `grid` whose size is known at run time are instances, nothing lies in lanes, GPUs have
// their usual threads. No cost is compared; nothing but the plan of the kernel is made.
kernel *schedule_tile(arena *a, const tile_program *program);
