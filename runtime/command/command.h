// What the subcommands of `rec` share: reading words, printing failures, having .rec files compiled.
#ifndef REC_COMMAND_COMMAND_H
#define REC_COMMAND_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

#include "runtime/rec.h"

// Exit status of a command that was given something wrong.
enum { EXIT_USAGE = 2 };

int command_apply(int count, char **words);
int command_bench(int count, char **words);
int command_train(int count, char **words);
int command_evaluate(int count, char **words);
int command_compare(int count, char **words);
int command_generate(int count, char **words);
int command_import(int count, char **words);
int command_export(int count, char **words);
int command_info(int count, char **words);
int command_format(int count, char **words);
extern const char train_usage[], evaluate_usage[], compare_usage[], generate_usage[];
extern const char import_usage[], export_usage[];
extern const char apply_usage[], bench_usage[], info_usage[], format_usage[];

// info_program.c: the models and blocks of a manifest (a cJSON object).
void print_program(const void *manifest);

// ---- Words -------------------------------------------------------------------------------------------------

// The words behind a subcommand, read one by one.
typedef struct words {
  const char *command;
  int count, next;
  char **list;
  bool failed;  // a message was printed
} words;

// Is the next word `--option VALUE` or `--option=VALUE`? Then both are taken.
bool take_value(words *w, const char *option, const char **value);
// The same for a whole number of at least `least`.
bool take_number(words *w, const char *option, int64_t least, int64_t *number);
// `--threads N`; more than REC_MOST_THREADS are as many as that.
bool take_threads(words *w, int *threads);
// The same for a real number from `least` to `most`.
bool take_real(words *w, const char *option, double least, double most, double *number);
bool take_flag(words *w, const char *option);
// The next word if it is no option.
bool take_word(words *w, const char **word);
// Prints `rec COMMAND: message` and the way to the usage. Returns EXIT_USAGE.
int usage_error(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Prints `rec COMMAND: ` and rec_message(). Returns EXIT_USAGE.
int report_failure(const char *command);

// ---- Modules ---------------------------------------------------------------------------------------------

typedef struct module_request {
  const char *command;
  const char *file;      // .so, or .rec to be compiled
  const char *name;      // the recurrence that will be asked for, perhaps an imported one; or NULL
  const char **defines;  // -D
  int define_count;
  const char *dtype;        // NULL: not asked for
  const char *target;       // code that the library must hold beside the host's: "simt"; or NULL
  const char **recc_words;  // further words for recc
  int recc_word_count;
  bool run_time_defines;  // -D may also size the run-time axes of a library
  bool reference;         // no machine code wanted: a .rec file is only read
} module_request;

// Takes -D, --dtype, --chunk and --check into the request. `defines` and `recc_words` have room for `words` many.
bool take_module_option(words *w, module_request *request);

// Takes --device host, simt or cuda, where models run, and has the library hold code for it. A failure counts as taken.
bool take_device(words *w, module_request *request, int32_t *device);

// Opens the library, or compiles the .rec file with the recc beside this program, in a folder that is gone afterwards. A
// library that was compiled with other options than asked for, or lacks an imported recurrence, is compiled again from the
// source that it carries. Returns 0, or the exit status after printing why not.
int open_module(const module_request *request, rec_module **module);

// The recurrence called `name`, or the only one if it is NULL; otherwise prints which there are and returns NULL.
const rec_recurrence *choose_recurrence(const char *command, const char *file, const rec_module *module, const char *name);

#endif
