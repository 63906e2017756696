// Relocatable objects become a library: calls link.cpp, and brings what it makes into the arena.
#include "compiler/emit/link.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/embedded.h"
#include "compiler/base/vec.h"
#include "compiler/plan/machine.h"

enum { MESSAGE_SIZE = 4096 };

int link_elf(const unsigned char *const *files, const size_t *sizes, int count, const char *soname,
             const char *path, char *message, size_t message_size);
int link_copy(const unsigned char *object, size_t size, const char *const *renamed,
              int renamed_count, const char *const *kept, int kept_count, int hide,
              unsigned char **copy, size_t *copy_size, char *message, size_t message_size);
int link_archive_of(const unsigned char *object, size_t size, const char *name,
                    unsigned char **archive, size_t *archive_size, char *message,
                    size_t message_size);

typedef struct link_files {
  VEC(const unsigned char *) bytes;
  VEC(size_t) sizes;
} link_files;

static void add_link_file(arena *a, link_files *files, const unsigned char *bytes, size_t size) {
  vec_push(a, &files->bytes, bytes);
  vec_push(a, &files->sizes, size);
}

static const char *link_all(arena *a, link_files files, const char *soname, const char *path) {
  char message[MESSAGE_SIZE];
  if (link_elf(files.bytes.items, files.sizes.items, files.bytes.count, soname, path, message,
               sizeof message))
    return arena_strdup(a, message);
  return NULL;
}

// What the object is linked against: the C library of its processor.
static const embedded_file *c_library_of(const link_object *object) {
  static const int host = PROCESSOR_HOST == PROCESSOR_X86_64 ? EM_X86_64 : EM_AARCH64;
  Elf64_Ehdr header;
  if (object->size < sizeof header) return embedded_c_library;
  memcpy(&header, object->bytes, sizeof header);
  return header.e_machine == host ? embedded_c_library : embedded_c_library_cross;
}

const char *link_shared_library(arena *a, const link_object *objects, int count, const char *soname,
                                const char *path) {
  link_files files = {0};
  for (int i = 0; i < count; i++) add_link_file(a, &files, objects[i].bytes, objects[i].size);
  for (const embedded_file *file = c_library_of(&objects[0]); file->name; file++)
    add_link_file(a, &files, file->data, file->size);
  return link_all(a, files, soname, path);
}

const char *link_one_object(arena *a, const link_object *objects, int count, const char *path) {
  link_files files = {0};
  for (int i = 0; i < count; i++) add_link_file(a, &files, objects[i].bytes, objects[i].size);
  return link_all(a, files, NULL, path);
}

static void replace_bytes(arena *a, link_object *object, unsigned char *bytes, size_t size) {
  unsigned char *copy = arena_alloc(a, size);
  memcpy(copy, bytes, size);
  free(bytes);
  object->bytes = copy;
  object->size = size;
}

typedef struct changes {
  const char *const *renamed, *const *kept;
  int renamed_count, kept_count;
  bool hide;
} changes;

static const char *change_object(arena *a, link_object *object, changes c) {
  char message[MESSAGE_SIZE];
  unsigned char *bytes;
  size_t size;
  if (link_copy(object->bytes, object->size, c.renamed, c.renamed_count, c.kept, c.kept_count,
                c.hide, &bytes, &size, message, sizeof message))
    return arena_strdup(a, message);
  replace_bytes(a, object, bytes, size);
  return NULL;
}

const char *link_rename(arena *a, link_object *object, const char *const *renamed, int count) {
  return change_object(a, object, (changes){.renamed = renamed, .renamed_count = count});
}

const char *link_hide(arena *a, link_object *object) {
  return change_object(a, object, (changes){.hide = true});
}

const char *link_keep(arena *a, link_object *object, const char *const *kept, int count) {
  return change_object(a, object, (changes){.kept = kept, .kept_count = count});
}

const char *link_archive(arena *a, link_object *object) {
  char message[MESSAGE_SIZE];
  unsigned char *bytes;
  size_t size;
  if (link_archive_of(object->bytes, object->size, object->name, &bytes, &size, message,
                      sizeof message))
    return arena_strdup(a, message);
  replace_bytes(a, object, bytes, size);
  return NULL;
}
