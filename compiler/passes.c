// What the passes do: each calls the layer that it is named after, for all recurrences of the file.
#include "compiler/passes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/base/embedded.h"
#include "compiler/base/program.h"
#include "compiler/base/text.h"
#include "compiler/plan/kernel_plan.h"
#include "compiler/schedule/gpu/schedule.h"
#include "compiler/schedule/programs.h"
#include "compiler/schedule/report.h"
#include "compiler/schedule/tile_kernel.h"
#include "compiler/syntax/syntax.h"

// What a library carries: imports are found among them.
static bool load_carried(compilation *c) {
  for (int i = 0; i < c->options->carried.sources.count && !c->failure; i++) {
    const artifact_text *t = &c->options->carried.sources.items[i];
    const source *file = sources_add(c->files, t->path, t->text, strlen(t->text), &c->failure);
    if (i == 0) c->source = file;
  }
  return c->failure == NULL;
}

bool pass_load(compilation *c) {
  if (c->options->carried.sources.count) return load_carried(c);
  c->source = program_load(c->files, c->memory, embedded_stdlib, c->options->path, &c->failure);
  return c->source != NULL;
}

bool pass_parse(compilation *c) {
  c->syntax = parse_source(c->memory, c->names, c->messages, c->source);
  return true;
}

bool pass_check(compilation *c) {
  sema_options options = {.overrides = c->options->overrides.items,
                          .override_count = c->options->overrides.count,
                          .stdlib = embedded_stdlib};
  c->typed = sema_check(c->memory, c->names, c->messages, c->files, c->syntax, &options);
  return true;
}

bool pass_graph(compilation *c) {
  c->graph = graph_build(c->memory, c->names, c->messages, c->typed);
  bool models = c->graph && (c->graph->kernels.count || c->graph->models.count);
  if (models && c->options->choices.count)
    c->failure =
        arena_printf(c->memory, "expected one size of %s in a file with models, found several",
                     c->options->choices.items[0].name);
  else if (c->graph && c->needs & EMISSION_LAYERS && !c->options->choices.count &&
           !diag_has_errors(c->messages))
    graph_build_layers(c->memory, c->names, c->messages, c->typed, c->graph);
  return c->failure == NULL;
}

// Whether the file declares a recurrence, layer or model; then its imports are not exported again.
static bool declares_something(const compilation *c) {
  for (int i = 0; i < c->syntax->items.count; i++) {
    ast_item_kind kind = c->syntax->items.items[i]->kind;
    if (kind == AST_RECURRENCE || kind == AST_LAYER || kind == AST_MODEL) return true;
  }
  return false;
}

static bool is_exported(const compilation *c, const typed_body *body) {
  for (int i = 0; i < c->options->exported.count; i++)
    if (strcmp(c->options->exported.items[i], body->name) == 0) return true;
  return false;
}

// NULL, or what a name of --export should have been.
static const char *unknown_export(const compilation *c) {
  const char *names = "";
  for (int i = 0; i < c->typed->recurrences.count; i++)
    names = arena_printf(c->memory, "%s%s%s", names, i ? ", " : "",
                         c->typed->recurrences.items[i]->name);
  for (int i = 0; i < c->options->exported.count; i++) {
    bool known = false;
    for (int k = 0; k < c->typed->recurrences.count; k++)
      known |= strcmp(c->options->exported.items[i], c->typed->recurrences.items[k]->name) == 0;
    if (!known)
      return arena_printf(
          c->memory,
          "expected after --export a recurrence of the program or its imports%s%s, found '%s'",
          *names ? ", one of " : "", names, c->options->exported.items[i]);
  }
  return NULL;
}

bool pass_analyse(compilation *c) {
  c->failure = unknown_export(c);
  if (c->failure) return false;
  bool own_only = declares_something(c);
  for (int i = 0; i < c->typed->recurrences.count; i++) {
    const typed_body *body = c->typed->recurrences.items[i];
    bool wanted = !own_only || compilation_has_body(c, body) || is_exported(c, body);
    if (wanted && !variant_is_repeated(c, body)) vec_push(c->memory, &c->bodies, body);
  }
  for (int i = 0; c->graph && i < c->graph->kernels.count; i++)
    vec_push(c->memory, &c->bodies, c->graph->kernels.items[i].body);
  for (int i = 0; i < c->bodies.count; i++)
    vec_push(c->memory, &c->recurrences, recurrence_analyse(c->memory, c->bodies.items[i]));
  return true;
}

bool pass_read_recurrence(compilation *c) {
  recurrence *r = recurrence_from_text(c->memory, c->names, c->messages, c->source);
  if (!r) return true;
  typed_body *body = ARENA_NEW(c->memory, typed_body);
  *body = r->body;  // later passes append to the recurrence's own
  vec_push(c->memory, &c->bodies, body);
  vec_push(c->memory, &c->recurrences, r);
  return true;
}

bool pass_read_tile(compilation *c) {
  c->tile = tile_parse(c->memory, c->names, c->messages, c->source);
  return true;
}

bool pass_simplify(compilation *c) {
  c->tile = program_rewritten(c->memory, PROGRAM_SIMPLIFY, c->tile);
  return true;
}

bool pass_delay(compilation *c) {
  for (int i = 0; i < c->recurrences.count; i++)
    vec_push(c->memory, &c->delays,
             recurrence_delay_lags(c->memory, c->messages, c->recurrences.items[i]));
  return true;
}

// What kernels are made of: the recurrence without its long lags.
static const recurrence *made_of(const compilation *c, int index) {
  const recurrence_delays *delays = c->delays.items[index];
  return delays ? delays->made : c->recurrences.items[index];
}

// Whether what --emit asks for takes the place of the library.
static bool prints_instead(const compilation *c) {
  return c->options->emit && !(c->needs & EMISSION_BINDING);
}

// What --target and --emit ask for. A library of recurrences has PTX without being asked; models
// are trained on the host. GPU kernels compute in f32.
unsigned compilation_gpu_targets(const compilation *c) {
  bool emits = prints_instead(c);
  unsigned targets = c->options->gpu_targets;
  bool models = c->graph && c->graph->models.count;
  if (!c->options->targets_given && !emits && !models) targets = 1u << GPU_SM_80;
  if (c->needs & (EMISSION_GPU | EMISSION_COUNT) && !targets) targets = 1u << GPU_SM_80;
  // for devices that are none of the targets, and where a driver grants less memory than they have
  if (!emits && targets & ~(1u << GPU_SIMT)) targets |= 1u << GPU_SM_80;
  if (c->needs & EMISSION_EXECUTOR) targets = 1u << GPU_SIMT;
  if (c->needs & EMISSION_COUNT) targets |= 1u << GPU_SIMT;
  return c->options->dtype == NUMBER_F64 ? 0 : targets;
}

// Blocks whose states pass by a chain need summaries.
static bool program_needs_summaries(const compilation *c) {
  bool chain = false;
  for (int i = 0; c->graph && i < c->graph->trains.count; i++) {
    const graph_train *t = &c->graph->trains.items[i];
    chain |= t->exchange == EXCHANGE_CHAIN && t->segments > 1;
  }
  return chain || c->options->summary;
}

codegen_gpu_options compilation_gpu_options(const compilation *c) {
  return (codegen_gpu_options){.dtype = c->options->dtype,
                               .tf32 = c->options->tf32,
                               .shared_kib = c->options->shared_kib,
                               .summary = program_needs_summaries(c),
                               .targets = compilation_gpu_targets(c)};
}

// Every library with PTX has that of sm_80. Text is of the kernels that a library for these targets
// would hold.
static codegen_gpu_options options_of_schedule(const compilation *c) {
  codegen_gpu_options options = compilation_gpu_options(c);
  if (options.targets & ~(1u << GPU_SIMT)) options.targets |= 1u << GPU_SM_80;
  return options;
}

// chunk_build_linear_scan halves a chunk until its triangular systems are short enough.
static void warn_of_shorter_chunks(compilation *c, const recurrence_kernels *kernels) {
  const typed_body *body = &kernels->recurrence->body;
  int asked = c->options->chunk, taken = kernels->chunk;
  if (taken >= asked || strcmp(kernels->form, "chunk") != 0) return;
  diag_warning(c->messages, body->span,
               "expected --chunk %d at most for %s, found %d; it is compiled in chunks of %d, for "
               "triangular systems of more than 128 rows lose digits",
               taken, body->name, asked, taken);
}

static schedule_options schedule_options_of(const compilation *c) {
  return (schedule_options){.chunk = c->options->chunk,
                            .save_every = c->options->save_every,
                            .clones = c->options->clones,
                            .form = c->options->form,
                            .f64 = c->options->dtype == NUMBER_F64,
                            .summaries = program_needs_summaries(c),
                            .without = c->options->without};
}

// Would chunks compute the recurrence at a clearly lower cost, written as advised?
static bool advice_pays(const compilation *c, const recurrence_kernels *kernels,
                        const recurrence_advices *advices) {
  static const double clearly = 0.9;
  const recurrence *advised = recurrence_advised(c->memory, kernels->recurrence, advices);
  const recurrence_kernels *trial = schedule_recurrence(c->memory, advised, schedule_options_of(c));
  return strcmp(trial->form, "step") != 0 && trial->cost <= clearly * kernels->cost;
}

// Steps where --form asks for chunks, and those that another way of writing would spare.
static void warn_of_steps(compilation *c, const recurrence_kernels *kernels) {
  const typed_body *body = &kernels->recurrence->body;
  if (c->options->form == FORM_STEP || strcmp(kernels->form, "step") != 0) return;
  if (c->options->form == FORM_CHUNK)
    diag_warning(c->messages, body->span,
                 "expected chunks of %s for --form chunk, found none; it goes step by step: %s",
                 body->name, kernels->why);
  recurrence_advices advices = recurrence_advise(c->memory, kernels->recurrence);
  if (advices.count == 0 || !advice_pays(c, kernels, &advices)) return;
  vec_each(const recurrence_advice, advice, advices)
    diag_warning(c->messages, body->values.items[advice->value].span, "%s", advice->text);
}

bool pass_schedule(compilation *c) {
  for (int i = 0; i < c->recurrences.count; i++)
    vec_push(c->memory, &c->kernels,
             schedule_recurrence(c->memory, made_of(c, i), schedule_options_of(c)));
  for (int i = 0; i < c->kernels.count; i++) {
    warn_of_shorter_chunks(c, c->kernels.items[i]);
    warn_of_steps(c, c->kernels.items[i]);
  }
  return true;
}

bool pass_schedule_gpu(compilation *c) {
  codegen_gpu_options gpu = options_of_schedule(c);
  for (int i = 0; i < c->recurrences.count; i++) {
    gpu_forms forms = {0};
    if (gpu.targets)
      forms.small = codegen_gpu_schedule(c->memory, made_of(c, i), schedule_options_of(c), gpu);
    vec_push(c->memory, &c->gpu, forms);
  }
  return true;
}

bool pass_schedule_large(compilation *c) {
  for (int i = 0; i < c->gpu.count; i++)
    codegen_gpu_schedule_large(c->memory, &c->gpu.items[i], schedule_options_of(c),
                               options_of_schedule(c));
  return true;
}

bool pass_schedule_groups(compilation *c) {
  for (int i = 0; i < c->gpu.count; i++)
    codegen_gpu_schedule_groups(c->memory, &c->gpu.items[i], schedule_options_of(c),
                                options_of_schedule(c));
  return true;
}

bool pass_schedule_few(compilation *c) {
  for (int i = 0; i < c->gpu.count; i++)
    codegen_gpu_schedule_few(c->memory, &c->gpu.items[i], options_of_schedule(c));
  return true;
}

bool pass_differentiate_tile(compilation *c) {
  if (c->needs & EMISSION_BACKWARD) c->tile_gradient = program_gradient(c->memory, c->tile);
  return true;
}

bool pass_schedule_tile(compilation *c) {
  codegen_gpu_options gpu = compilation_gpu_options(c);
  c->tile_on_host = schedule_tile(c->memory, c->tile);
  c->tile_on_host->without = c->options->without;
  if (!gpu.targets) return true;
  c->tile_on_gpu = schedule_tile(c->memory, c->tile);
  c->tile_on_gpu->without = c->options->without;
  c->tile_on_gpu->gpu.warpgroups = codegen_gpu_has_target(gpu, CLASS_WARPGROUPS);
  return true;
}

// The kinds of processor; where GPU code alone is counted, the one that every machine has.
static unsigned clones_of(const compilation *c) {
  return c->needs & EMISSION_COUNT ? 1u << processor_rows[PROCESSOR_HOST].first
                                   : c->options->clones;
}

static codegen_options code_options(const compilation *c) {
  return (codegen_options){.level = c->needs & EMISSION_COUNT ? 0 : c->options->level,
                           .dtype = c->options->dtype,
                           .clones = clones_of(c),
                           .lines = c->options->lines ? c->files : NULL,
                           .text = c->needs & EMISSION_TEXT};
}

// The kernels of one target alone, which then stand for all.
static void keep_counted(compilation *c, gpu_forms *forms) {
  unsigned targets = compilation_gpu_targets(c) & ~(1u << GPU_SIMT);
  if (!(c->needs & EMISSION_COUNT) || targets & (targets - 1) || !targets) return;
  device_class class = codegen_gpu_class((codegen_gpu_target)__builtin_ctz(targets));
  recurrence_kernels *own = class == CLASS_WARPGROUPS ? forms->warpgroups
                            : class == CLASS_LARGE    ? forms->large
                                                      : NULL;
  *forms = (gpu_forms){.small = own ? own : forms->small};
}

bool pass_plan(compilation *c) {
  for (int i = 0; i < c->gpu.count; i++) keep_counted(c, &c->gpu.items[i]);
  codegen_options options = code_options(c);
  unsigned clones = codegen_clones(&options);
  for (int i = 0; i < c->kernels.count; i++)
    host_plan_kernels(c->memory, c->kernels.items[i]->kernels.items,
                      c->kernels.items[i]->kernels.count, clones, c->options->dtype);
  if (c->tile_on_host) host_plan_kernels(c->memory, c->tile_on_host, 1, clones, c->options->dtype);
  if (c->tile_on_gpu) gpu_plan_kernels(c->memory, c->tile_on_gpu, 1, compilation_gpu_options(c));
  return true;
}

const char *compilation_report(compilation *c, int index) {
  const recurrence_kernels *kernels = c->kernels.items[index];
  const recurrence_delays *delays = c->delays.items[index];
  return arena_printf(
      c->memory, "%s%s%s%s", recurrence_report(c->memory, c->files, c->recurrences.items[index]),
      delays ? recurrence_delay_report(c->memory, delays) : "",
      schedule_report(c->memory, kernels, c->options->dtype),
      artifact_gpu_report(c->memory, &c->gpu.items[index], compilation_gpu_options(c)));
}

static void lay_out_recurrence(compilation *c, int index, const char *const *plain) {
  const typed_body *body = &c->recurrences.items[index]->body;
  const char *symbol = abi_variant_symbol(c->memory, plain[index], variant_suffix(c, body), plain,
                                          c->recurrences.count);
  const recurrence_delays *delays = c->delays.items[index];
  artifact_recurrence r = {
      .variant = &c->library,
      .plain = plain[index],
      .abi = abi_layout(c->memory, body, symbol),
      .formulas = c->bodies.items[index],
      .delays = delays,
      .inner = delays ? abi_layout(c->memory, &delays->made->body, symbol) : NULL,
      .kernels = c->kernels.items[index],
      .report = compilation_report(c, index),
      .gpu = c->gpu.items[index],
      .check = c->options->check};
  for (int i = 0; i < c->picks.count; i++) {
    const size_choice *choice = &c->options->choices.items[i];
    if (variant_concerns(c, choice, body))
      vec_push(c->memory, &r.fixed,
               (artifact_size){choice->axis, choice->sizes.items[c->picks.items[i]]});
  }
  vec_push(c->memory, &c->library.recurrences, r);
}

// The words of --without, "" without any.
static const char *words_left_out(const compilation *c) {
  const pass_names *without = c->options->without;
  const char *words = "";
  for (int i = 0; without && i < without->count; i++)
    words = arena_printf(c->memory, "%s%s%s", words, i ? "," : "",
                         compile_optional_word(c->memory, without->items[i]));
  return words;
}

bool pass_lay_out(compilation *c) {
  artifact *library = &c->library;
  library->name = compilation_library_name(c);
  for (int i = 0; i < c->options->exported.count; i++)
    vec_push(c->memory, &library->exported, c->options->exported.items[i]);
  library->prefix = c->options->prefix;
  library->dtype = c->options->dtype;
  library->level = c->options->level;
  library->chunk = c->options->chunk;
  library->save_every = c->options->save_every;
  library->form = c->options->form;
  library->gpu_targets = compilation_gpu_targets(c);
  library->clones = clones_of(c);
  library->tf32 = c->options->tf32;
  library->shared_kib = c->options->shared_kib;
  library->without = words_left_out(c);
  library->check = c->options->check;
  library->summary = program_needs_summaries(c);
  library->from = c->options->carried.sources.count ? c->options->carried.from : c->options->from;
  for (int i = 0; i < c->options->defines.count; i++)
    vec_push(c->memory, &library->defines, c->options->defines.items[i]);
  if (c->typed)
    for (int i = 0; i < c->typed->files.count; i++)
      vec_push(c->memory, &library->sources, c->typed->files.items[i]->file->source);
  else
    vec_push(c->memory, &library->sources, c->source);
  bool standard = program_standard_name(c->options->path);
  library->source = standard ? c->options->path : file_name(library->sources.items[0]->path);
  const char **plain = ARENA_ARRAY(c->memory, const char *, c->recurrences.count + 1);
  for (int i = 0; i < c->recurrences.count; i++)
    plain[i] = abi_symbol(c->memory, library->prefix, &c->recurrences.items[i]->body, plain, i);
  for (int i = 0; i < c->recurrences.count; i++) lay_out_recurrence(c, i, plain);
  if (c->graph) library->program = graph_to_json(c->memory, c->graph);
  return true;
}

bool pass_join(compilation *c) {
  int count = c->variants.count;
  const artifact **libraries = ARENA_ARRAY(c->memory, const artifact *, count);
  for (int i = 0; i < count; i++) libraries[i] = &c->variants.items[i]->library;
  const compile_options *options = c->options;
  vec_each(const size_choice, choice, options->choices) {
    artifact_choice made = {.axis = choice->axis, .name = choice->name};
    for (int k = 0; k < choice->sizes.count; k++)
      vec_push(c->memory, &made.sizes, choice->sizes.items[k]);
    vec_push(c->memory, &c->whole.choices, made);
  }
  c->failure = artifact_join(c->memory, libraries, count, &c->whole);
  for (int i = 0; i < count && !c->failure; i++)
    c->variants.items[i]->contents =
        artifact_contents(c->memory, libraries[i], i ? NULL : &c->whole);
  return c->failure == NULL;
}

static bool is_in_path(const char *program) {
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

// Runs of the ptxas that was asked for, or with --target of the one in the path; NULL: none.
static artifact_assembly *begin_assembly(const compilation *c) {
  const char *asked = c->options->ptxas;
  bool counts = c->needs & EMISSION_COUNT;
  if ((prints_instead(c) && !counts) || (asked && strcmp(asked, "none") == 0)) return NULL;
  if (!asked && !((c->options->targets_given || counts) && is_in_path("ptxas"))) return NULL;
  unsigned targets = c->options->gpu_targets ? c->options->gpu_targets : compilation_gpu_targets(c);
  return artifact_assemble_begin(c->memory, asked ? asked : "ptxas", targets, c->options->lines,
                                 counts);
}

const kernel_list *compilation_gpu_kernels(compilation *c) {
  kernel_list *all = ARENA_NEW(c->memory, kernel_list);
  for (int i = 0; i < c->gpu.count; i++) codegen_gpu_add_kernels(c->memory, &c->gpu.items[i], all);
  return all;
}

// Whether the host's code is made, and while that for GPUs is.
static bool has_host_job(const compilation *c) {
  return !(c->needs & EMISSION_GPU) && compilation_gpu_targets(c);
}

bool pass_begin_host(compilation *c) {
  if (has_host_job(c)) c->host_job = codegen_begin(c->memory, c->contents, code_options(c));
  return true;
}

bool pass_gpu_code(compilation *c) {
  if (!has_host_job(c) && !(c->needs & EMISSION_GPU)) return true;
  const kernel_list *kernels = compilation_gpu_kernels(c);
  codegen_gpu_options options = compilation_gpu_options(c);
  if (c->needs & EMISSION_MODULE) options.targets = 0;
  options.text = c->needs & EMISSION_GPU;
  options.level = c->options->level;
  options.lines = c->options->lines ? c->files : NULL;
  options.counted = c->options->count || c->needs & EMISSION_COUNT ? c->files : NULL;
  c->assembly = begin_assembly(c);
  if (c->assembly) options.made = artifact_assemble_image;
  options.context = c->assembly;
  c->gpu_object = codegen_gpu_compile(c->memory, kernels->items, kernels->count, options);
  return true;
}

bool pass_host_code(compilation *c) {
  if (c->needs & EMISSION_GPU) return true;
  c->object = c->host_job ? codegen_end(c->host_job)
                          : codegen_compile(c->memory, c->contents, code_options(c));
  return true;
}

bool pass_assemble(compilation *c) {
  if (!c->object || !c->gpu_object) return true;
  // a ptxas that nobody asked for costs no more than the cubins when it fails
  bool no_files = false;
  const char *wrong =
      c->assembly ? artifact_assemble_end(c->assembly, c->gpu_object, &no_files) : NULL;
  if (c->options->ptxas) c->failure = wrong;
  if (!c->options->ptxas && no_files)
    diag_warning(c->messages, (span){0}, "%s; the library has PTX, but no machine code for GPUs",
                 wrong);
  artifact_add_images(c->memory, c->object, c->gpu_object);
  return c->failure == NULL;
}

bool pass_link(compilation *c) {
  artifact_part *parts = ARENA_ARRAY(c->memory, artifact_part, c->variants.count);
  for (int i = 0; i < c->variants.count; i++) {
    const compilation *variant = c->variants.items[i];
    parts[i] = (artifact_part){variant->contents, variant->object, variant->gpu_object};
  }
  c->failure = artifact_link(c->memory, &c->whole, parts, c->variants.count,
                             compilation_library_path(c), &c->linked);
  return c->failure == NULL;
}

// ---- verifiers: NULL, or what is wrong -------------------------------------------------------

const char *verify_recurrences(compilation *c) {
  for (int i = 0; i < c->recurrences.count; i++) {
    const char *wrong = recurrence_verify(c->memory, c->recurrences.items[i]);
    if (wrong) return arena_printf(c->memory, "%s: %s", c->recurrences.items[i]->body.name, wrong);
  }
  return NULL;
}

const char *verify_delays(compilation *c) {
  for (int i = 0; i < c->recurrences.count; i++) {
    const char *wrong = recurrence_verify(c->memory, made_of(c, i));
    if (wrong)
      return arena_printf(c->memory, "%s without long lags: %s", c->recurrences.items[i]->body.name,
                          wrong);
  }
  return NULL;
}

static const char *verify_tile_program(compilation *c, const tile_program *program) {
  const char *wrong = program ? tile_verify(c->memory, program) : NULL;
  return wrong ? arena_printf(c->memory, "%s: %s", program->name, wrong) : NULL;
}

const char *verify_tile(compilation *c) { return verify_tile_program(c, c->tile); }

static const char *verify_kernels_of(compilation *c, const recurrence_kernels *kernels) {
  for (int n = 0; kernels && n < kernels->kernels.count; n++) {
    const kernel *k = &kernels->kernels.items[n];
    const char *wrong = verify_tile_program(c, k->program);
    if (!wrong) wrong = verify_tile_program(c, k->recompute);
    if (wrong) return wrong;
  }
  return NULL;
}

const char *verify_kernels(compilation *c) {
  for (int i = 0; i < c->kernels.count; i++) {
    const char *wrong = verify_kernels_of(c, c->kernels.items[i]);
    if (wrong) return wrong;
  }
  return NULL;
}

const char *verify_gpu_kernels(compilation *c) {
  vec_each(const gpu_forms, forms, c->gpu) {
    const char *wrong = verify_kernels_of(c, forms->small);
    if (!wrong) wrong = verify_kernels_of(c, forms->large);
    if (!wrong) wrong = verify_kernels_of(c, forms->warpgroups);
    if (wrong) return arena_printf(c->memory, "GPU: %s", wrong);
  }
  return NULL;
}
