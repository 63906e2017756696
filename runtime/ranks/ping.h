#pragma once

#include "runtime/ranks/network.h"
#include "runtime/ranks/ranks.h"

// The network of a job, by messages to and fro between rank 0 and one of its own machine, and one
// of the next, as far as there are. All ranks call; *n is that of rank 0.
rec_status network_measure(ranks *r, network *n);
