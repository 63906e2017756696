// The recc command: reads the command line and calls the pipeline.
#include <stdio.h>
#include <string.h>

#include "compiler/abi/start.h"
#include "compiler/emission.h"
#include "compiler/options.h"
#include "compiler/syntax/syntax.h"
#include "compiler/target/target.h"

static int print_version(void) {
  printf("recc %s\nABI %s\ntargets:", REC_VERSION, ABI_TEXT);
  for (int clone = 0; clone < CLONE_COUNT; clone++)
    printf(" %s", codegen_clone_name((codegen_clone)clone));
  printf("\n");
  return 0;
}

// recc fmt FILE
static int run_fmt(char **args, int count) {
  if (count != 1) return usage_error("one file after fmt", count ? args[1] : "nothing");
  arena *a = arena_new();
  sources *files = sources_new(a);
  diag *messages = diag_new(a, files);
  const char *error;
  const source *file = sources_load(files, args[0], &error);
  char *text = file ? format_source(a, interner_new(a), messages, file) : NULL;
  if (text) fputs(text, stdout);
  diag_print(messages, stderr);
  if (!file) fprintf(stderr, "error: %s\n", error);
  arena_free(a);
  return text ? 0 : 1;
}

// Words read before those of the command line, which therefore win.
static int read_carried(option_reader *r, char **words, int count) {
  compile_options own = {.level = 3, .prefix = ""};
  const char *wrong = artifact_read_carried(r->memory, r->options->path, &own.carried);
  if (wrong) {
    fprintf(stderr, "error: %s\n", wrong);
    return 1;
  }
  *r->options = own;
  int status = read_options(r, (char **)own.carried.words.items, own.carried.words.count);
  return status ? status : read_options(r, words, count);
}

static int print_help(arena *a, FILE *out) {
  const manual *of = options_manual(a);
  manual_print_help(out, of, &of->commands[0]);
  return 0;
}

static int print_manual(arena *a, const char *kind) {
  return manual_print(stdout, options_manual(a), kind)
             ? 0
             : usage_error("--manual man, bash, zsh or fish", kind);
}

static int answer_option(const option_reader *r) {
  switch (r->question) {
    case ASKS_NOTHING: break;
    case ASKS_HELP: return print_help(r->memory, stdout);
    case ASKS_VERSION: return print_version();
    case ASKS_MANUAL: return print_manual(r->memory, r->manual);
  }
  return 0;
}

// `-o -` is standard output, where --emit prints without -o.
static int name_output(compile_options *options) {
  if (!options->output || strcmp(options->output, "-") != 0) return 0;
  const emission *printed = options->emit ? emission_find(options->emit) : NULL;
  if (!printed || printed->needs & EMISSION_BINDING)
    return usage_error("a name after -o: what is made are files", "-");
  options->output = NULL;
  return 0;
}

static int compile_file(option_reader *r, char **words, int count) {
  compile_options *options = r->options;
  if (!options->path) {
    print_help(r->memory, stderr);
    return 2;
  }
  if (strcmp(options->path, "-") == 0 && !options->output && !options->emit && !options->check_only)
    return usage_error("-o FILE.so for a program from standard input", "nothing");
  int status = 0;
  if (options->from && strcmp(options->from, "manifest") == 0)
    status = read_carried(r, words, count);
  if (!status) status = name_output(options);
  return status ? status : compile(r->memory, r->names, options, stdout, stderr);
}

static int run_compiler(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "fmt") == 0) return run_fmt(argv + 2, argc - 2);
  arena *a = arena_new();
  compile_options options = {.level = 3, .prefix = ""};
  option_reader r = {.memory = a, .names = interner_new(a), .options = &options};
  int status = read_options(&r, argv + 1, argc - 1);
  if (!status) status = r.question ? answer_option(&r) : compile_file(&r, argv + 1, argc - 1);
  arena_free(a);
  return status;
}

void watch_memory(void);  // compiler/emit/link.cpp

int main(int argc, char **argv) {
  start_program("error", 1);
  watch_memory();
  return end_program("error", run_compiler(argc, argv), 1);
}
