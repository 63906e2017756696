// Where the ranks of a job run: on which machines and processors, as which processes.
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct neighbour {
  char machine[256];  // ranks whose machines have one name are on one machine
  cpu_set_t processors;
  char boot[40];       // tells machines of one name apart; "": not known
  uint64_t processes;  // the namespace that the number of the process is of
  pid_t process;
} neighbour;

neighbour neighbour_self(void);
bool neighbour_is_here(const neighbour *self, const neighbour *other);

// What the system says of the process of a rank.
typedef enum process_state {
  PROCESS_UNKNOWN,  // it is on another machine, or in another namespace
  PROCESS_ENDED,
  PROCESS_STOPPED,  // by a signal
  PROCESS_IN_IO,    // it waits for a disk or a driver, and cannot be interrupted
  PROCESS_RUNS
} process_state;

process_state neighbour_process(const neighbour *self, const neighbour *other);
