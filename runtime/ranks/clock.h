// Virtual time: what a step would take if each rank had a processor of its own and the network were
// the one of a file, though many ranks share this machine. The clock of a rank runs with the
// processor time of its process. A message carries when it would arrive; who receives it sets the
// clock forward to that.
//
//   REC_VIRTUAL_NETWORK=FILE   a network, as network.h reads it: virtual time is on
//   REC_VIRTUAL_TIMES=FILE     the times of operations, as op_times.h reads them: the clock runs by what clock_spend is told,
//                              and by nothing else, so that two runs have the same virtual time
#pragma once

#include "runtime/ranks/network.h"

typedef struct rank_clock rank_clock;

// *made is NULL where virtual time is off; every function takes that. `processor`: seconds of
// processor time of the process, without the thread that moves messages.
rec_status clock_open(int64_t rank, double (*processor)(void *context), void *context,
                      rank_clock **made);
void clock_close(rank_clock *c);
// The file of REC_VIRTUAL_TIMES, or NULL.
const char *clock_times_file(const rank_clock *c);

double clock_now(rank_clock *c);
// Computing that took so long; a clock that runs by the processor has seen it.
void clock_spend(rank_clock *c, double seconds);
// What came since is not of the program: the clock goes on from here.
void clock_set(rank_clock *c, double time);
// A message is given to the network: when it will arrive.
double clock_send(rank_clock *c, int64_t to, int64_t bytes);
// A message that was waited for is here.
void clock_arrived(rank_clock *c, double time);
