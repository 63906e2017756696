/* The order of the passes. Verifying, dumping and timing hang on the loop over the table, not in
 * the passes. */
#include "compiler/pipeline.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compiler/base/embedded.h"
#include "compiler/base/ice.h"
#include "compiler/equations/equations.h"
#include "compiler/graph/graph.h"
#include "compiler/kernel/gpu/schedule.h"
#include "compiler/schedule/report.h"
#include "compiler/schedule/tile_kernel.h"
#include "compiler/syntax/syntax.h"

/* Everything that one compilation has made so far. */
typedef struct compilation {
  arena *memory;
  interner *names;
  const compile_options *options;
  sources *files;
  diag *messages;
  const char *failure; /* a pass's own one line, for what has no place in a source */
  const source *source;
  ast_file *syntax;
  typed_program *typed;
  graph_program *graph; /* NULL: no layers and models */
  VEC(const typed_body *) bodies; /* of the recurrences, as the source has them */
  VEC(recurrence *) recurrences;
  VEC(recurrence_delays *) delays; /* by recurrence; NULL: it has no long lags */
  VEC(recurrence_kernels *) kernels;
  VEC(gpu_forms) gpu; /* by recurrence */
  tile_program *tile; /* --from=tile */
  artifact library;
  codegen_input contents;
  codegen_object *object;
  codegen_gpu_object *gpu_object;
} compilation;

/* ---- passes ---------------------------------------------------------------------------------- */

/* What a library carries: imports are found among them. */
static bool load_carried(compilation *c) {
  for (int i = 0; i < c->options->carried.sources.count && !c->failure; i++) {
    const artifact_text *t = &c->options->carried.sources.items[i];
    const source *file = sources_add(c->files, t->path, t->text, strlen(t->text), &c->failure);
    if (i == 0) c->source = file;
  }
  return c->failure == NULL;
}

static bool load(compilation *c) {
  if (c->options->carried.sources.count) return load_carried(c);
  c->source = sources_load(c->files, c->options->path, &c->failure);
  return c->source != NULL;
}

static bool parse(compilation *c) {
  c->syntax = parse_source(c->memory, c->names, c->messages, c->source);
  return true;
}

static bool check(compilation *c) {
  sema_options options = {c->options->overrides.items, c->options->overrides.count,
                          embedded_stdlib};
  c->typed = sema_check(c->memory, c->names, c->messages, c->files, c->syntax, &options);
  return true;
}

static bool build_graph(compilation *c) {
  c->graph = graph_build(c->memory, c->names, c->messages, c->typed);
  return true;
}

static bool is_own(const compilation *c, const typed_body *body) {
  return body->span.source == c->source->id;
}

/* Whether the file declares a recurrence, layer or model; then its imports are not exported again.
 * */
static bool declares_something(const compilation *c) {
  for (int i = 0; i < c->syntax->items.count; i++) {
    ast_item_kind kind = c->syntax->items.items[i]->kind;
    if (kind == AST_RECURRENCE || kind == AST_LAYER || kind == AST_MODEL) return true;
  }
  return false;
}

static bool is_asked_for(const compilation *c, const typed_body *body) {
  for (int i = 0; i < c->options->exported.count; i++)
    if (strcmp(c->options->exported.items[i], body->name) == 0) return true;
  return false;
}

static bool analyse(compilation *c) {
  bool own_only = declares_something(c);
  for (int i = 0; i < c->typed->recurrences.count; i++) {
    const typed_body *body = c->typed->recurrences.items[i];
    if (!own_only || is_own(c, body) || is_asked_for(c, body)) vec_push(c->memory, &c->bodies, body);
  }
  for (int i = 0; c->graph && i < c->graph->kernels.count; i++)
    vec_push(c->memory, &c->bodies, c->graph->kernels.items[i].body);
  for (int i = 0; i < c->bodies.count; i++)
    vec_push(c->memory, &c->recurrences,
             recurrence_analyse(c->memory, c->messages, c->bodies.items[i]));
  return true;
}

static bool read_recurrence(compilation *c) {
  recurrence *r = recurrence_from_text(c->memory, c->names, c->messages, c->source);
  if (!r) return true;
  typed_body *body = ARENA_NEW(c->memory, typed_body);
  *body = r->body; /* later passes append to the recurrence's own */
  vec_push(c->memory, &c->bodies, body);
  vec_push(c->memory, &c->recurrences, r);
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

static bool delay(compilation *c) {
  for (int i = 0; i < c->recurrences.count; i++)
    vec_push(c->memory, &c->delays, recurrence_delay_lags(c->memory, c->messages, c->recurrences.items[i]));
  return true;
}

/* What kernels are made of: the recurrence without its long lags. */
static const recurrence *made_of(const compilation *c, int index) {
  const recurrence_delays *delays = c->delays.items[index];
  return delays ? delays->made : c->recurrences.items[index];
}

/* Whether nothing of the host's code is printed. */
static bool emits_gpu_alone(const compilation *c) {
  static const char *const names[] = {"ptx", "simt", "gpu-functions", "gpu-hash", "gpu-header", "gpu-tile", "gpu-backward", "resources"};
  for (size_t i = 0; c->options->emit && i < sizeof names / sizeof *names; i++)
    if (strcmp(c->options->emit, names[i]) == 0) return true;
  return false;
}

/* What --target and --emit ask for. A library of recurrences has PTX without being asked; models are trained on the host.
 * GPU kernels compute in f32. */
static unsigned gpu_targets(const compilation *c) {
  const char *emit = c->options->emit;
  unsigned targets = c->options->gpu_targets;
  bool models = c->graph && c->graph->models.count;
  if (!c->options->targets_given && !emit && !models) targets = 1u << GPU_SM_80;
  if (emits_gpu_alone(c) && !targets) targets = 1u << GPU_SM_80;
  /* for devices that are none of the targets, and where a driver grants less memory than they have */
  if (!emit && targets & ~(1u << GPU_SIMT)) targets |= 1u << GPU_SM_80;
  if (emit && strcmp(emit, "simt") == 0) targets = 1u << GPU_SIMT;
  return c->options->dtype == NUMBER_F64 ? 0 : targets;
}

static codegen_gpu_options gpu_options(const compilation *c) {
  return (codegen_gpu_options){.dtype = c->options->dtype,
                               .tf32 = c->options->tf32,
                               .shared_kib = c->options->shared_kib,
                               .targets = gpu_targets(c)};
}

/* chunk_build_linear_scan halves a chunk until its triangular systems are short enough. */
static void warn_of_shorter_chunks(compilation *c, const recurrence_kernels *kernels) {
  const typed_body *body = &kernels->recurrence->body;
  int asked = c->options->chunk, taken = kernels->chunk;
  if (taken >= asked || strcmp(kernels->form, "chunk") != 0) return;
  diag_warning(c->messages, body->span,
               "expected --chunk %d at most for %s, found %d; it is compiled in chunks of %d, for "
               "triangular systems of more than 128 rows lose digits",
               taken, body->name, asked, taken);
}

/* Steps that another way of writing would spare; not where --form asks for them. */
static void warn_of_steps(compilation *c, const recurrence_kernels *kernels) {
  if (c->options->form == FORM_STEP || strcmp(kernels->form, "step") != 0) return;
  recurrence_advices advices = recurrence_advise(c->memory, kernels->recurrence);
  for (int i = 0; i < advices.count; i++)
    diag_warning(c->messages, advices.items[i].where, "%s", advices.items[i].text);
}

/* Every form that the targets have. */
static gpu_forms schedule_gpu(compilation *c, const recurrence *r, schedule_options options) {
  codegen_gpu_options gpu = gpu_options(c);
  gpu_forms forms = {0};
  if (!gpu.targets) return forms;
  forms.small = codegen_gpu_schedule(c->memory, r, options, gpu);
  codegen_gpu_schedule_large(c->memory, &forms, options, gpu);
  codegen_gpu_schedule_groups(c->memory, &forms, options, gpu);
  return forms;
}

static bool schedule(compilation *c) {
  schedule_options options = {.chunk = c->options->chunk,
                              .form = c->options->form,
                              .f64 = c->options->dtype == NUMBER_F64};
  for (int i = 0; i < c->recurrences.count; i++)
    vec_push(c->memory, &c->kernels,
             schedule_recurrence(c->memory, made_of(c, i), options));
  for (int i = 0; i < c->kernels.count; i++) {
    warn_of_shorter_chunks(c, c->kernels.items[i]);
    warn_of_steps(c, c->kernels.items[i]);
  }
  for (int i = 0; i < c->recurrences.count; i++) vec_push(c->memory, &c->gpu, schedule_gpu(c, made_of(c, i), options));
  return true;
}

static codegen_options code_options(const compilation *c) {
  const char *emit = c->options->emit;
  return (codegen_options){.level = c->options->level,
                           .dtype = c->options->dtype,
                           .clones = c->options->clones,
                           .lines = c->options->lines ? c->files : NULL,
                           .text = emit && (strcmp(emit, "llvm") == 0 || strcmp(emit, "asm") == 0)};
}

static const char *gpu_report_of(compilation *c, const recurrence_kernels *kernels, int kib) {
  codegen_gpu_options options = gpu_options(c);
  report_resources resources[2] = {0};
  for (int i = 0; i < kernels->kernels.count; i++) {
    kernel_kind kind = kernels->kernels.items[i].kind;
    if (kind != KERNEL_FORWARD && kind != KERNEL_BACKWARD) continue;
    codegen_gpu_kernel k =
        codegen_gpu_describe(c->memory, &kernels->kernels.items[i], options);
    resources[kind == KERNEL_BACKWARD] =
        (report_resources){k.threads, k.shared_bytes, k.base.scratch.constant, artifact_gpu_launches(&k),
                           k.products, k.group_products, k.left, k.rows, k.bulk_rows};
  }
  return schedule_report_gpu(c->memory, kernels, c->options->dtype, resources, kib);
}

/* Of every form, where more shared memory changes something. */
static const char *gpu_report_text(compilation *c, const gpu_forms *forms) {
  if (!forms->small) return "";
  const char *text = gpu_report_of(c, forms->small, 0);
  const recurrence_kernels *more[] = {forms->large, forms->groups};
  for (int i = 0; i < 2; i++)
    if (more[i]) text = arena_printf(c->memory, "%s%s", text, gpu_report_of(c, more[i], GPU_LARGE_KIB));
  return text;
}

static const char *report_text(compilation *c, int index) {
  const recurrence_kernels *kernels = c->kernels.items[index];
  const recurrence_delays *delays = c->delays.items[index];
  return arena_printf(c->memory, "%s%s%s%s",
                      recurrence_report(c->memory, c->files, c->recurrences.items[index]),
                      delays ? recurrence_delay_report(c->memory, delays) : "",
                      schedule_report(c->memory, kernels, c->options->dtype),
                      gpu_report_text(c, &c->gpu.items[index]));
}

/* mamba2 for any/path/mamba2.rec */
static const char *base_name(arena *a, const char *path) {
  const char *slash = strrchr(path, '/');
  char *name = arena_strdup(a, slash ? slash + 1 : path);
  char *dot = strrchr(name, '.');
  if (dot && dot != name) *dot = 0;
  return name;
}

static const char *library_path(const compilation *c) {
  if (c->options->output) return c->options->output;
  const char *path = c->options->path, *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
  size_t length = dot && (!slash || dot > slash + 1) ? (size_t)(dot - path) : strlen(path);
  return arena_printf(c->memory, "%.*s.so", (int)length, path);
}

static bool lay_out(compilation *c) {
  artifact *library = &c->library;
  library->name = base_name(c->memory, library_path(c));
  library->dtype = c->options->dtype;
  library->level = c->options->level;
  library->chunk = c->options->chunk;
  library->form = c->options->form;
  library->gpu_targets = gpu_targets(c);
  library->clones = c->options->clones;
  library->tf32 = c->options->tf32;
  library->shared_kib = c->options->shared_kib;
  library->check = c->options->check;
  library->from = c->options->carried.sources.count ? c->options->carried.from : c->options->from;
  for (int i = 0; i < c->options->defines.count; i++)
    vec_push(c->memory, &library->defines, c->options->defines.items[i]);
  if (c->typed) {
    for (int i = 0; i < c->typed->files.count; i++)
      vec_push(c->memory, &library->sources, c->typed->files.items[i]->file->source);
  } else {
    vec_push(c->memory, &library->sources, c->source);
  }
  for (int i = 0; i < c->recurrences.count; i++) {
    const abi_recurrence *abi = abi_layout(c->memory, &c->recurrences.items[i]->body, library);
    const recurrence_delays *delays = c->delays.items[i];
    vec_push(c->memory, &library->recurrences,
             (artifact_recurrence){
                 .abi = abi,
                 .formulas = c->bodies.items[i],
                 .delays = delays,
                 .inner = delays ? abi_layout_as(c->memory, &delays->made->body, abi->symbol) : NULL,
                 .kernels = c->kernels.items[i], .report = report_text(c, i),
                 .gpu = c->gpu.items[i],
                 .check = c->options->check});
  }
  if (c->graph) library->program = graph_to_json(c->memory, c->graph);
  c->contents = artifact_contents(c->memory, library, code_options(c));
  return true;
}

static bool in_path(const char *program) {
  const char *path = getenv("PATH");
  char file[4096];
  while (path && *path) {
    int length = (int)strcspn(path, ":");
    snprintf(file, sizeof file, "%.*s/%s", length, path, program);
    if (length && access(file, X_OK) == 0) return true;
    path += length + (path[length] == ':');
  }
  return false;
}

/* Runs of the ptxas that was asked for, or with --target of the one in the path; NULL: none. */
static artifact_assembly *begin_assembly(const compilation *c) {
  const char *asked = c->options->ptxas;
  if (c->options->emit || (asked && strcmp(asked, "none") == 0)) return NULL;
  if (!asked && !(c->options->targets_given && in_path("ptxas"))) return NULL;
  unsigned targets = c->options->gpu_targets ? c->options->gpu_targets : gpu_targets(c);
  return artifact_assemble_begin(c->memory, asked ? asked : "ptxas", targets, c->options->lines);
}

static const kernel_list *kernels_of_all(compilation *c) {
  kernel_list *all = ARENA_NEW(c->memory, kernel_list);
  for (int i = 0; i < c->gpu.count; i++) codegen_gpu_add_kernels(c->memory, &c->gpu.items[i], all);
  return all;
}

/* What ptxas makes of the images is waited for by finish_gpu, so that it runs while the host's code is made. */
static artifact_assembly *generate_gpu(compilation *c) {
  const kernel_list *kernels = kernels_of_all(c);
  const char *emit = c->options->emit;
  codegen_gpu_options options = gpu_options(c);
  bool abstract = emit && (strcmp(emit, "gpu-hash") == 0 || strcmp(emit, "gpu-functions") == 0 || strcmp(emit, "resources") == 0);
  if (abstract) options.targets = 0;
  options.text = emits_gpu_alone(c);
  options.lines = c->options->lines ? c->files : NULL;
  artifact_assembly *cubins = begin_assembly(c);
  if (cubins) options.made = artifact_assemble_image;
  options.context = cubins;
  c->gpu_object = codegen_gpu_compile(c->memory, kernels->items, kernels->count, options);
  return cubins;
}

static void finish_gpu(compilation *c, artifact_assembly *cubins) {
  /* a ptxas that nobody asked for costs no more than the cubins when it fails */
  bool no_files = false;
  const char *wrong = cubins ? artifact_assemble_end(cubins, c->gpu_object, &no_files) : NULL;
  if (c->options->ptxas) c->failure = wrong;
  if (!c->options->ptxas && no_files)
    diag_warning(c->messages, (span){0}, "%s; the library has PTX, but no machine code for GPUs", wrong);
  artifact_add_images(c->memory, c->object, c->gpu_object);
}

static bool generate(compilation *c) {
  if (emits_gpu_alone(c)) return generate_gpu(c), true;
  if (!gpu_targets(c)) {
    c->object = codegen_compile(c->memory, c->contents, code_options(c));
    return c->failure == NULL;
  }
  codegen_job *host = codegen_begin(c->memory, c->contents, code_options(c));
  artifact_assembly *cubins = generate_gpu(c);
  c->object = codegen_end(host);
  finish_gpu(c, cubins);
  return c->failure == NULL;
}

static bool link_library(compilation *c) {
  const char *path = library_path(c);
  const char *dot = strrchr(path, '.');
  bool shared = dot && strcmp(dot, ".so") == 0;
  const char *header =
      arena_printf(c->memory, "%.*s.h", (int)(shared ? (size_t)(dot - path) : strlen(path)), path);
  c->failure = artifact_write(c->memory, &c->library, c->object, c->gpu_object, path, header);
  return c->failure == NULL;
}

/* ---- verifiers: NULL, or what is wrong ------------------------------------------------------- */

static const char *verify_recurrences(compilation *c) {
  for (int i = 0; i < c->recurrences.count; i++) {
    const char *wrong = recurrence_verify(c->memory, c->recurrences.items[i]);
    if (wrong) return arena_printf(c->memory, "%s: %s", c->recurrences.items[i]->body.name, wrong);
  }
  return NULL;
}

static const char *verify_delays(compilation *c) {
  for (int i = 0; i < c->recurrences.count; i++) {
    const char *wrong = recurrence_verify(c->memory, made_of(c, i));
    if (wrong) return arena_printf(c->memory, "%s without long lags: %s", c->recurrences.items[i]->body.name, wrong);
  }
  return NULL;
}

static const char *verify_program(compilation *c, const tile_program *program) {
  const char *wrong = program ? tile_verify(c->memory, program) : NULL;
  return wrong ? arena_printf(c->memory, "%s: %s", program->name, wrong) : NULL;
}

static const char *verify_tile(compilation *c) { return verify_program(c, c->tile); }

static const char *verify_kernels(compilation *c) {
  for (int i = 0; i < c->kernels.count; i++) {
    for (int n = 0; n < c->kernels.items[i]->kernels.count; n++) {
      const kernel *k = &c->kernels.items[i]->kernels.items[n];
      const char *wrong = verify_program(c, k->program);
      if (!wrong) wrong = verify_program(c, k->recompute);
      if (wrong) return wrong;
    }
  }
  return NULL;
}

/* ---- dumps ----------------------------------------------------------------------------------- */

static void dump_tokens(compilation *c, FILE *out) {
  print_tokens(out, c->memory, c->messages, c->source);
}
static void dump_syntax(compilation *c, FILE *out) { print_ast(out, c->syntax); }

static void dump_types(compilation *c, FILE *out) {
  for (int i = 0; i < c->typed->recurrences.count; i++)
    fprintf(out, "%s%s", i ? "\n" : "",
            typed_print_body(c->memory, c->typed->recurrences.items[i]));
}

static void dump_graph(compilation *c, FILE *out) {
  if (c->graph) fputs(graph_print(c->memory, c->graph), out);
}

static void dump_recurrences(compilation *c, FILE *out) {
  for (int i = 0; i < c->recurrences.count; i++)
    fprintf(out, "%s%s", i ? "\n" : "", recurrence_print(c->memory, c->recurrences.items[i]));
}

/* --from=tile: a kernel for the program alone. */
static const kernel_list *kernels_of_tile(compilation *c, bool groups) {
  kernel_list *all = ARENA_NEW(c->memory, kernel_list);
  kernel *k = schedule_tile(c->memory, c->tile);
  k->groups = groups;
  vec_push(c->memory, all, k);
  return all;
}

static const kernel_list *kernels_of_host(compilation *c) {
  if (c->tile) return kernels_of_tile(c, false);
  kernel_list *all = ARENA_NEW(c->memory, kernel_list);
  for (int i = 0; i < c->kernels.count; i++)
    for (int n = 0; n < c->kernels.items[i]->kernels.count; n++)
      vec_push(c->memory, all, &c->kernels.items[i]->kernels.items[n]);
  return all;
}

/* Those that a target has. */
static const kernel_list *kernels_of_gpus(compilation *c) {
  if (c->tile) return kernels_of_tile(c, codegen_gpu_has_target(gpu_options(c), ROOM_GROUPS));
  const kernel_list *all = kernels_of_all(c);
  kernel_list *some = ARENA_NEW(c->memory, kernel_list);
  for (int i = 0; i < all->count; i++)
    if (codegen_gpu_is_for(all->items[i], gpu_targets(c))) vec_push(c->memory, some, all->items[i]);
  return some;
}

/* Programs of the kernels, backward ones or the others, each text once: kernels share programs. */
static void dump_kernels(compilation *c, FILE *out, const kernel_list *kernels, bool backward) {
  VEC(const char *) printed = {0};
  for (int i = 0; i < kernels->count; i++) {
    const kernel *k = kernels->items[i];
    if ((k->kind == KERNEL_BACKWARD || k->kind == KERNEL_PART_BACK) != backward) continue;
    const tile_program *programs[] = {k->recompute, k->program};
    for (int p = 0; p < 2; p++) {
      const char *text = programs[p] ? tile_print(c->memory, programs[p]) : NULL;
      for (int earlier = 0; text && earlier < printed.count; earlier++)
        if (strcmp(printed.items[earlier], text) == 0) text = NULL;
      if (!text) continue;
      fprintf(out, "%s%s", printed.count ? "\n" : "", text);
      vec_push(c->memory, &printed, text);
    }
  }
}

static void dump_tile(compilation *c, FILE *out) {
  if (c->tile)
    fputs(tile_print(c->memory, c->tile), out);
  else
    dump_kernels(c, out, kernels_of_host(c), false);
}

/* A program that was read is for no machine. */
static void dump_gpu_tile(compilation *c, FILE *out) {
  c->tile ? dump_tile(c, out) : dump_kernels(c, out, kernels_of_gpus(c), false);
}

static void dump_backward(compilation *c, FILE *out);
static void dump_gpu_backward(compilation *c, FILE *out) {
  c->tile ? dump_backward(c, out) : dump_kernels(c, out, kernels_of_gpus(c), true);
}

/* The host has a plan for each kind of processor; where none is named, that of most is printed. */
static void dump_plan(compilation *c, FILE *out) {
  unsigned clones = c->options->clones ? c->options->clones : 1u << CLONE_V3;
  bool gpus = gpu_targets(c), host = !gpus || c->options->host, first = true;
  const kernel_list *kernels = kernels_of_host(c);
  for (codegen_clone clone = 0; host && clone < CLONE_COUNT; clone++) {
    if (!(clones >> clone & 1)) continue;
    const char *text = codegen_plans(c->memory, kernels->items, kernels->count, clone, c->options->dtype);
    fprintf(out, "%s%s", first ? "" : "\n", text);
    first = false;
  }
  if (!gpus) return;
  kernels = kernels_of_gpus(c);
  fprintf(out, "%s%s", first ? "" : "\n", codegen_gpu_plans(c->memory, kernels->items, kernels->count, gpu_options(c)));
}

static void dump_backward(compilation *c, FILE *out) {
  if (!c->tile) {
    dump_kernels(c, out, kernels_of_host(c), true);
    return;
  }
  tile_gradient gradient = tile_differentiate(c->memory, c->tile);
  if (gradient.recompute) fprintf(out, "%s\n", tile_print(c->memory, gradient.recompute));
  fputs(tile_print(c->memory, gradient.backward), out);
}

static void dump_header(compilation *c, FILE *out) {
  fputs(artifact_header(c->memory, &c->library), out);
}
static void dump_manifest(compilation *c, FILE *out) {
  fputs(artifact_manifest(c->memory, &c->library, true), out);
}

static void dump_report(compilation *c, FILE *out) {
  for (int i = 0; i < c->recurrences.count; i++)
    fprintf(out, "%s%s", i ? "\n" : "", report_text(c, i));
}

/* The body of a recurrence as the source wrote it; NULL where IR was read. */
static const typed_body *source_body(const compilation *c, const char *name) {
  for (int i = 0; c->typed && i < c->typed->recurrences.count; i++)
    if (c->typed->recurrences.items[i]->name == name) return c->typed->recurrences.items[i];
  return NULL;
}

static void print_equations(compilation *c, FILE *out, equation_style style) {
  fputs(equations_begin(style), out);
  for (int i = 0; i < c->kernels.count; i++) {
    const recurrence_kernels *k = c->kernels.items[i];
    const typed_body *written = source_body(c, k->recurrence->body.name);
    fprintf(out, "%s%s", i ? "\n" : "", equations_print(c->memory, written, k, style));
  }
  fputs(equations_end(style), out);
}

static void dump_equations(compilation *c, FILE *out) { print_equations(c, out, EQUATIONS_TEXT); }
static void dump_latex(compilation *c, FILE *out) { print_equations(c, out, EQUATIONS_LATEX); }

static void dump_llvm(compilation *c, FILE *out) { fputs(c->object->llvm, out); }
static void dump_assembly(compilation *c, FILE *out) { fputs(c->object->assembly, out); }

/* Every image that was asked for, one after another. PTX says what it was made from and by what. */
static void dump_images(compilation *c, FILE *out) {
  for (int i = 0; c->gpu_object && i < c->gpu_object->images.count; i++) {
    const codegen_gpu_image *image = &c->gpu_object->images.items[i];
    if (image->target != GPU_SIMT)
      fprintf(out, "// recc %s, module %s, LLVM %s\n", REC_VERSION, c->gpu_object->hash,
              codegen_llvm_version(c->memory));
    if (image->text) fputs(image->text, out);
  }
}

static void dump_gpu_hash(compilation *c, FILE *out) {
  if (c->gpu_object) fprintf(out, "%s\n", c->gpu_object->hash);
}

static void dump_gpu_header(compilation *c, FILE *out) {
  fputs(artifact_gpu_header(c->memory, &c->library), out);
}

static void dump_resources(compilation *c, FILE *out) {
  if (c->gpu_object) fputs(artifact_resources(c->memory, &c->library, c->gpu_object), out);
}

static void dump_gpu_functions(compilation *c, FILE *out) {
  for (int i = 0; c->gpu_object && i < c->gpu_object->functions.count; i++)
    fprintf(out, "%6d %s\n", c->gpu_object->functions.items[i].instructions,
            c->gpu_object->functions.items[i].symbol);
}

static void dump_functions(compilation *c, FILE *out) {
  dump_gpu_functions(c, out);
  for (int i = 0; i < c->object->functions.count; i++)
    fprintf(out, "%6d %s\n", c->object->functions.items[i].instructions,
            c->object->functions.items[i].symbol);
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct pass {
  const char *name;
  bool (*run)(compilation *);
  pipeline_layer from, to;
  const char *(*verify)(compilation *);
} pass;

static const pass program_passes[] = {
    {"load", load, LAYER_FILE, LAYER_SOURCE, NULL},
    {"parse", parse, LAYER_SOURCE, LAYER_SYNTAX, NULL},
    /* Names and axes are checked only in a file without syntax errors: a partial tree would give
     * false messages. */
    {"check", check, LAYER_SYNTAX, LAYER_TYPED, NULL},
    /* After check: layers call recurrences with sizes. Before analyse: what layers compute between
     * their calls becomes recurrences like those of the user. */
    {"graph", build_graph, LAYER_TYPED, LAYER_TYPED, NULL},
    /* Normalises before it looks for structure, so that a decay is found as a logarithm however it
     * was written. */
    {"analyse", analyse, LAYER_TYPED, LAYER_RECURRENCE, verify_recurrences},
    /* After analyse: the interpreter and --emit=recurrence have the lags as they were written. */
    {"delay", delay, LAYER_RECURRENCE, LAYER_RECURRENCE, verify_delays},
    /* Builds step and chunk programs and derives the backward from them: a new structure needs no
     * backward of its own. */
    {"schedule", schedule, LAYER_RECURRENCE, LAYER_KERNEL, verify_kernels},
    /* Before generate: tables name the kernels' symbols, and all become one object. */
    {"lay out", lay_out, LAYER_KERNEL, LAYER_CONTENTS, NULL},
    {"generate", generate, LAYER_CONTENTS, LAYER_OBJECT, NULL},
    {"link", link_library, LAYER_OBJECT, LAYER_LIBRARY, NULL},
};

static const pass recurrence_passes[] = {
    {"load", load, LAYER_FILE, LAYER_SOURCE, NULL},
    {"read", read_recurrence, LAYER_SOURCE, LAYER_RECURRENCE, verify_recurrences},
    {"delay", delay, LAYER_RECURRENCE, LAYER_RECURRENCE, verify_delays},
    {"schedule", schedule, LAYER_RECURRENCE, LAYER_KERNEL, verify_kernels},
    {"lay out", lay_out, LAYER_KERNEL, LAYER_CONTENTS, NULL},
    {"generate", generate, LAYER_CONTENTS, LAYER_OBJECT, NULL},
    {"link", link_library, LAYER_OBJECT, LAYER_LIBRARY, NULL},
};

static const pass tile_passes[] = {
    {"load", load, LAYER_FILE, LAYER_SOURCE, NULL},
    {"read", read_tile, LAYER_SOURCE, LAYER_KERNEL, verify_tile},
    {"simplify", simplify, LAYER_KERNEL, LAYER_KERNEL, verify_tile},
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

/* What --emit prints: what the last pass that writes the layer has made. */
typedef struct emission {
  const char *name;
  pipeline_layer layer;
  void (*dump)(compilation *, FILE *);
} emission;

static const emission emissions[] = {
    {"tokens", LAYER_SOURCE, dump_tokens},
    {"ast", LAYER_SYNTAX, dump_syntax},
    {"types", LAYER_TYPED, dump_types},
    {"graph", LAYER_TYPED, dump_graph},
    {"recurrence", LAYER_RECURRENCE, dump_recurrences},
    {"tile", LAYER_KERNEL, dump_tile},
    {"backward", LAYER_KERNEL, dump_backward},
    {"gpu-tile", LAYER_KERNEL, dump_gpu_tile},
    {"gpu-backward", LAYER_KERNEL, dump_gpu_backward},
    {"plan", LAYER_KERNEL, dump_plan},
    {"report", LAYER_KERNEL, dump_report},
    {"equations", LAYER_KERNEL, dump_equations},
    {"latex", LAYER_KERNEL, dump_latex},
    {"header", LAYER_CONTENTS, dump_header},
    {"manifest", LAYER_CONTENTS, dump_manifest},
    {"functions", LAYER_OBJECT, dump_functions},
    {"llvm", LAYER_OBJECT, dump_llvm},
    {"asm", LAYER_OBJECT, dump_assembly},
    {"ptx", LAYER_OBJECT, dump_images},
    {"simt", LAYER_OBJECT, dump_images},
    {"gpu-functions", LAYER_OBJECT, dump_gpu_functions},
    {"gpu-hash", LAYER_OBJECT, dump_gpu_hash},
    {"gpu-header", LAYER_CONTENTS, dump_gpu_header},
    {"resources", LAYER_OBJECT, dump_resources},
};
const char compile_emit_list[] =
    "tokens, ast, types, graph, recurrence, tile, backward, gpu-tile, gpu-backward, plan, report, equations, latex, header, "
    "manifest, functions, llvm, asm, ptx, simt, gpu-functions, gpu-hash, gpu-header, "
    "resources";

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

/* An import from the standard library inside recc: no file. */
static bool is_embedded(arena *a, const source *file) {
  const embedded_file *found = embedded_find(embedded_stdlib, base_name(a, file->path));
  return found && file->size == found->size && memcmp(file->text, found->data, found->size) == 0;
}

/* A path as make reads it. */
static const char *make_path(arena *a, const char *path) {
  const char *escaped = "";
  for (const char *p = path; *p; p++) {
    const char *escape = *p == ' ' || *p == '#' ? "\\" : *p == '$' ? "$" : "";
    escaped = arena_printf(a, "%s%s%c", escaped, escape, *p);
  }
  return escaped;
}

/* OUT.d: what the library was made from, as a rule for make. */
static bool write_dependencies(compilation *c) {
  const char *rule = arena_printf(c->memory, "%s:", make_path(c->memory, library_path(c)));
  for (int i = 0; i < c->library.sources.count; i++) {
    const source *file = c->library.sources.items[i];
    if (file != c->source && is_embedded(c->memory, file)) continue;
    rule = arena_printf(c->memory, "%s %s", rule, make_path(c->memory, file->path));
  }
  rule = arena_printf(c->memory, "%s\n", rule);
  const char *path = arena_printf(c->memory, "%s.d", library_path(c));
  c->failure = write_file(c->memory, path, rule, strlen(rule), false);
  return c->failure == NULL;
}

int compile(arena *a, interner *names, const compile_options *options, FILE *out, FILE *errors) {
  compilation c = {.memory = a, .names = names, .options = options, .files = sources_new(a)};
  c.messages = diag_new(a, c.files);
  const pass_list *list =
      find_list(options->carried.from ? options->carried.from : options->from);
  const emission *what = options->emit ? find_emission(options->emit) : NULL;
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
  if (good && what) good = emit(&c, what, out) && !diag_has_errors(c.messages);
  if (good && target == LAYER_LIBRARY && options->write_dependencies) good = write_dependencies(&c);
  diag_print(c.messages, errors);
  if (c.failure) fprintf(errors, "error: %s\n", c.failure);
  if (options->time_report) report_times(&c, list, &times, errors);
  return good ? 0 : 1;
}
