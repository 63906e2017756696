// Where the results of a compilation go, and the passes that write them.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/base/program.h"
#include "compiler/base/text.h"
#include "compiler/bindings/bindings.h"
#include "compiler/passes.h"

// ---- paths -----------------------------------------------------------------------------------

const char *compilation_module_name(const compilation *c) {
  const char *standard = program_standard_name(c->options->path);
  return bindings_module_name(c->memory, standard ? program_standard_stem(standard) : c->options->path);
}

// What is made for Python: in the folder that -o names, else in the current one.
static const char *beside_binding(const compilation *c, const char *name) {
  const char *folder = c->options->output ? arena_printf(c->memory, "%s/", c->options->output) : "";
  return arena_printf(c->memory, "%s%s%s", folder, c->needs & EMISSION_HF_KERNEL ? HF_KERNEL_FOLDER "/" : "", name);
}

// A Python file or its library.
static const char *binding_path(const compilation *c, const char *before, const char *behind) {
  return beside_binding(c, arena_printf(c->memory, "%s%s%s", before, compilation_module_name(c), behind));
}

const char *compilation_binding_path(const compilation *c) { return binding_path(c, "", ".py"); }

// In the current folder: that of the program may be another's, and std.NAME has none.
const char *compilation_library_path(const compilation *c) {
  // `import gla` would take gla.so for a module in C.
  if (c->needs & EMISSION_BINDING) return binding_path(c, "lib", ".so");
  if (c->options->output) return c->options->output;
  const char *standard = program_standard_name(c->options->path);
  return arena_printf(c->memory, "%s.so", standard ? program_standard_stem(standard) : file_stem(c->memory, c->options->path));
}

const char *compilation_library_name(const compilation *c) { return file_stem(c->memory, compilation_library_path(c)); }

// ---- files -----------------------------------------------------------------------------------

// NULL, or why there is no folder of this name.
static const char *make_folder(const compilation *c, const char *folder) {
  if (!folder || mkdir(folder, 0777) == 0 || errno == EEXIST) return NULL;
  return arena_printf(c->memory, "cannot make the folder '%s': %s", folder, strerror(errno));
}

// NULL, or why there is no folder for a Python file and its library.
static const char *make_binding_folder(const compilation *c) {
  const char *folder = c->options->output, *failure = make_folder(c, folder);
  if (failure || !(c->needs & EMISSION_HF_KERNEL)) return failure;
  const char *before = folder ? arena_printf(c->memory, "%s/", folder) : "";
  failure = make_folder(c, arena_printf(c->memory, "%sbuild", before));
  return failure ? failure : make_folder(c, arena_printf(c->memory, "%s%s", before, HF_KERNEL_FOLDER));
}

// NULL, or why the files of Hugging Face's `kernels` were not written.
static const char *write_hf_kernel(const compilation *c) {
  const char *name = compilation_module_name(c);
  const char *package = hf_kernel_package(c->memory, &c->whole, name);
  const char *metadata = hf_kernel_metadata(c->memory, &c->whole, name);
  const char *failure = write_file(c->memory, beside_binding(c, "__init__.py"), package, strlen(package), false);
  return failure ? failure : write_file(c->memory, beside_binding(c, "metadata.json"), metadata, strlen(metadata), false);
}

bool pass_write(compilation *c) {
  bool binding = c->needs & EMISSION_BINDING;
  if (binding) c->failure = make_binding_folder(c);
  if (!c->failure) c->failure = artifact_write(c->memory, &c->whole, c->linked, compilation_library_path(c), !binding);
  if (!c->failure && c->needs & EMISSION_HF_KERNEL) c->failure = write_hf_kernel(c);
  return c->failure == NULL;
}

// A path as make reads it.
static const char *make_path(arena *a, const char *path) {
  const char *escaped = "";
  for (const char *p = path; *p; p++) {
    const char *escape = *p == ' ' || *p == '#' ? "\\" : *p == '$' ? "$" : "";
    escaped = arena_printf(a, "%s%s%c", escaped, escape, *p);
  }
  return escaped;
}

// OUT.d: what the library was made from, as a rule for make.
bool pass_write_dependencies(compilation *c) {
  if (!c->options->write_dependencies) return true;
  const char *rule = arena_printf(c->memory, "%s:", make_path(c->memory, compilation_library_path(c)));
  for (int i = 0; i < c->library.sources.count; i++) {
    const source *file = c->library.sources.items[i];
    if (file->is_file) rule = arena_printf(c->memory, "%s %s", rule, make_path(c->memory, file->path));
  }
  rule = arena_printf(c->memory, "%s\n", rule);
  const char *path = arena_printf(c->memory, "%s.d", compilation_library_path(c));
  c->failure = write_file(c->memory, path, rule, strlen(rule), false);
  return c->failure == NULL;
}
