// Puts a library together and writes it.
//
//   kernels, tables, manifest, thunks --codegen--> objects --lld, with the support object-->
//     NAME.so, NAME.a or NAME.o, and NAME.h beside it
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/abi/library.h"
#include "compiler/artifact/abi.h"
#include "compiler/artifact/tables.h"
#include "compiler/base/embedded.h"
#include "compiler/base/ice.h"
#include "compiler/base/text.h"

// Dots keep names apart from those of entry points.
static const char images_symbol[] = "rec.images";

// Targets that are PTX.
static unsigned ptx_targets(unsigned targets) { return targets & ~(1u << GPU_SIMT); }

artifact_kernels artifact_describe(arena *a, const artifact *library,
                                   const artifact_recurrence *r) {
  codegen_options options = {
      .level = library->level, .dtype = library->dtype, .clones = library->clones};
  codegen_gpu_options gpu_options = {
      .dtype = library->dtype, .tf32 = library->tf32, .targets = library->gpu_targets};
  artifact_kernels described = {.simt = library->gpu_targets >> GPU_SIMT & 1,
                                .folds = library->summary};
  if (ptx_targets(library->gpu_targets)) described.images = images_symbol;
  for (int k = 0; k < r->kernels->kernels.count; k++)
    vec_push(a, &described.host, codegen_describe(a, &r->kernels->kernels.items[k], options));
  const recurrence_kernels *classes[REC_GPU_CLASSES] = {
      r->gpu.small, r->gpu.large ? r->gpu.large : r->gpu.small,
      r->gpu.warpgroups ? r->gpu.warpgroups : r->gpu.small};
  for (int devices = 0; devices < REC_GPU_CLASSES; devices++)
    for (int k = 0; classes[devices] && k < classes[devices]->kernels.count; k++)
      vec_push(a, &described.gpu[devices],
               codegen_gpu_describe(a, &classes[devices]->kernels.items[k], gpu_options));
  return described;
}

static const struct {
  const char *name;
  int arguments;
} entries[] = {{"forward", 2}, {"backward", 2},         {"step", 2}, {"sizes", 2},
               {"summary", 3}, {"summary_backward", 3}, {"fold", 3}, {"combine", 4}};
enum { ENTRIES = sizeof entries / sizeof *entries, FOREIGN_ARGUMENTS = 4 };

typedef VEC(codegen_blob) blob_list;
typedef VEC(codegen_thunk) thunk_list;

// The entry points of a symbol: `kind` entry, behind a table, or chosen, behind a choice.
static void add_thunks(arena *a, thunk_list *thunks, const char *symbol, const char *kind,
                       const char *data) {
  for (int e = 0; e < ENTRIES; e++)
    vec_push(a, thunks,
             (codegen_thunk){arena_printf(a, "%s_%s", symbol, entries[e].name),
                             arena_printf(a, "rec_%s_%s", entries[e].name, kind), data, false,
                             entries[e].arguments});
}

// Functions that foreign runtimes look for: what stands before NAME_forward, .., and the kind of
// entry behind it.
static const struct {
  const char *prefix, *entry, *kind;
} foreign_runtimes[] = {{"__tvm_ffi_", "forward", "tvm_ffi"}, {"__tvm_ffi_", "backward", "tvm_ffi"},
                        {"__tvm_ffi_", "step", "tvm_ffi"},    {"rec_xla_", "forward", "xla"},
                        {"rec_xla_", "backward", "xla"},      {"rec_xla_", "step", "xla"},
                        {"rec_xla_", "forward_cuda", "xla"},  {"rec_xla_", "backward_cuda", "xla"},
                        {"rec_xla_", "step_cuda", "xla"},     {"rec_torch_", "forward", "torch"},
                        {"rec_torch_", "save", "torch"},      {"rec_torch_", "step", "torch"},
                        {"rec_torch_", "backward", "torch"}};

static void add_foreign_thunks(arena *a, thunk_list *thunks, const char *symbol, const char *data) {
  for (size_t i = 0; i < sizeof foreign_runtimes / sizeof *foreign_runtimes; i++) {
    const char *entry = foreign_runtimes[i].entry;
    vec_push(a, thunks,
             (codegen_thunk){arena_printf(a, "%s%s_%s", foreign_runtimes[i].prefix, symbol, entry),
                             arena_printf(a, "rec_%s_%s", entry, foreign_runtimes[i].kind), data,
                             true, FOREIGN_ARGUMENTS});
  }
}

static bool is_first_variant(const artifact *whole, int index) {
  for (int i = 0; i < index; i++)
    if (strcmp(whole->recurrences.items[i].plain, whole->recurrences.items[index].plain) == 0)
      return false;
  return true;
}

// What foreign runtimes call: each recurrence with all of its variants.
static void add_foreign(arena *a, const artifact *whole, blob_list *blobs, thunk_list *thunks) {
  for (int i = 0; i < whole->recurrences.count; i++) {
    if (!is_first_variant(whole, i)) continue;
    const char *plain = whole->recurrences.items[i].plain,
               *data = arena_printf(a, "%s.variants", plain);
    vec_push(a, blobs, artifact_variants_table(a, whole, plain, data));
    add_foreign_thunks(a, thunks, plain, data);
  }
}

// The manifest, and the entry points that stand for several variants.
static void add_whole_library(arena *a, const artifact *whole, blob_list *blobs,
                              thunk_list *thunks) {
  const char *manifest = artifact_manifest(a, whole, false);
  vec_push(a, blobs,
           (codegen_blob){.symbol = arena_printf(a, "%srec_manifest", whole->prefix),
                          .bytes = manifest,
                          .size = (int64_t)strlen(manifest) + 1,
                          .exported = true});
  vec_each(const artifact_entry, entry, whole->entries) {
    const char *of = entry->same_as ? entry->same_as : entry->symbol;
    bool picks = !entry->same_as || artifact_entry_named(whole, of);
    const char *data = arena_printf(a, "%s.%s", of, picks ? "choice" : "table");
    if (!entry->same_as) vec_push(a, blobs, artifact_choice_table(a, whole, entry, data));
    add_thunks(a, thunks, entry->symbol, picks ? "chosen" : "entry", data);
  }
  add_foreign(a, whole, blobs, thunks);
}

codegen_input artifact_contents(arena *a, const artifact *library, const artifact *whole) {
  VEC(const kernel *) kernels = {0};
  blob_list blobs = {0};
  thunk_list thunks = {0};
  if (whole) add_whole_library(a, whole, &blobs, &thunks);
  vec_each(const artifact_recurrence, r, library->recurrences) {
    artifact_kernels described = artifact_describe(a, library, r);
    for (int k = 0; k < r->kernels->kernels.count; k++)
      vec_push(a, &kernels, &r->kernels->kernels.items[k]);
    const char *table = arena_printf(a, "%s.table", r->abi->symbol);
    const char *inner = r->delays ? arena_printf(a, "%s.inner", r->abi->symbol) : NULL;
    if (inner) {
      vec_push(a, &blobs, artifact_table(a, r, r->inner, &described, library->dtype, inner, NULL));
      described = (artifact_kernels){.simt = described.simt, .images = described.images};
    }
    vec_push(a, &blobs, artifact_table(a, r, r->abi, &described, library->dtype, table, inner));
    add_thunks(a, &thunks, r->abi->symbol, "entry", table);
  }
  return (codegen_input){kernels.items, kernels.count, blobs.items,
                         blobs.count,   thunks.items,  thunks.count};
}

// rec_gpu_images being made, and the code that it points to.
typedef struct image_list {
  arena *arena;
  VEC(codegen_blob) blobs;
  VEC(rec_gpu_image) images;
  VEC(codegen_address) addresses;
} image_list;

static void add_image(image_list *list, const char *kind, const codegen_gpu_image *image,
                      int32_t devices, const char *code, size_t bytes) {
  arena *a = list->arena;
  const char *symbol =
      arena_printf(a, "%s.%s%s", images_symbol, codegen_gpu_target_name(image->target), kind);
  size_t at = sizeof(rec_gpu_images) + sizeof(rec_gpu_image) * (size_t)list->images.count;
  vec_push(a, &list->addresses,
           (codegen_address){(int64_t)(at + offsetof(rec_gpu_image, code)), symbol});
  vec_push(a, &list->images,
           (rec_gpu_image){.capability = codegen_gpu_capability(image->target),
                           .devices = devices,
                           .device_class = image->device_class == CLASS_WARPGROUPS ? REC_GPU_GROUPS
                                           : image->device_class == CLASS_LARGE    ? REC_GPU_LARGE
                                                                                   : REC_GPU_SMALL,
                           .shared_bytes = image->shared_bytes});
  vec_push(a, &list->blobs, (codegen_blob){symbol, code, (int64_t)bytes, NULL, 0, false});
}

void artifact_add_images(arena *a, codegen_object *object, const codegen_gpu_object *gpu) {
  image_list list = {.arena = a};
  vec_each(const codegen_gpu_image, image, gpu->images) {
    if (image->target == GPU_SIMT) continue;
    bool exact = codegen_gpu_exact(image->target);
    add_image(&list, "", image, exact ? REC_GPU_EXACT : REC_GPU_LATER, image->text,
              strlen(image->text) + 1);
    if (image->cubin)
      add_image(&list, ".cubin", image, exact ? REC_GPU_EXACT_CUBIN : REC_GPU_CUBIN, image->cubin,
                image->cubin_bytes);
  }
  int count = list.images.count;
  if (!count) return;
  size_t bytes = sizeof(rec_gpu_images) + sizeof(rec_gpu_image) * (size_t)count;
  rec_gpu_images *table = arena_alloc(a, bytes);
  table->count = count;
  memcpy(table->items, list.images.items, sizeof(rec_gpu_image) * (size_t)count);
  vec_push(a, &list.blobs,
           (codegen_blob){images_symbol, table, (int64_t)bytes, list.addresses.items,
                          list.addresses.count, false});
  vec_push(a, &object->parts,
           codegen_data(a, list.blobs.items, list.blobs.count, object->processor));
}

// Links into memory, so that a full disk is an ordinary error of write_file. lld writes to a path
// or to standard output, and refuses paths that it cannot rename to. Standard output is therefore a
// file in memory for that moment. Without a soname a relocatable object is made.
static const char *link_in_memory(arena *a, const link_object *objects, int count,
                                  const char *soname, link_object *linked) {
  fflush(stdout);
  int file = memfd_create("library", MFD_CLOEXEC);
  int before = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);  // -1 if standard output is closed
  if (file < 0 || dup2(file, STDOUT_FILENO) < 0)
    return arena_printf(a, "no memory for the library: %s", strerror(errno));
  const char *error = soname ? link_shared_library(a, objects, count, soname, "-")
                             : link_one_object(a, objects, count, "-");
  if (before >= 0)
    dup2(before, STDOUT_FILENO);
  else
    close(STDOUT_FILENO);
  struct stat status;
  if (!error && fstat(file, &status) == 0) {
    unsigned char *copy = arena_alloc(a, (size_t)status.st_size);
    if (pread(file, copy, (size_t)status.st_size, 0) == status.st_size) {
      linked->bytes = copy;
      linked->size = (size_t)status.st_size;
    } else {
      error = "the linked library cannot be read back";
    }
  }
  close(file);
  if (before >= 0) close(before);
  return error;
}

static link_object embedded_object(const char *name) {
  const embedded_file *file = embedded_find(embedded_support, name);
  if (!file) ICE("artifact", "the object %s is not embedded", name);
  return (link_object){name, file->data, file->size};
}

static const struct {
  const char *ending;
  artifact_kind kind;
} kinds[] = {{".so", ARTIFACT_SHARED}, {".a", ARTIFACT_ARCHIVE}, {".o", ARTIFACT_OBJECT}};

artifact_kind artifact_kind_of(const char *path, size_t *stem) {
  size_t length = strlen(path);
  *stem = length;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    size_t ending = strlen(kinds[i].ending);
    if (length <= ending || strcmp(path + length - ending, kinds[i].ending) != 0) continue;
    *stem = length - ending;
    return kinds[i].kind;
  }
  return ARTIFACT_SHARED;
}

// One object whose hidden symbols are its own.
static const char *link_static(arena *a, const link_object *objects, int count, artifact_kind kind,
                               const char *name, link_object *linked) {
  size_t stem;
  artifact_kind_of(name, &stem);
  linked->name = arena_printf(a, "%.*s.o", (int)stem, name);
  const char *error = link_in_memory(a, objects, count, NULL, linked);
  if (!error) error = link_hide(a, linked);
  return !error && kind == ARTIFACT_ARCHIVE ? link_archive(a, linked) : error;
}

// The support code, whose exported symbol gets the library's prefix.
static const char *add_support(arena *a, const artifact *library, link_object *support) {
  codegen_processor processor = codegen_processor_of(library->clones);
  const char *row = processor == PROCESSOR_HOST ? "support" : "support_cross";
  if (!embedded_find(embedded_support, row))
    return arena_printf(a,
                        "expected a recc that was built where there is a C compiler for %s, found "
                        "one without its support code",
                        processor_rows[processor].name);
  *support = embedded_object(row);
  const char *const renamed[] = {"rec_error", arena_printf(a, "%srec_error", library->prefix)};
  return *library->prefix ? link_rename(a, support, renamed, 1) : NULL;
}

typedef VEC(link_object) object_list;

static bool has_executor(const artifact_part *part) {
  for (int i = 0; part->gpu && i < part->gpu->images.count; i++)
    if (part->gpu->images.items[i].target == GPU_SIMT) return true;
  return false;
}

static void add_objects(arena *a, const artifact_part *part, object_list *objects) {
  for (int i = 0; i < part->object->parts.count; i++)
    vec_push(a, objects, part->object->parts.items[i]);
  for (int i = 0; part->gpu && i < part->gpu->images.count; i++)
    if (part->gpu->images.items[i].target == GPU_SIMT)
      vec_push(a, objects, part->gpu->images.items[i].object);
}

// One object of a variant: its kernels, which have the same names in others, are local.
static const char *add_variant(arena *a, const artifact_part *part, object_list *objects) {
  object_list own = {0};
  link_object joined = {.name = "variant"};
  VEC(const char *) kept = {0};
  for (int i = 0; i < part->contents.thunk_count; i++) {
    vec_push(a, &kept, part->contents.thunks[i].symbol);
    vec_push(a, &kept, part->contents.thunks[i].data);
  }
  for (int i = 0; i < part->contents.blob_count; i++)
    if (part->contents.blobs[i].exported) vec_push(a, &kept, part->contents.blobs[i].symbol);
  add_objects(a, part, &own);
  const char *error = link_in_memory(a, own.items, own.count, NULL, &joined);
  if (!error) error = link_keep(a, &joined, kept.items, kept.count);
  vec_push(a, objects, joined);
  return error;
}

const char *artifact_link(arena *a, const artifact *whole, const artifact_part *parts, int count,
                          const char *library_path, link_object *linked) {
  object_list objects = {0};
  const char *error = NULL;
  bool executor = false;
  for (int i = 0; i < count && !error; i++) {
    executor |= has_executor(&parts[i]);
    if (count > 1)
      error = add_variant(a, &parts[i], &objects);
    else
      add_objects(a, &parts[i], &objects);
  }
  link_object support;
  if (!error) error = add_support(a, whole, &support);
  if (error) return error;
  vec_push(a, &objects, support);
  if (executor) vec_push(a, &objects, embedded_object("simt"));
  size_t stem;
  artifact_kind kind = artifact_kind_of(library_path, &stem);
  const char *name = file_name(library_path);
  if (kind != ARTIFACT_SHARED)
    return link_static(a, objects.items, objects.count, kind, name, linked);
  return link_in_memory(a, objects.items, objects.count, name, linked);
}
