// recc's options: a row of the table for each, which the help, the manual page and completions
// show.
#include "compiler/options.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/embedded.h"
#include "compiler/chunk/chunk.h"
#include "compiler/target/target.h"

int usage_error(const char *expected, const char *found) {
  fprintf(stderr, "error: expected %s, found '%s'; recc --help shows all options\n", expected,
          found);
  return 2;
}

// ---- values ----------------------------------------------------------------------------------

// A whole number of at least 1 that fills the text; 0 if it is not one.
static int64_t positive_integer(const char *text) {
  char *end;
  if (!isdigit((unsigned char)*text)) return 0;
  long long value = strtoll(text, &end, 10);
  return *end == 0 && value < (int64_t)1 << 40 ? value : 0;
}

static bool is_define_name(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)text[i]) && text[i] != '_') return false;
  return length > 0 && !isdigit((unsigned char)*text);
}

// 64,128: whole numbers, each once.
static bool read_size_choices(arena *a, const char *text, size_choice *choice) {
  while (*text) {
    size_t length = strcspn(text, ",");
    int64_t size = positive_integer(arena_strndup(a, text, length));
    if (size < 1) return false;
    for (int i = 0; i < choice->sizes.count; i++)
      if (choice->sizes.items[i] == size) return false;
    vec_push(a, &choice->sizes, size);
    text += length + (text[length] == ',');
  }
  return choice->sizes.count > 0;
}

// The last -D of an axis counts.
static void drop_choice(compile_options *options, const char *name) {
  int kept = 0;
  for (int i = 0; i < options->choices.count; i++)
    if (strcmp(options->choices.items[i].name, name) != 0)
      options->choices.items[kept++] = options->choices.items[i];
  options->choices.count = kept;
}

// AXIS=SIZE or ITEM.AXIS=SIZE, perhaps with several sizes.
static bool add_define(arena *a, interner *names, compile_options *options, const char *text) {
  const char *equals = strchr(text, '=');
  if (!equals) return false;
  const char *dot = memchr(text, '.', (size_t)(equals - text));
  const char *axis = dot ? dot + 1 : text;
  size_choice choice = {.axis = intern_n(names, axis, (size_t)(equals - axis)),
                        .name = intern_n(names, text, (size_t)(equals - text))};
  if (dot) choice.item = intern_n(names, text, (size_t)(dot - text));
  if (!is_define_name(axis, (size_t)(equals - axis)) ||
      (dot && !is_define_name(text, (size_t)(dot - text))))
    return false;
  if (!read_size_choices(a, equals + 1, &choice)) return false;
  size_override define = {.item = choice.item, .axis = choice.axis, .size = choice.sizes.items[0]};
  drop_choice(options, choice.name);
  if (choice.sizes.count > 1)
    vec_push(a, &options->choices, choice);
  else
    vec_push(a, &options->overrides, define);
  vec_push(a, &options->defines, text);
  return true;
}

// f32,bf16: number types, each once.
static bool read_number_types(arena *a, compile_options *options, const char *text) {
  options->dtypes.count = 0;
  while (*text) {
    size_t length = strcspn(text, ",");
    number_type type;
    if (!number_type_find(arena_strndup(a, text, length), &type)) return false;
    for (int i = 0; i < options->dtypes.count; i++)
      if (options->dtypes.items[i] == type) return false;
    vec_push(a, &options->dtypes, type);
    text += length + (text[length] == ',');
  }
  if (options->dtypes.count) options->dtype = options->dtypes.items[0];
  return options->dtypes.count > 0;
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

// False: a word is no target. The host's code is always made: for every kind of recc's own
// processor, where none is named.
static bool read_targets(const char *text, compile_options *options) {
  options->gpu_targets = options->clones = 0;
  options->host = false;
  while (*text) {
    size_t length = strcspn(text, ",");
    unsigned gpus = gpu_targets_of(text, length), clones = clones_of(text, length);
    bool host = is_word("host", text, length);
    if (!gpus && !clones && !host && !is_word("none", text, length)) return false;
    options->gpu_targets |= gpus;
    options->clones |= host ? codegen_clones_of(PROCESSOR_HOST) : clones;
    options->host |= host || clones;
    text += length + (text[length] == ',');
  }
  unsigned usual = codegen_clones_asked(0, NUMBER_F32), own = codegen_clones_of(PROCESSOR_HOST);
  if (!(usual & ~options->clones) && !(options->clones & ~own)) options->clones = 0;
  return true;
}

// All that --target takes.
static const char *target_words(arena *a) {
  const char *list = "host";
  for (int clone = 0; clone < CLONE_COUNT; clone++)
    list = arena_printf(a, "%s, %s", list, codegen_clone_name((codegen_clone)clone));
  for (int target = 0; target < GPU_TARGET_COUNT; target++)
    list = arena_printf(a, "%s, %s", list, codegen_gpu_target_name((codegen_gpu_target)target));
  return arena_printf(a, "%s, all, none", list);
}

// ---- readers: 0, or the exit status of a mistake ----------------------------------------------

static int take_define_option(option_reader *r, const char *value) {
  if (add_define(r->memory, r->names, r->options, value)) return 0;
  return usage_error(
      "-D AXIS=SIZE or -D ITEM.AXIS=SIZE, a size of at least 1, or several with commas between",
      value);
}

static int read_output(option_reader *r, const char *value) {
  r->options->output = value;
  return *value ? 0 : usage_error("a file after -o", "nothing");
}

static int read_level(option_reader *r, const char *value) {
  if (*value < '0' || *value > '3' || value[1])
    return usage_error("-O0, -O1, -O2 or -O3", arena_printf(r->memory, "-O%s", value));
  r->options->level = *value - '0';
  return 0;
}

static int take_dtype_option(option_reader *r, const char *value) {
  if (read_number_types(r->memory, r->options, value)) return 0;
  return usage_error("--dtype f32, f64, bf16 or f16, or several with commas between", value);
}

static int read_chunk(option_reader *r, const char *value) {
  int64_t chunk = positive_integer(value);
  if (chunk < 1 || chunk > CHUNK_MOST_STEPS)
    return usage_error("--chunk with a number of steps from 1 to 4096", value);
  r->options->chunk = (int)chunk;
  return 0;
}

static int read_save_every(option_reader *r, const char *value) {
  int64_t steps = positive_integer(value);
  if (steps < 1 || steps > CHUNK_MOST_STEPS)
    return usage_error("--save-every with a number of steps from 1 to 4096", value);
  r->options->save_every = (int)steps;
  return 0;
}

static int take_form_option(option_reader *r, const char *value) {
  r->options->form = schedule_form_find(value);
  return r->options->form == FORM_COUNT ? usage_error("--form step, chunk or chosen", value) : 0;
}

static int take_target_option(option_reader *r, const char *value) {
  r->options->targets_given = true;
  if (!read_targets(value, r->options))
    return usage_error(
        arena_printf(r->memory, "--target with a list of %s", target_words(r->memory)), value);
  codegen_processor processor = codegen_processor_of(r->options->clones);
  if (r->options->clones & ~codegen_clones_of(processor))
    return usage_error("--target with one processor, x86-64 or aarch64, a library for each", value);
  if (processor != PROCESSOR_HOST && r->options->gpu_targets >> GPU_SIMT & 1)
    return usage_error("--target simt with the processor that recc runs on", value);
  return 0;
}

static int read_emit(option_reader *r, const char *value) {
  r->options->emit = value;
  if (compile_can_emit(value)) return 0;
  fprintf(stderr, "error: expected --emit= one of %s, found '%s'\n", compile_emit_list(r->memory),
          value);
  return 2;
}

static int take_from_option(option_reader *r, const char *value) {
  r->options->from = value;
  return compile_can_read(value)
             ? 0
             : usage_error("--from=recurrence, --from=tile or --from=manifest", value);
}

static int read_export(option_reader *r, const char *value) {
  vec_push(r->memory, &r->options->exported, value);
  return 0;
}

static int read_prefix(option_reader *r, const char *value) {
  r->options->prefix = value;
  return is_define_name(value, strlen(value))
             ? 0
             : usage_error("--prefix with letters, digits and _, no digit first", value);
}

static int read_ptxas(option_reader *r, const char *value) {
  r->options->ptxas = value;
  return *value ? 0 : usage_error("--ptxas with a path, or none", value);
}

static int read_shared_memory(option_reader *r, const char *value) {
  int64_t kib = positive_integer(value);
  if (kib < 16 || kib > GPU_LARGE_KIB)
    return usage_error(arena_printf(r->memory, "--shared-memory with a number of KiB from 16 to %d",
                                    GPU_LARGE_KIB),
                       value);
  r->options->shared_kib = (int)kib;
  return 0;
}

// fuse,register-states: passes and choices that may be left out.
static int read_without(option_reader *r, const char *value) {
  arena *a = r->memory;
  pass_names *names = ARENA_NEW(a, pass_names);
  for (const char *text = value; *text;) {
    size_t length = strcspn(text, ",");
    const char *name = compile_find_optional(a, arena_strndup(a, text, length));
    if (!name)
      return usage_error(arena_printf(a, "--without with a list of %s", compile_optional_list(a)),
                         value);
    vec_push(a, names, name);
    text += length + (text[length] == ',');
  }
  r->options->without = names;
  return 0;
}

static int read_manual(option_reader *r, const char *value) {
  r->question = ASKS_MANUAL;
  r->manual = value;
  return 0;
}

static int read_help(option_reader *r, const char *value) {
  (void)value;
  r->question = ASKS_HELP;
  return 0;
}

static int read_version(option_reader *r, const char *value) {
  (void)value;
  r->question = ASKS_VERSION;
  return 0;
}

// ---- the table -------------------------------------------------------------------------------

typedef struct option {
  const char *name, *value, *help;  // as in manual_option
  int (*read)(option_reader *, const char *value);
  size_t flag;                      // without `read`: the bool of compile_options that it sets
  const char *(*values)(arena *a);  // NULL: those that `value` lists
} option;

#define FLAG(name, member, help) {name, NULL, help, NULL, offsetof(compile_options, member), NULL}

static const option options[] = {
    {"-o", "FILE.so",
     "the library; its header lies beside it (default: FILE.so in the current folder).\n"
     "FILE.a: a static library, FILE.o: an object",
     read_output, 0, NULL},
    FLAG("--again", again,
         "replace files that recc did not write, or that were changed since; without this\n"
         "they stay, and nothing is written"),
    {"-D", "[ITEM.]AXIS=SIZE",
     "set the size of an axis, everywhere or in one declaration. AXIS=64,128: the library\n"
     "has the recurrences for each of these sizes, and picks by those of a call",
     take_define_option, 0, NULL},
    {"-O", "0|1|2|3", "effort of the code generator (default: 3)", read_level, 0, NULL},
    FLAG("-g", lines, "the code names the lines it was made from, for debuggers and profilers"),
    FLAG("--count", count, "the executor's code (--target simt) counts what it costs on a GPU"),
    {"--dtype", "f32|f64|bf16|f16,..",
     "numbers of inputs and outputs (default: f32); parameters, states and arithmetic are\n"
     "f64 with f64, else f32. f32,bf16: the library has the recurrences for each",
     take_dtype_option, 0, NULL},
    {"--chunk", "N", "steps computed at once (default: chosen)", read_chunk, 0, NULL},
    {"--save-every", "N",
     "host, chunks: steps between the states that forward saves, rounded up to whole chunks;\n"
     "backward computes those before its other chunks again (default: chosen)",
     read_save_every, 0, NULL},
    {"--form", "step|chunk",
     "one step at a time, or products over chunks wherever the structure allows\n"
     "(default: chosen by cost)",
     take_form_option, 0, NULL},
    {"--target", "LIST",
     "what code is made for, with commas between (default: host and sm_80; models: host);\n"
     "host is recc's own processor: of x86-64 all kinds, of which one alone may be named;\n"
     "aarch64: Arm's 64-bit processors with Linux",
     take_target_option, 0, target_words},
    {"--ptxas", "PATH|none",
     "machine code for the GPUs of --target beside their PTX (default: the ptxas in the\n"
     "path, where there is one)",
     read_ptxas, 0, NULL},
    FLAG("--tf32", tf32, "GPU: products of f32 numbers with 10 bits behind the point"),
    {"--shared-memory", "KIB",
     "GPU: what a thread block may have (default: 99, as every device has)", read_shared_memory, 0,
     NULL},
    {"--without", "LIST",
     "leave out passes and choices, with commas between, that only make code faster: to\n"
     "measure what each is worth",
     read_without, 0, compile_optional_list},
    {"--emit", "WHAT",
     "print this instead, into the -o file if there is one; plan is that of the targets,\n"
     "of the host without --target. numpy, torch, jax: the library, and a Python file\n"
     "that calls it, in the -o folder. hf-kernel: the same for torch, in a folder below\n"
     "it that Hugging Face's kernels load",
     read_emit, 0, compile_emit_list},
    {"--from", "recurrence|tile|manifest",
     "FILE is the text that --emit=recurrence or --emit=tile printed; or a library's\n"
     "manifest: its source again, with the options that it was compiled with before\n"
     "those given",
     take_from_option, 0, NULL},
    {"--export", "NAME", "the library gets the imported recurrence NAME, too", read_export, 0,
     NULL},
    {"--prefix", "NAME_",
     "NAME_ before every symbol and type of the library, so that it links with others\n"
     "that have recurrences of the same names",
     read_prefix, 0, NULL},
    FLAG("--check", check, "the library verifies promised ranges (`in [lo, hi]`)"),
    FLAG("--summary", summary,
         "the library summarises segments of time for machines that share a sequence "
         "(NAME_summary, NAME_fold; takes a sixth to "
         "a half longer to compile)"),
    FLAG("--check-only", check_only, "report errors, write nothing"),
    FLAG("-MD", write_dependencies, "write FILE.so.d: what the library is made from, for make"),
    FLAG("--time-report", time_report, "print how long each pass took"),
    {"--manual", manual_kinds, "print the manual page, or what a shell completes", read_manual, 0,
     NULL},
    {"--version", NULL, "print the version, that of the binary interface, and kinds of processors",
     read_version, 0, NULL},
    {"--help", NULL, "print this", read_help, 0, NULL}};

enum { OPTIONS = sizeof options / sizeof *options };

// ---- reading ---------------------------------------------------------------------------------

// The value of `--name value`, `--name=value` or `-Nvalue`, "" if it is missing; NULL if words[*i]
// is another option.
static const char *option_value(char **words, int count, int *i, const char *name) {
  size_t length = strlen(name);
  if (strncmp(words[*i], name, length) != 0) return NULL;
  const char *rest = words[*i] + length;
  if (*rest && length == 2) return rest;
  if (*rest) return *rest == '=' ? rest + 1 : NULL;
  return *i + 1 < count ? words[++*i] : "";
}

static int take_path_option(option_reader *r, const char *word) {
  if (r->options->path) return usage_error("one file", word);
  r->options->path = word;
  return 0;
}

// The word at *i, and the value behind it if it has one.
static int take_option_word(option_reader *r, char **words, int count, int *i) {
  const char *word = words[*i];
  for (const option *o = options; o < options + OPTIONS; o++) {
    if (!o->value && strcmp(word, o->name) != 0) continue;
    if (!o->read) return *(bool *)((char *)r->options + o->flag) = true, 0;
    const char *value = o->value ? option_value(words, count, i, o->name) : "";
    if (value) return o->read(r, value);
  }
  return word[0] == '-' && word[1] ? usage_error("an option", word) : take_path_option(r, word);
}

int read_options(option_reader *r, char **words, int count) {
  int status = 0;
  for (int i = 0; i < count && !status && !r->question; i++)
    status = take_option_word(r, words, count, &i);
  return status;
}

// ---- the manual ------------------------------------------------------------------------------

static const manual_option environment[] = {
    {"PATH", NULL, "where ptxas is looked for, if --target names a GPU", NULL},
    {"REC_NVDISASM", NULL, "nvdisasm for --emit=gpu-cost (default: the one in the path)", NULL},
    {"TMPDIR", NULL, "where ptxas works (default: /tmp)", NULL},
    {NULL, NULL, NULL, NULL}};

static const manual_option no_options[] = {{NULL, NULL, NULL, NULL}};

// std.deltanet, ..
static const char *standard_words(arena *a) {
  const char *list = "";
  for (const embedded_file *file = embedded_stdlib; file->name; file++)
    list = arena_printf(a, "%s%sstd.%s", list, *list ? ", " : "", file->name);
  return list;
}

const manual *options_manual(arena *a) {
  manual_option *rows = ARENA_ARRAY(a, manual_option, OPTIONS + 1);
  for (int i = 0; i < OPTIONS; i++) {
    const option *o = &options[i];
    rows[i] = (manual_option){o->name, o->value, o->help, o->values ? o->values(a) : NULL};
  }
  manual_command *commands = ARENA_ARRAY(a, manual_command, 2);
  commands[0] = (manual_command){
      .name = "",
      .synopsis = "FILE.rec|std.NAME [OPTIONS]",
      .purpose = "compiles a program",
      .text =
          "Compiles a program, or a file of the standard library, to a shared library and its C "
          "header.\n"
          "`recc fmt FILE.rec` prints it in the standard layout (rec fmt rewrites files).\n"
          "A value stands behind its option as a word of its own, or after =.\n",
      .options = rows,
      .operands = standard_words(a)};
  commands[1] =
      (manual_command){.name = "fmt",
                       .synopsis = "FILE.rec",
                       .purpose = "prints a program in the standard layout",
                       .text = "Prints a program in the standard layout; - is standard input.\n",
                       .options = no_options};
  manual *of = ARENA_NEW(a, manual);
  *of = (manual){.program = "recc",
                 .purpose = "compiler of rec, a language for linear-recurrent sequence layers",
                 .commands = commands,
                 .command_count = 2,
                 .environment = environment,
                 .see_also = ".BR rec (1)"};
  return of;
}
