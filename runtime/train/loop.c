// A train block from its first to its last step: log, checkpoints, signals, what the user sees.
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/shared/clock.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/identity.h"
#include "runtime/train/model/gpu_place.h"
#include "runtime/train/model/optimizer.h"
#include "runtime/train/model/weights.h"
#include "runtime/train/report/events.h"
#include "runtime/train/report/progress.h"
#include "runtime/train/report/whole_file.h"
#include "runtime/train/session.h"

typedef struct loop {
  session *s;
  trainer *t;
  train_data data;
  file_path checkpoint, fresh, previous, weights, log_path;
  char *identity;
  FILE *log, *events;
  double last_checkpoint;
} loop;

// ---- the log ------------------------------------------------------------------------------------

static int64_t step_of_line(const char *line) {
  const char *key = strstr(line, "\"step\":");
  return key ? strtoll(key + 7, NULL, 10) : -1;
}

// The lines of the steps that the checkpoint knows; the others are run again.
static bool kept_lines(const loop *l, char **kept, size_t *size) {
  char *line = NULL;
  size_t room = 0;
  FILE *old = l->t->step ? fopen(l->log_path.text, "r") : NULL, *memory = open_memstream(kept, size);
  if (memory)
    while (old && getline(&line, &room, old) > 0)
      if (strchr(line, '\n') && step_of_line(line) >= 0 && step_of_line(line) < l->t->step) fputs(line, memory);
  if (old) fclose(old);
  free(line);
  return memory && !fclose(memory);
}

// Replaced as a whole: a kill at this moment leaves the old log or the new one.
static rec_status open_log(loop *l) {
  char *kept = NULL;
  size_t size = 0;
  rec_status status = kept_lines(l, &kept, &size) ? whole_file_write(l->log_path.text, kept, size) : rec_no_memory();
  if (!status && !(l->log = fopen(l->log_path.text, "a"))) status = rec_file_failed(l->log_path.text);
  free(kept);
  return status;
}

static void write_layers(const loop *l, const char *name, const double *norms) {
  fprintf(l->log, ",\"%s\":[", name);
  for (int i = 0; i < l->t->layer_count; i++) fprintf(l->log, "%s%.9g", i ? "," : "", norms[i]);
  fprintf(l->log, "]");
}

// A line that did not reach its file ends the block: the log of a finished one has all its steps.
static rec_status write_log(loop *l, const step_report *r, double seconds) {
  const train_block *b = l->t->block;
  fprintf(l->log,
          "{\"step\":%" PRId64 ",\"loss\":%.9g,\"bits_per_byte\":%.6f,\"lr\":%.9g,\"grad_norm\":%.6g,\"tokens\":%" PRId64
          ",\"tokens_per_second\":%.0f,\"carried\":%.4f",
          l->t->step - 1, r->loss, r->loss / log(2), r->rate, r->gradient_norm, l->t->step * b->batch * b->context,
          (double)(b->batch * b->context) / seconds, r->drawn[FROM_STATE_PASSING] + r->drawn[FROM_TBTT]);
  fprintf(l->log, ",\"initial_state\":{");
  for (int k = 0, written = 0; k < INTERVENTION_KINDS; k++)
    if (r->drawn[k] > 0) fprintf(l->log, "%s\"%s\":%.4f", written++ ? "," : "", intervention_names[k], r->drawn[k]);
  fprintf(l->log, "}");
  if (l->t->carried) {
    fprintf(l->log, ",\"h0_norm\":%.9g,\"hT_norm\":%.9g", r->norm_before, r->norm_after);
    write_layers(l, "h0_norms", l->t->norms_before);
    write_layers(l, "hT_norms", l->t->norms_after);
    fprintf(l->log, ",\"age\":%.9g,\"oldest\":%.9g", r->age, r->oldest);
  }
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
  const event_scalar scalars[] = {{"loss", r->loss},
                                  {"bits_per_byte", r->loss / log(2)},
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
  const char *bad = trainer_bad_weight(l->t);
  if (!bad) return REC_OK;
  return rec_fail(REC_ERROR_ARGUMENT, "train %s: the weight %s is not finite after step %lld; a smaller lr may help",
                  l->t->block->name, bad, (long long)(l->t->step - 1));
}

// The new checkpoint takes the place of the last, which is kept under another name: if what is read back is damaged, it is there.
// Between the two calls it is the one that `resume` finds.
static rec_status replace_checkpoint(const loop *l) {
  bool kept = !rename(l->checkpoint.text, l->previous.text);
  if (!rename(l->fresh.text, l->checkpoint.text)) return REC_OK;
  rec_status status = rec_file_failed(l->checkpoint.text);
  return kept && rename(l->previous.text, l->checkpoint.text)
             ? rec_fail(REC_ERROR_FILE, "%s; the last checkpoint is %s", rec_message(), l->previous.text)
             : status;
}

// The log reaches the disk before the checkpoint that counts on its lines.
static rec_status save(loop *l) {
  rec_status status = trainer_fetch(l->t);
  if (!status) status = check_weights(l);
  if (status) return status;
  if (fsync(fileno(l->log)) || fflush(l->events)) return rec_file_failed(l->log_path.text);
  l->last_checkpoint = clock_seconds(CLOCK_MONOTONIC);
  status = checkpoint_save(l->t, l->fresh.text);
  return status ? status : replace_checkpoint(l);
}

// After a failure: which checkpoint there is.
static rec_status keep_checkpoint(const loop *l, rec_status status) {
  int64_t step, steps;
  char message[2048];
  snprintf(message, sizeof message, "%s", rec_message());
  if (access(l->checkpoint.text, R_OK) || checkpoint_progress(l->checkpoint.text, &step, &steps))
    return rec_fail(status, "%s; no checkpoint was written yet", message);
  return rec_fail(status, "%s; the checkpoint after %lld steps is kept", message, (long long)step);
}

static bool checkpoint_due(const loop *l) {
  int64_t every = l->s->options.checkpoint_steps;
  if (every > 0 && l->t->step % every == 0) return true;
  return clock_seconds(CLOCK_MONOTONIC) - l->last_checkpoint >= l->s->options.checkpoint_seconds;
}

// ---- a block ------------------------------------------------------------------------------------

static rec_status start_weights(loop *l) {
  const train_block *b = l->t->block;
  const train_block *before = b->after ? train_program_block(l->s->program, b->after) : NULL;
  if (before) return session_load_result(l->s, before, l->t->weights);
  return train_weights_start(l->t->of.model, b->seed, l->t->of.n, l->t->weights);
}

// From the last checkpoint, or the one before it if the last is not there or cannot be read.
static rec_status resume(loop *l) {
  if (access(l->checkpoint.text, R_OK)) return checkpoint_load(l->t, l->previous.text);
  rec_status status = checkpoint_load(l->t, l->checkpoint.text);
  if (status != REC_ERROR_FORMAT || access(l->previous.text, R_OK)) return status;
  fprintf(stderr, "rec train: %s; continues from the checkpoint before\n", rec_message());
  return checkpoint_load(l->t, l->previous.text);
}

// What a process that was killed had begun to write. The lock says that no other one writes here.
static void remove_parts(const loop *l) {
  DIR *entries = opendir(session_path(l->s, NULL, l->t->block->name).text);
  for (struct dirent *e; entries && (e = readdir(entries));)
    if (rec_ends_with(e->d_name, ".part")) unlinkat(dirfd(entries), e->d_name, 0);
  if (entries) closedir(entries);
}

// Of a block that is trained again nothing stays.
static rec_status remove_run(const loop *l) {
  const char *const files[] = {l->previous.text, l->checkpoint.text, l->weights.text};
  for (int i = 0; i < 3; i++)
    if (unlink(files[i]) && errno != ENOENT) return rec_file_failed(files[i]);
  return REC_OK;
}

static rec_status start(loop *l) {
  bool exists = !access(l->checkpoint.text, F_OK) || !access(l->previous.text, F_OK);
  remove_parts(l);
  if (l->s->options.resume && exists) return resume(l);
  rec_status status = l->s->options.again ? remove_run(l) : REC_OK;
  return status ? status : start_weights(l);
}

static void announce(const loop *l) {
  const trainer_memory *m = &l->t->memory;
  const double mib = 1 << 20;
  int64_t text = train_data_memory(&l->data);
  char stepped_by[OPTIMIZER_TEXT];
  printf("train %s: %s, %" PRId64 " weights\n", l->t->block->name, l->t->of.model->text, l->t->of.model->weight_count);
  printf("  %s\n", optimizer_text(l->t->of.model, l->t->block, stepped_by));
  printf("  memory %.1f MiB: weights %.1f, gradients %.1f, moments %.1f, activations %.1f, states %.1f, text %.1f\n",
         ((double)trainer_bytes(m) + (double)text) / mib, (double)m->weights / mib, (double)m->gradients / mib,
         (double)m->moments / mib, (double)m->activations / mib, (double)m->states / mib,
         ((double)m->data + (double)text) / mib);
  const struct gpu_place *gpu = l->s->gpu;
  if (gpu && gpu->driver)
    printf("  on the GPU; matrix products by %s%s\n",
           gpu->blas.opened ? "cuBLAS" : "rec's own kernels, without cuBLAS: ", gpu->blas.why_not);
  if (m->spared)
    printf("  activations in bf16: %.1f MiB less than in f32; weights, gradients and moments f32\n", (double)m->spared / mib);
  if (l->t->step) printf("  continues at step %" PRId64 "\n", l->t->step);
  fflush(stdout);
}

static rec_status run_steps(loop *l) {
  const train_block *b = l->t->block;
  progress bar;
  rec_status status = REC_OK;
  progress_open(&bar, b->name, l->t->step, b->steps, b->batch * b->context);
  l->last_checkpoint = clock_seconds(CLOCK_MONOTONIC);
  while (!status && l->t->step < b->steps && !session_stop) {
    step_report report;
    double began = clock_seconds(CLOCK_MONOTONIC);
    status = trainer_step(l->t, &l->data, &report);
    double seconds = clock_seconds(CLOCK_MONOTONIC) - began;
    if (!status) status = write_log(l, &report, seconds);
    if (!status) status = write_events(l, &report, seconds);
    if (status) break;
    progress_step(&bar, l->t->step, report.loss);
    if (l->t->step < b->steps && checkpoint_due(l)) status = save(l);
  }
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
  if (!status) status = session_make_folder(s, block->name);
  if (!status) status = trainer_new(of, block, s->options.threads, &l->t);
  if (!status && !(l->identity = identity_of(s, block, &l->data))) status = rec_no_memory();
  if (!status) l->t->characters = l->data.text.characters, l->t->identity = l->identity;
  if (!status) status = start(l);
  if (!status) status = trainer_place(l->t);
  if (!status) status = open_log(l);
  return status;
}

static void close_loop(loop *l) {
  if (l->log) fclose(l->log);
  if (l->events) fclose(l->events);
  trainer_free(l->t);
  train_data_close(&l->data);
  free(l->identity);
}

rec_status session_check_new(const session *s, const train_block *block) {
  static const char *const files[] = {"checkpoint.safetensors", "checkpoint.previous.safetensors", "model.safetensors"};
  rec_status status = REC_OK;
  for (int i = 0; !status && i < 3; i++) {
    file_path path = session_path(s, block->name, files[i]);
    int64_t step = 0, steps = 0;
    char done[64] = "";
    bool exists = !access(path.text, F_OK);
    if (exists && !checkpoint_progress(path.text, &step, &steps))
      snprintf(done, sizeof done, " after %" PRId64 " of %" PRId64 " steps", step, steps);
    if (exists)
      status = rec_fail(REC_ERROR_ARGUMENT,
                        "expected no run of the block '%s' in %s, found %s%s; --resume goes on from there, --runs DIR trains "
                        "in another folder, --again in this one, where the old run is lost",
                        block->name, s->options.runs, path.text, done);
  }
  return status;
}

rec_status session_train(session *s, const train_block *block, bool *stopped) {
  loop l = {.s = s};
  session_stop = 0;
  rec_status status = open_loop(&l, block);
  if (!status && l.t->step >= block->steps) {
    printf("train %s: all of its %" PRId64 " steps are done\n", block->name, block->steps);
  } else if (!status) {
    announce(&l);
    session_catch_signals(s, true);
    status = open_events(&l);
    if (!status) status = run_steps(&l);
    if (!status) status = trainer_fetch(l.t);
    if (!status) status = check_weights(&l);
    if (!status && l.t->step == block->steps)
      status = checkpoint_save_weights(&l.t->of, l.t->weights, l.data.text.characters, l.weights.text);
    if (!status) status = save(&l);
    if (!status && l.t->step == block->steps) unlink(l.previous.text);
    if (status) status = keep_checkpoint(&l, status);
    session_catch_signals(s, false);
  }
  *stopped = session_stop != 0;
  close_loop(&l);
  return status;
}
