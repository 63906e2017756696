// What --emit prints, a row for each.
#include "compiler/emission.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/abi/output.h"
#include "compiler/base/ice.h"
#include "compiler/bindings/bindings.h"
#include "compiler/emit/llvm.h"
#include "compiler/equations/equations.h"
#include "compiler/passes.h"
#include "compiler/schedule/gpu/model.h"
#include "compiler/schedule/gpu/schedule.h"
#include "compiler/schedule/report.h"
#include "compiler/syntax/syntax.h"

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

static const kernel_list *kernel_alone(compilation *c, const kernel *k) {
  kernel_list *all = ARENA_NEW(c->memory, kernel_list);
  vec_push(c->memory, all, k);
  return all;
}

static const kernel_list *kernels_of_host(compilation *c) {
  if (c->tile) return kernel_alone(c, c->tile_on_host);
  kernel_list *all = ARENA_NEW(c->memory, kernel_list);
  for (int i = 0; i < c->kernels.count; i++)
    for (int n = 0; n < c->kernels.items[i]->kernels.count; n++)
      vec_push(c->memory, all, &c->kernels.items[i]->kernels.items[n]);
  return all;
}

// Those that a target has.
static const kernel_list *kernels_of_gpus(compilation *c) {
  if (c->tile) return kernel_alone(c, c->tile_on_gpu);
  const kernel_list *all = compilation_gpu_kernels(c);
  kernel_list *some = ARENA_NEW(c->memory, kernel_list);
  for (int i = 0; i < all->count; i++)
    if (codegen_gpu_is_for(all->items[i], compilation_gpu_targets(c)))
      vec_push(c->memory, some, all->items[i]);
  return some;
}

// Programs of the kernels, backward ones or the others, each text once: kernels share programs.
static void dump_kernels(compilation *c, FILE *out, const kernel_list *kernels, bool backward) {
  VEC(const char *) printed = {0};
  for (int i = 0; i < kernels->count; i++) {
    const kernel *k = kernels->items[i];
    if (kernel_goes_back(k->kind) != backward) continue;
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

// A program that was read is for no machine.
static void dump_gpu_tile(compilation *c, FILE *out) {
  c->tile ? dump_tile(c, out) : dump_kernels(c, out, kernels_of_gpus(c), false);
}

static void dump_backward(compilation *c, FILE *out) {
  if (!c->tile) {
    dump_kernels(c, out, kernels_of_host(c), true);
    return;
  }
  if (c->tile_gradient.recompute)
    fprintf(out, "%s\n", tile_print(c->memory, c->tile_gradient.recompute));
  fputs(tile_print(c->memory, c->tile_gradient.backward), out);
}

static void dump_gpu_backward(compilation *c, FILE *out) {
  c->tile ? dump_backward(c, out) : dump_kernels(c, out, kernels_of_gpus(c), true);
}

// The host has a plan for each kind of processor; where none is named, that of most is printed.
static void dump_plan(compilation *c, FILE *out) {
  codegen_clone usual =
      PROCESSOR_HOST == PROCESSOR_X86_64 ? CLONE_V3 : processor_rows[PROCESSOR_HOST].first;
  unsigned clones = c->options->clones ? c->options->clones : 1u << usual;
  bool gpus = compilation_gpu_targets(c), host = !gpus || c->options->host, first = true;
  const kernel_list *kernels = kernels_of_host(c);
  for (codegen_clone clone = 0; host && clone < CLONE_COUNT; clone++) {
    if (!(clones >> clone & 1)) continue;
    const char *text =
        codegen_plans(c->memory, kernels->items, kernels->count, clone, c->options->dtype);
    fprintf(out, "%s%s", first ? "" : "\n", text);
    first = false;
  }
  if (!gpus) return;
  kernels = kernels_of_gpus(c);
  fprintf(out, "%s%s", first ? "" : "\n",
          codegen_gpu_plans(c->memory, kernels->items, kernels->count, compilation_gpu_options(c)));
}

static void dump_gpu_model(compilation *c, FILE *out) {
  const kernel_list *kernels = kernels_of_gpus(c);
  fputs(gpu_model_text(c->memory, kernels->items, kernels->count, compilation_gpu_options(c)), out);
}

// A line for each pass that has run, and behind it those that it has run many times, in the order
// of their tables.
static void dump_passes(compilation *c, FILE *out) {
  for (int i = 0; i < c->runs.count; i++) {
    const pass_log *inner = &c->runs.items[i].inner;
    fprintf(out, "%s\n", c->runs.items[i].name);
    vec_each(const pass_log_stage, stage, inner->stages) {
      for (int n = 0; n < stage->stage->count; n++)
        if (stage->counts[n].runs)
          fprintf(out, "  %-9s %-18s %3d\n", stage->stage->name, stage->stage->name_of(n),
                  stage->counts[n].runs);
    }
  }
}

static void dump_header(compilation *c, FILE *out) {
  fputs(artifact_header(c->memory, &c->whole), out);
}
static void dump_manifest(compilation *c, FILE *out) {
  fputs(artifact_manifest(c->memory, &c->whole, true), out);
}

static void dump_binding(compilation *c, FILE *out, binding_framework framework) {
  fputs(bindings_print(c->memory, &c->whole, c->graph, compilation_module_name(c), framework), out);
}

static void dump_numpy(compilation *c, FILE *out) { dump_binding(c, out, BINDING_NUMPY); }
static void dump_torch(compilation *c, FILE *out) { dump_binding(c, out, BINDING_TORCH); }
static void dump_jax(compilation *c, FILE *out) { dump_binding(c, out, BINDING_JAX); }

static void dump_report(compilation *c, FILE *out) {
  for (int i = 0; i < c->recurrences.count; i++)
    fprintf(out, "%s%s", i ? "\n" : "", compilation_report(c, i));
}

static void dump_cost(compilation *c, FILE *out) {
  for (int i = 0; i < c->kernels.count; i++)
    fputs(schedule_costs(c->memory, c->kernels.items[i]), out);
}

// The body of a recurrence as the source wrote it; NULL where IR was read.
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
    const tile_program *back = schedule_kernel(k, KERNEL_BACKWARD)->program;
    int chunk = back->form == TILE_CHUNK ? back->chunk : k->chunk;
    fprintf(out, "%s%s", i ? "\n" : "",
            equations_print(c->memory, written, k->recurrence, chunk, style));
  }
  fputs(equations_end(style), out);
}

static void dump_equations(compilation *c, FILE *out) { print_equations(c, out, EQUATIONS_TEXT); }
static void dump_latex(compilation *c, FILE *out) { print_equations(c, out, EQUATIONS_LATEX); }

static void dump_llvm(compilation *c, FILE *out) { fputs(c->object->llvm, out); }
static void dump_assembly(compilation *c, FILE *out) { fputs(c->object->assembly, out); }

// Every image that was asked for, one after another. PTX says what it was made from and by what.
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

static void dump_gpu_cost(compilation *c, FILE *out) {
  c->failure = artifact_gpu_cost(c->memory, &c->whole, c->linked, c->gpu_object, out);
}

static void print_sizes(FILE *out, const codegen_function_sizes *sizes) {
  vec_each(const codegen_function_size, f, *sizes)
    fprintf(out, "%6d %s\n", f->instructions, f->symbol);
}

static void dump_gpu_functions(compilation *c, FILE *out) {
  if (c->gpu_object) print_sizes(out, &c->gpu_object->functions);
}

static void dump_functions(compilation *c, FILE *out) {
  dump_gpu_functions(c, out);
  print_sizes(out, &c->object->functions);
}

// ---- the table -------------------------------------------------------------------------------

static const emission emissions[] = {
    {"tokens", LAYER_SOURCE, dump_tokens, 0, "//"},
    {"ast", LAYER_SYNTAX, dump_syntax, 0, "//"},
    {"types", LAYER_TYPED, dump_types, 0, "//"},
    {"graph", LAYER_TYPED, dump_graph, 0, "//"},
    {"recurrence", LAYER_RECURRENCE, dump_recurrences, 0, "//"},
    {"tile", LAYER_KERNEL, dump_tile, 0, "//"},
    {"backward", LAYER_KERNEL, dump_backward, EMISSION_BACKWARD, "//"},
    {"gpu-tile", LAYER_KERNEL, dump_gpu_tile, EMISSION_GPU, "//"},
    {"gpu-backward", LAYER_KERNEL, dump_gpu_backward, EMISSION_GPU | EMISSION_BACKWARD, "//"},
    {"gpu-model", LAYER_KERNEL, dump_gpu_model, EMISSION_GPU, "//"},
    {"plan", LAYER_PLAN, dump_plan, 0, "//"},
    {"report", LAYER_KERNEL, dump_report, 0, "//"},
    {"cost", LAYER_KERNEL, dump_cost, 0, "//"},
    {"equations", LAYER_KERNEL, dump_equations, 0, "//"},
    {"latex", LAYER_KERNEL, dump_latex, 0, "%"},
    {"passes", LAYER_PLAN, dump_passes, 0, "//"},
    {"header", LAYER_CONTENTS, dump_header, EMISSION_LIBRARY, "//"},
    {"manifest", LAYER_CONTENTS, dump_manifest, EMISSION_LIBRARY, NULL},
    {"numpy", LAYER_LIBRARY, dump_numpy, EMISSION_BINDING, "#"},
    {"torch", LAYER_LIBRARY, dump_torch, EMISSION_BINDING | EMISSION_LAYERS, "#"},
    {"jax", LAYER_LIBRARY, dump_jax, EMISSION_BINDING, "#"},
    {"hf-kernel", LAYER_LIBRARY, dump_torch,
     EMISSION_BINDING | EMISSION_LAYERS | EMISSION_HF_KERNEL, "#"},
    {"functions", LAYER_OBJECT, dump_functions, 0, "//"},
    {"llvm", LAYER_OBJECT, dump_llvm, EMISSION_TEXT, ";"},
    {"asm", LAYER_OBJECT, dump_assembly, EMISSION_TEXT, "#"},
    {"ptx", LAYER_OBJECT, dump_images, EMISSION_GPU, "//"},
    {"simt", LAYER_OBJECT, dump_images, EMISSION_GPU | EMISSION_EXECUTOR, ";"},
    {"gpu-functions", LAYER_OBJECT, dump_gpu_functions, EMISSION_GPU | EMISSION_MODULE, "//"},
    {"gpu-hash", LAYER_OBJECT, dump_gpu_hash, EMISSION_GPU | EMISSION_MODULE, "//"},
    {"gpu-header", LAYER_CONTENTS, dump_gpu_header, EMISSION_GPU, "//"},
    {"gpu-cost", LAYER_LINKED, dump_gpu_cost, EMISSION_COUNT, "//"},
    {"resources", LAYER_OBJECT, dump_resources, EMISSION_GPU | EMISSION_MODULE, "//"},
};

const emission *emission_find(const char *name) {
  for (size_t i = 0; i < sizeof emissions / sizeof *emissions; i++)
    if (strcmp(emissions[i].name, name) == 0) return &emissions[i];
  return NULL;
}

const char *emission_names(arena *a) {
  const char *names = emissions[0].name;
  for (size_t i = 1; i < sizeof emissions / sizeof *emissions; i++)
    names = arena_printf(a, "%s, %s", names, emissions[i].name);
  return names;
}

bool emission_print(compilation *c, const emission *what, FILE *out) {
  const char *path =
      what->needs & EMISSION_BINDING ? compilation_binding_path(c) : c->options->output;
  if (!path) {
    what->dump(c, out);
    return c->failure == NULL;
  }
  char *text = NULL;
  size_t size = 0;
  FILE *memory = open_memstream(&text, &size);
  if (!memory) ICE("emit", "no memory");
  what->dump(c, memory);
  fclose(memory);
  // pass_write has checked a binding with its library
  bool good = what->needs & EMISSION_BINDING || compilation_may_write(c);
  if (good)
    c->failure =
        write_file(c->memory, path, text, size, what->comment, OUTPUT_FOLLOW | OUTPUT_MARK);
  free(text);
  return c->failure == NULL;
}
