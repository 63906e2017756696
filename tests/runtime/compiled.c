#include "tests/runtime/compiled.h"

#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char folder[] = "/tmp/rec_test.XXXXXX";
static bool folder_made;
static int check_count, failure_count;

static void remove_folder(void) {
  DIR *list = opendir(folder);
  for (struct dirent *entry; list && (entry = readdir(list));)
    unlinkat(dirfd(list), entry->d_name, 0);
  if (list) closedir(list);
  rmdir(folder);
}

static void make_folder(void) {
  if (folder_made) return;
  if (!mkdtemp(folder)) abort();
  folder_made = true;
  atexit(remove_folder);
}

// Where recc's messages go: warnings are not what these tests are about.
static const char *messages_of(const char *library) {
  static char path[80];
  snprintf(path, sizeof path, "%s.txt", library);
  return path;
}

// Runs on devices with the shared memory that all have do not need the kernels for larger ones.
static bool needs_large_kernels(const char *const *options) {
  for (int i = 0; options && options[i]; i++)
    if (!strcmp(options[i], simt_target())) return false;
  return true;
}

// An option of the test replaces what stands here.
static int start(const char *path, const char *library, const char *const *options) {
  char whole[512];
  snprintf(whole, sizeof whole, "%s%s", *path == '/' ? "" : REC_SOURCE_DIR "/", path);
  const char *words[36] = {REC_BINARY_DIR "/bin/recc",
                           whole,
                           "-o",
                           library,
                           "--ptxas",
                           "none",
                           "--target",
                           host_target()};
  int count = 8;
  if (!needs_large_kernels(options)) {
    words[count++] = "--without";
    words[count++] = "gpu-large";
  }
  for (int i = 0; options && options[i] && i < 25; i++) words[count++] = options[i];
  pid_t child;
  posix_spawn_file_actions_t files;
  if (posix_spawn_file_actions_init(&files)) return -1;
  int failed = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, messages_of(library),
                                                O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!failed) failed = posix_spawn(&child, words[0], &files, NULL, (char **)words, environ);
  posix_spawn_file_actions_destroy(&files);
  return failed ? -1 : child;
}

static void show_messages(const char *library) {
  char line[1024];
  FILE *file = fopen(messages_of(library), "r");
  while (file && fgets(line, sizeof line, file)) fputs(line, stderr);
  if (file) fclose(file);
}

static bool succeeded(int child, const char *path, const char *library) {
  int status;
  bool well = child >= 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
              !WEXITSTATUS(status);
  if (!well) {
    show_messages(library);
    fprintf(stderr, "recc failed on %s\n", path);
  }
  unlink(messages_of(library));
  return well;
}

static rec_module *opened(const char *library) {
  rec_module *module = NULL;
  if (rec_module_open(library, &module)) fprintf(stderr, "%s\n", rec_message());
  return module;
}

// Waits for recc and opens what it made.
static rec_module *finish(int child, const char *path, const char *library) {
  rec_module *module = succeeded(child, path, library) ? opened(library) : NULL;
  unlink(library);
  return module;
}

static int next_number(void) {
  static int number;
  return number++;
}

rec_module *compile_file(const char *path, const char *const *options) {
  char library[64];
  make_folder();
  snprintf(library, sizeof library, "%s/library%d.so", folder, next_number());
  return finish(start(path, library, options), path, library);
}

const char *compile_foreign(const char *path, const char *const *options) {
  static char library[64];
  make_folder();
  snprintf(library, sizeof library, "%s/library%d.so", folder, next_number());
  return succeeded(start(path, library, options), path, library) ? library : NULL;
}

static bool copy_file(const char *from, const char *to) {
  char block[1 << 16];
  FILE *source = fopen(from, "rb"), *target = fopen(to, "wb");
  bool whole = source && target;
  for (size_t size; whole && (size = fread(block, 1, sizeof block, source)) > 0;)
    whole = fwrite(block, 1, size, target) == size;
  if (source) fclose(source);
  return target && fclose(target) == 0 && whole;
}

bool compile_copies(const char *path, const char *const *options, rec_module **modules, int count) {
  char library[64], copy[64];
  make_folder();
  snprintf(library, sizeof library, "%s/library%d.so", folder, next_number());
  bool all = succeeded(start(path, library, options), path, library);
  for (int i = 0; i < count; i++) {
    snprintf(copy, sizeof copy, "%s/library%d.so", folder, next_number());
    modules[i] = all && copy_file(library, copy) ? opened(copy) : NULL;
    all = all && modules[i];
    unlink(copy);
  }
  unlink(library);
  return all;
}

static const char *const kinds_of_processor[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

// The kind of processor that a library chooses at run time.
static int newest_kind(void) {
  const char *asked = getenv("REC_CPU");
  if (asked && asked[0] == 'v' && asked[1] >= '2' && asked[1] <= '4') return asked[1] - '2';
  return __builtin_cpu_supports("x86-64-v4") ? 2 : __builtin_cpu_supports("x86-64-v3") ? 1 : 0;
}

const char *host_target(void) { return kinds_of_processor[newest_kind()]; }

const char *simt_target(void) {
  static const char *const targets[] = {"simt,x86-64-v2", "simt,x86-64-v3", "simt,x86-64-v4"};
  return targets[newest_kind()];
}

const char *simt_90a_target(void) {
  static const char *const targets[] = {"simt,sm_90a,x86-64-v2", "simt,sm_90a,x86-64-v3",
                                        "simt,sm_90a,x86-64-v4"};
  return targets[newest_kind()];
}

const char *random_target(uint64_t seed) {
  int newest = newest_kind();
  if (getenv("REC_CPU") || seed % 4) return host_target();
  return kinds_of_processor[seed / 4 % (uint64_t)(newest + 1)];
}

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (!file || fputs(text, file) < 0 || fclose(file)) abort();
}

const char *compiled_path(void) {
  static char path[64];
  snprintf(path, sizeof path, "%s/program.rec", folder);
  return path;
}

rec_module *compile_text(const char *text, const char *const *options) {
  make_folder();
  write_text(compiled_path(), text);
  return compile_file(compiled_path(), options);
}

bool compile_output(const char *text, const char *const *options) {
  compilation c = compile_start(text, options);
  bool well = succeeded(c.child, c.source, c.library);
  unlink(c.library);
  unlink(c.source);
  return well;
}

compilation compile_start(const char *text, const char *const *options) {
  compilation c;
  int number = next_number();
  make_folder();
  snprintf(c.source, sizeof c.source, "%s/program%d.rec", folder, number);
  snprintf(c.library, sizeof c.library, "%s/library%d.so", folder, number);
  write_text(c.source, text);
  c.child = start(c.source, c.library, options);
  return c;
}

compilation compile_start_file(const char *path, const char *const *options) {
  compilation c = {.source = ""};
  make_folder();
  snprintf(c.library, sizeof c.library, "%s/library%d.so", folder, next_number());
  c.child = start(path, c.library, options);
  return c;
}

rec_module *compile_finish(const compilation *c) {
  rec_module *module = finish(c->child, *c->source ? c->source : "a file", c->library);
  if (*c->source) unlink(c->source);
  return module;
}

// ---- the standard library --------------------------------------------------------------------

typedef struct standard_run {
  compilation running;
  char path[512];  // "": none runs
} standard_run;

static void finish_standard(standard_run *run, void (*use)(rec_module *module, const char *path)) {
  if (*run->path) use(compile_finish(&run->running), run->path);
  *run->path = 0;
}

bool compile_standard_library(const char *const *options,
                              void (*use)(rec_module *module, const char *path)) {
  standard_run runs[2] = {0};  // side by side
  int count = 0;
  DIR *list = opendir(REC_SOURCE_DIR "/stdlib");
  for (struct dirent *entry; list && (entry = readdir(list));) {
    const char *dot = strrchr(entry->d_name, '.');
    standard_run *run = &runs[count % 2];
    if (!dot || strcmp(dot, ".rec") != 0) continue;
    finish_standard(run, use);
    snprintf(run->path, sizeof run->path, REC_SOURCE_DIR "/stdlib/%s", entry->d_name);
    run->running = compile_start_file(run->path, options);
    count++;
  }
  if (list) closedir(list);
  for (int i = 0; i < 2; i++) finish_standard(&runs[(count + i) % 2], use);
  return check(count > 0, "no standard library");
}

// ---- counts and seeds ------------------------------------------------------------------------

uint64_t chosen_seed(void) {
  uint64_t seed = 1;
  const char *text = getenv("REC_SEED");
  if (text) return strtoull(text, NULL, 10);
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = 1;
  return seed >> 32;
}

bool check(bool passed, const char *format, ...) {
  check_count++;
  if (passed) return true;
  failure_count++;
  va_list arguments;
  va_start(arguments, format);
  printf("failed: ");
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  fflush(stdout);
  return false;
}

void agree_with_reference(problem *inputs, const rec_recurrence *recurrence, const char *device,
                          const rec_run_options *options, agreement allowed, const char *what,
                          ...) {
  char name[256], where[256];
  va_list arguments;
  va_start(arguments, what);
  vsnprintf(name, sizeof name, what, arguments);
  va_end(arguments);
  const bool backward = options->backward;
  problem *exact = problem_copy(inputs), *got = problem_copy(inputs);
  bool ran =
      problem_run(exact, recurrence, "reference", &(rec_run_options){.backward = backward}) &&
      problem_run(got, recurrence, device, options);
  if (check(ran, "%s on %s: %s", name, device, rec_message())) {
    double error = problem_compare(exact, got, backward, allowed.floor, where, sizeof where),
           tolerance = allowed.least;
    if (!(error <= tolerance) && allowed.shake > 0)
      tolerance =
          problem_tolerance(inputs, exact, recurrence, allowed.least, allowed.shake, backward);
    check(error <= tolerance, "%s on %s: error %.2e > %.2e at %s", name, device, error, tolerance,
          where);
  }
  problem_free(inputs);
  problem_free(exact);
  problem_free(got);
}

int checked(void) {
  printf("%d passed, %d failed\n", check_count - failure_count, failure_count);
  return failure_count != 0 || check_count == 0;
}
