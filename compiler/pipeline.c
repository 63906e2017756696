// The order of the passes. Verifying, printing and timing hang on the loop over the table, not in
// the passes (passes.c).
#include "compiler/pipeline.h"

#include <string.h>

#include "compiler/abi/clock.h"
#include "compiler/base/ice.h"
#include "compiler/emission.h"
#include "compiler/passes.h"
#include "compiler/plan/kernel_plan.h"
#include "compiler/schedule/programs.h"

// ---- the table -------------------------------------------------------------------------------

// What a file is (--from): the passes that it goes through. ONCE: a pass is for all variants
// together. OPTIONAL: the library is right without the pass (--without).
enum {
  PROGRAM = 1,
  RECURRENCE = 2,
  TILE = 4,
  COMPILED = PROGRAM | RECURRENCE,
  ONCE = 8,
  OPTIONAL = 16
};

typedef struct pass {
  const char *name;
  unsigned of;  // PROGRAM, ..
  bool (*run)(compilation *);
  pipeline_layer from, to;
  const char *(*verify)(compilation *);
} pass;

static const pass passes[] = {
    {"load", PROGRAM | RECURRENCE | TILE | ONCE, pass_load, LAYER_FILE, LAYER_SOURCE, NULL},
    {"parse", PROGRAM | ONCE, pass_parse, LAYER_SOURCE, LAYER_SYNTAX, NULL},
    // Each number type and each combination of sizes is a compilation of its own from here on,
    // until they are joined.
    {"vary", PROGRAM | ONCE, pass_vary, LAYER_SYNTAX, LAYER_SYNTAX, NULL},
    {"vary", RECURRENCE | ONCE, pass_vary, LAYER_SOURCE, LAYER_SOURCE, NULL},
    // Names and axes are checked only in a file without syntax errors: a partial tree would give
    // false messages.
    {"check", PROGRAM, pass_check, LAYER_SYNTAX, LAYER_TYPED, NULL},
    // After check: layers call recurrences with sizes. Before analyse: what layers compute between
    // their calls becomes recurrences like those of the user.
    {"graph", PROGRAM, pass_graph, LAYER_TYPED, LAYER_TYPED, NULL},
    // Normalises before it looks for structure, so that a decay is found as a logarithm however it
    // was written.
    {"analyse", PROGRAM, pass_analyse, LAYER_TYPED, LAYER_RECURRENCE, verify_recurrences},
    {"read", RECURRENCE, pass_read_recurrence, LAYER_SOURCE, LAYER_RECURRENCE, verify_recurrences},
    {"read", TILE, pass_read_tile, LAYER_SOURCE, LAYER_KERNEL, verify_tile},
    {"simplify", TILE, pass_simplify, LAYER_KERNEL, LAYER_KERNEL, verify_tile},
    {"differentiate", TILE, pass_differentiate_tile, LAYER_KERNEL, LAYER_KERNEL, NULL},
    // A kernel for the program alone.
    {"schedule", TILE, pass_schedule_tile, LAYER_KERNEL, LAYER_KERNEL, NULL},
    // After analyse: the interpreter and --emit=recurrence have the lags as they were written.
    {"delay", COMPILED, pass_delay, LAYER_RECURRENCE, LAYER_RECURRENCE, verify_delays},
    // Builds step and chunk programs and derives the backward from them: a new structure needs no
    // backward of its own.
    {"schedule", COMPILED, pass_schedule, LAYER_RECURRENCE, LAYER_KERNEL, verify_kernels},
    // The same for GPUs, if one is a target, by the shared memory that every device has.
    {"gpu schedule", COMPILED, pass_schedule_gpu, LAYER_RECURRENCE, LAYER_KERNEL,
     verify_gpu_kernels},
    // After gpu schedule: kernels for more shared memory are taken where they are cheaper than
    // those.
    {"gpu large", COMPILED | OPTIONAL, pass_schedule_large, LAYER_KERNEL, LAYER_KERNEL,
     verify_gpu_kernels},
    // After gpu large: kernels whose products warpgroups make are compared with both.
    {"gpu groups", COMPILED | OPTIONAL, pass_schedule_groups, LAYER_KERNEL, LAYER_KERNEL,
     verify_gpu_kernels},
    // After gpu groups: each form gets one more forward and backward, for calls with few instances.
    {"gpu few", COMPILED | OPTIONAL, pass_schedule_few, LAYER_KERNEL, LAYER_KERNEL,
     verify_gpu_kernels},
    // What is lowered later is the plan that each kernel has from here on. Kernels of GPUs have
    // been chosen by theirs.
    {"plan", COMPILED | TILE, pass_plan, LAYER_KERNEL, LAYER_PLAN, NULL},
    // Before the code: tables name the kernels' symbols, and all become one object.
    {"lay out", COMPILED, pass_lay_out, LAYER_PLAN, LAYER_CONTENTS, NULL},
    // After all variants are laid out: the manifest, the header and the entry points that choose a
    // variant name all of them.
    {"join", COMPILED | ONCE, pass_join, LAYER_CONTENTS, LAYER_CONTENTS, NULL},
    // Threads of their own make the host's code while gpu code runs; host code waits for them.
    {"begin host", COMPILED, pass_begin_host, LAYER_CONTENTS, LAYER_OBJECT, NULL},
    {"gpu code", COMPILED, pass_gpu_code, LAYER_CONTENTS, LAYER_OBJECT, NULL},
    {"host code", COMPILED, pass_host_code, LAYER_CONTENTS, LAYER_OBJECT, NULL},
    // gpu code starts a ptxas for each image; this waits for them.
    {"assemble", COMPILED, pass_assemble, LAYER_OBJECT, LAYER_OBJECT, NULL},
    {"link", COMPILED | ONCE, pass_link, LAYER_OBJECT, LAYER_LINKED, NULL},
    {"write", COMPILED | ONCE, pass_write, LAYER_LINKED, LAYER_LIBRARY, NULL},
    {"dependencies", COMPILED | ONCE, pass_write_dependencies, LAYER_LIBRARY, LAYER_LIBRARY, NULL},
};

enum { PASSES = sizeof passes / sizeof *passes };

static const struct {
  const char *name;
  unsigned of;
} inputs[] = {{"manifest", PROGRAM}, {"recurrence", RECURRENCE}, {"tile", TILE}};

// The bit of a word behind --from, NULL: none; 0: it is none of them.
static unsigned input_of(const char *from) {
  if (!from) return PROGRAM;
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
    if (strcmp(from, inputs[i].name) == 0) return inputs[i].of;
  return 0;
}

bool compile_can_read(const char *what) { return input_of(what) != 0; }
bool compile_can_emit(const char *what) { return emission_find(what) != NULL; }
const char *compile_emit_list(arena *a) { return emission_names(a); }

// Position of the last pass of an input that writes a layer, -1 if there is none.
static int last_pass(unsigned input, pipeline_layer layer) {
  for (int i = PASSES - 1; i >= 0; i--)
    if (passes[i].of & input && passes[i].to == layer) return i;
  return -1;
}

// ---- what may be left out ----

static const char *pipeline_pass_name(int index) { return passes[index].name; }
static bool may_leave_pass_out(int index) { return passes[index].of & OPTIONAL; }

static const pass_stage pipeline_stage = {"pipeline", PASSES, pipeline_pass_name,
                                          may_leave_pass_out};
static const pass_stage *const optional_stages[] = {&pipeline_stage, &program_stage, &kernel_stage,
                                                    &plan_pass_stage, &choice_stage};

const char *compile_optional_word(arena *a, const char *name) {
  char *word = arena_strdup(a, name);
  for (char *c = word; *c; c++)
    if (*c == ' ') *c = '-';
  return word;
}

// Looks at all names until one is `word`; without a word, lists them.
static const char *optional_names(arena *a, const char *word) {
  const char *list = "";
  for (size_t s = 0; s < sizeof optional_stages / sizeof *optional_stages; s++) {
    const pass_stage *stage = optional_stages[s];
    for (int i = 0; i < stage->count; i++) {
      if (!stage->may_leave_out(i)) continue;
      const char *own = compile_optional_word(a, stage->name_of(i));
      if (word && strcmp(own, word) == 0) return stage->name_of(i);
      list = arena_printf(a, "%s%s%s", list, *list ? ", " : "", own);
    }
  }
  return word ? NULL : list;
}

const char *compile_optional_list(arena *a) { return optional_names(a, NULL); }
const char *compile_find_optional(arena *a, const char *word) { return optional_names(a, word); }

// ---- the loop --------------------------------------------------------------------------------

static double processor_clock(void) { return clock_seconds(CLOCK_PROCESS_CPUTIME_ID); }

static void report_time(const char *name, double seconds, double processor, FILE *out) {
  fprintf(out, "%-21s %7.1f ms %7.1f ms\n", name, 1e3 * seconds, 1e3 * processor);
}

// Passes that a pass of the table above has run, stage by stage.
static void report_inner_times(const pass_log *log, FILE *out) {
  for (int i = 0; i < log->stages.count; i++) {
    const pass_stage *stage = log->stages.items[i].stage;
    for (int n = 0; n < stage->count; n++) {
      const pass_count *count = &log->stages.items[i].counts[n];
      if (count->runs)
        fprintf(out, "  %-19s %7.1f ms %6d runs\n", stage->name_of(n), 1e3 * count->seconds,
                count->runs);
    }
  }
}

static void report_times(const compilation *c, FILE *out) {
  double seconds = 0, processor = 0;
  fprintf(out, "pass                        time  processor time\n");
  vec_each(const pass_run, run, c->runs) {
    report_time(run->name, run->seconds, run->processor, out);
    report_inner_times(&run->inner, out);
    seconds += run->seconds;
    processor += run->processor;
  }
  report_time("total", seconds, processor, out);
}

// False: messages or a failure say why it is not good.
static bool verify(compilation *c, const pass *p) {
  const char *wrong = p->verify ? p->verify(c) : NULL;
  // Text that was read is the user's: then it is not the compiler that is wrong.
  bool theirs = p->from == LAYER_SOURCE;
  if (wrong && !theirs) ICE(p->name, "%s", wrong);
  if (wrong) c->failure = arena_printf(c->memory, "%s: %s", c->options->path, wrong);
  return !wrong;
}

// For a variant; the run is noted for the first. False: messages or a failure say why not.
static bool run_compiler_pass(compilation *first, compilation *c, const pass *p) {
  pass_run run = {.name = p->name, .inner = {.memory = c->memory}};
  double start = pass_clock(), processor_start = processor_clock();
  pass_log *before = pass_log_use(&run.inner);
  bool good = p->run(c) && !diag_has_errors(c->messages) && verify(c, p);
  pass_log_use(before);
  run.seconds = pass_clock() - start;
  run.processor = processor_clock() - processor_start;
  vec_push(c->memory, &first->runs, run);
  first->failure = c->failure;
  return good;
}

// The passes from `begin` to `end` that an input has, for all variants in turn. One variant's code
// is made at a time.
static bool run_range(compilation *first, unsigned input, int begin, int end) {
  bool once = passes[begin].of & ONCE || !first->variants.count, good = true;
  for (int v = 0; v < (once ? 1 : first->variants.count); v++)
    for (int i = begin; i <= end && good; i++)
      if (passes[i].of & input && !pass_is_left_out(first->options->without, passes[i].name))
        good = run_compiler_pass(first, once ? first : first->variants.items[v], &passes[i]);
  return good;
}

// Runs the passes of an input up to and with `last`.
static bool run_pipeline(compilation *c, unsigned input, int last) {
  bool good = true;
  for (int begin = 0, end; begin <= last && good; begin = end + 1) {
    end = begin;
    while (end < last && (passes[end + 1].of & ONCE) == (passes[begin].of & ONCE)) end++;
    good = run_range(c, input, begin, end);
  }
  return good;
}

// Whether there are several variants, of which --emit cannot print one.
static bool has_variants(const compile_options *options) {
  return options->dtypes.count > 1 || options->choices.count;
}

int compile(arena *a, interner *names, const compile_options *options, FILE *out, FILE *errors) {
  const emission *what = options->emit ? emission_find(options->emit) : NULL;
  compilation c = {.memory = a, .names = names, .options = options, .files = sources_new(a)};
  c.needs = what ? what->needs : 0;
  c.messages = diag_new(a, c.files);
  unsigned input = input_of(options->carried.from ? options->carried.from : options->from);
  pipeline_layer target = what                  ? what->layer
                          : options->check_only ? LAYER_RECURRENCE
                                                : LAYER_LIBRARY;
  int last = last_pass(input, target);
  if (last < 0) {
    fprintf(errors, "error: expected what can be made from a %s, found --emit=%s\n",
            options->from ? options->from : "program",
            options->emit         ? options->emit
            : options->check_only ? "nothing"
                                  : "a library");
    return 1;
  }
  if (c.needs & (EMISSION_GPU | EMISSION_EXECUTOR) && options->dtype == NUMBER_F64) {
    fprintf(errors,
            "error: expected --dtype f32, bf16 or f16 with --emit=%s, found f64: GPU kernels "
            "compute in f32\n",
            options->emit);
    return 1;
  }
  if (what && has_variants(options) && !(what->needs & (EMISSION_LIBRARY | EMISSION_BINDING))) {
    fprintf(errors,
            "error: expected one type after --dtype and one size of each axis with --emit=%s, "
            "found several\n",
            options->emit);
    return 1;
  }
  // The passes that write check their outputs again: the imports, which are inputs, are known only
  // then.
  bool good = (options->check_only || compilation_may_write(&c)) && run_pipeline(&c, input, last);
  if (good && what) good = emission_print(&c, what, out) && !diag_has_errors(c.messages);
  diag_print(c.messages, errors);
  if (c.failure) fprintf(errors, "error: %s\n", c.failure);
  if (options->time_report) report_times(&c, errors);
  return good ? 0 : 1;
}
