// States that are made of each other, or of a maximum, and whose axes stand in any order.
#pragma once

#include "compiler/base/arena.h"

// Ways in which the states are coupled, and orders of two or three axes.
int state_order_ways(void);
int state_order_count(int axes);

// The text of a recurrence. It is called both_GVQ: the way, and the axes of U.
const char *state_order(arena *memory, int way, int axes, int order);
