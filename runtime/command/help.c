// What `rec` says about itself: help, manual page and completions, from the tables of its commands.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/command/command.h"
#include "runtime/internal.h"
#include "runtime/shared/manual.h"

const subcommand *const commands[] = {
    &apply_command,  &bench_command,  &train_command,    &plan_command, &evaluate_command, &compare_command, &generate_command,
    &import_command, &export_command, &tokenize_command, &info_command, &format_command,   &lsp_command,     NULL};

enum { COMMANDS = sizeof commands / sizeof *commands - 1 };

static const manual_option own_options[] = {
    {"--manual", manual_kinds, "print the manual page, or what a shell completes", NULL},
    {"--version", NULL, "print the version", NULL},
    {"--help", NULL, "print the commands; behind a command, its options", NULL},
    {NULL, NULL, NULL, NULL}};

static const manual_option environment[] = {
    {"REC_NUM_THREADS", NULL, "threads where --threads is not given (default: one for each processor)", NULL},
    {"REC_GPU_MEMORY", NULL, "MiB of GPU memory that are taken at most", NULL},
    {"RECC", NULL, "the file of recc (default: the one in the folder of rec, else the one in the path)", NULL},
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
  manual_command commands[COMMANDS];
  manual_option *rows;
} described;

static bool describe(described *d) {
  size_t count = 0;
  for (int i = 0; i < COMMANDS; i++) count += count_options(commands[i]);
  manual_option *row = d->rows = calloc(count, sizeof *row);
  if (!row) return rec_no_memory(), false;
  for (int i = 0; i < COMMANDS; i++) {
    const subcommand *c = commands[i];
    d->commands[i] =
        (manual_command){.name = c->name, .synopsis = c->synopsis, .purpose = c->purpose, .text = c->text, .options = row};
    row = add_options(row, c->options);
  }
  d->manual = (manual){.program = program_name(),
                       .purpose = "runs recurrences and models compiled by recc",
                       .commands = d->commands,
                       .command_count = COMMANDS,
                       .options = own_options,
                       .environment = environment,
                       .see_also = ".BR recc (1)"};
  return true;
}

// ---- what is printed ---------------------------------------------------------------------------

void print_help(FILE *out) {
  fprintf(out, "rec: runs recurrences and models compiled by recc\n\n");
  for (int i = 0; i < COMMANDS; i++) fprintf(out, "  %s %-9s %s\n", program_name(), commands[i]->name, commands[i]->purpose);
  fprintf(out, "\n`%s COMMAND --help` tells the words of a command; `%s --version` the version.\n", program_name(),
          program_name());
}

int print_command_help(const subcommand *c) {
  described d;
  if (!describe(&d)) return report_failure(c->name);
  for (int i = 0; i < COMMANDS; i++)
    if (commands[i] == c) manual_print_help(stdout, &d.manual, &d.commands[i]);
  free(d.rows);
  return 0;
}

int print_manual(const char *kind) {
  described d;
  if (!describe(&d)) return report_failure("--manual");
  bool known = manual_print(stdout, &d.manual, kind);
  free(d.rows);
  if (known) return 0;
  fprintf(stderr, "rec: expected man, bash, zsh or fish after `--manual`, found `%s`\n", kind);
  return EXIT_USAGE;
}
