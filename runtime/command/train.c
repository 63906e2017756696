// rec train, rec evaluate: the training program of a file.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/command/session.h"
#include "runtime/machine.h"
#include "runtime/ranks/launch.h"
#include "runtime/ranks/ranks.h"
#include "runtime/train/evaluate/evaluate.h"

typedef struct train_request {
  session_options options;
  module_request module;
  ranks_settings ranks;
  int64_t seed, checkpoint_seconds;
  char *const *blocks;
  int block_count;
  bool train;  // or evaluate
} train_request;

#define REQUEST train_request
#define SHARED_OPTIONS                                                                             \
  NUMBER("--ranks", "N", ranks.count, 1,                                                           \
         "N processes, started by the mpirun in the path; results do not depend on it"),           \
      NUMBER("--time-ranks", "N", ranks.time_count, 1,                                             \
             "N of the ranks share a sequence, each with its segments (default: 1)"),              \
      NUMBER("--patience", "N", ranks.patience, 1,                                                 \
             "seconds that a rank may wait for another before all end, ten times as many for one " \
             "that answers and computes "                                                          \
             "(default: REC_PATIENCE, or 300)"),                                                   \
      TEXT("--runs", "DIR", options.runs, "where runs are kept (default: runs)"),                  \
      TEXT("--data", "FILE", options.data, "text in place of the one that the program names"),     \
      THREADS(options.threads,                                                                     \
              "threads (default: REC_NUM_THREADS, or one for each processor); results do not "     \
              "depend on it"),                                                                     \
      NUMBER_TO("--seed", "N", seed, 0, MOST_SEED, "in place of the seed of every train block"),   \
      SESSION_MODULE_OPTIONS, OPTIONS_END

static const option train_options[] = {
    FLAG("--resume", options.resume,
         "continue where the checkpoints are, to the same weights, bit for bit"),
    FLAG("--again", options.again,
         "replace the runs of these blocks that are in RUNS; without it, and without --resume, "
         "there must be none"),
    NUMBER("--checkpoint-steps", "N", options.checkpoint_steps, 1,
           "how often a checkpoint is written, in steps"),
    NUMBER("--checkpoint-seconds", "N", checkpoint_seconds, 1,
           "the same in seconds (default: every 30 seconds)"),
    NUMBER("--under-way", "N", options.under_way, 1,
           "shards that a time rank has begun and not ended, at most: fewer take less memory; no "
           "result depends on it (default: 4)"),
    SHARED_OPTIONS};

static const option evaluate_options[] = {SHARED_OPTIONS};

static int read_words(words *w, const option *options, train_request *r) {
  if (read_options(w, options, r)) return EXIT_USAGE;
  if (r->options.resume && r->options.again)
    return usage_error(w, "expected --resume or --again, found both");
  if (!w->given_count) return usage_error(w, "expected FILE, a compiled library or a .rec file");
  r->module.file = w->given[0];
  r->blocks = w->given + 1;
  r->block_count = w->given_count - 1;
  r->options.has_seed = r->seed >= 0;
  r->options.seed = r->seed;
  r->options.checkpoint_seconds = (double)r->checkpoint_seconds;
  return 0;
}

static bool is_named_block(const train_request *r, const char *name) {
  for (int i = 0; i < r->block_count; i++)
    if (!strcmp(r->blocks[i], name)) return true;
  return r->block_count == 0;
}

// What all ranks find alike, rank 0 says.
static bool speaks(const train_request *r) { return ranks_number(r->options.ranks) == 0; }

// There must be something to do, and every name must be that of a block.
static int check_block_names(const train_request *r, const session *s) {
  const train_program *p = s->program;
  int count = r->train ? p->block_count : p->evaluate_count;
  if (!count) {
    if (speaks(r))
      fprintf(stderr, "rec %s: expected %s block in %s, found none\n", r->module.command,
              r->train ? "a train" : "an evaluate", r->module.file);
    return EXIT_USAGE;
  }
  for (int i = 0; i < r->block_count; i++) {
    bool known = false;
    for (int k = 0; k < count; k++)
      known |= !strcmp(r->blocks[i], r->train ? p->blocks[k].name : p->evaluates[k].name);
    if (known) continue;
    if (!speaks(r)) return EXIT_USAGE;
    fprintf(stderr, "rec %s: expected a block of %s, found `%s`; there are", r->module.command,
            r->module.file, r->blocks[i]);
    for (int k = 0; k < count; k++)
      fprintf(stderr, " %s", r->train ? p->blocks[k].name : p->evaluates[k].name);
    fprintf(stderr, "\n");
    return EXIT_USAGE;
  }
  return 0;
}

// Files that all ranks share are rank 0's: the lock, the log, the report.
static rec_status check_new(const train_request *r, const session *s) {
  rec_status status = REC_OK;
  if (!speaks(r) || r->options.resume || r->options.again) return REC_OK;
  for (int i = 0; i < s->program->block_count && !status; i++) {
    const train_block *b = &s->program->blocks[i];
    if (is_named_block(r, b->name)) status = session_check_new(s, b);
  }
  return status;
}

static int train_blocks(const train_request *r, session *s) {
  enum { STOPPED = 130 };
  bool stopped = false;
  ranks *job = r->options.ranks;
  int status = report_agreed(job, "train", check_new(r, s));
  for (int i = 0; i < s->program->block_count && !stopped && !status; i++) {
    const train_block *b = &s->program->blocks[i];
    if (is_named_block(r, b->name))
      status = report_agreed(job, "train", session_train(s, b, &stopped));
  }
  if (status) return status;
  if (!stopped) return report_agreed(job, "train", speaks(r) ? session_report(s) : REC_OK);
  if (speaks(r))
    fprintf(stderr, "rec train: stopped; a checkpoint is written, --resume continues\n");
  return STOPPED;
}

// Who reads what is printed may go before the training ends: then the rest is for nobody, and that is
// no failure. Returns `status`.
static int leave_closed_output(int status) {
  struct pollfd end = {.fd = STDOUT_FILENO, .events = POLLOUT};
  bool closed = poll(&end, 1, 0) == 1 && end.revents & POLLERR;
  return closed && !freopen("/dev/null", "w", stdout) ? EXIT_USAGE : status;
}

static int train_to_the_end(const train_request *r, session *s) {
  signal(SIGPIPE, SIG_IGN);
  return leave_closed_output(train_blocks(r, s));
}

static int evaluate_blocks(const train_request *r, session *s) {
  ranks *job = r->options.ranks;
  int status = 0;
  for (int i = 0; i < s->program->evaluate_count && !status; i++) {
    const evaluate_block *e = &s->program->evaluates[i];
    if (is_named_block(r, e->name)) status = report_agreed(job, "evaluate", session_evaluate(s, e));
  }
  if (!status) status = report_agreed(job, "evaluate", speaks(r) ? session_report(s) : REC_OK);
  if (!status) printf("report: %s\n", session_path(s, NULL, "report.html").text);
  return status;
}

int with_session(const module_request *module, const session_options *options,
                 int (*run)(session *s, void *request), void *request) {
  session_options there = *options;
  there.device = module->device;
  rec_module *opened = NULL;
  session *s = NULL;
  int status = open_module(module, &opened);
  if (!status)
    status = report_agreed(there.ranks, module->command, session_open(opened, &there, &s));
  if (!status) status = run(s, request);
  session_close(s);
  rec_module_close(opened);
  return status;
}

static int run_train_blocks(session *s, void *request) {
  const train_request *r = request;
  int status = check_block_names(r, s);
  rec_status locked = status || !speaks(r) ? REC_OK : session_lock(s, r->train);
  if (!status && !locked && speaks(r)) locked = session_check_report(s);
  if (!status) status = report_agreed(r->options.ranks, r->module.command, locked);
  return status ? status : r->train ? train_to_the_end(r, s) : evaluate_blocks(r, s);
}

// Ranks that may run on the same processors share them.
static rec_status share_processors(train_request *r) {
  int sharing = ranks_sharing_processors(r->options.ranks), *threads = &r->options.threads;
  if (*threads || sharing == 1 || getenv("REC_NUM_THREADS")) return REC_OK;
  rec_status status = rec_machine_threads(0, threads);
  *threads = *threads > sharing ? *threads / sharing : 1;
  return status;
}

static int run_opened(train_request *r) {
  ranks *job = r->options.ranks;
  const char *command = r->module.command;
  if (ranks_number(job) && !freopen("/dev/null", "w", stdout))
    ranks_abort(job, "/dev/null cannot be opened");
  int status = report_agreed(job, command, share_processors(r));
  return status ? status : with_session(&r->module, &r->options, run_train_blocks, r);
}

static int run_rank(train_request *r, bool was_launched) {
  ranks *job = NULL;
  int status = EXIT_USAGE;
  if (was_launched && r->train) session_catch_early();
  rec_status opened = ranks_open(&r->ranks, &job);
  r->options.ranks = r->module.ranks = job;
  if (!opened && ranks_number(job) == 0) launch_begun();
  if (!opened)
    status = run_opened(r);
  else if (ranks_number(job) == 0)
    report_failure(r->module.command);
  ranks_close(job);
  return status;
}

static int run_training(words *w, const option *options, bool train) {
  train_request r = {.module = module_request_of(w), .seed = -1, .train = train};
  launched by;
  int status = read_words(w, options, &r);
  if (status) return status;
  if (launch_find(&by)) return launch_speaks() ? report_failure(w->command) : EXIT_USAGE;
  if (by.by != LAUNCHER_NONE || r.ranks.count <= 1) return run_rank(&r, by.by != LAUNCHER_NONE);
  return launch_ranks(r.ranks.count, w->command, w->list, w->count, &status)
             ? report_failure(w->command)
             : status;
}

static int run_train(words *w) { return run_training(w, train_options, true); }
static int run_evaluate(words *w) { return run_training(w, evaluate_options, false); }

const subcommand train_command = {
    .name = "train",
    .purpose = "trains the models of a program",
    .synopsis = "FILE [BLOCK...]",
    .text =
        "Trains the train blocks of a compiled library or of a .rec file: all in order, or those "
        "named.\n"
        "RUNS/BLOCK gets log.jsonl, checkpoint.safetensors and in the end model.safetensors; "
        "RUNS/report.html shows it.\n",
    .options = train_options,
    .run = run_train,
};

const subcommand evaluate_command = {
    .name = "evaluate",
    .purpose = "judges trained models",
    .synopsis = "FILE [BLOCK...]",
    .text =
        "Judges trained models by the evaluate blocks of a compiled library or of a .rec file: "
        "all, or those named.\n"
        "RUNS/BLOCK gets the numbers as CSV; RUNS/report.html shows them.\n",
    .options = evaluate_options,
    .run = run_evaluate};
