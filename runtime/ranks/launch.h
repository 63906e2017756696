// Launchers: what they tell the processes that they start, and how rec starts one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/rec.h"

typedef enum launcher {
  LAUNCHER_NONE,
  LAUNCHER_OPEN_MPI,  // mpirun of Open MPI
  LAUNCHER_PMI,       // mpiexec of MPICH and its kin
  LAUNCHER_SLURM,     // srun --mpi=pmi2, for the same libraries
  LAUNCHER_PMIX,      // srun --mpi=pmix and others, for any library
  LAUNCHERS
} launcher;

typedef struct launched {
  launcher by;
  int64_t count;   // of processes; 0: it does not tell
  int64_t number;  // of this one
} launched;

// By the variables of the environment. An error where srun has started several processes that
// cannot find each other.
rec_status launch_find(launched *found);
// A process is left behind that tells the launcher to end, should it be there after these seconds.
// The mpirun of Open MPI asks a machine that cannot be reached for many minutes, when its ranks
// have long ended.
void launch_outlast(int seconds);
// Ends all processes of the step of Slurm that this one belongs to, this one with them; returns
// where there is no scancel.
void launch_cancel_step(void);
// Whether this process is to print what all processes of a job print alike.
bool launch_speaks(void);

// Of rank 0, when all ranks have begun: whoever has called launch_ranks hands signals on from now
// on.
void launch_begun(void);

// A program in the path; false: there is none.
bool launch_find_program(const char *name, char *file, size_t size);
// The same for mpirun or mpiexec.
bool launch_program(char *file, size_t size);
// Runs a launcher of `count` processes of the same program with this command and its words, to its
// end. A signal that ends programs becomes SIGUSR1 of the job, which all launchers hand on and give
// time for: they kill ranks a second after any other. A second signal ends the job. Returns what
// prevented the start.
rec_status launch_ranks(int64_t count, const char *command, char *const *words, int word_count,
                        int *exit_status);
