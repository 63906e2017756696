// One step of all ranks, event by event: who computes, whose messages are under way, who waits for
// whom.
#pragma once

#include "runtime/predict/schedule.h"
#include "runtime/ranks/network.h"

// Seconds from the start of a step until the last rank has ended it.
rec_status simulate_step(const predicted_program *p, const rank_grid *grid, const network *n,
                         double *seconds);

// Seconds that the busiest rank computes, and that all ranks compute together.
rec_status simulate_computing(const predicted_program *p, const rank_grid *grid, double *busiest,
                              double *all);

// Every rank sends `bytes` to every other one, from *ready on, to the next one first. *ready
// becomes the times when a rank has the messages of all.
rec_status simulate_exchange(const network *n, int64_t count, int64_t bytes, double *ready);
