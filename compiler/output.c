// Where the results of a compilation go, and the passes that write them.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/abi/output.h"
#include "compiler/base/program.h"
#include "compiler/base/text.h"
#include "compiler/bindings/bindings.h"
#include "compiler/passes.h"

// ---- paths -----------------------------------------------------------------------------------

const char *compilation_module_name(const compilation *c) {
  const char *standard = program_standard_name(c->options->path);
  return bindings_module_name(c->memory,
                              standard ? program_standard_stem(standard) : c->options->path);
}

// What is made for Python: in the folder that -o names, else in the current one.
static const char *beside_binding(const compilation *c, const char *name) {
  const char *folder = c->options->output ? arena_printf(c->memory, "%s/", c->options->output) : "";
  return arena_printf(c->memory, "%s%s%s", folder,
                      c->needs & EMISSION_HF_KERNEL ? HF_KERNEL_FOLDER "/" : "", name);
}

// A Python file or its library.
static const char *binding_path(const compilation *c, const char *before, const char *behind) {
  return beside_binding(
      c, arena_printf(c->memory, "%s%s%s", before, compilation_module_name(c), behind));
}

const char *compilation_binding_path(const compilation *c) { return binding_path(c, "", ".py"); }

// In the current folder: that of the program may be another's, and std.NAME has none.
const char *compilation_library_path(const compilation *c) {
  // `import gla` would take gla.so for a module in C.
  if (c->needs & EMISSION_BINDING) return binding_path(c, "lib", ".so");
  if (c->options->output) return c->options->output;
  const char *standard = program_standard_name(c->options->path);
  return arena_printf(
      c->memory, "%s.so",
      standard ? program_standard_stem(standard) : file_stem(c->memory, c->options->path));
}

const char *compilation_library_name(const compilation *c) {
  return file_stem(c->memory, compilation_library_path(c));
}

// The header beside a library; NULL: a Python file calls this one, or it goes to a pipe or a
// device.
static const char *header_path(const compilation *c) {
  size_t stem;
  const char *library = compilation_library_path(c);
  if (c->needs & EMISSION_BINDING || output_stands(library)) return NULL;
  artifact_kind_of(library, &stem);
  return arena_printf(c->memory, "%.*s.h", (int)stem, library);
}

static const char *dependencies_path(const compilation *c) {
  return arena_printf(c->memory, "%s.d", compilation_library_path(c));
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

// What a rule for make begins with.
static const char *rule_target(const compilation *c) {
  return arena_printf(c->memory, "%s:", make_path(c->memory, compilation_library_path(c)));
}

// ---- what may be written -----------------------------------------------------------------------

typedef struct written_file {
  const char *path;
  output_proof proof;
} written_file;

typedef VEC(written_file) written_files;

static void add_written(const compilation *c, written_files *all, const char *path) {
  if (path) vec_push(c->memory, all, ((written_file){.path = path}));
}

// All files that a compilation will write.
static written_files list_written(const compilation *c) {
  written_files all = {0};
  bool binding = c->needs & EMISSION_BINDING;
  if (c->options->emit && !binding) return add_written(c, &all, c->options->output), all;
  add_written(c, &all, compilation_library_path(c));
  add_written(c, &all, header_path(c));
  // Readers of rules for make expect no comments.
  written_file rule = {dependencies_path(c), {.first = rule_target(c)}};
  if (c->options->write_dependencies) vec_push(c->memory, &all, rule);
  if (binding) add_written(c, &all, compilation_binding_path(c));
  if (!(c->needs & EMISSION_HF_KERNEL)) return all;
  const char *package = beside_binding(c, "__init__.py");
  written_file metadata = {beside_binding(c, "metadata.json"), {.noted_in = package}};
  vec_push(c->memory, &all, metadata);
  add_written(c, &all, package);
  return all;
}

static bool path_exists(const char *path) {
  struct stat about;
  return stat(path, &about) == 0;
}

// `import leaky` takes leaky.so before leaky.py, and finds no module in a library. NULL, or why a
// file must not be written.
static const char *find_shadow(arena *a, const char *path) {
  size_t length = strlen(path);
  bool library = length > 3 && strcmp(path + length - 3, ".so") == 0;
  if (!library && (length < 3 || strcmp(path + length - 3, ".py") != 0)) return NULL;
  const char *other = arena_printf(a, "%.*s%s", (int)length - 3, path, library ? ".py" : ".so");
  if (!path_exists(other)) return NULL;
  if (!library)
    return arena_printf(a,
                        "%s: expected no %s beside it, which Python would import in its place; -o "
                        "names another folder",
                        path, file_name(other));
  size_t folder = (size_t)(file_name(path) - path);
  return arena_printf(a,
                      "%s: expected no %s beside it, in whose place Python would import the "
                      "library; -o %.*slib%s is a name "
                      "that is free of that",
                      path, file_name(other), (int)folder, path, path + folder);
}

bool compilation_may_write(compilation *c) {
  char why[OUTPUT_WHY];
  written_files all = list_written(c);
  output_note_input_path(c->options->path);
  for (int i = 0; i < all.count && !c->failure; i++) {
    const written_file *file = &all.items[i];
    if (!output_allowed(file->path, &file->proof, c->options->again, why))
      c->failure = arena_strdup(c->memory, why);
    if (!c->failure) c->failure = find_shadow(c->memory, file->path);
  }
  return c->failure == NULL;
}

// ---- files -----------------------------------------------------------------------------------

// NULL, or why there is no folder of this name.
static const char *make_output_folder(const compilation *c, const char *folder) {
  if (!folder || mkdir(folder, 0777) == 0 || errno == EEXIST) return NULL;
  return arena_printf(c->memory, "cannot make the folder '%s': %s", folder, strerror(errno));
}

// NULL, or why there is no folder for a Python file and its library.
static const char *make_binding_folder(const compilation *c) {
  const char *folder = c->options->output, *failure = make_output_folder(c, folder);
  if (failure || !(c->needs & EMISSION_HF_KERNEL)) return failure;
  const char *before = folder ? arena_printf(c->memory, "%s/", folder) : "";
  failure = make_output_folder(c, arena_printf(c->memory, "%sbuild", before));
  return failure ? failure
                 : make_output_folder(c, arena_printf(c->memory, "%s%s", before, HF_KERNEL_FOLDER));
}

// NULL, or why a text was not written.
static const char *write_text_output(const compilation *c, const char *path, const char *text,
                                     const char *comment) {
  return write_file(c->memory, path, text, strlen(text), comment, OUTPUT_FOLLOW | OUTPUT_MARK);
}

// NULL, or why the files of Hugging Face's `kernels` were not written.
static const char *write_hf_kernel(const compilation *c) {
  char note[OUTPUT_NOTE];
  const char *name = compilation_module_name(c);
  const char *metadata = hf_kernel_metadata(c->memory, &c->whole, name);
  output_note(note, "metadata.json", metadata, strlen(metadata));
  const char *package = hf_kernel_package(c->memory, &c->whole, name, note);
  const char *failure = write_text_output(c, beside_binding(c, "__init__.py"), package, "#");
  return failure ? failure
                 : write_text_output(c, beside_binding(c, "metadata.json"), metadata, NULL);
}

static const char *write_library(const compilation *c) {
  size_t stem;
  const char *path = compilation_library_path(c), *header = header_path(c);
  bool executable = artifact_kind_of(path, &stem) == ARTIFACT_SHARED;
  unsigned flags = OUTPUT_FOLLOW | OUTPUT_MARK | (executable ? OUTPUT_EXECUTABLE : 0);
  const char *failure = write_file(c->memory, path, c->linked.bytes, c->linked.size, NULL, flags);
  return failure || !header
             ? failure
             : write_text_output(c, header, artifact_header(c->memory, &c->whole), "//");
}

bool pass_write(compilation *c) {
  if (!compilation_may_write(c)) return false;
  if (c->needs & EMISSION_BINDING) c->failure = make_binding_folder(c);
  if (!c->failure) c->failure = write_library(c);
  if (!c->failure && c->needs & EMISSION_HF_KERNEL) c->failure = write_hf_kernel(c);
  return c->failure == NULL;
}

// OUT.d: what the library was made from, as a rule for make.
bool pass_write_dependencies(compilation *c) {
  if (!c->options->write_dependencies) return true;
  const char *rule = rule_target(c);
  for (int i = 0; i < c->library.sources.count; i++) {
    const source *file = c->library.sources.items[i];
    if (file->is_file)
      rule = arena_printf(c->memory, "%s %s", rule, make_path(c->memory, file->path));
  }
  rule = arena_printf(c->memory, "%s\n", rule);
  c->failure = write_text_output(c, dependencies_path(c), rule, NULL);
  return c->failure == NULL;
}
