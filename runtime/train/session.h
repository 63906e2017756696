// A library with its training program, opened: what `rec train`, `rec evaluate` and the report work
// on.
#pragma once

#include <signal.h>

#include "runtime/train/trainer.h"

typedef struct session_options {
  const char *runs;  // folder of the runs, NULL: "runs"
  const char *data;  // NULL: the file that the program names
  int threads;       // 0: as many as there are processors
  int32_t device;    // REC_DEVICE_..: where models run
  // go on with what is in the folder, or replace it; neither: there is none
  bool resume, again;
  int64_t checkpoint_steps;   // 0: by time alone
  double checkpoint_seconds;  // between checkpoints; 0: 30
  bool has_seed;              // every train block takes `seed` in place of its own
  int64_t seed;
  // shards of each thread of a rank that are begun and not ended, at most; 0: as turns.h has it
  int64_t under_way;
  struct ranks *ranks;  // NULL: this process is alone
} session_options;

typedef struct session {
  const rec_module *module;
  train_program *program;
  cJSON *reseeded;  // what `program` was read from, where it is not the module's; NULL
  train_kernel *kernels, *host_kernels;
  const compute *where;
  struct gpu_place *gpu;  // NULL on the host
  char messages[1024];    // between GPUs: how they go; empty: there are none
  session_options options;
  int lock;                 // the open file RUNS/lock, -1: none
  const char *source_path;  // of the .rec file, as it was written when it was compiled
  const char *source_text;
  struct sigaction old_interrupt, old_terminate, old_hangup, old_user;
} session;

// A signal that ends programs sets `session_stop` in place of that, from here on or no longer, and
// prints the line `said` (NULL: none). So does SIGUSR1, the signal that launchers of ranks hand on.
// A second SIGINT, SIGTERM or SIGHUP ends the process at once.
extern volatile sig_atomic_t session_stop;
void session_catch_signals(session *s, bool on, const char *said);
// SIGUSR1 alone, for a rank: its launcher may hand one on before there is a session.
void session_catch_early(void);

// The module must outlive the session.
rec_status session_open(const rec_module *module, const session_options *options, session **made);
void session_close(session *s);  // NULL is allowed
// Keeps other processes out of the folder of the runs until the session closes, or the process ends
// in any way; an error if another is in it. A folder that is not there is made if asked for, else
// left alone.
rec_status session_lock(session *s, bool make_folder);

trained_model session_model(const session *s, const train_block *block);
// The same on the host, for what looks into the runs of single recurrences.
trained_model session_host_model(const session *s, const train_block *block);
// The file of the data of a block; and the data.
file_path session_data_path(const session *s, const train_block *block);
rec_status session_open_data(const session *s, const train_block *block, train_data *data);
// RUNS/NAME/FILE, or RUNS/FILE with NAME NULL.
file_path session_path(const session *s, const char *name, const char *file);
// Makes RUNS/NAME.
rec_status session_make_folder(const session *s, const char *name);

// An error if the folder of the runs has a run of this block.
rec_status session_check_new(const session *s, const train_block *block);
// Trains one block from the weights of the block it is after. *stopped: a signal asked for the end;
// a checkpoint was written.
rec_status session_train(session *s, const train_block *block, bool *stopped);
// An error if session_report would replace a page or a picture that rec did not write.
rec_status session_check_report(const session *s);
// RUNS/report.html and the plots in it, from whatever the runs have left so far.
rec_status session_report(const session *s);
