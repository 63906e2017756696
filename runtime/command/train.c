// rec train, rec evaluate: the training program of a file.
#include <stdlib.h>
#include <string.h>

#include "runtime/command/command.h"
#include "runtime/train/evaluate/evaluate.h"

#define SHARED_OPTIONS                                                                             \
  "  --runs DIR        where runs are kept (default: runs)\n"                                      \
  "  --data FILE       text in place of the one that the program names\n"                          \
  "  --threads N       threads (default: REC_NUM_THREADS, or one for each processor); results do " \
  "not depend on it\n"                                                                             \
  "  --device D        host (default); cuda, a GPU; simt, the GPU's code run and checked on the "  \
  "CPU\n"                                                                                          \
  "  --seed N          in place of the seed of every train block\n"                                \
  "  -D axis=size, --dtype f32|f64|bf16, --chunk N    for a .rec file, as in recc\n"

const char train_usage[] =
    "rec train FILE [BLOCK...]\n"
    "\n"
    "Trains the train blocks of a compiled library or of a .rec file: all in order, or those "
    "named.\n"
    "RUNS/BLOCK gets log.jsonl, checkpoint.safetensors and in the end model.safetensors; "
    "RUNS/report.html shows it.\n"
    "\n"
    "  --resume          continue where the checkpoints are, to the same weights, bit for bit\n"
    "  --again           replace the runs of these blocks that are in RUNS; without it, and without "
    "--resume, there must be none\n"
    "  --checkpoint-steps N, --checkpoint-seconds N    how often a checkpoint is written (default: "
    "every 30 seconds)\n" SHARED_OPTIONS;

const char evaluate_usage[] =
    "rec evaluate FILE [BLOCK...]\n"
    "\n"
    "Judges trained models by the evaluate blocks of a compiled library or of a .rec file: all, or "
    "those named.\n"
    "RUNS/BLOCK gets the numbers as CSV; RUNS/report.html shows them.\n"
    "\n" SHARED_OPTIONS;

typedef struct train_request {
  session_options options;
  module_request module;
  const char **blocks;
  int block_count;
} train_request;

static bool read_option(words *w, train_request *r, bool train) {
  int64_t number;
  if (take_value(w, "--runs", &r->options.runs) || take_value(w, "--data", &r->options.data) ||
      take_module_option(w, &r->module) || take_device(w, &r->module, &r->options.device))
    return true;
  if (take_threads(w, &r->options.threads)) return true;
  if (take_number(w, "--seed", 0, &r->options.seed)) return r->options.has_seed = true;
  if (!train) return false;
  if (take_number(w, "--checkpoint-steps", 1, &r->options.checkpoint_steps)) return true;
  if (take_number(w, "--checkpoint-seconds", 1, &number)) return r->options.checkpoint_seconds = (double)number, true;
  if (take_flag(w, "--resume")) return r->options.resume = true;
  return take_flag(w, "--again") && (r->options.again = true);
}

static int read_words(words *w, train_request *r, bool train) {
  while (w->next < w->count && !w->failed) {
    const char *word;
    if (read_option(w, r, train)) continue;
    if (w->failed) break;
    if (!take_word(w, &word)) return usage_error(w, "unknown option `%s`", w->list[w->next]);
    if (!r->module.file)
      r->module.file = word;
    else
      r->blocks[r->block_count++] = word;
  }
  if (w->failed) return EXIT_USAGE;
  if (r->options.resume && r->options.again) return usage_error(w, "expected --resume or --again, found both");
  return r->module.file ? 0 : usage_error(w, "expected FILE, a compiled library or a .rec file");
}

static bool is_asked_for(const train_request *r, const char *name) {
  for (int i = 0; i < r->block_count; i++)
    if (!strcmp(r->blocks[i], name)) return true;
  return r->block_count == 0;
}

// There must be something to do, and every name must be that of a block.
static int check_names(const train_request *r, const session *s, const char *command, bool train) {
  if (train ? !s->program->block_count : !s->program->evaluate_count) {
    fprintf(stderr, "rec %s: expected %s block in %s, found none\n", command, train ? "a train" : "an evaluate",
            r->module.file);
    return EXIT_USAGE;
  }
  for (int i = 0; i < r->block_count; i++) {
    bool known = false;
    int count = train ? s->program->block_count : s->program->evaluate_count;
    for (int k = 0; k < count; k++)
      known |= !strcmp(r->blocks[i], train ? s->program->blocks[k].name : s->program->evaluates[k].name);
    if (known) continue;
    fprintf(stderr, "rec %s: expected a block of %s, found `%s`; there %s", command, r->module.file, r->blocks[i],
            count ? "are" : "is none");
    for (int k = 0; k < count; k++) fprintf(stderr, " %s", train ? s->program->blocks[k].name : s->program->evaluates[k].name);
    fprintf(stderr, "\n");
    return EXIT_USAGE;
  }
  return 0;
}

static int train_blocks(const train_request *r, session *s) {
  enum { STOPPED = 130 };
  bool stopped = false;
  for (int i = 0; i < s->program->block_count && !r->options.resume && !r->options.again; i++) {
    const train_block *b = &s->program->blocks[i];
    if (is_asked_for(r, b->name) && session_check_new(s, b)) return report_failure("train");
  }
  for (int i = 0; i < s->program->block_count && !stopped; i++) {
    const train_block *b = &s->program->blocks[i];
    if (is_asked_for(r, b->name) && session_train(s, b, &stopped)) return report_failure("train");
  }
  if (!stopped) return session_report(s) ? report_failure("train") : 0;
  fprintf(stderr, "rec train: stopped; a checkpoint is written, --resume continues\n");
  return STOPPED;
}

static int evaluate_blocks(const train_request *r, session *s) {
  for (int i = 0; i < s->program->evaluate_count; i++) {
    const evaluate_block *e = &s->program->evaluates[i];
    if (is_asked_for(r, e->name) && session_evaluate(s, e)) return report_failure("evaluate");
  }
  if (session_report(s)) return report_failure("evaluate");
  char *page = session_path(s, NULL, "report.html");
  printf("report: %s\n", page ? page : "");
  free(page);
  return 0;
}

static int run(const char *command, int count, char **list, bool train) {
  words w = {.command = command, .count = count, .list = list};
  train_request r = {.module = {.command = command}};
  r.blocks = calloc((size_t)count + 1, sizeof *r.blocks);
  r.module.defines = calloc((size_t)count + 1, sizeof *r.module.defines);
  r.module.recc_words = calloc((size_t)count + 1, sizeof *r.module.recc_words);
  rec_module *module = NULL;
  session *s = NULL;
  int status = r.blocks && r.module.defines && r.module.recc_words ? read_words(&w, &r, train) : report_failure(command);
  if (!status) status = open_module(&r.module, &module);
  if (!status && session_open(module, &r.options, &s)) status = report_failure(command);
  if (!status) status = check_names(&r, s, command, train);
  if (!status && session_lock(s, train)) status = report_failure(command);
  if (!status) status = train ? train_blocks(&r, s) : evaluate_blocks(&r, s);
  session_close(s);
  rec_module_close(module);
  free(r.blocks);
  free(r.module.defines);
  free(r.module.recc_words);
  return status;
}

int command_train(int count, char **list) { return run("train", count, list, true); }

int command_evaluate(int count, char **list) { return run("evaluate", count, list, false); }
