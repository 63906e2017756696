// The `rec` command: one row per subcommand.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/command/command.h"
#include "runtime/internal.h"

typedef struct command {
  const char *name, *usage, *purpose;
  int (*run)(int count, char **words);
} command;

static const command commands[] = {
    {"apply", apply_usage, "runs a recurrence on tensors from a file", command_apply},
    {"bench", bench_usage, "measures a recurrence beside what the machine can do", command_bench},
    {"train", train_usage, "trains the models of a program", command_train},
    {"evaluate", evaluate_usage, "judges trained models", command_evaluate},
    {"compare", compare_usage, "lays runs over one another", command_compare},
    {"generate", generate_usage, "writes text with a trained model", command_generate},
    {"import", import_usage, "reads a Hugging Face folder", command_import},
    {"export", export_usage, "writes one", command_export},
    {"info", info_usage, "shows what a compiled library holds", command_info},
    {"fmt", format_usage, "lays out .rec files in the standard way", command_format},
    {NULL, NULL, NULL, NULL},
};

static void print_help(FILE *out) {
  fprintf(out, "rec: runs recurrences and models compiled by recc\n\n");
  for (const command *c = commands; c->name; c++) fprintf(out, "  rec %-9s %s\n", c->name, c->purpose);
  fprintf(out, "\n`rec COMMAND --help` tells the words of a command; `rec --version` the version.\n");
}

static int unknown_command(const char *name) {
  fprintf(stderr, "rec: unknown command `%s`; the commands are", name);
  for (const command *c = commands; c->name; c++) fprintf(stderr, "%s %s", c == commands ? "" : ",", c->name);
  fprintf(stderr, "\n");
  return 2;
}

static int run(int count, char **list) {
  if (count < 2) {
    print_help(stderr);
    return 2;
  }
  if (strcmp(list[1], "--help") == 0 || strcmp(list[1], "-h") == 0 || strcmp(list[1], "help") == 0) {
    print_help(stdout);
    return 0;
  }
  if (strcmp(list[1], "--version") == 0) {
    printf("rec %s\n", REC_VERSION);
    return 0;
  }
  for (const command *c = commands; c->name; c++) {
    if (strcmp(c->name, list[1]) != 0) continue;
    if (count > 2 && (strcmp(list[2], "--help") == 0 || strcmp(list[2], "-h") == 0)) {
      printf("%s", c->usage);
      return 0;
    }
    return c->run(count - 2, list + 2);
  }
  return unknown_command(list[1]);
}

// What was printed must have arrived, on a disk that may be full. A command that has failed has said why.
static int end_output(int status) {
  bool failed = ferror(stdout);
  errno = 0;
  if (fclose(stdout)) failed = true;
  if (status || !failed) return status;
  fprintf(stderr, "rec: standard output: %s\n", errno ? strerror(errno) : "cannot be written");
  return EXIT_USAGE;
}

// OpenBLAS starts a thread for each processor when it is loaded, each with a buffer of 128 MiB. Where there
// is no room for one, it waits for ever or ends the process. rec has threads of its own: it begins again without
// these. This runs before any library is initialised, libc and its setenv included. A loader that was given rec as a
// file to run cannot be asked for that.
static void begin_without_blas_threads(int count, char **list, char **variables) {
  static char one[] = "OPENBLAS_NUM_THREADS=1";
  enum { NAME = sizeof one - 2, MOST = 4096 };
  char self[PATH_MAX], *with_one[MOST + 2] = {one};
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
__attribute__((section(".preinit_array"), used)) static initializer *const before_libraries = begin_without_blas_threads;

int main(int count, char **list) {
  rec_map_report_faults();
  return end_output(run(count, list));
}
