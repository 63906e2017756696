// What `rec` says about itself: help, manual page and completions, from a table of its commands.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/manual.h"
#include "runtime/command/command.h"
#include "runtime/internal.h"

static const manual_option own_options[] = {
    {"--manual", manual_kinds, "print the manual page, or what a shell completes", NULL},
    {"--version", NULL, "print the version", NULL},
    {"--help", NULL, "print the commands; behind a command, its options", NULL},
    {NULL, NULL, NULL, NULL}};

static const manual_option environment[] = {
    {"REC_NUM_THREADS", NULL,
     "threads where --threads is not given (default: one for each processor)", NULL},
    {"REC_GPU_MEMORY", NULL, "MiB of GPU memory that are taken at most", NULL},
    {"RECC", NULL,
     "the file of recc (default: the one in the folder of rec, else the one in the path)", NULL},
    {"TMPDIR", NULL, "where .rec files are compiled (default: /tmp)", NULL},
    {NULL, NULL, NULL, NULL}};

// Under another name where `rec` is that of another program.
const char *program_name(void) { return program_invocation_short_name; }

// ---- the manual --------------------------------------------------------------------------------

// Options without a help are not shown.
static manual_option *add_options(manual_option *row, const option *options) {
  for (const option *o = options; o->name; o++)
    if (o->help) *row++ = (manual_option){o->name, o->value, o->help, NULL};
  return row + 1;  // the one without a name ends them
}

static size_t count_options(const subcommand *c) {
  size_t count = 1;
  for (const option *o = c->options; o->name; o++) count++;
  return count;
}

typedef struct described {
  manual manual;
  manual_command *commands;
  manual_option *rows;
} described;

static void free_described(described *d) {
  free(d->commands);
  free(d->rows);
}

static bool describe_commands(const subcommand *const *commands, described *d) {
  size_t count = 0, rows = 0;
  for (; commands[count]; count++) rows += count_options(commands[count]);
  manual_option *row = calloc(rows, sizeof *row);
  *d = (described){.commands = calloc(count, sizeof *d->commands), .rows = row};
  if (!row || !d->commands) return free_described(d), rec_no_memory(), false;
  for (size_t i = 0; i < count; i++) {
    const subcommand *c = commands[i];
    d->commands[i] = (manual_command){.name = c->name,
                                      .synopsis = c->synopsis,
                                      .purpose = c->purpose,
                                      .text = c->text,
                                      .options = row};
    row = add_options(row, c->options);
  }
  d->manual = (manual){.program = program_name(),
                       .purpose = "runs recurrences and models compiled by recc",
                       .commands = d->commands,
                       .command_count = (int)count,
                       .options = own_options,
                       .environment = environment,
                       .see_also = ".BR recc (1)"};
  return true;
}

// ---- what is printed ---------------------------------------------------------------------------

void print_help(FILE *out, const subcommand *const *commands) {
  fprintf(out, "rec: runs recurrences and models compiled by recc\n\n");
  for (; *commands; commands++)
    fprintf(out, "  %s %-9s %s\n", program_name(), (*commands)->name, (*commands)->purpose);
  fprintf(out, "\n`%s COMMAND --help` tells the words of a command; `%s --version` the version.\n",
          program_name(), program_name());
}

int print_command_help(const subcommand *c) {
  const subcommand *const alone[] = {c, NULL};
  described d;
  if (!describe_commands(alone, &d)) return report_failure(c->name);
  manual_print_help(stdout, &d.manual, d.commands);
  free_described(&d);
  return 0;
}

int print_manual(const char *kind, const subcommand *const *commands) {
  described d;
  if (!describe_commands(commands, &d)) return report_failure("--manual");
  bool known = manual_print(stdout, &d.manual, kind);
  free_described(&d);
  if (known) return 0;
  fprintf(stderr, "rec: expected man, bash, zsh or fish after `--manual`, found `%s`\n", kind);
  return EXIT_USAGE;
}
