/* The order of the passes. Verifying, dumping and timing hang on the loop over the table, not in the passes. */
#include "compiler/pipeline.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compiler/base/embedded.h"
#include "compiler/base/ice.h"
#include "compiler/graph/graph.h"
#include "compiler/syntax/syntax.h"

/* Everything that one compilation has made so far. */
typedef struct compilation {
  arena *memory;
  interner *names;
  const compile_options *options;
  sources *files;
  diag *messages;
  const char *failure;           /* a pass's own one line, for what has no place in a source */
  const source *source;
  ast_file *syntax;
  typed_program *typed;
  graph_program *graph;          /* NULL: no models */
  VEC(recurrence *) recurrences;
  tile_program *tile;            /* --from=tile */
} compilation;

/* ---- passes ------------------------------------------------------------------------------------------------------------ */

static bool load(compilation *c) {
  c->source = sources_load(c->files, c->options->path, &c->failure);
  return c->source != NULL;
}

static bool parse(compilation *c) {
  c->syntax = parse_source(c->memory, c->names, c->messages, c->source);
  return true;
}

static bool check(compilation *c) {
  sema_options options = {c->options->overrides.items, c->options->overrides.count, embedded_stdlib};
  c->typed = sema_check(c->memory, c->names, c->messages, c->files, c->syntax, &options);
  return true;
}

static bool build_graph(compilation *c) {
  c->graph = graph_build(c->memory, c->names, c->messages, c->typed);
  return true;
}

static bool is_own(const compilation *c, const typed_body *body) { return body->span.source == c->source->id; }

/* Whether the file declares a recurrence, layer or model; then its imports are not exported again. */
static bool declares_something(const compilation *c) {
  for (int i = 0; i < c->syntax->items.count; i++) {
    ast_item_kind kind = c->syntax->items.items[i]->kind;
    if (kind == AST_RECURRENCE || kind == AST_LAYER || kind == AST_MODEL) return true;
  }
  return false;
}

static bool analyse(compilation *c) {
  bool own_only = declares_something(c);
  VEC(const typed_body *) bodies = {0};
  for (int i = 0; i < c->typed->recurrences.count; i++)
    if (!own_only || is_own(c, c->typed->recurrences.items[i]))
      vec_push(c->memory, &bodies, c->typed->recurrences.items[i]);
  for (int i = 0; c->graph && i < c->graph->kernels.count; i++)
    vec_push(c->memory, &bodies, c->graph->kernels.items[i].body);
  for (int i = 0; i < bodies.count; i++)
    vec_push(c->memory, &c->recurrences, recurrence_analyse(c->memory, c->messages, bodies.items[i]));
  return true;
}

static bool read_recurrence(compilation *c) {
  recurrence *r = recurrence_parse(c->memory, c->names, c->messages, c->source);
  if (r) vec_push(c->memory, &c->recurrences, r);
  return true;
}

static bool read_tile(compilation *c) {
  c->tile = tile_parse(c->memory, c->names, c->messages, c->source);
  return true;
}

static bool simplify(compilation *c) {
  c->tile = tile_simplify(c->memory, c->tile);
  return true;
}

/* ---- verifiers: NULL, or what is wrong --------------------------------------------------------------------------------- */

static const char *verify_recurrences(compilation *c) {
  for (int i = 0; i < c->recurrences.count; i++) {
    const char *wrong = recurrence_verify(c->memory, c->recurrences.items[i]);
    if (wrong) return arena_printf(c->memory, "%s: %s", c->recurrences.items[i]->body.name, wrong);
  }
  return NULL;
}

static const char *verify_program(compilation *c, const tile_program *program) {
  const char *wrong = program ? tile_verify(c->memory, program) : NULL;
  return wrong ? arena_printf(c->memory, "%s: %s", program->name, wrong) : NULL;
}

static const char *verify_tile(compilation *c) { return verify_program(c, c->tile); }

/* ---- dumps --------------------------------------------------------------------------------------------------------------- */

static void dump_tokens(compilation *c, FILE *out) { print_tokens(out, c->memory, c->messages, c->source); }
static void dump_syntax(compilation *c, FILE *out) { print_ast(out, c->syntax); }

static void dump_types(compilation *c, FILE *out) {
  for (int i = 0; i < c->typed->recurrences.count; i++)
    fprintf(out, "%s%s", i ? "\n" : "", typed_print_body(c->memory, c->typed->recurrences.items[i]));
}

static void dump_graph(compilation *c, FILE *out) {
  if (c->graph) fputs(graph_print(c->memory, c->graph), out);
}

static void dump_recurrences(compilation *c, FILE *out) {
  for (int i = 0; i < c->recurrences.count; i++)
    fprintf(out, "%s%s", i ? "\n" : "", recurrence_print(c->memory, c->recurrences.items[i]));
}

static void dump_report(compilation *c, FILE *out) {
  for (int i = 0; i < c->recurrences.count; i++)
    fputs(recurrence_report(c->memory, c->files, c->recurrences.items[i]), out);
}

static void dump_tile(compilation *c, FILE *out) { fputs(tile_print(c->memory, c->tile), out); }

static void dump_backward(compilation *c, FILE *out) {
  tile_gradient gradient = tile_differentiate(c->memory, c->tile);
  if (gradient.recompute) fprintf(out, "%s\n", tile_print(c->memory, gradient.recompute));
  fputs(tile_print(c->memory, gradient.backward), out);
}

/* ---- the table --------------------------------------------------------------------------------------------------------- */

typedef struct pass {
  const char *name;
  bool (*run)(compilation *);
  pipeline_layer from, to;
  const char *(*verify)(compilation *);
} pass;

static const pass program_passes[] = {
    {"load", load, LAYER_FILE, LAYER_SOURCE, NULL},
    {"parse", parse, LAYER_SOURCE, LAYER_SYNTAX, NULL},
    /* Names and axes are checked only in a file without syntax errors: a partial tree would give false messages. */
    {"check", check, LAYER_SYNTAX, LAYER_TYPED, NULL},
    /* After check: layers call recurrences with sizes. Before analyse: what layers compute between their calls becomes
     * recurrences like those of the user. */
    {"graph", build_graph, LAYER_TYPED, LAYER_TYPED, NULL},
    /* Normalises before it looks for structure, so that a decay is found as a logarithm however it was written. */
    {"analyse", analyse, LAYER_TYPED, LAYER_RECURRENCE, verify_recurrences},
};

static const pass recurrence_passes[] = {
    {"load", load, LAYER_FILE, LAYER_SOURCE, NULL},
    {"read", read_recurrence, LAYER_SOURCE, LAYER_RECURRENCE, verify_recurrences},
};

static const pass tile_passes[] = {
    {"load", load, LAYER_FILE, LAYER_SOURCE, NULL},
    {"read", read_tile, LAYER_SOURCE, LAYER_KERNEL, verify_tile},
    {"simplify", simplify, LAYER_KERNEL, LAYER_KERNEL, verify_tile},
};

typedef struct pass_list {
  const char *from;  /* --from */
  const pass *passes;
  int count;
} pass_list;

#define LIST(from, passes) {from, passes, (int)(sizeof passes / sizeof *passes)}
static const pass_list pass_lists[] = {
    LIST(NULL, program_passes), LIST("recurrence", recurrence_passes), LIST("tile", tile_passes)};

static const pass_list *find_list(const char *from) {
  for (size_t i = 0; i < sizeof pass_lists / sizeof *pass_lists; i++) {
    const char *name = pass_lists[i].from;
    if (from == name || (from && name && strcmp(from, name) == 0)) return &pass_lists[i];
  }
  return NULL;
}

bool compile_can_read(const char *what) { return find_list(what) != NULL; }

/* What --emit prints: what the last pass that writes the layer has made. */
typedef struct emission {
  const char *name;
  pipeline_layer layer;
  void (*dump)(compilation *, FILE *);
} emission;

static const emission emissions[] = {
    {"tokens", LAYER_SOURCE, dump_tokens},       {"ast", LAYER_SYNTAX, dump_syntax},
    {"types", LAYER_TYPED, dump_types},          {"graph", LAYER_TYPED, dump_graph},
    {"recurrence", LAYER_RECURRENCE, dump_recurrences},
    {"tile", LAYER_KERNEL, dump_tile},           {"backward", LAYER_KERNEL, dump_backward},

    {"report", LAYER_RECURRENCE, dump_report},
};
const char compile_emit_list[] = "tokens, ast, types, graph, recurrence, tile, backward, report";

static const emission *find_emission(const char *what) {
  for (size_t i = 0; i < sizeof emissions / sizeof *emissions; i++)
    if (strcmp(emissions[i].name, what) == 0) return &emissions[i];
  return NULL;
}

bool compile_can_emit(const char *what) { return find_emission(what) != NULL; }

/* Position of the last pass of a list that writes a layer, -1 if there is none. */
static int last_pass(const pass_list *list, pipeline_layer layer) {
  for (int i = list->count - 1; i >= 0; i--)
    if (list->passes[i].to == layer) return i;
  return -1;
}

/* ---- the loop ------------------------------------------------------------------------------------------------------------ */

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct timing {
  double passes[16];
  int count;
} timing;

static void report_times(const pass_list *list, const timing *times, FILE *out) {
  double total = 0;
  for (int i = 0; i < times->count; i++) {
    fprintf(out, "%-10s %9.2f ms\n", list->passes[i].name, 1e3 * times->passes[i]);
    total += times->passes[i];
  }
  fprintf(out, "%-10s %9.2f ms\n", "total", 1e3 * total);
}

/* Runs the passes up to and with `last`. False: messages or a failure say why not. */
static bool run_passes(compilation *c, const pass_list *list, int last, timing *times) {
  for (int i = 0; i <= last; i++) {
    const pass *p = &list->passes[i];
    double start = seconds();
    bool good = p->run(c);
    if (good && !diag_has_errors(c->messages) && p->verify) {
      const char *wrong = p->verify(c);
      if (wrong) ICE(p->name, "%s", wrong);
    }
    times->passes[times->count++] = seconds() - start;
    if (!good || diag_has_errors(c->messages)) return false;
  }
  return true;
}

static bool emit(compilation *c, const emission *what, FILE *out) {
  if (!c->options->output) {
    what->dump(c, out);
    return true;
  }
  char *text = NULL;
  size_t size = 0;
  FILE *memory = open_memstream(&text, &size);
  if (!memory) ICE("emit", "no memory");
  what->dump(c, memory);
  fclose(memory);
  c->failure = write_file(c->memory, c->options->output, text, size, false);
  free(text);
  return c->failure == NULL;
}

int compile(arena *a, interner *names, const compile_options *options, FILE *out, FILE *errors) {
  compilation c = {.memory = a, .names = names, .options = options, .files = sources_new(a)};
  c.messages = diag_new(a, c.files);
  const pass_list *list = find_list(options->from);
  const emission *what = options->emit ? find_emission(options->emit) : NULL;
  pipeline_layer target = what ? what->layer : options->check_only ? LAYER_RECURRENCE : LAYER_LIBRARY;
  int last = last_pass(list, target);
  if (last < 0) {
    fprintf(errors, "error: expected what can be made from a %s, found --emit=%s\n", options->from ? options->from : "program",
            options->emit ? options->emit : options->check_only ? "nothing" : "a library");
    return 1;
  }
  timing times = {0};
  bool good = run_passes(&c, list, last, &times);
  if (good && what) good = emit(&c, what, out) && !diag_has_errors(c.messages);
  diag_print(c.messages, errors);
  if (c.failure) fprintf(errors, "error: %s\n", c.failure);
  if (options->time_report) report_times(list, &times, errors);
  return good ? 0 : 1;
}
