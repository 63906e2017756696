#include "tests/runtime/compiled.h"

#include <dirent.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static bool run(const char **words) {
  pid_t child;
  int status;
  if (posix_spawn(&child, words[0], NULL, NULL, (char **)words, environ)) return false;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

rec_module *compile_file(const char *path, const char *const *options) {
  static int number;
  char library[64];
  make_folder();
  snprintf(library, sizeof library, "%s/library%d.so", folder, number++);
  const char *words[32] = {REC_BINARY_DIR "/bin/recc", path, "-o", library};
  for (int i = 0; options && options[i] && i < 26; i++) words[4 + i] = options[i];
  rec_module *module = NULL;
  if (!run(words)) {
    fprintf(stderr, "recc failed on %s\n", path);
  } else if (rec_module_open(library, &module)) {
    fprintf(stderr, "%s\n", rec_message());
  }
  unlink(library);
  return module;
}

const char *compiled_path(void) {
  static char path[64];
  snprintf(path, sizeof path, "%s/program.rec", folder);
  return path;
}

rec_module *compile_text(const char *text, const char *const *options) {
  make_folder();
  const char *path = compiled_path();
  FILE *file = fopen(path, "w");
  if (!file || fputs(text, file) < 0 || fclose(file)) abort();
  return compile_file(path, options);
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

int checked(void) {
  printf("%d passed, %d failed\n", check_count - failure_count, failure_count);
  return failure_count != 0 || check_count == 0;
}
