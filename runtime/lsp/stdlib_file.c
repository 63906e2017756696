// Files of the standard library that an editor can open. rec carries their texts; the installation has them beside it. Elsewhere
// a copy is written for the user, which nobody can change by mistake.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/base/embedded.h"
#include "compiler/base/text.h"
#include "runtime/lsp/server.h"

static bool holds(const char *path, const embedded_file *file) {
  FILE *in = fopen(path, "rb");
  if (!in) return false;
  bool same = true;
  for (size_t i = 0; same && i <= file->size; i++) {
    int c = getc(in);
    same = i < file->size ? c == file->data[i] : c == EOF;
  }
  fclose(in);
  return same;
}

static const char *installed(arena *scratch, const embedded_file *file) {
  char self[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return NULL;
  self[length] = '\0';
  *strrchr(self, '/') = '\0';
  const char *path = arena_printf(scratch, "%s/../share/rec/stdlib/%s.rec", self, file->name);
  char *real = realpath(path, NULL);
  path = real && holds(real, file) ? arena_strdup(scratch, real) : NULL;
  free(real);
  return path;
}

// With the folders above it.
static bool make_folder(char *path) {
  for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = '\0';
    bool there = mkdir(path, 0755) == 0 || errno == EEXIST;
    *slash = '/';
    if (!there) return false;
  }
  return mkdir(path, 0755) == 0 || errno == EEXIST;
}

static bool write_copy(arena *scratch, const char *path, const embedded_file *file) {
  const char *part = arena_printf(scratch, "%s.%ld.part", path, (long)getpid());
  FILE *out = fopen(part, "wb");
  if (!out) return false;
  bool written = fwrite(file->data, 1, file->size, out) == file->size;
  written &= fchmod(fileno(out), 0444) == 0;
  written &= fclose(out) == 0;
  if (written && rename(part, path) == 0) return true;
  unlink(part);
  return false;
}

const char *lsp_stdlib_file(arena *scratch, const char *path) {
  const embedded_file *file = embedded_find(embedded_stdlib, file_stem(scratch, path));
  const char *found = file ? installed(scratch, file) : NULL, *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (found || !file) return found;
  if ((!cache || cache[0] != '/') && (!home || home[0] != '/')) return NULL;
  char *folder = cache && cache[0] == '/' ? arena_printf(scratch, "%s/rec/stdlib", cache)
                                          : arena_printf(scratch, "%s/.cache/rec/stdlib", home);
  const char *copy = arena_printf(scratch, "%s/%s.rec", folder, file->name);
  if (holds(copy, file)) return copy;
  return make_folder(folder) && write_copy(scratch, copy, file) ? copy : NULL;
}
