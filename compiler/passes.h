// The passes that pipeline.c has in its tables, and what they hand on.
#pragma once

#include "compiler/base/pass.h"
#include "compiler/emission.h"
#include "compiler/graph/graph.h"

// A pass that has run, and the passes of other tables that it has run.
typedef struct pass_run {
  const char *name;
  double seconds, processor;
  pass_log inner;
} pass_run;

// Everything that one compilation has made so far.
struct compilation {
  arena *memory;
  interner *names;
  const compile_options *options;
  VEC(struct compilation *) variants;  // of the first variant: itself and the others
  VEC(int) picks;                      // by choice of `options`: the size of this variant
  unsigned needs;                      // of what --emit prints: EMISSION_..
  sources *files;
  diag *messages;
  VEC(pass_run) runs;   // the passes so far, in order
  const char *failure;  // a pass's own one line, for what has no place in a source
  const source *source;
  ast_file *syntax;
  typed_program *typed;
  graph_program *graph;            // NULL: no layers and models
  VEC(const typed_body *) bodies;  // of the recurrences, as the source has them
  VEC(recurrence *) recurrences;
  VEC(recurrence_delays *) delays;  // by recurrence; NULL: it has no long lags
  VEC(recurrence_kernels *) kernels;
  VEC(gpu_forms) gpu;                  // by recurrence
  const tile_program *tile;            // --from=tile,
  tile_gradient tile_gradient;         // its backward, if it is printed
  kernel *tile_on_host, *tile_on_gpu;  // and kernels for it alone; GPU: NULL, if no target is one
  artifact library;                    // of the variant
  artifact whole;                      // of the first variant: that of all together
  codegen_input contents;
  codegen_job *host_job;        // which makes `object` meanwhile; NULL: there is none
  artifact_assembly *assembly;  // of gpu_object, which goes on meanwhile; NULL: there is none
  codegen_object *object;
  codegen_gpu_object *gpu_object;
  link_object linked;
};

// A pass. False: it cannot go on; messages or `failure` say why.
bool pass_load(compilation *c);
bool pass_parse(compilation *c);
bool pass_vary(compilation *c);
bool pass_check(compilation *c);
bool pass_graph(compilation *c);
bool pass_analyse(compilation *c);
bool pass_read_recurrence(compilation *c);
bool pass_read_tile(compilation *c);
bool pass_simplify(compilation *c);
bool pass_delay(compilation *c);
bool pass_schedule(compilation *c);
bool pass_schedule_gpu(compilation *c);
bool pass_schedule_large(compilation *c);
bool pass_schedule_groups(compilation *c);
bool pass_schedule_few(compilation *c);
bool pass_differentiate_tile(compilation *c);
bool pass_schedule_tile(compilation *c);
bool pass_plan(compilation *c);
bool pass_lay_out(compilation *c);
bool pass_join(compilation *c);
bool pass_begin_host(compilation *c);
bool pass_gpu_code(compilation *c);
bool pass_host_code(compilation *c);
bool pass_assemble(compilation *c);
bool pass_link(compilation *c);
bool pass_write(compilation *c);
bool pass_write_dependencies(compilation *c);

// Verifiers: NULL, or what is wrong.
const char *verify_recurrences(compilation *c);
const char *verify_delays(compilation *c);
const char *verify_kernels(compilation *c);
const char *verify_gpu_kernels(compilation *c);
const char *verify_tile(compilation *c);

// variants.c: is the recurrence, layer or model declared in the file itself? Does a -D of several
// sizes decide an axis of the recurrence? Has a variant before this one all that the recurrence has?
bool compilation_has_body(const compilation *c, const typed_body *body);
bool variant_concerns(const compilation *c, const size_choice *choice, const typed_body *body);
bool variant_is_repeated(const compilation *c, const typed_body *body);
// "_f32_K64_V128": of what there are several.
const char *variant_suffix(const compilation *c, const typed_body *body);

// The GPUs that --target and --emit ask for (bits 1 << GPU_..), and how kernels are made for them.
unsigned compilation_gpu_targets(const compilation *c);
codegen_gpu_options compilation_gpu_options(const compilation *c);
// All kernels for GPUs, each once.
const kernel_list *compilation_gpu_kernels(compilation *c);
// Text of --emit=report for a recurrence.
const char *compilation_report(compilation *c, int index);
// The library, and its name without folder and ending (output.c).
const char *compilation_library_path(const compilation *c);
const char *compilation_library_name(const compilation *c);
// The Python file of --emit=numpy, .., whose library lies beside it.
const char *compilation_binding_path(const compilation *c);
// Its name, as Python imports it.
const char *compilation_module_name(const compilation *c);
// False: `failure` says which of the files that the compilation writes is an input, or one that
// recc did not write.
bool compilation_may_write(compilation *c);
