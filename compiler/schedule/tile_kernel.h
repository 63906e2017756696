// A kernel for a tile program by itself.
#ifndef REC_SCHEDULE_TILE_KERNEL_H
#define REC_SCHEDULE_TILE_KERNEL_H

#include "compiler/schedule/schedule.h"

// Axes of `grid` whose size is known at run time are instances, nothing lies in lanes, GPUs have
// their usual threads. No cost is compared; nothing but the plan of the kernel is made.
kernel *schedule_tile(arena *a, const tile_program *program);

#endif
