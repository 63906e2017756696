#include "compiler/base/program.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "compiler/base/text.h"

static size_t name_length(const char *text) {
  size_t length = 0;
  while (isalnum((unsigned char)text[length]) || text[length] == '_') length++;
  return length;
}

// std.gla.rec and std.gla.so are files that lie here.
static bool is_extension(const char *word) {
  return strcmp(word, "rec") == 0 || strcmp(word, "so") == 0 || strcmp(word, "a") == 0 ||
         strcmp(word, "o") == 0;
}

const char *program_standard_name(const char *word) {
  if (strncmp(word, "std.", 4) != 0) return NULL;
  const char *name = word + 4, *last = name;
  size_t length = name_length(name);
  if (length && name[length] == '.') {
    last = name + length + 1;
    if (is_extension(last)) return NULL;
    length = name_length(last);
  }
  return length && !last[length] ? name : NULL;
}

const char *program_standard_stem(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

const char *program_standard_path(arena *a, const char *name) {
  char *path = arena_printf(a, "stdlib/%s.rec", name), *stem = path + strlen("stdlib/");
  char *dot = strchr(stem, '.');
  if (dot != strrchr(stem, '.')) *dot = '/';
  return path;
}

// The file that declares a recurrence of this name.
static const embedded_file *find_declaring(arena *a, const embedded_file *stdlib,
                                           const char *recurrence) {
  const char *head = arena_printf(a, "\nrecurrence %s(", recurrence);
  for (const embedded_file *file = stdlib; file && file->name; file++)
    if (strstr((const char *)file->data, head)) return file;
  return NULL;
}

static const embedded_file *nearest(const embedded_file *stdlib, const char *name) {
  const embedded_file *best = NULL;
  int least = (int)strlen(name) / 3 + 1;
  for (const embedded_file *file = stdlib; file && file->name; file++) {
    int distance = edit_distance(name, file->name);
    if (distance < least) best = file, least = distance;
  }
  return best;
}

static const char *list_stdlib(arena *a, const embedded_file *stdlib) {
  const char *list = "";
  for (const embedded_file *file = stdlib; file && file->name; file++)
    list = arena_printf(a, "%s%s%s", list, *list ? ", " : "", file->name);
  return list;
}

// What the message about an unknown std.NAME adds: the file that has this recurrence, the nearest
// name, or all names.
static const char *suggest(arena *a, const embedded_file *stdlib, const char *name) {
  const embedded_file *file = find_declaring(a, stdlib, name);
  if (file) return arena_printf(a, "; the recurrence %s is in std.%s", name, file->name);
  file = nearest(stdlib, name);
  return file ? arena_printf(a, "; did you mean std.%s?", file->name)
              : arena_printf(a, "; there are %s", list_stdlib(a, stdlib));
}

const source *program_add_standard(sources *all, arena *a, const embedded_file *file) {
  const char *error;
  return sources_add(all, program_standard_path(a, file->name), (const char *)file->data,
                     file->size, &error);
}

static bool ends_in(const char *path, const char *end) {
  size_t length = strlen(path), tail = strlen(end);
  return length >= tail && strcmp(path + length - tail, end) == 0 &&
         (length == tail || path[length - tail - 1] == '/');
}

// The file of the standard library whose path this one ends in, or NULL.
static const embedded_file *standard_file_ending(arena *a, const embedded_file *stdlib,
                                                 const char *path) {
  for (const embedded_file *file = stdlib; file && file->name; file++)
    if (ends_in(path, program_standard_path(a, file->name))) return file;
  return NULL;
}

const char *program_meant(arena *a, const embedded_file *stdlib, const char *path) {
  if (access(path, F_OK) == 0) return NULL;
  const char *name = file_stem(a, path);
  const embedded_file *file = standard_file_ending(a, stdlib, path);
  if (!file) file = embedded_find(stdlib, name);
  if (!file) file = find_declaring(a, stdlib, name);
  return file ? arena_printf(a, "std.%s", file->name) : NULL;
}

const source *program_load(sources *all, arena *a, const embedded_file *stdlib, const char *word,
                           const char **error) {
  const char *name = program_standard_name(word);
  const embedded_file *file = name ? embedded_find(stdlib, name) : NULL;
  if (file) return program_add_standard(all, a, file);
  if (name) {
    *error = arena_printf(a, "expected a file of the standard library, found '%s'%s", word,
                          suggest(a, stdlib, name));
    return NULL;
  }
  const source *loaded = sources_load(all, word, error);
  const char *meant = loaded ? NULL : program_meant(a, stdlib, word);
  if (meant) *error = arena_printf(a, "%s; the standard library's is %s", *error, meant);
  return loaded;
}
