// Has .rec files, and the source that libraries carry, compiled by recc.
//
// The library is made in a private folder under $TMPDIR and loaded. Then the folder goes: at once,
// on errors, and on signals that end the program. These are blocked while the folder is there, and
// taken one by one while recc runs, so nothing is done inside a handler.
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/abi/json.h"
#include "compiler/abi/launch.h"
#include "compiler/base/program.h"
#include "runtime/command/command.h"
#include "runtime/device.h"
#include "runtime/module.h"
#include "runtime/ranks/ranks.h"
#include "runtime/support/cpu.h"
#include "runtime/train/report/whole_file.h"

extern char **environ;

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { ENDING_SIGNALS = sizeof ending_signals / sizeof *ending_signals };

static void block_ending_signals(sigset_t *before) {
  sigset_t ending;
  sigemptyset(&ending);
  for (int i = 0; i < ENDING_SIGNALS; i++) sigaddset(&ending, ending_signals[i]);
  sigprocmask(SIG_BLOCK, &ending, before);
}

static void remove_folder(const char *folder) {
  DIR *list = opendir(folder);
  for (struct dirent *entry; list && (entry = readdir(list));)
    unlinkat(dirfd(list), entry->d_name, 0);
  if (list) closedir(list);
  rmdir(folder);
}

static bool make_build_folder(char *folder, size_t size) {
  const char *parent = getenv("TMPDIR");
  if (!parent || !*parent) parent = "/tmp";
  return snprintf(folder, size, "%s/rec.XXXXXX", parent) < (int)size && mkdtemp(folder);
}

// Waits for the child; a signal that would end this program ends the child first.
static int wait_for_child(pid_t child, const sigset_t *signals, int *ending_signal) {
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    int number = sigwaitinfo(signals, NULL);
    if (number <= 0 || number == SIGCHLD) continue;
    *ending_signal = number;
    kill(child, SIGTERM);
    waitpid(child, &status, 0);
    break;
  }
  return status;
}

// Runs a program to its end. Returns its exit status; 128 + n after signal n; -1 if it cannot be
// started.
static int run_program(char **program, int *ending_signal) {
  sigset_t taken, before, of_child;
  sigemptyset(&taken);
  sigaddset(&taken, SIGCHLD);
  for (int i = 0; i < ENDING_SIGNALS; i++) sigaddset(&taken, ending_signals[i]);
  struct sigaction usual = {.sa_handler = SIG_DFL}, child_before;
  sigaction(SIGCHLD, &usual, &child_before);  // were it ignored, there would be nothing to wait for
  sigprocmask(SIG_BLOCK, &taken, &before);
  of_child = before;
  for (int i = 0; i < ENDING_SIGNALS; i++) sigdelset(&of_child, ending_signals[i]);
  sigaddset(&of_child, SIGUSR1);  // launchers send it to the group of a rank; it is for the rank
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &of_child);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child;
  int error = posix_spawn(&child, program[0], NULL, &attributes, program, environ), status = 0;
  if (!error) status = wait_for_child(child, &taken, ending_signal);
  posix_spawnattr_destroy(&attributes);
  sigprocmask(SIG_SETMASK, &before, NULL);
  sigaction(SIGCHLD, &child_before, NULL);
  errno = error;
  if (error) return -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// What one run of recc makes a library of.
typedef struct compilation {
  const module_request *request;
  const char *input, *from, *exported;  // the last two: NULL, or the words of --from= and --export
} compilation;

// recc and LLVM do not even start in less.
static bool has_room_for_recc(const char *command) {
  enum { LEAST_MIB = 256 };
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur >> 20 >= LEAST_MIB)
    return true;
  fprintf(stderr,
          "rec %s: expected %d MiB of memory for recc, found a limit of %llu (ulimit -v); raise "
          "it, or give a library that is compiled\n",
          command, LEAST_MIB, (unsigned long long)limit.rlim_cur >> 20);
  return false;
}

// The kind of processor that this machine has, or that REC_CPU names. Code for all kinds would take
// three times as long to compile. Ranks share one library, and their machines may be of several
// kinds.
static const char *target_here(const ranks *job) {
#if defined(__x86_64__)
  static const char *const targets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4",
                                        "x86-64-v4,x86-64-v4-bf16"};
  int clone;
  if (!job && !rec_cpu_clone(&clone)) return targets[clone];
#endif
  (void)job;
  return "host";
}

static int compile_into(const compilation *c, const char *library) {
  const module_request *request = c->request;
  char recc[PATH_MAX];
  if (!has_room_for_recc(request->command)) return EXIT_USAGE;
  if (!find_recc(request->command, recc, sizeof recc)) return EXIT_USAGE;
  // A library that is compiled again keeps its targets.
  const char *target = request->target ? request->target
                       : c->from       ? NULL
                                       : target_here(request->ranks);
  const char *const options[][2] = {{"--from", c->from},
                                    {"--export", c->exported},
                                    {"--dtype", request->dtype},
                                    {"--target", target}};
  enum { OPTIONS = sizeof options / sizeof *options };
  const char **list = calloc(
      (size_t)(5 + 2 * (OPTIONS + request->define_count) + request->recc_word_count), sizeof *list);
  if (!list) return EXIT_USAGE;
  int count = 0;
  list[count++] = recc;
  list[count++] = c->input;
  list[count++] = "-o";
  list[count++] = library;
  for (int i = 0; i < OPTIONS; i++)
    if (options[i][1]) list[count++] = options[i][0], list[count++] = options[i][1];
  for (int i = 0; i < request->define_count; i++)
    list[count++] = "-D", list[count++] = request->defines[i];
  for (int i = 0; i < request->recc_word_count; i++) list[count++] = request->recc_words[i];
  int ending_signal = 0, status = run_program((char **)list, &ending_signal);
  free(list);
  if (status < 0) fprintf(stderr, "rec %s: %s: %s\n", request->command, recc, strerror(errno));
  if (status > 128 && !ending_signal)
    fprintf(stderr, "rec %s: %s ended with signal %d\n", request->command, recc, status - 128);
  if (ending_signal) raise(ending_signal);  // ends this program once the folder is gone
  return status ? EXIT_USAGE : 0;
}

static rec_variant variant_of(const module_request *request) {
  return (rec_variant){request->dtype, request->defines, request->define_count, request->name,
                       request->inputs};
}

// Who asks for mamba2 means the file of the standard library, which is std.mamba2.
static rec_status fail_no_library(const module_request *request, rec_status status) {
  arena *a = arena_new();
  const char *meant = program_meant(a, embedded_stdlib, request->file);
  if (meant)
    status = rec_fail(REC_ERROR_FILE, "%s: no such file; the standard library's is %s",
                      request->file, meant);
  arena_free(a);
  return status;
}

static int open_variant(const module_request *request, const char *library, rec_module **module) {
  rec_variant variant = variant_of(request);
  rec_status status = rec_module_open_variant(library, &variant, module);
  if (status && library == request->file) status = fail_no_library(request, status);
  return report_agreed(request->ranks, request->command, status);
}

static int make_library(const module_request *request, const rec_module *carrier, bool exported,
                        const char *library) {
  compilation c = {request, request->file, NULL, exported ? request->name : NULL};
  file_path manifest = rec_path("%s.json", library);
  if (carrier) {
    c.input = manifest.text;
    c.from = "manifest";
    const char *text = rec_module_manifest(carrier);
    if (whole_file_write(manifest.text, text, strlen(text)))
      return report_failure(request->command);
  }
  return compile_into(&c, library);
}

// The library of rank 0 goes to the same file of the others, so that all machines run the same
// code, and one of them compiles it.
static int share_library(ranks *job, const char *command, const char *library) {
  message_place place = {-1, -1, "the compiled library"};
  bool first = ranks_number(job) == 0;
  rec_mapping made = {0};
  int status = report_agreed(job, command, first ? rec_map(library, &made) : REC_OK);
  if (status) return status;
  int64_t size = (int64_t)made.size;
  ranks_broadcast(job, 0, &size, sizeof size, place);
  void *bytes = first ? (void *)(uintptr_t)made.bytes : malloc((size_t)size + 1);
  status = report_agreed(job, command, bytes ? REC_OK : rec_no_memory());
  if (!status) ranks_broadcast(job, 0, bytes, size, place);
  if (!status)
    status = report_agreed(job, command,
                           first ? REC_OK : whole_file_write(library, bytes, (size_t)size));
  if (first)
    rec_unmap(&made);
  else
    free(bytes);
  return status;
}

static int make_shared_library(const module_request *request, const rec_module *carrier,
                               bool exported, const char *library) {
  ranks *job = request->ranks;
  int status = ranks_number(job) ? 0 : make_library(request, carrier, exported, library);
  if (ranks_any(job, status != 0, (message_place){-1, -1, "the compiler"})) return EXIT_USAGE;
  return job ? share_library(job, request->command, library) : 0;
}

// Compiles the file, or what `carrier` carries.
static int compile(const module_request *request, const rec_module *carrier, bool exported,
                   rec_module **module) {
  char folder[PATH_MAX];
  sigset_t before;
  block_ending_signals(&before);
  bool made = make_build_folder(folder, sizeof folder);
  rec_status failed =
      made ? REC_OK
           : rec_fail(REC_ERROR_FILE, "cannot make a temporary folder: %s", strerror(errno));
  file_path library = rec_path("%s/library.so", folder);
  int status = report_agreed(request->ranks, request->command, failed);
  if (status == 0) status = make_shared_library(request, carrier, exported, library.text);
  if (status == 0) status = open_variant(request, library.text, module);
  if (made) remove_folder(folder);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return status;
}

module_request module_request_of(const words *w) {
  return (module_request){.command = w->command,
                          .defines = w->module_words,
                          .recc_words = w->module_words + w->count + 1,
                          .device = REC_DEVICE_HOST};
}

bool is_source(const char *file) {
  return program_standard_name(file) || (strlen(file) > 4 && rec_ends_with(file, ".rec"));
}

// In place of the library itself: one that is made from its source, as asked for.
static int compile_again(const module_request *request, bool exported, rec_module **module) {
  rec_module *carrier = *module;
  *module = NULL;
  int status = compile(request, carrier, exported, module);
  rec_module_close(carrier);
  return status;
}

static int open_module_source(const module_request *request, rec_module **module) {
  rec_dtype dtype = REC_F32;
  if (request->dtype) rec_number_type(request->dtype, &dtype);
  rec_status status = rec_module_open_source(request->file, request->defines, request->define_count,
                                             dtype, stderr, module);
  if (status == REC_ERROR_FORMAT) return EXIT_USAGE;  // the program's errors are printed already
  return status ? report_failure(request->command) : 0;
}

// A GPU runs what was compiled for sm_80, too: a library is made again for it only if it has
// neither.
static bool has_target(const rec_module *module, const char *target) {
  return rec_module_has_target(module, target) ||
         (strncmp(target, "sm_", 3) == 0 && rec_module_has_target(module, "sm_80"));
}

// Of a library with variants: which one is taken, where nothing tells.
static void tell_variant(const module_request *request, const rec_module *module) {
  if (ranks_number(request->ranks) || !rec_module_is_ambiguous(module)) return;
  const cJSON *types = json_get(module->json, "dtypes"), *item;
  fprintf(stderr, "rec %s: %s has several variants; taken is", request->command, request->file);
  if (cJSON_GetArraySize(types) > 1) fprintf(stderr, " --dtype %s", rec_number_text(module->dtype));
  for (int i = 0; i < module->pick_count; i++)
    fprintf(stderr, " -D %s=%lld", module->picks[i].name, (long long)module->picks[i].size);
  fprintf(stderr, " of");
  const char *separator = " --dtype ";
  if (cJSON_GetArraySize(types) > 1) {
    cJSON_ArrayForEach(item, types) {
      if (cJSON_IsString(item)) fprintf(stderr, "%s%s", separator, item->valuestring);
      separator = ",";
    }
  }
  cJSON_ArrayForEach(item, json_get(module->json, "defines")) {
    if (cJSON_IsString(item) && strchr(item->valuestring, ','))
      fprintf(stderr, " -D %s", item->valuestring);
  }
  fprintf(stderr, "\n");
}

int open_module(const module_request *request, rec_module **module) {
  *module = NULL;
  bool program = is_source(request->file);
  if (program && request->reference) return open_module_source(request, module);
  int status = 0;
  if (program)
    status = compile(request, NULL, false, module);
  else
    status = open_variant(request, request->file, module);
  rec_variant variant = variant_of(request);
  if (request->run_time_defines) variant.define_count = 0;
  bool otherwise = request->recc_word_count || (status == 0 && !rec_module_is(*module, &variant));
  if (status == 0 && !program && request->target)
    otherwise |= !has_target(*module, request->target);
  if (status == 0 && !program && otherwise) status = compile_again(request, false, module);
  bool lacks = status == 0 && request->name && !rec_module_find(*module, request->name);
  if (lacks && rec_module_knows(*module, request->name))
    status = compile_again(request, true, module);
  if (status == 0) tell_variant(request, *module);
  return status;
}

const rec_recurrence *choose_recurrence(const char *command, const char *file,
                                        const rec_module *module, const char *name) {
  int count = rec_module_count(module);
  const rec_recurrence *found = NULL;
  if (name)
    found = rec_module_find(module, name);
  else if (count == 1)
    found = rec_module_recurrence(module, 0);
  if (found) return found;
  if (count == 0) {
    fprintf(stderr, "rec %s: %s holds no recurrence\n", command, file);
    return NULL;
  }
  fprintf(stderr, "rec %s: %s: expected a recurrence among", command, file);
  for (int i = 0; i < count; i++) {
    const rec_signature *s = rec_recurrence_signature(rec_module_recurrence(module, i));
    fprintf(stderr, "%s %s", i ? "," : "", s->name);
  }
  if (name)
    fprintf(stderr, "; found `%s`\n", name);
  else
    fprintf(stderr, "; found no name\n");
  return NULL;
}
