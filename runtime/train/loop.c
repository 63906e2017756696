// A train block from its first to its last step: log, checkpoints, signals, what the user sees. Of
// the ranks that train together, rank 0 alone has the log and the events, and moves files; all of
// them write checkpoints, and all leave with one status.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compiler/abi/clock.h"
#include "runtime/ranks/ranks.h"
#include "runtime/train/after_step.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/identity.h"
#include "runtime/train/model/chain.h"
#include "runtime/train/model/gpu_place.h"
#include "runtime/train/model/optimizer.h"
#include "runtime/train/model/weights.h"
#include "runtime/train/report/events.h"
#include "runtime/train/report/progress.h"
#include "runtime/train/report/whole_file.h"
#include "runtime/train/result.h"
#include "runtime/train/seal.h"
#include "runtime/train/session.h"

typedef struct loop {
  session *s;
  trainer *t;
  train_data data;
  file_path checkpoint, fresh, previous, weights, log_path;
  char *identity, *began_from;  // began_from: of what identity.h has
  FILE *log, *events;
  double last_checkpoint;
  bool ended;  // before this process
  cost_meter costs;
} loop;

static bool is_first_rank(const loop *l) { return ranks_number(l->s->options.ranks) == 0; }

static rec_status agree(const loop *l, rec_status status) {
  return ranks_agree(l->s->options.ranks, status,
                     (message_place){l->t ? l->t->step : -1, -1, "how rank 0 has ended"});
}

// ---- the log ------------------------------------------------------------------------------------

static int64_t step_of_line(const char *line) {
  const char *key = strstr(line, "\"step\":");
  return key ? strtoll(key + 7, NULL, 10) : -1;
}

// The lines of the steps that the checkpoint knows; the others are run again.
static bool kept_lines(const loop *l, char **kept, size_t *size) {
  char *line = NULL;
  size_t room = 0;
  FILE *old = l->t->step ? fopen(l->log_path.text, "r") : NULL,
       *memory = open_memstream(kept, size);
  if (memory)
    while (old && getline(&line, &room, old) > 0)
      if (strchr(line, '\n') && step_of_line(line) >= 0 && step_of_line(line) < l->t->step)
        fputs(line, memory);
  if (old) fclose(old);
  free(line);
  return memory && !fclose(memory);
}

// Replaced as a whole: a kill at this moment leaves the old log or the new one.
static rec_status open_log(loop *l) {
  char *kept = NULL;
  size_t size = 0;
  const output_proof log = {.first = "{\"step\":"};
  rec_status status = whole_file_allowed(l->log_path.text, &log, l->s->options.again);
  if (!status)
    status = kept_lines(l, &kept, &size) ? whole_file_write(l->log_path.text, kept, size)
                                         : rec_no_memory();
  int handle = status ? -1 : open(l->log_path.text, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  if (!status && (handle < 0 || !(l->log = fdopen(handle, "a"))))
    status = rec_file_failed(l->log_path.text);
  free(kept);
  return status;
}

static void write_layers(const loop *l, const char *name, const double *norms) {
  fprintf(l->log, ",\"%s\":[", name);
  for (int i = 0; i < l->t->layer_count; i++) fprintf(l->log, "%s%.9g", i ? "," : "", norms[i]);
  fprintf(l->log, "]");
}

// A line that did not reach its file ends the block: the log of a finished one has all its steps.
static rec_status write_log(loop *l, const step_report *r, double seconds, const step_cost *cost) {
  const train_block *b = l->t->block;
  fprintf(l->log,
          "{\"step\":%" PRId64
          ",\"loss\":%.9g,\"bits_per_%s\":%.6f,\"lr\":%.9g,\"grad_norm\":%.6g,\"tokens\":%" PRId64
          ",\"tokens_per_second\":%.0f,\"carried\":%.4f",
          l->t->step - 1, r->loss, train_block_unit(b), r->loss / log(2), r->rate, r->gradient_norm,
          l->t->step * b->batch * b->context, (double)(b->batch * b->context) / seconds,
          r->drawn[FROM_STATE_PASSING] + r->drawn[FROM_TBTT]);
  fprintf(l->log, ",\"initial_state\":{");
  for (int k = 0, written = 0; k < INTERVENTION_KINDS; k++)
    if (r->drawn[k] > 0)
      fprintf(l->log, "%s\"%s\":%.4f", written++ ? "," : "", intervention_names[k], r->drawn[k]);
  fprintf(l->log, "}");
  if (l->t->carried) {
    fprintf(l->log, ",\"h0_norm\":%.9g,\"hT_norm\":%.9g", r->norm_before, r->norm_after);
    write_layers(l, "h0_norms", l->t->norms_before);
    write_layers(l, "hT_norms", l->t->norms_after);
    fprintf(l->log, ",\"age\":%.9g,\"oldest\":%.9g", r->age, r->oldest);
  }
  if (cost) step_cost_write(l->log, cost);
  fprintf(l->log, "}\n");
  if (fflush(l->log)) return rec_file_failed(l->log_path.text);
  return REC_OK;
}

static rec_status open_events(loop *l) {
  return events_open(session_path(l->s, NULL, l->t->block->name).text, l->t->step, &l->events);
}

// The same numbers for TensorBoard.
static rec_status write_events(loop *l, const step_report *r, double seconds) {
  const train_block *b = l->t->block;
  char bits[32];
  snprintf(bits, sizeof bits, "bits_per_%s", train_block_unit(b));
  const event_scalar scalars[] = {{"loss", r->loss},
                                  {bits, r->loss / log(2)},
                                  {"lr", r->rate},
                                  {"grad_norm", r->gradient_norm},
                                  {"tokens_per_second", (double)(b->batch * b->context) / seconds},
                                  {"h0_norm", r->norm_before},
                                  {"hT_norm", r->norm_after},
                                  {"age", r->age}};
  enum { ALL = sizeof scalars / sizeof *scalars, OF_STATES = 3 };
  return events_put(l->events, l->t->step - 1, scalars, l->t->carried ? ALL : ALL - OF_STATES);
}

// ---- checkpoints --------------------------------------------------------------------------------

// Numbers that are not finite must not replace good ones.
static rec_status check_weights(const loop *l) {
  const char *bad = trained_bad_weight(&l->t->of, l->t->weights);
  if (!bad) return REC_OK;
  return rec_fail(REC_ERROR_ARGUMENT,
                  "train %s: the weight %s is not finite after step %lld; a smaller lr may help",
                  l->t->block->name, bad, (long long)(l->t->step - 1));
}

// The new checkpoint takes the place of the last, which is kept under another name: if what is read
// back is damaged, it is there. Between the two calls it is the one that `resume` finds.
static rec_status replace_checkpoint(const loop *l) {
  bool kept = !rename(l->checkpoint.text, l->previous.text);
  if (!rename(l->fresh.text, l->checkpoint.text)) return REC_OK;
  rec_status status = rec_file_failed(l->checkpoint.text);
  return kept && rename(l->previous.text, l->checkpoint.text)
             ? rec_fail(REC_ERROR_FILE, "%s; the last checkpoint is %s", rec_message(),
                        l->previous.text)
             : status;
}

// The log reaches the disk before the checkpoint that counts on its lines.
static rec_status save_checkpoint(loop *l) {
  rec_status status = trainer_fetch(l->t);
  if (!status) status = check_weights(l);
  if (!status && is_first_rank(l) && (fsync(fileno(l->log)) || fflush(l->events)))
    status = rec_file_failed(l->log_path.text);
  status = agree(l, status);
  if (status) return status;
  l->last_checkpoint = clock_seconds(CLOCK_MONOTONIC);
  status = checkpoint_save(l->t, l->fresh.text);
  return status ? status : agree(l, is_first_rank(l) ? replace_checkpoint(l) : REC_OK);
}

// After a failure: which checkpoint there is.
static rec_status keep_checkpoint(const loop *l, rec_status status) {
  int64_t step, steps;
  char text[2048];
  snprintf(text, sizeof text, "%s", rec_message());
  const char *const files[] = {l->checkpoint.text, l->previous.text};
  for (int i = 0; i < 2; i++)
    if (rec_file_is_there(files[i]) && !checkpoint_progress(files[i], &step, &steps))
      return rec_fail(status, "%s; the checkpoint after %lld steps is kept", text, (long long)step);
  return rec_fail(status, "%s; no checkpoint was written yet", text);
}

static bool checkpoint_due(const loop *l) {
  int64_t every = l->s->options.checkpoint_steps;
  if (every > 0 && l->t->step % every == 0) return true;
  return clock_seconds(CLOCK_MONOTONIC) - l->last_checkpoint >= l->s->options.checkpoint_seconds;
}

// ---- a block ------------------------------------------------------------------------------------

// Rank 0 looks, for all.
static bool checkpoint_exists(const loop *l, const char *path) {
  const message_place place = {-1, -1, "which checkpoint there is"};
  return ranks_any(l->s->options.ranks, is_first_rank(l) && rec_file_is_there(path), place);
}

// "base 90abcdef..", with a checksum of the weights.
static rec_status name_start(loop *l, const train_block *before) {
  char sum[SEAL_TEXT];
  checkpoint_sum(&l->t->of, l->t->weights, sum);
  return asprintf(&l->began_from, "%s %s", before->name, sum) < 0 ? rec_no_memory() : REC_OK;
}

static rec_status load_start(loop *l, const train_block *before) {
  rec_status status = result_load_run(l->s, before, NULL, l->t->weights);
  if (!status) status = result_check_finite(l->s, before, l->t->weights);
  if (!status) status = result_check_alphabet(l->s, before, l->t->block, &l->data);
  return status ? status : name_start(l, before);
}

// The block before may have been removed since. What this run says of its start stands.
static rec_status keep_start(loop *l, const train_block *before) {
  const char *const files[] = {l->weights.text, l->checkpoint.text, l->previous.text};
  for (int i = 0; i < 3 && !l->began_from; i++) {
    char *found = NULL;
    if (!checkpoint_says(files[i], "rec.trained", &found) && found)
      l->began_from = identity_began_from(found);
    free(found);
  }
  if (is_first_rank(l))
    fprintf(stderr,
            "rec train: warning: %s has no run of '%s'; whether '%s' began from its weights is not "
            "known\n",
            l->s->options.runs, before->name, l->t->block->name);
  return REC_OK;
}

// The weights that the block begins with, if it does not go on, and what is known of them.
static rec_status begin_weights(loop *l, bool goes_on) {
  const train_block *b = l->t->block;
  const train_block *before = b->after ? train_program_block(l->s->program, b->after) : NULL;
  if (!before)
    return goes_on ? REC_OK
                   : train_weights_start(l->t->of.model, b->seed, l->t->of.n, l->t->weights);
  bool is_known =
      checkpoint_exists(l, result_path(l->s, before).text) ||
      checkpoint_exists(l, session_path(l->s, before->name, "checkpoint.safetensors").text);
  return is_known || !goes_on ? load_start(l, before) : keep_start(l, before);
}

// From the last checkpoint, or the one before it if the last is not there or cannot be read.
static rec_status resume(loop *l) {
  if (!checkpoint_exists(l, l->checkpoint.text)) return checkpoint_load(l->t, l->previous.text);
  rec_status status = checkpoint_load(l->t, l->checkpoint.text);
  if (status != REC_ERROR_FORMAT || !checkpoint_exists(l, l->previous.text)) return status;
  if (is_first_rank(l))
    fprintf(stderr, "rec train: %s; continues from the checkpoint before\n", rec_message());
  return checkpoint_load(l->t, l->previous.text);
}

// What a process that was killed had begun to write. The lock says that no other one writes here.
static void remove_parts(const char *folder) {
  DIR *entries = opendir(folder);
  for (struct dirent *e; entries && (e = readdir(entries));)
    if (output_is_part(e->d_name)) unlinkat(dirfd(entries), e->d_name, 0);
  if (entries) closedir(entries);
}

// Removes the files of an evaluation, which describe the model that is replaced.
static void remove_judgement(const char *folder) {
  events_remove_from(folder, 0);
  DIR *entries = opendir(folder);
  for (struct dirent *e; entries && (e = readdir(entries));)
    if (rec_ends_with(e->d_name, ".csv")) unlinkat(dirfd(entries), e->d_name, 0);
  if (entries) closedir(entries);
}

// Of a block that is trained again nothing stays, once it is known that it can be.
static rec_status remove_run(const loop *l) {
  const char *const files[] = {l->previous.text, l->checkpoint.text, l->weights.text};
  for (int i = 0; i < 3; i++)
    if (unlink(files[i]) && errno != ENOENT) return rec_file_failed(files[i]);
  for (int i = 0; i < l->s->program->evaluate_count; i++) {
    const evaluate_block *e = &l->s->program->evaluates[i];
    if (!strcmp(e->after, l->t->block->name))
      remove_judgement(session_path(l->s, NULL, e->name).text);
  }
  return REC_OK;
}

// A block that has its model is not trained again.
static rec_status stay(loop *l) {
  l->ended = true;
  l->t->step = l->t->block->steps;
  return agree(l, is_first_rank(l) ? checkpoint_check_result(l->t, l->weights.text) : REC_OK);
}

static rec_status set_run_identity(loop *l) {
  l->identity = identity_of(l->s, l->t->block, &l->data, l->began_from);
  l->t->identity = l->identity;
  l->t->characters = l->data.text.characters;
  return l->identity ? REC_OK : rec_no_memory();
}

static rec_status start_loop(loop *l) {
  bool ended = checkpoint_exists(l, l->weights.text),
       exists = checkpoint_exists(l, l->checkpoint.text) || checkpoint_exists(l, l->previous.text);
  bool goes_on = l->s->options.resume && (ended || exists);
  if (is_first_rank(l)) {
    remove_parts(l->s->options.runs);
    remove_parts(session_path(l->s, NULL, l->t->block->name).text);
  }
  rec_status status = agree(l, begin_weights(l, goes_on));
  if (!status) status = agree(l, set_run_identity(l));
  if (!status) status = agree(l, l->s->options.again && is_first_rank(l) ? remove_run(l) : REC_OK);
  return status || !goes_on ? status : ended ? stay(l) : resume(l);
}

static void announce_training(const loop *l) {
  const trainer_memory *m = &l->t->memory;
  const double mib = 1 << 20;
  int64_t text = train_data_memory(&l->data);
  char stepped_by[OPTIMIZER_TEXT];
  printf("train %s: %s, %" PRId64 " weights\n", l->t->block->name, l->t->of.model->text,
         l->t->of.model->weight_count);
  printf("  %s\n", optimizer_text(l->t->of.model, l->t->block, stepped_by));
  printf(
      "  memory %.1f MiB: weights %.1f, gradients %.1f, moments %.1f, activations %.1f, states "
      "%.1f, text %.1f\n",
      ((double)trainer_bytes(m) + (double)text) / mib, (double)m->weights / mib,
      (double)m->gradients / mib, (double)m->moments / mib, (double)m->activations / mib,
      (double)m->states / mib, ((double)m->data + (double)text) / mib);
  const struct gpu_place *gpu = l->s->gpu;
  if (gpu && gpu->driver) {
    printf("  on the GPU; matrix products by %s%s\n",
           gpu->blas.opened ? "cuBLAS" : "rec's own kernels, without cuBLAS: ", gpu->blas.why_not);
    if (*l->s->messages) printf("  messages between GPUs %s\n", l->s->messages);
  }
  if (m->spared)
    printf("  activations in bf16: %.1f MiB less than in f32; weights, gradients and moments f32\n",
           (double)m->spared / mib);
  chain_announce(stdout, &l->t->of, l->t->block);
  if (l->t->step) printf("  continues at step %" PRId64 "\n", l->t->step);
  fflush(stdout);
}

static rec_status log_step(loop *l, const step_report *report, double seconds) {
  step_cost cost;
  bool known = step_cost_measure(l->s->options.ranks, l->t->step, &l->costs, &cost);
  if (!is_first_rank(l)) return REC_OK;
  rec_status status = write_log(l, report, seconds, known ? &cost : NULL);
  return status ? status : write_events(l, report, seconds);
}

static rec_status run_train_step(loop *l, progress *bar, bool *stop) {
  step_report report;
  const double began = clock_seconds(CLOCK_MONOTONIC);
  rec_status status = trainer_step(l->t, &l->data, &report);
  if (status == TRAINER_STOPPED) return *stop = true, REC_OK;
  if (!status) status = log_step(l, &report, clock_seconds(CLOCK_MONOTONIC) - began);
  after_step found = after_step_any(
      l->s->options.ranks,
      (after_step){status != REC_OK, session_stop != 0, is_first_rank(l) && checkpoint_due(l)},
      l->t->step);
  if (found.failed) return agree(l, status);
  progress_step(bar, l->t->step, report.loss);
  *stop = found.stop;
  return l->t->step < l->t->block->steps && found.save ? save_checkpoint(l) : REC_OK;
}

static rec_status run_train_steps(loop *l, bool *stop) {
  const train_block *b = l->t->block;
  progress bar;
  rec_status status = REC_OK;
  progress_open(&bar, b->name, l->t->step, b->steps, b->batch * b->context, train_block_unit(b));
  l->last_checkpoint = clock_seconds(CLOCK_MONOTONIC);
  step_cost_measure(l->s->options.ranks, l->t->step, &l->costs, &(step_cost){0});
  while (!status && l->t->step < b->steps && !*stop) status = run_train_step(l, &bar, stop);
  progress_close(&bar);
  return status;
}

static rec_status open_loop(loop *l, const train_block *block) {
  session *s = l->s;
  trained_model of = session_model(s, block);
  l->checkpoint = session_path(s, block->name, "checkpoint.safetensors");
  l->previous = session_path(s, block->name, "checkpoint.previous.safetensors");
  l->fresh = session_path(s, block->name, "checkpoint.new");
  l->weights = session_path(s, block->name, "model.safetensors");
  l->log_path = session_path(s, block->name, "log.jsonl");
  rec_status status = session_open_data(s, block, &l->data);
  if (!status && is_first_rank(l)) status = session_make_folder(s, block->name);
  status = agree(l, status);
  const trainer_settings settings = {s->options.threads, s->options.under_way, s->options.ranks,
                                     &session_stop};
  if (!status) status = trainer_new(of, block, &settings, &l->t);
  status = agree(l, status);
  if (!status) status = start_loop(l);
  if (!status) status = trainer_place(l->t);
  if (!status && is_first_rank(l)) status = open_log(l);
  return agree(l, status);
}

static void close_training(loop *l) {
  if (l->log) fclose(l->log);
  if (l->events) fclose(l->events);
  trainer_free(l->t);
  train_data_close(&l->data);
  free(l->identity);
  free(l->began_from);
}

rec_status session_check_new(const session *s, const train_block *block) {
  static const char *const files[] = {"checkpoint.safetensors", "checkpoint.previous.safetensors",
                                      "model.safetensors"};
  rec_status status = REC_OK;
  for (int i = 0; !status && i < 3; i++) {
    file_path path = session_path(s, block->name, files[i]);
    int64_t step = 0, steps = 0;
    char done[64] = "";
    bool exists = rec_file_is_there(path.text);
    if (exists && !checkpoint_progress(path.text, &step, &steps))
      snprintf(done, sizeof done, " after %" PRId64 " of %" PRId64 " steps", step, steps);
    if (exists)
      status = rec_fail(
          REC_ERROR_ARGUMENT,
          "expected no run of the block '%s' in %s, found %s%s; --resume goes on from there, "
          "--runs DIR trains in another folder, --again in this one, where the old run is lost",
          block->name, s->options.runs, path.text, done);
  }
  return status;
}

static bool is_stopped(const loop *l) {
  return ranks_any(l->s->options.ranks, session_stop != 0,
                   (message_place){l->t->step, -1, "whether all go on"});
}

// The steps, and what a block leaves. The weights come last, for they say that the block has ended: a
// kill before them leaves a checkpoint that `resume` goes on from.
static rec_status run_train_block(loop *l, bool *stop) {
  const bool first = is_first_rank(l);
  rec_status status = agree(l, first ? open_events(l) : REC_OK);
  *stop = is_stopped(l);
  if (!status) status = run_train_steps(l, stop);
  if (status) return status;
  status = trainer_fetch(l->t);
  status = agree(l, status ? status : check_weights(l));
  bool done = l->t->step == l->t->block->steps;
  if (!status) status = save_checkpoint(l);
  if (!status && done)
    status = checkpoint_save_weights(&l->t->of, l->t->weights, l->t, l->weights.text);
  if (!status && done && first) unlink(l->previous.text);
  *stop |= is_stopped(l);
  return status;
}

// What the first signal says. Time ranks end their step, for they wait for each other. A bar on the
// terminal ends its line first.
static const char *stop_line(const loop *l, char to[256]) {
  snprintf(to, 256,
           "%srec train: ends after the %s at hand, with a checkpoint; a second signal ends it at "
           "once, without one\n",
           isatty(STDOUT_FILENO) && isatty(STDERR_FILENO) ? "\n" : "",
           ranks_time_count(l->s->options.ranks) > 1 ? "step" : "part");
  return is_first_rank(l) ? to : NULL;
}

rec_status session_train(session *s, const train_block *block, bool *stopped) {
  loop l = {.s = s};
  char said[256];
  *stopped = false;
  rec_status status = open_loop(&l, block);
  if (!status && l.ended) {
    printf("train %s: all of its %" PRId64 " steps are done\n", block->name, block->steps);
  } else if (!status) {
    session_catch_signals(s, true, stop_line(&l, said));
    announce_training(&l);
    status = run_train_block(&l, stopped);
    if (status) status = keep_checkpoint(&l, status);
    session_catch_signals(s, false, NULL);
  }
  close_training(&l);
  return status;
}
