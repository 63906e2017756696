// rec fmt: .rec files in their standard layout.
#include <string.h>
#include <unistd.h>

#include "compiler/syntax/syntax.h"
#include "runtime/command/command.h"

const char format_usage[] =
    "rec fmt FILE.rec ..\n"
    "\n"
    "Rewrites each file in the standard layout. No comment is lost; formatting twice changes "
    "nothing.\n"
    "\n"
    "  --check    change nothing; exit status 1 if a file is not in the standard layout\n"
    "  -          reads standard input and writes standard output\n";

// Writes beside the file and renames, so that an interrupted run leaves the old text.
static int replace(const char *path, const char *text) {
  char part[4096];
  if (snprintf(part, sizeof part, "%s.%ld.part", path, (long)getpid()) >= (int)sizeof part)
    return EXIT_USAGE;
  FILE *file = fopen(part, "w");
  bool written = file && fputs(text, file) >= 0;
  if (file && fclose(file) != 0) written = false;
  if (written && rename(part, path) == 0) return 0;
  perror(path);
  unlink(part);
  return EXIT_USAGE;
}

static int format_file(const char *path, bool check) {
  arena *memory = arena_new();
  sources *all = sources_new(memory);
  diag *messages = diag_new(memory, all);
  const char *error = NULL;
  int status = 0;
  const source *s = sources_load(all, path, &error);
  char *text = s ? format_source(memory, interner_new(memory), messages, s) : NULL;
  if (!s) {
    fprintf(stderr, "rec fmt: %s\n", error);
    status = EXIT_USAGE;
  } else if (!text) {
    diag_print(messages, stderr);
    status = EXIT_USAGE;
  } else if (check) {
    status = strcmp(text, s->text) != 0;
    if (status) printf("%s\n", path);
  } else if (strcmp(path, "-") == 0) {
    fputs(text, stdout);
  } else if (strcmp(text, s->text) != 0) {
    status = replace(path, text);
  }
  arena_free(memory);
  return status;
}

int command_format(int count, char **list) {
  words w = {.command = "fmt", .count = count, .list = list};
  bool check = false;
  int files = 0, worst = 0;
  for (int i = 0; i < count; i++) {
    if (strcmp(list[i], "--check") == 0)
      check = true;
    else if (list[i][0] == '-' && list[i][1])
      return usage_error(&w, "unknown option `%s`", list[i]);
    else
      files++;
  }
  if (!files) return usage_error(&w, "expected FILE.rec");
  for (int i = 0; i < count; i++) {
    if (strcmp(list[i], "--check") == 0) continue;
    int status = format_file(list[i], check);
    if (status > worst) worst = status;
  }
  return worst;
}
