// Programs compiled by recc for the tests of the runtime, in a folder that is removed at exit.
#pragma once

#include "tests/runtime/problem.h"

// Compiles a .rec file of the repository, or one whose path begins with /, with the words in
// `options` (NULL ends them) and opens the library. Without --target among the words it is for the
// host (host_target). ptxas is not run. NULL after printing what recc said.
rec_module *compile_file(const char *path, const char *const *options);
// The same for text.
rec_module *compile_text(const char *text, const char *const *options);
// Compiles a .rec file for another processor than this machine's: the path of the library, which is
// valid until the next call. NULL after printing what recc said.
const char *compile_foreign(const char *path, const char *const *options);
// Whether recc compiles the text with these words, among which is an --emit: what it prints is
// dropped.
bool compile_output(const char *text, const char *const *options);
// Compiles once and opens `count` copies, each of which chooses its code for itself when it is
// first called. False after printing what recc said.
bool compile_copies(const char *path, const char *const *options, rec_module **modules, int count);
// The file that compile_text wrote last.
const char *compiled_path(void);

// For --target: the newest kind of processor that this machine is, whose code is what runs. `host`
// takes three times as long.
const char *host_target(void);
// The same and the executor, without and with kernels for warpgroups.
const char *simt_target(void);
const char *simt_90a_target(void);
// One kind of processor that this machine is, mostly the newest.
const char *random_target(uint64_t seed);

// The same in two steps, so that several recc run side by side.
typedef struct compilation {
  int child;
  char source[64], library[64];  // source is empty for a file that stays
} compilation;
compilation compile_start(const char *text, const char *const *options);
compilation compile_start_file(const char *path, const char *const *options);
rec_module *compile_finish(const compilation *c);

// Compiles each file of the standard library, and hands over what it opens: NULL if that failed.
// `use` closes it. False, with a failed check, if there are no files.
bool compile_standard_library(const char *const *options,
                              void (*use)(rec_module *module, const char *path));

// $REC_SEED, or a new one.
uint64_t chosen_seed(void);

// Counts a check; a failed one prints its text. Returns `passed`.
bool check(bool passed, const char *format, ...) __attribute__((format(printf, 2, 3)));

// How far the results of a device may lie from the interpreter's: `least` with this floor of
// problem_compare, or with a `shake` as far as problem_tolerance says.
typedef struct agreement {
  double floor, least, shake;
} agreement;
// Runs the interpreter and a device, and checks that their results agree. The text names the run.
// Takes the inputs.
void agree_with_reference(problem *inputs, const rec_recurrence *recurrence, const char *device,
                          const rec_run_options *options, agreement allowed, const char *what, ...)
    __attribute__((format(printf, 6, 7)));

// Prints `N passed, N failed`; the exit status of the test.
int checked(void);
