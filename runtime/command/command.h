// What the subcommands of `rec` share: their options, messages of failures, having .rec files
// compiled.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "runtime/rec.h"

struct ranks;

// Exit status of a command that was given something wrong.
enum { EXIT_USAGE = 2 };

// ---- Words -----------------------------------------------------------------------------------

// The words behind a subcommand.
typedef struct words {
  const char *command;
  int count, next;
  char **list;
  bool failed;   // a message was printed
  char **given;  // by read_options: those that are neither options nor their values
  int given_count;
  const char **module_words;  // room of a module_request
} words;

typedef enum option_kind {
  OPTION_FLAG,     // bool
  OPTION_TEXT,     // const char *
  OPTION_NUMBER,   // int64_t of at least `least`; `most` other than 0: of at most that
  OPTION_THREADS,  // int; more than REC_MOST_THREADS are as many as that
  OPTION_REAL,     // double from `least` to `most`; without a value it is `least`
  // Of a module_request:
  OPTION_DEVICE,  // where models run; the library must hold code for it
  OPTION_DEFINE,
  OPTION_DTYPE,
  OPTION_RECC  // a word for recc, with the value behind it if there is one
} option_kind;

// `--name VALUE` or `--name=VALUE`, and what the help says about it.
typedef struct option {
  const char *name, *value;  // value: as the help calls it; NULL: a flag
  const char *help;          // NULL: not shown
  option_kind kind;
  size_t place;  // in the command's request, of what the kind says
  double least, most;
} option;

// Rows of a table of options. A file defines REQUEST as the type of its request.
#define FLAG(name, member, help) {name, NULL, help, OPTION_FLAG, offsetof(REQUEST, member), 0, 0}
#define TEXT(name, value, member, help) \
  {name, value, help, OPTION_TEXT, offsetof(REQUEST, member), 0, 0}
#define NUMBER(name, value, member, least, help) \
  {name, value, help, OPTION_NUMBER, offsetof(REQUEST, member), least, 0}
#define NUMBER_TO(name, value, member, least, most, help) \
  {name, value, help, OPTION_NUMBER, offsetof(REQUEST, member), least, most}
#define REAL(name, value, member, least, most, help) \
  {name, value, help, OPTION_REAL, offsetof(REQUEST, member), least, most}
#define THREADS(member, help) \
  {"--threads", "N", help, OPTION_THREADS, offsetof(REQUEST, member), 1, 0}
#define OF_MODULE(name, value, kind, help) \
  {name, value, help, kind, offsetof(REQUEST, module), 0, 0}
#define AGAIN(member) \
  FLAG("--again", member, "replace files that rec did not write, or that were changed since")
#define OPTIONS_END {NULL, NULL, NULL, OPTION_FLAG, 0, 0, 0}

typedef struct subcommand {
  const char *name, *purpose;
  // the help above the options: the words behind the name, and what it does
  const char *synopsis, *text;
  const option *options;
  int (*run)(words *w);
} subcommand;

extern const subcommand apply_command, bench_command, train_command, plan_command, evaluate_command,
    compare_command, generate_command;
extern const subcommand import_command, export_command, tokenize_command, info_command,
    format_command, lsp_command;

// What this program is called.
const char *program_name(void);
// The commands end with NULL.
void print_help(FILE *out, const subcommand *const *commands);
// These return the exit status.
int print_command_help(const subcommand *c);
int print_manual(const char *kind, const subcommand *const *commands);  // man, bash, zsh or fish

// Reads the options into the request, and all other words into `given`. Returns 0, or the exit
// status after a message.
int read_options(words *w, const option *options, void *request);
// Prints `rec COMMAND: message` and the way to the usage. Returns EXIT_USAGE.
int usage_error(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Takes `:BLOCK` off the word FILE:BLOCK, unless a file is called so; NULL: there is none.
const char *split_block(char *word);

// Prints `rec COMMAND: ` and rec_message(). Returns EXIT_USAGE.
int report_failure(const char *command);
// What output_allowed says of a file that has a mark, where `input` (NULL: none) is read besides
// what is mapped.
rec_status allow_output(const char *path, const char *input, bool again);
// The same for a job of many ranks: if any of them failed, rank 0 prints the message of the first
// one, and all return EXIT_USAGE. 0: none failed. All ranks must come here.
int report_agreed(struct ranks *ranks, const char *command, rec_status status);

// ---- Modules ---------------------------------------------------------------------------------

typedef struct module_request {
  const char *command;
  const char *file;  // .so, or .rec to be compiled
  // the recurrence that will be asked for, perhaps an imported one; or NULL
  const char *name;
  const rec_file *inputs;  // of that recurrence, which choose a variant's sizes; or NULL
  const char **defines;    // -D
  int define_count;
  const char *dtype;        // NULL: not asked for
  const char *target;       // code that the library must hold beside the host's: "simt"; or NULL
  int32_t device;           // where models run: REC_DEVICE_..
  const char **recc_words;  // further words for recc, with room for one more
  int recc_word_count;
  bool run_time_defines;  // -D may also size the run-time axes of a library
  struct ranks *ranks;    // what is compiled, rank 0 compiles for all; NULL: this process is alone
  bool reference;         // no machine code wanted: a .rec file is only read
} module_request;

module_request module_request_of(const words *w);
bool is_source(const char *file);  // a .rec file, or std.NAME

// Opens the library, or compiles the .rec file with recc, in a folder that is gone afterwards. A
// library that was compiled with other options than asked for, or lacks an imported recurrence, is
// compiled again from the source that it carries. Returns 0, or the exit status after printing why
// not.
int open_module(const module_request *request, rec_module **module);

// find_recc.c: the file of recc. False after a message that says where it was looked for.
bool find_recc(const char *command, char *file, size_t size);

// The recurrence called `name`, or the only one if it is NULL; otherwise prints which there are and
// returns NULL.
const rec_recurrence *choose_recurrence(const char *command, const char *file,
                                        const rec_module *module, const char *name);

// bench_simt.c: has the module compiled for a GPU target, by code for the executor that counts.
// Returns 0, or the exit status.
int choose_counted_target(module_request *module, const char *target);
// Runs the call in the executor and prints what it costs. Returns the exit status.
int bench_on_simt(const rec_recurrence *recurrence, const rec_call *call, const char *target,
                  bool backward);

// info_program.c: the models and blocks of a manifest (a cJSON object).
void print_program(const void *manifest);
// Adds the counts that print_program shows to each model.
void count_program(void *manifest);
