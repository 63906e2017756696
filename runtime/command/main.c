// The `rec` command and its subcommands.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/abi/start.h"
#include "runtime/command/command.h"
#include "runtime/internal.h"

static const subcommand *const commands[] = {&apply_command,    &bench_command,
                                             &train_command,    &plan_command,
                                             &evaluate_command, &compare_command,
                                             &generate_command, &import_command,
                                             &export_command,   &tokenize_command,
                                             &info_command,     &format_command,
                                             &lsp_command,      NULL};

static int unknown_command(const char *name) {
  fprintf(stderr, "rec: unknown command `%s`; the commands are", name);
  for (int i = 0; commands[i]; i++) fprintf(stderr, "%s %s", i ? "," : "", commands[i]->name);
  fprintf(stderr, "\n");
  return 2;
}

static bool asks_for_help(const char *word) {
  return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int run_command(const subcommand *c, int count, char **list) {
  if (count > 0 && asks_for_help(list[0])) return print_command_help(c);
  size_t room = (size_t)count + 2;
  char **lists = calloc(4 * room, sizeof *lists);
  words w = {.command = c->name,
             .count = count,
             .list = list,
             .given = lists,
             .module_words = (const char **)(lists + room)};
  if (!lists) rec_no_memory();
  int status = lists ? c->run(&w) : report_failure(c->name);
  free(lists);
  return status;
}

static int dispatch_command(int count, char **list) {
  if (count < 2) {
    print_help(stderr, commands);
    return 2;
  }
  if (asks_for_help(list[1]) || strcmp(list[1], "help") == 0) {
    print_help(stdout, commands);
    return 0;
  }
  if (strcmp(list[1], "--version") == 0) {
    printf("rec %s\n", REC_VERSION);
    return 0;
  }
  if (strcmp(list[1], "--manual") == 0)
    return print_manual(count > 2 ? list[2] : "nothing", commands);
  for (int i = 0; commands[i]; i++)
    if (strcmp(commands[i]->name, list[1]) == 0)
      return run_command(commands[i], count - 2, list + 2);
  return unknown_command(list[1]);
}

// OpenBLAS starts a thread for each processor when it is loaded, each with a buffer of 128 MiB.
// Where there is no room for one, it waits for ever or ends the process. rec has threads of its
// own: it begins again without these. This runs before any library is initialised, libc and its
// setenv included. A loader that was given rec as a file to run cannot be asked for that.
static void begin_without_blas_threads(int count, char **list, char **variables) {
  static char one[] = "OPENBLAS_NUM_THREADS=1";
  enum { NAME = sizeof one - 2, MOST = 4096 };
  static char self[PATH_MAX], *with_one[MOST + 2] = {one};  // the stack may be small
  int given = 0;
  (void)count;
  for (; variables[given]; given++) {
    if (given == MOST || strncmp(variables[given], one, NAME) == 0) return;
    with_one[given + 1] = variables[given];
  }
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return;
  self[length] = '\0';
  const char *slash = strrchr(self, '/');
  if (slash && strncmp(slash, "/ld", 3) != 0) execve(self, list, with_one);
}

typedef void initializer(int count, char **list, char **variables);
__attribute__((section(".preinit_array"), used)) static initializer *const before_libraries =
    begin_without_blas_threads;

int main(int count, char **list) {
  start_program("rec", EXIT_USAGE);
  rec_map_report_faults();
  return end_program("rec", dispatch_command(count, list), EXIT_USAGE);
}
