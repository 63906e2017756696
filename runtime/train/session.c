#include "runtime/train/session.h"

#include <cblas.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/abi/clock.h"
#include "compiler/abi/json.h"
#include "runtime/machine.h"
#include "runtime/module.h"
#include "runtime/train/model/gpu_place.h"
#include "runtime/train/report/page.h"
#include "runtime/train/report/report.h"

static const compute *host_of(const session *s) {
  rec_dtype tokens = s->module->dtype;
  return tokens == REC_F64    ? &compute_host_f64
         : tokens == REC_BF16 ? &compute_host_bf16
                              : &compute_host_f32;
}

// All ranks take the same place: it decides bits. They come here whatever has failed on one of
// them.
static rec_status find_compute_place(session *s, rec_status status) {
  ranks *job = s->options.ranks;
  s->where = host_of(s);
  if (s->options.device == REC_DEVICE_HOST) return status;
  if (!status)
    status = gpu_place_open(s->options.device, ranks_local_number(job), s->module->dtype, &s->gpu);
  status = ranks_agree(job, status, (message_place){-1, -1, "whether all have a GPU"});
  if (!status) {
    s->where = &s->gpu->base;
    if (s->gpu->driver) ranks_join_gpus(job, s->messages, sizeof s->messages);
    return REC_OK;
  }
  gpu_place_close(s->gpu);
  s->gpu = NULL;
  if (status != REC_ERROR_DEVICE) return status;
  if (ranks_number(job) == 0) fprintf(stderr, "%s; models run on the CPU\n", rec_message());
  return REC_OK;
}

static rec_status find_kernels(session *s) {
  const train_program *p = s->program;
  s->kernels = calloc((size_t)p->kernel_count + 1, sizeof *s->kernels);
  s->host_kernels = calloc((size_t)p->kernel_count + 1, sizeof *s->host_kernels);
  if (!s->kernels || !s->host_kernels) return rec_no_memory();
  for (int i = 0; i < p->kernel_count; i++) {
    const rec_recurrence *r = rec_module_find(s->module, p->kernels[i]);
    if (!r || !r->forward)
      return rec_fail(REC_ERROR_FORMAT, "expected the recurrence '%s' in the library, found none",
                      p->kernels[i]);
    s->kernels[i] = execute_library_kernel(r, s->where->device);
    s->host_kernels[i] = execute_library_kernel(r, REC_DEVICE_HOST);
  }
  for (int i = 0; i < p->model_count; i++) {
    rec_status status = execute_check(&p->models[i], s->kernels);
    if (status) return status;
  }
  return REC_OK;
}

// The program with another seed in every block: a copy, since the module is not ours to change. A
// checkpoint's hash covers it, so that runs of two seeds are never mixed.
static rec_status reseed(session *s, const cJSON **json) {
  cJSON *block, *blocks;
  s->reseeded = cJSON_Duplicate(*json, true);
  *json = s->reseeded;
  if (!s->reseeded) return rec_no_memory();
  blocks = json_get(s->reseeded, "trains");
  cJSON_ArrayForEach(block, blocks) {
    cJSON *seed = cJSON_CreateNumber((double)s->options.seed);
    if (!seed || !cJSON_ReplaceItemInObjectCaseSensitive(block, "seed", seed))
      return rec_no_memory();
  }
  return REC_OK;
}

rec_status session_open(const rec_module *module, const session_options *options, session **made) {
  *made = NULL;
  const cJSON *json = json_get(module->json, "program");
  if (!cJSON_IsObject(json))
    return rec_fail(REC_ERROR_ARGUMENT, "%s: expected a program with a train block, found none",
                    module->source_count ? module->sources[0].path : module->path);
  session *s = calloc(1, sizeof *s);
  if (!s) return rec_no_memory();
  *s = (session){.module = module, .options = *options, .lock = -1};
  if (!s->options.runs) s->options.runs = "runs";
  if (s->options.checkpoint_seconds <= 0) s->options.checkpoint_seconds = 30;
  s->source_path = module->source_count ? module->sources[0].path : "";
  s->source_text = module->source_count ? module->sources[0].text : "";
  openblas_set_num_threads(1);  // threads are ours: results must not depend on their number
  rec_status status = rec_machine_threads(s->options.threads, &s->options.threads);
  if (!status && s->options.has_seed) status = reseed(s, &json);
  if (!status) status = train_program_read(json, &s->program);
  if (!status && module->dtype == REC_F16)
    status = rec_fail(REC_ERROR_UNSUPPORTED,
                      "expected a model in f32, f64 or bf16, found f16, which is too narrow for "
                      "gradients; compile it with --dtype bf16");
  status = find_compute_place(s, status);
  if (!status) status = find_kernels(s);
  if (status)
    session_close(s);
  else
    *made = s;
  return status;
}

void session_close(session *s) {
  if (!s) return;
  train_program_free(s->program);
  cJSON_Delete(s->reseeded);
  free(s->kernels);
  free(s->host_kernels);
  if (s->gpu) ranks_leave_gpus(s->options.ranks);
  gpu_place_close(s->gpu);
  if (s->lock >= 0) close(s->lock);
  free(s);
}

trained_model session_model(const session *s, const train_block *block) {
  return (trained_model){&s->program->models[block->model], s->kernels, s->where, s->where->n,
                         s->module->dtype == REC_F64 ? REC_F64 : REC_F32};
}

trained_model session_host_model(const session *s, const train_block *block) {
  trained_model of = session_model(s, block);
  of.kernels = s->host_kernels;
  of.where = host_of(s);
  return of;
}

// ---- signals ------------------------------------------------------------------------------------

volatile sig_atomic_t session_stop;

// What the handler reads.
static const char *volatile stop_said;
static atomic_llong stopped_at;  // in milliseconds

// timeout(1) and launchers send a signal to a process and to its group. Both come at once and are
// one wish.
enum { ONE_WISH_MS = 200 };

static long long milliseconds(void) { return (long long)(1e3 * clock_seconds(CLOCK_MONOTONIC)); }

static void write_signal_line(const char *line) {
  if (write(STDERR_FILENO, line, strlen(line)) < 0) return;  // nobody can be told
}

static void on_signal(int number) {
  const int error = errno;
  if (!session_stop) {
    session_stop = 1;
    stopped_at = milliseconds();
    if (stop_said) write_signal_line(stop_said);
  } else if (number != SIGUSR1 && milliseconds() - stopped_at >= ONE_WISH_MS) {
    if (stop_said) write_signal_line("rec: ended at once by a second signal\n");
    _exit(128 + number);
  }
  errno = error;
}

void session_catch_early(void) {
  sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL);
}

void session_catch_signals(session *s, bool on, const char *said) {
  struct sigaction action = {.sa_handler = on_signal};
  stop_said = said;
  sigaction(SIGINT, on ? &action : &s->old_interrupt, on ? &s->old_interrupt : NULL);
  sigaction(SIGTERM, on ? &action : &s->old_terminate, on ? &s->old_terminate : NULL);
  sigaction(SIGHUP, on ? &action : &s->old_hangup, on ? &s->old_hangup : NULL);
  if (on && s->old_hangup.sa_handler == SIG_IGN) sigaction(SIGHUP, &s->old_hangup, NULL);  // nohup
  sigaction(SIGUSR1, on ? &action : &s->old_user, on ? &s->old_user : NULL);
}

// ---- files --------------------------------------------------------------------------------------

// FILE in the folder of a path.
static file_path file_beside(const char *path, const char *file) {
  const char *slash = strrchr(path, '/');
  return rec_path("%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, file);
}

file_path session_data_path(const session *s, const train_block *block) {
  if (s->options.data || block->file[0] == '/')
    return rec_path("%s", s->options.data ? s->options.data : block->file);
  file_path beside_source = file_beside(s->source_path, block->file),
            beside_library = file_beside(s->module->path, block->file);
  return access(beside_source.text, R_OK) && !access(beside_library.text, R_OK) ? beside_library
                                                                                : beside_source;
}

rec_status session_open_data(const session *s, const train_block *block, train_data *data) {
  int64_t vocabulary = s->program->models[block->model].vocabulary;
  if (block->generated) return train_data_generate(&block->task, block->context, vocabulary, data);
  const train_windows windows = {block->context, block->batch, vocabulary};
  return train_data_open(session_data_path(s, block).text, &block->source, &windows, data);
}

file_path session_path(const session *s, const char *name, const char *file) {
  return name ? rec_path("%s/%s/%s", s->options.runs, name, file)
              : rec_path("%s/%s", s->options.runs, file);
}

// The number of the process that the file names is for the reader alone: the lock is the kernel's,
// and goes with its process.
static rec_status take_lock(session *s, const char *path) {
  char owner[24] = "";
  if (flock(s->lock, LOCK_EX | LOCK_NB) == 0) {
    int length = snprintf(owner, sizeof owner, "%ld\n", (long)getpid());
    if (ftruncate(s->lock, 0) || pwrite(s->lock, owner, (size_t)length, 0) != length)
      return rec_file_failed(path);
    return REC_OK;
  }
  if (errno != EWOULDBLOCK) return rec_file_failed(path);
  if (pread(s->lock, owner, sizeof owner - 1, 0) < 0) owner[0] = 0;
  owner[strcspn(owner, "\n")] = 0;
  return rec_fail(REC_ERROR_FILE,
                  "%s: expected no other process in this folder of runs, found process %s; wait "
                  "for its end, or choose another folder with --runs",
                  s->options.runs, *owner ? owner : "unknown");
}

// The folder may come from elsewhere. take_lock writes the number of a process, so a longer file is
// no lock.
static rec_status check_lock(const session *s, const char *path) {
  enum { LONGEST = 24 };
  struct stat about;
  if (fstat(s->lock, &about)) return rec_file_failed(path);
  if (S_ISREG(about.st_mode) && about.st_size < LONGEST) return REC_OK;
  return rec_fail(REC_ERROR_FILE, "%s: expected the lock of a folder of runs, found another file",
                  path);
}

static rec_status lock_failed(const char *path) {
  if (errno != ELOOP) return rec_file_failed(path);
  return rec_fail(REC_ERROR_FILE, "%s: expected the lock of a folder of runs, found a link", path);
}

rec_status session_lock(session *s, bool make_folder) {
  if (make_folder && mkdir(s->options.runs, 0777) && errno != EEXIST)
    return rec_file_failed(s->options.runs);
  file_path path = session_path(s, NULL, "lock");
  s->lock = open(path.text, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (s->lock < 0) return make_folder || errno != ENOENT ? lock_failed(path.text) : REC_OK;
  rec_status status = check_lock(s, path.text);
  return status ? status : take_lock(s, path.text);
}

rec_status session_make_folder(const session *s, const char *name) {
  struct stat about;
  file_path path = session_path(s, NULL, name);
  bool good = (!mkdir(s->options.runs, 0777) || errno == EEXIST) &&
              (!mkdir(path.text, 0777) || errno == EEXIST);
  if (!good || lstat(path.text, &about)) return rec_file_failed(path.text);
  if (S_ISDIR(about.st_mode)) return REC_OK;
  return rec_fail(REC_ERROR_FILE, "%s: expected a folder, found a %s", path.text,
                  S_ISLNK(about.st_mode) ? "link" : "file");
}

// A folder that has no page has no pictures of rec either.
static rec_status check_pictures(const session *s) {
  rec_status status = REC_OK;
  for (int i = 0; i < PICTURES && !status; i++)
    status = plot_allowed(&pictures[i], s->options.runs, s->options.again);
  return status;
}

rec_status session_check_report(const session *s) {
  const output_proof page = {.first = PAGE_BEGIN};
  file_path path = session_path(s, NULL, "report.html");
  if (access(path.text, F_OK)) return check_pictures(s);
  if (!whole_file_allowed(path.text, &page, s->options.again)) return REC_OK;
  return rec_fail(REC_ERROR_FILE,
                  "%s: expected the page of a folder of runs, found another file; move it, or "
                  "choose another folder with --runs",
                  path.text);
}

rec_status session_report(const session *s) {
  return report_write(
      &(report_source){s->program, s->options.runs, s->source_path, s->source_text});
}
