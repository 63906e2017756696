/* The order of the passes. Verifying, dumping and timing hang on the loop over the table, not in
 * the passes. */
#include "compiler/pipeline.h"

#include <string.h>
#include <time.h>

#include "compiler/base/ice.h"
#include "compiler/emission.h"
#include "compiler/passes.h"

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct pass {
  const char *name;
  bool (*run)(compilation *);
  pipeline_layer from, to;
  const char *(*verify)(compilation *);
} pass;

static const pass program_passes[] = {
    {"load", pass_load, LAYER_FILE, LAYER_SOURCE, NULL},
    {"parse", pass_parse, LAYER_SOURCE, LAYER_SYNTAX, NULL},
    /* Names and axes are checked only in a file without syntax errors: a partial tree would give
     * false messages. */
    {"check", pass_check, LAYER_SYNTAX, LAYER_TYPED, NULL},
    /* After check: layers call recurrences with sizes. Before analyse: what layers compute between
     * their calls becomes recurrences like those of the user. */
    {"graph", pass_graph, LAYER_TYPED, LAYER_TYPED, NULL},
    /* Normalises before it looks for structure, so that a decay is found as a logarithm however it
     * was written. */
    {"analyse", pass_analyse, LAYER_TYPED, LAYER_RECURRENCE, verify_recurrences},
    /* After analyse: the interpreter and --emit=recurrence have the lags as they were written. */
    {"delay", pass_delay, LAYER_RECURRENCE, LAYER_RECURRENCE, verify_delays},
    /* Builds step and chunk programs and derives the backward from them: a new structure needs no
     * backward of its own. */
    {"schedule", pass_schedule, LAYER_RECURRENCE, LAYER_KERNEL, verify_kernels},
    /* Before generate: tables name the kernels' symbols, and all become one object. */
    {"lay out", pass_lay_out, LAYER_KERNEL, LAYER_CONTENTS, NULL},
    {"generate", pass_generate, LAYER_CONTENTS, LAYER_OBJECT, NULL},
    {"link", pass_link, LAYER_OBJECT, LAYER_LIBRARY, NULL},
};

static const pass recurrence_passes[] = {
    {"load", pass_load, LAYER_FILE, LAYER_SOURCE, NULL},
    {"read", pass_read_recurrence, LAYER_SOURCE, LAYER_RECURRENCE, verify_recurrences},
    {"delay", pass_delay, LAYER_RECURRENCE, LAYER_RECURRENCE, verify_delays},
    {"schedule", pass_schedule, LAYER_RECURRENCE, LAYER_KERNEL, verify_kernels},
    {"lay out", pass_lay_out, LAYER_KERNEL, LAYER_CONTENTS, NULL},
    {"generate", pass_generate, LAYER_CONTENTS, LAYER_OBJECT, NULL},
    {"link", pass_link, LAYER_OBJECT, LAYER_LIBRARY, NULL},
};

static const pass tile_passes[] = {
    {"load", pass_load, LAYER_FILE, LAYER_SOURCE, NULL},
    {"read", pass_read_tile, LAYER_SOURCE, LAYER_KERNEL, verify_tile},
    {"simplify", pass_simplify, LAYER_KERNEL, LAYER_KERNEL, verify_tile},
};

typedef struct pass_list {
  const char *from; /* --from */
  const pass *passes;
  int count;
} pass_list;

#define LIST(from, passes) \
  { from, passes, (int)(sizeof passes / sizeof *passes) }
static const pass_list pass_lists[] = {
    LIST(NULL, program_passes), LIST("manifest", program_passes),
    LIST("recurrence", recurrence_passes), LIST("tile", tile_passes)};

static const pass_list *find_list(const char *from) {
  for (size_t i = 0; i < sizeof pass_lists / sizeof *pass_lists; i++) {
    const char *name = pass_lists[i].from;
    if (from == name || (from && name && strcmp(from, name) == 0)) return &pass_lists[i];
  }
  return NULL;
}

bool compile_can_read(const char *what) { return find_list(what) != NULL; }
bool compile_can_emit(const char *what) { return emission_find(what) != NULL; }
const char *compile_emit_list(arena *a) { return emission_names(a); }

/* Position of the last pass of a list that writes a layer, -1 if there is none. */
static int last_pass(const pass_list *list, pipeline_layer layer) {
  for (int i = list->count - 1; i >= 0; i--)
    if (list->passes[i].to == layer) return i;
  return -1;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct timing {
  struct {
    double wall, processor;
  } passes[16];
  int count;
} timing;

static void report_times(const compilation *c, const pass_list *list, const timing *times,
                         FILE *out) {
  double wall = 0, processor = 0;
  fprintf(out, "pass             time  processor time\n");
  for (int i = 0; i < times->count; i++) {
    fprintf(out, "%-10s %7.1f ms %7.1f ms\n", list->passes[i].name, 1e3 * times->passes[i].wall,
            1e3 * times->passes[i].processor);
    wall += times->passes[i].wall;
    processor += times->passes[i].processor;
    if (strcmp(list->passes[i].name, "generate") != 0 || !c->object) continue;
    fprintf(out, "  build    %7.1f ms\n  optimise %7.1f ms\n  emit     %7.1f ms\n",
            1e3 * c->object->build_seconds, 1e3 * c->object->passes_seconds,
            1e3 * c->object->emit_seconds);
  }
  fprintf(out, "%-10s %7.1f ms %7.1f ms\n", "total", 1e3 * wall, 1e3 * processor);
}

/* Runs the passes up to and with `last`. False: messages or a failure say why not. */
static bool run_passes(compilation *c, const pass_list *list, int last, timing *times) {
  for (int i = 0; i <= last; i++) {
    const pass *p = &list->passes[i];
    double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
    bool good = p->run(c);
    if (good && !diag_has_errors(c->messages) && p->verify) {
      const char *wrong = p->verify(c);
      /* Text that was read is the user's: then it is not the compiler that is wrong. */
      bool theirs = p->from == LAYER_SOURCE;
      if (wrong && !theirs) ICE(p->name, "%s", wrong);
      if (wrong) c->failure = arena_printf(c->memory, "%s: %s", c->options->path, wrong);
      good = !wrong;
    }
    times->passes[times->count].wall = seconds(CLOCK_MONOTONIC) - wall;
    times->passes[times->count++].processor = seconds(CLOCK_PROCESS_CPUTIME_ID) - processor;
    if (!good || diag_has_errors(c->messages)) return false;
  }
  return true;
}

int compile(arena *a, interner *names, const compile_options *options, FILE *out, FILE *errors) {
  const emission *what = options->emit ? emission_find(options->emit) : NULL;
  compilation c = {.memory = a, .names = names, .options = options, .files = sources_new(a)};
  c.needs = what ? what->needs : 0;
  c.messages = diag_new(a, c.files);
  const pass_list *list =
      find_list(options->carried.from ? options->carried.from : options->from);
  pipeline_layer target = what                  ? what->layer
                          : options->check_only ? LAYER_RECURRENCE
                                                : LAYER_LIBRARY;
  int last = last_pass(list, target);
  if (last < 0) {
    fprintf(errors, "error: expected what can be made from a %s, found --emit=%s\n",
            options->from ? options->from : "program",
            options->emit         ? options->emit
            : options->check_only ? "nothing"
                                  : "a library");
    return 1;
  }
  timing times = {0};
  bool good = run_passes(&c, list, last, &times);
  if (good && what) good = emission_print(&c, what, out) && !diag_has_errors(c.messages);
  if (good && target == LAYER_LIBRARY && options->write_dependencies) good = compilation_write_dependencies(&c);
  diag_print(c.messages, errors);
  if (c.failure) fprintf(errors, "error: %s\n", c.failure);
  if (options->time_report) report_times(&c, list, &times, errors);
  return good ? 0 : 1;
}
