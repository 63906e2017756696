// rec fmt: .rec files in their standard layout.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/abi/output.h"
#include "compiler/syntax/syntax.h"
#include "runtime/command/command.h"

// An interrupted run leaves the old text. The file keeps its mode, and a symbolic link stays one.
static int replace_file(const char *path, const char *text) {
  struct stat about;
  output file;
  bool good = !stat(path, &about) && output_open(&file, path, OUTPUT_FOLLOW);
  if (good) {
    good = output_put(&file, text, strlen(text)) && !fchmod(file.handle, about.st_mode & 07777) &&
           output_finish(&file, 0);
    output_drop(&file);
  }
  if (!good) fprintf(stderr, "rec fmt: %s: %s\n", path, strerror(errno));
  return good ? 0 : EXIT_USAGE;
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
    status = replace_file(path, text);
  }
  arena_free(memory);
  return status;
}

typedef struct format_request {
  bool check;
} format_request;

#define REQUEST format_request
static const option options[] = {
    FLAG("--check", check, "change nothing; exit status 1 if a file is not in the standard layout"),
    OPTIONS_END};

static int format(words *w) {
  format_request r = {0};
  int worst = 0;
  if (read_options(w, options, &r)) return EXIT_USAGE;
  if (!w->given_count) return usage_error(w, "expected FILE.rec");
  for (int i = 0; i < w->given_count; i++) {
    int status = format_file(w->given[i], r.check);
    if (status > worst) worst = status;
  }
  return worst;
}

const subcommand format_command = {
    .name = "fmt",
    .purpose = "lays out .rec files in the standard way",
    .synopsis = "FILE.rec ..",
    .text =
        "Rewrites each file in the standard layout; - reads standard input and writes standard "
        "output.\n"
        "No comment is lost; formatting twice changes nothing.\n",
    .options = options,
    .run = format,
};
