// The recc command: reads the command line and calls the pipeline.
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/chunk/chunk.h"
#include "compiler/pipeline.h"
#include "compiler/syntax/syntax.h"
#include "compiler/target/target.h"

static const char usage_text[] =
    "usage: recc FILE.rec [-o FILE.so] [options]     compile to a shared library and its C header\n"
    "       recc fmt FILE.rec                        print in the standard layout (rec fmt "
    "rewrites files)\n"
    "\n"
    "  -D AXIS=SIZE, -D ITEM.AXIS=SIZE   set the size of an axis, everywhere or in one "
    "declaration\n"
    "  -O0 .. -O3                        effort of the code generator (default -O3)\n"
    "  -g                                the code names the lines it was made from, for debuggers "
    "and profilers\n"
    "  --dtype f32|f64|bf16|f16          numbers of inputs and outputs (default f32); parameters,\n"
    "                                    states and arithmetic are f64 with f64, else f32\n"
    "  --chunk N                         steps computed at once (default: chosen)\n"
    "  --form step|chunk                 one step at a time, or products over chunks wherever\n"
    "                                    the structure allows (default: chosen by cost)\n"
    "  --target LIST                     of host, sm_80, sm_90a, sm_100a, sm_120, simt, all, none, "
    "with commas\n"
    "                                    between (default: host and sm_80; models: host); host is\n"
    "                                    x86-64-v2,x86-64-v3,x86-64-v4, of which one alone may be named\n"
    "  --ptxas PATH|none                 machine code for the GPUs of --target beside their PTX "
    "(default: the\n"
    "                                    ptxas in the path, where there is one)\n"
    "  --tf32                            GPU: products of f32 numbers with 10 bits behind the "
    "point\n"
    "  --shared-memory KIB               GPU: what a thread block may have (default 99: every "
    "device does)\n"
    "  --emit=WHAT                       print instead: tokens, ast, types, graph, recurrence, "
    "tile, backward,\n"
    "                                    gpu-tile, gpu-backward, plan, report, equations, latex,\n"
    "                                    functions, llvm, asm, ptx, simt, gpu-functions, gpu-hash,\n"
    "                                    gpu-header, resources; into the -o file if there is one. plan is that\n"
    "                                    of the targets; of the host without --target\n"
    "  --from=recurrence|tile            FILE is the text that --emit=recurrence or --emit=tile "
    "printed\n"
    "  --from=manifest                   FILE is a library's manifest: its source again, with the "
    "options it was\n"
    "                                    compiled with before those given\n"
    "  --export NAME                     the library gets the imported recurrence NAME, too\n"
    "  --check                           the library verifies promised ranges (`in [lo, hi]`)\n"
    "  --check-only                      report errors, write nothing\n"
    "  -MD                               write FILE.so.d: what the library is made from, for make\n"
    "  --time-report                     print how long each pass took\n"
    "  --version, --help\n";

static int usage_error(const char *expected, const char *found) {
  fprintf(stderr, "error: expected %s, found '%s'; recc --help shows all options\n", expected, found);
  return 2;
}

// A whole number of at least 1 that fills the text; 0 if it is not one.
static int64_t whole(const char *text) {
  char *end;
  if (!isdigit((unsigned char)*text)) return 0;
  long long value = strtoll(text, &end, 10);
  return *end == 0 && value < (int64_t)1 << 40 ? value : 0;
}

static bool is_name(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)text[i]) && text[i] != '_') return false;
  return length > 0 && !isdigit((unsigned char)*text);
}

// AXIS=SIZE or ITEM.AXIS=SIZE
static bool add_define(arena *a, interner *names, compile_options *options, const char *text) {
  const char *equals = strchr(text, '=');
  if (!equals) return false;
  const char *dot = memchr(text, '.', (size_t)(equals - text));
  const char *axis = dot ? dot + 1 : text;
  size_override define = {.axis = intern_n(names, axis, (size_t)(equals - axis)), .size = whole(equals + 1)};
  if (dot) define.item = intern_n(names, text, (size_t)(dot - text));
  if (define.size < 1 || !is_name(axis, (size_t)(equals - axis))) return false;
  if (dot && !is_name(text, (size_t)(dot - text))) return false;
  vec_push(a, &options->overrides, define);
  vec_push(a, &options->defines, text);
  return true;
}

// The value of `--name value` or `--name=value`, NULL if args[*i] is another option.
static const char *value_of(char **args, int count, int *i, const char *name) {
  size_t length = strlen(name);
  if (strncmp(args[*i], name, length) != 0) return NULL;
  if (args[*i][length] == '=') return args[*i] + length + 1;
  if (args[*i][length] != 0) return NULL;
  return *i + 1 < count ? args[++*i] : "";
}

static bool is_word(const char *word, const char *text, size_t length) {
  return strlen(word) == length && strncmp(text, word, length) == 0;
}

// sm_80,sm_90a: the bits of GPU targets; none of them is `all`, which means every GPU.
static unsigned gpu_targets_of(const char *text, size_t length) {
  unsigned targets = 0;
  bool all = is_word("all", text, length);
  for (int target = 0; target < GPU_TARGET_COUNT; target++) {
    bool named = is_word(codegen_gpu_target_name((codegen_gpu_target)target), text, length);
    if (named || (all && target != GPU_SIMT)) targets |= 1u << target;
  }
  return targets;
}

static unsigned clones_of(const char *text, size_t length) {
  for (int clone = 0; clone < CLONE_COUNT; clone++)
    if (is_word(codegen_clone_name((codegen_clone)clone), text, length)) return 1u << clone;
  return 0;
}

// False: a word is no target. The host's code is always made: for every kind of processor, where none is named.
static bool read_targets(const char *text, compile_options *options) {
  bool every = false;
  options->gpu_targets = options->clones = 0;
  options->host = false;
  while (*text) {
    size_t length = strcspn(text, ",");
    unsigned gpus = gpu_targets_of(text, length), clones = clones_of(text, length);
    bool host = is_word("host", text, length);
    if (!gpus && !clones && !host && !is_word("none", text, length)) return false;
    options->gpu_targets |= gpus;
    options->clones |= clones;
    every |= host;
    options->host |= host || clones;
    text += length + (text[length] == ',');
  }
  if (every || options->clones == (1u << CLONE_COUNT) - 1) options->clones = 0;
  return true;
}

// 0, or the exit status of a mistake.
static int read_option(arena *a, interner *names, compile_options *options, char **args, int count, int *i) {
  const char *arg = args[*i], *value;
  if (strncmp(arg, "-D", 2) == 0) {
    value = arg[2] ? arg + 2 : *i + 1 < count ? args[++*i] : "";
    return add_define(a, names, options, value) ? 0
                                                : usage_error("-D AXIS=SIZE or -D ITEM.AXIS=SIZE, a size of at least 1", value);
  }
  if (strcmp(arg, "-o") == 0) {
    if (*i + 1 >= count) return usage_error("a file after -o", "nothing");
    options->output = args[++*i];
  } else if (strncmp(arg, "-O", 2) == 0) {
    if (arg[2] < '0' || arg[2] > '3' || arg[3]) return usage_error("-O0, -O1, -O2 or -O3", arg);
    options->level = arg[2] - '0';
  } else if ((value = value_of(args, count, i, "--dtype"))) {
    if (!number_type_find(value, &options->dtype)) return usage_error("--dtype f32, f64, bf16 or f16", value);
  } else if ((value = value_of(args, count, i, "--chunk"))) {
    int64_t chunk = whole(value);
    if (chunk < 1 || chunk > CHUNK_MOST_STEPS) return usage_error("--chunk with a number of steps from 1 to 4096", value);
    options->chunk = (int)chunk;
  } else if ((value = value_of(args, count, i, "--form"))) {
    options->form = schedule_form_find(value);
    if (options->form == FORM_COUNT) return usage_error("--form step, chunk or chosen", value);
  } else if ((value = value_of(args, count, i, "--target"))) {
    options->targets_given = true;
    if (!read_targets(value, options))
      return usage_error(
          "--target with a list of host, x86-64-v2, x86-64-v3, x86-64-v4, sm_80, sm_90a, sm_100a, sm_120, simt, "
          "all, none",
          value);
  } else if ((value = value_of(args, count, i, "--emit"))) {
    options->emit = value;
    if (!compile_can_emit(value)) {
      fprintf(stderr, "error: expected --emit= one of %s, found '%s'\n", compile_emit_list(a), value);
      return 2;
    }
  } else if ((value = value_of(args, count, i, "--from"))) {
    options->from = value;
    if (!compile_can_read(value)) return usage_error("--from=recurrence, --from=tile or --from=manifest", value);
  } else if ((value = value_of(args, count, i, "--export"))) {
    vec_push(a, &options->exported, value);
  } else if ((value = value_of(args, count, i, "--ptxas"))) {
    if (!*value) return usage_error("--ptxas with a path, or none", value);
    options->ptxas = value;
  } else if (strcmp(arg, "-g") == 0) {
    options->lines = true;
  } else if ((value = value_of(args, count, i, "--shared-memory"))) {
    int64_t kib = whole(value);
    if (kib < 16 || kib > GPU_LARGE_KIB)
      return usage_error(arena_printf(a, "--shared-memory with a number of KiB from 16 to %d", GPU_LARGE_KIB), value);
    options->shared_kib = (int)kib;
  } else if (strcmp(arg, "--tf32") == 0) {
    options->tf32 = true;
  } else if (strcmp(arg, "--check") == 0) {
    options->check = true;
  } else if (strcmp(arg, "--check-only") == 0) {
    options->check_only = true;
  } else if (strcmp(arg, "-MD") == 0) {
    options->write_dependencies = true;
  } else if (strcmp(arg, "--time-report") == 0) {
    options->time_report = true;
  } else if (arg[0] == '-' && arg[1]) {
    return usage_error("an option", arg);
  } else if (options->path) {
    return usage_error("one file", arg);
  } else {
    options->path = arg;
  }
  return 0;
}

static int print_version(void) {
  printf("recc %s\nABI %s\ntargets:", REC_VERSION, ABI_TEXT);
  for (int clone = 0; clone < CLONE_COUNT; clone++) printf(" %s", codegen_clone_name((codegen_clone)clone));
  printf("\n");
  return 0;
}

// recc fmt FILE
static int format_file(char **args, int count) {
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

static int read_options(arena *a, interner *names, compile_options *options, char **args, int count) {
  for (int i = 0; i < count; i++) {
    int status = read_option(a, names, options, args, count, &i);
    if (status) return status;
  }
  return 0;
}

// Words read before those of the command line, which therefore win.
static int read_carried(arena *a, interner *names, compile_options *options, char **args, int count) {
  compile_options own = {.level = 3};
  const char *wrong = artifact_read_carried(a, options->path, &own.carried);
  if (wrong) {
    fprintf(stderr, "error: %s\n", wrong);
    return 1;
  }
  *options = own;
  int status = read_options(a, names, options, (char **)own.carried.words.items, own.carried.words.count);
  return status ? status : read_options(a, names, options, args, count);
}

static int run(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "fmt") == 0) return format_file(argv + 2, argc - 2);
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--version") == 0) return print_version();
    if (strcmp(argv[i], "--help") == 0) return fputs(usage_text, stdout), 0;
  }
  arena *a = arena_new();
  interner *names = interner_new(a);
  compile_options options = {.level = 3};
  int status = read_options(a, names, &options, argv + 1, argc - 1);
  if (status == 0 && !options.path) {
    fputs(usage_text, stderr);
    status = 2;
  }
  if (status == 0 && strcmp(options.path, "-") == 0 && !options.output && !options.emit && !options.check_only)
    status = usage_error("-o FILE.so for a program from standard input", "nothing");
  if (status == 0 && options.from && strcmp(options.from, "manifest") == 0)
    status = read_carried(a, names, &options, argv + 1, argc - 1);
  if (status == 0) status = compile(a, names, &options, stdout, stderr);
  arena_free(a);
  return status;
}

// What was printed must have arrived, on a disk that may be full. A run that has failed has said why.
static int end_output(int status) {
  bool failed = ferror(stdout);
  errno = 0;
  if (fclose(stdout)) failed = true;
  if (status || !failed) return status;
  fprintf(stderr, "error: standard output: %s\n", errno ? strerror(errno) : "cannot be written");
  return 1;
}

void watch_memory(void);  // compiler/emit/link.cpp

int main(int argc, char **argv) {
  watch_memory();
  return end_output(run(argc, argv));
}
